#include "cufile/io_call.h"

#include <algorithm>
#include <cerrno>

#include "base/clock.h"

namespace headrace::cufile {

using Kind = device::MemoryPlace::Kind;

Outcome outcome_of(const Status& status) noexcept {
  if (status.code() == Code::kForked) return failed(CU_FILE_DRIVER_NOT_INITIALIZED);
  if (status.system_error() != 0) return failed_errno(status.system_error());
  if (status.layer() == Layer::kDevice) return failed(CU_FILE_CUDA_DRIVER_ERROR);
  switch (status.code()) {
    case Code::kResourceExhausted:
      return failed(CU_FILE_NOMEM_ERROR);
    case Code::kInvalidArgument:
      return failed(CU_FILE_INVALID_VALUE);
    case Code::kShort:
    case Code::kIo:
    case Code::kAgainExhausted:
      return failed_errno(EIO);
    default:
      return failed(CU_FILE_INTERNAL_ERROR);
  }
}

int gpu_of(const device::MemoryPlace& place) noexcept {
  return place.kind == Kind::kDevice ? place.device : kHostMemory;
}

namespace {

bool same_device(const device::MemoryPlace& a, const device::MemoryPlace& b) noexcept {
  return b.kind == Kind::kDevice && queue_key(a) == queue_key(b);
}

// Whether [first, last] is inside one allocation; for memory mapped piecewise, whether both ends are on the device.
bool within(const device::MemoryPlace& place, const std::byte* first, const std::byte* last) noexcept {
  if (place.base == nullptr || (first >= place.base && last < place.base + place.bytes)) return true;
  if (place.whole) return false;
  return same_device(place, device::locate_memory(first)) && same_device(place, device::locate_memory(last));
}

}  // namespace

namespace {

// Checks that need no device; `known`: the range is in a registered buffer.
Outcome check_memory(const Driver& driver, const void* base, std::size_t size, off_t offset, Target& target,
                     bool& known) {
  known = false;
  if (base == nullptr) return failed_errno(EINVAL);
  if (offset < 0) return failed(CU_FILE_INTERNAL_ERROR);  // as recorded from cuFile
  const auto skip = static_cast<std::size_t>(offset);
  const auto start = reinterpret_cast<std::uintptr_t>(base);
  target.memory = reinterpret_cast<std::byte*>(start + skip);
  target.aligned = page_aligned(start) && page_aligned(skip);
  RegisteredBuffer buffer;
  if (size != 0 && driver.buffers.find(base, buffer)) {
    if (skip > buffer.bytes || size > buffer.bytes - skip) return failed(CU_FILE_INVALID_MAPPING_RANGE);
    target.place = buffer.place;
    known = true;
  }
  if (skip > UINTPTR_MAX - start || size > UINTPTR_MAX - start - skip) return failed_errno(EFAULT);
  return moved(0);
}

}  // namespace

Outcome resolve(const Driver& driver, const void* base, std::size_t size, off_t offset, Target& target) {
  bool known = false;
  if (const Outcome out = check_memory(driver, base, size, offset, target, known); !out.ok()) return out;
  if (known || size == 0) return moved(0);
  target.place = device::locate_memory(base);
  if (target.place.kind == Kind::kDevice && !within(target.place, target.memory, target.memory + (size - 1))) {
    return failed_errno(EIO);
  }
  return moved(0);
}

Outcome resolve_at(const Driver& driver, const device::MemoryPlace& place, const void* base, std::size_t size,
                   off_t offset, Target& target) {
  bool known = false;
  if (const Outcome out = check_memory(driver, base, size, offset, target, known); !out.ok()) return out;
  if (known || size == 0) return moved(0);
  target.place = place;
  if (place.kind != Kind::kDevice || place.base == nullptr || !place.whole) return moved(0);
  const bool inside = target.memory >= place.base && target.memory + size <= place.base + place.bytes;
  return inside ? moved(0) : failed_errno(EIO);
}

Outcome check_file(const OpenFile& file, std::size_t size, off_t file_offset, bool write) {
  if (file_offset < 0) return failed(CU_FILE_INVALID_VALUE);
  if (size > static_cast<std::uint64_t>(INT64_MAX - file_offset)) return failed(CU_FILE_INVALID_VALUE);
  if (size == 0) return moved(0);
  if (write && !file.file->writable()) return failed_errno(EIO);  // as cuFile 1.15 does; 1.17 returns the code of reads
  if (!write && !file.file->readable()) return failed(CU_FILE_INVALID_FILE_OPEN_FLAG);
  return moved(0);
}

Outcome readable_bytes(const OpenFile& file, std::size_t size, off_t file_offset) {
  std::uint64_t end = 0;
  if (const Status status = file.file->size(end); !status.ok()) return outcome_of(status);
  const auto from = static_cast<std::uint64_t>(file_offset);
  return moved(from >= end ? 0 : std::min<std::uint64_t>(size, end - from));
}

Outcome move_bytes(Driver& driver, const OpenFile& file, const Target& target, std::size_t size, off_t file_offset,
                   bool write, PathBytes& paths) {
  constexpr int kTries = 4;  // a file may be truncated between reading its size and its bytes
  for (int attempt = 0;; ++attempt) {
    std::uint64_t bytes = size;
    if (!write) {
      const Outcome there = readable_bytes(file, size, file_offset);
      if (there.value <= 0) return there;
      bytes = static_cast<std::uint64_t>(there.value);
    }
    auto queue = driver.queues->lend(*file.session, target.place);
    if (!queue.ok()) {
      driver.log.write(Severity::kError, queue.status().to_string());
      return outcome_of(queue.status());
    }
    const PathBytes before = PathBytes::of((*queue)->counters());
    const FileRange range{static_cast<std::uint64_t>(file_offset), target.memory, static_cast<std::size_t>(bytes)};
    Status status = (*queue)->add(file.file, {&range, 1}, write, 0);
    if (status.ok()) {
      FileCompletion done;
      while ((*queue)->wait({&done, 1}, 1, std::chrono::hours(1)) == 0) {
      }
      status = std::move(done.status);
    }
    paths = PathBytes::of((*queue)->counters()) - before;
    if (status.ok()) return moved(bytes);
    if (status.code() == Code::kShort && !write && attempt < kTries) continue;
    if (driver.log.wants(Severity::kError)) driver.log.write(Severity::kError, status.to_string());
    return outcome_of(status);
  }
}

namespace {

ssize_t give(const Outcome& outcome) noexcept {
  if (!outcome.ok()) errno = outcome.error;
  return static_cast<ssize_t>(outcome.value);
}

Outcome use_file(Driver& driver, CUfileHandle_t handle, FileTable::Use& use) noexcept {
  switch (driver.files.acquire(handle, use)) {
    case CU_FILE_SUCCESS:
      return moved(0);
    case CU_FILE_HANDLE_NOT_REGISTERED:
      return failed(CU_FILE_HANDLE_NOT_REGISTERED);
    default:
      return failed_errno(EINVAL);
  }
}

Outcome transfer(Driver& driver, CUfileHandle_t handle, const void* base, std::size_t size, off_t file_offset,
                 off_t offset, bool write) {
  FileTable::Use file;
  if (const Outcome out = use_file(driver, handle, file); !out.ok()) return out;
  if (base == nullptr) return failed_errno(EINVAL);
  if (file_offset < 0) return failed(CU_FILE_INVALID_VALUE);
  Target target;
  if (const Outcome out = resolve(driver, base, size, offset, target); !out.ok()) return out;
  if (const Outcome out = check_file(*file, size, file_offset, write); !out.ok() || size == 0) return out;
  const std::uint64_t started = base::now_ns();
  PathBytes paths;
  const Outcome out = move_bytes(driver, *file, target, size, file_offset, write, paths);
  const bool aligned = target.aligned && page_aligned(size) && page_aligned(static_cast<std::uint64_t>(file_offset));
  driver.statistics.transfer(write ? Op::kWrite : Op::kRead, write, out.ok(),
                             out.ok() ? static_cast<std::uint64_t>(out.value) : 0, base::now_ns() - started,
                             gpu_of(target.place), aligned, paths);
  return out;
}

Outcome transfer_list(Driver& driver, CUfileHandle_t handle, const CUfileIOVec_t* iov, std::size_t count,
                      off_t file_offset, unsigned flags, bool write) {
  FileTable::Use file;
  if (const Outcome out = use_file(driver, handle, file); !out.ok()) return out;
  if (flags != 0 || file_offset < 0) return failed(CU_FILE_INVALID_VALUE);
  if (count != 0 && iov == nullptr) return failed_errno(EINVAL);
  // Check everything before moving anything.
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (iov[i].len > static_cast<std::uint64_t>(INT64_MAX) - total) return failed(CU_FILE_INVALID_VALUE);
    total += iov[i].len;
    Target target;
    if (iov[i].len == 0) continue;
    if (const Outcome out = resolve(driver, iov[i].base, iov[i].len, 0, target); !out.ok()) return out;
  }
  if (const Outcome out = check_file(*file, total, file_offset, write); !out.ok() || total == 0) return out;
  const std::uint64_t started = base::now_ns();
  std::uint64_t done = 0;
  Outcome out = moved(0);
  PathBytes sum;
  bool aligned = page_aligned(total) && page_aligned(static_cast<std::uint64_t>(file_offset));
  int gpu = kHostMemory;
  for (std::size_t i = 0; i < count && out.ok(); ++i) {
    if (iov[i].len == 0) continue;
    Target target;
    out = resolve(driver, iov[i].base, iov[i].len, 0, target);
    if (!out.ok()) break;
    PathBytes paths;
    out = move_bytes(driver, *file, target, iov[i].len, file_offset + static_cast<off_t>(done), write, paths);
    sum = sum - (PathBytes() - paths);
    gpu = std::max(gpu, gpu_of(target.place));
    aligned = aligned && target.aligned;
    if (out.ok()) done += static_cast<std::uint64_t>(out.value);
    if (out.ok() && static_cast<std::uint64_t>(out.value) < iov[i].len) break;  // the end of the file
  }
  // As readv() does: bytes already moved are returned, and the next call reports the failure.
  if (out.ok() || done > 0) out = moved(done);
  driver.statistics.transfer(write ? Op::kWrite : Op::kRead, write, out.ok(), done, base::now_ns() - started, gpu,
                             aligned, sum);
  return out;
}

template <class Function>
ssize_t counted(bool write, Function function) noexcept {
  Outcome out = failed(CU_FILE_INTERNAL_ERROR);
  try {
    Driver& driver = Driver::get();
    out = function(driver);
    if (!out.ok()) driver.statistics.count(write ? Op::kWrite : Op::kRead, false);
  } catch (const std::bad_alloc&) {
    out = failed(CU_FILE_NOMEM_ERROR);
  } catch (...) {
  }
  return give(out);
}

}  // namespace
}  // namespace headrace::cufile

using namespace headrace::cufile;

ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset) {
  return counted(false, [&](Driver& driver) {
    return transfer(driver, fh, bufPtr_base, size, file_offset, bufPtr_offset, false);
  });
}

ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset) {
  return counted(
      true, [&](Driver& driver) { return transfer(driver, fh, bufPtr_base, size, file_offset, bufPtr_offset, true); });
}

ssize_t cuFileReadv(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags) {
  return counted(false,
                 [&](Driver& driver) { return transfer_list(driver, fh, iov, iovcnt, file_offset, flags, false); });
}

ssize_t cuFileWritev(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags) {
  return counted(true,
                 [&](Driver& driver) { return transfer_list(driver, fh, iov, iovcnt, file_offset, flags, true); });
}
