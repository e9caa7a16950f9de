#include "system/measure.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "base/checked.h"
#include "io/engine.h"
#include "os/page_buffer.h"

namespace headrace::system {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr unsigned kDepth = 16;
constexpr int kRounds = 5;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::array<double, kRounds>& values) {
  std::sort(values.begin(), values.end());
  return values[kRounds / 2];
}

// Touches all pages before the clock starts.
std::byte* touched(os::PageBuffer& buffer, std::size_t bytes) {
  std::byte* memory = buffer.reserve(bytes).data();
  if (memory != nullptr) std::memset(memory, 1, bytes);
  return memory;
}

Status read_failure(std::int64_t result, std::uint64_t offset) {
  return Status(Code::kIo, Layer::kIo, "a read of the measurement failed")
      .with_range(offset, kPiece)
      .with_errno(static_cast<int>(-result));
}

}  // namespace

std::optional<double> measure_copy(unsigned threads, std::size_t buffer_bytes) {
  os::PageBuffer from, to;
  const std::byte* source = touched(from, buffer_bytes);
  std::byte* target = touched(to, buffer_bytes);
  if (source == nullptr || target == nullptr) return std::nullopt;
  const std::size_t part = buffer_bytes / threads;
  std::array<double, kRounds> rates{};
  try {
    for (double& rate : rates) {
      const auto start = Clock::now();
      {
        std::vector<std::jthread> helpers;
        for (unsigned i = 1; i < threads; ++i) {
          helpers.emplace_back([=] { std::memcpy(target + i * part, source + i * part, part); });
        }
        std::memcpy(target, source, part);
      }
      rate = static_cast<double>(part * threads) / seconds_since(start);
    }
  } catch (const std::system_error&) {  // no more threads can be created
    return std::nullopt;
  }
  return median(rates);
}

Result<double> measure_direct_read(std::span<const Stretch> stretches, std::uint32_t alignment_bytes,
                                   std::chrono::milliseconds limit, std::string& engine_name) {
  if (alignment_bytes == 0 || kPiece % alignment_bytes != 0) {
    return Status(Code::kUnsupported, Layer::kIo, "the direct alignment does not divide 1 MiB");
  }
  os::PageBuffer memory;
  std::byte* const buffer = touched(memory, kDepth * kPiece);
  if (buffer == nullptr) return Status::out_of_memory();
  HEADRACE_TRY_ASSIGN(auto engine, io::make_engine("auto", {.depth = kDepth, .one_thread = true}));
  engine_name = engine->info().name;
  const std::span<std::byte> slab(buffer, kDepth * kPiece);
  HEADRACE_TRY(engine->register_buffers({&slab, 1}));

  // Whole pieces, so that their offsets are aligned; the end of the file shortens the last one.
  const auto first_of = [](const Stretch& stretch) { return stretch.begin / kPiece * kPiece; };
  auto stretch = stretches.begin();
  std::uint64_t next = stretches.empty() ? 0 : first_of(*stretch), bytes = 0;
  std::vector<std::uint64_t> free_slots;
  for (unsigned i = 0; i < kDepth; ++i) free_slots.push_back(i);
  std::array<io::EngineResult, kDepth> events;
  Status failure;
  const auto start = Clock::now();
  while (true) {
    const bool more = failure.ok() && stretch != stretches.end() && Clock::now() - start < limit;
    while (more && !free_slots.empty() && stretch != stretches.end()) {
      const std::uint64_t slot = free_slots.back();
      const io::EngineRequest request{io::Op::kRead, stretch->file->fd(), next, buffer + slot * kPiece, kPiece, slot};
      HEADRACE_TRY_ASSIGN(const std::size_t taken, engine->submit({&request, 1}));
      if (taken == 0) break;
      free_slots.pop_back();
      next += kPiece;
      if (next >= stretch->end && ++stretch != stretches.end()) next = first_of(*stretch);
    }
    if (free_slots.size() == kDepth) break;
    HEADRACE_TRY_ASSIGN(const std::size_t count, engine->reap(events, std::chrono::seconds(1)));
    for (std::size_t i = 0; i < count; ++i) {
      free_slots.push_back(events[i].tag);
      if (events[i].result > 0) bytes += static_cast<std::uint64_t>(events[i].result);
      if (events[i].result < 0 && failure.ok()) failure = read_failure(events[i].result, 0);
    }
  }
  HEADRACE_TRY(failure);
  if (bytes == 0) return Status(Code::kShort, Layer::kIo, "the file has become too short to measure");
  return static_cast<double>(bytes) / seconds_since(start);
}

Result<BufferedRead> measure_buffered_read(std::span<const Stretch> stretches, std::uint64_t max_bytes,
                                           std::chrono::milliseconds limit) {
  os::PageBuffer memory;
  std::byte* const buffer = touched(memory, kPiece);
  if (buffer == nullptr) return Status::out_of_memory();
  BufferedRead out;
  const auto start = Clock::now();
  for (const Stretch& stretch : stretches) {
    for (std::uint64_t at = stretch.begin; at < stretch.end && out.bytes < max_bytes;) {
      if (Clock::now() - start >= limit) break;
      const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, stretch.end - at));
      const std::int64_t got = stretch.file->read(buffer, bytes, at);
      if (got < 0) return read_failure(got, at);
      if (got == 0) break;
      at += static_cast<std::uint64_t>(got);
      out.bytes += static_cast<std::uint64_t>(got);
    }
  }
  if (out.bytes == 0) return Status(Code::kShort, Layer::kIo, "the file has become too short to measure");
  out.bytes_per_second = static_cast<double>(out.bytes) / seconds_since(start);
  return out;
}

namespace {

// Owns the device and pinned memory of a measurement.
class BusBuffers {
 public:
  BusBuffers(device::Device& device, std::size_t bytes) : device_(device), bytes_(bytes) {}
  ~BusBuffers() {
    if (on_device != nullptr) device_.deallocate(on_device, bytes_);
    if (pinned != nullptr) device_.deallocate_pinned(pinned, bytes_);
  }
  BusBuffers(const BusBuffers&) = delete;
  BusBuffers& operator=(const BusBuffers&) = delete;
  Status allocate() {
    HEADRACE_TRY_ASSIGN(on_device, device_.allocate(bytes_));
    HEADRACE_TRY_ASSIGN(pinned, device_.allocate_pinned(bytes_));
    return {};
  }
  std::byte* on_device = nullptr;
  std::byte* pinned = nullptr;

 private:
  device::Device& device_;
  const std::size_t bytes_;
};

Result<double> copy_rate(device::Device& device, const device::Piece& piece, bool to_device) {
  HEADRACE_TRY_ASSIGN(auto stream, device.create_stream());
  HEADRACE_TRY_ASSIGN(auto event, device.create_event());
  std::array<double, kRounds> rates{};
  for (int round = -1; round < kRounds; ++round) {  // the first round only wakes up the bus
    const auto start = Clock::now();
    HEADRACE_TRY(to_device ? device.copy_to_device({&piece, 1}, *stream) : device.copy_to_host({&piece, 1}, *stream));
    HEADRACE_TRY(device.record(*event, *stream));
    HEADRACE_TRY(device.synchronize(*event));
    if (round >= 0) rates[static_cast<std::size_t>(round)] = static_cast<double>(piece.bytes) / seconds_since(start);
  }
  return median(rates);
}

}  // namespace

Result<BusRates> measure_bus(device::Device& device, std::size_t bytes) {
  BusBuffers buffers(device, bytes);
  HEADRACE_TRY(buffers.allocate());
  std::memset(buffers.pinned, 1, bytes);
  BusRates rates;
  HEADRACE_TRY_ASSIGN(rates.pinned_to_device, copy_rate(device, {buffers.pinned, buffers.on_device, bytes}, true));
  HEADRACE_TRY_ASSIGN(rates.device_to_pinned, copy_rate(device, {buffers.on_device, buffers.pinned, bytes}, false));
  // A smaller copy, since it is slow and a single piece of pageable memory may be copied first.
  const std::size_t some = bytes / 4;
  os::PageBuffer ordinary;
  const std::byte* pageable = touched(ordinary, some);
  if (pageable == nullptr) return Status::out_of_memory();
  HEADRACE_TRY_ASSIGN(rates.pageable_to_device, copy_rate(device, {pageable, buffers.on_device, some}, true));
  return rates;
}

}  // namespace headrace::system
