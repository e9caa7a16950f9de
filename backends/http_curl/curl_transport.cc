// The transport over libcurl: an ExchangeQueue and the loops that carry its exchanges.
#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "base/fork.h"
#include "curl_library.h"
#include "curl_loop.h"
#include "http/exchange_queue.h"
#include "http/transport.h"

namespace headrace::http {
namespace {

class CurlLoops {
 public:
  CurlLoops(const CurlLibrary& curl, const TransportOptions& options) : options_(options), queue_(options.connections) {
    const std::uint32_t count = std::clamp(options.threads, 1u, std::max(options.connections, 1u));
    for (std::uint32_t i = 0; i < count; ++i) {
      loops_.push_back(std::make_unique<CurlLoop>(curl, options_, queue_, i));
      queue_.add(*loops_.back());
    }
  }
  ~CurlLoops() { stop(); }

  ExchangeQueue& queue() noexcept { return queue_; }
  void stop() noexcept {
    queue_.stop();
    loops_.clear();
  }

 private:
  const TransportOptions options_;
  ExchangeQueue queue_;
  std::vector<std::unique_ptr<CurlLoop>> loops_;
};

class CurlTransport final : public Transport {
 public:
  CurlTransport(const CurlLibrary& curl, const TransportOptions& options) : loops_(curl, options) {}
  Status begin() { return loops_->queue().begin(); }
  Status start(std::span<Exchange* const> exchanges) override {
    if (loops_.inherited()) {
      return Status(Code::kForked, Layer::kStore, "the store was opened before fork(): open it again in the child");
    }
    loops_->queue().start(exchanges);
    return {};
  }
  void use_connections(std::uint32_t count) noexcept override {
    if (!loops_.inherited()) loops_->queue().use_connections(count);
  }
  bool any_waits() const noexcept override { return loops_->queue().any_waits(); }
  void look_for_cancelled() noexcept override {
    if (!loops_.inherited()) loops_->queue().look_for_cancelled();
  }
  void stop() noexcept override {
    if (!loops_.inherited()) loops_->stop();
  }

 private:
  mutable base::ProcessOwn<CurlLoops> loops_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_curl_transport(const TransportOptions& options) {
  HEADRACE_TRY_ASSIGN(const CurlLibrary* const curl, load_curl_library());
  try {
    auto transport = std::make_unique<CurlTransport>(*curl, options);
    HEADRACE_TRY(transport->begin());
    return std::unique_ptr<Transport>(std::move(transport));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::http
