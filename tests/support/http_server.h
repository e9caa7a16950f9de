// HttpServer: a small HTTP/1.1 server on the loopback, a thread a connection, whose answers a test writes; and a
// well-behaved service of objects, as a plain server or as S3 gives them, that tests change in parts.
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
  std::string method, path, query;             // the path as it was sent, escaped
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // as long as Content-Length says
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// What an answer goes into.
class HttpWire {
 public:
  HttpWire(int fd, ssl_st* tls, const std::atomic<bool>& stopping) : fd_(fd), tls_(tls), stopping_(stopping) {}
  void send(std::string_view bytes);  // what the client does not take any more is dropped
  void reply(const std::string& status, const std::string& headers, std::string_view body);
  void reset();                    // the connection ends with RST
  void close() { open_ = false; }  // after what was sent
  void pause(int milliseconds);    // less where the server stops
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

  // With TLS, its certificate, which it makes, is written to `certificate`, a path.
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
  std::list<int> open_;                // guarded by mutex_: each has a thread, until ended_
  std::condition_variable ended_;
  std::thread acceptor_;
};

enum class ObjectStyle : std::uint8_t { kPlain, kS3, kAzure };

// Objects by path: "/key" of a plain server, "/bucket/key" with the errors and listings of S3 or Azure.
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

// For headers of stores under test: a server that stays until the next of that name is filled. Gives its address.
std::string serve_objects(const std::string& name, Objects objects, ObjectStyle style,
                          const std::string& certificate = "");

}  // namespace headrace::testing
