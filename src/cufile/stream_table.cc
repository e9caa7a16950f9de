#include "cufile/stream_table.h"

#include <algorithm>
#include <new>

#include "base/grow.h"
#include "cufile/driver.h"
#include "cufile/stream_operation.h"

namespace headrace::cufile {
namespace {

constexpr unsigned kKnownFlags = CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET |
                                 CU_FILE_STREAM_FIXED_FILE_SIZE | CU_FILE_STREAM_PAGE_ALIGNED_INPUTS;

}  // namespace

StreamTable::StreamTable() = default;
StreamTable::~StreamTable() = default;

CUfileOpError StreamTable::add(CUstream stream, unsigned flags) {
  std::lock_guard lock(mutex_);
  return streams_.emplace(stream, flags & kKnownFlags).second ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE;
}

CUfileOpError StreamTable::remove(CUstream stream) {
  std::lock_guard lock(mutex_);
  return streams_.erase(stream) != 0 ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE;
}

unsigned StreamTable::flags(CUstream stream) {
  std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? 0 : found->second;
}

void StreamTable::clear() noexcept {
  end_retired();
  std::lock_guard lock(mutex_);
  streams_.clear();
}

void StreamTable::retire(std::shared_ptr<Session> session) noexcept {
  std::lock_guard lock(mutex_);
  if (std::find(retired_.begin(), retired_.end(), session) != retired_.end()) return;
  try {
    retired_.push_back(std::move(session));
  } catch (const std::bad_alloc&) {  // released here if this was the last owner
  }
}

void StreamTable::end_retired() noexcept {
  std::vector<std::shared_ptr<Session>> gone;  // destroyed without the lock
  std::lock_guard lock(mutex_);
  gone.swap(retired_);
}

Result<StreamSlab> StreamTable::take_slab(const std::shared_ptr<device::Device>& device, std::size_t bytes) {
  std::size_t wanted = std::size_t{64} << 10;
  while (wanted < bytes) wanted *= 2;
  {
    std::lock_guard lock(mutex_);
    for (StreamSlab& slab : slabs_) {
      if (slab.device != device || slab.bytes != wanted) continue;
      const StreamSlab taken = std::exchange(slab, slabs_.back());
      slabs_.pop_back();
      return taken;
    }
    base::make_room(slabs_, 1);
  }
  HEADRACE_TRY_ASSIGN(std::byte* const memory, device->allocate_pinned(wanted));
  return StreamSlab{device, memory, wanted};
}

// Called on the stream, where the device must not be called, so memory is not freed here. There is as much of it as
// operations were in flight at a time.
void StreamTable::give_slab(StreamSlab slab) noexcept {
  std::lock_guard lock(mutex_);
  try {
    slabs_.push_back(std::move(slab));
  } catch (...) {  // lost to the pool, and kept by the device
  }
}

void StreamTable::keep(std::unique_ptr<StreamOperation> operation) {
  std::lock_guard lock(mutex_);
  captured_.push_back(std::move(operation));
}

namespace {

// The device whose stream gets the operation. A null stream is the host's while the program uses no other device.
Result<std::shared_ptr<device::Device>> device_of(Session& session, const void* base, CUstream stream) {
  device::MemoryPlace place = device::locate_memory(base);
  if (place.kind != device::MemoryPlace::Kind::kHost) return session.device(place);
  const char* kind = device::kind_in_use();
  if (kind == nullptr) {
    if (stream == nullptr) return session.device(place);
    return Status(Code::kUnsupported, Layer::kApi, "a stream was given, but the process uses no device");
  }
  // Which device's context the stream is in does not matter for host memory.
  place.kind = device::MemoryPlace::Kind::kDevice;
  place.device_kind = kind;
  return session.device(place);
}

CUfileOpError queue_operation(Driver& driver, CUfileHandle_t handle, const StreamArguments& given, CUstream stream,
                              bool write) {
  driver.streams.end_retired();
  if (const CUfileOpError code = driver.ensure_open(); code != CU_FILE_SUCCESS) return code;
  StreamArguments arguments = given;
  if (arguments.base == nullptr || arguments.size == nullptr || arguments.file_offset == nullptr ||
      arguments.offset == nullptr || arguments.result == nullptr) {
    return CU_FILE_INVALID_VALUE;
  }
  FileTable::Use file;
  if (const CUfileOpError code = driver.files.acquire(handle, file); code != CU_FILE_SUCCESS) return code;
  auto device = device_of(*file->session, arguments.base, stream);
  if (!device.ok()) {
    driver.log.write(Severity::kError, device.status().to_string());
    return device.status().code() == Code::kUnsupported ? CU_FILE_ASYNC_NOT_SUPPORTED : CU_FILE_CUDA_DRIVER_ERROR;
  }
  arguments.fixed = driver.streams.flags(stream);
  if (*arguments.size == 0) *arguments.result = 0;  // as recorded from cuFile: known before the stream gets there
  auto operation = std::make_unique<StreamOperation>(driver, std::move(file), arguments, write);
  return StreamOperation::queue(std::move(operation), *device, stream);
}

}  // namespace
}  // namespace headrace::cufile

using namespace headrace::cufile;

CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags) {
  return guarded([&] { return Driver::get().streams.add(stream, flags); });
}

CUfileError_t cuFileStreamDeregister(CUstream stream) {
  return guarded([&] { return Driver::get().streams.remove(stream); });
}

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                              off_t* bufPtr_offset_p, ssize_t* bytes_read_p, CUstream stream) {
  return guarded([&] {
    const StreamArguments arguments{bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_read_p, 0};
    return queue_operation(Driver::get(), fh, arguments, stream, false);
  });
}

CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                               off_t* bufPtr_offset_p, ssize_t* bytes_written_p, CUstream stream) {
  return guarded([&] {
    const StreamArguments arguments{bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_written_p, 0};
    return queue_operation(Driver::get(), fh, arguments, stream, true);
  });
}
