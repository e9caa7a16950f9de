// Transport: sends requests to servers and delivers the responses, without interpreting them.
//
// Threads: all calls from any thread. An Exchange's callbacks run on one of the transport's own threads from its start
//          to its end, with no lock held; callbacks of different exchanges run concurrently.
// Owns:    nothing of an exchange. The exchange must stay in place until on_end(); the transport does not touch it from
//          that call on.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::http {

enum class ExchangeEnd : std::uint8_t {
  kComplete,      // the whole response arrived
  kStopped,       // on_line() or on_body() returned false
  kCancelled,     // cancel_wanted was seen
  kNoConnection,  // no such host, refused, unreachable
  kBroken,        // the connection closed early
  kConnectTimeout,
  kIdleTimeout,  // no byte arrived for too long
  kTotalTimeout,
  kTls,       // the server's certificate is invalid
  kProtocol,  // the response is not HTTP
  kNoMemory
};

// Details of how a response was obtained, for measurements. Times are seconds; 0: unknown, or there was no such step.
struct ConnectionFacts {
  enum class Stage : std::uint8_t { kNone, kName, kProxyName, kConnect, kHandshake, kCertificate };
  Stage failed = Stage::kNone;  // the step at which connecting failed
  bool is_new = false;          // the connection was made for this request
  double name_seconds = 0;      // from the request's start, as all that follow, until the host was resolved
  double connect_seconds = 0;   // until the connection was established
  double tls_seconds = 0;       // until the TLS handshake finished
  std::string tls_version;      // "TLSv1.3"; empty: none, or unknown
};

// One request and its answer.
class Exchange {
 public:
  const char* method = "GET";        // or "PUT", "POST", which send `body`
  std::string body;                  // unchanged until on_end()
  std::string url;                   // complete and escaped
  std::vector<std::string> headers;  // "Name: value"
  std::uint64_t not_before_ns = 0;   // earliest base::now_ns() at which it may start
  std::uint64_t total_ns = 0;        // time limit from its first start; 0: none
  std::uint64_t deadline_ns = 0;     // set by the transport at its first start
  std::uint64_t asked_ns = 0;        // when the request was sent; set before the first on_line()
  std::uint64_t late_ns = 0;         // not 0: on_late() is called once if the exchange is still in flight at this time
  bool urgent = false;               // goes ahead of the waiting exchanges
  std::atomic<bool> cancel_wanted{false};
  ConnectionFacts* facts = nullptr;  // if not null, filled in before on_end()
  Exchange* next = nullptr;          // used by the transport

  virtual void on_begin() noexcept {}  // it starts, perhaps again; deadline_ns is set, and may be lowered here
  virtual void on_late() noexcept {}
  virtual bool on_line(std::string_view line) noexcept = 0;  // a line of the head; false: stop
  // Where the next body bytes may be written directly, without a copy; empty: nowhere. A transport need not call this.
  // It may write anything into the room until it calls on_body() with the body's bytes, which then begin at the start
  // of the room.
  virtual std::span<std::byte> body_room() noexcept { return {}; }
  virtual bool on_body(std::span<const std::byte> bytes) noexcept = 0;
  virtual void on_end(ExchangeEnd end, std::string_view detail) noexcept = 0;

 protected:
  ~Exchange() = default;
};

struct TransportOptions {
  std::uint32_t connections = 128;  // maximum at a time
  std::uint32_t threads = 1;        // maximum; one thread carries a few connections
  std::uint64_t connect_ns = 10'000'000'000;
  std::uint64_t idle_ns = 30'000'000'000;
  std::string ca_file;  // trusted certificates; empty: the system's
  std::string proxy;    // URL, which may hold a password; empty: from the environment
  bool direct = false;  // use no proxy
};

// The Status of an exchange that did not complete. `detail`: from the transport.
Status status_of(ExchangeEnd end, std::string_view detail);

class Transport {
 public:
  virtual ~Transport() = default;
  // Takes all exchanges or none. kForked in a child of the process that made the transport.
  virtual Status start(std::span<Exchange* const> exchanges) = 0;
  // Call after setting cancel_wanted.
  virtual void look_for_cancelled() noexcept = 0;
  // Limits the exchanges in flight to `count`, and never above TransportOptions::connections. Exchanges already in
  // flight are not affected.
  virtual void use_connections(std::uint32_t count) noexcept = 0;
  // Whether an exchange that may start now waits for a connection.
  virtual bool any_waits() const noexcept = 0;
  // Joins its threads, after which it calls nothing. REQUIRES: no exchange is in flight. Nothing can be started
  // afterwards.
  virtual void stop() noexcept = 0;
};

struct TransportRow {
  const char* name;
  Result<std::unique_ptr<Transport>> (*make)(const TransportOptions& options);
};

// The first transport of this build; kUnsupported where it has none.
Result<std::unique_ptr<Transport>> make_transport(const TransportOptions& options);

}  // namespace headrace::http
