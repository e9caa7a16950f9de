#include "plain_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"

namespace headrace::http {
namespace {

constexpr std::size_t kMaxBytesPerTurn = 1 << 20;

bool has_control(std::string_view text) noexcept {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// libcurl's rule: a header "Name:" without a value is not sent.
bool is_left_out(std::string_view header) noexcept {
  return header.find_first_not_of(" \t", std::min(header.find(':'), header.size() - 1) + 1) == std::string_view::npos;
}

}  // namespace

PlainTarget plain_target(std::string_view url) noexcept {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme) || has_control(url) || url.find_first_of(" #") != std::string_view::npos) return {};
  url.remove_prefix(kScheme.size());
  const std::size_t slash = std::min(url.find('/'), url.size());
  std::string_view host = url.substr(0, slash);
  // URLs with user names, zones, or a query without a path are left to libcurl.
  if (host.find_first_of("@?%") != std::string_view::npos || slash == url.size()) return {};
  if (host.ends_with(":80")) host.remove_suffix(3);
  return {host, url.substr(slash)};
}

PlainConnection::PlainConnection(os::OwnedDescriptor socket, std::string_view host)
    : socket_(std::move(socket)), host_(host) {}

PlainTarget PlainConnection::target(const Exchange& exchange) noexcept {
  if (std::strcmp(exchange.method, "GET") != 0 || !exchange.body.empty()) return {};
  for (const std::string& header : exchange.headers) {
    if (has_control(header) || header.find(':') == std::string::npos || header.starts_with("Host:")) return {};
  }
  const PlainTarget target = plain_target(exchange.url);
  return target.host.empty() ? PlainTarget{} : target;
}

void PlainConnection::begin(const CarriedExchange& carried) {
  request_ = "GET ";
  request_ += carried.target.path;
  request_ += " HTTP/1.1\r\nHost: ";
  request_ += host_;
  request_ += "\r\nUser-Agent: headrace\r\nAccept: */*\r\n";
  for (const std::string& header : carried.exchange->headers) {
    if (is_left_out(header)) continue;
    request_ += header;
    request_ += "\r\n";
  }
  request_ += "\r\n";
  sent_ = 0;
  carried_ = carried;
  reader_.begin(*carried.exchange);
  ready_ = true;
  used_before_ = std::exchange(used_, true);
}

PlainConnection::End PlainConnection::run() noexcept {
  ready_ = false;
  if (!send()) return broken(errno);
  if (sends()) return {};
  std::size_t bytes = 0;
  while (bytes < kMaxBytesPerTurn) {
    const std::span<std::byte> room = reader_.room();
    const ssize_t got = ::recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? End{} : broken(errno);
    }
    carried_.moved_ns = base::now_ns();
    const AnswerReader::Step step = got == 0 ? reader_.closed() : reader_.received(static_cast<std::size_t>(got));
    switch (step) {
      case AnswerReader::Step::kMore:
        break;
      case AnswerReader::Step::kComplete:
        return {.over = true, .how = ExchangeEnd::kComplete};
      case AnswerReader::Step::kStopped:
        return {.over = true, .how = ExchangeEnd::kStopped};
      case AnswerReader::Step::kProtocol:
        return {.over = true, .how = ExchangeEnd::kProtocol, .detail = "not an HTTP/1.1 response"};
      case AnswerReader::Step::kNoMemory:
        return {.over = true, .how = ExchangeEnd::kNoMemory};
      case AnswerReader::Step::kBroken:
        return broken(0);
    }
    bytes += static_cast<std::size_t>(got);
    // A short read has drained the socket.
    if (static_cast<std::size_t>(got) < room.size()) break;
  }
  return {};
}

bool PlainConnection::send() noexcept {
  while (sends()) {
    const ssize_t sent =
        ::send(socket_.get(), request_.data() + sent_, request_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    sent_ += static_cast<std::size_t>(sent);
    carried_.exchange->asked_ns = base::now_ns();
  }
  return true;
}

// A server may close an idle connection just as a request is sent on it.
PlainConnection::End PlainConnection::broken(int error) const noexcept {
  if (used_before_ && !reader_.has_started()) return {.over = true, .again = true};
  const char* const what = error == ECONNRESET      ? "the server reset the connection"
                           : error == ETIMEDOUT     ? "the server stopped responding"
                           : error != 0             ? "the connection failed"
                           : !reader_.has_started() ? "the server sent no answer"
                                                    : "the server sent fewer bytes than it announced";
  return {.over = true, .how = ExchangeEnd::kBroken, .detail = what};
}

bool PlainConnection::is_stale() const noexcept {
  std::byte one;
  return ::recv(socket_.get(), &one, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

}  // namespace headrace::http
