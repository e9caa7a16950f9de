#include "transfer/plan/index_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "device/decode.h"

namespace headrace::transfer {
namespace {

using Bytes = std::vector<std::byte>;

Bytes index_of(std::uint64_t chunk, std::size_t bytes) {
  Bytes out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(chunk * 31 + i);
  return out;
}

TEST(IndexCache, KeepsFindsAndDrops) {
  IndexCache cache(std::size_t{1} << 20);
  const std::uint64_t a = cache.array_number("file:///a", "x"), b = cache.array_number("file:///a", "y");
  EXPECT_NE(a, 0u);
  EXPECT_NE(a, b);
  EXPECT_EQ(cache.array_number("file:///a", "x"), a);
  Bytes to(100);
  IndexCache::Access access(cache);
  const IndexKey key{a, 7, 0};
  EXPECT_EQ(access.find(key, 1000, to.data(), to.size()), device::kIndexCollect);
  access.keep(key, 1000, index_of(7, 48));
  EXPECT_EQ(access.find(key, 1000, to.data(), to.size()), 48u);
  EXPECT_TRUE(std::equal(to.begin(), to.begin() + 48, index_of(7, 48).begin()));
  EXPECT_EQ(access.find(key, 1001, to.data(), to.size()), device::kIndexCollect) << "another version of the chunk";
  EXPECT_EQ(access.find(key, 1000, to.data(), 40), device::kIndexCollect) << "no room for it";
  EXPECT_EQ(access.find({b, 7, 0}, 1000, to.data(), to.size()), device::kIndexCollect) << "another array's";
  EXPECT_EQ(access.find({a, 7, 1}, 1000, to.data(), to.size()), device::kIndexCollect) << "another of the shard";
  access.mark_useless({a, 8, 0}, 500);
  EXPECT_EQ(access.find({a, 8, 0}, 500, to.data(), to.size()), device::kIndexNone);
  EXPECT_EQ(access.usage().chunks, 1u);
  access.drop(key);
  EXPECT_EQ(access.find(key, 1000, to.data(), to.size()), device::kIndexCollect);
  access.keep(key, 1002, index_of(9, 64));
  EXPECT_EQ(access.find(key, 1002, to.data(), to.size()), 64u);
  EXPECT_TRUE(std::equal(to.begin(), to.begin() + 64, index_of(9, 64).begin()));
}

TEST(IndexCache, WithoutABudgetNothingIsKept) {
  IndexCache cache(0);
  EXPECT_EQ(cache.array_number("a", "b"), 0u);
  IndexCache::Access access(cache);
  access.keep({1, 1, 0}, 10, index_of(1, 16));
  access.mark_useless({1, 2, 0}, 10);
  EXPECT_EQ(access.usage().memory_bytes, 0u);
}

// Whatever is kept, in any order: memory stays near the budget, and no chunk gets another chunk's bytes.
TEST(IndexCache, HoldsItsBudget) {
  for (const std::size_t budget : {std::size_t{20'000}, std::size_t{200'000}, std::size_t{5'000'000}}) {
    IndexCache cache(budget);
    std::mt19937 rng(1);
    std::map<std::uint64_t, std::size_t> sizes;
    Bytes to(200'000);
    std::size_t found = 0;
    for (int i = 0; i < 20'000; ++i) {
      IndexCache::Access access(cache);
      const std::uint64_t chunk = rng() % 3000;
      const std::uint32_t word = access.find({1, chunk, 0}, chunk, to.data(), to.size());
      if (word == device::kIndexCollect) {
        const std::size_t bytes = rng() % 50 == 0 ? 1 + rng() % 60'000 : 1 + rng() % 600;
        access.keep({1, chunk, 0}, chunk, index_of(chunk, bytes));
        sizes[chunk] = bytes;
      } else {
        ++found;
        ASSERT_EQ(word, sizes.at(chunk));
        ASSERT_EQ(std::memcmp(to.data(), index_of(chunk, word).data(), word), 0) << chunk;
        if (rng() % 20 == 0) access.drop({1, chunk, 0});
      }
      ASSERT_LE(access.usage().memory_bytes, budget + 32'768) << i;
    }
    EXPECT_GT(found, 100u) << budget;
  }
}

// A loop over more chunks than fit keeps the most recently used.
TEST(IndexCache, LeastRecentlyUsedGoesFirst) {
  IndexCache cache(400'000);
  Bytes to(1000);
  IndexCache::Access access(cache);
  for (std::uint64_t chunk = 0; chunk < 2000; ++chunk) {
    access.keep({1, chunk, 0}, 1, index_of(chunk, 1000));
    EXPECT_EQ(access.find({1, 0, 0}, 1, to.data(), to.size()), 1000u) << "used all the time, at " << chunk;
    if (HasFailure()) return;
  }
  EXPECT_EQ(access.find({1, 1999, 0}, 1, to.data(), to.size()), 1000u);
  EXPECT_EQ(access.find({1, 1000, 0}, 1, to.data(), to.size()), device::kIndexCollect);
}

}  // namespace
}  // namespace headrace::transfer
