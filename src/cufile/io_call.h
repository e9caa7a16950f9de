// What blocking calls, batches and streams have in common: from arguments to bytes moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cufile/cufile_api.h"
#include "cufile/driver.h"

namespace headrace::cufile {

// Bytes; or -1 and an errno; or a negated CUfileOpError, which is in `error`, too.
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

// Where a request's bytes are or go.
struct Target {
  std::byte* memory = nullptr;
  device::MemoryPlace place;
  bool aligned = false;  // in memory; the request as a whole only if size and file offset are, too
};

// Checks [base + offset, + size) against what is registered and allocated. Fails with the recorded answers.
Outcome resolve(const Driver& driver, const void* base, std::size_t size, off_t offset, Target& target);
// The same where `place` of `base` is known and no device may be asked.
Outcome resolve_at(const Driver& driver, const device::MemoryPlace& place, const void* base, std::size_t size,
                   off_t offset, Target& target);
// Of file offset, direction and open mode.
Outcome check_file(const OpenFile& file, std::size_t size, off_t file_offset, bool write);

// How much of [offset, offset + size) a read can deliver now: less only at the end of the file.
Outcome readable_bytes(const OpenFile& file, std::size_t size, off_t file_offset);
// Moves all of it, blocking; fewer bytes only at the end of the file. The request has been checked.
Outcome move_bytes(Driver& driver, const OpenFile& file, const Target& target, std::size_t size, off_t file_offset,
                   bool write, PathBytes& paths);

inline bool page_aligned(std::uint64_t value) noexcept { return value % 4096 == 0; }
// Of device memory; kHostMemory for the rest.
int gpu_of(const device::MemoryPlace& place) noexcept;

}  // namespace headrace::cufile
