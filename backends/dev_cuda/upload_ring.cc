#include "upload_ring.h"

#include <algorithm>
#include <bit>
#include <new>

namespace headrace::device::cuda {
namespace {
// Allocating a buffer takes milliseconds under load, so the first size already suits most waves.
constexpr std::size_t kSmallest = std::size_t{256} << 10;
constexpr std::size_t kMaxBuffers = 16;
}  // namespace

UploadRing::~UploadRing() {
  for (Buffer& buffer : buffers_) release(buffer);
}

void UploadRing::release(Buffer& buffer) noexcept {
  if (buffer.host != nullptr && cudaFreeHost(buffer.host) != cudaSuccess) (void)cudaGetLastError();
  if (buffer.device != nullptr && cudaFree(buffer.device) != cudaSuccess) (void)cudaGetLastError();
  if (buffer.copied != nullptr && cudaEventDestroy(buffer.copied) != cudaSuccess) (void)cudaGetLastError();
  buffer = {};
}

Status UploadRing::grow(Buffer& buffer, std::size_t bytes) {
  release(buffer);
  largest_ = std::max({bytes, largest_, kSmallest});
  const std::size_t size = std::bit_ceil(largest_);
  void* host = nullptr;
  void* device = nullptr;
  HEADRACE_TRY(health_.check(cudaEventCreateWithFlags(&buffer.copied, cudaEventDisableTiming), "creating an event"));
  HEADRACE_TRY(health_.check(cudaHostAlloc(&host, size, cudaHostAllocPortable | cudaHostAllocMapped),
                             "allocating a descriptor buffer"));
  buffer.host = static_cast<std::byte*>(host);
  HEADRACE_TRY(health_.check(cudaMalloc(&device, size), "allocating a descriptor buffer"));
  buffer.device = static_cast<std::byte*>(device);
  buffer.bytes = size;
  return {};
}

Result<UploadRing::Slot> UploadRing::acquire(std::size_t bytes) {
  std::size_t next = buffers_.empty() ? 0 : (current_ + 1) % buffers_.size();
  const bool busy =
      !buffers_.empty() && buffers_[next].bytes != 0 && cudaEventQuery(buffers_[next].copied) == cudaErrorNotReady;
  if (buffers_.empty() || (busy && buffers_.size() < kMaxBuffers)) {
    try {
      // Insert it after the newest, so that the oldest stays next in rotation.
      next = buffers_.empty() ? 0 : current_ + 1;
      buffers_.insert(buffers_.begin() + static_cast<std::ptrdiff_t>(next), Buffer{});
    } catch (...) {
      return Status::out_of_memory();
    }
  } else if (busy) {
    HEADRACE_TRY(health_.check(cudaEventSynchronize(buffers_[next].copied), "waiting for a descriptor buffer"));
  }
  current_ = next;
  Buffer& buffer = buffers_[current_];
  if (buffer.bytes < bytes) HEADRACE_TRY(grow(buffer, bytes));
  return Slot{buffer.host, buffer.device};
}

Status UploadRing::send(std::size_t bytes) { return send_to(buffers_[current_].device, bytes); }

Status UploadRing::send_to(std::byte* device, std::size_t bytes) {
  HEADRACE_TRY(health_.check(cudaMemcpyAsync(device, buffers_[current_].host, bytes, cudaMemcpyHostToDevice, stream_),
                             "sending descriptors"));
  return keep_until_done();
}

Status UploadRing::keep_until_done() {
  Buffer& buffer = buffers_[current_];
  return health_.check(cudaEventRecord(buffer.copied, stream_), "recording an event");
}

}  // namespace headrace::device::cuda
