#include "os/probe_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/fault.h"
#include "os/direct_align.h"
#include "os/file_read.h"
#include "os/page_buffer.h"

namespace headrace::os {
namespace {

Status failure(const std::string& path, const char* what, int error) {
  const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound
                    : error == EACCES || error == EPERM ? Code::kPermission
                                                        : Code::kIo;
  return Status(code, Layer::kBase, what).with_key(path).with_errno(error);
}

}  // namespace

Result<ProbeFile> ProbeFile::open(const std::string& path, bool direct) {
  ProbeFile file;
  // O_NONBLOCK keeps the open from waiting for a FIFO's writer. It is cleared afterwards, since io_uring takes it to
  // mean "do not wait for the disk".
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (direct ? O_DIRECT : 0));
  if (file.fd_ < 0) return failure(path, "cannot open", errno);
  struct stat info {};
  if (::fstat(file.fd_, &info) != 0) return failure(path, "cannot stat", errno);
  file.is_directory_ = S_ISDIR(info.st_mode);
  if (!file.is_directory_ && !S_ISREG(info.st_mode)) {
    return Status(Code::kUnsupported, Layer::kBase, "neither a regular file nor a directory").with_key(path);
  }
  file.size_bytes_ = file.is_directory_ ? 0 : static_cast<std::uint64_t>(info.st_size);
  const int flags = ::fcntl(file.fd_, F_GETFL);
  if (flags < 0 || ::fcntl(file.fd_, F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return failure(path, "cannot set the descriptor's flags", errno);
  }
  return file;
}

ProbeFile::ProbeFile(ProbeFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), is_directory_(other.is_directory_), size_bytes_(other.size_bytes_) {}

ProbeFile::~ProbeFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::int64_t ProbeFile::read(std::byte* buffer, std::size_t bytes, std::uint64_t offset) const noexcept {
  std::int64_t got;
  unsigned tries = 0;
  do {
    got = ::pread(fd_, buffer, bytes, static_cast<off_t>(offset));
    if (got < 0) got = -errno;
    got = HEADRACE_FAULT("base.probe_pread", got);
  } while (got == -EINTR && ++tries < kMaxInterruptions);
  return got;
}

void ProbeFile::expect_random(bool random) const noexcept {
  (void)::posix_fadvise(fd_, 0, 0, random ? POSIX_FADV_RANDOM : POSIX_FADV_NORMAL);
}

void ProbeFile::evict(std::uint64_t bytes) const noexcept {
  (void)::posix_fadvise(fd_, 0, static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

namespace {

struct Found {
  std::string path;
  std::uint64_t bytes = 0;
};

// Visits readable regular files among the first `most` entries until visit() returns false.
template <class Visit>
void for_each_file(const std::string& directory, std::size_t most, Visit&& visit) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::recursive_directory_iterator at(directory, fs::directory_options::skip_permission_denied, error), end;
  for (std::size_t seen = 0; !error && at != end && seen < most; at.increment(error), ++seen) {
    std::error_code entry_error;
    if (at->is_symlink(entry_error) || !at->is_regular_file(entry_error)) continue;
    const std::uint64_t bytes = at->file_size(entry_error);
    if (entry_error || ::access(at->path().c_str(), R_OK) != 0) continue;
    if (!visit(Found{at->path().string(), bytes})) return;
  }
}

}  // namespace

std::string find_sample_file(const std::string& directory, std::size_t most, std::uint64_t enough_bytes) {
  Found best;
  for_each_file(directory, most, [&](Found found) {
    if (best.path.empty() || found.bytes > best.bytes) best = std::move(found);
    return best.bytes < enough_bytes;
  });
  return best.path;
}

std::vector<std::string> find_sample_files(const std::string& directory, std::size_t most, std::uint64_t enough_bytes,
                                           std::size_t max_files) {
  std::vector<Found> all;
  for_each_file(directory, most, [&](Found found) {
    all.push_back(std::move(found));
    return true;
  });
  std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.bytes > b.bytes; });
  std::vector<std::string> out;
  std::uint64_t bytes = 0;
  for (Found& found : all) {
    if (found.bytes == 0 || bytes >= enough_bytes || out.size() == max_files) break;
    bytes += found.bytes;
    out.push_back(std::move(found.path));
  }
  return out;
}

DirectSupport probe_direct(const std::string& path) {
  DirectSupport probe;
  auto file = ProbeFile::open(path, true);
  if (!file.ok()) {
    probe.why_not =
        file.status().system_error() == EINVAL ? "the file system refuses O_DIRECT" : file.status().to_string();
    return probe;
  }
  if (file->size_bytes() == 0) {
    probe.why_not = "the file is empty, so nothing can be tested";
    return probe;
  }
  constexpr std::size_t kLargest = 65536;
  PageBuffer buffer;
  std::byte* const memory = buffer.reserve(2 * kLargest).data();
  if (memory == nullptr) {
    probe.why_not = "out of memory for the test";
    return probe;
  }
  if (const DirectAlignment told = direct_alignment(file->fd()); told.known && told.offset_bytes <= kLargest) {
    probe.memory_alignment_bytes = told.memory_bytes;
    probe.offset_alignment_bytes = told.offset_bytes;
    probe.reported_by_kernel = true;
    const std::int64_t got = file->read(memory, told.offset_bytes, 0);
    probe.works = got > 0;
    if (got < 0) probe.why_not = failure(path, "a direct read failed", static_cast<int>(-got)).to_string();
    return probe;
  }
  std::int64_t got = -EINVAL;
  for (std::uint32_t unit = 512; unit <= kLargest && got == -EINVAL; unit *= 2) {
    probe.offset_alignment_bytes = unit;
    got = file->read(memory, unit, 0);
  }
  probe.works = got > 0;
  if (!probe.works) {
    probe.offset_alignment_bytes = 0;
    probe.why_not = failure(path, "a direct read failed", static_cast<int>(-got)).to_string();
    return probe;
  }
  // Finds the memory alignment: the smallest usual one that works with the length found above.
  got = -EINVAL;
  for (std::uint32_t unit = 512; unit <= kLargest && got == -EINVAL; unit *= 2) {
    probe.memory_alignment_bytes = unit;
    got = file->read(memory + unit, probe.offset_alignment_bytes, 0);
  }
  return probe;
}

}  // namespace headrace::os
