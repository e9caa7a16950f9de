// A user-supplied store returns what was put into it or an error, whenever and however it answers. Each of its reads
// ends once, hundreds are in flight at a time, and its answers are not trusted.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/byte_store.h>
#include <headrace/decode_index.h>
#include <headrace/group.h>
#include <headrace_bench/decode_batch.h>

#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <stdexcept>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "store/range_read.h"
#include "store/range_store.h"
#include "support/byte_store_testing.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"
#include "support/variable_model.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using testing::ByteStoreTest;
using testing::FlatArray;
using testing::Layout;
using testing::Objects;
using testing::objects_of;
using testing::RangeHabits;
using testing::RangeStoreInMemory;
using Answers = RangeHabits::Answers;
using Outcome = testing::ReadOutcome;

struct Way {
  Answers answers;
  bool tells_size, tells_version;
  const char* device;
  bool device_decodes = false;
};

class ReadsByRanges : public ByteStoreTest, public ::testing::WithParamInterface<Way> {
  void SetUp() override { device::staged_decode_model().any_codec = GetParam().device_decodes; }
  void TearDown() override { device::staged_decode_model().any_codec = false; }
};

TEST_P(ReadsByRanges, EveryLayoutIsRight) {
  const Way& way = GetParam();
  for (const Layout layout :
       {Layout::kRaw, Layout::kZstd, Layout::kBlosc, Layout::kShardedRaw, Layout::kShardedZstd, Layout::kBz2}) {
    SCOPED_TRACE(testing::layout_name(layout));
    const FlatArray content{.layout = layout, .chunks = 83, .chunk_elements = 200, .shard_chunks = 9};
    RangeHabits habits{.answers = way.answers, .tells_size = way.tells_size, .tells_version = way.tells_version};
    auto store = std::make_shared<RangeStoreInMemory>(objects_of(content), habits);
    ReadOptions options;
    options.placement = way.device_decodes ? Placement::kGpu : Placement::kAuto;
    const Outcome all = read(context_, store, content, way.device, "", options);
    ASSERT_TRUE(all.status.ok()) << all.status.to_string();
    EXPECT_TRUE(all.elements == content.expected());
    EXPECT_EQ(all.stats.store_bytes, all.stats.read_bytes);
    EXPECT_GT(all.stats.store_bytes, 0u);
    EXPECT_EQ(all.stats.path.substr(0, 5), "store");
    EXPECT_EQ(all.stats.engine, "none");
    const Outcome part = read(context_, store, content, way.device, "777:9999:7", options);
    ASSERT_TRUE(part.status.ok()) << part.status.to_string();
    const auto expected = content.expected();
    for (std::size_t i = 0; i < part.elements.size(); ++i) ASSERT_EQ(part.elements[i], expected[777 + 7 * i]);
    EXPECT_EQ(store->in_flight, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReadsByRanges,
                         ::testing::Values(Way{Answers::kOnThread, true, true, "host"},
                                           Way{Answers::kOnThread, false, false, "host"},
                                           Way{Answers::kInStart, true, false, "host"},
                                           Way{Answers::kReversed, false, true, "host"},
                                           Way{Answers::kInOneBatch, true, true, "host"},
                                           Way{Answers::kOnThread, false, false, "host-staged"},
                                           Way{Answers::kInStart, false, true, "host-staged"},
                                           Way{Answers::kInOneBatch, true, true, "host-staged", true},
                                           Way{Answers::kReversed, false, false, "host-staged", true}),
                         [](const auto& about) { return "way" + std::to_string(about.index); });

// Requests are as byte_store.h specifies.
TEST_F(ByteStoreTest, RequestsMatchTheHeadersDescription) {
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    const FlatArray content{.layout = layout, .chunks = 50, .shard_chunks = 5};
    std::atomic<int> wrong{0}, reads{0};
    RangeHabits habits;
    habits.change = [&](RangeRead& read) {
      ++reads;
      const bool fine = store::valid_key(read.key) && read.key.data()[read.key.size()] == '\0' && !read.out.empty() &&
                        read.listener != nullptr;
      wrong += fine ? 0 : 1;
    };
    const Outcome out = read_changed(content, habits);
    EXPECT_TRUE(out.status.ok() && out.elements == content.expected()) << out.status.to_string();
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(reads, 10);
  }
}

TEST_F(ByteStoreTest, MissingObjectsAreTheFillValue) {
  for (const Layout layout : {Layout::kRaw, Layout::kZstd, Layout::kShardedZstd}) {
    const FlatArray content{.layout = layout, .chunks = 20, .shard_chunks = 5};
    Objects objects = objects_of(content);
    ASSERT_EQ(objects.erase(content.key(5)), 1u);
    const Outcome out = read(context_, std::make_shared<RangeStoreInMemory>(objects), content);
    ASSERT_TRUE(out.status.ok()) << out.status.to_string();
    EXPECT_EQ(out.stats.missing_chunks, 1u) << "a shard that is not there is one task";
    auto expected = content.expected();
    const auto missing = expected.begin() + 320, end = missing + (content.sharded() ? 320 : 64);
    std::fill(missing, end, out.elements[320]);
    EXPECT_TRUE(out.elements == expected);
  }
}

// 64 chunks that take 100 ms each: sequentially 6.4 seconds, with three threads 2.1.
TEST_F(ByteStoreTest, RangesAreInFlightTogether) {
  for (const Layout layout : {Layout::kZstd, Layout::kShardedRaw}) {
    SCOPED_TRACE(testing::layout_name(layout));
    // In a shard the chunks are far apart, so that they are requested one by one.
    const bool sharded = layout == Layout::kShardedRaw;
    const FlatArray content{
        .layout = layout, .chunks = sharded ? 32u : 64u, .chunk_elements = sharded ? 300'000u : 1000u};
    RangeHabits habits;
    habits.delay = milliseconds(100);
    auto store = std::make_shared<RangeStoreInMemory>(objects_of(content), habits);
    ContextOptions options;
    options.threads = 3;
    const Context context = Context::create(options).value();
    const Array array = Array::open(Store::open(context, store).value()).value();
    std::vector<std::uint32_t> elements(content.elements());
    const auto begin = std::chrono::steady_clock::now();
    const Status status = array.read({}, {elements, {content.elements()}}, Device::open("host").value());
    const auto took = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(elements == content.expected());
    EXPECT_GE(store->max_in_flight, sharded ? 24u : 48u);
    if (!sharded) {
      EXPECT_LT(took, milliseconds(1500));
    }
  }
}

// Reads from a user-supplied store open no file: hundreds of them need no descriptor.
TEST_F(ByteStoreTest, NeedsNoDescriptors) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 200};
  std::size_t most = 0;  // only one thread answers
  RangeHabits habits;
  habits.delay = milliseconds(2);
  habits.change = [&](RangeRead&) { most = std::max(most, support::open_descriptors()); };
  (void)read_changed(content, habits);  // starts the threads that a Context starts once
  const std::size_t before = support::open_descriptors();
  most = 0;
  ASSERT_TRUE(read_changed(content, habits).status.ok());
  EXPECT_LE(most, before);
}

std::string base64(std::span<const std::uint32_t> elements) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto bytes = std::as_bytes(elements);
  std::string out;
  for (std::size_t i = 0; i + 2 < bytes.size(); i += 3) {
    const unsigned three = std::to_integer<unsigned>(bytes[i]) << 16 | std::to_integer<unsigned>(bytes[i + 1]) << 8 |
                           std::to_integer<unsigned>(bytes[i + 2]);
    for (int shift = 18; shift >= 0; shift -= 6) out += kDigits[three >> shift & 63];
  }
  return out;
}

// The stored chunk is a third longer than the decoded one: the usual buffer is too small, and a larger one is requested
// and charged to the budget.
TEST_F(ByteStoreTest, LongChunksAreRequestedAgain) {
  constexpr std::uint64_t kElements = 999'999;
  std::vector<std::uint32_t> expected(2 * kElements);
  for (std::uint64_t i = 0; i < expected.size(); ++i) expected[i] = testing::element_value(i, 3);
  const std::string count = std::to_string(kElements), all = std::to_string(expected.size());
  const Objects objects = {
      {".zarray", testing::to_bytes("{\"zarr_format\": 2, \"shape\": [" + all + "], \"chunks\": [" + count +
                                    "], \"dtype\": \"<u4\", \"compressor\": null, \"fill_value\": 0, " +
                                    "\"filters\": [{\"id\": \"base64\"}], \"order\": \"C\"}")},
      {"0", testing::to_bytes(base64(std::span(expected).first(kElements)))},
      {"1", testing::to_bytes(base64(std::span(expected).last(kElements)))}};
  for (const bool tells_size : {true, false}) {
    for (const bool enough : {true, false}) {
      ContextOptions options;
      options.threads = 2;
      options.stored_budget_bytes = enough ? 16 << 20 : 1 << 20;
      const Context context = Context::create(options).value();
      RangeHabits habits;
      habits.tells_size = tells_size;
      auto store = std::make_shared<RangeStoreInMemory>(objects, habits);
      const Array array = Array::open(Store::open(context, store).value()).value();
      const std::size_t before = store->started;
      std::vector<std::uint32_t> elements(expected.size());
      const Status status = array.read({}, {elements, {expected.size()}}, Device::open("host").value());
      if (enough) {
        ASSERT_TRUE(status.ok()) << status.to_string();
        EXPECT_TRUE(elements == expected);
        EXPECT_EQ(store->started - before, 4u);
      } else {
        EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
        EXPECT_LE(store->started - before, 2u);
      }
    }
  }
}

TEST_F(ByteStoreTest, ChunksOfTheWrongSizeFail) {
  for (const Layout layout : {Layout::kRaw, Layout::kZstd, Layout::kBlosc}) {
    for (const bool tells_size : {true, false}) {
      for (const bool longer : {true, false}) {
        SCOPED_TRACE(std::string(testing::layout_name(layout)) + (tells_size ? " told" : "") +
                     (longer ? " longer" : ""));
        const FlatArray content{.layout = layout, .chunks = 3};
        Objects objects = objects_of(content);
        store::Bytes& bytes = objects[content.key(1)];
        bytes.resize(longer ? 20'000'000 : bytes.size() - 1);
        RangeHabits habits;
        habits.tells_size = tells_size;
        const Outcome out = read(context_, std::make_shared<RangeStoreInMemory>(objects, habits), content);
        EXPECT_TRUE(out.status.code() == Code::kCorrupt || out.status.code() == Code::kShort) << out.status.to_string();
        EXPECT_EQ(out.status.key(), content.key(1));
      }
    }
  }
}

TEST_F(ByteStoreTest, WrongAnswersAreErrors) {
  struct Lie {
    const char* name;
    std::function<void(RangeRead&)> tell;
    Code code;
    const char* text;
  };
  const std::vector<Lie> lies = {
      {"more than was asked for", [](RangeRead& read) { read.bytes = read.out.size() + 1; }, Code::kIo, "more bytes"},
      {"a wild count", [](RangeRead& read) { read.bytes = ~std::uint64_t{0}; }, Code::kIo, "more bytes"},
      {"too short", [](RangeRead& read) { read.bytes /= 2; }, Code::kShort, "the store returned"},
      {"nothing", [](RangeRead& read) { read.bytes = 0; }, Code::kShort, "the store returned"},
      {"an object that is larger", [](RangeRead& read) { read.object_bytes = ~std::uint64_t{0} - 1; }, Code::kOk, ""},
      {"an object that is smaller", [](RangeRead& read) { read.object_bytes = 1; }, Code::kShort, "the store returned"},
      {"an error", [](RangeRead& read) { read.status = Status(Code::kPermission, Layer::kStore, "planted"); },
       Code::kPermission, "planted"},
      {"another version",
       [](RangeRead& read) {
         if (!read.version.empty()) read.found_version = "new";
       },
       Code::kOk, ""},
  };
  for (const Layout layout : {Layout::kRaw, Layout::kZstd, Layout::kShardedRaw, Layout::kShardedZstd}) {
    const FlatArray content{.layout = layout, .chunks = 12, .shard_chunks = 4};
    for (const Lie& lie : lies) {
      SCOPED_TRACE(std::string(testing::layout_name(layout)) + ": " + lie.name);
      RangeHabits habits;
      habits.tells_version = true;
      std::atomic<int> told{0};
      habits.change = [&](RangeRead& read) {
        if (is_metadata(read) || read.from_end) return;
        ++told;
        lie.tell(read);
      };
      const Outcome out = read_changed(content, habits);
      EXPECT_GT(told, 0);
      if (lie.code != Code::kOk) {
        EXPECT_EQ(out.status.code(), lie.code) << out.status.to_string();
        EXPECT_NE(out.status.to_string().find(lie.text), std::string::npos) << out.status.to_string();
        EXPECT_FALSE(out.status.key().empty());
      } else if (std::string_view(lie.name) == "another version") {
        EXPECT_EQ(out.status.code(), content.sharded() ? Code::kAgainExhausted : Code::kOk) << out.status.to_string();
      } else {
        EXPECT_FALSE(out.status.ok());
      }
    }
  }
}

TEST_F(ByteStoreTest, AFailedStartAcceptsNoRanges) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 40};
  for (const bool throws : {true, false}) {
    std::atomic<int> calls{0};
    RangeHabits habits;
    habits.refuse = [&](std::span<RangeRead* const> reads) -> Status {
      if (is_metadata(*reads.front()) || calls++ != 0) return {};
      if (throws) throw std::runtime_error("planted");
      return Status(Code::kPermission, Layer::kStore, "planted");
    };
    auto store = std::make_shared<RangeStoreInMemory>(objects_of(content), habits);
    const Outcome out = read(make_context(1), store, content);
    EXPECT_GT(calls, 0);
    EXPECT_EQ(out.status.code(), throws ? Code::kIo : Code::kPermission) << out.status.to_string();
    EXPECT_NE(out.status.to_string().find("planted"), std::string::npos) << out.status.to_string();
    EXPECT_EQ(store->in_flight, 0u);
  }
}

TEST_F(ByteStoreTest, CancellingIsPassedOn) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 40};
  expect_cancelling_is_passed_on(content, 40);
}

// Reads that start() has taken may end before it returns; the store must not be destroyed before.
TEST_F(ByteStoreTest, IsNotDestroyedWhileItIsCalled) {
  struct Slow final : ByteStore {
    Slow(Objects objects, std::atomic<int>& to_count) : behind(std::move(objects)), destroyed_inside(to_count) {}
    ~Slow() override { destroyed_inside += inside; }
    std::string url() const override { return behind.url(); }
    Status start(std::span<RangeRead* const> reads) override {
      ++inside;
      Status status = behind.start(reads);
      std::this_thread::sleep_for(milliseconds(5));
      --inside;
      return status;
    }
    RangeStoreInMemory behind;
    std::atomic<int> inside{0};
    std::atomic<int>& destroyed_inside;
  };
  const FlatArray content{.layout = Layout::kZstd, .chunks = 2};
  std::atomic<int> destroyed_inside{0};
  for (int i = 0; i < 10; ++i) {
    const Outcome out = read(context_, std::make_shared<Slow>(objects_of(content), destroyed_inside), content);
    ASSERT_TRUE(out.status.ok()) << out.status.to_string();
  }
  EXPECT_EQ(destroyed_inside, 0);
}

TEST_F(ByteStoreTest, ListsPutsAndWalks) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 4};
  Objects objects = objects_of(content, "group/array");
  objects[".zgroup"] = objects["group/.zgroup"] = testing::to_bytes("{\"zarr_format\": 2}");
  auto behind = std::make_shared<RangeStoreInMemory>(objects);
  const Store store = Store::open(context_, behind).value();
  EXPECT_EQ(store.url(), "toy://objects");
  const auto nodes = list_nodes(store);
  ASSERT_TRUE(nodes.ok()) << nodes.status().to_string();
  EXPECT_TRUE(std::any_of(nodes->begin(), nodes->end(), [](const Node& node) { return node.path == "group/array"; }));
  EXPECT_EQ(Array::open(store, "group/array")->stored_chunks()->count, 4u);
  ASSERT_TRUE(store.put("x", testing::to_bytes("twelve bytes")).ok());
  EXPECT_EQ(store.get("x")->size(), 12u);
  EXPECT_EQ(store.get("x", 11).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(store.get("y").status().code(), Code::kNotFound);
  EXPECT_FALSE(store.at_hand("x", 100));

  const Store closed = Store::open(context_, std::make_shared<RangeStoreInMemory>(
                                                 Objects(), RangeHabits{.lists = false, .writes = false}))
                           .value();
  EXPECT_EQ(closed.put("x", {}).code(), Code::kUnsupported);
  EXPECT_EQ(Access::impl(closed)->list("").status().code(), Code::kUnsupported);
  EXPECT_EQ(Store::open(context_, std::shared_ptr<ByteStore>()).status().code(), Code::kInvalidArgument);
}

// Lists names that no object can have, throws, or lists a name twice.
TEST_F(ByteStoreTest, ListedKeysAreChecked) {
  struct Odd final : ByteStore {
    std::string url() const override { throw std::runtime_error("no name"); }
    Status start(std::span<RangeRead* const>) override { return Status(Code::kIo, Layer::kStore, "no reads"); }
    Result<std::vector<ListedName>> list(std::string_view prefix) override {
      if (prefix == "throws") throw std::runtime_error("planted");
      return std::vector<ListedName>{{"b", false},
                                     {"..", true},
                                     {"a/b", false},
                                     {"", false},
                                     {"a", false},
                                     {"b", true},
                                     {std::string("n\0l", 3), false},
                                     {std::string(256, 'x'), false}};
    }
    Status put(std::string_view, std::span<const std::byte>) override { throw 7; }
  };
  store::RangeStore store(std::make_shared<Odd>());
  const auto entries = store.list("", nullptr);
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_EQ((*entries)[1].name, "b");
  EXPECT_TRUE((*entries)[1].is_directory);
  EXPECT_EQ(store.list("throws", nullptr).status().code(), Code::kIo);
  EXPECT_EQ(store.list("throws", nullptr).status().cause(), "planted");
  EXPECT_EQ(store.list("../x", nullptr).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(store.put("x", {}).code(), Code::kIo);
  EXPECT_FALSE(store.url().empty());
  EXPECT_EQ(store.get("x", 100, nullptr).status().message(), "no reads");
}

// An object's size is determined where it is needed first, even if nothing reports it.
TEST_F(ByteStoreTest, SizesAreMeasured) {
  for (const std::size_t size : {0u, 1u, 1023u, 1024u, 1025u, 65'535u, 65'536u, 100'000u, 3'000'001u}) {
    for (const bool tells_size : {true, false}) {
      RangeHabits habits;
      habits.tells_size = tells_size;
      RangeStoreInMemory store({{"x", store::Bytes(size)}}, habits);
      const auto found = store::measure(store, "x");
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      EXPECT_EQ(*found, size);
      EXPECT_LT(store.started, tells_size ? 2u : 50u);
      EXPECT_EQ(store::measure(store, "y").status().code(), Code::kNotFound);
    }
  }
  RangeHabits endless;
  endless.tells_size = false;
  endless.change = [](RangeRead& read) { read.bytes = read.out.size(); };
  RangeStoreInMemory store({{"x", store::Bytes(10)}}, endless);
  EXPECT_EQ(store::measure(store, "x").status().code(), Code::kIo);
}

// Every other chunk of a shard: one read per chunk, or a single one if a request costs more than a chunk.
TEST_F(ByteStoreTest, AdviceIsFollowed) {
  constexpr std::uint64_t kElements = 8192, kChunk = kElements * 4, kParts = 16;
  const FlatArray content{
      .layout = Layout::kShardedRaw, .chunks = 2 * kParts, .chunk_elements = kElements, .shard_chunks = 2 * kParts};
  const auto requests_with = [&](const RangeAdvice& advice) -> std::uint64_t {
    struct Advised final : ByteStore {
      RangeStoreInMemory behind;
      const RangeAdvice given;
      std::atomic<std::uint64_t> asked{0};
      Advised(Objects objects, const RangeAdvice& advice)
          : behind(std::move(objects), {.tells_version = true}), given(advice) {}
      std::string url() const override { return behind.url(); }
      Status start(std::span<RangeRead* const> reads) override {
        for (const RangeRead* read : reads) asked += read->key.starts_with("c/") && !read->from_end ? 1 : 0;
        return behind.start(reads);
      }
      RangeAdvice advice() const noexcept override { return given; }
    };
    const auto store = std::make_shared<Advised>(objects_of(content), advice);
    ContextOptions options;
    options.threads = 2;
    const Context context = Context::create(options).value();
    const Array array = Array::open(Store::open(context, store).value()).value();
    std::vector<std::uint32_t> memory(kParts * kElements);
    std::vector<ReadPart> parts;
    for (std::uint64_t i = 0; i < kParts; ++i) {
      const std::string part = std::to_string(2 * i * kElements) + ":" + std::to_string((2 * i + 1) * kElements);
      parts.push_back(
          {parse_selection(part).value(), {std::span(memory).subspan(i * kElements, kElements), {kElements}}});
    }
    const Status status = array.read_many(parts, Device::open("host").value());
    EXPECT_TRUE(status.ok()) << status.to_string();
    for (std::uint64_t i = 0; i < kParts; ++i) {
      const auto wanted = content.values(2 * i * kElements, kElements);
      EXPECT_TRUE(
          std::equal(wanted.begin(), wanted.end(), memory.begin() + static_cast<std::ptrdiff_t>(i * kElements)));
    }
    return store->asked;
  };
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  EXPECT_EQ(requests_with({}), 16u);
  EXPECT_EQ(requests_with({.gap_bytes = kChunk - 1, .group_bytes = kMax, .window_bytes = kMax}), 16u);
  EXPECT_EQ(requests_with({.gap_bytes = kChunk}), 1u);
  EXPECT_EQ(requests_with({.gap_bytes = kMax, .group_bytes = kMax, .window_bytes = kMax}), 1u);
  EXPECT_EQ(requests_with({.gap_bytes = kMax, .group_bytes = 4 * kChunk, .window_bytes = 1}), 8u);
  EXPECT_EQ(requests_with({.gap_bytes = 0, .group_bytes = 0, .window_bytes = 0}), 16u);
}

TEST_F(ByteStoreTest, ReadsFromTheEnd) {
  store::Bytes bytes = support::pattern(1000, 3);
  RangeStoreInMemory store({{"x", bytes}});
  store::Bytes out(100);
  RangeRead read;
  read.key = "x";
  read.from_end = true;
  read.out = out;
  ASSERT_TRUE(store::read_range(store, read).ok());
  EXPECT_EQ(read.bytes, 100u);
  EXPECT_EQ(read.object_bytes, 1000u);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), bytes.end() - 100));
}

// Functions that read one chunk after the other.
TEST_F(ByteStoreTest, BatchesAndIndicesAreMade) {
  for (const bool tells_size : {true, false}) {
    RangeHabits habits;
    habits.tells_size = tells_size;
    const FlatArray content{.layout = Layout::kZstd, .chunks = 20, .chunk_elements = 20'000};
    Objects objects = objects_of(content);
    objects.erase(content.key(3));
    const Array array =
        Array::open(Store::open(context_, std::make_shared<RangeStoreInMemory>(objects, habits)).value()).value();
    DecodeBatch batch = DecodeBatch::load(array, {}, Device::open("host").value()).value();
    ASSERT_TRUE(batch.run().ok());
    std::vector<std::uint32_t> elements(content.elements()), expected = content.expected();
    ASSERT_TRUE(
        batch.result().copy_to_host(0, reinterpret_cast<std::byte*>(elements.data()), 4 * elements.size()).ok());
    EXPECT_TRUE(std::equal(elements.begin(), elements.begin() + 60'000, expected.begin()));
    EXPECT_TRUE(std::equal(elements.begin() + 80'000, elements.end(), expected.begin() + 80'000));
    support::TempDir directory;
    const auto report = build_decode_index(array, directory.path());
    EXPECT_TRUE(report.ok()) << report.status().to_string();
  }
}

// Randomly falsified answers: the right elements or an error, and nothing is written outside the buffers.
TEST_F(ByteStoreTest, RandomWrongAnswersAreErrors) {
  std::mt19937_64 dice(5);
  int failed = 0, right = 0;
  for (int round = 0; round < 120; ++round) {
    const Layout layout = testing::kLayouts[dice() % std::size(testing::kLayouts)];
    const FlatArray content{.layout = layout, .chunks = 30, .shard_chunks = 7};
    const std::uint64_t seed = dice(), every = 1 + dice() % 60;
    testing::RandomLies lies(seed, every);
    RangeHabits habits;
    habits.answers = static_cast<Answers>(dice() % 4);
    habits.tells_size = dice() % 2 == 0;
    habits.tells_version = dice() % 2 == 0;
    habits.change = [&](RangeRead& read) { lies.tell(read); };
    const Outcome out = read_changed(content, habits);
    if (out.status.ok()) {
      ASSERT_TRUE(out.elements == content.expected()) << "wrong elements without an error, round " << round;
      ++right;
    } else {
      EXPECT_FALSE(out.status.message().empty());
      ++failed;
    }
  }
  EXPECT_GT(failed, 10);
  EXPECT_GT(right, 2);
}

}  // namespace
}  // namespace headrace
