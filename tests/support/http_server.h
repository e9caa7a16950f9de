// HttpServer: a small HTTP/1.1 server on the loopback interface with one thread per connection, whose answers a test
// writes. ObjectService: a well-behaved service of objects, plain or with the S3 protocol, parts of which tests
// override.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/stores_under_test.h"

struct ssl_st;
struct ssl_ctx_st;

namespace headrace::testing {

struct HttpRequest {
  std::string method, path, query;             // path as sent, escaped
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // as long as Content-Length says
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// Where an answer is written to.
class HttpWire {
 public:
  HttpWire(int fd, ssl_st* tls, const std::atomic<bool>& stopping) : fd_(fd), tls_(tls), stopping_(stopping) {}
  void send(std::string_view bytes);  // drops what the client does not accept
  void reply(const std::string& status, const std::string& headers, std::string_view body);
  void reset();                    // ends the connection with RST
  void close() { open_ = false; }  // after the bytes already sent
  void pause(int milliseconds);    // shorter if the server stops
  bool is_open() const { return open_; }
  ssize_t receive(char* data, std::size_t room);

 private:
  int fd_;
  ssl_st* tls_;
  const std::atomic<bool>& stopping_;
  bool open_ = true;
};

class HttpServer {
 public:
  using Answer = std::function<void(HttpWire&, const HttpRequest&)>;

  // With TLS, the server makes a certificate and writes it to the path `certificate`.
  explicit HttpServer(Answer answer, const std::string& certificate = "");
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }
  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string url() const { return (context_ != nullptr ? "https://" : "http://") + host(); }
  std::vector<HttpRequest> requests() const;
  std::size_t connections() const { return connections_; }

 private:
  struct Connection;
  void accept_all();
  void serve(int fd);

  Answer answer_;
  ssl_ctx_st* context_ = nullptr;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<std::size_t> connections_{0};
  mutable std::mutex mutex_;
  std::vector<HttpRequest> requests_;  // guarded by mutex_
  std::list<int> open_;                // guarded by mutex_; each has a thread, until ended_
  std::condition_variable ended_;
  std::thread acceptor_;
};

enum class ObjectStyle : std::uint8_t { kPlain, kS3, kAzure };

// Serves objects by path: "/key" as a plain server, or "/bucket/key" with the errors and listings of S3 or Azure.
class ObjectService {
 public:
  explicit ObjectService(Objects objects, ObjectStyle style = ObjectStyle::kPlain)
      : objects_(std::move(objects)), style_(style) {
    for (const auto& [key, bytes] : objects_) etags_[key] = etag(bytes);
  }
  void operator()(HttpWire& wire, const HttpRequest& request) const { answer(wire, request); }
  void answer(HttpWire& wire, const HttpRequest& request) const;
  static std::string etag(const store::Bytes& bytes);

 private:
  void list(HttpWire& wire, const HttpRequest& request, const std::string& bucket) const;
  const Objects objects_;
  std::map<std::string, std::string> etags_;
  const ObjectStyle style_;
};

std::string unescaped(std::string_view text);

// For headers of stores under test: starts a server that lives until the next server of that name is filled. Returns
// its address.
std::string serve_objects(const std::string& name, Objects objects, ObjectStyle style,
                          const std::string& certificate = "");

}  // namespace headrace::testing
