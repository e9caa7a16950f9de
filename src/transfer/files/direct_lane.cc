#include "transfer/files/direct_lane.h"

#include <bit>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/trace.h"
#include "transfer/fetch/straight_reads.h"

namespace headrace::transfer {

void DirectLane::reserve(std::size_t parts) {
  added_.reserve(parts);
  ended_.resize(256);
  room_ = parts;
}

bool DirectLane::open(const std::string& engine, unsigned depth, device::Device* to_device, Notes& notes) noexcept {
  if (engine_ != nullptr || failed_) return !failed_;
  Status status;
  try {
    status = make(engine, depth, to_device, notes);
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  if (status.ok()) return true;
  failed_ = true;
  queue_.reset();
  engine_.reset();
  notes.add("direct path: ", status.message());
  return false;
}

Status DirectLane::make(const std::string& engine, unsigned depth, device::Device* to_device, Notes& notes) {
  io::EngineOptions options;
  options.depth = depth;
  if (to_device != nullptr) reach_device(options, *to_device);
  std::string refused;
  HEADRACE_TRY_ASSIGN(engine_, io::make_engine(engine, options, &refused));
  if (!refused.empty()) notes.add("engine: ", refused);
  registering_ = {};
  queue_.emplace(*engine_);
  queue_->reserve(room_);
  return {};
}

void DirectLane::close() noexcept {
  if (engine_ != nullptr) ended_calls_ += engine_->system_calls();
  queue_.reset();
  engine_.reset();
}

void DirectLane::add(FilePart& part, int fd, const os::WidenedRange& range, std::uint32_t alignment_bytes) {
  part.started_ns = trace::recording() ? base::now_ns() : 0;
  io::Request request;
  request.op = part.write ? io::Op::kWrite : io::Op::kRead;
  request.fd = fd;
  request.offset_bytes = range.offset_bytes;
  request.buffer = {part.host - range.lead_bytes, static_cast<std::size_t>(range.length_bytes)};
  request.alignment_bytes = alignment_bytes;
  if (!part.write) request.min_bytes = range.lead_bytes + part.length;
  request.tag = std::bit_cast<std::uint64_t>(&part);
  added_.push_back(request);
  if (part.slot != nullptr && !part.straight) registering_.read(range.length_bytes);
  ++in_flight_;
}

bool DirectLane::start(bool wait_follows, std::span<std::byte> slab) {
  if (added_.empty()) return false;
  if (!reaches_device()) registering_.before_submit(*engine_, slab);  // else most bytes bypass the slab
  queue_->reserve(added_.size());
  queue_->push(added_, wait_follows);
  added_.clear();
  return true;
}

std::size_t DirectLane::reap(std::vector<FilePart*>& out, std::chrono::nanoseconds timeout) {
  const std::size_t count = queue_->wait(ended_, timeout);
  reaped_ns_ = base::now_ns();
  for (std::size_t i = 0; i < count; ++i) {
    auto* part = std::bit_cast<FilePart*>(ended_[i].tag);
    part->file_bytes = ended_[i].bytes;
    part->status = std::move(ended_[i].status);
    if (part->started_ns != 0) {
      trace::record(part->write ? trace::Stage::kWrite : trace::Stage::kRead, part->started_ns, reaped_ns_,
                    part->file_bytes, trace::TrackKind::kIo);
    }
    out.push_back(part);
  }
  in_flight_ -= count;
  return count;
}

}  // namespace headrace::transfer
