// Lane: one worker's private memory and counters for one read.
//
// Threads: used by the one worker that holds it.
#pragma once

#include <headrace/stats.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/page_buffer.h"
#include "codec/chain.h"
#include "transfer/io_service.h"
#include "transfer/plan.h"

namespace headrace::transfer {

struct LaneMemory {
  base::PageBuffer encoded, decoded, temporary[2];
};

struct Lane {
  std::unique_ptr<LaneMemory> memory;  // lent by the context, returned after the read
  codec::Chain::Workspace workspace;
  TaskDetail detail;
  const Task* described = nullptr;  // the task that `detail` is about
  std::vector<std::uint32_t> cold;  // groups of the current claim that are not in the page cache
  std::vector<IoJob*> jobs;         // the current claim of finished jobs
  Stats stats;
};

}  // namespace headrace::transfer
