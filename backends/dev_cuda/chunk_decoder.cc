#include "chunk_decoder.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "base/checked.h"
#include "cuda_stream.h"
#include "decode_kernels.h"
#include "device/decode_scratch.h"
#include "device/gpu_stage.h"
#include "gpu_stages.inc"
#include "load_only.h"

namespace headrace::device {

std::span<const gpu::StageRow> gpu::stages() {
#define HEADRACE_END_ROW \
  { nullptr, nullptr }
  static const StageRow rows[] = {HEADRACE_GPU_STAGE_ROWS HEADRACE_END_ROW};
#undef HEADRACE_END_ROW
  return {rows, std::size(rows) - 1};
}

namespace cuda {
namespace {

// Larger batches take longer than their launches, and their sizes vary too much for graphs to pay off.
constexpr std::uint64_t kMaxGraphBytes = 32u << 20;

class CudaDecoder final : public ChunkDecoder {
 public:
  struct NamedCodec {
    std::unique_ptr<gpu::GpuCodec> stage;
    const char* name = "";
  };
  CudaDecoder(std::vector<NamedCodec> steps, const DecodeScratch& layout, const Health& health, DecodeGraphs& graphs,
              std::uint32_t number, int ordinal, int multiprocessors)
      : steps_(std::move(steps)),
        layout_(layout),
        health_(health),
        graphs_(graphs),
        number_(number),
        ordinal_(ordinal),
        multiprocessors_(multiprocessors) {
    for (; index_step_ < steps_.size() && index_stride_ == 0; ++index_step_) {
      index_stride_ =
          base::align_up(steps_[index_step_].stage->index_bytes(layout_.capacity(index_step_)), std::uint64_t{16});
      if (index_stride_ != 0) break;
    }
  }

  std::uint64_t index_stride() const noexcept override { return index_stride_; }
  bool wants_large_batches() const noexcept override {
    return std::any_of(steps_.begin(), steps_.end(),
                       [](const NamedCodec& step) { return step.stage->wants_large_batches(); });
  }

  bool ends_early() const noexcept override { return steps_.size() == 1 && steps_[0].stage->ends_early(); }

  std::uint64_t scratch_bytes(const DecodeLimits& limits) const noexcept override {
    return layout_.bytes(limits, [this](std::size_t i, const gpu::Limits& of_stage) {
      return steps_[i].stage->scratch_bytes(of_stage);
    });
  }

  void load(const DecodeLimits& limits) const noexcept override {
    Current current(ordinal_);
    if (current.error() != cudaSuccess || limits.items == 0) return;
    const gpu::LoadOnly only;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!steps_[i].stage->can_load()) continue;
      gpu::Batch batch;
      batch.limits = layout_.limits_of(i, limits);
      batch.scratch_bytes = ~std::uint64_t{0};
      batch.multiprocessors = multiprocessors_;
      // Any error will show again when the kernels are launched.
      if (steps_[i].stage->enqueue(batch, nullptr) != cudaSuccess) (void)cudaGetLastError();
    }
  }

  Status do_decode(std::span<const DecodeItem> items, std::span<std::byte> scratch, std::span<DecodeOutcome> outcomes,
                   Stream& stream, DecodeMarks* marks, const DecodeIndices& indices) override {
    if (items.empty()) return {};
    Current current(ordinal_);
    HEADRACE_TRY(health_.check(current.error(), "selecting the GPU"));
    auto& ours = static_cast<CudaStream&>(stream);
    const auto count = static_cast<std::uint32_t>(items.size());
    DecodeLimits limits = limits_of(items);
    if (steps_.size() == 1) {
      for (const DecodeItem& item : items) {
        limits.dst_bytes += item.dst_bytes != 0 ? std::min(item.dst_bytes, layout_.capacity(0)) : layout_.capacity(0);
      }
    }
    if (scratch_bytes(limits) > scratch.size()) {
      return Status(Code::kInternal, Layer::kDevice, "too little scratch for a batch of " + std::to_string(count));
    }
    std::byte* const list = scratch.data() + DecodeScratch::list_at(count);
    HEADRACE_TRY(send_list(items, scratch, list, ours));
    Decode decode(*this, scratch, limits, gpu::Marks(marks, stream));
    HEADRACE_TRY(send_indices(indices, count, ours, decode.index));
    const DecodeLimits rounded = rounded_up(limits);
    const std::uint64_t decoded_bytes = count * layout_.capacity(steps_.size() - 1);
    const bool is_short = (limits.dst_bytes != 0 ? limits.dst_bytes : decoded_bytes) <= kMaxGraphBytes;
    if (marks != nullptr || !is_short || scratch_bytes(rounded) > scratch.size()) {
      HEADRACE_TRY(decode.queue(ours.stream, {}));
    } else {
      decode.limits = rounded;
      const DecodeShape shape{number_,        rounded,           scratch.data(),
                              scratch.size(), indices.on_device, decode.index.any_given};
      HEADRACE_TRY(graphs_.run(shape, ours.stream, decode));
    }
    HEADRACE_TRY(health_.check(cudaMemcpyAsync(outcomes.data(), scratch.data(), count * sizeof(std::uint64_t),
                                               cudaMemcpyDeviceToHost, ours.stream),
                               "fetching the outcomes"));
    return fetch_indices(indices, ours);
  }

 private:
  // The launches of a batch whose chunk list is being copied to the device.
  struct Decode final : DecodeGraphs::Launches {
    Decode(const CudaDecoder& of, std::span<std::byte> memory, const DecodeLimits& most, const gpu::Marks& told)
        : decoder(of), scratch(memory), limits(most), marks(told) {}
    Status queue(cudaStream_t stream, const gpu::Branch& branch) const override {
      return decoder.queue(*this, stream, branch);
    }

    const CudaDecoder& decoder;
    const std::span<std::byte> scratch;
    DecodeLimits limits;
    gpu::IndexMemory index;
    const gpu::Marks marks;
  };

  Status send_list(std::span<const DecodeItem> items, std::span<std::byte> scratch, std::byte* list,
                   CudaStream& stream) const {
    const std::size_t count = items.size();
    const bool several = steps_.size() > 1;
    const auto bytes = static_cast<std::size_t>(layout_.list_bytes(count));
    HEADRACE_TRY_ASSIGN(const UploadRing::Slot slot, stream.ring->acquire(bytes));
    auto* const between = reinterpret_cast<unsigned char*>(scratch.data() + layout_.between_at(count));
    auto* const chunks = reinterpret_cast<gpu::Chunk*>(slot.host);
    auto* const final = reinterpret_cast<unsigned char**>(slot.host + count * sizeof(gpu::Chunk));
    for (std::size_t i = 0; i < count; ++i) {
      gpu::Chunk& chunk = chunks[i];
      auto* const dst = reinterpret_cast<unsigned char*>(items[i].dst);
      chunk.src = reinterpret_cast<const unsigned char*>(items[i].src);
      chunk.src_bytes = items[i].src_bytes;
      chunk.dst_bytes =
          several || items[i].dst_bytes == 0 ? layout_.capacity(0) : std::min(items[i].dst_bytes, layout_.capacity(0));
      chunk.enough = several ? 0 : items[i].enough;
      chunk.dst = several ? between + i * layout_.stride() : dst;
      if (several) final[i] = dst;
    }
    return stream.ring->send_to(list, bytes);
  }

  Status queue(const Decode& decode, cudaStream_t stream, const gpu::Branch& branch) const {
    const auto count = decode.limits.items;
    std::byte* const memory = decode.scratch.data();
    auto* const outcome_words = reinterpret_cast<std::uint64_t*>(memory);
    std::byte* const list = memory + DecodeScratch::list_at(count);
    auto* const between = reinterpret_cast<unsigned char*>(memory + layout_.between_at(count));
    std::byte* const stage_scratch = memory + layout_.stage_at(count);
    HEADRACE_TRY(health_.check(cudaMemsetAsync(outcome_words, 0xff, count * sizeof(std::uint64_t), stream),
                               "preparing a decode"));
    gpu::Batch batch;
    batch.chunks = reinterpret_cast<gpu::Chunk*>(list);
    batch.outcomes = outcome_words;
    batch.scratch = stage_scratch;
    batch.scratch_bytes = static_cast<std::uint64_t>(memory + decode.scratch.size() - stage_scratch);
    batch.multiprocessors = multiprocessors_;
    batch.marks = decode.marks;
    batch.branch = branch;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (i > 0) {
        auto* const final = reinterpret_cast<unsigned char* const*>(list + count * sizeof(gpu::Chunk));
        HEADRACE_TRY(health_.check(
            launch_advance(batch.chunks, outcome_words, count, between + (i % 2) * count * layout_.stride(),
                           layout_.stride(), i + 1 == steps_.size() ? final : nullptr, layout_.capacity(i), stream),
            "launching a decoder"));
      }
      batch.limits = layout_.limits_of(i, decode.limits);
      batch.stage = static_cast<unsigned>(i);
      batch.index = i == index_step_ ? decode.index : gpu::IndexMemory();
      HEADRACE_TRY(
          health_.check(static_cast<cudaError_t>(steps_[i].stage->enqueue(batch, stream)), "launching a decoder"));
      batch.marks.stage_queued(steps_[i].name);
    }
    return {};
  }

  // Copies the given indices to the device, up to the last one.
  Status send_indices(const DecodeIndices& indices, std::uint32_t count, CudaStream& stream,
                      gpu::IndexMemory& index) const {
    if (indices.pinned == nullptr || index_stride_ == 0) return {};
    if (indices.items != count || indices.stride != index_stride_) {
      return Status(Code::kInternal, Layer::kDevice, "the indices belong to another batch");
    }
    std::uint64_t end = indices.entries_at();
    bool collects = false;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t word = indices.given(i);
      collects = collects || word == kIndexCollect;
      if (word == kIndexNone || word == kIndexCollect) continue;
      if (word > index_stride_)
        return Status(Code::kInternal, Layer::kDevice, "a decode index exceeds the maximum length");
      index.any_given = true;
      end = indices.entries_at() + i * index_stride_ + word;
    }
    std::memset(indices.pinned + indices.made_at(), 0, static_cast<std::size_t>(indices.made_at()));
    auto* const there = reinterpret_cast<unsigned char*>(indices.on_device);
    index.entries = there + indices.entries_at();
    index.stride = index_stride_;
    index.given = reinterpret_cast<const std::uint32_t*>(there);
    index.made = reinterpret_cast<std::uint32_t*>(there + indices.made_at());
    if (collects) {
      // What is copied back includes gaps that no chunk writes.
      HEADRACE_TRY(health_.check(cudaMemsetAsync(index.entries, 0, count * index_stride_, stream.stream),
                                 "clearing decode indices"));
    }
    return health_.check(cudaMemcpyAsync(there, indices.pinned, end, cudaMemcpyHostToDevice, stream.stream),
                         "sending decode indices");
  }
  // Copies the collected indices back, up to the last chunk that was to collect.
  Status fetch_indices(const DecodeIndices& indices, CudaStream& stream) const {
    if (indices.pinned == nullptr || index_stride_ == 0) return {};
    std::uint64_t end = indices.entries_at();
    for (std::uint32_t i = 0; i < indices.items; ++i) {
      if (indices.given(i) == kIndexCollect) end = indices.entries_at() + (i + 1) * index_stride_;
    }
    const std::uint64_t from = indices.made_at();
    return health_.check(cudaMemcpyAsync(indices.pinned + from, indices.on_device + from, end - from,
                                         cudaMemcpyDeviceToHost, stream.stream),
                         "fetching decode indices");
  }

  const std::vector<NamedCodec> steps_;
  const DecodeScratch layout_;
  std::size_t index_step_ = 0;  // the step whose codec has indices
  std::uint64_t index_stride_ = 0;
  const Health& health_;
  DecodeGraphs& graphs_;
  const std::uint32_t number_;  // DecodeGraphs::decoder() of its stages
  const int ordinal_, multiprocessors_;
};

}  // namespace

Result<std::unique_ptr<ChunkDecoder>> make_cuda_decoder(std::span<const DecodeStage> stages, const Health& health,
                                                        DecodeGraphs& graphs, int ordinal, int multiprocessors) {
  const auto unsupported = [](const DecodeStage& stage) {
    return Status(Code::kUnsupported, Layer::kDevice, "codec '" + stage.codec + "' has no GPU decoder here");
  };
  if (stages.empty() || stages.size() > kMaxDecodeStages) {
    return Status(Code::kInvalidArgument, Layer::kDevice, "a decoder needs 1 to 8 stages");
  }
  try {
    std::vector<CudaDecoder::NamedCodec> steps;
    for (const DecodeStage& stage : stages) {
      CudaDecoder::NamedCodec step;
      for (const gpu::StageRow& row : gpu::stages()) {
        if (stage.codec != row.codec) continue;
        step.stage = row.make(stage);
        step.name = row.codec;
      }
      if (step.stage == nullptr) return unsupported(stage);
      steps.push_back(std::move(step));
    }
    return std::unique_ptr<ChunkDecoder>(std::make_unique<CudaDecoder>(
        std::move(steps), DecodeScratch(stages), health, graphs, graphs.decoder(stages), ordinal, multiprocessors));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace cuda
}  // namespace headrace::device
