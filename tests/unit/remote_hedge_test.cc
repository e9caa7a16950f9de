// Late answers are requested a second time. The first right answer counts, and what the other one writes never reaches
// the buffer after the range has ended, whatever the two are.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/http_server.h"
#include "support/range_reader.h"
#include "support/temp_dir.h"

namespace headrace::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using support::pattern;
using testing::HttpRequest;
using testing::HttpServer;
using testing::HttpWire;
using testing::ObjectService;
using testing::patient;
using testing::RangeReader;

constexpr std::size_t kBytes = 200'000;
constexpr int kWarm = 200;  // reads after which lateness is known; the budget then allows ten second requests

const store::Bytes& wanted() {
  static const store::Bytes bytes = pattern(kBytes, 5);
  return bytes;
}
std::string_view wanted_text() { return {reinterpret_cast<const char*>(wanted().data()), kBytes}; }
const ObjectService& honest_pair() {
  static const ObjectService service({{"x", wanted()}, {"late", wanted()}});
  return service;
}

// Serves "x" at once, and "late" with the test's answers to the first and second request.
class LateServer {
 public:
  using Answer = std::function<void(HttpWire&, const HttpRequest&)>;
  LateServer(Answer first, Answer second)
      : first_(std::move(first)),
        second_(std::move(second)),
        server([this](HttpWire& wire, const HttpRequest& request) {
          if (request.path != "/late") return honest_pair().answer(wire, request);
          const int number = asked++;
          (number == 0 ? first_ : second_)(wire, request);
        }) {}
  std::atomic<int> asked{0};

 private:
  const Answer first_, second_;

 public:
  HttpServer server;
};

void answer_right(HttpWire& wire, const HttpRequest& request) { honest_pair().answer(wire, request); }
LateServer::Answer after(int ms, const LateServer::Answer& then) {
  return [=](HttpWire& wire, const HttpRequest& request) {
    wire.pause(ms);
    if (wire.is_open()) then(wire, request);
  };
}
void head_of_all(HttpWire& wire, const std::string& etag) {
  wire.send("HTTP/1.1 206 X\r\nETag: " + etag +
            "\r\nContent-Range: bytes 0-199999/200000\r\nContent-Length: 200000\r\n\r\n");
}
LateServer::Answer says(const char* status) {
  return [=](HttpWire& wire, const HttpRequest&) { wire.reply(status, "", "no"); };
}

class RemoteHedges : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!make_transport({}).ok()) GTEST_SKIP() << "this build has no libcurl";
  }
  static ClientOptions hedged() {
    ClientOptions options = patient();
    options.hedge = true;
    return options;
  }
  static void warm(RangeReader& reader) {
    for (int i = 0; i < kWarm; ++i) {
      const auto got = reader.read(0, 100);
      ASSERT_TRUE(got.read.status.ok()) << got.read.status.to_string();
    }
  }
  static RangeReader::Got read_late(RangeReader& reader, const std::string& version = "") {
    return reader.read(0, kBytes, false, version, "late");
  }
};

TEST_F(RemoteHedges, AreOffUnlessAskedFor) {
  LateServer late(after(500, answer_right), answer_right);
  ClientOptions options = hedged();
  options.hedge = false;
  RangeReader reader(late.server.url(), ServiceKind::kHttp, options);
  warm(reader);
  EXPECT_EQ(read_late(reader).bytes, wanted());
  EXPECT_EQ(late.asked, 1);
}

TEST_F(RemoteHedges, TheSecondRequestReplacesALateAnswer) {
  for (const bool versioned : {false, true}) {
    LateServer late(after(60'000, answer_right), answer_right);
    RangeReader reader(late.server.url(), ServiceKind::kHttp, hedged());
    warm(reader);
    const auto began = steady_clock::now();
    const std::string etag = ObjectService::etag(wanted());
    const auto got = read_late(reader, versioned ? etag : "");
    ASSERT_TRUE(got.read.status.ok()) << got.read.status.to_string();
    EXPECT_EQ(got.bytes, wanted());
    EXPECT_EQ(got.read.object_bytes, kBytes);
    EXPECT_EQ(got.read.found_version, etag);
    EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(40));
    EXPECT_EQ(late.asked, 2);
    if (versioned) {
      EXPECT_EQ(late.server.requests().back().header("if-match"), etag);
    }
  }
}

// The first answer writes wrong bytes before and while the second arrives; they must not be read.
TEST_F(RemoteHedges, BytesOfTheLosingAnswerAreDiscarded) {
  std::atomic<bool> stop{false};
  LateServer late(
      [&](HttpWire& wire, const HttpRequest&) {
        head_of_all(wire, "\"another\"");
        for (int i = 0; i < 2000 && wire.is_open() && !stop; ++i) {
          wire.send(std::string(100, '\x7e'));
          wire.pause(5);
        }
      },
      [&](HttpWire& wire, const HttpRequest&) {
        head_of_all(wire, ObjectService::etag(wanted()));
        for (std::size_t at = 0; at < kBytes; at += 20'000) {
          wire.send(wanted_text().substr(at, 20'000));
          wire.pause(10);
        }
      });
  RangeReader reader(late.server.url(), ServiceKind::kHttp, hedged());
  warm(reader);
  store::Bytes memory(kBytes);
  RangeRead read;
  read.key = "late";
  read.out = memory;
  read.listener = reader.listener();
  RangeRead* const one[] = {&read};
  reader.done_ = 0;
  ASSERT_TRUE(reader.client().start(one).ok());
  reader.wait(1);
  ASSERT_TRUE(read.status.ok()) << read.status.to_string();
  EXPECT_EQ(memory, wanted());
  EXPECT_EQ(read.found_version, ObjectService::etag(wanted())) << "of what was read";
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(milliseconds(5));
    ASSERT_EQ(memory, wanted()) << "it is the reader's";
  }
  stop = true;
}

TEST_F(RemoteHedges, AWrongSecondAnswerIsIgnored) {
  const struct {
    const char* name;
    LateServer::Answer second;
  } rows[] = {
      {"denied", says("403 Forbidden")},
      {"removed", says("404 Not Found")},
      {"fails", says("500 X")},
      {"busy", says("503 X")},
      // Breaks within the head: if there were no byte of an answer, an idle connection's request would be repeated on
      // another one.
      {"breaks",
       [](HttpWire& wire, const HttpRequest&) {
         wire.send("HTTP/1.1 2");
         wire.close();
       }},
      {"short",
       [](HttpWire& wire, const HttpRequest&) {
         head_of_all(wire, ObjectService::etag(wanted()));
         wire.send(std::string(1000, '\x7e'));
         wire.close();
       }},
      {"another_version",
       [](HttpWire& wire, const HttpRequest&) {
         head_of_all(wire, "\"another\"");
         wire.send(std::string(kBytes, '\x7e'));
       }},
      {"never_answers", [](HttpWire& wire, const HttpRequest&) { wire.pause(60'000); }},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    LateServer late(after(600, answer_right), row.second);
    RangeReader reader(late.server.url(), ServiceKind::kHttp, hedged());
    warm(reader);
    const auto got = read_late(reader, ObjectService::etag(wanted()));
    ASSERT_TRUE(got.read.status.ok()) << got.read.status.to_string();
    EXPECT_EQ(got.bytes, wanted());
    EXPECT_EQ(late.asked, 2) << "a second request is made once";
  }
}

TEST_F(RemoteHedges, ALateFailureIsReplacedByTheSecondAnswer) {
  for (const char* status : {"403 Forbidden", "404 Not Found", "412 X"}) {
    SCOPED_TRACE(status);
    LateServer late(after(300, says(status)), after(900, answer_right));
    RangeReader reader(late.server.url(), ServiceKind::kHttp, hedged());
    warm(reader);
    const auto got = read_late(reader);
    ASSERT_TRUE(got.read.status.ok()) << got.read.status.to_string();
    EXPECT_EQ(got.bytes, wanted());
  }
  LateServer late(after(300, says("403 Forbidden")), after(300, says("404 Not Found")));
  RangeReader reader(late.server.url(), ServiceKind::kHttp, hedged());
  warm(reader);
  EXPECT_EQ(read_late(reader).read.status.code(), Code::kPermission) << "what the first says";
}

TEST_F(RemoteHedges, BothAreCancelled) {
  LateServer late(
      [](HttpWire& wire, const HttpRequest&) {
        head_of_all(wire, "\"a\"");
        wire.send(std::string(1000, '\x7e'));
        wire.pause(20'000);
        wire.send(std::string(kBytes - 1000, '\x7e'));
      },
      [](HttpWire& wire, const HttpRequest&) {
        head_of_all(wire, "\"a\"");
        wire.pause(20'000);
      });
  RangeReader reader(late.server.url(), ServiceKind::kHttp, hedged());
  warm(reader);
  store::Bytes memory(kBytes);
  RangeRead read;
  read.key = "late";
  read.out = memory;
  read.listener = reader.listener();
  RangeRead* const one[] = {&read};
  reader.done_ = 0;
  ASSERT_TRUE(reader.client().start(one).ok());
  while (late.asked < 2) std::this_thread::sleep_for(milliseconds(1));
  reader.client().cancel(one);
  reader.wait(1);
  EXPECT_EQ(read.status.code(), Code::kCancelled) << read.status.to_string();
  std::fill(memory.begin(), memory.end(), std::byte{0x33});
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{0x33}), static_cast<std::ptrdiff_t>(kBytes));
  EXPECT_TRUE(reader.read(0, 10).read.status.ok());
}

TEST_F(RemoteHedges, TheTimeIsThatOfOneRange) {
  const auto never = [](HttpWire& wire, const HttpRequest&) { wire.pause(60'000); };
  LateServer late(never, never);
  ClientOptions options = hedged();
  options.total_ns = 2'000'000'000;
  RangeReader reader(late.server.url(), ServiceKind::kHttp, options);
  warm(reader);
  const auto began = steady_clock::now();
  EXPECT_EQ(read_late(reader).read.status.code(), Code::kTimeout);
  EXPECT_EQ(late.asked, 2);
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(8));
}

// One part of a long range is late.
TEST_F(RemoteHedges, PartsAreHedgedAsRangesAre) {
  constexpr std::size_t kLong = 1'000'000;
  const store::Bytes object = pattern(kLong, 9);
  const ObjectService service({{"x", object}});
  std::atomic<int> asked{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.header("range").starts_with("bytes=262144-") && asked++ == 0) wire.pause(60'000);
    service.answer(wire, request);
  });
  ClientOptions options = hedged();
  options.link.part_bytes = 64 << 10;
  RangeReader reader(server.url(), ServiceKind::kHttp, options);
  warm(reader);
  const auto began = steady_clock::now();
  const auto got = reader.read(0, kLong);
  ASSERT_TRUE(got.read.status.ok()) << got.read.status.to_string();
  EXPECT_EQ(got.bytes, object);
  EXPECT_EQ(asked, 2);
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(40));
}

// Every answer is late: at most one in twenty is requested twice.
TEST_F(RemoteHedges, HaveABudget) {
  std::atomic<bool> slow{false};
  std::atomic<int> asked{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    ++asked;
    if (slow) wire.pause(200);
    honest_pair().answer(wire, request);
  });
  RangeReader reader(server.url(), ServiceKind::kHttp, hedged());
  warm(reader);
  slow = true;
  asked = 0;
  std::vector<store::Bytes> memory(100, store::Bytes(100));
  std::vector<RangeRead> reads(100);
  std::vector<RangeRead*> pointers;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    reads[i].key = "x";
    reads[i].out = memory[i];
    reads[i].listener = reader.listener();
    pointers.push_back(&reads[i]);
  }
  reader.done_ = 0;
  ASSERT_TRUE(reader.client().start(pointers).ok());
  reader.wait(reads.size());
  for (const RangeRead& read : reads) EXPECT_TRUE(read.status.ok()) << read.status.to_string();
  EXPECT_LE(asked, 100 + 17) << "ten for those before, five for these, and what the second ones add";
}

// No second request goes to a server that asks clients to slow down.
TEST_F(RemoteHedges, NotForOverloadedServers) {
  std::atomic<int> asked{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.path != "/late") return honest_pair().answer(wire, request);
    if (asked++ == 0) return wire.reply("503 X", "", "");
    wire.pause(100);
    honest_pair().answer(wire, request);
  });
  RangeReader reader(server.url(), ServiceKind::kHttp, hedged());
  warm(reader);
  EXPECT_TRUE(read_late(reader).read.status.ok());
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(read_late(reader).read.status.ok());
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace headrace::http
