// Connections without TLS: which URLs and requests they carry, the bytes on the socket, and what happens if the other
// end is slow, closed or gone.
#include "backends/http_curl/plain_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "backends/http_curl/plain_connections.h"
#include "base/clock.h"

namespace headrace::http {
namespace {

class Asked final : public Exchange {
 public:
  explicit Asked(std::string of, std::vector<std::string> lines = {}) {
    url = std::move(of);
    headers = std::move(lines);
  }
  bool on_line(std::string_view line) noexcept override {
    head += line;
    return true;
  }
  bool on_body(std::span<const std::byte> bytes) noexcept override {
    body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }
  void on_end(ExchangeEnd, std::string_view) noexcept override { ADD_FAILURE() << "not the connection's to call"; }
  std::string head, body;
};

struct Pair {
  os::OwnedDescriptor near, far;
  Pair() {
    int both[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both), 0);
    near = os::OwnedDescriptor(both[0]);
    far = os::OwnedDescriptor(both[1]);
  }
  std::string received() const {
    std::string text(1 << 20, '\0');
    const ssize_t got = ::recv(far.get(), text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }
  void send(std::string_view text) const {
    EXPECT_EQ(::send(far.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
};

CarriedExchange carried(Exchange& exchange) {
  return {&exchange, base::now_ns(), base::now_ns(), PlainConnection::target(exchange)};
}

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";

TEST(PlainConnection, WhichRequestsItCarries) {
  const struct {
    const char *url, *host, *path;
  } targets[] = {{"http://host/a/b?c=d", "host", "/a/b?c=d"},
                 {"http://host:80/", "host", "/"},
                 {"http://host:8080/%20", "host:8080", "/%20"},
                 {"http://[::1]:9000/x", "[::1]:9000", "/x"},
                 {"http://host", "", ""},
                 {"http://host?a=b", "", ""},
                 {"http://user:word@host/", "", ""},
                 {"http://[fe80::1%25eth0]/", "", ""},
                 {"http:///x", "", "/x"},
                 {"https://host/x", "", ""},
                 {"http://host/a b", "", ""},
                 {"http://host/a#b", "", ""},
                 {"http://host/a\r\nX: y", "", ""},
                 {"ftp://host/x", "", ""},
                 {"", "", ""}};
  for (const auto& row : targets) {
    const PlainTarget target = plain_target(row.url);
    EXPECT_EQ(target.host, row.host) << row.url;
    EXPECT_EQ(target.path, row.path) << row.url;
    EXPECT_EQ(PlainConnection::target(Asked(row.url)).host, row.host) << row.url;
  }
  EXPECT_EQ(PlainConnection::target(Asked("http://host/", {"Range: bytes=0-1", "Expect:"})).path, "/");
  for (const char* header : {"X: y\r\nPlanted: z", "X: y\n", "no field", "", "Host: other"}) {
    EXPECT_TRUE(PlainConnection::target(Asked("http://host/", {header})).host.empty()) << header;
  }
  Asked post("http://host/");
  post.method = "POST";
  EXPECT_TRUE(PlainConnection::target(post).host.empty());
}

TEST(PlainConnection, OneRequestAfterTheOther) {
  Pair pair;
  PlainConnection connection(std::move(pair.near), "host:81");
  for (int i = 0; i < 3; ++i) {
    Asked asked("http://host:81/a?b", {"Range: bytes=0-1", "Expect:", "If-Match: \"x\""});
    connection.begin(carried(asked));
    EXPECT_TRUE(connection.is_ready());
    EXPECT_FALSE(connection.run().over);
    EXPECT_FALSE(connection.is_ready());
    EXPECT_NE(asked.asked_ns, 0u);
    EXPECT_EQ(pair.received(),
              "GET /a?b HTTP/1.1\r\nHost: host:81\r\nUser-Agent: headrace\r\nAccept: */*\r\nRange: bytes=0-1\r\n"
              "If-Match: \"x\"\r\n\r\n");
    pair.send(kOk.substr(0, 30));
    EXPECT_FALSE(connection.run().over);
    pair.send(kOk.substr(30));
    const PlainConnection::End end = connection.run();
    EXPECT_TRUE(end.over);
    EXPECT_EQ(end.how, ExchangeEnd::kComplete);
    EXPECT_EQ(asked.body, "ab");
    EXPECT_TRUE(connection.can_reuse_connection());
    EXPECT_FALSE(connection.is_stale());
  }
  pair.send("x");
  EXPECT_TRUE(connection.is_stale());
}

// If the socket has no room for a request, the rest is sent as room becomes available.
TEST(PlainConnection, ALongRequestIsSentInPieces) {
  Pair pair;
  const int small = 4096;
  ::setsockopt(pair.near.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  PlainConnection connection(std::move(pair.near), "host");
  Asked asked("http://host/" + std::string(300'000, 'x'));
  connection.begin(carried(asked));
  std::string text;
  for (int turns = 0; turns < 1000 && !text.ends_with("\r\n\r\n"); ++turns) {
    EXPECT_FALSE(connection.run().over);
    text += pair.received();
  }
  EXPECT_TRUE(text.ends_with("Accept: */*\r\n\r\n"));
  EXPECT_EQ(
      text.size(),
      300'000 + std::string("GET / HTTP/1.1\r\nHost: host\r\nUser-Agent: headrace\r\nAccept: */*\r\n\r\n").size());
  EXPECT_FALSE(connection.sends());
}

// Only if the connection was used before may an end without any answer mean that it was idle for too long.
TEST(PlainConnection, AnotherOneIsTriedOnce) {
  for (const bool used : {false, true}) {
    for (const bool begun : {false, true}) {
      Pair pair;
      PlainConnection connection(std::move(pair.near), "host");
      Asked first("http://host/"), second("http://host/");
      if (used) {
        connection.begin(carried(first));
        (void)connection.run();
        pair.send(kOk);
        ASSERT_EQ(connection.run().how, ExchangeEnd::kComplete);
      }
      connection.begin(carried(second));
      EXPECT_FALSE(connection.run().over);
      (void)pair.received();
      if (begun) pair.send("HTTP/1.1 2");
      pair.far.close();
      PlainConnection::End end = connection.run();
      if (begun && !end.over) end = connection.run();  // run() stops after a piece that does not fill the buffer
      EXPECT_TRUE(end.over);
      EXPECT_EQ(end.again, used && !begun);
      EXPECT_EQ(end.how, ExchangeEnd::kBroken);
      EXPECT_FALSE(connection.can_reuse_connection());
    }
  }
}

TEST(PlainConnections, IdleOnesAreUsedAgainForTheirServerAlone) {
  PlainConnections connections(2);
  Pair one, two, three;
  Asked here("http://here/"), there("http://there/");
  EXPECT_FALSE(connections.begin_on_idle(carried(here)));
  const auto answered = [&](Pair& pair, Asked& asked) {
    connections.begin_on(std::move(pair.near), carried(asked));
    EXPECT_FALSE(connections[0].run().over);
    pair.send(kOk);
    EXPECT_TRUE(connections[0].run().over);
    EXPECT_EQ(connections.remove(0, true).exchange, &asked);
    EXPECT_EQ(connections.size(), 0u);
  };
  answered(one, here);
  EXPECT_FALSE(connections.begin_on_idle(carried(there)));
  answered(two, there);
  EXPECT_TRUE(connections.begin_on_idle(carried(there)));
  EXPECT_FALSE(connections.begin_on_idle(carried(there))) << "it is busy";
  EXPECT_EQ(connections.remove(0, false).exchange, &there);
  EXPECT_FALSE(connections.begin_on_idle(carried(there))) << "it is closed";
  // If more connections are idle than allowed, the oldest is closed.
  answered(three, there);
  Pair four;
  answered(four, there);
  EXPECT_FALSE(connections.begin_on_idle(carried(here)));
  // One that the server has closed in the meantime is skipped.
  four.far.close();
  EXPECT_TRUE(connections.begin_on_idle(carried(there)));
  EXPECT_EQ(connections.size(), 1u);
  three.far.close();
  EXPECT_TRUE(connections[0].run().over);
}

}  // namespace
}  // namespace headrace::http
