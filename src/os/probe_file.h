// Files opened to test what I/O they support.
//
// Threads: one at a time per object.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headrace::os {

// A regular file or directory opened for reading.
//
// Owns: the descriptor.
class ProbeFile {
 public:
  // kNotFound, kPermission, kUnsupported (a device, FIFO or socket), kIo. With `direct`, the file is opened with
  // O_DIRECT, and EINVAL means that the file system refuses it.
  static Result<ProbeFile> open(const std::string& path, bool direct = false);
  ProbeFile(ProbeFile&& other) noexcept;
  ProbeFile& operator=(ProbeFile&& other) = delete;
  ~ProbeFile();

  int fd() const noexcept { return fd_; }
  bool is_directory() const noexcept { return is_directory_; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }

  // Bytes read at `offset`, or -errno.
  std::int64_t read(std::byte* buffer, std::size_t bytes, std::uint64_t offset) const noexcept;
  // Tells the kernel to expect random access (no read-ahead) or normal access.
  void expect_random(bool random) const noexcept;
  // Drops clean pages of [0, bytes) from the page cache.
  void evict(std::uint64_t bytes) const noexcept;

 private:
  ProbeFile() = default;
  int fd_ = -1;
  bool is_directory_ = false;
  std::uint64_t size_bytes_ = 0;
};

// The largest readable regular file among the first `most` entries below a directory, or the first with `enough_bytes`;
// empty if there is none. Links are not followed.
std::string find_sample_file(const std::string& directory, std::size_t most, std::uint64_t enough_bytes);

// The largest readable regular files among the first `most` entries below a directory, largest first: enough to have
// `enough_bytes` together, at most `max_files`.
std::vector<std::string> find_sample_files(const std::string& directory, std::size_t most, std::uint64_t enough_bytes,
                                           std::size_t max_files);

struct DirectSupport {
  bool works = false;
  std::string why_not;
  std::uint32_t memory_alignment_bytes = 0, offset_alignment_bytes = 0;
  bool reported_by_kernel = false;  // by statx; otherwise found by reading
};

// Opens a regular file with O_DIRECT and reads from it once.
DirectSupport probe_direct(const std::string& path);

}  // namespace headrace::os
