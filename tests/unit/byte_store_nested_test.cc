// Nested shards in a user-supplied store: whatever is requested ahead, and however the store answers, elements are
// right or an error names the place; each index is requested once, and all memory is released.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/byte_store.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "base/access.h"
#include "support/byte_store_testing.h"
#include "support/nested_shards.h"
#include "transfer/context/context_impl.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using testing::NestedArray;
using testing::Objects;
using testing::RangeHabits;
using testing::RangeStoreInMemory;
using testing::ReadOutcome;

// Which part a read requests. Raw chunks have other sizes than indexes.
enum class Asked : std::uint8_t { kMetadata, kOuter, kInner, kChunks };

class NestedShards : public testing::ByteStoreTest {
 protected:
  static Asked what(const RangeRead& read, const NestedArray& content) {
    if (is_metadata(read)) return Asked::kMetadata;
    if (content.index_first[0] ? read.offset == 0 && read.out.size() == 16 * content.counts[0] : read.from_end) {
      return Asked::kOuter;
    }
    for (std::size_t level = 1; level < content.counts.size(); ++level) {
      if (read.out.size() == 16 * content.counts[level]) return Asked::kInner;
    }
    return Asked::kChunks;
  }
  static Array open(const Context& context, const std::shared_ptr<ByteStore>& store) {
    return Array::open(Store::open(context, store).value()).value();
  }
  // Whether each shard is either entirely as in `before` or entirely as in `after`.
  static bool mixes_nothing(const std::vector<std::uint32_t>& elements, const NestedArray& before,
                            const NestedArray& after) {
    const std::vector<std::uint32_t> old = before.expected(), now = after.expected();
    const std::size_t step = before.shard_elements();
    for (std::size_t at = 0; at < elements.size(); at += step) {
      const auto same = [&](const std::vector<std::uint32_t>& other) {
        return std::equal(elements.begin() + static_cast<std::ptrdiff_t>(at),
                          elements.begin() + static_cast<std::ptrdiff_t>(at + step),
                          other.begin() + static_cast<std::ptrdiff_t>(at));
      };
      if (!same(old) && !same(now)) return false;
    }
    return true;
  }
};

// 200 shards of 8 shards: sequentially, their indexes would take 8 seconds. 20 shards of 8 of 8: 7 seconds. Each is
// requested once.
TEST_F(NestedShards, InnerIndexesAreRequestedTogether) {
  const NestedArray contents[] = {
      {.shards = 200},
      {.shards = 200, .index_first = {false, true}, .backwards = true},
      {.shards = 20, .counts = {8, 8, 3}, .index_first = {true, false, false}},
  };
  for (const NestedArray& content : contents) {
    for (const bool tells_version : {false, true}) {
      std::atomic<std::size_t> outer{0}, inner{0};
      RangeHabits habits;
      habits.delay = milliseconds(5);
      habits.tells_version = tells_version;
      habits.change = [&](RangeRead& read) {
        outer += what(read, content) == Asked::kOuter ? 1 : 0;
        inner += what(read, content) == Asked::kInner ? 1 : 0;
      };
      auto store = std::make_shared<RangeStoreInMemory>(content.objects(), habits);
      const Context context = make_context(2);
      const Array array = open(context, store);
      const auto start = std::chrono::steady_clock::now();
      const ReadOutcome out = read(array, content);
      const auto took = std::chrono::steady_clock::now() - start;
      ASSERT_TRUE(out.status.ok()) << out.status.to_string();
      EXPECT_TRUE(out.elements == content.expected());
      std::uint64_t all = content.shards, inside = 0;
      for (std::size_t level = 0; level + 1 < content.counts.size(); ++level) inside += all *= content.counts[level];
      EXPECT_EQ(inner, inside);
      // A store without versions whose outer index is a plain range also gets a second request for it.
      if (tells_version || !content.index_first[0]) {
        EXPECT_EQ(outer, content.shards);
      }
      EXPECT_LT(took, inside * habits.delay / 8);
      EXPECT_GE(store->max_in_flight, 64u);
      EXPECT_EQ(store->in_flight, 0u);
      RecordProperty("microseconds_" + std::to_string(inside) + (tells_version ? "_versions" : ""),
                     static_cast<int>(took / std::chrono::microseconds(1)));
    }
  }
}

TEST_F(NestedShards, AnyShapeSelectionAndStoreIsRight) {
  std::mt19937_64 dice(11);
  for (int round = 0; round < 150; ++round) {
    NestedArray content;
    content.shards = 1 + dice() % 20;
    content.counts = {1 + dice() % 9, 1 + dice() % 5};
    if (dice() % 3 == 0) content.counts.push_back(1 + dice() % 4);
    content.index_first = {dice() % 2 == 0, dice() % 2 == 0, dice() % 2 == 0};
    content.backwards = dice() % 2 == 0;
    content.missing_every = static_cast<int>(dice() % 4);
    content.chunk_elements = 1 + dice() % 7;
    RangeHabits habits;
    habits.answers = static_cast<RangeHabits::Answers>(dice() % 4);
    habits.tells_size = dice() % 2 == 0;
    habits.tells_version = dice() % 3 != 0;
    SCOPED_TRACE(round);
    auto store = std::make_shared<RangeStoreInMemory>(content.objects(), habits);
    const Context context = make_context(1 + static_cast<unsigned>(dice() % 3));
    const Array array = open(context, store);
    const std::vector<std::uint32_t> expected = content.expected();
    for (int i = 0; i < 3; ++i) {  // each read finds what earlier ones have opened
      const std::uint64_t begin = dice() % content.elements(), step = 1 + dice() % 30;
      const ReadOutcome out = read(
          array, content, dice() % 2 == 0 ? "host" : "host-staged",
          i == 2 ? "" : std::to_string(begin) + ":" + std::to_string(content.elements()) + ":" + std::to_string(step));
      ASSERT_TRUE(out.status.ok()) << out.status.to_string();
      for (std::size_t j = 0; j < out.elements.size(); ++j) {
        ASSERT_EQ(out.elements[j], expected[i == 2 ? j : begin + j * step]);
      }
    }
    EXPECT_EQ(store->in_flight, 0u);
  }
}

// Two arrays with different chunks at different offsets replace each other at any time. What is read belongs to one of
// them, shard by shard, or the read fails with the error for changed objects; soon everything is new.
TEST_F(NestedShards, ShardsThatAreReplacedAtAnyTimeAreNoticed) {
  NestedArray before{.shards = 6, .counts = {5, 3}, .missing_every = 7}, after = before;
  after.seed = 9;
  after.backwards = true;
  after.missing_every = 4;
  const Objects old = before.objects(), now = after.objects();
  int refused = 0;
  for (const bool tells_version : {true, false}) {
    for (int when = 0; when < 50; ++when) {
      SCOPED_TRACE(std::to_string(when) + (tells_version ? " with versions" : ""));
      std::shared_ptr<RangeStoreInMemory> store;
      std::atomic<int> answers{0};
      RangeHabits habits;
      habits.tells_version = tells_version;
      habits.change = [&](RangeRead& read) {
        if (is_metadata(read) || answers++ != when) return;
        for (const auto& [key, bytes] : now) EXPECT_TRUE(store->put(key, bytes).ok());
      };
      store = std::make_shared<RangeStoreInMemory>(old, habits);
      const Array array = open(context_, store);
      ReadOutcome out = read(array, before);
      if (out.status.ok()) {
        EXPECT_TRUE(mixes_nothing(out.elements, before, after));
      } else {
        ++refused;
        EXPECT_FALSE(out.status.key().empty());
        if (tells_version) {
          EXPECT_EQ(out.status.code(), Code::kAgainExhausted) << out.status.to_string();
        }
      }
      // Each read may meet what the previous one has cached of a shard.
      for (int i = 0; i < 12 && answers <= when; ++i) (void)read(array, before);
      for (int i = 0; i < 12 && !(out = read(array, before)).status.ok(); ++i) {
      }
      ASSERT_TRUE(out.status.ok()) << out.status.to_string();
      EXPECT_TRUE(out.elements == after.expected());
    }
  }
  EXPECT_GT(refused, 20);
}

// The outer shard's index is cached, that of a shard inside it is not: the error occurs once.
TEST_F(NestedShards, AnInnerIndexOfAnotherVersionIsAnErrorOnce) {
  const NestedArray before{.shards = 1};
  NestedArray after = before;
  after.seed = 5;
  after.backwards = true;
  RangeHabits habits;
  habits.tells_version = true;
  auto store = std::make_shared<RangeStoreInMemory>(before.objects(), habits);
  const Array array = open(context_, store);
  ASSERT_TRUE(read(array, before, "host", "0:4").status.ok());
  ASSERT_TRUE(store->put("c/0", after.objects()["c/0"]).ok());
  const ReadOutcome first = read(array, before, "host", "100:128");
  EXPECT_EQ(first.status.code(), Code::kAgainExhausted) << first.status.to_string();
  EXPECT_EQ(first.status.key(), "c/0");
  const ReadOutcome again = read(array, before);
  ASSERT_TRUE(again.status.ok()) << again.status.to_string();
  EXPECT_TRUE(again.elements == after.expected());
}

// An index that cannot be read is reported with its shard and offset; chunks elsewhere are read. Of several such
// indexes the first is reported.
TEST_F(NestedShards, AnIndexThatFailsNamesItsPlace) {
  const NestedArray content{.shards = 30};
  const std::uint64_t inner_bytes = 4 * 16 + 4 * 16, at = 3 * inner_bytes + 64;  // of the fourth, behind its chunks
  for (const bool collects : {false, true}) {
    std::atomic<int> planted{0};
    RangeHabits habits;
    habits.change = [&](RangeRead& read) {
      if (what(read, content) != Asked::kInner || read.offset != at) return;
      if (read.key != "c/5" && read.key != "c/9") return;
      ++planted;
      read.status = Status(Code::kPermission, Layer::kStore, "planted");
    };
    auto store = std::make_shared<RangeStoreInMemory>(content.objects(), habits);
    ReadOptions options;
    options.collect_errors = collects;
    const Context context = make_context(1);
    const Array array = open(context, store);
    ReadOutcome out;
    out.elements.resize(content.elements());
    auto reading =
        array.read_async({}, {out.elements, {content.elements()}}, Device::open("host").value(), options).value();
    out.status = reading.wait();
    const auto expect_told = [&](const Status& status, const char* key) {
      EXPECT_EQ(status.code(), Code::kPermission) << status.to_string();
      EXPECT_EQ(status.key(), key);
      EXPECT_NE(status.to_string().find(std::to_string(at)), std::string::npos) << status.to_string();
    };
    if (!collects) {
      expect_told(out.status, "c/5");
    } else {
      EXPECT_TRUE(out.status.ok());
      EXPECT_EQ(planted, 2) << "asked for once";
      ASSERT_EQ(reading.errors().size(), 2u);
      expect_told(reading.errors()[0].status, "c/5");
      expect_told(reading.errors()[1].status, "c/9");
      std::vector<std::uint32_t> expected = content.expected();
      for (const std::size_t shard : {5u, 9u}) {
        for (std::size_t i = 0; i < 16; ++i) {
          const std::size_t element = shard * content.shard_elements() + 48 + i;
          expected[element] = out.elements[element];
        }
      }
      EXPECT_TRUE(out.elements == expected);
    }
    EXPECT_EQ(store->in_flight, 0u);
  }
}

TEST_F(NestedShards, AShardDeletedBeforeItsInnerIndexIsNotTheFillValue) {
  const NestedArray content{.shards = 20};
  for (const bool short_answer : {false, true}) {
    RangeHabits habits;
    habits.tells_size = false;
    habits.change = [&](RangeRead& read) {
      if (what(read, content) != Asked::kInner || read.key != "c/3") return;
      if (short_answer) {
        read.bytes = 5;
      } else {
        read.status = Status(Code::kNotFound, Layer::kStore, "gone");
      }
    };
    const ReadOutcome out = read(context_, std::make_shared<RangeStoreInMemory>(content.objects(), habits), content);
    EXPECT_EQ(out.status.code(), short_answer ? Code::kShort : Code::kAgainExhausted) << out.status.to_string();
    EXPECT_EQ(out.status.key(), "c/3");
  }
}

// A sufficient memory limit suffices, whatever is requested ahead; all memory is released.
TEST_F(NestedShards, MemoryThatSufficesForEachAloneSuffices) {
  ContextOptions options;
  options.threads = 2;
  options.stored_budget_bytes = 1 << 20;
  std::uint64_t most = 0, fails = 0;
  for (std::uint64_t inner = 500; inner < 40'000; inner += inner / 3) {
    SCOPED_TRACE(inner);
    const NestedArray content{.shards = 6, .counts = {inner, 2}, .chunk_elements = 1};
    const std::vector<std::uint32_t> expected = content.expected();
    auto store = std::make_shared<RangeStoreInMemory>(content.objects());
    const Context context = Context::create(options).value();
    const auto& account = Access::impl(context)->resources->stored_memory();
    const std::uint64_t step = content.shard_elements() / 7;
    {
      const Array array = open(context, store);
      for (int i = 0; i < 3; ++i) {
        const ReadOutcome out = read(array, content, "host", "::" + std::to_string(step));
        if (out.status.ok()) {
          for (std::size_t j = 0; j < out.elements.size(); ++j) ASSERT_EQ(out.elements[j], expected[j * step]);
          EXPECT_TRUE(fails == 0 || fails == inner) << "less did not fit";
          most = inner;
        } else {
          EXPECT_EQ(out.status.code(), Code::kResourceExhausted) << out.status.to_string();
          fails = inner;
        }
        EXPECT_EQ(store->in_flight, 0u);
      }
    }
    EXPECT_EQ(account->used_bytes(), 0u);
  }
  EXPECT_GE(most, 2800u);
  EXPECT_NE(fails, 0u) << "the budget was never short";
}

TEST_F(NestedShards, CancelledReadsDoNotWaitForInnerIndexes) {
  const NestedArray content{.shards = 300};
  for (const auto& [ignores, threads] : {std::pair{false, 1u}, {false, 3u}, {true, 1u}, {true, 3u}}) {
    SCOPED_TRACE(threads);
    RangeHabits habits;
    habits.delay = milliseconds(ignores ? 200 : 1500);
    auto store = std::make_shared<RangeStoreInMemory>(content.objects(), habits);
    store->ignores_cancel = ignores;
    const Context context = make_context(threads);
    const Array array = Array::from_document(Store::open(context, store).value(), "", 3, content.metadata()).value();
    std::vector<std::uint32_t> elements(content.elements());
    auto completion = array.read_async({}, {elements, {content.elements()}}, Device::open("host").value()).value();
    while (store->started < 200) std::this_thread::sleep_for(milliseconds(1));  // of both levels
    const auto asked = std::chrono::steady_clock::now();
    completion.cancel();
    ASSERT_TRUE(completion.wait_for(std::chrono::seconds(20)));
    EXPECT_EQ(completion.wait().code(), Code::kCancelled);
    if (!ignores) {
      EXPECT_LT(std::chrono::steady_clock::now() - asked, milliseconds(1000));
    }
    EXPECT_GE(store->cancelled, 64u);
    EXPECT_EQ(store->in_flight, 0u);
  }
}

TEST_F(NestedShards, ReadsAreStoppedAtAnyTime) {
  const NestedArray content{.shards = 60, .counts = {6, 3, 2}, .index_first = {false, true, false}};
  std::mt19937_64 dice(3);
  for (int round = 0; round < 60; ++round) {
    RangeHabits habits;
    habits.answers = static_cast<RangeHabits::Answers>(dice() % 4);
    habits.delay = std::chrono::microseconds(habits.answers == RangeHabits::Answers::kInStart ? 0 : 200);
    auto store = std::make_shared<RangeStoreInMemory>(content.objects(), habits);
    const Context context = make_context(1 + static_cast<unsigned>(round) % 3);
    const Array array = open(context, store);
    std::vector<std::uint32_t> elements(content.elements());
    auto completion = array.read_async({}, {elements, {content.elements()}}, Device::open("host").value()).value();
    std::this_thread::sleep_for(std::chrono::microseconds(dice() % 8000));
    completion.cancel();
    ASSERT_TRUE(completion.wait_for(std::chrono::seconds(20)));
    const Status status = completion.wait();
    EXPECT_TRUE(status.ok() ? elements == content.expected() : status.code() == Code::kCancelled) << status.to_string();
    EXPECT_EQ(store->in_flight, 0u);
  }
}

// Several readers share an array's open objects with little memory for them, while shards are replaced.
TEST_F(NestedShards, ReadersInParallelNeverMixVersions) {
  const NestedArray before{.shards = 12, .counts = {40, 3}, .missing_every = 7};
  NestedArray after = before;
  after.seed = 9;
  after.backwards = true;
  after.missing_every = 4;
  const Objects versions[] = {before.objects(), after.objects()};
  ContextOptions options;
  options.threads = 2;
  options.wave_bytes = 4096;
  options.host_budget_bytes = 64 << 20;
  options.stored_budget_bytes = 1 << 20;
  const Context context = Context::create(options).value();
  RangeHabits habits;
  habits.tells_version = true;
  habits.delay = std::chrono::microseconds(100);
  auto store = std::make_shared<RangeStoreInMemory>(versions[0], habits);
  std::atomic<bool> stop{false};
  std::atomic<int> right{0}, refused{0}, wrong{0};
  {
    const Array array = open(context, store);
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] {
        while (!stop) {
          const ReadOutcome out = read(array, before);
          if (out.status.ok()) {
            ++(mixes_nothing(out.elements, before, after) ? right : wrong);
          } else {
            ++(out.status.code() == Code::kAgainExhausted ? refused : wrong);
          }
        }
      });
    }
    std::mt19937_64 dice(4);
    for (int i = 0; i < 40; ++i) {
      const auto& [key, bytes] = *std::next(versions[dice() % 2].begin(), static_cast<std::ptrdiff_t>(dice() % 12));
      EXPECT_TRUE(key == "zarr.json" || store->put(key, bytes).ok());
      std::this_thread::sleep_for(milliseconds(dice() % 60));
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);  // slow readers need time
    while (right == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
    stop = true;
    for (std::thread& reader : readers) reader.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(store->in_flight, 0u);
  EXPECT_EQ(Access::impl(context)->resources->stored_memory()->used_bytes(), 0u);
}

// A store that sometimes refuses what is requested ahead.
TEST_F(NestedShards, AFailedStartIsAnErrorOfItsRanges) {
  const NestedArray content{.shards = 50};
  for (int when = 0; when < 12; ++when) {
    std::atomic<int> calls{0};
    RangeHabits habits;
    habits.tells_version = true;  // so nothing is requested a second time
    habits.refuse = [&](std::span<RangeRead* const> reads) -> Status {
      if (is_metadata(*reads.front()) || calls++ != when) return {};
      return Status(when % 2 == 0 ? Code::kPermission : Code::kResourceExhausted, Layer::kStore, "planted");
    };
    auto store = std::make_shared<RangeStoreInMemory>(content.objects(), habits);
    const ReadOutcome out = read(make_context(1), store, content);
    if (calls > when) {
      EXPECT_FALSE(out.status.ok());
      EXPECT_NE(out.status.to_string().find("planted"), std::string::npos) << out.status.to_string();
      EXPECT_FALSE(out.status.key().empty());
    }
    EXPECT_EQ(store->in_flight, 0u);
  }
}

// Randomly falsified answers: the right elements or an error.
TEST_F(NestedShards, RandomWrongAnswersAreErrors) {
  std::mt19937_64 dice(8);
  int failed = 0, right = 0;
  for (int round = 0; round < 120; ++round) {
    const NestedArray content{.shards = 8, .counts = {4, 3}, .missing_every = static_cast<int>(dice() % 4)};
    const std::uint64_t every = 1 + dice() % 90;
    testing::RandomLies lies(dice(), every);
    RangeHabits habits;
    habits.answers = static_cast<RangeHabits::Answers>(dice() % 4);
    habits.tells_size = dice() % 2 == 0;
    habits.tells_version = dice() % 2 == 0;
    habits.change = [&](RangeRead& read) { lies.tell(read); };
    auto store = std::make_shared<RangeStoreInMemory>(content.objects(), habits);
    const ReadOutcome out = read(context_, store, content);
    if (out.status.ok()) {
      ASSERT_TRUE(out.elements == content.expected()) << "wrong elements without an error, round " << round;
      ++right;
    } else {
      EXPECT_FALSE(out.status.message().empty());
      ++failed;
    }
    EXPECT_EQ(store->in_flight, 0u);
  }
  EXPECT_GT(failed, 10);
  EXPECT_GT(right, 2);
}

}  // namespace
}  // namespace headrace
