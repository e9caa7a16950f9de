// Transport: carries requests to servers and their answers back. What they mean is not its business.
//
// Threads: all calls from any thread. Those of an Exchange are made on the transport's own threads, from its beginning
// to
//          its end on one of them, with no lock held; different exchanges are called for at the same time.
// Owns:    nothing of an exchange, which stays where it is until on_end() and is not touched from that call on.
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
  kComplete,      // the whole answer came
  kStopped,       // on_line() or on_body() wanted no more
  kCancelled,     // cancel_wanted was seen
  kNoConnection,  // no such host, refused, unreachable
  kBroken,        // the connection ended in the middle
  kConnectTimeout,
  kIdleTimeout,  // no byte for too long
  kTotalTimeout,
  kTls,       // the server's certificate is not valid
  kProtocol,  // what came is no HTTP
  kNoMemory
};

// How the answer of a request came, for whoever measures. Times are seconds; 0: not told, or there was no such step.
struct ConnectionFacts {
  enum class Stage : std::uint8_t { kNone, kName, kProxyName, kConnect, kHandshake, kCertificate };
  Stage failed = Stage::kNone;  // where there is no connection: what it failed at
  bool is_new = false;          // the connection was made for this request
  double name_seconds = 0;      // until the host's address was known, from the request's beginning as all that follow
  double connect_seconds = 0;   // until the connection was there
  double tls_seconds = 0;       // until the handshake was over
  std::string tls_version;      // "TLSv1.3"; empty: none, or not told
};

// One request and its answer.
class Exchange {
 public:
  const char* method = "GET";        // or "PUT", "POST", with what `body` has
  std::string body;                  // stays until on_end()
  std::string url;                   // complete and escaped
  std::vector<std::string> headers;  // "Name: value"
  std::uint64_t not_before_ns = 0;   // base::now_ns() when it may begin
  std::uint64_t total_ns = 0;        // from its first beginning on; 0: no limit
  std::uint64_t deadline_ns = 0;     // set by the transport when it first begins
  std::uint64_t asked_ns = 0;        // set before the first on_line(): the connection stood, and the request went out
  std::uint64_t late_ns = 0;         // not 0: on_late() is called once, when it is under way and has not ended then
  bool urgent = false;               // begins before those that wait
  std::atomic<bool> cancel_wanted{false};
  ConnectionFacts* facts = nullptr;  // filled in before on_end(), where it is not null
  Exchange* next = nullptr;          // the transport's own

  virtual void on_begin() noexcept {}  // it begins, perhaps once more; deadline_ns is set, and may be made sooner
  virtual void on_late() noexcept {}
  virtual bool on_line(std::string_view line) noexcept = 0;  // of the head; false: enough
  // Where the next bytes of the body may be written, so that nobody copies them; empty: it has no such place. A
  // transport need not ask, and may write anything there until it calls on_body() with the bytes that are the body's,
  // which begin where the room does.
  virtual std::span<std::byte> body_room() noexcept { return {}; }
  virtual bool on_body(std::span<const std::byte> bytes) noexcept = 0;
  virtual void on_end(ExchangeEnd end, std::string_view detail) noexcept = 0;

 protected:
  ~Exchange() = default;
};

struct TransportOptions {
  std::uint32_t connections = 128;  // at a time
  std::uint32_t threads = 1;        // most of them; one carries what a few connections do
  std::uint64_t connect_ns = 10'000'000'000;
  std::uint64_t idle_ns = 30'000'000'000;
  std::string ca_file;  // certificates to trust; empty: the system's
  std::string proxy;    // its URL, which may hold a password; empty: the environment's
  bool direct = false;  // by no proxy at all
};

// What is said of an exchange that did not come to its end. `detail`: the transport's.
Status status_of(ExchangeEnd end, std::string_view detail);

class Transport {
 public:
  virtual ~Transport() = default;
  // Takes all or none. kForked in a child of the process that made it.
  virtual Status start(std::span<Exchange* const> exchanges) = 0;
  // Somebody has set cancel_wanted.
  virtual void look_for_cancelled() noexcept = 0;
  // Begins none as long as so many are under way; never more than TransportOptions::connections. Of no effect on those
  // that are.
  virtual void use_connections(std::uint32_t count) noexcept = 0;
  // Whether some wait for a connection that might begin.
  virtual bool any_waits() const noexcept = 0;
  // Waits for its threads, which call nothing afterwards. REQUIRES: no exchange is under way. Nothing is started then.
  virtual void stop() noexcept = 0;
};

struct TransportRow {
  const char* name;
  Result<std::unique_ptr<Transport>> (*make)(const TransportOptions& options);
};

// The first of this build; kUnsupported where it has none.
Result<std::unique_ptr<Transport>> make_transport(const TransportOptions& options);

}  // namespace headrace::http
