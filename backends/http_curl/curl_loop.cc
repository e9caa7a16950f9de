#include "curl_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/fault.h"
#include "os/owned_descriptor.h"
#include "os/signals_blocked.h"

namespace headrace::http {
namespace {

constexpr long kReceiveBytes = 512 << 10;  // fewer recv() calls: half the CPU time of the default of 16 KiB
constexpr long kStreamsPerConnection = 4;  // for HTTP/2: more streams would share one connection's rate
constexpr std::uint64_t kMillisecond = 1'000'000;

bool is_loopback(std::string_view url) noexcept {
  const std::string_view host = url.substr(std::min(url.find("://"), url.size() - 3) + 3);
  return host.starts_with("127.") || host.starts_with("localhost:") || host.starts_with("localhost/") ||
         host.starts_with("[::1]");
}

}  // namespace

CurlLoop::CurlLoop(const CurlLibrary& curl, const TransportOptions& options, ExchangeQueue& queue, std::size_t index)
    : curl_(curl), options_(options), queue_(queue), index_(index), plain_(options.connections) {
  active_.reserve(options.connections);
  idle_.reserve(options.connections);
  polled_.reserve(options.connections + 1);
  waited_.reserve(options.connections + 1);
}

CurlLoop::~CurlLoop() {
  if (thread_.joinable()) thread_.join();
  if (wake_ >= 0) ::close(wake_);
}

Status CurlLoop::begin() noexcept {
  try {
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_ < 0) return Status(Code::kResourceExhausted, Layer::kStore, "out of file descriptors").with_errno(errno);
    const os::SignalsBlocked blocked;
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      return Status(Code::kResourceExhausted, Layer::kStore, "no thread for HTTP").with_cause(error.what());
    }
    return {};
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

void CurlLoop::wake() noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

void CurlLoop::run() noexcept {
  ::pthread_setname_np(::pthread_self(), "headrace-http");
  make_multi();
  for (;;) {
    ExchangeQueue::Turn turn = queue_.take(index_);
    if (turn.stop) break;  // stop() requires that nothing is in flight
    while (Exchange* const one = turn.cancelled.pop_front()) one->on_end(ExchangeEnd::kCancelled, {});
    if (turn.look_for_cancelled) end_cancelled();
    while (Exchange* const one = turn.given.pop_front()) begin_exchange(*one);
    int running = 0;
    if (multi_ != nullptr && !active_.empty()) (void)curl_.multi_perform(multi_, &running);
    end_finished();
    run_plain();
    end_late();
    wait();
  }
  for (Transfer* const transfer : idle_) free_transfer(transfer);
  if (multi_ != nullptr) (void)curl_.multi_cleanup(multi_);
}

void CurlLoop::make_multi() noexcept {
  multi_ = curl_.multi_init();
  if (multi_ == nullptr) return;
  (void)curl_.multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.connections));
  (void)curl_.multi_setopt(multi_, CURLMOPT_MAX_HOST_CONNECTIONS, static_cast<long>(options_.connections));
  (void)curl_.multi_setopt(multi_, CURLMOPT_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
}

void CurlLoop::begin_exchange(Exchange& exchange) noexcept {
  if (exchange.cancel_wanted.load(std::memory_order_relaxed)) return tell(exchange, ExchangeEnd::kCancelled, {});
  const std::uint64_t now = base::now_ns();
  if (exchange.deadline_ns == 0) {
    exchange.deadline_ns = exchange.total_ns == 0 ? ~std::uint64_t{0} : now + exchange.total_ns;
  }
  exchange.on_begin();
  const std::uint64_t begun = base::now_ns();
  const CarriedExchange carried{&exchange, begun, begun, plain_target(exchange)};
  if (carried.target.host.empty() || !begin_on_idle(carried)) begin_transfer(carried);
}

// Exchanges whose steps are measured are carried by libcurl, which does the measuring.
PlainTarget CurlLoop::plain_target(const Exchange& exchange) const noexcept {
  if (exchange.facts != nullptr) return {};
  const PlainTarget target = PlainConnection::target(exchange);
  if (options_.direct || is_loopback(exchange.url)) return target;
  const auto is_set = [](const char* name) {
    const char* const value = ::secure_getenv(name);
    return value != nullptr && *value != '\0';
  };
  const bool by_proxy = !options_.proxy.empty() || is_set("http_proxy") || is_set("all_proxy") || is_set("ALL_PROXY");
  return by_proxy ? PlainTarget{} : target;
}

bool CurlLoop::begin_on_idle(const CarriedExchange& carried) noexcept {
  try {
    return plain_.begin_on_idle(carried);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void CurlLoop::begin_transfer(const CarriedExchange& carried) noexcept {
  Transfer* const transfer = multi_ != nullptr ? idle_transfer() : nullptr;
  if (transfer == nullptr) return tell(*carried.exchange, ExchangeEnd::kNoMemory, {});
  transfer->carried = carried;
  transfer->answering = transfer->stopped = false;
  transfer->error[0] = '\0';
  if (set_request(*transfer) && curl_.multi_add_handle(multi_, transfer->easy) == CURLM_OK) {
    active_.push_back(transfer);  // capacity was reserved
    return;
  }
  clear_headers(*transfer);
  idle_.push_back(transfer);
  tell(*carried.exchange, ExchangeEnd::kNoMemory, {});
}

bool CurlLoop::set_request(Transfer& transfer) noexcept {
  const Exchange& exchange = *transfer.carried.exchange;
  const bool connects = !transfer.carried.target.host.empty();
  // Loopback addresses bypass any proxy: to the proxy they would mean its own machine.
  const char* const no_proxy = options_.direct || is_loopback(exchange.url) ? "*" : nullptr;
  return curl_.easy_setopt(transfer.easy, CURLOPT_URL, exchange.url.c_str()) == CURLE_OK &&
         curl_.easy_setopt(transfer.easy, CURLOPT_NOPROXY, no_proxy) == CURLE_OK &&
         curl_.easy_setopt(transfer.easy, CURLOPT_CONNECT_ONLY, connects ? 1L : 0L) == CURLE_OK &&
         (connects || (set_headers(transfer) && set_method(transfer, exchange)));
}

bool CurlLoop::set_headers(Transfer& transfer) noexcept {
  for (const std::string& header : transfer.carried.exchange->headers) {
    curl_slist* const longer = curl_.slist_append(transfer.headers, header.c_str());
    if (longer == nullptr) return false;
    transfer.headers = longer;
  }
  return curl_.easy_setopt(transfer.easy, CURLOPT_HTTPHEADER, transfer.headers) == CURLE_OK;
}

// Handles are reused, so every setting of the previous request is replaced.
bool CurlLoop::set_method(Transfer& transfer, const Exchange& exchange) noexcept {
  CURL* const easy = transfer.easy;
  if (std::strcmp(exchange.method, "GET") == 0) {
    return curl_.easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK &&
           curl_.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, static_cast<const char*>(nullptr)) == CURLE_OK;
  }
  return curl_.easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(exchange.body.size())) == CURLE_OK &&
         curl_.easy_setopt(easy, CURLOPT_POSTFIELDS, exchange.body.c_str()) == CURLE_OK &&
         curl_.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, exchange.method) == CURLE_OK;
}

CurlLoop::Transfer* CurlLoop::idle_transfer() noexcept {
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

bool CurlLoop::set_options(Transfer& transfer) noexcept {
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
  set(CURLOPT_FOLLOWLOCATION, 0L);  // redirects are followed by the caller: libcurl would forward tokens
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

void CurlLoop::clear_headers(Transfer& transfer) noexcept {
  (void)curl_.easy_setopt(transfer.easy, CURLOPT_HTTPHEADER, static_cast<curl_slist*>(nullptr));
  curl_.slist_free_all(transfer.headers);
  transfer.headers = nullptr;
}

void CurlLoop::free_transfer(Transfer* transfer) noexcept {
  if (transfer->headers != nullptr) curl_.slist_free_all(transfer->headers);
  if (transfer->easy != nullptr) curl_.easy_cleanup(transfer->easy);
  delete transfer;
}

// The transfer has ended; libcurl makes no more calls for it.
Exchange& CurlLoop::finish(Transfer* transfer) noexcept {
  (void)curl_.multi_remove_handle(multi_, transfer->easy);
  clear_headers(*transfer);
  active_.erase(std::find(active_.begin(), active_.end(), transfer));
  idle_.push_back(transfer);  // capacity was reserved
  return *std::exchange(transfer->carried.exchange, nullptr);
}

void CurlLoop::end(Transfer* transfer, ExchangeEnd how, std::string_view detail) noexcept {
  tell(finish(transfer), how, detail);
}

// Duplicates the socket: libcurl closes its own descriptor, and this one stays.
void CurlLoop::hand_over(Transfer* transfer) noexcept {
  curl_socket_t socket = CURL_SOCKET_BAD;
  (void)curl_.easy_getinfo(transfer->easy, CURLINFO_ACTIVESOCKET, &socket);
  const int kept = socket != CURL_SOCKET_BAD ? ::fcntl(socket, F_DUPFD_CLOEXEC, 0) : -1;
  os::OwnedDescriptor own(kept);
  if (HEADRACE_FAULT("http_curl.keep_socket", kept) < 0) own.close();
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer tracks descriptors from dup3() but not from fcntl(), and so would not know that bytes are received
  // after they were sent.
  if (own) (void)::dup3(socket, own.get(), O_CLOEXEC);
#endif
  CarriedExchange carried = transfer->carried;
  finish(transfer);
  if (!own) return tell(*carried.exchange, ExchangeEnd::kNoConnection, "out of file descriptors");
  carried.moved_ns = base::now_ns();
  try {
    plain_.begin_on(std::move(own), carried);
  } catch (const std::bad_alloc&) {
    tell(*carried.exchange, ExchangeEnd::kNoMemory, {});
  }
}

void CurlLoop::run_plain() noexcept {
  for (std::size_t i = plain_.size(); i-- > 0;) {
    if (!plain_[i].is_ready()) continue;
    const PlainConnection::End end = plain_[i].run();
    if (!end.over) continue;
    CarriedExchange carried = plain_.remove(i, end.how == ExchangeEnd::kComplete);
    if (end.again) {
      carried.moved_ns = base::now_ns();
      begin_transfer(carried);
    } else {
      tell(*carried.exchange, end.how, end.detail);
    }
  }
}

void CurlLoop::tell(Exchange& exchange, ExchangeEnd how, std::string_view detail) noexcept {
  queue_.ended(index_);
  exchange.on_end(how, detail);
}

// on_end() may start other exchanges; those are queued.
void CurlLoop::end_cancelled() noexcept {
  for (std::size_t i = active_.size(); i-- > 0;) {
    if (active_[i]->carried.exchange->cancel_wanted.load(std::memory_order_relaxed)) {
      end(active_[i], ExchangeEnd::kCancelled, {});
    }
  }
  for (std::size_t i = plain_.size(); i-- > 0;) {
    if (!plain_[i].carried().exchange->cancel_wanted.load(std::memory_order_relaxed)) continue;
    tell(*plain_.remove(i, false).exchange, ExchangeEnd::kCancelled, {});
  }
}

void CurlLoop::end_finished() noexcept {
  if (multi_ == nullptr) return;
  int left = 0;
  while (CURLMsg* const message = curl_.multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* user = nullptr;
    (void)curl_.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
    auto* const transfer = reinterpret_cast<Transfer*>(user);
    const CURLcode code = message->data.result;
    if (!transfer->carried.target.host.empty() && code == CURLE_OK) {
      hand_over(transfer);
      continue;
    }
    // libcurl's text names the host and the system's error, and contains nothing of a redirect or header.
    if (transfer->carried.exchange->facts != nullptr) note_facts(*transfer, code);
    const std::string_view detail = code == CURLE_OK ? "" : curl_.easy_strerror(code);
    end(transfer, end_of(code, *transfer), detail);
  }
}

ExchangeEnd CurlLoop::end_of(CURLcode code, const Transfer& transfer) noexcept {
  if (transfer.stopped) return ExchangeEnd::kStopped;
  switch (code) {
    case CURLE_OK:
      return ExchangeEnd::kComplete;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:  // includes a connection that breaks during the handshake
      return ExchangeEnd::kNoConnection;
    case CURLE_OPERATION_TIMEDOUT:
      return ExchangeEnd::kConnectTimeout;  // the only timeout that libcurl enforces
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return ExchangeEnd::kTls;
    case CURLE_OUT_OF_MEMORY:
      // libcurl also reports a header line that is too long this way.
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

void CurlLoop::end_late() noexcept {
  const std::uint64_t now = base::now_ns();
  next_late_ns_ = ~std::uint64_t{0};
  for (std::size_t i = active_.size(); i-- > 0;) {
    Transfer* const transfer = active_[i];
    // While connecting, libcurl's own timeout applies, which is not longer than this one.
    const std::uint64_t patience = std::max(options_.idle_ns, transfer->answering ? 0 : options_.connect_ns);
    const ExchangeEnd how = late_end(transfer->carried, patience, now);
    if (how != ExchangeEnd::kComplete) end(transfer, how, {});
  }
  for (std::size_t i = plain_.size(); i-- > 0;) {
    const ExchangeEnd how = late_end(plain_[i].carried(), options_.idle_ns, now);
    if (how != ExchangeEnd::kComplete) tell(*plain_.remove(i, false).exchange, how, {});
  }
}

// How the exchange times out; kComplete: it has not.
ExchangeEnd CurlLoop::late_end(const CarriedExchange& carried, std::uint64_t patience_ns,
                               std::uint64_t now_ns) noexcept {
  const std::uint64_t late_at = std::min(carried.exchange->deadline_ns, carried.moved_ns + patience_ns);
  if (now_ns >= late_at) {
    return late_at == carried.exchange->deadline_ns ? ExchangeEnd::kTotalTimeout : ExchangeEnd::kIdleTimeout;
  }
  next_late_ns_ = std::min(next_late_ns_, late_at);
  note_late(*carried.exchange, now_ns);
  return ExchangeEnd::kComplete;
}

void CurlLoop::note_late(Exchange& exchange, std::uint64_t now_ns) noexcept {
  if (exchange.late_ns == 0) return;
  if (now_ns < exchange.late_ns) {
    next_late_ns_ = std::min(next_late_ns_, exchange.late_ns);
    return;
  }
  exchange.late_ns = 0;
  exchange.on_late();  // may start other exchanges; those are queued
}

void CurlLoop::wait() noexcept {
  const std::uint64_t until = queue_.sleep(index_, next_late_ns_);
  const std::uint64_t now = base::now_ns();
  const std::uint64_t left = until > now ? (until - now) / kMillisecond + 1 : 0;
  const int milliseconds = static_cast<int>(std::min<std::uint64_t>(left, 1000));
  polled_.clear();
  polled_.push_back({wake_, POLLIN, 0});
  for (std::size_t i = 0; i < plain_.size(); ++i) {  // capacity was reserved
    polled_.push_back({plain_[i].socket(), static_cast<short>(plain_[i].sends() ? POLLOUT : POLLIN), 0});
  }
  if (active_.empty()) {
    (void)::poll(polled_.data(), polled_.size(), milliseconds);
  } else {
    wait_with_curl(milliseconds);
  }
  for (std::size_t i = 0; i < plain_.size(); ++i) {
    if (polled_[i + 1].revents != 0) plain_[i].set_ready();
  }
  if (polled_[0].revents == 0) return;
  std::uint64_t count = 0;
  (void)!::read(wake_, &count, sizeof count);
}

// Also polls libcurl's own sockets.
void CurlLoop::wait_with_curl(int milliseconds) noexcept {
  waited_.clear();
  for (const pollfd& one : polled_) {  // capacity was reserved
    waited_.push_back({one.fd, static_cast<short>(one.events == POLLIN ? CURL_WAIT_POLLIN : CURL_WAIT_POLLOUT), 0});
  }
  int events = 0;
  const auto count = static_cast<unsigned>(waited_.size());
  if (curl_.multi_poll(multi_, waited_.data(), count, milliseconds, &events) != CURLM_OK) {
    (void)::poll(polled_.data(), polled_.size(), std::min(milliseconds, 10));
    return;
  }
  for (std::size_t i = 0; i < waited_.size(); ++i) polled_[i].revents = waited_[i].revents;
}

std::size_t CurlLoop::on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.carried.moved_ns = base::now_ns();
  if (!transfer.answering) {
    if (transfer.carried.exchange->facts != nullptr) transfer.loop->note_tls(transfer);
    curl_off_t microseconds = 0;
    (void)transfer.loop->curl_.easy_getinfo(transfer.easy, CURLINFO_PRETRANSFER_TIME_T, &microseconds);
    transfer.carried.exchange->asked_ns =
        std::min(transfer.carried.begun_ns + static_cast<std::uint64_t>(std::max<curl_off_t>(microseconds, 0)) * 1000,
                 transfer.carried.moved_ns);
  }
  transfer.answering = true;
  const std::size_t bytes = size * count;
  if (transfer.carried.exchange->on_line({data, bytes})) return bytes;
  transfer.stopped = true;
  return bytes == 0 ? 1 : 0;
}

std::size_t CurlLoop::on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.carried.moved_ns = base::now_ns();
  const std::size_t bytes = size * count;
  if (transfer.carried.exchange->on_body({reinterpret_cast<const std::byte*>(data), bytes})) return bytes;
  transfer.stopped = true;
  return bytes == 0 ? 1 : 0;
}

// The TLS session exists while the transfer is in flight.
void CurlLoop::note_tls(Transfer& transfer) const noexcept {
  curl_tlssessioninfo* session = nullptr;
  if (curl_.ssl_version == nullptr || curl_.easy_getinfo(transfer.easy, CURLINFO_TLS_SSL_PTR, &session) != CURLE_OK ||
      session == nullptr || session->backend != CURLSSLBACKEND_OPENSSL || session->internals == nullptr) {
    return;
  }
  try {
    transfer.carried.exchange->facts->tls_version = curl_.ssl_version(session->internals);
  } catch (const std::bad_alloc&) {
    transfer.carried.exchange->facts->tls_version.clear();
  }
}

void CurlLoop::note_facts(Transfer& transfer, CURLcode code) const noexcept {
  using Stage = ConnectionFacts::Stage;
  ConnectionFacts& facts = *transfer.carried.exchange->facts;
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

}  // namespace headrace::http
