// Property: a budget never lends more than its limit, gets all of it back, and its errors name what requested too much;
// cached memory gives way. Exercised by shard indexes, and the chunks read through them.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/access.h"
#include "base/memory_budget.h"
#include "tests/support/raw_array.h"
#include "transfer/context/context_impl.h"

namespace headrace {
namespace {

using base::Charge;
using base::MemoryBudget;

TEST(MemoryBudget, LendsNoMoreThanItHas) {
  const auto budget = std::make_shared<MemoryBudget>(1000, "the_option");
  {
    Charge first(budget), second(budget);
    ASSERT_TRUE(first.take(600, "one thing").ok());
    const Status refused = second.take(401, "another thing");
    EXPECT_EQ(refused.code(), Code::kResourceExhausted);
    for (const char* part : {"another thing", "401", "1000", "400", "the_option"}) {
      EXPECT_NE(refused.message().find(part), std::string::npos) << part << ": " << refused.message();
    }
    EXPECT_EQ(second.bytes(), 0u);
    EXPECT_EQ(second.take(~std::uint64_t{0}, "wraps").code(), Code::kResourceExhausted);
    ASSERT_TRUE(second.take(400, "another thing").ok());
    EXPECT_EQ(budget->used_bytes(), 1000u);
    first.shrink_to(100);
    EXPECT_TRUE(second.grow_to(900, "another thing").ok());
    EXPECT_TRUE(second.grow_to(5, "less than it has").ok());
    EXPECT_EQ(second.bytes(), 900u);
    Charge moved = std::move(second);
    EXPECT_EQ(moved.bytes(), 900u);
    moved = std::move(first);
    EXPECT_EQ(budget->used_bytes(), 100u);
  }
  EXPECT_EQ(budget->used_bytes(), 0u);
  Charge unlimited;
  EXPECT_TRUE(unlimited.take(~std::uint64_t{0}, "anything").ok());
}

TEST(MemoryBudget, HoldsForThreadsTogether) {
  const auto budget = std::make_shared<MemoryBudget>(100, "the_option");
  std::atomic<std::uint64_t> lent{0}, most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        Charge charge(budget);
        if (!charge.take(40, "a piece").ok()) continue;
        const std::uint64_t now = lent.fetch_add(40) + 40;
        for (std::uint64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        lent.fetch_sub(40);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most.load(), 80u);
  EXPECT_EQ(budget->used_bytes(), 0u);
}

struct Cache final : MemoryBudget::Keeper {
  explicit Cache(std::shared_ptr<MemoryBudget> budget) : kept(std::move(budget)) {}
  void drop_unused() noexcept override {
    ++asked;
    kept.give_all();
  }
  Charge kept;
  int asked = 0;
};

TEST(MemoryBudget, CachesAreDroppedForOthers) {
  const auto budget = std::make_shared<MemoryBudget>(100, "the_option");
  Cache cache(budget);
  budget->add(cache);
  ASSERT_TRUE(cache.kept.take(80, "a cache").ok());
  Charge charge(budget);
  EXPECT_EQ(charge.take(101, "more than there is").code(), Code::kResourceExhausted);
  EXPECT_EQ(cache.asked, 0) << "a request above the limit evicts nothing";
  EXPECT_TRUE(charge.take(20, "what is left").ok());
  EXPECT_EQ(cache.asked, 0);
  EXPECT_TRUE(charge.take(50, "what is kept").ok());
  EXPECT_EQ(cache.asked, 1);
  budget->remove(cache);
  EXPECT_EQ(charge.take(50, "more").code(), Code::kResourceExhausted);
  EXPECT_EQ(cache.asked, 1);
}

// Arrays whose shard indexes fit the budget only one at a time are read in turn, while all of them stay open.
TEST(StoredMemory, IndexesOfOtherArraysAreDropped) {
  constexpr std::uint64_t kChunks = 40'000;  // an index takes 0.6 MiB, and twice as much again while it is parsed
  ContextOptions options;
  options.threads = 1;
  options.stored_budget_bytes = std::size_t{4} << 20;
  const Context context = Context::create(options).value();
  const auto& budget = Access::impl(context)->resources->stored_memory();
  const Store store = Store::open(context, "memory://indexes_give_way").value();
  const Device host = Device::open("host").value();
  std::vector<Array> arrays;
  for (int i = 0; i < 8; ++i) {
    testing::RawArray array;
    array.shape = array.chunk = {kChunks};
    array.inner = {1};
    array.seed = static_cast<std::uint32_t>(i + 1);
    const std::string path = "a" + std::to_string(i);
    ASSERT_TRUE(testing::write_raw_array(*Access::impl(store), path, array).ok());
    arrays.push_back(Array::open(store, path).value());
    std::uint32_t element = 0;
    const Status status = arrays.back().read(parse_selection("7:8").value(), {std::span(&element, 1), {1}}, host);
    ASSERT_TRUE(status.ok()) << i << ": " << status.to_string();
    EXPECT_EQ(element, testing::element_value(7, array.seed));
    EXPECT_LE(budget->used_bytes(), options.stored_budget_bytes);
  }
  EXPECT_GT(budget->used_bytes(), kChunks * 16) << "the last one is kept";
  // An index that does not fit is named in the error, and leaves nothing allocated.
  testing::RawArray large;
  large.shape = large.chunk = {4 * kChunks};
  large.inner = {1};
  ASSERT_TRUE(testing::write_raw_array(*Access::impl(store), "large", large).ok());
  const Array refused = Array::open(store, "large").value();
  std::uint32_t element = 0;
  const Status status = refused.read(parse_selection("7:8").value(), {std::span(&element, 1), {1}}, host);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
  EXPECT_NE(status.message().find("the index of a shard of 160000 chunks"), std::string::npos) << status.to_string();
  EXPECT_NE(status.message().find("stored_budget_bytes"), std::string::npos) << status.to_string();
  arrays.clear();
}

}  // namespace
}  // namespace headrace
