// Hostile servers: each range ends once, in time, with the right bytes or a named error, and nothing is written outside
// its buffer. Credentials are sent only to the server they are for and appear in no message.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <tuple>

#include "support/http_server.h"
#include "support/one_object.h"
#include "support/range_reader.h"
#include "support/temp_dir.h"

namespace headrace::http {
namespace {

using support::pattern;
using testing::CanaryService;
using testing::honest;
using testing::HttpRequest;
using testing::HttpServer;
using testing::HttpWire;
using testing::impatient;
using testing::kCanary;
using testing::kSize;
using testing::object;
using testing::ObjectService;
using testing::part;
using testing::patient;
using testing::RangeReader;
using testing::text_of;

class RemoteReads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!make_transport({}).ok()) GTEST_SKIP() << "this build has no libcurl";
  }
};

TEST_F(RemoteReads, AllFormsOfRanges) {
  HttpServer server(ObjectService({{"x", object()}, {"empty", {}}}));
  RangeReader reader(server.url());
  const struct {
    std::uint64_t offset;
    std::size_t size;
    bool from_end;
    std::size_t from, count;
  } rows[] = {{0, 1000, false, 0, 1000}, {0, 2000, false, 0, 1000}, {999, 1, false, 999, 1}, {990, 100, false, 990, 10},
              {1000, 5, false, 0, 0},    {5000, 5, false, 0, 0},    {~0ull, 5, false, 0, 0}, {0, 8, true, 992, 8},
              {0, 1000, true, 0, 1000},  {0, 5000, true, 0, 1000},  {0, 0, false, 0, 0},     {7, 0, true, 0, 0}};
  for (const auto& row : rows) {
    const auto got = reader.read(row.offset, row.size, row.from_end);
    ASSERT_TRUE(got.read.status.ok()) << got.read.status.to_string();
    EXPECT_EQ(got.bytes, store::Bytes(object().begin() + row.from, object().begin() + row.from + row.count))
        << row.offset;
    EXPECT_EQ(got.read.object_bytes, kSize);
  }
  for (const bool from_end : {false, true}) {
    const auto got = reader.read(0, 10, from_end, "", "empty");
    EXPECT_TRUE(got.read.status.ok());
    EXPECT_EQ(got.read.object_bytes, 0u);
  }
  EXPECT_EQ(reader.read(0, 0, false, "", "none").read.status.code(), Code::kNotFound);
  EXPECT_EQ(server.connections(), 1u) << "the connection is kept";
}

// A connection that was idle may have been closed, which is not a failure and does not count as an attempt. Bytes that
// a server sends after an answer are not taken for the next answer.
TEST_F(RemoteReads, ClosedIdleConnectionsAreReplaced) {
  enum class How { kCloses, kClosesWhenAsked, kResetsWhenAsked, kSaysMore, kSaysMoreLater };
  for (const bool tls : {false, true}) {
    for (const How how :
         {How::kCloses, How::kClosesWhenAsked, How::kResetsWhenAsked, How::kSaysMore, How::kSaysMoreLater}) {
      // libcurl may take such bytes for the next answer; a server like this could just as well answer wrongly.
      if (tls && (how == How::kSaysMore || how == How::kSaysMoreLater)) continue;
      const support::TempDir folder;
      std::atomic<int> count{0};
      const HttpServer::Answer answer = [&](HttpWire& wire, const HttpRequest& request) {
        const bool first = count++ == 0;
        if (!first && count == 2 && how == How::kClosesWhenAsked) return wire.close();
        if (!first && count == 2 && how == How::kResetsWhenAsked) return wire.reset();
        if (!first || (how != How::kSaysMore && how != How::kSaysMoreLater)) {
          honest().answer(wire, request);
          if (first && how == How::kCloses) wire.close();
          return;
        }
        const std::string one = "HTTP/1.1 206 X\r\nContent-Range: bytes 5-14/1000\r\nContent-Length: 10\r\n\r\n";
        const std::string right = one + std::string(text_of(5, 10)), wrong = one + "not so, no";
        if (how == How::kSaysMore) return wire.send(right + wrong);
        wire.send(right);
        wire.pause(5);
        wire.send(wrong);
      };
      ClientOptions options = patient();
      if (tls) options.transport.ca_file = folder / "certificate.pem";
      HttpServer server(answer, options.transport.ca_file);
      options.transport.threads = 1;
      options.retry.attempts = 1;
      RangeReader reader(server.url(), ServiceKind::kHttp, options);
      for (int i = 0; i < 3; ++i) {
        const auto got = reader.read(5, 10);
        ASSERT_TRUE(got.read.status.ok())
            << static_cast<int>(how) << (tls ? ", TLS: " : ": ") << got.read.status.to_string();
        EXPECT_EQ(got.bytes, store::Bytes(object().begin() + 5, object().begin() + 15)) << static_cast<int>(how);
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
      }
      EXPECT_EQ(server.connections(), 2u) << static_cast<int>(how);
    }
  }
}

TEST_F(RemoteReads, AServerWithoutRangesGivesWholeObjects) {
  std::atomic<bool> chunked{false};
  HttpServer server([&](HttpWire& wire, const HttpRequest&) {
    if (!chunked) return wire.reply("200 OK", "", text_of(0, kSize));
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + std::string(text_of(0, kSize)) +
              "\r\n0\r\n\r\n");
  });
  RangeReader reader(server.url());
  for (const bool way : {false, true}) {
    chunked = way;
    for (const std::size_t size : {kSize, kSize + 1, std::size_t{100'000}}) {
      const auto got = reader.read(0, size);
      ASSERT_TRUE(got.read.status.ok()) << got.read.status.to_string();
      EXPECT_EQ(got.bytes, object());
      EXPECT_EQ(got.read.object_bytes, kSize);
    }
    const auto start = reader.read(0, 10);
    ASSERT_TRUE(start.read.status.ok());
    EXPECT_EQ(start.bytes, store::Bytes(object().begin(), object().begin() + 10));
    EXPECT_EQ(reader.read(5, 10).read.status.code(), Code::kUnsupported);
    EXPECT_EQ(reader.read(0, 10, true).read.status.code(), Code::kUnsupported);
  }
}

TEST_F(RemoteReads, AChangedObjectIsReported) {
  std::atomic<int> ignores{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (ignores == 0) return honest().answer(wire, request);
    part(wire, ignores == 1 ? "ETag: \"other\"\r\n" : "", text_of(5, 10));
  });
  RangeReader reader(server.url());
  const auto first = reader.read(5, 10);
  ASSERT_EQ(first.read.found_version, ObjectService::etag(object()));
  EXPECT_TRUE(reader.read(5, 10, false, first.read.found_version).read.status.ok());
  EXPECT_EQ(server.requests().back().header("if-match"), first.read.found_version);
  EXPECT_EQ(reader.read(5, 10, false, "\"before\"").read.status.code(), Code::kAgainExhausted);
  for (const int how : {1, 2}) {
    ignores = how;
    EXPECT_EQ(reader.read(5, 10, false, first.read.found_version).read.status.code(), Code::kAgainExhausted);
  }
  ignores = 0;
  EXPECT_EQ(reader.read(5, 10, false, "\"x\"\r\nX-Planted: y").read.status.code(), Code::kAgainExhausted);
  EXPECT_EQ(server.requests().back().header("x-planted"), "");
}

TEST_F(RemoteReads, CredentialsAreNotSentToOtherHosts) {
  HttpServer other([](HttpWire& wire, const HttpRequest& request) { honest().answer(wire, request); });
  std::string location = other.url() + "/x";
  HttpServer server(
      [&](HttpWire& wire, const HttpRequest&) { wire.reply("302 Found", "Location: " + location + "\r\n", ""); });
  RangeReader reader(server.url());
  EXPECT_TRUE(reader.read(5, 10).read.status.ok());
  const std::vector<HttpRequest> seen = other.requests();
  ASSERT_EQ(seen.size(), 1u);
  for (const auto& [name, value] : seen.front().headers) EXPECT_EQ(value.find(kCanary), std::string::npos) << name;
  EXPECT_EQ(seen.front().query, "");
  EXPECT_EQ(seen.front().header("range"), "bytes=5-14");
  EXPECT_EQ(server.requests().front().header("authorization"), kCanary);
}

TEST_F(RemoteReads, S3Errors) {
  std::atomic<int> count{0};
  std::string answer, status, header;
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    HttpRequest plain = request;
    plain.path = "/x";
    if (count++ > 0) return honest().answer(wire, plain);
    wire.reply(status, header, answer);
  });
  const auto read = [&](const char* status_line, const char* headers, const char* body) {
    count = 0;
    status = status_line;
    header = headers;
    answer = body;
    RangeReader reader(server.url(), ServiceKind::kS3);
    const auto got = reader.read(5, 10);
    return std::tuple(got.read.status.code(), reader.service().regions, reader.service().times);
  };
  const auto [moved, regions, when] =
      read("301 Moved", "x-amz-bucket-region: eu-west-1\r\n", "<Error><Code>PermanentRedirect</Code></Error>");
  EXPECT_EQ(moved, Code::kOk);
  EXPECT_EQ(regions, std::vector<std::string>{"eu-west-1"});
  const auto [skewed, none, times] =
      read("403 X", "Date: Thu, 01 Jan 2099 00:00:00 GMT\r\n", "<Error><Code>RequestTimeTooSkewed</Code></Error>");
  EXPECT_EQ(skewed, Code::kOk);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_GE(times[1], 4070908800);
  EXPECT_EQ(std::get<0>(read("404 X", "", "<Error><Code>NoSuchBucket</Code></Error>")), Code::kIo);
  EXPECT_EQ(std::get<0>(read("404 X", "", "<Error><Code>NoSuchKey</Code></Error>")), Code::kNotFound);
  EXPECT_EQ(std::get<0>(read("503 X", "", "<Error><Code>SlowDown</Code></Error>")), Code::kOk);
}

TEST_F(RemoteReads, NoServer) {
  // A port without a listener, and one whose connection queue is full.
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(RangeReader(url).read(5, 10).read.status.code(), Code::kIo);
  ASSERT_EQ(::listen(socket, 1), 0);
  const auto hanging = RangeReader(url, ServiceKind::kHttp, impatient()).read(5, 10);
  EXPECT_EQ(hanging.read.status.code(), Code::kTimeout) << hanging.read.status.to_string();
  ::close(socket);
  EXPECT_EQ(RangeReader("http://no-such-host.invalid").read(5, 10).read.status.code(), Code::kIo);
}

TEST_F(RemoteReads, CertificatesAreChecked) {
  support::TempDir folder;
  HttpServer server(honest(), folder / "certificate.pem");
  ClientOptions options = patient();
  const auto refused = RangeReader(server.url(), ServiceKind::kHttp, options).read(5, 10);
  EXPECT_EQ(refused.read.status.code(), Code::kIo) << "nobody trusts it: " << refused.read.status.to_string();
  options.transport.ca_file = folder / "certificate.pem";
  EXPECT_TRUE(RangeReader(server.url(), ServiceKind::kHttp, options).read(5, 10).read.status.ok());
  const std::string other = "https://localhost:" + std::to_string(server.port());
  EXPECT_EQ(RangeReader(other, ServiceKind::kHttp, options).read(5, 10).read.status.code(), Code::kIo)
      << "of another host";
}

TEST_F(RemoteReads, ManyAtATimeAndCancelled) {
  std::atomic<bool> slow{false};
  std::atomic<int> now{0}, most{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    const int here = ++now;
    for (int seen = most; here > seen && !most.compare_exchange_weak(seen, here);) {
    }
    if (slow) wire.pause(10'000);
    honest().answer(wire, request);
    --now;
  });
  ClientOptions options = patient();
  RangeReader reader(server.url(), ServiceKind::kHttp, options);
  constexpr std::size_t kReads = 300;
  store::Bytes memory(kReads * 10);
  const auto reads = [&] {
    std::vector<RangeRead> all(kReads);
    for (std::size_t i = 0; i < kReads; ++i) {
      all[i].key = "x";
      all[i].offset = i;
      all[i].out = std::span(memory).subspan(i * 10, 10);
      all[i].listener = reader.listener();
    }
    return all;
  };
  const auto start = [&](std::vector<RangeRead>& all) {
    std::vector<RangeRead*> pointers;
    for (RangeRead& read : all) pointers.push_back(&read);
    reader.done_ = 0;
    EXPECT_TRUE(reader.client().start(pointers).ok());
    return pointers;
  };
  auto all = reads();
  start(all);
  reader.wait(kReads);
  for (std::size_t i = 0; i < kReads; ++i) {
    ASSERT_TRUE(all[i].status.ok()) << all[i].status.to_string();
    ASSERT_TRUE(std::equal(memory.begin() + static_cast<std::ptrdiff_t>(i * 10),
                           memory.begin() + static_cast<std::ptrdiff_t>(i * 10 + 10),
                           object().begin() + static_cast<std::ptrdiff_t>(i)));
  }
  EXPECT_LE(most, 8);
  EXPECT_LE(server.connections(), 8u);
  slow = true;
  auto cancelled = reads();
  auto pointers = start(cancelled);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  pointers.push_back(pointers.front());  // listed twice
  pointers.push_back(&all.front());      // has already ended
  const auto began = std::chrono::steady_clock::now();
  reader.client().cancel(pointers);
  reader.wait(kReads);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(8)) << "sooner than the answers";
  for (const RangeRead& read : cancelled) EXPECT_TRUE(read.status.ok() || read.status.code() == Code::kCancelled);
  slow = false;
  auto again = reads();
  start(again);
  reader.wait(kReads);
  for (const RangeRead& read : again) EXPECT_TRUE(read.status.ok()) << read.status.to_string();
}

// A server that refuses more than five requests at a time: all ranges are answered, and soon few requests are refused.
TEST_F(RemoteReads, ConnectionsAdaptToTheServer) {
  std::atomic<int> now{0}, refused{0}, answered{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    const int here = ++now;
    wire.pause(5);
    // Decremented before the answer, since its receiver may send the next request before this thread continues.
    --now;
    if (here > 5) {
      ++refused;
      wire.reply("429 Too Many Requests", "", "");
    } else {
      ++answered;
      honest().answer(wire, request);
    }
  });
  ClientOptions options = patient();
  options.transport.connections = 64;
  options.retry = {50, 2'000'000, 50'000'000, 5000};
  RangeReader reader(server.url(), ServiceKind::kHttp, options);
  constexpr std::size_t kReads = 2000;
  store::Bytes memory(kReads * 10);
  std::vector<RangeRead> all(kReads);
  std::vector<RangeRead*> pointers;
  for (std::size_t i = 0; i < kReads; ++i) {
    all[i].key = "x";
    all[i].offset = i % 900;
    all[i].out = std::span(memory).subspan(i * 10, 10);
    all[i].listener = reader.listener();
    pointers.push_back(&all[i]);
  }
  reader.done_ = 0;
  ASSERT_TRUE(reader.client().start(pointers).ok());
  reader.wait(kReads);
  for (const RangeRead& read : all) ASSERT_TRUE(read.status.ok()) << read.status.to_string();
  EXPECT_EQ(answered, static_cast<int>(kReads));
  EXPECT_GT(refused, 0);
  // A few per cent, and more on a busy machine, where answers arrive in bursts; with 64 connections at all times, some
  // reads would run out of attempts. ConnectionLimits.FallToWhatTheServerAccepts checks the limit exactly.
  EXPECT_LT(refused, static_cast<int>(kReads));
}

}  // namespace
}  // namespace headrace::http
