// PlainConnection: a connection without TLS on which requests are sent and answers read, one after the other. libcurl
// has made it; from then on it is this thread's own, so that bodies come from the socket straight to their place.
//
// Threads: one at a time, with no lock held: it calls the exchange.
// Owns:    the socket. The exchange is its user's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/answer_reader.h"
#include "http/transport.h"
#include "os/owned_descriptor.h"

namespace headrace::http {

// Of "http://host:81/path?query": "host:81" and "/path?query". Empty: no such URL, or one that no request line takes.
struct PlainTarget {
  std::string_view host, path;
};
PlainTarget plain_target(std::string_view url) noexcept;

// An exchange that is under way, whoever carries it.
struct CarriedExchange {
  Exchange* exchange = nullptr;
  std::uint64_t begun_ns = 0;
  std::uint64_t moved_ns = 0;  // when the last byte came
  PlainTarget target = {};     // in the exchange's URL; empty: libcurl carries it
};

class PlainConnection {
 public:
  // Of a socket that is connected and does not block. Throws std::bad_alloc.
  PlainConnection(os::OwnedDescriptor socket, std::string_view host);

  // Of a request that a PlainConnection carries: GET of an URL that has a target, with header lines that are some. Of
  // any other it is empty.
  static PlainTarget target(const Exchange& exchange) noexcept;
  // REQUIRES: it has a target. Throws std::bad_alloc.
  void begin(const CarriedExchange& carried);

  // Whether it has to send yet, and is not to be waited for until something comes.
  bool sends() const noexcept { return sent_ < request_.size(); }
  int socket() const noexcept { return socket_.get(); }
  const std::string& host() const noexcept { return host_; }
  const CarriedExchange& carried() const noexcept { return carried_; }

  struct End {
    bool over = false;
    bool again = false;  // the connection was kept for too long: nothing came of it, and another one may do it
    ExchangeEnd how = ExchangeEnd::kBroken;
    std::string_view detail = {};
  };
  // Whether run() would do something: it has begun, or what it waits for has come.
  bool is_ready() const noexcept { return ready_; }
  void set_ready() noexcept { ready_ = true; }
  // Sends and receives as far as it goes without waiting, a MiB at most.
  End run() noexcept;

  // After an end: whether the next request may be sent on it.
  bool can_go_on() const noexcept { return reader_.can_go_on(); }
  // Whether the server has closed it, or sent something, while it was idle.
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
