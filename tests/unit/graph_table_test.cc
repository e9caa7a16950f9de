// The table of decode graphs: when a shape gets a graph, and that the graphs stay within the budget by dropping the
// least recently used ones.
#include "backends/dev_cuda/graph_table.h"

#include <gtest/gtest.h>

#include <random>

namespace headrace::device::cuda {
namespace {

struct Graph {
  explicit Graph(int& alive) : count(alive) { ++count; }
  ~Graph() { --count; }
  int& count;
};
using Table = GraphTable<Graph>;

constexpr std::uint64_t kAll = Table::kMaxBytes / Table::kNodeBytes;  // nodes that exhaust the budget

std::byte memory[2000];
DecodeShape shape(std::size_t number) {
  DecodeShape out;
  out.decoder = 1;
  out.scratch = memory + number;
  return out;
}

class Graphs : public ::testing::Test {
 protected:
  // Decodes a shape until it has a graph of so many nodes. False: none was to be made.
  bool make(std::size_t number, std::uint64_t nodes) {
    for (std::uint32_t i = 0; i < Table::kSeenOften; ++i) {
      const Table::Use use = table_.use(shape(number), true);
      if (use.graph != nullptr) return true;
      if (!use.makes) continue;
      table_.keep(shape(number), std::make_shared<Graph>(alive_), nodes);
      return true;
    }
    return false;
  }
  bool has(std::size_t number) { return table_.use(shape(number), false).graph != nullptr; }

  int alive_ = 0;
  Table table_;
};

TEST_F(Graphs, AreMadeForShapesThatRecur) {
  for (std::uint32_t i = 1; i < Table::kSeenOften; ++i) EXPECT_FALSE(table_.use(shape(1), true).makes);
  EXPECT_FALSE(table_.use(shape(2), true).makes);
  EXPECT_TRUE(table_.use(shape(1), true).makes);
  EXPECT_FALSE(table_.use(shape(1), false).makes) << "none can be created";
  table_.keep(shape(1), std::make_shared<Graph>(alive_), 30);
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2));
  EXPECT_EQ(table_.bytes(), 30 * Table::kNodeBytes);
}

TEST_F(Graphs, OfWhichTheLeastRecentlyUsedAreDropped) {
  ASSERT_TRUE(make(1, kAll / 4) && make(2, kAll / 4) && make(3, kAll / 4) && make(4, kAll / 4));
  EXPECT_EQ(table_.bytes(), Table::kMaxBytes);
  EXPECT_TRUE(has(1));  // uses it
  ASSERT_TRUE(make(5, kAll / 4 + 1));
  EXPECT_TRUE(has(1) && has(4) && has(5));
  EXPECT_FALSE(has(2) || has(3));
  EXPECT_EQ(alive_, 3);
  EXPECT_LE(table_.bytes(), Table::kMaxBytes);
  // A dropped shape has to recur again.
  EXPECT_FALSE(table_.use(shape(2), true).makes);
}

TEST_F(Graphs, ThatExceedTheBudgetAloneAreNotKept) {
  ASSERT_TRUE(make(1, 30));
  for (const std::uint64_t nodes : {kAll + 1, ~std::uint64_t{0}}) {
    ASSERT_TRUE(make(2, nodes));
    EXPECT_FALSE(has(2));
    EXPECT_TRUE(has(1)) << "others need not make room for it";
    EXPECT_EQ(table_.bytes(), 30 * Table::kNodeBytes);
  }
  ASSERT_TRUE(make(3, kAll));
  EXPECT_TRUE(has(3));
  EXPECT_FALSE(has(1));
  EXPECT_EQ(alive_, 1);
}

TEST_F(Graphs, AGraphInUseOutlivesItsPlace) {
  ASSERT_TRUE(make(1, kAll));
  const std::shared_ptr<Graph> used = table_.use(shape(1), true).graph;
  ASSERT_TRUE(make(2, kAll));
  EXPECT_EQ(alive_, 2);
  EXPECT_EQ(table_.bytes(), Table::kMaxBytes);
  EXPECT_FALSE(has(1));
}

TEST_F(Graphs, AreReplacedDroppedAndForgotten) {
  ASSERT_TRUE(make(1, 10) && make(2, 20));
  table_.keep(shape(1), std::make_shared<Graph>(alive_), 15);  // made twice
  EXPECT_EQ(table_.bytes(), 35 * Table::kNodeBytes);
  EXPECT_EQ(alive_, 2);
  table_.drop(shape(1));
  table_.drop(shape(3));
  EXPECT_EQ(table_.bytes(), 20 * Table::kNodeBytes);
  table_.forget(memory, 2);
  EXPECT_TRUE(has(2));
  table_.forget(memory + 2, 1);
  EXPECT_FALSE(has(2));
  EXPECT_EQ(table_.bytes(), 0u);
  EXPECT_EQ(alive_, 0);
}

TEST_F(Graphs, OfManyShapesStayWithinTheBudget) {
  std::mt19937 random(20261129);
  std::uint64_t made = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::size_t number = random() % (i % 3 == 0 ? 1000 : 40);
    const Table::Use use = table_.use(shape(number), true);
    if (use.makes) {
      ++made;
      table_.keep(shape(number), std::make_shared<Graph>(alive_), random() % (kAll / 20));
    }
    if (random() % 1000 == 0) table_.forget(memory + random() % 1000, 50);
    ASSERT_LE(table_.bytes(), Table::kMaxBytes);
    ASSERT_LE(alive_, int(Table::kMaxShapes));
  }
  EXPECT_GT(made, Table::kFewGraphs);
  EXPECT_LE(made, Table::kFewGraphs + 200'000 / Table::kDecodesEach + 1);
  table_.clear();
  EXPECT_EQ(alive_, 0);
  EXPECT_EQ(table_.bytes(), 0u);
}

}  // namespace
}  // namespace headrace::device::cuda
