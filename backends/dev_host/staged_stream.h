// A stream of the host-staged device: a queue of tasks and a thread that runs them later, as on a discrete GPU.
//
// Threads: every call from any thread.
// Fails:   the constructor, fresh() and push() throw std::bad_alloc and std::system_error.
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

// The simulated bus for copies. 0: no limit or delay.
struct BusModel {
  double latency_us = 0, bytes_per_us = 0, jitter_us = 0;
};
// HEADRACE_STAGED_LATENCY_US, HEADRACE_STAGED_GBPS and HEADRACE_STAGED_JITTER_US.
BusModel bus_of_environment() noexcept;

// Each recording of an event takes a ticket; the event is complete when its latest ticket has passed through the
// stream.
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
  std::shared_ptr<const StagedStages> stages;  // not null: decode `items`
  std::vector<DecodeItem> items;
  std::byte* scratch = nullptr;
  DecodeOutcome* outcomes = nullptr;
  DecodeIndices indices;
  void (*function)(void*) = nullptr;
  void* data = nullptr;
  std::span<const Piece> late;
  std::shared_ptr<EventState> event;
  std::uint64_t ticket = 0;

  // Capacity of its lists.
  std::size_t capacity_bytes() const noexcept {
    return pieces.capacity() * sizeof(Piece) + boxes.capacity() * sizeof(Box) + fill.capacity() +
           items.capacity() * sizeof(DecodeItem);
  }
};

// A task's work on pieces and boxes; also used by the device without streams.
void run_pieces(std::span<const Piece> pieces) noexcept;
void run_boxes(std::span<const Box> boxes, const ElementOp& op, const std::byte* fill) noexcept;

class ThreadStream final : public Stream {
 public:
  // Threads of destroyed streams, kept for the device's next streams.
  class Idle;
  static std::shared_ptr<Idle> make_idle();

  ThreadStream(const BusModel& model, std::shared_ptr<Idle> idle);
  // Waits until everything queued has run.
  ~ThreadStream() override;

  // Whether the pointer is one of this process's live streams.
  static bool is_one(const void* native_stream);

  // A task whose vectors may have capacity from earlier use.
  StreamTask fresh();
  void push(StreamTask task);

 private:
  struct State;
  const std::uint64_t generation_;
  const std::shared_ptr<Idle> idle_;
  std::unique_ptr<State> state_;
};

}  // namespace headrace::device
