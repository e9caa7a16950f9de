#include "gen/pending_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace headrace::cli {

namespace {

std::string left_behind(const std::string& partial) {
  return partial + " exists: a killed run left it, or another run is still writing it";
}

}  // namespace

PendingOutput::~PendingOutput() {
  if (fd_ >= 0) ::close(fd_);
  std::error_code ignored;
  if (created_) std::filesystem::remove_all(partial_, ignored);
}

Status PendingOutput::failure(const char* what, int error) const {
  const Code code = error == EACCES || error == EPERM || error == EROFS ? Code::kPermission : Code::kIo;
  return Status(code, Layer::kApi, what)
      .with_key(path_)
      .with_cause(std::generic_category().message(error))
      .with_errno(error);
}

Status PendingOutput::check_place(const std::string& path, bool overwrite, const Refusal& refusal) {
  path_ = path;
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  partial_ = path_ + ".headrace-partial";
  struct stat info {};
  if (::lstat(path_.c_str(), &info) != 0) {
    return errno == ENOENT ? Status() : failure("cannot look at the output's place", errno);
  }
  if (!overwrite) return Status(Code::kInvalidArgument, Layer::kApi, "the output exists already").with_key(path_);
  if (const std::string reason = refusal(path_); !reason.empty()) {
    return Status(Code::kInvalidArgument, Layer::kApi, "--overwrite does not remove this: " + reason).with_key(path_);
  }
  replaces_ = true;
  return {};
}

Status PendingOutput::create_directory(const std::string& path, bool overwrite, const Refusal& refusal) {
  HEADRACE_TRY(check_place(path, overwrite, refusal));
  if (::mkdir(partial_.c_str(), 0777) != 0) {
    const int error = errno;
    return failure(error == EEXIST ? left_behind(partial_).c_str() : "cannot create the output", error);
  }
  created_ = true;
  return {};
}

Status PendingOutput::create_file(const std::string& path, bool overwrite) {
  HEADRACE_TRY(check_place(path, overwrite, [](const std::string& place) -> std::string {
    return std::filesystem::is_regular_file(std::filesystem::symlink_status(place)) ? "" : "it is not a regular file";
  }));
  fd_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    const int error = errno;
    return failure(error == EEXIST ? left_behind(partial_).c_str() : "cannot create the output", error);
  }
  created_ = true;
  return {};
}

Status PendingOutput::commit() {
  // Network file systems report a full disk on close().
  if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0) return failure("cannot write the output", errno);
  return replaces_ ? replace() : put();
}

// Does not replace a file that has appeared at the path since.
Status PendingOutput::put() {
  int failed = ::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE);
  struct stat info {};
  // The file system does not support RENAME_NOREPLACE.
  if (failed != 0 && errno == EINVAL && ::lstat(path_.c_str(), &info) != 0) {
    failed = ::rename(partial_.c_str(), path_.c_str());
  }
  if (failed != 0) return failure("cannot rename the finished output", errno);
  created_ = false;
  return {};
}

// Removes the old output only after the new one has its name, so that the name always exists.
Status PendingOutput::replace() {
  const std::string old = path_ + ".headrace-replaced";
  if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
    // The old output now has the partial one's name.
    created_ = false;
    return remove_old(partial_);
  }
  if (errno == ENOENT) return put();  // the old output has disappeared
  if (errno != EINVAL) return failure("cannot rename the finished output", errno);
  // The file system does not support RENAME_EXCHANGE.
  if (::rename(path_.c_str(), old.c_str()) != 0) {
    return failure("cannot rename what the output replaces", errno);
  }
  if (::rename(partial_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    (void)::rename(old.c_str(), path_.c_str());
    return failure("cannot rename the finished output", error);
  }
  created_ = false;
  return remove_old(old);
}

Status PendingOutput::remove_old(const std::string& name) const {
  std::error_code error;
  std::filesystem::remove_all(name, error);
  return error ? failure("the output is complete; what it replaced is still beside it, and cannot be removed",
                         error.value())
               : Status();
}

}  // namespace headrace::cli
