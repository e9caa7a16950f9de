// A minimal device: memory that only the device may access, and work that is complete when its call returns. It decodes
// nothing, so chunks are decoded on the CPU and copied here.
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "device/device.h"

namespace headrace::device {
namespace {

class ToyStream final : public Stream {};
struct ToyEvent final : Event {
  std::chrono::steady_clock::time_point recorded;
};

class ToyDevice final : public Device {
 public:
  ToyDevice() {
    info_.name = "toy";
    info_.description = "host memory that is copied to";
    info_.host_addressable = false;  // so that reads use pinned memory, copy_to_device() and assemble()
  }
  const DeviceInfo& info() const noexcept override { return info_; }

  Result<std::byte*> allocate(std::size_t bytes) override { return aligned(bytes); }
  void deallocate(std::byte* memory, std::size_t) noexcept override { std::free(memory); }
  // A real device registers this memory with its driver.
  Result<std::byte*> allocate_pinned(std::size_t bytes) override { return aligned(bytes); }
  void deallocate_pinned(std::byte* memory, std::size_t) noexcept override { std::free(memory); }

  Result<std::unique_ptr<Stream>> create_stream() override {
    return std::unique_ptr<Stream>(std::make_unique<ToyStream>());
  }
  Result<std::unique_ptr<Event>> create_event() override {
    return std::unique_ptr<Event>(std::make_unique<ToyEvent>());
  }
  Result<std::unique_ptr<Event>> create_timed_event() override { return create_event(); }
  Result<double> seconds_between(Event& first, Event& second) override {
    const auto time = static_cast<ToyEvent&>(second).recorded - static_cast<ToyEvent&>(first).recorded;
    return std::chrono::duration<double>(time).count();
  }

  Status copy_to_device(std::span<const Piece> pieces, Stream&) override { return copy(pieces); }
  Status copy_to_host(std::span<const Piece> pieces, Stream&) override { return copy(pieces); }
  Status assemble(std::span<const Box> boxes, const ElementOp& op, const std::byte* fill, Stream&) override {
    for (const Box& box : boxes) copy_box(box, op, fill);
    return {};
  }

  // All work queued earlier is already done.
  Status record(Event& event, Stream&) override {
    static_cast<ToyEvent&>(event).recorded = std::chrono::steady_clock::now();
    return {};
  }
  Result<bool> query(Event&) override { return true; }
  Status synchronize(Event&) override { return {}; }
  Status wait_native(Stream&, void* native_stream) override {
    if (native_stream == nullptr) return {};
    return Status(Code::kInvalidArgument, Layer::kDevice, "a toy has no native streams");
  }

 private:
  static Result<std::byte*> aligned(std::size_t bytes) {
    constexpr std::size_t kPage = 4096, kMax = std::size_t{1} << 40;
    void* const memory = bytes > kMax ? nullptr : std::aligned_alloc(kPage, (bytes / kPage + 1) * kPage);
    if (memory == nullptr) return Status(Code::kResourceExhausted, Layer::kDevice, "the toy has not so much memory");
    return static_cast<std::byte*>(memory);
  }
  static Status copy(std::span<const Piece> pieces) {
    for (const Piece& piece : pieces) {
      if (piece.bytes > 0) std::memcpy(piece.dst, piece.src, piece.bytes);
    }
    return {};
  }

  DeviceInfo info_;
};

}  // namespace

Result<std::shared_ptr<Device>> open_toy(int index) {
  if (index != 0) return Status(Code::kInvalidArgument, Layer::kDevice, "there is one toy, number 0");
  return std::shared_ptr<Device>(std::make_shared<ToyDevice>());
}
// A failure says why no device of this kind can be used here. "auto" takes the first kind other than the host.
Result<int> count_toy() { return 1; }

}  // namespace headrace::device
