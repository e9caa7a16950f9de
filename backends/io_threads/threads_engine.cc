// Engine over plain pread and pwrite in a pool of threads.
//
// The reference engine: it needs only POSIX, so all other engines are compared with it, and it remains where io_uring
// and aio are forbidden. As many cores as there are threads copy from the page cache, which no single-submitter engine
// can do.
#include <memory>

#include "base/fault.h"
#include "io/blocking_engine.h"

namespace headrace::io {
namespace {

class FileCalls final : public BlockingCalls {
 public:
  std::int64_t may_start_thread() noexcept override { return HEADRACE_FAULT("io_threads.thread", 0); }
  std::int64_t transfer(const EngineRequest& request) noexcept override {
    const std::int64_t n = transfer_by_system_call(request);
    return request.op == Op::kRead ? HEADRACE_FAULT("io_threads.pread", n) : HEADRACE_FAULT("io_threads.pwrite", n);
  }
};

}  // namespace

Result<std::unique_ptr<Engine>> make_threads_engine(const EngineOptions& options) {
  EngineInfo info;
  info.name = "threads";
  return make_blocking_engine(std::move(info), options, std::make_unique<FileCalls>());
}

}  // namespace headrace::io
