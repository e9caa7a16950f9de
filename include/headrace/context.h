// Context: what a program shares between all its reads: threads, I/O engine, devices, memory budgets.
//
// Threads: every call from any thread. Blocking calls block only their caller.
// Owns:    worker threads, one I/O thread, pinned slabs. Stores and arrays keep their Context alive.
// Fails:   after fork() the child's calls on an inherited Context give kForked; make a new one there.
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
  unsigned threads = 0;                                    // workers; 0: the CPUs this process may run on
  std::size_t host_budget_bytes = std::size_t{768} << 20;  // of each read: pinned slabs and decode buffers
  std::size_t device_budget_bytes = std::size_t{2} << 30;  // of each read: device slabs, tensors excluded
  std::size_t wave_bytes = std::size_t{32} << 20;          // decoded bytes a wave aims at
  // In flight; 0: 4, or 8 where the device decodes; of zstd and deflate there 4 of twice the bytes, where little is
  // wanted of each chunk 8 of twice the bytes, and of any other read above half a gigabyte 4 of two to three times.
  unsigned waves = 0;
  bool allow_direct = true;             // O_DIRECT for cold ranges
  bool cache_reread = true;             // those read again: page cache, where it has room
  bool allow_mapped = true;             // devices take bytes out of the page cache themselves
  std::size_t mapped_budget_bytes = 0;  // page cache kept for that; 0: at most a quarter of the memory
  // Memory for decode indices: what the first decode of a chunk on a GPU notes so that the next ones are faster, about
  // 0.2 % of the decoded bytes of zstd chunks, 0.53 % at most. 0: none are collected.
  std::size_t index_budget_bytes = 0;
  // Memory whose size stored bytes decide: metadata and listings, directories of ZIP files, references, shard indexes,
  // saved decode indices, chunks longer than their decoded size lets expect, batches (decode.h) beyond their result.
  // What is refused fails with kResourceExhausted, naming what it is; raise it for very large stores to be trusted.
  std::size_t stored_budget_bytes = std::size_t{512} << 20;
  // Where a Context keeps, for later processes, which of CPU and GPU decoded which kind of array how fast: it is read
  // at the first read that a GPU decodes, and written when the Context ends. "auto": HEADRACE_PLACEMENT_FILE, else
  // headrace/placement.json in XDG_CACHE_HOME or ~/.cache; "": nothing is kept.
  std::string placement_file = "auto";
  bool bind_threads = true;  // while they work for GPUs of one NUMA node only, threads stay on its CPUs
};

class HEADRACE_API Context {
 public:
  static Result<Context> create(const ContextOptions& options = {});

  const ContextOptions& options() const noexcept;
  std::string engine_name() const;  // the engine in use, e.g. "io_uring"
  // Features, why better engines were refused, and why threads could not be bound to CPUs, one line each.
  std::string engine_report() const;

  class Impl;

 private:
  friend struct Access;
  explicit Context(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace headrace
