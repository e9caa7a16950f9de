// Reports on and clears a cache directory for the user: headrace/disk_cache.h.
#include <headrace/disk_cache.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <new>
#include <span>

#include "base/crc32c.h"
#include "cache/cache_directory.h"
#include "cache/disk_cache.h"
#include "cache/segment_format.h"

namespace headrace {
namespace {

using cache::CacheDirectory;
using cache::ListedRecord;

std::string absolute(const std::string& directory) {
  std::error_code error;
  const auto path = std::filesystem::absolute(directory, error);
  return error ? directory : path.lexically_normal().string();
}

Status none_there() {
  return Status(Code::kInvalidArgument, Layer::kStore,
                "no cache directory is named: give one, or set HEADRACE_CACHE_DIR");
}

bool is_whole(int fd, const ListedRecord& record, std::span<std::byte> memory) noexcept {
  cache::RecordHead head;
  const auto at = static_cast<off_t>(record.unit * cache::kSegmentUnit);
  const std::span<std::byte> data = memory.first(record.data_bytes);
  return ::pread(fd, &head, sizeof head, at) == static_cast<ssize_t>(sizeof head) && cache::is_record(head) &&
         head.id == record.id && head.data_bytes == data.size() &&
         ::pread(fd, data.data(), data.size(), at + static_cast<off_t>(sizeof head)) ==
             static_cast<ssize_t>(data.size()) &&
         base::crc32c(data.data(), data.size()) == head.data_crc;
}

DiskCacheSegment look_at(const CacheDirectory& directory, const CacheDirectory::NamedSegment& named, bool verify) {
  DiskCacheSegment out;
  out.name = named.name;
  out.file_bytes = named.file_bytes;
  const os::OwnedDescriptor file = directory.open_segment(named.name, false);
  if (!file) return out;
  const auto read = [&](std::uint64_t position, std::span<std::byte> bytes) -> std::size_t {
    const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(position));
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  };
  std::unique_ptr<std::byte[]> memory;
  std::size_t room = 0;
  const cache::SegmentScan scan =
      cache::scan_segment(read, named.file_bytes, directory.fingerprint(), 0, [&](const ListedRecord& record) {
        ++out.records;
        out.data_bytes += record.data_bytes;
        if (!verify) return true;
        if (record.data_bytes > room) {
          room = record.data_bytes;
          memory = std::make_unique<std::byte[]>(room);
        }
        if (!is_whole(file.get(), record, {memory.get(), room})) ++out.damaged_records;
        return true;
      });
  out.foreign = !scan.ours;
  out.sealed = scan.sealed;
  out.growing = scan.ours && !scan.sealed && !CacheDirectory::claim(file);
  out.torn_bytes = scan.ours && !scan.sealed ? named.file_bytes - std::min(named.file_bytes, scan.end) : 0;
  return out;
}

}  // namespace

Result<DiskCacheReport> inspect_disk_cache(const std::string& directory, bool verify) {
  try {
    if (directory.empty()) return none_there();
    HEADRACE_TRY_ASSIGN(const CacheDirectory open, CacheDirectory::open(absolute(directory), false));
    DiskCacheReport report;
    report.directory = open.path();
    report.disk_free_bytes = open.disk_free();
    std::vector<CacheDirectory::NamedSegment> names;
    HEADRACE_TRY(open.list(names));
    for (const auto& named : names) {
      report.segments.push_back(look_at(open, named, verify));
      const DiskCacheSegment& segment = report.segments.back();
      report.file_bytes += segment.file_bytes;
      report.records += segment.records;
      report.data_bytes += segment.data_bytes;
      report.damaged_records += segment.damaged_records;
    }
    cache::DiskCache::add_activity(open, report);
    return report;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<std::uint64_t> clear_disk_cache(const std::string& directory) {
  constexpr std::uint64_t kPatience = 10'000'000'000;
  try {
    if (directory.empty()) return none_there();
    HEADRACE_TRY_ASSIGN(const CacheDirectory open, CacheDirectory::open(absolute(directory), false));
    // Keeps others from starting a segment meanwhile. If the lock cannot be taken in time, the existing files are
    // removed anyway.
    const CacheDirectory::Lock held = open.lock(kPatience);
    std::vector<CacheDirectory::NamedSegment> names;
    HEADRACE_TRY(open.list(names));
    std::uint64_t freed = 0;
    for (const auto& named : names) {
      if (open.remove(named.name)) {
        freed += named.file_bytes;
      } else if (errno != ENOENT) {
        return Status(Code::kIo, Layer::kStore, "cannot remove a file of the cache directory")
            .with_key(open.path() + "/" + named.name)
            .with_errno(errno);
      }
    }
    return freed;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace
