// Worker: one worker's private memory and counters for one read.
//
// Threads: used by the one worker that holds it.
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
  os::PageBuffer packed;  // of objects that their store unpacks
  os::PageBuffer part;    // of a chunk whose bytes others share
  base::Charge beyond;    // for what is stored longer than the read was planned for

  std::uint64_t capacity() const noexcept {
    std::uint64_t bytes = 0;
    for (const os::PageBuffer* buffer : {&encoded, &decoded, &temporary[0], &temporary[1], &packed, &part}) {
      bytes += buffer->capacity();
    }
    return bytes;
  }
};

// What the device takes out of a file's mapping; gathered by a claim, then handed to its wave.
struct MappedShare {
  // Of a task's bytes as they are read, those from `within` on.
  struct TaskBytes {
    std::uint32_t task;
    std::span<const std::byte> src;
    std::uint64_t within;
  };
  struct Read {
    std::uint32_t group;
    std::uint64_t end, length;  // of the file's bytes that were used
  };
  std::vector<TaskBytes> pieces;
  std::vector<Read> reads;
  std::vector<std::shared_ptr<MappedWindow>> windows;  // of the pieces: kept until the wave is through
  void clear() noexcept {
    pieces.clear();
    reads.clear();
    windows.clear();
  }
};

struct Worker {
  std::uint32_t number = 0;               // of the read's, from 0
  std::unique_ptr<WorkerMemory> memory;   // lent by the context, returned after the read
  std::shared_ptr<const ChunkForm> form;  // that the workspace is for
  codec::Chain::Workspace workspace;
  TaskDetail detail;
  const Task* described = nullptr;     // the task that `detail` is about
  std::vector<std::uint32_t> cold;     // groups of the current claim that are not in the page cache
  std::vector<ReadJob*> jobs;          // the current claim of finished jobs
  std::vector<std::uint32_t> resumed;  // and the wave of each that is through
  std::vector<ReadJob*> again;         // those of them that are asked for again
  MappedShare mapped;
  std::vector<std::shared_ptr<MappedWindow>> windows;  // of the current group
  std::shared_ptr<MappedFile> unmapped;  // the current group's file, if a mapping may pay for the next read
  std::string path;
  unsigned uncut = 0;  // chunks in a row of which no part could be read
  Stats stats;

  // Allocates where it is another form. Throws std::bad_alloc.
  void use(const std::shared_ptr<const ChunkForm>& of) {
    if (form == of) return;
    form.reset();
    workspace = of->chain->make_workspace();
    form = of;
  }
};

}  // namespace headrace::transfer
