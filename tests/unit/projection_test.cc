// Property: for any selection and chunk length, the chunks that a Projection names contain every selected element
// exactly once, at the place that the selection gives it.
#include "zarr/grid/projection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

namespace headrace::zarr {
namespace {

TEST(Projection, CoversEverySelectedElementOnce) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    const std::uint64_t extent = random() % 60, chunk = 1 + random() % 20;
    ResolvedSelection::Dim dim;
    dim.step = 1 + random() % 25;
    dim.start = extent == 0 ? 0 : random() % extent;
    dim.count = extent == 0 ? 0 : random() % ((extent - dim.start - 1) / dim.step + 2);
    const Projection projection(dim, chunk);
    std::vector<int> seen(dim.count, 0);
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < projection.touched(); ++i) {
      const std::uint64_t index = projection.chunk_at(i);
      if (i > 0) {
        ASSERT_GT(index, last);
      }
      last = index;
      const Intersection part = projection.intersect(index);
      ASSERT_GT(part.count, 0u) << "a chunk without selected elements was named";
      for (std::uint64_t k = 0; k < part.count; ++k) {
        ASSERT_LT(part.in_result + k, dim.count);
        ++seen[part.in_result + k];
        const std::uint64_t position = dim.start + (part.in_result + k) * dim.step;
        ASSERT_EQ(index * chunk + part.in_chunk + k * dim.step, position);
        ASSERT_EQ(position / chunk, index);
      }
    }
    for (const int count : seen) ASSERT_EQ(count, 1);
  }
}

TEST(Projection, ChunksBetweenStepsAreEmpty) {
  const Projection projection({0, 4, 100, false}, 10);
  EXPECT_EQ(projection.touched(), 4u);
  EXPECT_EQ(projection.intersect(5).count, 0u);
  EXPECT_EQ(projection.intersect(20).count, 1u);
}

// The pieces of a list contain each of its entries once, whatever the order and however often an index occurs.
TEST(Projection, PiecesOfAListCoverItOnce) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 20000; ++round) {
    const std::uint64_t extent = 1 + random() % 60, chunk = 1 + random() % 20;
    auto list = std::make_shared<std::vector<std::uint64_t>>();
    for (std::uint64_t runs = random() % 5; runs > 0; --runs) {
      const std::uint64_t begin = random() % extent, step = random() % 4;
      for (std::uint64_t i = 0; i < random() % 7 && begin + i * step < extent; ++i) list->push_back(begin + i * step);
    }
    if (random() % 2 == 0) std::shuffle(list->begin(), list->end(), random);
    ResolvedSelection::Dim dim;
    dim.count = list->size();
    dim.list = list;
    const auto runs = make_index_runs(*list);
    ASSERT_LE(runs->size(), list->size());
    const Projection projection(dim, chunk, runs);
    std::vector<int> seen(list->size(), 0);
    for (std::uint64_t i = 0; i < projection.touched(); ++i) {
      const std::uint64_t index = projection.chunk_at(i);
      ASSERT_EQ(projection.before(index), i);
      ASSERT_EQ(projection.before(index + 1), i + 1);
      if (i > 0) {
        ASSERT_GT(index, projection.chunk_at(i - 1));
      }
      const Pieces pieces = projection.pieces(index * chunk, chunk);
      ASSERT_GT(pieces.count, 0u);
      for (std::uint64_t p = pieces.first; p < pieces.first + pieces.count; ++p) {
        const Intersection part = projection.piece(p, index * chunk, chunk);
        ASSERT_GT(part.count, 0u);
        for (std::uint64_t k = 0; k < part.count; ++k) {
          const std::uint64_t place = part.in_result + k * static_cast<std::uint64_t>(projection.result_step(p));
          ASSERT_LT(place, list->size());
          ++seen[place];
          ASSERT_EQ(index * chunk + part.in_chunk + k * projection.step(p), (*list)[place]);
          ASSERT_LT(part.in_chunk + k * projection.step(p), chunk);
        }
      }
    }
    for (const int count : seen) ASSERT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace headrace::zarr
