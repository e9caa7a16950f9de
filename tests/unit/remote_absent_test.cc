// Objects that a server does not have are not requested again for a while.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/byte_store_testing.h"
#include "support/http_server.h"
#include "support/range_reader.h"

namespace headrace::http {
namespace {

using testing::HttpRequest;
using testing::HttpServer;
using testing::HttpWire;
using testing::ObjectService;
using testing::patient;
using testing::RangeReader;

// Counts the requests for each object.
class CountingServer {
 public:
  explicit CountingServer(testing::Objects objects)
      : service_(std::move(objects)), server_([this](HttpWire& wire, const HttpRequest& request) {
          {
            std::lock_guard lock(mutex_);
            ++asked_[request.path.substr(1)];
          }
          service_.answer(wire, request);
        }) {}
  std::string url() const { return server_.url(); }
  // Requests since the last call.
  std::map<std::string, int> asked() {
    std::lock_guard lock(mutex_);
    return std::exchange(asked_, {});
  }

 private:
  const ObjectService service_;
  std::mutex mutex_;
  std::map<std::string, int> asked_;  // guarded by mutex_
  HttpServer server_;                 // last member: its threads end first
};

using Counts = std::map<std::string, int>;

TEST(RemoteAbsence, IsRememberedForAWhile) {
  const store::Bytes object(1000, std::byte{7});
  CountingServer server({{"x", object}});
  ClientOptions options = patient();
  options.absent_ns = 400'000'000;
  RangeReader reader(server.url(), ServiceKind::kHttp, options);
  const auto began = std::chrono::steady_clock::now();
  for (int time = 0; time < 3; ++time) {
    EXPECT_EQ(reader.read(5, 10, false, "", "gone").read.status.code(), Code::kNotFound);
    EXPECT_EQ(reader.read(5, 10, true, "", "gone").read.status.code(), Code::kNotFound);
    EXPECT_TRUE(reader.read(5, 10).read.status.ok());
  }
  const Counts asked = server.asked();
  EXPECT_EQ(asked.at("x"), 3);
  const bool in_time = std::chrono::steady_clock::now() - began < std::chrono::milliseconds(400);
  EXPECT_LE(asked.at("gone"), in_time ? 1 : 6);
  std::this_thread::sleep_for(std::chrono::milliseconds(450));
  EXPECT_EQ(reader.read(5, 10, false, "", "gone").read.status.code(), Code::kNotFound);
  EXPECT_EQ(server.asked(), (Counts{{"gone", 1}}));
}

// Documents are always requested again, so a new array is found at once. So are objects whose version is known, so that
// their removal is noticed.
TEST(RemoteAbsence, IsNotThatOfDocumentsAndVersions) {
  CountingServer server({});
  ClientOptions options = patient();
  options.absent_ns = 60'000'000'000;
  RangeReader reader(server.url(), ServiceKind::kHttp, options);
  for (const char* key : {"a/zarr.json", ".zarray", "b/.zgroup", ".zattrs", ".zmetadata"}) {
    for (int time = 0; time < 2; ++time)
      EXPECT_EQ(reader.read(0, 10, false, "", key).read.status.code(), Code::kNotFound);
    EXPECT_EQ(server.asked().at(key), 2) << key;
  }
  for (int time = 0; time < 2; ++time) (void)reader.read(0, 10, false, "\"v\"", "gone");
  EXPECT_EQ(server.asked(), (Counts{{"gone", 2}}));
  for (int time = 0; time < 2; ++time) (void)reader.read(0, 10, false, "", "gone");
  EXPECT_EQ(server.asked(), (Counts{{"gone", 1}}));
  (void)reader.read(0, 10, false, "\"v\"", "gone");
  EXPECT_EQ(server.asked(), (Counts{{"gone", 1}})) << "of a version, whatever is remembered";
}

// An error does not mean that an object is absent.
TEST(RemoteAbsence, ComesOnlyFromTheServer) {
  std::atomic<int> asked{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest&) {
    ++asked;
    wire.reply("403 Forbidden", "", "");
  });
  RangeReader reader(server.url());
  for (int time = 0; time < 2; ++time) EXPECT_FALSE(reader.read(0, 10).read.status.ok());
  EXPECT_EQ(asked, 2);
}

// Many threads, with present and absent objects in one call: each read ends once, with the right result.
TEST(RemoteAbsence, ManyAtATime) {
  testing::Objects objects;
  for (int i = 0; i < 40; i += 2) objects["c" + std::to_string(i)] = store::Bytes(100, std::byte(i));
  CountingServer server(objects);
  RangeReader reader(server.url());
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) keys.push_back("c" + std::to_string(i));
  for (int round = 0; round < 20; ++round) {
    store::Bytes memory(keys.size() * 100);
    std::vector<RangeRead> reads(keys.size());
    std::vector<RangeRead*> pointers;
    for (std::size_t i = 0; i < reads.size(); ++i) {
      reads[i].key = keys[i];
      reads[i].out = std::span(memory).subspan(i * 100, 100);
      reads[i].listener = reader.listener();
      pointers.push_back(&reads[i]);
    }
    reader.done_ = 0;
    ASSERT_TRUE(reader.client().start(pointers).ok());
    if (round % 3 == 2) reader.client().cancel(pointers);
    reader.wait(reads.size());
    for (std::size_t i = 0; i < reads.size(); ++i) {
      const Code code = reads[i].status.code();
      if (code == Code::kCancelled) continue;
      EXPECT_EQ(code, i % 2 == 0 ? Code::kOk : Code::kNotFound) << reads[i].status.to_string();
      EXPECT_TRUE(code != Code::kOk || reads[i].out.front() == std::byte(i));
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// An array of which half is absent: the second read requests only the other half, or everything with
// `missing_max_age=0`.
TEST(RemoteAbsence, OfChunksAndShards) {
  using testing::Layout;
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    const testing::FlatArray content{.layout = layout, .chunks = 40, .chunk_elements = 50, .shard_chunks = 2};
    testing::Objects objects = testing::objects_of(content);
    const std::uint64_t step = content.sharded() ? 4 : 2;
    std::vector<std::uint32_t> expected = content.expected();
    for (std::uint64_t chunk = 0; chunk < content.chunks; chunk += step) {
      objects.erase(content.key(chunk));
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(chunk * 50), 25 * step, testing::kFillValue);
    }
    CountingServer server(objects);
    const Context context = Context::create({.threads = 2}).value();
    for (const char* age : {"", "0"}) {
      SCOPED_TRACE(std::string(testing::layout_name(layout)) + age);
      const StorageOption how[] = {{"missing_max_age", age}};
      const Store store = Store::open(context, server.url(), how).value();
      const Array array = Array::open(store).value();
      for (int time = 0; time < 2; ++time) {
        std::vector<std::uint32_t> got(content.elements());
        (void)server.asked();
        ASSERT_TRUE(array.read({}, {got, {got.size()}}, Device::open("host").value()).ok());
        EXPECT_EQ(got, expected);
        const Counts asked = server.asked();
        std::size_t gone = 0;
        for (const auto& [key, count] : asked) gone += objects.contains(key) ? 0 : 1;
        EXPECT_EQ(gone, time == 0 || *age == '0' ? content.chunks / step : 0);
      }
    }
  }
}

}  // namespace
}  // namespace headrace::http
