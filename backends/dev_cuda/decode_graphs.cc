#include "decode_graphs.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "base/fork.h"
#include "cuda_stream.h"

namespace headrace::device::cuda {
namespace {

constexpr std::size_t kMaxDecoders = 1024;

// Rounds up to a multiple of 1/2^bits of the power of two below.
std::uint64_t next_of(std::uint64_t bytes, int bits) noexcept {
  if (bytes < 16) return bytes;
  const std::uint64_t unit = std::uint64_t{1} << (static_cast<int>(std::bit_width(bytes)) - 1 - bits);
  return (bytes + unit - 1) / unit * unit;
}

bool same(const DecodeStage& a, const DecodeStage& b) {
  return a.codec == b.codec && a.parameters == b.parameters && a.capacity_bytes == b.capacity_bytes &&
         a.exact == b.exact;
}

}  // namespace

DecodeLimits rounded_up(const DecodeLimits& limits) noexcept {
  return {limits.items, next_of(limits.src_bytes, 2), next_of(limits.largest_src_bytes, 1),
          next_of(limits.dst_bytes, 2)};
}

DecodeGraphs::Graph::~Graph() {
  // A forked child's driver does not know the graph.
  if (exec == nullptr || generation != base::fork_generation()) return;
  Current current(ordinal);
  if (cudaGraphExecDestroy(exec) != cudaSuccess) (void)cudaGetLastError();
}

DecodeGraphs::~DecodeGraphs() {
  graphs_.clear();
  if (capture_ == nullptr || generation_ != base::fork_generation()) return;
  Current current(ordinal_);
  if (branch_.ended != nullptr) (void)cudaEventDestroy(branch_.ended);
  if (branch_.begun != nullptr) (void)cudaEventDestroy(branch_.begun);
  if (branch_.stream != nullptr) (void)cudaStreamDestroy(branch_.stream);
  if (cudaStreamDestroy(capture_) != cudaSuccess) (void)cudaGetLastError();
}

std::uint32_t DecodeGraphs::decoder(std::span<const DecodeStage> stages) {
  std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < decoders_.size(); ++i) {
    if (std::ranges::equal(decoders_[i], stages, same)) return static_cast<std::uint32_t>(i + 1);
  }
  if (decoders_.size() == kMaxDecoders) return 0;
  decoders_.emplace_back(stages.begin(), stages.end());
  return static_cast<std::uint32_t>(decoders_.size());
}

Status DecodeGraphs::run(const DecodeShape& shape, cudaStream_t stream, const Launches& launches) {
  if (shape.decoder == 0) return launches.queue(stream, {});
  GraphTable<Graph>::Use use;
  {
    std::lock_guard lock(mutex_);
    use = graphs_.use(shape, !refused_);
  }
  std::shared_ptr<Graph> graph = std::move(use.graph);
  // Only one thread creates a graph at a time; others queue their launches meanwhile.
  if (std::unique_lock making(making_, std::defer_lock); use.makes && making.try_lock()) {
    graph = make(launches);
    std::lock_guard lock(mutex_);
    refused_ = refused_ || graph == nullptr;
    if (graph != nullptr) graphs_.keep(shape, graph, graph->nodes);
  }
  if (graph != nullptr) {
    const cudaError_t error = cudaGraphLaunch(graph->exec, stream);
    if (error != cudaErrorInvalidValue) return health_.check(error, "launching a decoder");
    // The memory that the graph sets has changed since the graph was created.
    (void)cudaGetLastError();
    std::lock_guard lock(mutex_);
    graphs_.drop(shape);
  }
  return launches.queue(stream, {});
}

void DecodeGraphs::forget(const std::byte* memory, std::size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  graphs_.forget(memory, bytes);
}

std::shared_ptr<DecodeGraphs::Graph> DecodeGraphs::make(const Launches& launches) {
  const auto failed = [](cudaError_t error) {
    if (error != cudaSuccess) (void)cudaGetLastError();
    return error != cudaSuccess;
  };
  auto made = std::make_shared<Graph>();
  made->ordinal = ordinal_;
  made->generation = generation_;
  const auto stream = [&](cudaStream_t& of) {
    return of == nullptr && failed(cudaStreamCreateWithFlags(&of, cudaStreamNonBlocking));
  };
  const auto event = [&](cudaEvent_t& of) {
    return of == nullptr && failed(cudaEventCreateWithFlags(&of, cudaEventDisableTiming));
  };
  if (stream(capture_) || event(branch_.begun) || event(branch_.ended) || stream(branch_.stream)) return nullptr;
  if (failed(cudaStreamBeginCapture(capture_, cudaStreamCaptureModeRelaxed))) return nullptr;
  bool queued = false;
  try {
    queued = launches.queue(capture_, branch_).ok();
  } catch (const std::bad_alloc&) {  // the capture must still be ended
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(capture_, &graph);
  std::size_t nodes = 0;
  const bool good = !failed(ended) && queued && !failed(cudaGraphGetNodes(graph, nullptr, &nodes)) &&
                    !failed(cudaGraphInstantiate(&made->exec, graph, 0));
  made->nodes = nodes;
  if (graph != nullptr) (void)failed(cudaGraphDestroy(graph));
  return good ? made : nullptr;
}

}  // namespace headrace::device::cuda
