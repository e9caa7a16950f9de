// PlainConnection: a connection without TLS that sends requests and reads responses, one after the other. libcurl
// establishes it; from then on it belongs to the loop's thread, which receives bodies from the socket directly into
// their final memory.
//
// Threads: one at a time, with no lock held, since it calls the exchange.
// Owns:    the socket, but not the exchange.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/answer_reader.h"
#include "http/transport.h"
#include "os/owned_descriptor.h"

namespace headrace::http {

// The parts "host:81" and "/path?query" of "http://host:81/path?query". Empty: another kind of URL, or one that cannot
// be put into a request line.
struct PlainTarget {
  std::string_view host, path;
};
PlainTarget plain_target(std::string_view url) noexcept;

// An exchange in flight, carried by libcurl or by a PlainConnection.
struct CarriedExchange {
  Exchange* exchange = nullptr;
  std::uint64_t begun_ns = 0;
  std::uint64_t moved_ns = 0;  // when the last byte arrived
  PlainTarget target = {};     // parts of the exchange's URL; empty: libcurl carries the exchange
};

class PlainConnection {
 public:
  // `socket` is connected and non-blocking. Throws std::bad_alloc.
  PlainConnection(os::OwnedDescriptor socket, std::string_view host);

  // The target of a request that a PlainConnection can carry: a GET of a URL with a target and valid headers. Empty for
  // any other request.
  static PlainTarget target(const Exchange& exchange) noexcept;
  // REQUIRES: it has a target. Throws std::bad_alloc.
  void begin(const CarriedExchange& carried);

  // Whether part of the request is unsent, so that it waits to send rather than to receive.
  bool sends() const noexcept { return sent_ < request_.size(); }
  int socket() const noexcept { return socket_.get(); }
  const std::string& host() const noexcept { return host_; }
  const CarriedExchange& carried() const noexcept { return carried_; }

  struct End {
    bool over = false;
    bool again = false;  // a reused connection was closed before any response: retry on another one
    ExchangeEnd how = ExchangeEnd::kBroken;
    std::string_view detail = {};
  };
  // Whether run() can make progress: an exchange has begun, or the awaited event has occurred.
  bool is_ready() const noexcept { return ready_; }
  void set_ready() noexcept { ready_ = true; }
  // Sends and receives as much as possible without blocking, at most about 1 MiB.
  End run() noexcept;

  // After an end: whether the connection can be reused.
  bool can_reuse_connection() const noexcept { return reader_.can_reuse_connection(); }
  // Whether the server closed the connection or sent data while it was idle.
  bool is_stale() const noexcept;

 private:
  bool send() noexcept;
  End broken(int error) const noexcept;

  os::OwnedDescriptor socket_;
  std::string host_, request_;
  std::size_t sent_ = 0;
  CarriedExchange carried_;
  AnswerReader reader_;
  bool ready_ = false, used_ = false, used_before_ = false;
};

}  // namespace headrace::http
