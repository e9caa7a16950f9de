// MappedReads: the ranges of one read that the device takes out of the page cache itself. No CPU touches their bytes.
// Ranges whose windows are not registered yet are read as ever, and counted, so that the windows are registered when
// they come round again.
//
// Threads: every call from any number of threads, each with a Worker of its own; check() to close() of one wave from
// one. Owns:    nothing; windows are held by the wave until close().
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
  // `router` outlives its use, as the store does.
  MappedReads(const ReadTasks& tasks, Router& router) : tasks_(tasks), router_(router) {}

  // Where the range of an object is mapped; nothing: not all of it is. Then worker.unmapped is its file, for
  // note_unmapped(), if mapping it may pay. Otherwise the object stays open until close(), and the claim's share of the
  // wave (worker.mapped) has what is to be handed over.
  std::optional<MappedRange> find(const TaskGroup& group, std::uint32_t group_index, const StoredRange& range,
                                  Worker& worker);
  // The CPU has read the range, of the file worker.unmapped, out of the page cache.
  void note_unmapped(const WaveTasks& wave, const TaskGroup& group, const StoredRange& range, Worker& worker);
  // A claim's share becomes the wave's. False: there was no memory, and the read has to stop.
  bool hand_over(Wave& wave, Worker& worker);

  // The device is through with the wave. A file that is now shorter than what was taken from its mapping was cut
  // meanwhile: its old bytes, or the zeros behind its new end, are not passed on, and its chunks fail.
  void check(Wave& wave, Worker& worker);
  // For the CPU, which must not look at a mapping: the task's stored bytes, read from its file into worker.memory.
  Status read_again(const Wave& wave, std::uint32_t task_index, Worker& worker,
                    std::span<const std::byte>& stored) const;
  void close(Wave& wave) noexcept;

 private:
  static void close_object(Wave& wave, std::uint32_t group_index) noexcept;

  const ReadTasks tasks_;
  Router& router_;
  std::mutex mutex_;  // guards the shares of waves that are not launched
};

}  // namespace headrace::transfer
