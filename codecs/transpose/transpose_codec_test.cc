// Several consecutive transposes combine into one order, by which the stored bytes read as the original array.
#include <algorithm>
#include <numeric>

#include "base/json.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

using Shape = std::vector<std::uint64_t>;

// numpy.transpose on a C-ordered array, by brute force, as a writer does it.
struct Array {
  Shape shape;
  std::vector<int> values;
};

std::vector<std::uint64_t> unravel(std::uint64_t index, const Shape& shape) {
  std::vector<std::uint64_t> at(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    at[i] = index % shape[i];
    index /= shape[i];
  }
  return at;
}

std::uint64_t ravel(const std::vector<std::uint64_t>& at, const Shape& shape) {
  std::uint64_t index = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) index = index * shape[i] + at[i];
  return index;
}

Array transpose(const Array& in, const std::vector<int>& order) {
  Array out;
  for (const int axis : order) out.shape.push_back(in.shape[std::size_t(axis)]);
  out.values.resize(in.values.size());
  for (std::uint64_t i = 0; i < in.values.size(); ++i) {
    const auto at = unravel(i, in.shape);
    std::vector<std::uint64_t> to;
    for (const int axis : order) to.push_back(at[std::size_t(axis)]);
    out.values[ravel(to, out.shape)] = in.values[i];
  }
  return out;
}

std::string config_of(const std::vector<int>& order) { return R"({"order":)" + base::Json(order).dump() + "}"; }

TEST(TransposeCodec, ComposesLikeNumpy) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t rank = random() % 5;
    Array array;
    for (std::size_t i = 0; i < rank; ++i) array.shape.push_back(1 + random() % 4);
    array.values.resize(std::accumulate(array.shape.begin(), array.shape.end(), std::uint64_t{1}, std::multiplies<>()));
    std::iota(array.values.begin(), array.values.end(), 0);
    Array stored = array;
    Shape shape = array.shape;
    codec::Layout layout;
    const std::size_t codecs = random() % 4;
    for (std::size_t i = 0; i < codecs; ++i) {
      std::vector<int> order(rank);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      stored = transpose(stored, order);
      ASSERT_TRUE(enter(make("transpose", config_of(order)).codec(), numeric_type("int32"), shape, layout).ok());
    }
    ASSERT_EQ(shape, stored.shape);
    if (codecs == 0 || rank == 0) continue;
    ASSERT_EQ(layout.axis_order.size(), rank);
    // Reads like the assemble step: the i-th slowest axis in memory is array axis axis_order[i].
    for (std::uint64_t i = 0; i < stored.values.size(); ++i) {
      const auto in_memory = unravel(i, stored.shape);
      std::vector<std::uint64_t> in_array(rank);
      for (std::size_t axis = 0; axis < rank; ++axis) in_array[layout.axis_order[axis]] = in_memory[axis];
      ASSERT_EQ(stored.values[i], array.values[ravel(in_array, array.shape)]);
    }
  }
}

TEST(TransposeCodec, RankMustMatch) {
  Shape shape = {4, 5};
  codec::Layout layout;
  const Status status = enter(make("transpose", R"({"order":[0,2,1]})").codec(), numeric_type("int8"), shape, layout);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("order"), std::string::npos);
  EXPECT_EQ(shape, (Shape{4, 5}));
}

TEST(TransposeCodec, Configuration) {
  expect_refused("transpose", "{}", "order");
  for (const char* order : {R"("C")", R"("F")", "[0,0]", "[1,2]", "[0,-1]", "[0,1.0]", "[0,\"1\"]", "null", "[0,2]",
                            "[18446744073709551615,0]"}) {
    expect_refused("transpose", std::string(R"({"order":)") + order + "}", "order");
  }
  expect_refused("transpose", R"({"order":[1,0],"axes":2})", "axes");
  std::vector<int> many(256);
  std::iota(many.begin(), many.end(), 0);
  expect_refused("transpose", config_of(many), "255");
}

}  // namespace
}  // namespace headrace::test
