// OutputFile: the output of `headrace read -o`.
//
// A regular file appears under its name only when it is complete: bytes go to a temporary file in the same folder,
// which is removed on failure or interrupt. "-", devices, pipes and other non-regular files are written directly.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace headrace::cli {

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  Status open(const std::string& path);
  Status write(std::span<const std::byte> bytes);
  // Whether write_at() may be used: true for a regular file.
  bool any_order() const noexcept { return !temporary_.empty(); }
  // Fails if a regular file of that size does not fit the file system's free space.
  Status check_room(std::uint64_t bytes) const;
  // Writes at an offset of the file, independently of write().
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Makes the file visible under its name. Without commit(), destruction removes it.
  Status commit();

 private:
  Status failure(const char* what, int error) const;

  int fd_ = -1;
  bool owns_fd_ = false;
  int guard_ = -1;                // index among the files that an interrupt removes
  std::string path_, temporary_;  // temporary_ is empty when written directly
};

// Whether `path` names this process's standard output.
bool is_standard_output(const std::string& path);

}  // namespace headrace::cli
