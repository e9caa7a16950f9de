// The two devices that are the host itself.
//
// "host": device memory is host memory; copies and assembly run synchronously on the calling thread.
// "host-staged": also host memory, but the CPU must not write to it, and work runs later on a thread per stream, as on
// a discrete GPU. Reusing a slab too early, a missing event or a wrong order then shows as wrong bytes without a GPU.
// It can simulate the speed of a bus: HEADRACE_STAGED_LATENCY_US per operation, HEADRACE_STAGED_GBPS (1e9 bytes a
// second) for copies, HEADRACE_STAGED_JITTER_US for an additional random delay.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/fork.h"
#include "device/device.h"
#include "device/stand_in.h"
#include "host_memory.h"
#include "staged_decoder.h"
#include "staged_stream.h"

namespace headrace::device {
namespace {

struct HostEvent final : Event {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

class InlineStream final : public Stream {};

class HostDevice final : public Device, public StandIn {
 public:
  explicit HostDevice(bool staged)
      : staged_(staged), generation_(base::fork_generation()), idle_(staged ? ThreadStream::make_idle() : nullptr) {
    info_.name = staged ? "host-staged" : "host";
    info_.description = staged ? "host memory behind a queue, as a discrete device" : "host memory";
    info_.host_addressable = !staged;
    if (staged) info_.name.copy(info_.uuid.data(), info_.uuid.size());  // for code that reports GPU UUIDs
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

  // The CPU reads a file directly faster than through a mapping, so only the simulated GPU supports this.
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
    if (!staged_ || !ThreadStream::is_one(native_stream)) {
      return Status(Code::kInvalidArgument, Layer::kDevice, "a host device has no native streams to wait for");
    }
    HEADRACE_TRY_ASSIGN(const std::unique_ptr<Event> passed, create_event());
    HEADRACE_TRY(record(*passed, *static_cast<Stream*>(native_stream)));
    return synchronize(*passed);
  }

  // The staged device's native streams are its own streams. Without one, and on the host, the work runs synchronously.
  void* native_handle(Stream& stream) override { return staged_ ? &stream : nullptr; }
  Status call_host(void* native_stream, void (*function)(void*), void* data) override {
    HEADRACE_TRY(usable());
    HEADRACE_TRY(fault("dev_host.call_host"));
    if (!staged_ || native_stream == nullptr) return Device::call_host(native_stream, function, data);
    return enqueue(*static_cast<Stream*>(native_stream), [&](StreamTask& task) {
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
    return enqueue(*static_cast<Stream*>(native_stream), [&](StreamTask& task) { task.late = list; });
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
    return enqueue(stream, [&](StreamTask& task) {
      task.boxes.assign(boxes.begin(), boxes.end());
      task.op = op;
      if (fill != nullptr) task.fill.assign(fill, fill + op.result_bytes());
    });
  }

  // Only the simulated GPU has a decoder; where the CPU can address the memory, it decodes itself.
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
    // Take the ticket only after the task has room, so that a failure leaves the event unchanged.
    return enqueue(stream, [&](StreamTask& task) {
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
      HEADRACE_TRY(device_.enqueue(stream, [&](StreamTask& task) {
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

  // An injected failure: ENODEV makes the device lost for good, any other error fails only this call.
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
    return enqueue(stream, [&](StreamTask& task) { task.pieces.assign(pieces.begin(), pieces.end()); });
  }

  template <class Fill>
  Status enqueue(Stream& stream, Fill fill) {
    auto& queue = static_cast<ThreadStream&>(stream);
    try {
      StreamTask task = queue.fresh();
      fill(task);
      queue.push(std::move(task));
    } catch (...) {
      return Status::out_of_memory();
    }
    return {};
  }

  const bool staged_;
  const std::uint64_t generation_;
  const BusModel model_ = bus_of_environment();
  const std::shared_ptr<ThreadStream::Idle> idle_;  // for host-staged
  DeviceInfo info_;
  std::atomic<bool> lost_{false};
};

Result<std::shared_ptr<Device>> open(bool staged, int index) {
  if (index != 0) {
    return Status(Code::kInvalidArgument, Layer::kDevice,
                  "there is one host device, number 0; number " + std::to_string(index) + " was requested");
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
