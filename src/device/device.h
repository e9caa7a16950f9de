// Device: where finished tensors live, and how bytes get there from host memory.
//
// Work is queued on streams and tracked by events: a slab is returned by event, and nothing blocks per chunk. The host
// device runs everything on the CPU behind the same interface; a GPU back end is a plug-in library.
//
// Threads: all calls from any thread; the calls of one stream by one thread at a time.
// Fails:   kDeviceLost for every call once the device's context is unusable; kResourceExhausted for memory.
#pragma once

#include <headrace/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/box.h"
#include "device/decode.h"

namespace headrace::device {

class StandIn;

struct DeviceInfo {
  std::string name;                // "host", "host-staged", "cuda:0"
  std::string description;         // "NVIDIA H200, driver 580.159.04"
  bool host_addressable = true;    // the CPU may write device memory: decode straight into the tensor, without
                                   // a copy stage
  int numa_node = -1;              // nearest node; -1: unknown
  std::uint64_t memory_bytes = 0;  // 0: unknown
  std::string pci_address;         // "0000:3B:00.0"; empty if it has none
  std::array<char, 16> uuid{};     // of a GPU, from its vendor; zeros if it has none
};

// One contiguous piece: pinned host memory -> device memory (or back, for copy_to_host).
struct Piece {
  const std::byte* src = nullptr;
  std::byte* dst = nullptr;
  std::size_t bytes = 0;
};

// What the devices of one kind know about an address.
struct MemoryPlace {
  enum class Kind : std::uint8_t {
    kHost,    // host memory, including any that no device knows
    kShared,  // managed by the driver, used by both
    kDevice,  // of device number `device`, not addressable by the CPU
  };
  Kind kind = Kind::kHost;
  const char* device_kind = "host";  // DeviceRow::kind
  int device = 0;
  const std::byte* base = nullptr;  // of the allocation that contains the address; null: unknown
  std::size_t bytes = 0;
  bool whole = true;  // no further part of the same allocation begins where this one ends
};

class Stream {
 public:
  virtual ~Stream() = default;
};
class Event {
 public:
  virtual ~Event() = default;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const noexcept = 0;

  // What users should know: why "auto" chose no GPU, or that its code has yet to be compiled; otherwise empty.
  const std::string& note() const noexcept { return note_; }
  void set_note(std::string note) { note_ = std::move(note); }  // called by its opener, before the device is shared

  // Device memory that is free now; none: unknown.
  virtual std::optional<std::uint64_t> free_bytes() noexcept { return std::nullopt; }
  virtual Result<std::byte*> allocate(std::size_t bytes) = 0;  // device memory, aligned to 256 bytes or more
  virtual void deallocate(std::byte* memory, std::size_t bytes) noexcept = 0;
  // Host memory that the device can copy from, page aligned.
  virtual Result<std::byte*> allocate_pinned(std::size_t bytes) = 0;
  virtual void deallocate_pinned(std::byte* memory, std::size_t bytes) noexcept = 0;

  // Allows copy_to_device() to read from a read-only shared mapping of files, page aligned, without the CPU
  // touching it. The pages stay in memory until unregistered, even if a file is truncated meanwhile. kUnsupported
  // if the device cannot do this; kResourceExhausted or kIo if this range cannot be registered (limits, pages
  // that no longer exist).
  virtual Status register_mapping(const std::byte* mapping, std::size_t bytes);
  // REQUIRES: registered with these arguments, and no copy from it is in flight.
  virtual void unregister_mapping(const std::byte* mapping, std::size_t bytes) noexcept;

  virtual Result<std::unique_ptr<Stream>> create_stream() = 0;
  virtual Result<std::unique_ptr<Event>> create_event() = 0;
  // Orders later work on `stream` after what is queued now on the caller's stream (a cudaStream_t; null = default).
  virtual Status wait_native(Stream& stream, void* native_stream) = 0;
  // The reverse: later work on the caller's stream waits for `event`. Devices without native streams block.
  virtual Status make_native_wait(Event& event, void* native_stream);

  // The next three queue work on the caller's own stream (null: default). They may be captured into a graph, which then
  // repeats the work at each launch.
  //
  // Calls `function(data)` on some thread once the stream reaches it; later work waits for it. The function must not
  // call the device.
  virtual Status call_host(void* native_stream, void (*function)(void*), void* data);
  // Copies pieces whose list is read from `list` (pinned) only when the stream reaches the operation. Each has at most
  // kLatePieceBytes; zero bytes are skipped. One side is pinned memory, the other memory of this device.
  static constexpr std::size_t kLatePieceBytes = 8192;
  virtual Status move_late(std::span<const Piece> list, void* native_stream);
  // Whether work queued on this stream is captured into a graph.
  virtual Result<bool> is_capturing(void* native_stream);
  // The native handle of a stream of this device; null if there are none.
  virtual void* native_handle(Stream& stream);

  // One call for all pieces of a wave. The implementation picks a transfer method by piece size.
  virtual Status copy_to_device(std::span<const Piece> pieces, Stream& stream) = 0;
  virtual Status copy_to_host(std::span<const Piece> pieces, Stream& stream) = 0;

  // One launch for all boxes of a wave; boxes must be simplified. src is device or pinned host memory, or null for
  // fill. `fill` (op.result_bytes() bytes, host memory) is read before the call returns.
  virtual Status assemble(std::span<const Box> boxes, const ElementOp& op, const std::byte* fill, Stream& stream) = 0;

  // A decoder for a chain whose stages are all decoded on this device, outermost first; kUnsupported names the first
  // stage that is not. The decoder keeps alive what it needs of the device.
  virtual Result<std::unique_ptr<ChunkDecoder>> make_decoder(std::span<const DecodeStage> stages);
  // For a device that simulates a GPU on the host (device/stand_in.h); null for all others.
  virtual StandIn* stand_in() noexcept { return nullptr; }

  // Makes the device current for the calling thread, for libraries that access its memory without naming the device.
  virtual void enter_thread() noexcept {}

  virtual Status record(Event& event, Stream& stream) = 0;
  // An event that records its completion time; costs more than others.
  virtual Result<std::unique_ptr<Event>> create_timed_event() = 0;
  // REQUIRES: timed events that were recorded and are done.
  virtual Result<double> seconds_between(Event& first, Event& second) = 0;
  virtual Result<bool> query(Event& event) = 0;  // true once all work before it is done
  virtual Status synchronize(Event& event) = 0;  // blocks the calling thread

 private:
  std::string note_;
};

inline Status Device::make_native_wait(Event& event, void*) { return synchronize(event); }
inline Status Device::call_host(void*, void (*function)(void*), void* data) {
  function(data);  // without streams, earlier work is already done
  return {};
}
inline Status Device::move_late(std::span<const Piece>, void*) {
  return Status(Code::kUnsupported, Layer::kDevice, "this device does not accept work on a caller's stream");
}
inline Result<bool> Device::is_capturing(void*) { return false; }
inline void* Device::native_handle(Stream&) { return nullptr; }
inline Status Device::register_mapping(const std::byte*, std::size_t) {
  return Status(Code::kUnsupported, Layer::kDevice, "this device cannot read the page cache itself");
}
inline void Device::unregister_mapping(const std::byte*, std::size_t) noexcept {}
inline Result<std::unique_ptr<ChunkDecoder>> Device::make_decoder(std::span<const DecodeStage>) {
  return Status(Code::kUnsupported, Layer::kDevice, "this device has no decoders");
}

// A row of the table of device back ends, compiled in or loadable (generated from backends/).
struct DeviceRow {
  const char* kind;  // "host", "host-staged", "cuda"
  Result<std::shared_ptr<Device>> (*open)(int index);
  // Number of devices of this kind usable now. A failure says why there are none (no driver, plug-in missing).
  Result<int> (*count)();
  // The memory that an address is in. Cheap; starts no driver, and knows nothing until the program uses devices.
  MemoryPlace (*locate)(const void* address) noexcept = nullptr;
  // Whether the program already uses devices of this kind, so that a null stream may be theirs.
  bool (*in_use)() noexcept = nullptr;
};

std::span<const DeviceRow> devices();

// Whether this is a kind of host: there is one of each, and it has no number.
inline bool is_host(const DeviceRow& row) noexcept { return std::string_view(row.kind).substr(0, 4) == "host"; }

// What the back ends of discrete devices know about an address; kHost if none knows it. Any thread, no lock.
MemoryPlace locate_memory(const void* address) noexcept;
// The kind of discrete device that the program already uses; null if none.
const char* kind_in_use() noexcept;

// "auto" (the first CUDA device, otherwise host), "host", "cuda", "cuda:N". The same name gives the same Device.
Result<std::shared_ptr<Device>> open_device(std::string_view name);

}  // namespace headrace::device
