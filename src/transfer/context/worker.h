// Worker: the private memory and counters of one worker for one read.
//
// Threads: only the worker that holds it.
#pragma once

#include <headrace/stats.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "codec/chain.h"
#include "os/page_buffer.h"
#include "transfer/fetch/io_service.h"
#include "transfer/pagecache/mapped_cache.h"
#include "transfer/plan/plan.h"

namespace headrace::transfer {

struct WorkerMemory {
  os::PageBuffer encoded, decoded, temporary[2];
  os::PageBuffer packed;  // for objects that their store unpacks
  os::PageBuffer part;    // for a part of a chunk whose bytes other tasks share
  base::Charge beyond;    // charge for stored bytes beyond the planned size

  std::uint64_t capacity() const noexcept {
    std::uint64_t bytes = 0;
    for (const os::PageBuffer* buffer : {&encoded, &decoded, &temporary[0], &temporary[1], &packed, &part}) {
      bytes += buffer->capacity();
    }
    return bytes;
  }
};

// What the device copies from a file's mapping; gathered during a claim, then handed to its wave.
struct MappedShare {
  // A piece of a task's stored bytes, placed `within` bytes after their start.
  struct TaskBytes {
    std::uint32_t task;
    std::span<const std::byte> src;
    std::uint64_t within;
  };
  struct Read {
    std::uint32_t group;
    std::uint64_t end, length;  // of the range of the file that was used
  };
  std::vector<TaskBytes> pieces;
  std::vector<Read> reads;
  std::vector<std::shared_ptr<MappedWindow>> windows;  // of the pieces: kept until the device has finished the wave
  void clear() noexcept {
    pieces.clear();
    reads.clear();
    windows.clear();
  }
};

struct Worker {
  std::uint32_t number = 0;               // number among the read's workers, from 0
  std::unique_ptr<WorkerMemory> memory;   // lent by the context, returned after the read
  std::shared_ptr<const ChunkForm> form;  // the form that the workspace is for
  codec::Chain::Workspace workspace;
  TaskDetail detail;
  const Task* described = nullptr;     // the task that `detail` describes
  std::vector<std::uint32_t> cold;     // groups of the current claim that are not in the page cache
  std::vector<ReadJob*> jobs;          // the current batch of completed jobs
  std::vector<std::uint32_t> resumed;  // the wave of each job whose group is finished
  std::vector<ReadJob*> again;         // jobs of the batch that have more to read
  MappedShare mapped;
  std::vector<std::shared_ptr<MappedWindow>> windows;  // of the current group
  std::shared_ptr<MappedFile> unmapped;  // the current group's file, if mapping it may pay for later reads
  std::string path;
  unsigned chunks_without_parts = 0;  // number of successive chunks of which no part could be read
  Stats stats;

  // Allocates if the form has changed. Throws std::bad_alloc.
  void use(const std::shared_ptr<const ChunkForm>& of) {
    if (form == of) return;
    form.reset();
    workspace = of->chain->make_workspace();
    form = of;
  }
};

}  // namespace headrace::transfer
