// BlockingEngine: an engine over blocking calls, made by a pool of threads.
//
// Threads: as every engine. The pool's threads call BlockingCalls concurrently; hold() and release() are also called by
//          the engine's user.
// Owns:    its threads and its BlockingCalls, which outlive the threads.
#pragma once

#include <memory>

#include "io/engine.h"

namespace headrace::io {

class BlockingCalls {
 public:
  // In a forked child it only frees memory.
  virtual ~BlockingCalls() = default;
  // Returns the bytes moved, or -errno.
  virtual std::int64_t transfer(const EngineRequest& request) noexcept = 0;
  // Result of starting a thread, 0 or -errno: a fault point for tests.
  virtual std::int64_t may_start_thread() noexcept = 0;
  // Called on each thread of the pool before its first transfer.
  virtual void begin_thread() noexcept {}
  // The request was accepted. Its descriptor must stay open until release().
  virtual void hold(const EngineRequest&) noexcept {}
  // Called before the request's completion becomes visible, also if the request was cancelled.
  virtual void release(const EngineRequest&) noexcept {}
  // As the Engine functions of the same names.
  virtual Status register_buffers(std::span<const std::span<std::byte>>) { return {}; }
  virtual std::string registration() const { return {}; }
};

// Transfers to or from host memory by pread() or pwrite(). Returns the bytes moved, or -errno.
std::int64_t transfer_by_system_call(const EngineRequest& request) noexcept;

// `info`: name and capabilities; depth and the number of threads are added.
Result<std::unique_ptr<Engine>> make_blocking_engine(EngineInfo info, const EngineOptions& options,
                                                     std::unique_ptr<BlockingCalls> calls);

}  // namespace headrace::io
