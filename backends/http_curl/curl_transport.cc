// The transport over libcurl: one thread that runs its multi interface. No other thread calls libcurl: whoever starts
// or cancels leaves a note and wakes the thread by a descriptor.
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>

#include "base/clock.h"
#include "base/fork.h"
#include "curl_library.h"
#include "http/transport.h"

namespace headrace::http {
namespace {

constexpr long kReceiveBytes = 512 << 10;  // fewer calls of recv(): half the processor time of the default of 16 KiB
constexpr long kStreamsPerConnection = 4;  // of HTTP/2: more of them share one connection's rate
constexpr std::uint64_t kMillisecond = 1'000'000;

bool is_loopback(std::string_view url) noexcept {
  const std::string_view host = url.substr(std::min(url.find("://"), url.size() - 3) + 3);
  return host.starts_with("127.") || host.starts_with("localhost:") || host.starts_with("localhost/") ||
         host.starts_with("[::1]");
}

class CurlLoop {
 public:
  CurlLoop(const CurlLibrary& curl, const TransportOptions& options)
      : curl_(curl), options_(options), most_active_(options.connections) {
    active_.reserve(options.connections);
    idle_.reserve(options.connections);
  }
  ~CurlLoop() {
    if (thread_.joinable()) {
      {
        std::lock_guard lock(mutex_);
        stopping_ = true;
      }
      wake();
      thread_.join();
    }
    if (wake_ >= 0) ::close(wake_);
  }

  Status begin() {
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_ < 0) return Status(Code::kResourceExhausted, Layer::kStore, "no descriptor is left").with_errno(errno);
    try {
      // Signals are the program's; and one for a connection that the server has closed ends no program.
      sigset_t all, before;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
      try {
        thread_ = std::thread([this] { run(); });
      } catch (...) {
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
      }
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    } catch (const std::system_error& error) {
      return Status(Code::kResourceExhausted, Layer::kStore, "no thread for HTTP").with_cause(error.what());
    }
    return {};
  }

  Status start(std::span<Exchange* const> exchanges) {
    try {
      std::lock_guard lock(mutex_);
      incoming_.insert(incoming_.end(), exchanges.begin(), exchanges.end());
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
    if (std::this_thread::get_id() != thread_.get_id()) wake();
    return {};
  }

  void use_connections(std::uint32_t count) noexcept {
    most_active_.store(std::clamp(count, 1u, options_.connections), std::memory_order_relaxed);
  }
  bool any_waits() const noexcept { return !waiting_.empty(); }

  void look_for_cancelled() noexcept {
    cancels_.store(true, std::memory_order_release);
    wake();
  }

 private:
  struct Transfer {
    CURL* easy = nullptr;
    curl_slist* headers = nullptr;
    CurlLoop* loop = nullptr;
    Exchange* exchange = nullptr;
    std::uint64_t begun_ns = 0;
    std::uint64_t moved_ns = 0;  // when the last byte came
    bool answering = false, stopped = false;
    char error[CURL_ERROR_SIZE] = {};
  };

  void wake() noexcept {
    const std::uint64_t one = 1;
    (void)!::write(wake_, &one, sizeof one);
  }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
    auto& transfer = *static_cast<Transfer*>(user);
    transfer.moved_ns = base::now_ns();
    if (!transfer.answering) {
      if (transfer.exchange->facts != nullptr) transfer.loop->note_tls(transfer);
      curl_off_t microseconds = 0;
      (void)transfer.loop->curl_.easy_getinfo(transfer.easy, CURLINFO_PRETRANSFER_TIME_T, &microseconds);
      transfer.exchange->asked_ns =
          std::min(transfer.begun_ns + static_cast<std::uint64_t>(std::max<curl_off_t>(microseconds, 0)) * 1000,
                   transfer.moved_ns);
    }
    transfer.answering = true;
    const std::size_t bytes = size * count;
    if (transfer.exchange->on_line({data, bytes})) return bytes;
    transfer.stopped = true;
    return bytes == 0 ? 1 : 0;
  }

  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
    auto& transfer = *static_cast<Transfer*>(user);
    transfer.moved_ns = base::now_ns();
    const std::size_t bytes = size * count;
    if (transfer.exchange->on_body({reinterpret_cast<const std::byte*>(data), bytes})) return bytes;
    transfer.stopped = true;
    return bytes == 0 ? 1 : 0;
  }

  // The session is there while the transfer is under way.
  void note_tls(Transfer& transfer) const noexcept {
    curl_tlssessioninfo* session = nullptr;
    if (curl_.ssl_version == nullptr || curl_.easy_getinfo(transfer.easy, CURLINFO_TLS_SSL_PTR, &session) != CURLE_OK ||
        session == nullptr || session->backend != CURLSSLBACKEND_OPENSSL || session->internals == nullptr) {
      return;
    }
    try {
      transfer.exchange->facts->tls_version = curl_.ssl_version(session->internals);
    } catch (const std::bad_alloc&) {
      transfer.exchange->facts->tls_version.clear();
    }
  }

  void note_facts(Transfer& transfer, CURLcode code) const noexcept {
    using Stage = ConnectionFacts::Stage;
    ConnectionFacts& facts = *transfer.exchange->facts;
    const auto seconds = [&](CURLINFO what) {
      double value = 0;
      return curl_.easy_getinfo(transfer.easy, what, &value) == CURLE_OK ? value : 0;
    };
    long connections = 0;
    (void)curl_.easy_getinfo(transfer.easy, CURLINFO_NUM_CONNECTS, &connections);
    facts.is_new = connections > 0;
    facts.name_seconds = seconds(CURLINFO_NAMELOOKUP_TIME);
    facts.connect_seconds = seconds(CURLINFO_CONNECT_TIME);
    facts.tls_seconds = seconds(CURLINFO_APPCONNECT_TIME);
    facts.failed = code == CURLE_COULDNT_RESOLVE_HOST            ? Stage::kName
                   : code == CURLE_COULDNT_RESOLVE_PROXY         ? Stage::kProxyName
                   : code == CURLE_COULDNT_CONNECT               ? Stage::kConnect
                   : code == CURLE_SSL_CONNECT_ERROR             ? Stage::kHandshake
                   : end_of(code, transfer) == ExchangeEnd::kTls ? Stage::kCertificate
                                                                 : Stage::kNone;
  }

  void run() noexcept {
    ::pthread_setname_np(::pthread_self(), "headrace-http");
    multi_ = curl_.multi_init();
    if (multi_ != nullptr) {
      (void)curl_.multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.connections));
      (void)curl_.multi_setopt(multi_, CURLMOPT_MAX_HOST_CONNECTIONS, static_cast<long>(options_.connections));
      (void)curl_.multi_setopt(multi_, CURLMOPT_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
    }
    while (take_incoming()) {
      if (cancels_.exchange(false, std::memory_order_acquire)) drop_cancelled();
      admit();
      int running = 0;
      if (multi_ != nullptr) (void)curl_.multi_perform(multi_, &running);
      end_finished();
      drop_late();
      wait();
    }
    for (Transfer* const transfer : idle_) free_transfer(transfer);
    if (multi_ != nullptr) (void)curl_.multi_cleanup(multi_);
  }

  // False: time to go. Those that hold this have none under way then.
  bool take_incoming() noexcept {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
    std::ptrdiff_t taken = 0;
    try {
      for (Exchange* const exchange : incoming_) {
        if (exchange->urgent) {
          waiting_.push_front(exchange);
        } else {
          waiting_.push_back(exchange);
        }
        ++taken;
      }
      incoming_.clear();
    } catch (const std::bad_alloc&) {
      incoming_.erase(incoming_.begin(), incoming_.begin() + taken);
      starved_ = true;  // once more after the next wait
    }
    return true;
  }

  void drop_cancelled() noexcept {
    // Ends may start others: those come later.
    for (std::size_t i = 0; i < waiting_.size();) {
      Exchange* const exchange = waiting_[i];
      if (!exchange->cancel_wanted.load(std::memory_order_relaxed)) {
        ++i;
        continue;
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      exchange->on_end(ExchangeEnd::kCancelled, {});
    }
    for (std::size_t i = active_.size(); i-- > 0;) {
      if (active_[i]->exchange->cancel_wanted.load(std::memory_order_relaxed)) {
        end(active_[i], ExchangeEnd::kCancelled, {});
      }
    }
  }

  // Begins those that may, as far as there are connections.
  void admit() noexcept {
    const std::uint64_t now = base::now_ns();
    for (std::size_t i = 0; i < waiting_.size();) {
      Exchange* const exchange = waiting_[i];
      if (exchange->cancel_wanted.load(std::memory_order_relaxed)) {
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        exchange->on_end(ExchangeEnd::kCancelled, {});
        continue;
      }
      if (active_.size() >= most_active_.load(std::memory_order_relaxed)) return;
      if (exchange->not_before_ns > now) {
        ++i;
        continue;
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      begin_transfer(*exchange, now);
    }
  }

  void begin_transfer(Exchange& exchange, std::uint64_t now) noexcept {
    if (exchange.deadline_ns == 0) {
      exchange.deadline_ns = exchange.total_ns == 0 ? ~std::uint64_t{0} : now + exchange.total_ns;
    }
    exchange.on_begin();
    Transfer* const transfer = multi_ != nullptr ? idle_transfer() : nullptr;
    if (transfer == nullptr) return exchange.on_end(ExchangeEnd::kNoMemory, {});
    transfer->exchange = &exchange;
    transfer->begun_ns = transfer->moved_ns = base::now_ns();
    transfer->answering = transfer->stopped = false;
    transfer->error[0] = '\0';
    bool good = true;
    for (const std::string& header : exchange.headers) {
      curl_slist* const longer = curl_.slist_append(transfer->headers, header.c_str());
      good = good && longer != nullptr;
      if (longer != nullptr) transfer->headers = longer;
    }
    good = good && curl_.easy_setopt(transfer->easy, CURLOPT_URL, exchange.url.c_str()) == CURLE_OK;
    good = good && curl_.easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers) == CURLE_OK;
    // A proxy's loopback is another machine's.
    const char* const no_proxy = options_.direct || is_loopback(exchange.url) ? "*" : nullptr;
    good = good && curl_.easy_setopt(transfer->easy, CURLOPT_NOPROXY, no_proxy) == CURLE_OK;
    good = good && set_method(*transfer, exchange);
    good = good && curl_.multi_add_handle(multi_, transfer->easy) == CURLM_OK;
    if (good) {
      active_.push_back(transfer);  // has room
      return;
    }
    clear_headers(*transfer);
    idle_.push_back(transfer);
    exchange.on_end(ExchangeEnd::kNoMemory, {});
  }

  // Handles are used again: nothing of a request before it stays.
  bool set_method(Transfer& transfer, const Exchange& exchange) noexcept {
    CURL* const easy = transfer.easy;
    if (std::strcmp(exchange.method, "GET") == 0) {
      return curl_.easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK &&
             curl_.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, static_cast<const char*>(nullptr)) == CURLE_OK;
    }
    return curl_.easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(exchange.body.size())) == CURLE_OK &&
           curl_.easy_setopt(easy, CURLOPT_POSTFIELDS, exchange.body.c_str()) == CURLE_OK &&
           curl_.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, exchange.method) == CURLE_OK;
  }

  Transfer* idle_transfer() noexcept {
    if (!idle_.empty()) {
      Transfer* const transfer = idle_.back();
      idle_.pop_back();
      return transfer;
    }
    Transfer* const transfer = new (std::nothrow) Transfer;
    if (transfer == nullptr) return nullptr;
    transfer->loop = this;
    transfer->easy = curl_.easy_init();
    if (transfer->easy == nullptr || !set_options(*transfer)) {
      free_transfer(transfer);
      return nullptr;
    }
    return transfer;
  }

  bool set_options(Transfer& transfer) noexcept {
    CURL* const easy = transfer.easy;
    bool good = true;
    const auto set = [&](CURLoption option, auto value) {
      good = good && curl_.easy_setopt(easy, option, value) == CURLE_OK;
    };
    const auto try_set = [&](CURLoption option, auto value) { (void)curl_.easy_setopt(easy, option, value); };
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_WRITEFUNCTION, &CurlLoop::on_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
    set(CURLOPT_HEADERFUNCTION, &CurlLoop::on_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
    set(CURLOPT_PRIVATE, static_cast<void*>(&transfer));
    set(CURLOPT_ERRORBUFFER, static_cast<char*>(transfer.error));
    set(CURLOPT_FOLLOWLOCATION, 0L);  // ours: it would carry tokens along
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    set(CURLOPT_PATH_AS_IS, 1L);  // signed as it stands
    set(CURLOPT_HTTP_CONTENT_DECODING, 0L);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_ns / kMillisecond));
    set(CURLOPT_USERAGENT, "headrace");
    try_set(CURLOPT_BUFFERSIZE, kReceiveBytes);
    try_set(CURLOPT_HTTP09_ALLOWED, 0L);
    try_set(CURLOPT_PROTOCOLS_STR, "http,https");
    try_set(CURLOPT_TCP_KEEPALIVE, 1L);
    try_set(CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
    try_set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    try_set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (!options_.proxy.empty()) set(CURLOPT_PROXY, options_.proxy.c_str());
    if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
    return good;
  }

  void clear_headers(Transfer& transfer) noexcept {
    (void)curl_.easy_setopt(transfer.easy, CURLOPT_HTTPHEADER, static_cast<curl_slist*>(nullptr));
    curl_.slist_free_all(transfer.headers);
    transfer.headers = nullptr;
  }

  void free_transfer(Transfer* transfer) noexcept {
    if (transfer->headers != nullptr) curl_.slist_free_all(transfer->headers);
    if (transfer->easy != nullptr) curl_.easy_cleanup(transfer->easy);
    delete transfer;
  }

  // The transfer is done with; libcurl does not call for it any more when its exchange is told.
  void end(Transfer* transfer, ExchangeEnd how, std::string_view detail) noexcept {
    (void)curl_.multi_remove_handle(multi_, transfer->easy);
    clear_headers(*transfer);
    active_.erase(std::find(active_.begin(), active_.end(), transfer));
    Exchange* const exchange = std::exchange(transfer->exchange, nullptr);
    idle_.push_back(transfer);  // has room
    exchange->on_end(how, detail);
  }

  void end_finished() noexcept {
    if (multi_ == nullptr) return;
    int left = 0;
    while (CURLMsg* const message = curl_.multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      char* user = nullptr;
      (void)curl_.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
      auto* const transfer = reinterpret_cast<Transfer*>(user);
      const CURLcode code = message->data.result;
      // libcurl's text names the host and what the system said; of a redirect or header it has seen, nothing.
      if (transfer->exchange->facts != nullptr) note_facts(*transfer, code);
      const std::string_view detail = code == CURLE_OK ? "" : curl_.easy_strerror(code);
      end(transfer, end_of(code, *transfer), detail);
    }
  }

  static ExchangeEnd end_of(CURLcode code, const Transfer& transfer) noexcept {
    if (transfer.stopped) return ExchangeEnd::kStopped;
    switch (code) {
      case CURLE_OK:
        return ExchangeEnd::kComplete;
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
      case CURLE_COULDNT_CONNECT:
      case CURLE_SSL_CONNECT_ERROR:  // also of a connection that breaks during the handshake
        return ExchangeEnd::kNoConnection;
      case CURLE_OPERATION_TIMEDOUT:
        return ExchangeEnd::kConnectTimeout;  // the only one that it keeps
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CERTPROBLEM:
      case CURLE_SSL_CIPHER:
      case CURLE_SSL_CACERT_BADFILE:
      case CURLE_SSL_ISSUER_ERROR:
        return ExchangeEnd::kTls;
      case CURLE_OUT_OF_MEMORY:
        // What it says of a header line that is too long for it, as well.
        return transfer.answering ? ExchangeEnd::kProtocol : ExchangeEnd::kNoMemory;
      case CURLE_UNSUPPORTED_PROTOCOL:
      case CURLE_WEIRD_SERVER_REPLY:
      case CURLE_URL_MALFORMAT:
      case CURLE_BAD_CONTENT_ENCODING:
        return ExchangeEnd::kProtocol;
      default:
        return ExchangeEnd::kBroken;
    }
  }

  void drop_late() noexcept {
    const std::uint64_t now = base::now_ns();
    next_late_ns_ = ~std::uint64_t{0};
    for (std::size_t i = active_.size(); i-- > 0;) {
      Transfer* const transfer = active_[i];
      // While a connection is made libcurl's own clock runs, which is the shorter one or the same.
      const std::uint64_t idle_at =
          transfer->moved_ns + std::max(options_.idle_ns, transfer->answering ? 0 : options_.connect_ns);
      const std::uint64_t late_at = std::min(transfer->exchange->deadline_ns, idle_at);
      if (now < late_at) {
        next_late_ns_ = std::min(next_late_ns_, late_at);
        tell_late(*transfer->exchange, now);
        continue;
      }
      end(transfer, late_at == transfer->exchange->deadline_ns ? ExchangeEnd::kTotalTimeout : ExchangeEnd::kIdleTimeout,
          {});
    }
  }

  void tell_late(Exchange& exchange, std::uint64_t now) noexcept {
    if (exchange.late_ns == 0) return;
    if (now < exchange.late_ns) {
      next_late_ns_ = std::min(next_late_ns_, exchange.late_ns);
      return;
    }
    exchange.late_ns = 0;
    exchange.on_late();  // may start others, which come later
  }

  void wait() noexcept {
    std::uint64_t until = next_late_ns_;
    if (active_.size() < most_active_.load(std::memory_order_relaxed)) {
      for (const Exchange* const exchange : waiting_) until = std::min(until, exchange->not_before_ns);
    }
    {
      std::lock_guard lock(mutex_);
      if (!incoming_.empty() && !starved_) until = 0;
      starved_ = false;
    }
    const std::uint64_t now = base::now_ns();
    const std::uint64_t left = until > now ? (until - now) / kMillisecond + 1 : 0;
    const int milliseconds = static_cast<int>(std::min<std::uint64_t>(left, 1000));
    curl_waitfd extra{wake_, CURL_WAIT_POLLIN, 0};
    int events = 0;
    if (multi_ == nullptr || curl_.multi_poll(multi_, &extra, 1, milliseconds, &events) != CURLM_OK) {
      struct pollfd plain {
        wake_, POLLIN, 0
      };
      (void)::poll(&plain, 1, std::min(milliseconds, 10));
    }
    std::uint64_t count = 0;
    (void)!::read(wake_, &count, sizeof count);
  }

  const CurlLibrary& curl_;
  const TransportOptions options_;
  int wake_ = -1;
  std::thread thread_;
  std::atomic<bool> cancels_{false};
  std::atomic<std::uint32_t> most_active_;
  std::mutex mutex_;
  std::vector<Exchange*> incoming_;  // guarded by mutex_
  bool stopping_ = false;            // guarded by mutex_
  // The thread's own.
  CURLM* multi_ = nullptr;
  std::deque<Exchange*> waiting_;
  std::vector<Transfer*> active_, idle_;
  std::uint64_t next_late_ns_ = 0;
  bool starved_ = false;
};

class CurlTransport final : public Transport {
 public:
  CurlTransport(const CurlLibrary& curl, const TransportOptions& options) : loop_(curl, options) {}
  Status begin() { return loop_->begin(); }
  Status start(std::span<Exchange* const> exchanges) override {
    if (loop_.inherited()) {
      return Status(Code::kForked, Layer::kStore, "the store was opened before fork(): open it again in the child");
    }
    return loop_->start(exchanges);
  }
  void use_connections(std::uint32_t count) noexcept override {
    if (!loop_.inherited()) loop_->use_connections(count);
  }
  bool any_waits() const noexcept override { return loop_->any_waits(); }
  void look_for_cancelled() noexcept override {
    if (!loop_.inherited()) loop_->look_for_cancelled();
  }

 private:
  base::ProcessOwn<CurlLoop> loop_;
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
