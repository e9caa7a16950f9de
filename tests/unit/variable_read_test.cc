// Property: arrays of strings and byte strings yield the elements of a model, whatever their layout, codecs and
// selection.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/device.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/access.h"
#include "base/json.h"
#include "support/ranges_in_memory.h"
#include "support/stores_under_test.h"
#include "support/variable_model.h"
#include "support/variable_read_testing.h"

namespace headrace {
namespace {

using base::Json;
using testing::elements_of;
using testing::product;
using testing::Shape;
using testing::Strings;
using testing::v2_strings;
using testing::v3_strings;
using testing::VariableRead;

TEST_F(VariableRead, WholeArraysSlicesAndIndices) {
  const Context context = make_context();
  const Shape shape = {7, 10};
  const Strings elements = words(70);
  const Array array = write(context, v3_strings(shape, {3, 4}), elements);
  EXPECT_EQ(array.info().dtype.kind, TypeKind::kString);
  EXPECT_EQ(array.info().dtype.item_bytes, 0u);
  EXPECT_EQ(array.info().decoded_bytes, 0u);
  EXPECT_EQ(array.info().codecs, Strings{"vlen-utf8"});
  for (const char* selection : {"", "2:5", ":, 3:9:2", "-1", "..., 5", "4, 4", "::3, ::4", "3:3", "0:1, 0:1"}) {
    expect_elements(array, elements, shape, selection);
  }
  EXPECT_TRUE(array.read_variable({})->is_utf8());
}

TEST_F(VariableRead, FromRangesOfAUsersStore) {
  const Context context = make_context();
  const Shape shape = {7, 10};
  const Strings elements = words(70);
  Json sharded = v3_strings(shape, {4, 5});
  for (const char* location : {"", "start", "end"}) {
    if (*location != '\0') sharded["codecs"] = Json::array({shard({2, 5}, chain({kZstd}), location)});
    const Store written = make_store(sharded, context);
    testing::store_chunks(*Access::impl(written), sharded, elements, "");
    for (const bool tells_size : {true, false}) {
      testing::RangeHabits habits;
      habits.tells_size = tells_size;
      auto ranges = std::make_shared<testing::RangeStoreInMemory>(testing::objects_of(*Access::impl(written)), habits);
      const Array array = open(Store::open(context, ranges).value());
      for (const char* selection : {"", "2:5", ":, 3:9:2", "-1"}) expect_elements(array, elements, shape, selection);
      EXPECT_EQ(ranges->in_flight, 0u);
    }
  }
}

TEST_F(VariableRead, ZeroDimensionsAndNoElements) {
  const Context context = make_context();
  for (const int format : {2, 3}) {
    const Array scalar = write(context, format == 3 ? v3_strings({}, {}) : v2_strings({}, {}), {"only"});
    expect_elements(scalar, {"only"}, {});
    const Shape empty = {3, 0};
    const Array none = write(context, format == 3 ? v3_strings(empty, {2, 1}) : v2_strings(empty, {2, 1}), {});
    const auto result = none.read_variable({});
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(result->size(), 0u);
    EXPECT_EQ(result->offsets().size(), 1u);
    EXPECT_EQ(result->shape(), empty);
  }
}

TEST_F(VariableRead, MissingChunksHoldTheFillValue) {
  const Context context = make_context();
  const Store store = make_store(v3_strings({10}, {3}, nullptr, "f\xc3\xbcll"), context);
  put(store, "c/1", testing::encode_vlen({"x", "y", "z"}));
  Strings expected(10, "f\xc3\xbcll");
  expected[3] = "x", expected[4] = "y", expected[5] = "z";
  const Array array = open(store);
  expect_elements(array, expected, {10});
  const auto result = array.read_variable({});
  EXPECT_EQ(result->stats.missing_chunks, 3u);
  EXPECT_EQ(result->stats.chunks, 1u);
}

TEST_F(VariableRead, FillValuesOfBytes) {
  const Context context = make_context();
  for (const Json& fill : {Json("AP8="), Json::array({0, 255})}) {
    Json document = v3_strings({2}, {2}, Json::array({{{"name", "vlen-bytes"}}}));
    document["data_type"] = "variable_length_bytes";
    document["fill_value"] = fill;
    const Array array = open(make_store(document, context));
    expect_elements(array, Strings(2, std::string("\0\xff", 2)), {2});
    EXPECT_FALSE(array.read_variable({})->is_utf8());
    EXPECT_EQ(array.info().dtype.kind, TypeKind::kVariableBytes);
  }
  for (const Json& fill : {Json(nullptr), Json(0), Json("")}) {
    Json document = v2_strings({2}, {2});
    document["fill_value"] = fill;
    expect_elements(open(make_store(document, context)), Strings(2), {2});
  }
}

TEST_F(VariableRead, CodecsBehindOrderAndShards) {
  const Context context = make_context();
  const Shape shape = {5, 6};
  const Strings elements = words(30);
  const Json transpose = {{"name", "transpose"}, {"configuration", {{"order", {1, 0}}}}};
  const Json inner = shard({1, 2}, chain({kZstd}));
  const std::vector<Json> chains = {
      chain({kZstd}),
      chain({kGzip}),
      chain({kBlosc}),
      chain({kCrc}),
      chain({kBlosc, kGzip, kZstd, kCrc}),
      Json::array({transpose, {{"name", "vlen-utf8"}}, kZstd}),
      Json::array({shard({2, 3}, chain({}))}),
      Json::array({shard({2, 3}, chain({kGzip, kCrc}), "start")}),
      Json::array({shard({2, 3}, Json::array({{{"name", "transpose"}, {"configuration", {{"order", {1, 0}}}}},
                                              {{"name", "vlen-utf8"}}}))}),
      Json::array({transpose, shard({3, 2}, chain({kZstd}))}),
      Json::array({shard({2, 3}, chain({kZstd})), kGzip}),
      Json::array({shard({2, 6}, Json::array({inner}))}),
      Json::array({shard({2, 6}, Json::array({inner}), "start"), kCrc}),
  };
  for (const Json& codecs : chains) {
    SCOPED_TRACE(codecs.dump());
    const Array array = write(context, v3_strings(shape, {4, 6}, codecs), elements);
    expect_elements(array, elements, shape);
    expect_elements(array, elements, shape, "1:5:3, 1:6:2");
  }
  for (const char* order : {"C", "F"}) {
    for (const Json& compressor : {Json(nullptr), Json({{"id", "zlib"}, {"level", 1}}), Json({{"id", "lz4"}})}) {
      const Array array = write(context, v2_strings(shape, {2, 4}, order, compressor), elements);
      expect_elements(array, elements, shape);
      expect_elements(array, elements, shape, "::2, 3");
    }
  }
}

TEST_F(VariableRead, EmptyAndFillChunksOfNestedShards) {
  const Context context = make_context();
  const Json codecs = Json::array({shard({4}, Json::array({shard({2}, chain({kZstd}))})), kGzip});
  Strings elements(16, "none");
  elements[5] = "here";
  elements[6] = "";
  const Json document = v3_strings({16}, {16}, codecs, "none");
  const Store store = make_store(document, context);
  testing::store_chunks(*Access::impl(store), document, elements, "none");
  expect_elements(open(store), elements, {16});
}

// Streams that decode to many times their size: the buffer grows until they fit.
TEST_F(VariableRead, StreamsThatDecodeToManyTimesTheirSize) {
  const Context context = make_context();
  Strings elements(64);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = std::string(1 << (i % 17), 'z');
  for (const Json& codec : {kZstd, kGzip, kBlosc}) {
    expect_elements(write(context, v3_strings({64}, {64}, chain({codec, codec})), elements), elements, {64});
  }
  // A single gzip stream.
  expect_elements(write(context, v3_strings({64}, {64}, chain({kGzip})), elements), elements, {64});
}

TEST_F(VariableRead, RandomArraysAgreeWithTheModel) {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const Context context = make_context();
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    const std::size_t rank = below(4);
    Shape shape, chunk, inner;
    for (std::size_t i = 0; i < rank; ++i) {
      shape.push_back(1 + below(9));
      inner.push_back(1 + below(3));
      chunk.push_back(inner.back() * (1 + below(3)));
    }
    const std::string fill = below(2) == 0 ? "" : "fill";
    Strings elements(product(shape));
    for (std::string& element : elements) {
      const std::uint32_t kind = below(4);
      element = kind == 0 ? fill : kind == 1 ? "" : std::string(below(40), static_cast<char>('a' + below(26)));
    }
    Json codecs = Json::array();
    std::vector<std::uint64_t> order(rank);
    std::iota(order.begin(), order.end(), 0u);
    if (below(3) == 0) {
      std::shuffle(order.begin(), order.end(), random);
      codecs.push_back({{"name", "transpose"}, {"configuration", {{"order", order}}}});
    }
    const auto add_bytes_codecs = [&](Json& to) {
      for (std::uint32_t n = below(3); n > 0; --n)
        to.push_back(std::vector<Json>{kZstd, kGzip, kBlosc, kCrc}[below(4)]);
    };
    if (below(2) == 0) {
      Shape moved;
      for (const std::uint64_t axis : order) moved.push_back(inner[axis]);
      Json inside = Json::array({{{"name", "vlen-utf8"}}});
      add_bytes_codecs(inside);
      codecs.push_back(shard(moved, inside, below(2) == 0 ? "start" : "end"));
    } else {
      codecs.push_back({{"name", "vlen-utf8"}});
    }
    add_bytes_codecs(codecs);
    const Json document = v3_strings(shape, chunk, codecs, fill);
    SCOPED_TRACE(document.dump());
    const Store store = make_store(document, context);
    testing::store_chunks(*Access::impl(store), document, elements, fill);
    const Array array = open(store);
    expect_elements(array, elements, shape);
    for (int k = 0; k < 3; ++k) {
      std::string selection;
      for (std::size_t i = 0; i < rank; ++i) {
        const auto extent = static_cast<std::uint32_t>(shape[i]);
        selection += i == 0 ? "" : ", ";
        selection += below(4) == 0 ? std::to_string(below(extent))
                                   : std::to_string(below(extent)) + ":" + std::to_string(below(extent + 2)) + ":" +
                                         std::to_string(1 + below(4));
      }
      expect_elements(array, elements, shape, selection);
    }
  }
}

// Chunks of several shapes, each with its own chain.
TEST_F(VariableRead, GridsWhoseChunksDifferInShape) {
  const Context context = make_context();
  std::mt19937 random(77);
  for (int round = 0; round < 40; ++round) {
    Json document = v3_strings({1}, {1}, chain({round % 2 == 0 ? kZstd : kCrc}));
    std::vector<Shape> edges(1 + random() % 3);
    Shape shape, counts;
    Json lengths = Json::array();
    for (Shape& axis : edges) {
      axis.resize(1 + random() % 5);
      for (std::uint64_t& edge : axis) edge = 1 + random() % 4;
      shape.push_back(1 + random() % std::accumulate(axis.begin(), axis.end(), std::uint64_t{0}));
      counts.push_back(axis.size());
      lengths.push_back(axis);
    }
    document["shape"] = shape;
    document["chunk_grid"] = {{"name", "rectilinear"},
                              {"configuration", {{"kind", "inline"}, {"chunk_shapes", lengths}}}};
    document["fill_value"] = "fill";
    Strings elements = words(product(shape));
    const Store store = make_store(document, context);
    Shape chunk(shape.size(), 0);
    do {
      Shape extent, begin, at(shape.size(), 0);
      std::string key = "c";
      for (std::size_t d = 0; d < chunk.size(); ++d) {
        const auto end = edges[d].begin() + static_cast<std::ptrdiff_t>(chunk[d]);
        begin.push_back(std::accumulate(edges[d].begin(), end, std::uint64_t{0}));
        extent.push_back(*end);
        key += "/" + std::to_string(chunk[d]);
      }
      const bool missing = random() % 4 == 0;
      Strings part;
      do {
        Shape from;
        bool inside = true;
        for (std::size_t d = 0; d < at.size(); ++d) {
          from.push_back(begin[d] + at[d]);
          inside = inside && from[d] < shape[d];
        }
        if (inside && missing) elements[testing::flat(from, shape)] = "fill";
        part.push_back(inside ? elements[testing::flat(from, shape)] : "padding");
      } while (testing::next_index(at, extent));
      if (missing) continue;
      const auto encoded = testing::encode_chunk(document.at("codecs"), extent, part, "fill");
      if (encoded) put(store, key.c_str(), *encoded);
    } while (testing::next_index(chunk, counts));
    const Array array = open(store);
    expect_elements(array, elements, shape);
    for (int i = 0; i < 6; ++i) {
      Selection lists;
      std::vector<std::vector<std::int64_t>> coordinates, axes;
      std::string text;
      for (const std::uint64_t extent : shape) {
        text +=
            (text.empty() ? "" : ", ") + std::to_string(random() % extent) + "::" + std::to_string(1 + random() % 3);
        coordinates.emplace_back();
        axes.emplace_back();
        for (int k = 0; k < 9; ++k) coordinates.back().push_back(static_cast<std::int64_t>(random() % extent));
        for (std::size_t k = 0, n = random() % 5; k < n; ++k) {
          axes.back().push_back(static_cast<std::int64_t>(random() % extent));
        }
        lists.push_back(index_list(axes.back()));
      }
      expect_elements(array, elements, shape, text);
      const auto picked = array.read_variable(points(coordinates));
      ASSERT_TRUE(picked.ok()) << picked.status().to_string();
      ASSERT_EQ(picked->size(), 9u);
      for (std::size_t k = 0; k < 9; ++k) {
        Shape from;
        for (const auto& axis : coordinates) from.push_back(static_cast<std::uint64_t>(axis[k]));
        EXPECT_EQ((*picked)[k], elements[testing::flat(from, shape)]) << document;
      }
      const auto product_of_lists = array.read_variable(lists);
      ASSERT_TRUE(product_of_lists.ok()) << product_of_lists.status().to_string();
      Shape sizes, at(shape.size(), 0);
      for (const auto& axis : axes) sizes.push_back(axis.size());
      Strings wanted;
      if (product(sizes) > 0) {
        do {
          Shape from;
          for (std::size_t d = 0; d < at.size(); ++d) from.push_back(static_cast<std::uint64_t>(axes[d][at[d]]));
          wanted.push_back(elements[testing::flat(from, shape)]);
        } while (testing::next_index(at, sizes));
      }
      EXPECT_EQ(elements_of(*product_of_lists), wanted) << document;
    }
    ASSERT_FALSE(HasFailure());
    // A bad chunk ends the read, or is one of the errors.
    put(store, shape.size() == 1 ? "c/0" : shape.size() == 2 ? "c/0/0" : "c/0/0/0", "rubbish");
    expect_status(read_status(array), Code::kCorrupt, "c/0");
    VariableReadOptions options;
    options.collect_errors = true;
    const auto others = array.read_variable({}, options);
    ASSERT_TRUE(others.ok()) << others.status().to_string();
    ASSERT_EQ(others->errors.size(), 1u);
    EXPECT_EQ(others->errors[0].key.substr(0, 3), "c/0");
  }
}

// Written by zarr-python 2 and 3 and by zarrs: tests/data/variable/README.md.
TEST_F(VariableRead, ArraysOfOtherWriters) {
  const char* root = std::getenv("HEADRACE_SOURCE_DIR");
  const auto folder = std::filesystem::path(root == nullptr ? "." : root) / "tests" / "data" / "variable";
  const Context context = make_context();
  int arrays = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_directory() || entry.path().filename() == "__pycache__") continue;
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path().string() + ".raw", std::ios::binary);
    const std::string expected((std::istreambuf_iterator<char>(file)), {});
    const auto result = open(Store::open(context, entry.path().string()).value()).read_variable({});
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    const std::string counted = testing::encode_vlen(elements_of(*result));
    EXPECT_EQ(counted.substr(4), expected);
    const Stats& stats = result->stats;  // a file that was never read goes to the engine
    EXPECT_EQ(stats.buffered_bytes + stats.engine_bytes + stats.direct_bytes, stats.read_bytes);
    EXPECT_GT(stats.read_bytes, 0u);
    ++arrays;
  }
  EXPECT_EQ(arrays, 12);
}

}  // namespace
}  // namespace headrace
