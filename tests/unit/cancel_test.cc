// Property: a cancel token stops everything it was given to, at any time and for any number of users: reads of both
// grids, strings, the making of decode indexes, the loading of batches and queues of transfers end with kCancelled.
// Operations without the token are not affected.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/cancel.h>
#include <headrace/decode_index.h>
#include <headrace/file.h>
#include <headrace_bench/decode_batch.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/access.h"
#include "base/cancel_link.h"
#include "support/flat_array.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

// None of these chunks is stored. Looking for all of them takes longer than asking for cancellation; ThreadSanitizer
// makes it ten times slower.
constexpr std::uint64_t kChunks = support::kThreadSanitizer ? 60'000 : 200'000;

class CancelTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ContextOptions options;
    options.threads = 2;
    options.wave_bytes = 1 << 16;
    context_ = std::make_unique<Context>(Context::create(options).value());
    store_ = std::make_unique<Store>(Store::open(*context_, directory_.path()).value());
    device_ = std::make_unique<Device>(Device::open(GetParam()).value());
  }
  // Four elements per chunk, or one string.
  Array absent(const std::string& type, const std::string& codec, const std::string& grid, std::uint64_t elements) {
    const std::string document = R"({"zarr_format":3,"node_type":"array","shape":[)" + std::to_string(elements) +
                                 R"(],"data_type":")" + type + R"(","chunk_grid":)" + grid +
                                 R"(,"chunk_key_encoding":{"name":"default"},"fill_value":)" +
                                 (type == "string" ? R"("x")" : "7") + R"(,"codecs":[)" + codec + "]}";
    EXPECT_TRUE(testing::put_text(*Access::impl(*store_), "zarr.json", document).ok());
    return Array::open(*store_).value();
  }
  Array numbers(bool rectilinear) {
    const std::string edges = R"({"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[4,[4,)" +
                              std::to_string(kChunks - 1) + "]]]}}";
    return absent("uint32", R"({"name":"bytes","configuration":{"endian":"little"}})",
                  rectilinear ? edges : R"({"name":"regular","configuration":{"chunk_shape":[4]}})", kChunks * 4);
  }
  Buffer memory() const { return Buffer::allocate(*device_, kChunks * 16).value(); }

  support::TempDir directory_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Device> device_;
};

TEST_P(CancelTest, StopsAllReadsThatHaveIt) {
  for (const bool rectilinear : {false, true}) {
    SCOPED_TRACE(rectilinear ? "rectilinear" : "regular");
    const Array array = numbers(rectilinear);
    const Buffer buffers[3] = {memory(), memory(), memory()};
    const Cancel token;
    ReadOptions with;
    with.cancel = token;
    const auto start = [&](int i, const ReadOptions& options) {
      return array.read_async({}, {buffers[i], array.info().dtype, {kChunks * 4}}, *device_, options).value();
    };
    const Completion first = start(0, with), second = start(1, with), other = start(2, {});
    EXPECT_FALSE(token.asked());
    Cancel(token).ask();
    token.ask();  // a second call has no effect
    EXPECT_TRUE(token.asked());
    EXPECT_EQ(first.wait().code(), Code::kCancelled);
    EXPECT_EQ(second.wait().code(), Code::kCancelled);
    EXPECT_LT(first.stats().missing_chunks, kChunks);
    EXPECT_TRUE(other.wait().ok());
    // Operations that get the token from here on do not start.
    EXPECT_EQ(array.read({}, {buffers[0], array.info().dtype, {kChunks * 4}}, *device_, with).code(), Code::kCancelled);
  }
}

TEST_P(CancelTest, FromTheProgressFunction) {
  const Array array = numbers(false);
  const Buffer buffer = memory();
  ReadOptions options;
  options.cancel.emplace();
  options.progress = [token = *options.cancel](std::uint64_t, std::uint64_t) { token.ask(); };
  EXPECT_EQ(array.read({}, {buffer, array.info().dtype, {kChunks * 4}}, *device_, options).code(), Code::kCancelled);
}

TEST_P(CancelTest, ReadsEndWhileItIsAsked) {
  const Array array = numbers(false);
  const Selection few = parse_selection("0:64").value();
  const Buffer buffer = memory();
  for (int i = 0; i < (support::kThreadSanitizer ? 100 : 300); ++i) {
    ReadOptions options;
    options.cancel.emplace();
    std::thread asking([token = *options.cancel] { token.ask(); });
    const Status status = array.read(few, {buffer, array.info().dtype, {64}}, *device_, options);
    EXPECT_TRUE(status.ok() || status.code() == Code::kCancelled) << status.to_string();
    asking.join();
  }
}

TEST_P(CancelTest, OutlivesReadsAndIsOutlivedByThem) {
  const Array array = numbers(false);
  const Buffer buffer = memory();
  const TensorView tensor(buffer, array.info().dtype, {64});
  const Selection few = parse_selection("0:64").value();
  auto token = std::make_unique<Cancel>();
  ReadOptions options;
  options.cancel = *token;
  EXPECT_TRUE(array.read(few, tensor, *device_, options).ok());
  const Completion reading = array.read_async(few, tensor, *device_, options).value();
  options.cancel.reset();
  token.reset();
  EXPECT_TRUE(reading.wait().ok());
}

TEST_P(CancelTest, StopsStrings) {
  if (std::string_view(GetParam()) != "host") return;  // strings are read to the host only
  const Array array =
      absent("string", R"({"name":"vlen-utf8"})", R"({"name":"regular","configuration":{"chunk_shape":[1]}})", kChunks);
  VariableReadOptions options;
  options.cancel.emplace();
  options.progress = [token = *options.cancel](std::uint64_t, std::uint64_t) { token.ask(); };
  EXPECT_EQ(array.read_variable({}, options).status().code(), Code::kCancelled);
  EXPECT_EQ(array.read_variable({}, options).status().code(), Code::kCancelled);
  EXPECT_TRUE(array.read_variable(parse_selection("3:5").value()).ok());
}

TEST_P(CancelTest, StopsDecodeIndexCreation) {
  const testing::FlatArray stored{
      .layout = testing::Layout::kZstd, .chunks = 24, .chunk_elements = 17'000, .shard_chunks = 8};
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*store_), "", stored).ok());
  const Array array = Array::open(*store_).value();
  const std::string where = directory_.path() + "/indices";
  DecodeIndexOptions options;
  options.cancel.emplace();
  options.cancel->ask();
  EXPECT_EQ(build_decode_index(array, where, options).status().code(), Code::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(where));
  ASSERT_TRUE(build_decode_index(array, where).ok());
  EXPECT_EQ(check_decode_index(array, where, options).status().code(), Code::kCancelled);
}

TEST_P(CancelTest, StopsBatchLoading) {
  const testing::FlatArray stored{.layout = testing::Layout::kZstd, .chunks = 24, .chunk_elements = 17'000};
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*store_), "", stored).ok());
  const Array array = Array::open(*store_).value();
  const Cancel token;
  EXPECT_TRUE(DecodeBatch::load(array, {}, *device_, token).ok());
  token.ask();
  EXPECT_EQ(DecodeBatch::load(array, {}, *device_, token).status().code(), Code::kCancelled);
}

// Every completion of a queue with the token must be taken; a request that had ended keeps its result.
TEST_P(CancelTest, StopsQueuesOfTransfers) {
  constexpr std::size_t kFileBytes = std::size_t{32} << 20, kPiece = 512, kRequests = kFileBytes / kPiece;
  const std::string path = directory_ / "data";
  const std::vector<std::byte> content(kFileBytes, std::byte{7});
  ASSERT_TRUE(support::write_file(path, content));
  const File file = File::open(path, {true}).value();
  const Buffer target = Buffer::allocate(*device_, kFileBytes).value();
  for (const bool write : {false, true}) {
    SCOPED_TRACE(write ? "write" : "read");
    FileQueueOptions options;
    options.cancel.emplace();
    FileQueue queue = FileQueue::create(*context_, *device_, options).value();
    FileQueue other = FileQueue::create(*context_, *device_).value();
    const auto add = [&](FileQueue& to, std::uint64_t tag) {
      const std::size_t at = tag * kPiece % kFileBytes;
      const FileRange range{at, target.data() + at, kPiece};
      return write ? to.write(file, {&range, 1}, tag) : to.read(file, {&range, 1}, tag);
    };
    for (std::uint64_t tag = 0; tag < kRequests; ++tag) ASSERT_TRUE(add(queue, tag).ok());
    std::atomic<bool> first{false};
    std::thread asks([&] {
      while (!first) std::this_thread::yield();
      options.cancel->ask();
    });
    std::vector<bool> seen(kRequests);
    std::size_t good = 0, cancelled = 0;
    while (queue.pending() > 0) {
      FileCompletion done[16];
      const std::size_t count = queue.wait(done);
      first = true;
      for (const FileCompletion& one : std::span(done).first(count)) {
        ASSERT_FALSE(seen[one.tag]);
        seen[one.tag] = true;
        (one.status.ok() ? good : cancelled) += 1;
        EXPECT_EQ(one.bytes, one.status.ok() ? kPiece : 0);
        if (!one.status.ok()) {
          ASSERT_EQ(one.status.code(), Code::kCancelled) << one.status.to_string();
        }
      }
    }
    asks.join();
    EXPECT_EQ(good + cancelled, kRequests);
    EXPECT_GT(good, 0u);
    EXPECT_GT(cancelled, 0u);
    EXPECT_EQ(add(queue, 0).code(), Code::kCancelled);
    EXPECT_EQ(queue.pending(), 0u);
    const PathRange by_path{path.c_str(), target.data(), kPiece};
    EXPECT_EQ(queue.read_paths({&by_path, 1}, 0).code(), Code::kCancelled);
    ASSERT_TRUE(add(other, 1).ok());
    FileCompletion done;
    ASSERT_EQ(other.wait({&done, 1}), 1u);
    EXPECT_TRUE(done.status.ok()) << done.status.to_string();
    const FileRange whole{0, target.data(), kFileBytes};
    EXPECT_EQ((write ? write_file : read_file)(*context_, *device_, file, {&whole, 1}, nullptr, options.cancel).code(),
              Code::kCancelled);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CancelTest, ::testing::Values("host", "host-staged"),
                         [](const auto& about) { return std::string(about.param) == "host" ? "host" : "staged"; });

TEST(CancelLink, IsCalledOnceAndNotAfterItsEnd) {
  const Cancel token;
  std::atomic<int> calls[4] = {};
  const auto count = [](void* counter) noexcept { ++*static_cast<std::atomic<int>*>(counter); };
  {
    const base::CancelLink first(token, count, &calls[0]);
    auto middle = std::make_unique<base::CancelLink>(token, count, &calls[1]);
    const base::CancelLink last(token, count, &calls[2]);
    middle.reset();
    token.ask();
    token.ask();
  }
  const base::CancelLink late(token, count, &calls[3]);
  EXPECT_EQ(calls[0], 1);
  EXPECT_EQ(calls[1], 0);
  EXPECT_EQ(calls[2], 1);
  EXPECT_EQ(calls[3], 1);
}

}  // namespace
}  // namespace headrace
