// Property: for any selection and chunk length, the chunks that a Projection names hold every selected element exactly
// once, at the place the selection gives it.
#include "zarr/projection.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace headrace::zarr
