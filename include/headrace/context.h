// Context: what all reads of a program share: threads, I/O engine, devices, memory budgets.
//
// Threads: every call from any thread. Blocking calls block only their caller.
// Owns:    worker threads, one I/O thread, pinned slabs. Stores and arrays keep their Context alive.
// Fails:   after fork(), calls on an inherited Context give kForked in the child, which must create its own.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace headrace {

struct ContextOptions {
  std::string engine = "auto";                             // auto, gds, io_uring, aio, threads
  unsigned threads = 0;                                    // workers; 0: one per CPU this process may run on
  std::size_t host_budget_bytes = std::size_t{768} << 20;  // per read: pinned slabs and decode buffers
  std::size_t device_budget_bytes = std::size_t{2} << 30;  // per read: device slabs, without tensors
  std::size_t wave_bytes = std::size_t{32} << 20;          // target for the decoded bytes of a wave
  // Waves in flight. 0 = automatic: 4, or 8 if the device decodes. Exceptions when the device decodes: reads above half
  // a gigabyte use 4 waves of two to three times the bytes; shorter reads of zstd and deflate, in chunks of 256 KiB or
  // more, use 4 of twice the bytes; reads that select little of each such chunk, with other codecs, use 8 of twice the
  // bytes. Reads from remote stores use up to 16 waves, or 24 if the device decodes.
  unsigned waves = 0;
  bool allow_direct = true;             // use O_DIRECT for cold ranges
  bool cache_reread = true;             // read ranges that are read again through the page cache, if it has room
  bool allow_mapped = true;             // let devices read the page cache themselves
  std::size_t mapped_budget_bytes = 0;  // page cache held for mapped reads; 0: at most a quarter of the memory
  // Memory for decode indices: data recorded by the first decode of a chunk on a GPU, which makes later decodes faster.
  // They take about 0.2 % of the decoded bytes of zstd chunks, at most 0.53 %. 0: none are collected.
  std::size_t index_budget_bytes = 0;
  // Memory whose size stored bytes determine: metadata and listings, directories of ZIP files, references, shard
  // indexes, saved decode indices, the excess of chunks longer than their decoded size suggests, and what a batch
  // (decode.h) needs beyond its result. Beyond the budget, calls fail with kResourceExhausted and name the item. Raise
  // it for very large trusted stores.
  std::size_t stored_budget_bytes = std::size_t{512} << 20;
  // File in which the Context saves, for later processes, how fast CPU and GPU decoded each kind of array. It is loaded
  // at the first read that a GPU decodes and written when the Context is destroyed. "auto": HEADRACE_PLACEMENT_FILE,
  // else headrace/placement.json in XDG_CACHE_HOME or ~/.cache. "": nothing is saved.
  std::string placement_file = "auto";
  bool bind_threads = true;  // keep threads on the CPUs of a NUMA node while they serve only GPUs of that node
};

class HEADRACE_API Context {
 public:
  static Result<Context> create(const ContextOptions& options = {});

  const ContextOptions& options() const noexcept;
  std::string engine_name() const;  // the engine in use, such as "io_uring"
  // Features, why better engines were rejected, and why threads could not be bound to CPUs, one per line.
  std::string engine_report() const;

  class Impl;

 private:
  friend struct Access;
  explicit Context(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace headrace
