// BlockingEngine: an engine over calls that return when they are through, made by a pool of threads.
//
// Threads: as every engine's. BlockingCalls are made by the pool's threads, all at a time; hold() and let_go() by these
//          and by the engine's user.
// Owns:    its threads and its BlockingCalls, which end after the last of the threads.
#pragma once

#include <memory>

#include "io/engine.h"

namespace headrace::io {

class BlockingCalls {
 public:
  // In a forked child it only frees memory.
  virtual ~BlockingCalls() = default;
  // Bytes moved, or -errno.
  virtual std::int64_t transfer(const EngineRequest& request) noexcept = 0;
  // What the start of a thread gives, 0 or -errno: where tests make it fail.
  virtual std::int64_t may_start_thread() noexcept = 0;
  // On each thread of the pool, before its first transfer.
  virtual void begin_thread() noexcept {}
  // The request was taken: its descriptor stays open until it was let go.
  virtual void hold(const EngineRequest&) noexcept {}
  // Before its completion can be seen. Also of a request that was cancelled.
  virtual void let_go(const EngineRequest&) noexcept {}
  // As the engine's of these names.
  virtual Status register_buffers(std::span<const std::span<std::byte>>) { return {}; }
  virtual std::string registration() const { return {}; }
};

// `info`: name, and what the engine can do; depth and the number of threads are added.
Result<std::unique_ptr<Engine>> make_blocking_engine(EngineInfo info, const EngineOptions& options,
                                                     std::unique_ptr<BlockingCalls> calls);

}  // namespace headrace::io
