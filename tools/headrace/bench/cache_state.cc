#include "cache_state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

namespace headrace::bench {
namespace {

Status system_failure(const char* what, const std::string& path, int error) {
  Code code = Code::kIo;
  if (error == ENOENT || error == ENOTDIR) code = Code::kNotFound;
  if (error == EACCES || error == EPERM) code = Code::kPermission;
  return Status(code, Layer::kApi, what)
      .with_key(path)
      .with_cause(std::generic_category().message(error))
      .with_errno(error);
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct CachestatRange {
  std::uint64_t offset = 0, length = 0;
};
struct CachestatResult {
  std::uint64_t cached = 0, dirty = 0, writeback = 0, evicted = 0, recently_evicted = 0;
};
constexpr long kCachestat = 451;  // the same number on every architecture

Result<std::uint64_t> resident_by_mincore(int fd, const CacheRange& range, std::uint64_t page, std::uint64_t pages) {
  // In windows, because the result takes one byte per page.
  constexpr std::uint64_t kWindowPages = std::uint64_t{1} << 18;
  const std::uint64_t first = range.offset_bytes / page * page;
  std::vector<unsigned char> present(static_cast<std::size_t>(std::min(pages, kWindowPages)));
  std::uint64_t resident = 0;
  for (std::uint64_t at = 0; at < pages; at += kWindowPages) {
    const auto bytes = static_cast<std::size_t>(std::min(kWindowPages, pages - at) * page);
    void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(first + at * page));
    if (memory == MAP_FAILED) return system_failure("cannot map the file to see what is cached", range.path, errno);
    const bool answered = ::mincore(memory, bytes, present.data()) == 0;
    const int error = errno;
    ::munmap(memory, bytes);
    if (!answered) return system_failure("cannot determine what is cached", range.path, error);
    for (std::size_t i = 0; i < bytes / page; ++i) resident += present[i] & 1u;
  }
  return resident;
}

Result<Residency> residency_of(int fd, const CacheRange& range) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  Residency out;
  if (range.bytes == 0) return out;
  const std::uint64_t first = range.offset_bytes / page;
  out.pages = (range.offset_bytes + range.bytes - 1) / page - first + 1;
  CachestatRange asked{first * page, out.pages * page};
  CachestatResult answer;
  if (::syscall(kCachestat, fd, &asked, &answer, 0) == 0) {
    out.resident = std::min(answer.cached, out.pages);
    return out;
  }
  HEADRACE_TRY_ASSIGN(out.resident, resident_by_mincore(fd, range, page, out.pages));
  return out;
}

bool is_reached(const Residency& residency, CacheState state) {
  if (state == CacheState::kWarm) return residency.resident == residency.pages;
  if (state == CacheState::kHalf) return residency.share() > 0.45 && residency.share() < 0.55;
  const std::uint64_t allowed = std::max(std::min<std::uint64_t>(64, residency.pages / 2), residency.pages / 1000);
  return residency.resident <= allowed;
}

Status read_through(int fd, const CacheRange& range, std::uint64_t offset, std::uint64_t end) {
  std::vector<char> buffer(std::size_t{1} << 20);
  while (offset < end) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - offset));
    const ssize_t done = ::pread(fd, buffer.data(), wanted, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return system_failure("cannot read the file into the page cache", range.path, errno);
    if (done == 0) break;
    offset += static_cast<std::uint64_t>(done);
  }
  return {};
}

Status drop(int fd, const CacheRange& range) {
  // Only clean pages can be evicted.
  if (::fdatasync(fd) != 0) return system_failure("cannot write back the file's cached pages", range.path, errno);
  const int error =
      ::posix_fadvise(fd, static_cast<off_t>(range.offset_bytes), static_cast<off_t>(range.bytes), POSIX_FADV_DONTNEED);
  return error == 0 ? Status() : system_failure("cannot drop the file's cached pages", range.path, error);
}

// Makes one attempt; the caller verifies it.
Status bring_into(int fd, const CacheRange& range, CacheState state, std::uint64_t block_bytes) {
  const std::uint64_t end = range.offset_bytes + range.bytes;
  if (state == CacheState::kWarm) return read_through(fd, range, range.offset_bytes, end);
  HEADRACE_TRY(drop(fd, range));
  if (state == CacheState::kCold) return {};
  // Otherwise readahead would also fetch the other half.
  if (const int error = ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); error != 0) {
    return system_failure("cannot turn readahead off", range.path, error);
  }
  for (std::uint64_t at = range.offset_bytes; at < end; at += 2 * block_bytes) {
    HEADRACE_TRY(read_through(fd, range, at, std::min(at + block_bytes, end)));
  }
  return {};
}

const char* state_name(CacheState state) {
  return state == CacheState::kCold ? "cold" : state == CacheState::kHalf ? "half" : "warm";
}

}  // namespace

Result<Residency> sample_residency(std::span<const CacheRange> ranges) {
  Residency total;
  for (const CacheRange& range : ranges) {
    const OpenFile file(range.path);
    if (file.fd() < 0) return system_failure("cannot open the file", range.path, errno);
    HEADRACE_TRY_ASSIGN(const Residency one, residency_of(file.fd(), range));
    total.pages += one.pages;
    total.resident += one.resident;
  }
  return total;
}

Result<Residency> set_cache_state(std::span<const CacheRange> ranges, CacheState state, std::uint64_t block_bytes) {
  HEADRACE_TRY_ASSIGN(Residency total, sample_residency(ranges));
  // Threads of one job request the same state one after the other.
  const bool there = state == CacheState::kCold ? total.resident == 0 : is_reached(total, state);
  if (state == CacheState::kAsIs || (state != CacheState::kHalf && there)) return total;
  // Pages under writeback or on a per-CPU list occasionally survive the first attempt.
  for (int attempt = 0; attempt < 3; ++attempt) {
    for (const CacheRange& range : ranges) {
      const OpenFile file(range.path);
      if (file.fd() < 0) return system_failure("cannot open the file", range.path, errno);
      HEADRACE_TRY(bring_into(file.fd(), range, state, block_bytes));
    }
    HEADRACE_TRY_ASSIGN(total, sample_residency(ranges));
    if (is_reached(total, state)) return total;
  }
  const char* why = state == CacheState::kWarm ? " (too little memory, or the file is shorter)"
                                               : " (mapped by a process, or a file system in memory)";
  return Status(Code::kIo, Layer::kApi,
                std::string("cache=") + state_name(state) + " was not reached: " + std::to_string(total.resident) +
                    " of " + std::to_string(total.pages) + " pages are cached" + why)
      .with_key(ranges.empty() ? "" : ranges.front().path);
}

Result<std::uint64_t> direct_alignment(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return system_failure("cannot look at the file", path, errno);
#ifdef STATX_DIOALIGN
  struct statx extended {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_DIOALIGN, &extended) == 0 && (extended.stx_mask & STATX_DIOALIGN) != 0 &&
      extended.stx_dio_offset_align > 0) {
    return extended.stx_dio_offset_align;
  }
#endif
  return 512;
}

}  // namespace headrace::bench
