// The fast loops convert numbers exactly like the model, bit for bit, for every pair of types. Converted boxes are
// placed as in the model, and no byte outside changes.
#include "device/convert.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/box.h"
#include "support/box_model.h"

namespace headrace::device {
namespace {

std::string describe(const Conversion& c) {
  return std::string(testing::name_of(c.from)) + " to " + testing::name_of(c.to) +
         (c.scaled ? " * " + std::to_string(c.scale) + " + " + std::to_string(c.offset) : "") +
         (c.fill_to_nan ? " fill " + std::to_string(c.fill_bits) : "");
}

std::string hex(const std::byte* p, std::uint32_t bytes) {
  std::string out = "0x";
  for (std::uint32_t i = bytes; i-- > 0;) {
    char text[3];
    std::snprintf(text, sizeof(text), "%02x", static_cast<unsigned>(p[i]));
    out += text;
  }
  return out;
}

void check_numbers(const Conversion& c, const std::vector<std::byte>& numbers, std::uint32_t swap) {
  ElementOp op;
  op.element_bytes = number_bytes(c.from);
  op.conversion = c;
  op.swap_width = swap;
  const std::size_t count = numbers.size() / op.element_bytes;
  const std::uint32_t in = op.element_bytes, out = op.result_bytes();
  std::vector<std::byte> src = numbers, got(count * out);
  if (swap > 1) {
    for (std::size_t i = 0; i < count; ++i) {
      std::reverse(src.begin() + static_cast<std::ptrdiff_t>(i * in),
                   src.begin() + static_cast<std::ptrdiff_t>((i + 1) * in));
    }
  }
  Box box;
  box.src = src.data();
  box.dst = got.data();
  box.rank = 1;
  box.dim[0] = {count, in, out};
  copy_box(box, op, nullptr);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte want[8], single[8];
    testing::model_convert(c, numbers.data() + i * in, want);
    ASSERT_TRUE(std::memcmp(got.data() + i * out, want, out) == 0)
        << describe(c) << " of " << hex(numbers.data() + i * in, in) << " gives " << hex(got.data() + i * out, out)
        << " for " << hex(want, out);
    if (i % 97 != 0) continue;
    convert_element(c, numbers.data() + i * in, single);
    ASSERT_EQ(hex(single, out), hex(want, out)) << describe(c);
  }
}

TEST(Convert, EveryPairOfTypesGivesTheNearestNumber) {
  for (NumberType from : testing::kSourceTypes) {
    const std::vector<std::byte> numbers = testing::notable_numbers(from, 1);
    for (NumberType to : testing::kTargetTypes) {
      Conversion c;
      c.from = from;
      c.to = to;
      check_numbers(c, numbers, 1);
      check_numbers(c, numbers, number_bytes(from));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Convert, ScaleOffsetAndFillAreAppliedInTheDocumentedPrecision) {
  std::mt19937_64 rng(2);
  for (NumberType from : testing::kSourceTypes) {
    const std::vector<std::byte> numbers = testing::notable_numbers(from, 3);
    for (NumberType to : testing::kTargetTypes) {
      for (const auto& [scale, offset] : {std::pair{0.0016514, 273.15}, {-1e-3, 0.0}, {1.0, -32768.5}, {1e30, 1e38}}) {
        Conversion c;
        c.from = from;
        c.to = to;
        c.scaled = true;
        c.scale = scale;
        c.offset = offset;
        if (is_float(to) && rng() % 2 == 0) {
          c.fill_to_nan = true;
          // One of the numbers, so that it occurs.
          const std::size_t at = rng() % (numbers.size() / number_bytes(from)) * number_bytes(from);
          std::memcpy(&c.fill_bits, numbers.data() + at, number_bytes(from));
        }
        check_numbers(c, numbers, rng() % 2 == 0 ? 1 : number_bytes(from));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Convert, AFillValueBecomesNan) {
  Conversion c;
  c.from = NumberType::kInt16;
  c.to = NumberType::kFloat32;
  c.fill_to_nan = true;
  c.fill_bits = 0x8001;  // -32767
  const std::int16_t stored[] = {-32767, -32766, 0, 32767};
  float result[4];
  for (int i = 0; i < 4; ++i)
    convert_element(c, reinterpret_cast<const std::byte*>(&stored[i]), reinterpret_cast<std::byte*>(&result[i]));
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_EQ(result[1], -32766.0f);
  EXPECT_EQ(result[2], 0.0f);
  EXPECT_EQ(result[3], 32767.0f);
  // Zeros of either sign are equal.
  c.from = NumberType::kFloat64;
  c.fill_bits = 0;
  for (double zero : {0.0, -0.0}) {
    convert_element(c, reinterpret_cast<const std::byte*>(&zero), reinterpret_cast<std::byte*>(&result[0]));
    EXPECT_TRUE(std::isnan(result[0]));
  }
}

void check_box(const testing::BoxShape& shape, const ElementOp& op, bool fill, std::uint64_t seed) {
  std::vector<std::byte> src(shape.src_bytes), got(shape.dst_bytes), pattern(op.result_bytes());
  testing::fill_random(src.data(), src.size(), seed);
  testing::fill_random(got.data(), got.size(), seed + 1);
  testing::fill_random(pattern.data(), pattern.size(), seed + 2);
  std::vector<std::byte> want = got;
  Box box = shape.box;
  box.src = fill ? nullptr : src.data() + shape.src_origin;
  box.dst = want.data() + shape.dst_origin;
  auto same = [](auto* p) { return p; };
  testing::model_copy_box(box, op, pattern.data(), same, same);
  box.dst = got.data() + shape.dst_origin;
  if (seed % 2 == 0) simplify(box);
  copy_box(box, op, pattern.data());
  ASSERT_TRUE(got == want) << describe(op.conversion) << " swap " << op.swap_width << " rank " << box.rank;
}

TEST(Convert, RandomBoxesMatchTheModel) {
  std::mt19937_64 rng(20240612);
  for (int round = 0; round < 8000; ++round) {
    const ElementOp op = testing::random_converting_op(rng);
    check_box(testing::random_box_for(rng, op), op, rng() % 8 == 0, rng());
    if (HasFatalFailure()) return;
  }
}

TEST(Convert, TransposesMatchTheModel) {
  std::mt19937_64 rng(8);
  for (std::uint64_t rows : {1, 3, 16, 33, 70}) {
    for (std::uint64_t columns : {1, 15, 32, 100, 1300}) {
      for (int round = 0; round < 6; ++round) {
        const ElementOp op = testing::random_converting_op(rng);
        const auto in = static_cast<std::int64_t>(op.element_bytes), out = static_cast<std::int64_t>(op.result_bytes()),
                   r = static_cast<std::int64_t>(rows), c = static_cast<std::int64_t>(columns);
        testing::BoxShape shape;
        shape.box.rank = 2;
        shape.box.dim[0] = {rows, in, c * out};
        shape.box.dim[1] = {columns, r * in, round % 2 == 0 ? out : 3 * out};
        if (round % 2 != 0) shape.box.dim[0].dst_stride_bytes = 3 * c * out;
        shape.src_bytes = static_cast<std::size_t>(r * c * in);
        shape.dst_bytes = static_cast<std::size_t>(3 * r * c * out);
        check_box(shape, op, false, rng());
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace headrace::device
