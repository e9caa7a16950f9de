#include "file_layout.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "bench_interrupt.h"
#include "offset_generator.h"

namespace headrace::bench {
namespace {

Status failure(const std::string& path, int error) {
  return Status(Code::kIo, Layer::kApi, "cannot make the file for the job")
      .with_key(path)
      .with_cause(std::generic_category().message(error))
      .with_errno(error);
}

Status write_bytes(int fd, const std::string& path, std::uint64_t from, std::uint64_t end, std::uint64_t seed) {
  std::vector<std::uint64_t> words(std::size_t{1} << 17);
  while (from < end) {
    if (interrupted() != 0) {
      return Status(Code::kCancelled, Layer::kApi, "interrupted while the file was made").with_key(path);
    }
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = mix64(mix64(seed ^ from) + i);
    const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(words.size() * 8, end - from));
    const ssize_t done = ::pwrite(fd, words.data(), wanted, static_cast<off_t>(from));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return failure(path, done < 0 ? errno : ENOSPC);
    from += static_cast<std::uint64_t>(done);
  }
  return {};
}

// Checked before writing, so that a shared disk is not filled.
Status check_space(int fd, const std::string& path, std::uint64_t wanted) {
  struct statvfs info {};
  if (::fstatvfs(fd, &info) != 0) return {};
  const unsigned __int128 free = static_cast<unsigned __int128>(info.f_bavail) * info.f_frsize;
  return free >= wanted ? Status() : failure(path, ENOSPC);
}

}  // namespace

Status lay_out(const std::string& path, std::uint64_t from, std::uint64_t end, std::uint64_t seed, bool sync) {
  const bool there = ::access(path.c_str(), F_OK) == 0;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return failure(path, errno);
  Status status = check_space(fd, path, end - from);
  if (status.ok()) status = write_bytes(fd, path, from, end, seed);
  if (status.ok() && sync && ::fsync(fd) != 0) status = failure(path, errno);
  if (::close(fd) != 0 && status.ok()) status = failure(path, errno);
  if (!status.ok() && !there) ::unlink(path.c_str());
  return status;
}

}  // namespace headrace::bench
