// Reading from a descriptor on the calling thread: the only file reads that are not an I/O engine's.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace::os {

// A signal ends a call early; this many in a row are a failure.
inline constexpr unsigned kMaxInterruptions = 100;
inline constexpr std::uint64_t kMaxBytesPerCall = 0x7ffff000;  // Linux moves no more in one call

enum class CachedRead : std::uint8_t { kDone, kNotCached, kEndOfFile, kFailed };

// Reads [offset, offset + out.size()) without waiting for a disk; kNotCached as soon as a page is missing. A file
// system that cannot tell is read with an ordinary, possibly blocking, read. `moved` is how many bytes came; `error` an
// errno.
CachedRead read_cached(int fd, std::uint64_t offset, std::span<std::byte> out, std::uint64_t& moved,
                       int& error) noexcept;

// How much of a range the page cache holds: nearly all (nearly_cached()), less, or nothing, asked without touching it.
// kUnknown where the kernel has no cachestat (Linux 6.5) or refuses it to a reader who may not write the file.
enum class Residency : std::uint8_t { kCached, kPartly, kNotCached, kUnknown };
Residency residency(int fd, std::uint64_t offset, std::uint64_t length) noexcept;

// Asks the kernel to bring a range into the page cache, and does not wait for it. A hint: failures are nobody's
// concern.
void want_cached(int fd, std::uint64_t offset, std::uint64_t length) noexcept;

// All of `out` or a failure: kShort where the file ends first, kIo with errno. `begin` is where in the file the object
// begins that `offset` is a place in, which failures name.
Status read_exactly(int fd, std::uint64_t offset, std::span<std::byte> out, std::uint64_t begin = 0);

// The first out.size() bytes of the file at `path`, opened for it: kNotFound, kPermission, kShort, kIo.
Status read_file_start(const char* path, std::span<std::byte> out);

void close_descriptor(int fd) noexcept;

}  // namespace headrace::os
