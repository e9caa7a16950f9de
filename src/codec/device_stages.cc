#include "codec/device_stages.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace headrace::codec {
namespace {

class CoderStage final : public device::HostStage {
 public:
  CoderStage(const StreamCoder& coder, bool exact) : coder_(coder), exact_(exact) {}

  bool ends_early() const noexcept override { return coder_.prefix(1) == Prefix::kEndsEarly; }
  device::DecodeReason decode(std::span<const std::byte> src, std::span<std::byte> dst, std::uint64_t capacity,
                              std::size_t& produced) override {
    std::unique_ptr<Scratch> scratch;
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        scratch = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (scratch == nullptr) scratch = coder_.make_scratch();
    EncodedStream stream;
    stream.src = src.data();
    stream.src_bytes = src.size();
    stream.dst = dst.data();
    stream.dst_capacity = dst.size();
    stream.exact = exact_;
    if (dst.size() < capacity && coder_.prefix(capacity) == Prefix::kEndsEarly) {
      stream.prefix_of = static_cast<std::size_t>(capacity);
    }
    const Status status = coder_.decode(stream, scratch.get());
    produced = stream.dst_bytes;
    {
      std::lock_guard lock(mutex_);
      free_.push_back(std::move(scratch));
    }
    return status.ok() ? device::DecodeReason::kNone : device::DecodeReason::kHeader;
  }

 private:
  const StreamCoder& coder_;
  const bool exact_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;  // guarded by mutex_; as many as the maximum number of threads that
                                                // decoded concurrently
};

}  // namespace

std::unique_ptr<device::HostStage> make_host_stage(const StreamCoder& coder, bool exact) {
  return std::make_unique<CoderStage>(coder, exact);
}

std::size_t device_stage_begin(const Chain& chain, device::Device& device) {
  const device::StandIn* const stand_in = device.stand_in();
  return stand_in != nullptr && stand_in->decodes_any_codec() ? chain.earliest_device_stage()
                                                              : chain.device_stage_begin();
}

Result<std::unique_ptr<device::ChunkDecoder>> make_decoder(const Chain& chain, device::Device& device) {
  const std::size_t begin = device_stage_begin(chain, device);
  if (begin == chain.stage_count()) return Status(Code::kUnsupported, Layer::kDevice, chain.why_not_on_device());
  const std::vector<device::DecodeStage> stages = chain.device_stages(begin);
  device::StandIn* const stand_in = device.stand_in();
  if (stand_in == nullptr) return device.make_decoder(stages);
  std::vector<std::unique_ptr<device::HostStage>> hosts;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    hosts.push_back(make_host_stage(chain.coder(begin + i), stages[i].exact));
  }
  return stand_in->make_host_decoder(stages, std::move(hosts));
}

}  // namespace headrace::codec
