// Reads from a descriptor on the calling thread: the only file reads that bypass an I/O engine.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace::os {

// A signal interrupts a call; this many interruptions in a row are a failure.
inline constexpr unsigned kMaxInterruptions = 100;
inline constexpr std::uint64_t kMaxBytesPerCall = 0x7ffff000;  // Linux transfers at most this much per call

enum class CachedRead : std::uint8_t { kDone, kNotCached, kEndOfFile, kFailed };

// Reads [offset, offset + out.size()) without waiting for a disk; returns kNotCached at the first missing page. On a
// file system that cannot tell, it does an ordinary, possibly blocking read. `moved` is the number of bytes read;
// `error` an errno.
CachedRead read_cached(int fd, std::uint64_t offset, std::span<std::byte> out, std::uint64_t& moved,
                       int& error) noexcept;

// How much of a range the page cache holds: nearly all (nearly_cached()), part, or nothing. Does not touch the pages.
// kUnknown if the kernel has no cachestat (Linux 6.5) or refuses it to a reader without write permission.
enum class Residency : std::uint8_t { kCached, kPartly, kNotCached, kUnknown };
Residency residency(int fd, std::uint64_t offset, std::uint64_t length) noexcept;

// Asks the kernel to read a range into the page cache, without waiting. A hint: failures are ignored.
void want_cached(int fd, std::uint64_t offset, std::uint64_t length) noexcept;

// Fills all of `out` or fails: kShort if the file ends first, kIo with errno. `begin` is the file offset of the object
// that `offset` is relative to in failure messages.
Status read_exactly(int fd, std::uint64_t offset, std::span<std::byte> out, std::uint64_t begin = 0);

// Reads the first out.size() bytes of the file at `path`. kNotFound, kPermission, kShort, kIo.
Status read_file_start(const char* path, std::span<std::byte> out);

void close_descriptor(int fd) noexcept;

}  // namespace headrace::os
