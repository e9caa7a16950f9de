// MappedReads: the ranges of one read that the device itself copies from the page cache; no CPU touches their bytes.
// Ranges whose windows are not registered yet are read the usual way and counted, so that the windows are registered
// when the ranges are read again.
//
// Threads: every call from any number of threads, each with its own Worker; check() to close() of one wave from one
//          thread.
// Owns:    nothing; the wave holds its windows until close().
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "transfer/fetch/fetcher.h"
#include "transfer/pagecache/router.h"
#include "transfer/read/mapped_range.h"
#include "transfer/read/read_tasks.h"
#include "transfer/read/wave.h"

namespace headrace::transfer {

class MappedReads {
 public:
  // `router` outlives this object, as the store does.
  MappedReads(const ReadTasks& tasks, Router& router) : tasks_(tasks), router_(router) {}

  // Where the range of an object is mapped; nullopt: not all of it is. Then worker.unmapped is its file, to be passed
  // to note_unmapped(), if mapping it may pay. Otherwise the object stays open until close(), and worker.mapped holds
  // what hand_over() passes on.
  std::optional<MappedRange> find(const TaskGroup& group, std::uint32_t group_index, const StoredRange& range,
                                  Worker& worker);
  // The CPU has read the range of the file worker.unmapped from the page cache.
  void note_unmapped(const WaveTasks& wave, const TaskGroup& group, const StoredRange& range, Worker& worker);
  // Moves the claim's mapped share to the wave. False: out of memory, and the read has to stop.
  bool hand_over(Wave& wave, Worker& worker);

  // Call when the device has finished the wave. A file that is now shorter than the bytes taken from its mapping was
  // truncated meanwhile: the chunks affected fail, so that neither stale bytes nor zeros beyond its end are delivered.
  void check(Wave& wave, Worker& worker);
  // For the CPU, which must not read a mapping: reads the task's stored bytes from its file into worker.memory.
  Status read_again(const Wave& wave, std::uint32_t task_index, Worker& worker,
                    std::span<const std::byte>& stored) const;
  void close(Wave& wave) noexcept;

 private:
  static void close_object(Wave& wave, std::uint32_t group_index) noexcept;

  const ReadTasks tasks_;
  Router& router_;
  std::mutex mutex_;  // guards the mapped shares of waves that are not launched
};

}  // namespace headrace::transfer
