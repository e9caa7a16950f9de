// Shards in shards in a store of the user's.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/byte_store.h>

#include "support/byte_store_testing.h"
#include "support/nested_shards.h"

namespace headrace {
namespace {

using testing::NestedArray;
using testing::RangeHabits;
using testing::RangeStoreInMemory;
using testing::ReadOutcome;

class NestedShards : public testing::ByteStoreTest {
 protected:
  static Array open(const Context& context, const std::shared_ptr<ByteStore>& store) {
    return Array::open(Store::open(context, store).value()).value();
  }
};

// A shard that is known, and in it a shard that is not: the error comes once.
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

}  // namespace
}  // namespace headrace
