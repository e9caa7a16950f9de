// PendingOutput: a file or directory that appears under its name only when it is complete.
//
// It is written as NAME.headrace-partial in the same folder, and renamed by commit(). If the work ends earlier, it is
// removed, except after a kill. A file or directory that it replaces stays until commit(), and is removed afterwards.
#pragma once

#include <headrace/status.h>

#include <functional>
#include <string>

namespace headrace::cli {

class PendingOutput {
 public:
  // The reason why the existing path must not be removed; empty if it may be.
  using Refusal = std::function<std::string(const std::string& path)>;

  PendingOutput() = default;
  PendingOutput(const PendingOutput&) = delete;
  PendingOutput& operator=(const PendingOutput&) = delete;
  ~PendingOutput();

  // An existing `path` is an error unless `overwrite` is set and `refusal` does not object; commit() then replaces it.
  Status create_directory(const std::string& path, bool overwrite, const Refusal& refusal);
  // The same for a regular file; fd() is open for writing.
  Status create_file(const std::string& path, bool overwrite);

  const std::string& partial_path() const noexcept { return partial_; }
  int fd() const noexcept { return fd_; }
  Status commit();

 private:
  Status check_place(const std::string& path, bool overwrite, const Refusal& refusal);
  Status put();
  Status replace();
  Status remove_old(const std::string& name) const;
  Status failure(const char* what, int error) const;

  std::string path_, partial_;
  int fd_ = -1;
  bool created_ = false, replaces_ = false;
};

}  // namespace headrace::cli
