// The fast loops copy a box exactly like an element-by-element copy, whatever its rank, strides, element size and swap.
// No byte outside the box changes.
#include "device/box.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/box_model.h"

namespace headrace::device {
namespace {

constexpr std::uint32_t kSizes[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 40};

std::string describe(const Box& box, const ElementOp& op) {
  std::string text = "element " + std::to_string(op.element_bytes) + " swap " + std::to_string(op.swap_width) +
                     (box.src == nullptr ? " fill" : "");
  for (int i = 0; i < box.rank; ++i) {
    const BoxDim& d = box.dim[static_cast<std::size_t>(i)];
    text += " [" + std::to_string(d.extent) + " src " + std::to_string(d.src_stride_bytes) + " dst " +
            std::to_string(d.dst_stride_bytes) + "]";
  }
  return text;
}

void check(const testing::BoxShape& shape, const ElementOp& op, bool fill, std::uint64_t seed) {
  std::vector<std::byte> src(shape.src_bytes), got(shape.dst_bytes), pattern(op.element_bytes);
  testing::fill_random(src.data(), src.size(), seed);
  testing::fill_random(got.data(), got.size(), seed + 1);
  testing::fill_random(pattern.data(), pattern.size(), seed + 2);
  if (seed % 3 == 0) std::fill(pattern.begin(), pattern.end(), std::byte{0});
  std::vector<std::byte> want = got;
  Box box = shape.box;
  box.src = fill ? nullptr : src.data() + shape.src_origin;
  box.dst = want.data() + shape.dst_origin;
  auto same = [](auto* p) { return p; };
  testing::model_copy_box(box, op, pattern.data(), same, same);
  box.dst = got.data() + shape.dst_origin;
  Box simple = box;
  simplify(simple);
  ASSERT_EQ(simple.element_count(), box.element_count());
  copy_box(seed % 2 == 0 ? box : simple, op, pattern.data());
  ASSERT_TRUE(std::memcmp(got.data(), want.data(), want.size()) == 0) << describe(box, op);
}

TEST(Box, RandomBoxesMatchTheModel) {
  std::mt19937_64 rng(20240611);
  const int rounds = support::kThreadSanitizer ? 4000 : 20000;
  for (int round = 0; round < rounds; ++round) {
    ElementOp op;
    op.element_bytes = kSizes[rng() % std::size(kSizes)];
    op.swap_width = testing::random_swap_width(rng, op.element_bytes);
    const testing::BoxShape shape = testing::random_box(rng, op.element_bytes);
    check(shape, op, rng() % 5 == 0, rng());
    if (HasFatalFailure()) return;
  }
}

TEST(Box, TransposesOfEverySizeMatchTheModel) {
  std::mt19937_64 rng(7);
  for (std::uint32_t size : kSizes) {
    for (std::uint64_t rows : {1, 2, 3, 7, 16, 33, 65, 130}) {
      for (std::uint64_t columns : {1, 5, 15, 16, 17, 64, 100}) {
        for (int planes : {1, 3}) {
          ElementOp op{size, testing::random_swap_width(rng, size)};
          testing::BoxShape shape;
          const auto s = static_cast<std::int64_t>(size), r = static_cast<std::int64_t>(rows),
                     c = static_cast<std::int64_t>(columns);
          shape.box.rank = 3;
          shape.box.dim[0] = {static_cast<std::uint64_t>(planes), r * c * s, r * c * s};
          shape.box.dim[1] = {rows, s, c * s};
          shape.box.dim[2] = {columns, r * s, s};
          shape.src_bytes = shape.dst_bytes = static_cast<std::size_t>(planes * r * c * s);
          check(shape, op, false, rng());
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Box, EveryInstructionSetOfASwapIsLongEnoughToBeUsed) {
  std::mt19937_64 rng(9);
  for (std::uint32_t size : {2u, 4u, 8u, 16u}) {
    for (std::uint64_t n = 0; n < 200; ++n) {
      testing::BoxShape shape;
      shape.box.rank = 1;
      shape.box.dim[0] = {n, size, size};
      shape.src_origin = static_cast<std::int64_t>(rng() % 16);
      shape.dst_origin = static_cast<std::int64_t>(rng() % 16);
      shape.src_bytes = shape.dst_bytes = n * size + 32;
      check(shape, ElementOp{size, size}, false, rng());
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Box, SimplifyMergesAndDropsDimensions) {
  Box box;
  box.src = reinterpret_cast<const std::byte*>(64);
  box.rank = 4;
  box.dim[0] = {1, 999, 999};
  box.dim[1] = {2, 96, 960};
  box.dim[2] = {3, 32, 32};
  box.dim[3] = {8, 4, 4};
  simplify(box);
  ASSERT_EQ(box.rank, 2);
  EXPECT_EQ(box.dim[0].extent, 2u);
  EXPECT_EQ(box.dim[1].extent, 24u);
  EXPECT_FALSE(is_contiguous(box, 4));
  box.dim[0].dst_stride_bytes = 96;
  simplify(box);
  ASSERT_EQ(box.rank, 1);
  EXPECT_TRUE(is_contiguous(box, 4));
  EXPECT_FALSE(is_contiguous(box, 2));
}

TEST(Box, AFillIsSimplifiedByItsDestinationAlone) {
  Box box;
  box.rank = 2;
  box.dim[0] = {5, 77, 12};
  box.dim[1] = {3, 1, 4};
  simplify(box);
  ASSERT_EQ(box.rank, 1);
  EXPECT_EQ(box.dim[0].extent, 15u);
  EXPECT_TRUE(is_contiguous(box, 4));
}

TEST(Box, ASourceThatIsKnownLaterKeepsItsStrides) {
  Box box;
  box.rank = 2;
  box.dim[0] = {5, 77, 12};
  box.dim[1] = {3, 1, 4};
  simplify(box, false);
  ASSERT_EQ(box.rank, 2);
  EXPECT_EQ(box.dim[0].src_stride_bytes, 77);
  EXPECT_EQ(box.dim[1].src_stride_bytes, 1);
  box.rank = 1;
  box.dim[0] = {5, 8, 4};
  EXPECT_FALSE(is_contiguous(box, 4, false));
  EXPECT_TRUE(is_contiguous(box, 4, true));
}

TEST(Box, EmptyBoxesTouchNothing) {
  Box box;
  box.rank = 3;
  box.dim[0] = {4, 8, 8};
  box.dim[1] = {0, 8, 8};
  box.dim[2] = {2, 4, 4};
  box.src = reinterpret_cast<const std::byte*>(1);
  box.dst = nullptr;
  copy_box(box, ElementOp{4, 4}, nullptr);
  simplify(box);
  EXPECT_EQ(box.element_count(), 0u);
}

TEST(Box, ARepeatedDestinationKeepsTheLastElement) {
  const std::uint32_t src[] = {1, 2, 3, 4};
  std::uint32_t dst = 0;
  Box box;
  box.src = reinterpret_cast<const std::byte*>(src);
  box.dst = reinterpret_cast<std::byte*>(&dst);
  box.rank = 1;
  box.dim[0] = {4, 4, 0};
  copy_box(box, ElementOp{4, 1}, nullptr);
  EXPECT_EQ(dst, 4u);
}

TEST(Box, FullRankIsCopied) {
  // Thirty-two dimensions that can be neither merged nor dropped would make 2^32 elements, so most have extent 1 here.
  testing::BoxShape shape;
  shape.box.rank = kMaxRank;
  std::int64_t src = 12, dst = 12;
  for (int d = kMaxRank - 1; d >= 0; --d) {
    const std::uint64_t extent = d % 3 == 0 ? 2 : 1;
    shape.box.dim[static_cast<std::size_t>(d)] = {extent, src, dst};
    src = src * static_cast<std::int64_t>(extent) + (extent > 1 ? 12 : 0);
    dst *= static_cast<std::int64_t>(extent);
  }
  shape.src_bytes = static_cast<std::size_t>(src) + 64;
  shape.dst_bytes = static_cast<std::size_t>(dst) + 64;
  check(shape, ElementOp{12, 4}, false, 1);
}

}  // namespace
}  // namespace headrace::device
