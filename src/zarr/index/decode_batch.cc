// DecodeBatch: a plan's chunks, fetched once and kept in the encoded form that a device decodes.
#include <headrace_bench/decode_batch.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>

#include "base/access.h"
#include "base/checked.h"
#include "base/clock.h"
#include "codec/device_stages.h"
#include "transfer/context/context_impl.h"
#include "transfer/read/read.h"
#include "zarr/index/encoded_sink.h"
#include "zarr/plan/planner.h"

namespace headrace {
namespace {

using zarr::EncodedChunk;
using zarr::kEncodedAlignment;
using zarr::SourcedBox;
using Kind = zarr::BatchMemory::Kind;

double seconds_since(std::uint64_t begun) { return static_cast<double>(base::now_ns() - begun) * 1e-9; }

void add_step(std::vector<DecodeBatch::Step>& steps, std::string_view name, double seconds) {
  const auto found = std::find_if(steps.begin(), steps.end(), [&](const auto& step) { return step.name == name; });
  if (found != steps.end()) {
    found->seconds += seconds;
  } else {
    steps.push_back({std::string(name), seconds});
  }
}

// Records an event after each step.
class TimedMarks final : public device::DecodeMarks {
 public:
  explicit TimedMarks(device::Device& device) : device_(device) {}

  Status begin(device::Stream& stream) {
    used_ = 0;
    status_ = {};
    queued("", stream);
    return status_;
  }
  void queued(const char* step, device::Stream& stream) noexcept override {
    if (status_.ok()) status_ = record(step, stream);
  }
  // Waits for the last step.
  Status finish(DecodeBatch::Times& times) {
    HEADRACE_TRY(status_);
    HEADRACE_TRY(device_.synchronize(*marks_[used_ - 1].event));
    for (std::size_t i = 1; i < used_; ++i) {
      HEADRACE_TRY_ASSIGN(const double seconds, device_.seconds_between(*marks_[i - 1].event, *marks_[i].event));
      add_step(times.steps, marks_[i].step, seconds);
    }
    HEADRACE_TRY_ASSIGN(times.seconds, device_.seconds_between(*marks_[0].event, *marks_[used_ - 1].event));
    return {};
  }

 private:
  Status record(const char* step, device::Stream& stream) noexcept {
    try {
      if (used_ == marks_.size()) {
        HEADRACE_TRY_ASSIGN(auto event, device_.create_timed_event());
        marks_.push_back({nullptr, std::move(event)});
      }
      marks_[used_].step = step;
      return device_.record(*marks_[used_++].event, stream);
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  }
  struct Mark {
    const char* step;
    std::unique_ptr<device::Event> event;
  };
  device::Device& device_;
  std::vector<Mark> marks_;
  std::size_t used_ = 0;
  Status status_;
};

// Host memory into which the device can write outcomes.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() {
    if (data_ != nullptr) device_->deallocate_pinned(data_, bytes_);
  }
  Status allocate(const Device& device, std::size_t bytes) {
    device_ = Access::impl(device);
    HEADRACE_TRY_ASSIGN(data_, device_->allocate_pinned(bytes));
    bytes_ = bytes;
    return {};
  }
  std::byte* data() const noexcept { return data_; }

 private:
  std::shared_ptr<device::Device> device_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

class DecodeBatch::Impl {
 public:
  Impl(std::shared_ptr<const Array::Impl> array, Device device)
      : array_(std::move(array)),
        device_(std::move(device)),
        staged_(!device_.host_addressable()),
        memory_(Access::impl(array_->store.context())->resources->stored_memory()) {}

  Status load(const Selection& selection, const std::optional<Cancel>& cancel);
  Result<Times> run() { return staged_ ? run_on_device() : run_on_workers(); }

  std::uint64_t encoded_bytes = 0, scratch_bytes = 0;
  std::string undone;
  Buffer result;

  std::uint64_t chunk_count() const noexcept { return kept_.chunks.size(); }
  std::uint64_t decoded_bytes() const noexcept { return kept_.chunks.size() * chain().decoded_bytes(); }

 private:
  class Work;

  const codec::Chain& chain() const noexcept { return array_->unit_chain(); }
  Status choose_stages();
  Status choose_workers();
  Status fetch(std::unique_ptr<transfer::Plan> plan, const std::optional<Cancel>& cancel);
  Status place_on_device();
  Result<Times> run_on_device();
  Result<Times> run_on_workers();
  Status outcome_of(std::size_t index) const;

  const std::shared_ptr<const Array::Impl> array_;
  const Device device_;
  const bool staged_;
  zarr::BatchMemory memory_;  // outlives everything below
  device::ElementOp op_;
  std::vector<std::byte> fill_;
  zarr::EncodedChunks kept_;  // holds the encoded bytes until they are on the device
  unsigned workers_ = 1;      // on the host: number of concurrent workers
  // On a device with decoders
  std::size_t first_stage_ = 0;
  std::unique_ptr<device::ChunkDecoder> decoder_;
  Buffer on_device_, decoded_, scratch_;
  PinnedMemory outcomes_;
  std::vector<device::DecodeItem> items_;
  std::vector<device::Box> boxes_;
  std::unique_ptr<TimedMarks> marks_;
  std::unique_ptr<device::Stream> stream_;  // last member: freed first, so queued work ends before its memory is freed
};

Status DecodeBatch::Impl::load(const Selection& selection, const std::optional<Cancel>& cancel) {
  const auto& resources = Access::impl(array_->store.context())->resources;
  HEADRACE_TRY(resources->check_usable());
  HEADRACE_TRY_ASSIGN(const ResolvedSelection resolved, array_->resolve_selection(selection));
  HEADRACE_TRY_ASSIGN(zarr::ReadConversion conversion,
                      zarr::make_conversion(array_->metadata.dtype, array_->element_op, array_->fill,
                                            !array_->metadata.fill.empty(), ReadOptions()));
  if (array_->metadata.rectilinear != nullptr) {
    return Status(Code::kUnsupported, Layer::kZarr,
                  "decoding without I/O of chunks that differ in shape (rectilinear)");
  }
  HEADRACE_TRY(choose_stages());
  op_ = conversion.op;
  fill_ = conversion.fill;
  TensorView tensor;
  tensor.shape = resolved.shape;
  tensor.strides_bytes.resize(tensor.shape.size());
  std::uint64_t bytes = conversion.dtype.item_bytes;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    tensor.strides_bytes[i] = static_cast<std::int64_t>(bytes);
    if (__builtin_mul_overflow(bytes, std::max<std::uint64_t>(tensor.shape[i], 1), &bytes) || bytes > INT64_MAX) {
      return Status(Code::kResourceExhausted, Layer::kApi, "the selection has more bytes than any device");
    }
  }
  HEADRACE_TRY_ASSIGN(result, Buffer::allocate(device_, static_cast<std::size_t>(std::max<std::uint64_t>(bytes, 1))));
  memory_.set_result_bytes(result.size_bytes());
  tensor.memory = {result.data(), result.size_bytes()};
  tensor.dtype = conversion.dtype;
  HEADRACE_TRY_ASSIGN(auto plan, zarr::make_plan(array_, resolved, tensor, std::move(conversion)));
  HEADRACE_TRY(fetch(std::move(plan), cancel));
  return staged_ ? place_on_device() : choose_workers();
}

Status DecodeBatch::Impl::choose_stages() {
  if (chain().raw()) {
    return Status(Code::kInvalidArgument, Layer::kApi,
                  "the array's chunks are stored as they are: there is nothing to decode");
  }
  if (!staged_) return {};
  first_stage_ = codec::device_stage_begin(chain(), *Access::impl(device_));
  HEADRACE_TRY_ASSIGN(decoder_, codec::make_decoder(chain(), *Access::impl(device_)));
  for (std::size_t i = 0; i < first_stage_; ++i) {
    undone += (undone.empty() ? "" : ", ") + std::string(chain().stage_name(i));
  }
  return {};
}

Status DecodeBatch::Impl::fetch(std::unique_ptr<transfer::Plan> plan, const std::optional<Cancel>& cancel) {
  ReadOptions reading;
  reading.cancel = cancel;
  HEADRACE_TRY_ASSIGN(const Device host, Device::open("host"));
  const transfer::HostTarget target{[this](const transfer::ReadTasks& tasks) {
                                      return std::make_unique<zarr::EncodedSink>(tasks, first_stage_, memory_, kept_);
                                    },
                                    first_stage_ > 0 ? chain().capacity_before(first_stage_) : 0};
  HEADRACE_TRY_ASSIGN(const auto read,
                      transfer::Read::create(*Access::impl(array_->store.context())->resources, std::move(plan),
                                             Access::impl(host), std::move(reading), {base::now_ns()}, target));
  HEADRACE_TRY(read->run());
  kept_.sort();
  for (const EncodedChunk& chunk : kept_.chunks) encoded_bytes += chunk.bytes;
  return {};
}

// Uses as many workers as have chunks to decode and memory for it.
Status DecodeBatch::Impl::choose_workers() {
  const std::uint64_t lane_bytes = 2 * chain().temporary_bytes() + (kept_.apart ? chain().decoded_bytes() : 0);
  const std::size_t work = std::max<std::size_t>(kept_.chunks.size() + kept_.absent.size(), 1);
  workers_ =
      static_cast<unsigned>(std::min<std::size_t>(Access::impl(array_->store.context())->resources->threads(), work));
  for (;; --workers_) {
    const auto all = base::checked_mul(lane_bytes, std::uint64_t{workers_});
    Status status = memory_.hold(Kind::kWorking, all.value_or(~std::uint64_t{0}));
    if (status.ok() || workers_ == 1) return status;
  }
}

Status DecodeBatch::Impl::place_on_device() {
  const auto allocate = [&](Buffer& buffer, std::uint64_t bytes) -> Status {
    HEADRACE_TRY_ASSIGN(buffer,
                        Buffer::allocate(device_, static_cast<std::size_t>(std::max(bytes, kEncodedAlignment))));
    return {};
  };
  HEADRACE_TRY(memory_.hold(Kind::kDeviceEncoded, kept_.encoded.size()));
  HEADRACE_TRY(allocate(on_device_, kept_.encoded.size()));
  HEADRACE_TRY(on_device_.copy_from_host(0, kept_.encoded.data(), kept_.encoded.size()));
  kept_.encoded = {};
  memory_.give(Kind::kEncoded);
  const std::uint64_t stride = base::align_up(chain().decoded_bytes(), kEncodedAlignment);
  const auto apart = std::count_if(kept_.chunks.begin(), kept_.chunks.end(),
                                   [](const auto& chunk) { return chunk.in_place == nullptr; });
  const auto apart_bytes = base::checked_mul(static_cast<std::uint64_t>(apart), stride);
  HEADRACE_TRY(memory_.hold(Kind::kDeviceDecoded, apart_bytes.value_or(~std::uint64_t{0})));
  HEADRACE_TRY(allocate(decoded_, apart_bytes.value_or(0)));
  HEADRACE_TRY(
      outcomes_.allocate(device_, std::max<std::size_t>(kept_.chunks.size(), 1) * sizeof(device::DecodeOutcome)));
  device::DecodeLimits limits;
  limits.items = static_cast<std::uint32_t>(kept_.chunks.size());
  std::byte* next = decoded_.data();
  for (const EncodedChunk& chunk : kept_.chunks) {
    limits.src_bytes += chunk.bytes;
    limits.largest_src_bytes = std::max(limits.largest_src_bytes, chunk.bytes);
    std::byte* const dst = chunk.in_place != nullptr ? chunk.in_place : std::exchange(next, next + stride);
    items_.push_back({on_device_.data() + chunk.at, chunk.bytes, dst});
    for (const SourcedBox& each : chunk.boxes) {
      boxes_.push_back(each.box);
      boxes_.back().src = dst + each.source_offset;
    }
  }
  for (const SourcedBox& each : kept_.absent) boxes_.push_back(each.box);
  scratch_bytes = decoder_->scratch_bytes(limits);
  HEADRACE_TRY(allocate(scratch_, scratch_bytes));
  HEADRACE_TRY_ASSIGN(stream_, Access::impl(device_)->create_stream());
  marks_ = std::make_unique<TimedMarks>(*Access::impl(device_));
  return {};
}

Result<DecodeBatch::Times> DecodeBatch::Impl::run_on_device() {
  Times times;
  auto* const outcomes = reinterpret_cast<device::DecodeOutcome*>(outcomes_.data());
  HEADRACE_TRY(marks_->begin(*stream_));
  const std::uint64_t begun = base::now_ns();
  if (!items_.empty()) {
    HEADRACE_TRY(decoder_->decode(items_, {scratch_.data(), scratch_.size_bytes()}, {outcomes, items_.size()}, *stream_,
                                  marks_.get()));
  }
  if (!boxes_.empty()) {
    HEADRACE_TRY(Access::impl(device_)->assemble(boxes_, op_, fill_.data(), *stream_));
    marks_->queued("assemble", *stream_);
  }
  times.host_seconds = seconds_since(begun);
  HEADRACE_TRY(marks_->finish(times));
  // The outcomes arrive after the last decode step, and so after the marks.
  HEADRACE_TRY_ASSIGN(const auto event, Access::impl(device_)->create_event());
  HEADRACE_TRY(Access::impl(device_)->record(*event, *stream_));
  HEADRACE_TRY(Access::impl(device_)->synchronize(*event));
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (!outcomes[i].ok()) return outcome_of(i);
  }
  return times;
}

Status DecodeBatch::Impl::outcome_of(std::size_t index) const {
  const auto outcome = reinterpret_cast<const device::DecodeOutcome*>(outcomes_.data())[index];
  const std::string name(chain().stage_name(first_stage_ + outcome.stage()));
  const EncodedChunk& chunk = kept_.chunks[index];
  if (outcome.host_only()) {
    return Status(Code::kUnsupported, Layer::kDevice, "codec '" + name + "': the device leaves this chunk to the CPU")
        .with_key(chunk.key);
  }
  return Status(Code::kCorrupt, Layer::kDevice,
                "codec '" + name + "': " + device::decode_reason_text(outcome.reason()) + " at byte " +
                    std::to_string(outcome.position()) + " of " + std::to_string(chunk.bytes))
      .with_key(chunk.key);
}

// Any free worker takes the next chunk.
class DecodeBatch::Impl::Work final : public transfer::Workload {
 public:
  explicit Work(const Impl& batch)
      : batch_(batch),
        count_(batch.kept_.chunks.size()),
        total_(count_ + batch.kept_.absent.size()),
        workers_(batch.workers_) {
    for (Worker& worker : workers_) {
      const auto bytes = static_cast<std::size_t>(batch.chain().temporary_bytes());
      worker.workspace = batch.chain().make_workspace();
      worker.workspace.stage_seconds.assign(batch.chain().stage_count(), 0);
      for (int i = 0; i < 2; ++i) {
        worker.temporary[i].resize(bytes);
        worker.workspace.temporary[i] = worker.temporary[i];
      }
      if (batch.kept_.apart) worker.decoded.resize(static_cast<std::size_t>(batch.chain().decoded_bytes()));
    }
  }

  Progress work() override {
    const unsigned index = next_lane_.fetch_add(1, std::memory_order_relaxed);
    if (index >= workers_.size()) return Progress::kFinished;
    // A worker that arrives after the end must not touch the batch, which may already be destroyed.
    for (std::size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < total_;) {
      Status status = do_one(i, workers_[index]);
      std::lock_guard lock(mutex_);
      if (!status.ok() && i < first_bad_) {
        first_bad_ = i;
        status_ = std::move(status);
      }
      if (++done_ == total_) ended_.notify_all();
    }
    return Progress::kFinished;
  }

  Status wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return done_ == total_; });
    return status_;
  }
  void add_steps(std::vector<Step>& steps) const {
    double assemble = 0;
    for (const Worker& worker : workers_) {
      for (std::size_t i = 0; i < worker.workspace.stage_seconds.size(); ++i) {
        add_step(steps, batch_.chain().stage_name(i), worker.workspace.stage_seconds[i]);
      }
      assemble += worker.assemble_seconds;
    }
    add_step(steps, "assemble", assemble);
  }

 private:
  struct Worker {
    codec::Chain::Workspace workspace;
    std::vector<std::byte> temporary[2], decoded;
    double assemble_seconds = 0;
  };

  Status do_one(std::size_t i, Worker& worker) noexcept {
    try {
      if (i < count_) return decode(batch_.kept_.chunks[i], worker);
      copy(batch_.kept_.absent[i - count_].box, nullptr, worker);
      return {};
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  }
  Status decode(const EncodedChunk& chunk, Worker& worker) {
    const codec::Chain& chain = batch_.chain();
    const auto bytes = static_cast<std::size_t>(chain.decoded_bytes());
    std::byte* const dst = chunk.in_place != nullptr ? chunk.in_place : worker.decoded.data();
    Status status = chain.decode({batch_.kept_.encoded.data() + chunk.at, static_cast<std::size_t>(chunk.bytes)},
                                 {dst, bytes}, worker.workspace);
    if (!status.ok()) return std::move(status).with_key(chunk.key);
    for (const SourcedBox& each : chunk.boxes) copy(each.box, dst + each.source_offset, worker);
    return {};
  }
  void copy(device::Box box, const std::byte* src, Worker& worker) {
    const std::uint64_t begun = base::now_ns();
    box.src = src;
    device::copy_box(box, batch_.op_, batch_.fill_.data());
    worker.assemble_seconds += seconds_since(begun);
  }

  const Impl& batch_;
  const std::size_t count_, total_;
  std::vector<Worker> workers_;
  std::atomic<unsigned> next_lane_{0};
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t done_ = 0;                     // guarded by mutex_
  std::size_t first_bad_ = ~std::size_t{0};  // guarded by mutex_
  Status status_;                            // guarded by mutex_
};

Result<DecodeBatch::Times> DecodeBatch::Impl::run_on_workers() {
  const auto& resources = Access::impl(array_->store.context())->resources;
  HEADRACE_TRY(resources->check_usable());
  Times times;
  const auto work = std::make_shared<Work>(*this);
  const std::uint64_t begun = base::now_ns();
  resources->pool().add(work);
  times.host_seconds = seconds_since(begun);
  HEADRACE_TRY(work->wait());
  times.seconds = seconds_since(begun);
  work->add_steps(times.steps);
  return times;
}

DecodeBatch::Times& DecodeBatch::Times::operator+=(const Times& other) {
  seconds += other.seconds;
  host_seconds += other.host_seconds;
  for (const Step& step : other.steps) add_step(steps, step.name, step.seconds);
  return *this;
}

DecodeBatch::DecodeBatch(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
DecodeBatch::DecodeBatch(DecodeBatch&&) noexcept = default;
DecodeBatch& DecodeBatch::operator=(DecodeBatch&&) noexcept = default;
DecodeBatch::~DecodeBatch() = default;

Result<DecodeBatch> DecodeBatch::load(const Array& array, const Selection& selection, const Device& device,
                                      const std::optional<Cancel>& cancel) {
  try {
    auto impl = std::make_unique<Impl>(Access::impl(array), device);
    HEADRACE_TRY(impl->load(selection, cancel));
    return DecodeBatch(std::move(impl));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<DecodeBatch::Times> DecodeBatch::run() {
  try {
    return impl_->run();
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

std::uint64_t DecodeBatch::chunk_count() const noexcept { return impl_->chunk_count(); }
std::uint64_t DecodeBatch::encoded_bytes() const noexcept { return impl_->encoded_bytes; }
std::uint64_t DecodeBatch::decoded_bytes() const noexcept { return impl_->decoded_bytes(); }
std::uint64_t DecodeBatch::scratch_bytes() const noexcept { return impl_->scratch_bytes; }
const std::string& DecodeBatch::undone() const noexcept { return impl_->undone; }
const Buffer& DecodeBatch::result() const noexcept { return impl_->result; }

}  // namespace headrace
