// The two devices that are the host itself.
//
// "host": device memory is memory; copies and assembly happen in the call, on the calling thread.
// "host-staged": the same memory, but nothing the CPU may write into, and work happens later on a thread per stream, as
// on a discrete GPU. A slab reused too early, a missing event or a wrong order shows up as wrong bytes without a GPU.
// Its speed can be that of a bus: HEADRACE_STAGED_LATENCY_US for each operation, HEADRACE_STAGED_GBPS (1e9 bytes a
// second) for copies, HEADRACE_STAGED_JITTER_US for a random delay of up to that much.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/fork.h"
#include "device/device.h"
#include "device/stand_in.h"
#include "host_memory.h"
#include "staged_decoder.h"

namespace headrace::device {
namespace {

double environment_number(const char* name) {
  const char* text = ::secure_getenv(name);
  return text != nullptr ? std::strtod(text, nullptr) : 0.0;
}

struct BusModel {
  double latency_us = environment_number("HEADRACE_STAGED_LATENCY_US");
  double bytes_per_us = environment_number("HEADRACE_STAGED_GBPS") * 1e3;
  double jitter_us = environment_number("HEADRACE_STAGED_JITTER_US");
};

// Tickets count the times an event was recorded; it is done when the last of them has passed through its stream.
struct EventState {
  std::mutex mutex;
  base::ProcessOwn<std::condition_variable> passed;
  std::uint64_t recorded = 0, done = 0;             // guarded by mutex
  std::chrono::steady_clock::time_point passed_at;  // guarded by mutex

  std::uint64_t take_ticket() {
    std::lock_guard lock(mutex);
    return ++recorded;
  }
  void pass(std::uint64_t ticket) {
    std::lock_guard lock(mutex);
    if (ticket > done) done = ticket;
    passed_at = std::chrono::steady_clock::now();
    passed->notify_all();
  }
};

struct HostEvent final : Event {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

struct Task {
  std::vector<Piece> pieces;
  std::vector<Box> boxes;
  ElementOp op;
  std::vector<std::byte> fill;
  std::shared_ptr<const StagedStages> stages;  // with `items`: to be decoded
  std::vector<DecodeItem> items;
  std::byte* scratch = nullptr;
  DecodeOutcome* outcomes = nullptr;
  DecodeIndices indices;
  void (*function)(void*) = nullptr;
  void* data = nullptr;
  std::span<const Piece> late;
  std::shared_ptr<EventState> event;
  std::uint64_t ticket = 0;

  // Of its lists.
  std::size_t capacity_bytes() const noexcept {
    return pieces.capacity() * sizeof(Piece) + boxes.capacity() * sizeof(Box) + fill.capacity() +
           items.capacity() * sizeof(DecodeItem);
  }
};

void run_pieces(std::span<const Piece> pieces) noexcept {
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0) continue;
    if (is_registered_mapping(piece.src)) {
      copy_from_mapping(piece.dst, piece.src, piece.bytes);
    } else {
      std::memcpy(piece.dst, piece.src, piece.bytes);
    }
  }
}

void run_boxes(std::span<const Box> boxes, const ElementOp& op, const std::byte* fill) noexcept {
  for (const Box& box : boxes) copy_box(box, op, fill);
}

class InlineStream final : public Stream {};

// The streams of host-staged: whatever else a caller calls one is refused.
struct StagedStreams {
  std::mutex mutex;
  std::set<const Stream*> all;  // guarded by mutex
};
StagedStreams& staged_streams() {
  static base::PerProcess<StagedStreams> streams;
  return streams.get();
}

class ThreadStream final : public Stream {
  static constexpr std::size_t kQueueSlack = 64, kSpareTasks = 32;
  // A list of boxes may take megabytes, and there are as many streams as waves of all reads at once.
  static constexpr std::size_t kSpareBytes = std::size_t{2} << 20;

  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    std::vector<Task> queue;      // guarded by mutex; from head on, so that a long-lived stream allocates nothing
    std::size_t head = 0;         // guarded by mutex
    std::vector<Task> spare;      // guarded by mutex
    std::size_t spare_bytes = 0;  // guarded by mutex: of their lists
    bool stop = false;            // guarded by mutex
    bool at_work = false;         // guarded by mutex
    bool awaited = false;         // guarded by mutex: rest() waits
    std::condition_variable rested;
    BusModel model;
    std::uint64_t jitter_state = 1;
    std::thread thread;

    explicit State(const BusModel& bus) : model(bus) {
      queue.reserve(kQueueSlack);
      spare.reserve(kSpareTasks);
      thread = std::thread([this] { loop(); });
    }
    ~State() {
      {
        std::lock_guard lock(mutex);
        stop = true;
      }
      wake.notify_one();
      thread.join();
    }

    // Until all that is queued has run; the next stream finds it as it was made.
    void rest() noexcept {
      std::unique_lock lock(mutex);
      awaited = true;
      rested.wait(lock, [&] { return head == queue.size() && !at_work; });
      awaited = false;
      spare.clear();
      spare_bytes = 0;
      jitter_state = 1;
    }

    void delay(const Task& task) {
      double us = model.latency_us;
      if (model.jitter_us > 0) {
        jitter_state = jitter_state * 6364136223846793005u + 1442695040888963407u;
        us += model.jitter_us * static_cast<double>(jitter_state >> 33) / 2147483648.0;
      }
      if (model.bytes_per_us > 0) {
        for (const Piece& piece : task.pieces) us += static_cast<double>(piece.bytes) / model.bytes_per_us;
      }
      if (us > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
    }

    void loop() noexcept {
      std::unique_lock lock(mutex);
      for (;;) {
        wake.wait(lock, [&] { return stop || head < queue.size(); });
        if (head == queue.size()) return;
        Task task = std::move(queue[head++]);
        at_work = true;
        if (head == queue.size() || head >= kQueueSlack) {
          queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(head));
          head = 0;
        }
        lock.unlock();
        if (!task.pieces.empty() || !task.boxes.empty() || !task.items.empty()) delay(task);
        if (!task.pieces.empty()) HEADRACE_DELAY("dev_host.copy");
        run_pieces(task.pieces);
        if (task.function != nullptr) task.function(task.data);
        run_pieces(task.late);
        if (task.stages != nullptr) task.stages->run(task.items, task.scratch, task.outcomes, task.indices);
        run_boxes(task.boxes, task.op, task.fill.data());
        if (task.event) task.event->pass(task.ticket);
        task.pieces.clear();
        task.boxes.clear();
        task.fill.clear();
        task.stages.reset();
        task.indices = {};
        task.function = nullptr;
        task.late = {};
        task.items.clear();
        task.event.reset();
        const std::size_t bytes = task.capacity_bytes();
        lock.lock();
        if (spare.size() < spare.capacity() && bytes <= kSpareBytes - std::min(kSpareBytes, spare_bytes)) {
          spare.push_back(std::move(task));
          spare_bytes += bytes;
        }
        at_work = false;
        if (awaited) rested.notify_one();
      }
    }
  };

 public:
  // Threads of streams that are gone, for the next ones: a read has a stream of its own, and to start and end a thread
  // takes longer than what a small one gives it.
  class IdleThreads {
   public:
    IdleThreads() { states_.reserve(kMost); }
    // Null: there is none.
    std::unique_ptr<State> take() {
      std::lock_guard lock(mutex_);
      if (states_.empty()) return nullptr;
      std::unique_ptr<State> state = std::move(states_.back());
      states_.pop_back();
      return state;
    }
    // It ends where enough are kept.
    void keep(std::unique_ptr<State> state) noexcept {
      std::lock_guard lock(mutex_);
      if (states_.size() < kMost) states_.push_back(std::move(state));
    }

   private:
    static constexpr std::size_t kMost = 8;
    std::mutex mutex_;
    std::vector<std::unique_ptr<State>> states_;  // guarded by mutex_
  };
  using Idle = base::ProcessOwn<IdleThreads>;

  ThreadStream(const BusModel& model, std::shared_ptr<Idle> idle)
      : generation_(base::fork_generation()), idle_(std::move(idle)) {
    StagedStreams& streams = staged_streams();
    std::lock_guard lock(streams.mutex);
    const auto listed = streams.all.insert(this).first;
    try {
      state_ = (*idle_)->take();
      if (state_ == nullptr) state_ = std::make_unique<State>(model);
    } catch (...) {
      streams.all.erase(listed);
      throw;
    }
  }
  ~ThreadStream() override {
    if (generation_ != base::fork_generation()) {
      static_cast<void>(state_.release());  // the thread is not in this process: nothing can be joined
      return;
    }
    {
      StagedStreams& streams = staged_streams();
      std::lock_guard lock(streams.mutex);
      streams.all.erase(this);
    }
    state_->rest();  // what is queued still runs, as on a GPU
    (*idle_)->keep(std::move(state_));
  }

  // A task whose vectors have room from earlier use.
  Task fresh() {
    std::lock_guard lock(state_->mutex);
    if (state_->spare.empty()) return {};
    Task task = std::move(state_->spare.back());
    state_->spare.pop_back();
    state_->spare_bytes -= task.capacity_bytes();
    return task;
  }
  void push(Task task) {
    {
      std::lock_guard lock(state_->mutex);
      state_->queue.push_back(std::move(task));
    }
    state_->wake.notify_one();
  }

 private:
  const std::uint64_t generation_;
  const std::shared_ptr<Idle> idle_;
  std::unique_ptr<State> state_;
};

class HostDevice final : public Device, public StandIn {
 public:
  explicit HostDevice(bool staged)
      : staged_(staged),
        generation_(base::fork_generation()),
        idle_(staged ? std::make_shared<ThreadStream::Idle>() : nullptr) {
    info_.name = staged ? "host-staged" : "host";
    info_.description = staged ? "host memory behind a queue, as a discrete device" : "host memory";
    info_.host_addressable = !staged;
    if (staged) info_.name.copy(info_.uuid.data(), info_.uuid.size());  // so that what tells of GPUs has one to tell
    info_.numa_node = current_numa_node();
    info_.memory_bytes =
        static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }

  const DeviceInfo& info() const noexcept override { return info_; }

  std::optional<std::uint64_t> free_bytes() noexcept override { return free_device_memory(); }
  Result<std::byte*> allocate(std::size_t bytes) override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY_ASSIGN(std::byte* const memory, map_device_memory(bytes));
    if (staged_) {
      try {
        note_staged_memory(memory, bytes);
      } catch (const std::bad_alloc&) {
        unmap_device_memory(memory, bytes);
        return Status::out_of_memory();
      }
    }
    return memory;
  }
  void deallocate(std::byte* memory, std::size_t bytes) noexcept override {
    if (memory == nullptr || inherited()) return;
    if (staged_) forget_staged_memory(memory);
    unmap_device_memory(memory, bytes);
  }
  Result<std::byte*> allocate_pinned(std::size_t bytes) override {
    HEADRACE_TRY(usable());
    return map_pinned_memory(bytes, info_.numa_node);
  }
  void deallocate_pinned(std::byte* memory, std::size_t bytes) noexcept override {
    if (memory != nullptr && !inherited()) unmap_pinned_memory(memory, bytes);
  }

  // The CPU reads a file in place faster than through a mapping; only the stand-in for a GPU takes part.
  Status register_mapping(const std::byte* mapping, std::size_t bytes) override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(fault("dev_host.register_mapping"));
    if (!staged_) return Device::register_mapping(mapping, bytes);
    return add_registered_mapping(mapping, bytes);
  }
  void unregister_mapping(const std::byte* mapping, std::size_t bytes) noexcept override {
    if (staged_ && !inherited()) remove_registered_mapping(mapping, bytes);
  }

  Result<std::unique_ptr<Stream>> create_stream() override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(fault("dev_host.create_stream"));
    try {
      if (staged_) return std::unique_ptr<Stream>(std::make_unique<ThreadStream>(model_, idle_));
      return std::unique_ptr<Stream>(std::make_unique<InlineStream>());
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    } catch (const std::exception& error) {
      return Status(Code::kResourceExhausted, Layer::kDevice, "cannot start a stream's thread")
          .with_cause(error.what());
    }
  }
  Result<std::unique_ptr<Event>> create_event() override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(fault("dev_host.create_event"));
    try {
      return std::unique_ptr<Event>(std::make_unique<HostEvent>());
    } catch (...) {
      return Status::out_of_memory();
    }
  }
  Result<std::unique_ptr<Event>> create_timed_event() override { return create_event(); }
  Result<double> seconds_between(Event& first, Event& second) override {
    const auto time_of = [](Event& event) {
      EventState& state = *static_cast<HostEvent&>(event).state;
      std::lock_guard lock(state.mutex);
      return state.passed_at;
    };
    return std::chrono::duration<double>(time_of(second) - time_of(first)).count();
  }
  Status wait_native(Stream&, void* native_stream) override {
    HEADRACE_TRY(usable());
    if (native_stream == nullptr) return {};
    StagedStreams& streams = staged_streams();
    const auto is_one = [&] {
      std::lock_guard lock(streams.mutex);
      return streams.all.contains(static_cast<const Stream*>(native_stream));
    };
    if (!staged_ || !is_one()) {
      return Status(Code::kInvalidArgument, Layer::kDevice, "a host device has no native streams to wait for");
    }
    HEADRACE_TRY_ASSIGN(const std::unique_ptr<Event> passed, create_event());
    HEADRACE_TRY(record(*passed, *static_cast<Stream*>(native_stream)));
    return synchronize(*passed);
  }

  // A native stream of the staged device is one of its own streams; without one, and on the host, all is done at once.
  void* native_handle(Stream& stream) override { return staged_ ? &stream : nullptr; }
  Status call_host(void* native_stream, void (*function)(void*), void* data) override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(fault("dev_host.call_host"));
    if (!staged_ || native_stream == nullptr) return Device::call_host(native_stream, function, data);
    return enqueue(*static_cast<Stream*>(native_stream), [&](Task& task) {
      task.function = function;
      task.data = data;
    });
  }
  Status move_late(std::span<const Piece> list, void* native_stream) override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(fault("dev_host.move_late"));
    if (!staged_ || native_stream == nullptr) {
      run_pieces(list);
      return {};
    }
    return enqueue(*static_cast<Stream*>(native_stream), [&](Task& task) { task.late = list; });
  }

  Status copy_to_device(std::span<const Piece> pieces, Stream& stream) override { return copy(pieces, stream); }
  Status copy_to_host(std::span<const Piece> pieces, Stream& stream) override { return copy(pieces, stream); }

  Status assemble(std::span<const Box> boxes, const ElementOp& op, const std::byte* fill, Stream& stream) override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(fault("dev_host.assemble"));
    if (!staged_) {
      run_boxes(boxes, op, fill);
      return {};
    }
    return enqueue(stream, [&](Task& task) {
      task.boxes.assign(boxes.begin(), boxes.end());
      task.op = op;
      if (fill != nullptr) task.fill.assign(fill, fill + op.result_bytes());
    });
  }

  // Only the stand-in for a GPU decodes: what the CPU can address it decodes itself.
  StandIn* stand_in() noexcept override { return staged_ ? this : nullptr; }
  Result<std::unique_ptr<ChunkDecoder>> make_decoder(std::span<const DecodeStage> stages) override {
    return staged_ ? make_host_decoder(stages, {}) : Device::make_decoder(stages);
  }
  bool decodes_any_codec() const noexcept override { return staged_decode_model().any_codec; }
  Result<std::unique_ptr<ChunkDecoder>> make_host_decoder(std::span<const DecodeStage> stages,
                                                          std::vector<std::unique_ptr<HostStage>> hosts) override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(StagedStages::check(stages, hosts));
    try {
      return std::unique_ptr<ChunkDecoder>(
          std::make_unique<Decoder>(*this, std::make_shared<StagedStages>(stages, std::move(hosts))));
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  }

  Status record(Event& event, Stream& stream) override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(fault("dev_host.record"));
    auto& state = static_cast<HostEvent&>(event).state;
    if (!staged_) {
      state->pass(state->take_ticket());
      return {};
    }
    // The ticket is taken only once the task has room, so that a failure leaves the event as it was.
    return enqueue(stream, [&](Task& task) {
      task.event = state;
      task.ticket = state->take_ticket();
    });
  }
  Result<bool> query(Event& event) override {
    HEADRACE_TRY(usable());
    EventState& state = *static_cast<HostEvent&>(event).state;
    std::lock_guard lock(state.mutex);
    return state.done >= state.recorded;
  }
  Status synchronize(Event& event) override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(fault("dev_host.synchronize"));
    EventState& state = *static_cast<HostEvent&>(event).state;
    std::unique_lock lock(state.mutex);
    const std::uint64_t ticket = state.recorded;
    state.passed->wait(lock, [&] { return state.done >= ticket; });
    return {};
  }

 private:
  class Decoder final : public ChunkDecoder {
   public:
    Decoder(HostDevice& device, std::shared_ptr<const StagedStages> stages)
        : device_(device), stages_(std::move(stages)) {}
    std::uint64_t index_stride() const noexcept override { return stages_->index_stride(); }
    bool ends_early() const noexcept override { return stages_->ends_early(); }
    void load(const DecodeLimits& limits) const noexcept override {
      if (limits.items > 0) ++staged_decode_model().loads;
    }
    std::uint64_t scratch_bytes(const DecodeLimits& limits) const noexcept override {
      return stages_->scratch_bytes(limits);
    }
    Status do_decode(std::span<const DecodeItem> items, std::span<std::byte> scratch, std::span<DecodeOutcome> outcomes,
                     Stream& stream, DecodeMarks* marks, const DecodeIndices& indices) override {
      HEADRACE_TRY(device_.usable());
      HEADRACE_TRY(device_.fault("dev_host.decode"));
      if (items.empty()) return {};
      if (scratch.size() < stages_->scratch_bytes(limits_of(items)) || outcomes.size() != items.size()) {
        return Status(Code::kInternal, Layer::kDevice,
                      "too little scratch for a batch of " + std::to_string(items.size()));
      }
      HEADRACE_TRY(device_.enqueue(stream, [&](Task& task) {
        task.items.assign(items.begin(), items.end());
        task.stages = stages_;
        task.scratch = scratch.data();
        task.outcomes = outcomes.data();
        task.indices = indices;
      }));
      if (marks != nullptr) marks->queued("decode", stream);  // one chunk after the other, through all codecs
      return {};
    }

   private:
    HostDevice& device_;
    const std::shared_ptr<const StagedStages> stages_;
  };

  bool inherited() const noexcept { return generation_ != base::fork_generation(); }
  Status usable() const {
    if (inherited()) {
      return Status(Code::kForked, Layer::kDevice,
                    "a device opened before fork() was used in the child; open it again");
    }
    if (lost_.load(std::memory_order_relaxed)) return lost();
    return {};
  }
  static Status lost() { return Status(Code::kDeviceLost, Layer::kDevice, "the device is lost"); }

  // A planned failure: ENODEV takes the device away for good, anything else fails this call alone.
  Status fault([[maybe_unused]] const char* point) {
    const std::int64_t result = HEADRACE_FAULT(point, 0);
    if (result >= 0) return {};
    const int error = static_cast<int>(-result);
    if (error == ENODEV) {
      lost_.store(true, std::memory_order_relaxed);
      return lost();
    }
    const Code code = error == ENOMEM ? Code::kResourceExhausted : Code::kIo;
    return Status(code, Layer::kDevice, "the device refused an operation").with_errno(error);
  }

  Status copy(std::span<const Piece> pieces, Stream& stream) {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(fault("dev_host.copy"));
    if (!staged_) {
      run_pieces(pieces);
      return {};
    }
    return enqueue(stream, [&](Task& task) { task.pieces.assign(pieces.begin(), pieces.end()); });
  }

  template <class Fill>
  Status enqueue(Stream& stream, Fill fill) {
    auto& queue = static_cast<ThreadStream&>(stream);
    try {
      Task task = queue.fresh();
      fill(task);
      queue.push(std::move(task));
    } catch (...) {
      return Status::out_of_memory();
    }
    return {};
  }

  const bool staged_;
  const std::uint64_t generation_;
  const BusModel model_;
  const std::shared_ptr<ThreadStream::Idle> idle_;  // of host-staged
  DeviceInfo info_;
  std::atomic<bool> lost_{false};
};

Result<std::shared_ptr<Device>> open(bool staged, int index) {
  if (index != 0) {
    return Status(Code::kInvalidArgument, Layer::kDevice,
                  "there is one host device, number 0; number " + std::to_string(index) + " was asked for");
  }
  try {
    return std::shared_ptr<Device>(std::make_shared<HostDevice>(staged));
  } catch (...) {
    return Status::out_of_memory();
  }
}

}  // namespace

Result<std::shared_ptr<Device>> open_host(int index);
Result<int> count_host();
Result<std::shared_ptr<Device>> open_host_staged(int index);
Result<int> count_host_staged();
MemoryPlace locate_host_staged(const void* address) noexcept;
bool host_staged_in_use() noexcept;

Result<std::shared_ptr<Device>> open_host(int index) { return open(false, index); }
Result<int> count_host() { return 1; }
Result<std::shared_ptr<Device>> open_host_staged(int index) { return open(true, index); }
Result<int> count_host_staged() { return 1; }
MemoryPlace locate_host_staged(const void* address) noexcept {
  MemoryPlace place;
  find_staged_memory(address, place.base, place.bytes);
  if (place.base == nullptr) return place;
  place.kind = MemoryPlace::Kind::kDevice;
  place.device_kind = "host-staged";
  return place;
}
bool host_staged_in_use() noexcept { return has_staged_memory(); }

}  // namespace headrace::device
