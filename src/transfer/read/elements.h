// Elements: the selected elements of variable length of one read, on their way into offsets and data on the host.
//
// An ElementsSink keeps the bytes of each in memory of the worker that decoded them, with a slot for each element that
// says where. Once the read has ended, gather() sums the lengths up into offsets, and has the bytes copied to their
// places. The plan's boxes move slots, so every selection and layout works as it does for numbers.
//
// Chunks share one half of the host budget. One that finds it exhausted has the other half, which one worker has at a
// time, so what fails does not depend on how many decode at once.
//
// Threads: keep(), and each portion by one worker; the rest by the one that made it, the copying with help of the pool.
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
  // What one worker needs for the chunks of such a read.
  struct Portion {
    std::shared_ptr<const ChunkForm> form;  // that the workspace is for
    codec::Chain::Workspace workspace;
    codec::GrowthBudget* budget = nullptr;  // of workspace and `decoded`
    codec::GrowingBuffer encoded, decoded;
    std::unique_lock<std::mutex> alone;                      // held while its chunk has the second half
    std::optional<os::PageBuffer> unpacking{std::in_place};  // the store's scratch
    base::Charge unpacking_memory;                           // of it
    Arena kept;

    void use(const std::shared_ptr<const ChunkForm>& of);
    // What is in there is given back.
    void use(codec::GrowthBudget& of) noexcept;
    void drop_unpacking() noexcept;
  };

  // `count`: of the selection. kResourceExhausted where their offsets alone are beyond options.max_bytes.
  static Result<std::unique_ptr<Elements>> create(Resources& resources, std::uint64_t count,
                                                  const VariableReadOptions& options);

  // Where the plan's boxes go: one slot for each selected element, in C order. Not memory unless keeps().
  std::span<std::byte> slots() const noexcept;
  bool keeps() const noexcept { return slots_ != nullptr; }
  // That many bytes more are kept: kResourceExhausted beyond max_bytes.
  Status keep(std::uint64_t bytes);
  Portion& portion(std::uint32_t worker) noexcept { return *portions_[worker]; }
  std::span<const std::unique_ptr<Portion>> portions() const noexcept { return portions_; }
  // The portion gives back what it has, and has the second half from then on, for which it waits.
  void take_second_half(Portion& portion);
  void give_second_half(Portion& portion) noexcept;
  // Held together by those who unpack; who holds it alone may drop the others' scratch.
  std::shared_mutex& unpacking() noexcept { return unpacking_; }

  // After a read that went well. Adds to `stats` what it took.
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
  std::unique_ptr<codec::VariableSlot, Free> slots_;  // none with check_only
  std::atomic<std::uint64_t> kept_bytes_{0};
  codec::GrowthBudget shared_, alone_;
  std::mutex alone_mutex_;  // who holds it may use alone_
  std::shared_mutex unpacking_;
  std::vector<std::unique_ptr<Portion>> portions_;  // one for each worker that there can be
  std::vector<std::int64_t> offsets_;
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace headrace::transfer
