// Long ranges that are read with several requests: all parts are of one version, the range ends once as a whole, and
// nothing is written outside it, whatever a server does to one of the parts.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/child.h"
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

constexpr std::size_t kLong = 1'000'000, kPart = 128 << 10, kParts = 8;  // for 8 connections

const store::Bytes& long_object() {
  static const store::Bytes bytes = pattern(kLong, 11);
  return bytes;
}
const ObjectService& honest_parts() {
  static const ObjectService service({{"x", long_object()}, {"short", store::Bytes(10)}});
  return service;
}
std::string first_byte(const HttpRequest& request) {
  const std::string range = request.header("range");
  return range.substr(6, range.find('-') - 6);
}

class RemoteParts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!make_transport({}).ok()) GTEST_SKIP() << "this build has no libcurl";
  }
  static ClientOptions in_parts() {
    ClientOptions options = patient();
    options.link.part_bytes = 64 << 10;
    return options;
  }
  // A short read, which shows that the server has ETags.
  static std::string learn(RangeReader& reader) {
    const auto got = reader.read(0, 10);
    EXPECT_TRUE(got.read.status.ok()) << got.read.status.to_string();
    return got.read.found_version;
  }
  static void expect_right(const RangeReader::Got& got, std::size_t from, std::size_t count) {
    ASSERT_TRUE(got.read.status.ok()) << got.read.status.to_string();
    ASSERT_EQ(got.bytes.size(), count);
    EXPECT_TRUE(
        std::equal(got.bytes.begin(), got.bytes.end(), long_object().begin() + static_cast<std::ptrdiff_t>(from)));
    EXPECT_EQ(got.read.object_bytes, kLong);
    EXPECT_EQ(got.read.found_version, ObjectService::etag(long_object()));
  }
};

TEST_F(RemoteParts, AreRequestedTogetherAndOfOneVersion) {
  std::atomic<int> now{0}, most{0}, wanted{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    const int here = ++now;
    for (int seen = most; here > seen && !most.compare_exchange_weak(seen, here);) {
    }
    // Holds back the answers to the parts until all requests have arrived, or for a long time.
    for (int i = 0; !request.header("if-match").empty() && most < wanted && i < 2000; ++i) wire.pause(10);
    --now;
    honest_parts().answer(wire, request);
  });
  RangeReader reader(server.url(), ServiceKind::kHttp, in_parts());
  expect_right(reader.read(0, kLong), 0, kLong);
  EXPECT_EQ(server.requests().size(), 1u) << "nothing is known of the server";
  for (const bool known : {false, true}) {
    const std::string version = known ? ObjectService::etag(long_object()) : "";
    const std::size_t before = server.requests().size();
    most = 0;
    wanted = static_cast<int>(known ? kParts : kParts - 1);
    expect_right(reader.read(0, kLong, false, version), 0, kLong);
    const std::vector<HttpRequest> all = server.requests();
    ASSERT_EQ(all.size() - before, kParts);
    std::size_t unpinned = 0;
    for (std::size_t i = before; i < all.size(); ++i) unpinned += all[i].header("if-match").empty() ? 1 : 0;
    EXPECT_EQ(unpinned, known ? 0u : 1u);
    if (!known) {
      EXPECT_EQ(all[before].header("if-match"), "") << "the first answer names the version of the other parts";
    }
    EXPECT_EQ(most, wanted);
  }
}

TEST_F(RemoteParts, EndWhereTheObjectEnds) {
  HttpServer server(honest_parts());
  RangeReader reader(server.url(), ServiceKind::kHttp, in_parts());
  const std::string version = learn(reader);
  const struct {
    std::uint64_t offset;
    std::size_t size;
  } rows[] = {{0, kLong},         {0, kLong - 1},   {0, kLong + 1},     {0, 3 * kLong}, {1, kLong},
              {kLong - 5, kLong}, {777'777, kLong}, {500'000, 100'000}, {0, kPart},     {0, kPart + 1}};
  for (const auto& row : rows) {
    for (const bool known : {false, true}) {
      SCOPED_TRACE(std::to_string(row.offset) + " " + std::to_string(row.size) + (known ? " known" : ""));
      const std::size_t count = std::min<std::size_t>(row.size, kLong - row.offset);
      expect_right(reader.read(row.offset, row.size, false, known ? version : ""), row.offset, count);
    }
  }
  for (const std::uint64_t beyond : {std::uint64_t{kLong}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    const auto got = reader.read(beyond, kLong);
    ASSERT_TRUE(got.read.status.ok()) << got.read.status.to_string();
    EXPECT_EQ(got.read.bytes, 0u);
  }
  EXPECT_EQ(reader.read(0, kLong, false, "", "short").read.bytes, 10u);
  EXPECT_EQ(reader.read(0, kLong, false, "", "none").read.status.code(), Code::kNotFound);
}

// If the third part is answered wrongly, the range fails, and no byte is written outside it.
TEST_F(RemoteParts, OneWrongPartFailsAll) {
  using Answer = std::function<void(HttpWire&, const HttpRequest&)>;
  const std::string begin = std::to_string(2 * kPart), end = std::to_string(3 * kPart - 1);
  const std::string etag = "ETag: " + ObjectService::etag(long_object()) + "\r\n";
  const std::string_view text(reinterpret_cast<const char*>(long_object().data()), kLong);
  const auto part = [&](const std::string& headers, const std::string& range, std::string_view body) -> Answer {
    return [=](HttpWire& wire, const HttpRequest&) {
      wire.reply("206 X", headers + "Content-Range: " + range + "\r\n", body);
    };
  };
  const auto status = [](const char* line) -> Answer {
    return [line](HttpWire& wire, const HttpRequest&) { wire.reply(line, "", "no"); };
  };
  const std::string right = "bytes " + begin + "-" + end + "/" + std::to_string(kLong);
  const std::string_view body = text.substr(2 * kPart, kPart);
  const struct {
    const char* name;
    Answer answer;
    Code code;
  } rows[] = {
      {"short_and_agreeing", part(etag, right, body.substr(1)), Code::kIo},
      {"long_and_agreeing", part(etag, right, text.substr(2 * kPart, kPart + 1)), Code::kIo},
      {"ends_the_object_there",
       part(etag, "bytes " + begin + "-" + std::to_string(2 * kPart + 9) + "/" + std::to_string(2 * kPart + 10),
            body.substr(0, 10)),
       Code::kIo},
      {"another_size", part(etag, "bytes " + begin + "-" + end + "/999999999", body), Code::kIo},
      {"another_part",
       part(etag, "bytes 0-" + std::to_string(kPart - 1) + "/" + std::to_string(kLong), text.substr(0, kPart)),
       Code::kIo},
      {"another_version", part("ETag: \"other\"\r\n", right, body), Code::kAgainExhausted},
      {"no_version", part("", right, body), Code::kAgainExhausted},
      {"precondition", status("412 X"), Code::kAgainExhausted},
      {"removed", status("404 Not Found"), Code::kAgainExhausted},
      {"denied", status("403 Forbidden"), Code::kPermission},
      {"beyond", status("416 X"), Code::kShort},
      {"whole", [&](HttpWire& wire, const HttpRequest&) { wire.reply("200 OK", etag, text); }, Code::kUnsupported},
      {"gzip", part(etag + "Content-Encoding: gzip\r\n", right, body), Code::kUnsupported},
      {"fails_always", status("500 X"), Code::kAgainExhausted},
      {"breaks_always", [](HttpWire& wire, const HttpRequest&) { wire.reset(); }, Code::kIo},
      {"never_answers", [](HttpWire& wire, const HttpRequest&) { wire.pause(60'000); }, Code::kTimeout},
  };
  for (const auto& row : rows) {
    for (const bool known : {false, true}) {
      SCOPED_TRACE(std::string(row.name) + (known ? " known" : ""));
      HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
        if (first_byte(request) == begin) return row.answer(wire, request);
        honest_parts().answer(wire, request);
      });
      ClientOptions options = in_parts();
      if (row.code == Code::kTimeout) options.total_ns = 3'000'000'000;
      RangeReader reader(server.url(), ServiceKind::kHttp, options);
      const std::string version = learn(reader);
      const auto got = reader.read(0, kLong, false, known ? version : "");
      EXPECT_EQ(got.read.status.code(), row.code) << got.read.status.to_string();
      EXPECT_EQ(got.read.bytes, 0u);
      // The same client reads the next range normally.
      const auto next = reader.read(10, 20);
      EXPECT_TRUE(next.read.status.ok()) << next.read.status.to_string();
    }
  }
}

TEST_F(RemoteParts, AFailedPartIsRetriedAlone) {
  std::atomic<int> failures{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    const std::string first = first_byte(request);
    if (first == std::to_string(kPart) && failures++ < 2) return wire.reply("503 X", "", "");
    honest_parts().answer(wire, request);
  });
  RangeReader reader(server.url(), ServiceKind::kHttp, in_parts());
  learn(reader);
  expect_right(reader.read(0, kLong), 0, kLong);
  EXPECT_EQ(server.requests().size(), 1 + kParts + 2);
}

// The first part breaks after its head: the repeated request names the version of the other parts.
TEST_F(RemoteParts, TheFirstIsRetriedWithItsVersion) {
  std::atomic<int> count{0};
  const std::string etag = ObjectService::etag(long_object());
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (first_byte(request) != "0" || count++ != 1) return honest_parts().answer(wire, request);
    wire.send("HTTP/1.1 206 X\r\nETag: " + etag + "\r\nContent-Range: bytes 0-" + std::to_string(kPart - 1) + "/" +
              std::to_string(kLong) + "\r\nContent-Length: " + std::to_string(kPart) + "\r\n\r\nwrong");
    wire.pause(50);
    wire.reset();
  });
  RangeReader reader(server.url(), ServiceKind::kHttp, in_parts());
  learn(reader);
  expect_right(reader.read(0, kLong), 0, kLong);
  std::size_t unpinned = 0;
  for (const HttpRequest& request : server.requests()) unpinned += request.header("if-match").empty() ? 1 : 0;
  EXPECT_EQ(unpinned, 2u) << "the short read, and the first time of the first part";
}

TEST_F(RemoteParts, AFailedPartCancelsTheOthers) {
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    const std::string first = first_byte(request);
    if (first == std::to_string(5 * kPart)) {
      wire.pause(50);
      return wire.reply("403 Forbidden", "", "");
    }
    if (first != "0") wire.pause(20'000);
    honest_parts().answer(wire, request);
  });
  ClientOptions options = in_parts();
  RangeReader reader(server.url(), ServiceKind::kHttp, options);
  learn(reader);
  const auto began = steady_clock::now();
  EXPECT_EQ(reader.read(0, kLong).read.status.code(), Code::kPermission);
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(10));
}

TEST_F(RemoteParts, ShareTheTimeOfOneRange) {
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.header("range") != "bytes=0-9") wire.pause(first_byte(request) == "0" ? 1500 : 20'000);
    honest_parts().answer(wire, request);
  });
  ClientOptions options = in_parts();
  options.total_ns = 2'000'000'000;
  RangeReader reader(server.url(), ServiceKind::kHttp, options);
  learn(reader);
  const auto began = steady_clock::now();
  EXPECT_EQ(reader.read(0, kLong).read.status.code(), Code::kTimeout);
  EXPECT_GE(steady_clock::now() - began, milliseconds(1900));
  EXPECT_LT(steady_clock::now() - began, milliseconds(3300)) << "and not from when its parts began";
}

TEST_F(RemoteParts, AreNotUsedWithoutVersions) {
  std::atomic<bool> tells{true};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (tells) return honest_parts().answer(wire, request);
    const std::string range = request.header("range");
    unsigned long long first = 0, last = 0;
    ASSERT_EQ(std::sscanf(range.c_str(), "bytes=%llu-%llu", &first, &last), 2);
    last = std::min<unsigned long long>(last, kLong - 1);
    const std::string_view text(reinterpret_cast<const char*>(long_object().data()), kLong);
    wire.reply("206 X", "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(last) + "/1000000\r\n",
               text.substr(first, last - first + 1));
  });
  RangeReader reader(server.url(), ServiceKind::kHttp, in_parts());
  learn(reader);
  tells = false;
  for (const std::size_t requests : {2u, 1u}) {  // the first read finds out
    const std::size_t before = server.requests().size();
    const auto got = reader.read(0, kLong);
    ASSERT_TRUE(got.read.status.ok()) << got.read.status.to_string();
    EXPECT_EQ(got.bytes, long_object());
    EXPECT_EQ(got.read.found_version, "");
    EXPECT_EQ(server.requests().size() - before, requests);
    EXPECT_EQ(server.requests().back().header("range"), "bytes=0-999999");
  }
  tells = true;
  learn(reader);
  expect_right(reader.read(0, kLong), 0, kLong);
}

TEST_F(RemoteParts, AServerThatStopsSupportingRangesSendsTheWholeObject) {
  std::atomic<bool> ranges{true};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (ranges) return honest_parts().answer(wire, request);
    const std::string_view text(reinterpret_cast<const char*>(long_object().data()), kLong);
    wire.reply("200 OK", "ETag: " + ObjectService::etag(long_object()) + "\r\n", text);
  });
  RangeReader reader(server.url(), ServiceKind::kHttp, in_parts());
  learn(reader);
  ranges = false;
  expect_right(reader.read(0, kLong), 0, kLong);
  EXPECT_EQ(reader.read(5, kLong).read.status.code(), Code::kUnsupported);
}

TEST_F(RemoteParts, AreCancelledTogether) {
  std::atomic<int> held{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.header("range") == "bytes=0-9") return honest_parts().answer(wire, request);
    ++held;
    const bool first = first_byte(request) == "0";
    if (!first) wire.pause(20'000);
    honest_parts().answer(wire, request);
  });
  ClientOptions options = in_parts();
  for (const bool known : {false, true}) {
    for (const int wanted : {1, 3, static_cast<int>(kParts)}) {
      RangeReader reader(server.url(), ServiceKind::kHttp, options);
      const std::string version = learn(reader);
      held = 0;
      store::Bytes memory(kLong);
      RangeRead read;
      read.key = "x";
      read.out = memory;
      if (known) read.version = version;
      read.listener = reader.listener();
      RangeRead* const one[] = {&read};
      reader.done_ = 0;
      ASSERT_TRUE(reader.client().start(one).ok());
      while (held < wanted) std::this_thread::sleep_for(milliseconds(1));
      reader.client().cancel(one);
      reader.client().cancel(one);
      reader.wait(1);
      EXPECT_EQ(read.status.code(), Code::kCancelled) << read.status.to_string();
      // Nothing is written any more.
      std::fill(memory.begin(), memory.end(), std::byte{0x33});
      std::this_thread::sleep_for(milliseconds(20));
      EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{0x33}), static_cast<std::ptrdiff_t>(kLong));
    }
  }
}

// Many concurrent reads share the connections: if there are as many reads as connections, none is split.
TEST_F(RemoteParts, ManyReadsAreNotSplit) {
  HttpServer server(honest_parts());
  RangeReader reader(server.url(), ServiceKind::kHttp, in_parts());
  learn(reader);
  std::vector<store::Bytes> memory(8, store::Bytes(kLong));
  std::vector<RangeRead> reads(8);
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
  for (std::size_t i = 0; i < reads.size(); ++i) EXPECT_EQ(memory[i], long_object()) << reads[i].status.to_string();
  EXPECT_EQ(server.requests().size(), 1 + reads.size());
}

// Credentials are missing when the parts are to begin: the parts wait, and continue or fail together.
TEST_F(RemoteParts, WaitForCredentials) {
  for (const bool good : {true, false}) {
    RangeReader* asks = nullptr;
    HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
      if (request.header("range") != "bytes=0-9" && first_byte(request) == "0") asks->service().ready = false;
      honest_parts().answer(wire, request);
    });
    RangeReader reader(server.url(), ServiceKind::kHttp, in_parts());
    asks = &reader;
    learn(reader);
    std::thread later([&] {
      std::this_thread::sleep_for(milliseconds(200));
      EXPECT_EQ(server.requests().size(), 2u);
      reader.service().ready = true;
      reader.client().resume(good ? Status() : Status(Code::kPermission, Layer::kStore, "nobody"));
    });
    const auto got = reader.read(0, kLong);
    later.join();
    if (good) {
      expect_right(got, 0, kLong);
    } else {
      EXPECT_EQ(got.read.status.code(), Code::kPermission);
    }
  }
}

// A server that is busy for ever: waits between attempts end when the range's time is over.
TEST_F(RemoteParts, WaitsEndWithTheTimeOfTheRange) {
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.header("range") == "bytes=0-9" || first_byte(request) == "0")
      return honest_parts().answer(wire, request);
    wire.reply("503 X", "", "");
  });
  ClientOptions options = in_parts();
  options.total_ns = 1'000'000'000;
  options.retry = {1000, 100'000'000, 400'000'000, 100'000};
  RangeReader reader(server.url(), ServiceKind::kHttp, options);
  learn(reader);
  const auto began = steady_clock::now();
  EXPECT_EQ(reader.read(0, kLong).read.status.code(), Code::kAgainExhausted);
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(6));
}

// A forked child has neither the threads nor the connections: its read fails at once, and the parent's range continues.
TEST_F(RemoteParts, AForkedChildGetsAnError) {
  std::atomic<int> held{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.header("range") != "bytes=0-9") {
      ++held;
      wire.pause(300);
    }
    honest_parts().answer(wire, request);
  });
  RangeReader reader(server.url(), ServiceKind::kHttp, in_parts());
  const std::string version = learn(reader);
  store::Bytes memory(kLong), other(kLong);
  RangeRead read, in_child;
  for (RangeRead* one : {&read, &in_child}) {
    one->key = "x";
    one->version = version;
    one->listener = reader.listener();
  }
  read.out = memory;
  in_child.out = other;
  RangeRead* const one[] = {&read};
  RangeRead* const childs[] = {&in_child};
  reader.done_ = 0;
  ASSERT_TRUE(reader.client().start(one).ok());
  while (held < 3) std::this_thread::sleep_for(milliseconds(1));
  const int status = support::in_child([&] {
    const bool told = reader.client().start(childs).code() == Code::kForked;
    reader.client().cancel(one);
    (void)reader.client().read_shape(false);
    return told ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  reader.wait(1);
  EXPECT_TRUE(read.status.ok()) << read.status.to_string();
  EXPECT_EQ(memory, long_object());
}

// Random answers of a server with two versions of an object: each range ends once, with an error or with bytes of one
// version, and nothing is written to it afterwards.
TEST_F(RemoteParts, WhateverComesIsAnErrorOrOneVersion) {
  const store::Bytes other = pattern(kLong, 12);
  const ObjectService versions[2] = {honest_parts(), ObjectService({{"x", other}})};
  const store::Bytes* const contents[2] = {&long_object(), &other};
  std::mutex mutex;
  std::mt19937_64 dice(20240607);
  const auto roll = [&](std::uint64_t sides) {
    std::lock_guard lock(mutex);
    return dice() % sides;
  };
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    const std::uint64_t what = roll(60);
    const ObjectService& version = versions[what % 10 == 9 ? 1 : 0];
    switch (what) {
      case 0:
        return wire.reply("500 X", "", "");
      case 1:
        return wire.reset();
      case 2:
        return wire.reply("503 X", "Retry-After: 0\r\n", "");
      case 3:
        return wire.reply("206 X", "ETag: \"z\"\r\nContent-Range: bytes 999983-999992/999993\r\n", "0123456789");
      case 4:  // garbage, then no more data
        wire.send("HTTP/1.1 206 X\r\nETag: " + ObjectService::etag(long_object()) + "\r\nContent-Range: " +
                  request.header("range").replace(0, 6, "bytes ") + "/1000000\r\n\r\n" + std::string(5000, '\x7e'));
        return wire.close();
      case 5:
        wire.pause(300);
        break;
      case 6:
      case 7:
        wire.pause(40);
        break;
      default:
        break;
    }
    version.answer(wire, request);
  });
  ClientOptions options = in_parts();
  options.hedge = true;
  options.total_ns = 2'000'000'000;
  RangeReader reader(server.url(), ServiceKind::kHttp, options);
  constexpr std::size_t kReads = 6;
  std::vector<store::Bytes> memory(kReads, store::Bytes(kLong));
  std::size_t good = 0, wrong = 0, cancelled = 0;
  const auto began = steady_clock::now();
  const auto enough = [&] {
    const double seconds = std::chrono::duration<double>(steady_clock::now() - began).count();
    return seconds > 60 || (seconds > 3 && good > 20 && wrong > 0 && cancelled > 0);
  };
  while (!enough()) {
    const std::string pinned = ObjectService::etag(long_object());
    std::vector<RangeRead> reads(kReads);
    std::vector<RangeRead*> pointers;
    for (std::size_t i = 0; i < kReads; ++i) {
      reads[i].key = "x";
      reads[i].offset = roll(2) == 0 ? 0 : roll(kLong);
      reads[i].out = std::span(memory[i]).first(roll(3) == 0 ? 1 + roll(5000) : 1 + roll(kLong));
      if (roll(2) == 0) reads[i].version = pinned;
      reads[i].listener = reader.listener();
      pointers.push_back(&reads[i]);
    }
    reader.done_ = 0;
    ASSERT_TRUE(reader.client().start(pointers).ok());
    if (roll(3) == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(roll(20'000)));
      reader.client().cancel(std::span(pointers).first(1 + roll(kReads)));
    }
    reader.wait(kReads);
    for (const RangeRead& read : reads) {
      if (!read.status.ok()) {
        ++(read.status.code() == Code::kCancelled ? cancelled : wrong);
        continue;
      }
      ++good;
      const bool second = read.found_version == ObjectService::etag(other);
      ASSERT_TRUE(second || read.found_version == pinned) << read.found_version;
      ASSERT_TRUE(!second || read.version.empty());
      ASSERT_EQ(read.bytes, std::min<std::uint64_t>(read.out.size(), kLong - read.offset));
      ASSERT_EQ(std::memcmp(read.out.data(), contents[second ? 1 : 0]->data() + read.offset, read.bytes), 0);
    }
    // Nothing is written any more.
    for (store::Bytes& bytes : memory) std::fill(bytes.begin(), bytes.end(), std::byte{0x33});
    std::this_thread::sleep_for(milliseconds(roll(4)));
    for (const store::Bytes& bytes : memory) {
      ASSERT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0x33}), static_cast<std::ptrdiff_t>(kLong));
    }
  }
  EXPECT_GT(good, 20u);
  EXPECT_GT(wrong, 0u);
  EXPECT_GT(cancelled, 0u);
}

}  // namespace
}  // namespace headrace::http
