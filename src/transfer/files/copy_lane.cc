#include "transfer/files/copy_lane.h"

#include <utility>

#include "base/clock.h"
#include "base/trace.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kBatches = 8;
constexpr std::size_t kMaxPieces = 4096;
constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;
// Copy engines are busy with less, and a caller with few requests in flight gets some of them back sooner.
constexpr std::uint64_t kLargePieceBytes = std::uint64_t{64} << 10, kLargeBatchBytes = std::uint64_t{4} << 20;
constexpr std::size_t kWorthPieces = 128;
constexpr std::uint64_t kWorthBytes = std::uint64_t{4} << 20;

}  // namespace

bool CopyBatch::full() const noexcept {
  if (pieces.size() >= kMaxPieces || bytes >= kMaxBytes) return true;
  return bytes >= kLargeBatchBytes && bytes >= pieces.size() * kLargePieceBytes;
}

bool CopyBatch::worth_a_copy() const noexcept { return bytes >= kWorthBytes || pieces.size() >= kWorthPieces; }

Status CopyLane::open(std::shared_ptr<device::Device> device, std::size_t parts) {
  device_ = std::move(device);
  for (auto& stream : streams_) {
    HEADRACE_TRY_ASSIGN(stream, device_->create_stream());
  }
  std::vector<CopyBatch> batches(kBatches);
  for (CopyBatch& batch : batches) {
    HEADRACE_TRY_ASSIGN(batch.event, device_->create_event());
    batch.pieces.reserve(kMaxPieces);
    batch.parts.reserve(parts);
    batch.shares.reserve(kMaxPieces);
    batch.windows.reserve(kWorthPieces);
  }
  batches_ = std::move(batches);
  return {};
}

void CopyLane::close() noexcept {
  batches_.clear();
  for (auto& stream : streams_) stream.reset();
}

CopyBatch* CopyLane::filling(bool& begins) noexcept {
  CopyBatch& batch = batches_[filling_];
  if (batch.in_flight) return nullptr;
  begins = batch.number == 0;
  if (begins) batch.number = ++number_;
  return &batch;
}

bool CopyLane::launch(void* native_stream) {
  CopyBatch& batch = batches_[filling_];
  if (batch.in_flight || batch.empty()) return false;
  device::Stream& stream = *streams_[filling_ % 2];
  Status status;
  if (native_stream != nullptr) status = device_->wait_native(stream, native_stream);
  if (status.ok() && !batch.pieces.empty()) {
    status = direction_ == Direction::kToHost ? device_->copy_to_host(batch.pieces, stream)
                                              : device_->copy_to_device(batch.pieces, stream);
  }
  if (status.ok()) status = device_->record(*batch.event, stream);
  batch.in_flight = true;
  batch.launched_ns = trace::recording() ? base::now_ns() : 0;
  ++in_flight_;
  filling_ = (filling_ + 1) % batches_.size();
  if (status.ok()) return true;
  // Part of it may have been queued: wait for that before anything is released.
  if (device_->record(*batch.event, stream).ok()) (void)device_->synchronize(*batch.event);
  batch.status = std::move(status);
  return true;
}

CopyBatch* CopyLane::take_passed() {
  if (in_flight_ == 0) return nullptr;
  CopyBatch& batch = batches_[oldest_];
  const Result<bool> passed = device_->query(*batch.event);
  if (passed.ok() && !*passed) return nullptr;
  if (!passed.ok() && batch.status.ok()) batch.status = passed.status();
  oldest_ = (oldest_ + 1) % batches_.size();
  --in_flight_;
  if (batch.launched_ns != 0) {
    trace::record(trace::Stage::kCopy, batch.launched_ns, base::now_ns(), batch.bytes, trace::TrackKind::kDevice);
  }
  return &batch;
}

void CopyLane::recycle(CopyBatch& batch) noexcept {
  batch.in_flight = false;
  batch.number = batch.bytes = 0;
  batch.pieces.clear();
  batch.parts.clear();
  batch.shares.clear();
  batch.windows.clear();
  batch.status = {};
}

bool CopyLane::passes_soon() const {
  constexpr int kLooks = 16;
  device::Event& event = *batches_[oldest_].event;
  for (int i = 0; i < kLooks; ++i) {
    const Result<bool> passed = device_->query(event);
    if (!passed.ok() || *passed) return true;
  }
  return false;
}

}  // namespace headrace::transfer
