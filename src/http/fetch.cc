#include "http/fetch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

#include "http/answer_head.h"
#include "http/credential_answers.h"

namespace headrace::http {
namespace {

class Question final : public Exchange {
 public:
  explicit Question(const FetchQuestion& asked) {
    method = asked.method;
    body = asked.body;
    url = asked.url.to_string();
    headers = asked.headers;
    headers.push_back("Accept-Encoding: identity");
    headers.push_back("Expect:");
    total_ns = asked.total_ns;
  }
  virtual ~Question() = default;

  bool on_line(std::string_view line) noexcept override {
    try {
      if (head_.is_complete()) return true;  // trailers
      head_.line(line);
      return true;
    } catch (const std::bad_alloc&) {
      return fail(Status::out_of_memory());
    }
  }
  bool on_body(std::span<const std::byte> bytes) noexcept override {
    try {
      if (answer_.body.size() + bytes.size() > kMaxCredentialBytes) {
        return fail(Status(Code::kResourceExhausted, Layer::kStore, "the answer is too long to be credentials"));
      }
      answer_.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return true;
    } catch (const std::bad_alloc&) {
      return fail(Status::out_of_memory());
    }
  }
  void on_end(ExchangeEnd end, std::string_view detail) noexcept override {
    std::lock_guard lock(mutex_);
    if (failed_.ok() && end != ExchangeEnd::kComplete) failed_ = status_of(end, detail);
    if (failed_.ok() && (!head_.is_complete() || !head_.malformed.empty())) {
      failed_ = status_of(ExchangeEnd::kProtocol, {});
    }
    answer_.status = head_.status;
    done_ = true;
    done_signal_.notify_one();  // under the lock: the waiting thread then destroys this object
  }

  Result<FetchAnswer> wait(Transport& transport, const std::atomic<bool>& stop) {
    std::unique_lock lock(mutex_);
    while (!done_signal_.wait_for(lock, std::chrono::milliseconds(50), [&] { return done_; })) {
      if (!stop || cancel_wanted.exchange(true)) continue;
      lock.unlock();
      transport.look_for_cancelled();
      lock.lock();
    }
    HEADRACE_TRY(failed_);
    return std::move(answer_);
  }

 private:
  bool fail(Status status) noexcept {
    failed_ = std::move(status);
    return false;
  }

  AnswerHead head_;
  FetchAnswer answer_;
  Status failed_;
  std::mutex mutex_;
  std::condition_variable done_signal_;
  bool done_ = false;  // guarded by mutex_
};

Result<FetchAnswer> fetch_once(TransportOptions options, const FetchQuestion& question, const std::atomic<bool>& stop) {
  options.connections = 1;
  options.connect_ns = std::min({options.connect_ns, question.connect_ns, question.total_ns});
  options.idle_ns = std::min(options.idle_ns, question.total_ns);
  options.direct = options.direct || question.direct;
  Question asked(question);
  HEADRACE_TRY_ASSIGN(auto transport, make_transport(options));
  Exchange* const one[] = {&asked};
  HEADRACE_TRY(transport->start(one));
  auto answer = asked.wait(*transport, stop);
  transport.reset();  // joins its threads before `asked`, which they call, is destroyed
  return answer;
}

}  // namespace

Fetch make_fetch(const TransportOptions& options, std::shared_ptr<const std::atomic<bool>> stop) {
  return [options, stop = std::move(stop)](const FetchQuestion& question) -> Result<FetchAnswer> {
    for (std::uint32_t attempt = 1;; ++attempt) {
      auto answer = fetch_once(options, question, *stop);
      const bool again = answer.ok() ? answer->status == 429 || answer->status >= 500
                                     : answer.status().code() == Code::kIo || answer.status().code() == Code::kTimeout;
      if (!again || attempt >= question.attempts || *stop) return answer;
      std::this_thread::sleep_for(std::chrono::milliseconds(100) * attempt);
    }
  };
}

}  // namespace headrace::http
