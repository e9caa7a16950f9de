// The common part of blocking calls, batches and streams: checks arguments and moves bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cufile/cufile_api.h"
#include "cufile/driver.h"

namespace headrace::cufile {

// A byte count; or -1 and an errno; or a negated CUfileOpError, which `error` holds as well.
struct Outcome {
  std::int64_t value = 0;
  int error = 0;
  bool ok() const noexcept { return value >= 0; }
};
inline Outcome moved(std::uint64_t bytes) noexcept { return {static_cast<std::int64_t>(bytes), 0}; }
inline Outcome failed_errno(int error) noexcept { return {-1, error}; }
inline Outcome failed(CUfileOpError code) noexcept {
  return {-static_cast<std::int64_t>(code), static_cast<int>(code)};
}
Outcome outcome_of(const Status& status) noexcept;

// The memory of a request.
struct Target {
  std::byte* memory = nullptr;
  device::MemoryPlace place;
  bool aligned = false;  // the memory is page-aligned; the request is only if size and file offset are, too
};

// Checks [base + offset, + size) against registered buffers and allocations. Failures match those recorded from cuFile.
Outcome resolve(const Driver& driver, const void* base, std::size_t size, off_t offset, Target& target);
// The same where `place` of `base` is known and no device may be called.
Outcome resolve_at(const Driver& driver, const device::MemoryPlace& place, const void* base, std::size_t size,
                   off_t offset, Target& target);
// Checks file offset, direction and open mode.
Outcome check_file(const OpenFile& file, std::size_t size, off_t file_offset, bool write);

// How much of [offset, offset + size) a read can deliver now: less than `size` only at the end of the file.
Outcome readable_bytes(const OpenFile& file, std::size_t size, off_t file_offset);
// Moves all bytes, blocking; fewer only at the end of the file. REQUIRES: the request has been checked.
Outcome move_bytes(Driver& driver, const OpenFile& file, const Target& target, std::size_t size, off_t file_offset,
                   bool write, PathBytes& paths);

inline bool page_aligned(std::uint64_t value) noexcept { return value % 4096 == 0; }
// The GPU's number for device memory; kHostMemory for the rest.
int gpu_of(const device::MemoryPlace& place) noexcept;

}  // namespace headrace::cufile
