// What VariableRead hands out and keeps for its workers: groups of chunks, and a worker's memory.
//
// Threads: a worker is used by the one worker that holds it; its scratch is dropped by another that holds
//          VariableRead's unpacking_mutex_ alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/memory_budget.h"
#include "codec/chain.h"
#include "codec/growing_buffer.h"
#include "os/page_buffer.h"
#include "store/store.h"
#include "transfer/plan/plan.h"
#include "transfer/read/arena.h"
#include "transfer/read/variable_read.h"

namespace headrace::transfer {

struct VariableRead::TaskBatch {
  WaveTasks tasks;
  std::uint32_t next_group = 0;  // guarded by the read's mutex
  std::atomic<std::uint64_t> groups_left{0};
};

struct VariableRead::Worker {
  std::shared_ptr<const ChunkForm> form;  // that the workspace is for
  codec::Chain::Workspace workspace;
  codec::GrowingBuffer encoded, decoded;
  std::unique_lock<std::mutex> alone;  // held while this worker's chunk has the budget for one
  TaskDetail detail;
  store::ByteSource object;
  std::optional<os::PageBuffer> unpacking{std::in_place};  // the store's scratch
  base::Charge unpacking_memory;                           // of it
  Arena kept;
  Stats stats;

  void drop_unpacking() noexcept {
    unpacking.emplace();
    unpacking_memory.give_all();
  }
  void use(const std::shared_ptr<const ChunkForm>& of, codec::GrowthBudget& budget) {
    if (form == of) return;
    form.reset();
    workspace = of->chain->make_workspace();
    use(budget);
    form = of;
  }
  void use(codec::GrowthBudget& budget) {
    workspace.set_budget(&budget);
    decoded.set_budget(&budget);
  }
  void end_group(codec::GrowthBudget& shared) {
    object.close();
    if (!alone.owns_lock()) return;
    use(shared);
    encoded.set_budget(&shared);
    alone.unlock();
  }
};

}  // namespace headrace::transfer
