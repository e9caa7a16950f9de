// Elements: the selected variable-length elements of one read, until they become offsets and data on the host.
//
// An ElementsSink keeps the bytes of each element in memory of the worker that decoded it, with a slot per element that
// locates them. After the read, gather() sums the lengths up into offsets and copies the bytes to their places. The
// plan's boxes move slots, so every selection and layout works as it does for numbers.
//
// Chunks share one half of the host budget. A chunk that exhausts it gets the other half, which one worker uses at a
// time; so whether a chunk fails does not depend on how many are decoded at once.
//
// Threads: keep() from any thread; a portion belongs to one worker; the rest from the thread that made this object,
//          with help of the pool for copying.
#pragma once

#include <headrace/array.h>
#include <headrace/status.h>
#include <headrace/variable.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "base/memory_budget.h"
#include "codec/chain.h"
#include "codec/growing_buffer.h"
#include "codec/variable_codec.h"
#include "os/page_buffer.h"
#include "transfer/context/resources.h"
#include "transfer/plan/plan.h"
#include "transfer/read/arena.h"

namespace headrace::transfer {

class Elements {
 public:
  // One worker's memory for decoding such chunks.
  struct Portion {
    std::shared_ptr<const ChunkForm> form;  // the form that the workspace is for
    codec::Chain::Workspace workspace;
    codec::GrowthBudget* budget = nullptr;  // for workspace and `decoded`
    codec::GrowingBuffer encoded, decoded;
    std::unique_lock<std::mutex> alone;                      // held while its chunk uses the second half of the budget
    std::optional<os::PageBuffer> unpacking{std::in_place};  // the store's scratch
    base::Charge unpacking_memory;                           // charge for `unpacking`
    Arena kept;

    void use(const std::shared_ptr<const ChunkForm>& of);
    // Changes the budget. Memory charged to the previous one is released.
    void use(codec::GrowthBudget& of) noexcept;
    void drop_unpacking() noexcept;
  };

  // `count`: elements of the selection. kResourceExhausted where the offsets alone exceed options.max_bytes.
  static Result<std::unique_ptr<Elements>> create(Resources& resources, std::uint64_t count,
                                                  const VariableReadOptions& options);

  // Destination of the plan's boxes: one slot for each selected element, in C order. Not real memory unless keeps().
  std::span<std::byte> slots() const noexcept;
  bool keeps() const noexcept { return slots_ != nullptr; }
  // Accounts for `bytes` more kept bytes: kResourceExhausted beyond max_bytes.
  Status keep(std::uint64_t bytes);
  Portion& portion(std::uint32_t worker) noexcept { return *portions_[worker]; }
  std::span<const std::unique_ptr<Portion>> portions() const noexcept { return portions_; }
  // Releases the portion's memory, waits for the second half of the budget, and gives it to the portion.
  void acquire_second_half(Portion& portion);
  void release_second_half(Portion& portion) noexcept;
  // Held shared while unpacking; a thread that holds it exclusively may drop the other workers' scratch.
  std::shared_mutex& unpacking() noexcept { return unpacking_; }

  // Call after a successful read. Adds its time to `stats`.
  Status gather(Stats& stats);
  std::vector<std::int64_t> take_offsets() noexcept { return std::move(offsets_); }
  std::unique_ptr<std::byte[]> take_data() noexcept { return std::move(data_); }

 private:
  class Copying;

  Elements(Resources& resources, std::uint64_t count, const VariableReadOptions& options);
  Status sum_up();

  Resources& resources_;
  const VariableReadOptions& options_;
  const std::uint64_t count_;
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  std::unique_ptr<codec::VariableSlot, Free> slots_;  // null with check_only
  std::atomic<std::uint64_t> kept_bytes_{0};
  codec::GrowthBudget shared_, alone_;
  std::mutex alone_mutex_;  // guards alone_
  std::shared_mutex unpacking_;
  std::vector<std::unique_ptr<Portion>> portions_;  // one per possible worker
  std::vector<std::int64_t> offsets_;
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace headrace::transfer
