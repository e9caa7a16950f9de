// OutputFile: where `headrace read -o` writes.
//
// A regular file appears under its name only when complete: the bytes go to a temporary file beside it, which is
// removed on any failure, including an interrupt. "-", devices, pipes and everything else that is not a regular file
// are written directly.
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
  // Whether write_at() may be used: a regular file is written.
  bool any_order() const noexcept { return !temporary_.empty(); }
  // Fails where a regular file of that size cannot fit the file system as it is now.
  Status check_room(std::uint64_t bytes) const;
  // At an offset of the file, which write() knows nothing of.
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Makes the file visible under its name. Without it, destruction leaves nothing behind.
  Status commit();

 private:
  Status failure(const char* what, int error) const;

  int fd_ = -1;
  bool owns_fd_ = false;
  int guard_ = -1;                // which of those that an interrupt removes
  std::string path_, temporary_;  // temporary_ is empty when written directly
};

// Whether `path` names this process's standard output.
bool is_standard_output(const std::string& path);

}  // namespace headrace::cli
