// A stream of the host-staged device: a queue of tasks and a thread that does them later, as on a discrete GPU.
//
// Threads: every call from any thread.
// Fails:   fresh(), push() and making a stream throw what memory and threads throw.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/fork.h"
#include "device/device.h"
#include "staged_decoder.h"

namespace headrace::device {

// The bus that copies pass. 0: as fast as it goes.
struct BusModel {
  double latency_us = 0, bytes_per_us = 0, jitter_us = 0;
};
// HEADRACE_STAGED_LATENCY_US, HEADRACE_STAGED_GBPS and HEADRACE_STAGED_JITTER_US.
BusModel bus_of_environment() noexcept;

// Tickets count the times an event was recorded; it is done when the last of them has passed through its stream.
struct EventState {
  std::mutex mutex;
  base::ProcessOwn<std::condition_variable> passed;
  std::uint64_t recorded = 0, done = 0;             // guarded by mutex
  std::chrono::steady_clock::time_point passed_at;  // guarded by mutex

  std::uint64_t take_ticket();
  void pass(std::uint64_t ticket);
};

struct StreamTask {
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

// What a task does with them, for a device without streams too.
void run_pieces(std::span<const Piece> pieces) noexcept;
void run_boxes(std::span<const Box> boxes, const ElementOp& op, const std::byte* fill) noexcept;

class ThreadStream final : public Stream {
 public:
  // Threads of a device's streams that are gone, for its next ones.
  class Idle;
  static std::shared_ptr<Idle> make_idle();

  ThreadStream(const BusModel& model, std::shared_ptr<Idle> idle);
  // What is queued still runs.
  ~ThreadStream() override;

  // Whether it is one of this process's streams that there are.
  static bool is_one(const void* native_stream);

  // A task whose vectors have room from earlier use.
  StreamTask fresh();
  void push(StreamTask task);

 private:
  struct State;
  const std::uint64_t generation_;
  const std::shared_ptr<Idle> idle_;
  std::unique_ptr<State> state_;
};

}  // namespace headrace::device
