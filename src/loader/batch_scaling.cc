#include "loader/batch_scaling.h"

#include <algorithm>
#include <utility>

#include "base/trace.h"

namespace headrace::loader {

class BatchScaling::OfRead final : public transfer::ReadEnd {
 public:
  OfRead(std::shared_ptr<Streams> streams, const ScaleBy& by, device::NumberType type, std::span<const ScaledBox> boxes)
      : streams_(std::move(streams)), by_(by), type_(type), boxes_(boxes.begin(), boxes.end()) {}

  Status finish(Stats& stats) override {
    HEADRACE_TRY_ASSIGN(std::unique_ptr<device::Stream> stream, take_stream());
    trace::Timer timer(trace::Stage::kAssemble);
    Status status = scale(*stream);
    stats.assemble_seconds += timer.stop();
    if (status.ok()) {  // otherwise work may still be queued on it
      std::lock_guard lock(*streams_->mutex);
      streams_->idle.push_back(std::move(stream));
    }
    return status;
  }

 private:
  Result<std::unique_ptr<device::Stream>> take_stream() {
    {
      std::lock_guard lock(*streams_->mutex);
      if (!streams_->idle.empty()) {
        std::unique_ptr<device::Stream> stream = std::move(streams_->idle.back());
        streams_->idle.pop_back();
        return stream;
      }
    }
    return streams_->device->create_stream();
  }

  // Nothing is queued on return, even on failure: the memory belongs to another batch next.
  Status scale(device::Stream& stream) {
    device::Device& device = *streams_->device;
    std::sort(boxes_.begin(), boxes_.end(), [](const ScaledBox& a, const ScaledBox& b) { return a.entry < b.entry; });
    std::vector<device::Box> same;
    same.reserve(boxes_.size());
    HEADRACE_TRY_ASSIGN(const std::unique_ptr<device::Event> done, device.create_event());
    Status queued;
    for (std::size_t i = 0; i < boxes_.size() && queued.ok();) {
      const std::size_t entry = boxes_[i].entry;  // a launch has one scale and offset
      same.clear();
      for (; i < boxes_.size() && boxes_[i].entry == entry; ++i) same.push_back(boxes_[i].box);
      device::ElementOp op{.element_bytes = device::number_bytes(type_)};
      op.conversion = {
          .from = type_, .to = type_, .scaled = true, .scale = by_.scale[entry], .offset = by_.offset[entry]};
      queued = device.assemble(same, op, nullptr, stream);
    }
    Status ended = device.record(*done, stream);
    if (ended.ok()) ended = device.synchronize(*done);
    return queued.ok() ? ended : queued;
  }

  const std::shared_ptr<Streams> streams_;
  const ScaleBy& by_;
  const device::NumberType type_;
  std::vector<ScaledBox> boxes_;
};

std::unique_ptr<transfer::ReadEnd> BatchScaling::make_read_end(const ScaleBy& by, device::NumberType type,
                                                               std::span<const ScaledBox> boxes) const {
  if (boxes.empty()) return nullptr;
  return std::make_unique<OfRead>(streams_, by, type, boxes);
}

}  // namespace headrace::loader
