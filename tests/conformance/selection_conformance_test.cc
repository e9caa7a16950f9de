// Property: for any selection (slices, lists, masks, points, blocks) of any array (plain, sharded, nested shards, axes
// transposed before each level), the tensor holds what the same indexing of the written values gives, and each chunk is
// read and decoded once.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "support/selection_model.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::Level;
using testing::Meaning;
using testing::Model;
using Shape = testing::ModelShape;
using Bytes = testing::ModelBytes;

class SelectionRead : public ::testing::TestWithParam<std::tuple<const char*, const char*, bool>> {
 protected:
  void SetUp() override {
    device::staged_decode_model().any_codec = std::get<2>(GetParam());
    ContextOptions options;
    options.threads = 2;
    options.wave_bytes = 8 << 10;
    options.host_budget_bytes = 64 << 20;
    context = Context::create(options).value();
    static int number = 0;
    const bool file = std::string_view(std::get<1>(GetParam())) == "file";
    store = Store::open(*context, file ? directory.path() : "memory://selections" + std::to_string(++number)).value();
    device = Device::open(std::get<0>(GetParam())).value();
  }
  void TearDown() override { device::staged_decode_model().any_codec = false; }

  // Every other read verifies whole chunks.
  ReadOptions next_options() {
    ReadOptions options;
    options.verify = ++reads % 2 == 0 ? Verify::kWhole : Verify::kAsRead;
    return options;
  }
  static void check_stored(const Stats& stats, const Model& model, const ReadOptions& options, std::uint64_t chunks) {
    if (model.checked || options.verify == Verify::kWhole) {
      EXPECT_EQ(stats.stored_bytes, chunks * model.chunk_bytes);
    } else {  // chunks may be read in part
      EXPECT_LE(stats.stored_bytes, chunks * model.chunk_bytes);
      EXPECT_GE(stats.stored_bytes, chunks * 4);
    }
  }

  void check(const Array& array, const Model& model, const Selection& selection, const Meaning& meaning,
             bool turned = false) {
    const auto resolved = array.resolve(selection);
    ASSERT_TRUE(resolved.ok()) << resolved.status().to_string();
    TensorView tensor;
    tensor.shape = meaning.result_shape();
    ASSERT_EQ(resolved->shape, tensor.shape);
    std::uint64_t count = 1;
    for (const std::uint64_t extent : tensor.shape) count *= extent;
    // Fortran order, with a gap behind each element.
    if (turned) {
      std::int64_t stride = 8;
      for (const std::uint64_t extent : tensor.shape) {
        tensor.strides_bytes.push_back(stride);
        stride *= static_cast<std::int64_t>(extent);
      }
    }
    auto buffer = Buffer::allocate(*device, count * 8 + 8).value();
    tensor = {buffer, array.info().dtype, tensor.shape, tensor.strides_bytes};
    Stats stats;
    const ReadOptions options = next_options();
    const Status status = array.read(selection, tensor, *device, options, &stats);
    ASSERT_TRUE(status.ok()) << status.to_string();
    std::vector<std::uint32_t> got(count * 2 + 2);
    ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), count * 8 + 8).ok());
    std::set<Shape> touched;
    Shape at(tensor.shape.size(), 0);
    std::uint64_t number = 0;
    bool same = true;
    meaning.each([&](const Shape& place) {
      std::uint64_t where = number++;
      if (turned) {
        std::int64_t bytes = 0;
        for (std::size_t d = 0; d < at.size(); ++d) bytes += static_cast<std::int64_t>(at[d]) * tensor.strides_bytes[d];
        where = static_cast<std::uint64_t>(bytes) / 4;
        testing::detail::advance(at, tensor.shape);
      }
      same = same && got[where] == model.values[model.linear(place)];
      Shape begin = place;
      for (std::size_t d = 0; d < begin.size() && !model.chunks.empty(); ++d) begin[d] -= begin[d] % model.unit[d];
      if (model.chunks.count(begin) != 0) touched.insert(begin);
    });
    EXPECT_TRUE(same);
    EXPECT_EQ(number, count);
    EXPECT_EQ(stats.chunks, touched.size()) << "each chunk once";
    EXPECT_EQ(stats.decoded_bytes, count * 4);
    check_stored(stats, model, options, touched.size());
    last = stats;
  }

  // Reads all selections together into one buffer. Each part must equal its own read, and each chunk is read once.
  void check_together(const Array& array, const Model& model, const std::vector<Selection>& selections,
                      const std::vector<Meaning>& meanings) {
    std::vector<ReadPart> parts(selections.size());
    std::vector<std::uint64_t> first;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].selection = selections[i];
      parts[i].tensor.shape = meanings[i].result_shape();
      std::uint64_t count = 1;
      for (const std::uint64_t extent : parts[i].tensor.shape) count *= extent;
      first.push_back(total);
      total += count;
    }
    auto buffer = Buffer::allocate(*device, total * 4 + 4).value();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].tensor = {buffer, array.info().dtype, meanings[i].result_shape(), {}, first[i] * 4};
    }
    Stats stats;
    const ReadOptions options = next_options();
    const Status status = array.read_many(parts, *device, options, &stats);
    ASSERT_TRUE(status.ok()) << status.to_string();
    std::vector<std::uint32_t> got(total + 1);
    ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), total * 4).ok());
    std::set<Shape> touched;
    std::uint64_t number = 0;
    bool same = true;
    for (const Meaning& meaning : meanings) {
      meaning.each([&](const Shape& place) {
        same = same && got[number++] == model.values[model.linear(place)];
        Shape begin = place;
        for (std::size_t d = 0; d < begin.size() && !model.chunks.empty(); ++d) begin[d] -= begin[d] % model.unit[d];
        if (model.chunks.count(begin) != 0) touched.insert(begin);
      });
    }
    EXPECT_TRUE(same);
    EXPECT_EQ(number, total);
    EXPECT_EQ(stats.chunks, touched.size()) << "each chunk once";
    EXPECT_EQ(stats.decoded_bytes, total * 4);
    check_stored(stats, model, options, touched.size());
  }

  support::TempDir directory;
  std::optional<Context> context;
  std::optional<Store> store;
  std::optional<Device> device;
  Stats last;
  unsigned reads = 0;
};

std::vector<std::size_t> any_order(std::size_t rank, std::mt19937_64& random) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

Model any_model(std::mt19937_64& random) {
  Model model;
  const std::size_t rank = random() % 6, depth = random() % 4;
  model.checked = random() % 2 == 0;
  model.missing = random() % 3 == 0 ? 4 : 0;
  model.seed = static_cast<std::uint32_t>(random());
  Shape extent(rank);
  for (auto& e : extent) e = 1 + random() % (rank > 2 ? 2 : 5);
  // From the lowest level up: each shape divides the one around it.
  std::vector<Shape> shapes = {extent};
  for (std::size_t level = 0; level < depth; ++level) {
    for (auto& e : extent) e *= 1 + random() % (rank > 2 ? 2 : 3);
    shapes.push_back(extent);
  }
  model.chunk = extent;
  for (const std::uint64_t e : extent) {
    model.shape.push_back(random() % 20 == 0 ? 0 : 1 + random() % (e * (rank > 3 ? 2 : 3)));
  }
  std::vector<std::size_t> axes(rank);
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  for (std::size_t level = 0; level < depth; ++level) {
    Level at;
    at.at_end = random() % 2 == 0;
    if (random() % 2 == 0 && rank > 0) at.order = any_order(rank, random);
    Shape unused(rank);
    Model::permute(at.order, unused, axes);
    for (const std::size_t axis : axes) at.inner.push_back(shapes[depth - 1 - level][axis]);
    model.levels.push_back(at);
  }
  if (random() % 2 == 0 && rank > 0) model.leaf_order = any_order(rank, random);
  return model;
}

void any_selection(const Model& model, std::mt19937_64& random, Selection& selection, Meaning& meaning) {
  const std::size_t rank = model.shape.size();
  const bool empty = std::count(model.shape.begin(), model.shape.end(), 0u) > 0;
  if (rank > 0 && !empty && random() % 4 == 0) {
    meaning.points = true;
    std::vector<std::vector<std::int64_t>> coordinates(rank);
    const std::size_t count = random() % 40;
    for (std::size_t d = 0; d < rank; ++d) {
      const bool one = d > 0 && random() % 4 == 0;
      meaning.lists.emplace_back();
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t index = one && i > 0        ? meaning.lists[d][0]
                                    : random() % 3 == 0 ? (i % model.shape[d])
                                                        : random() % model.shape[d];
        meaning.lists[d].push_back(index);
        if (one && i > 0) continue;
        const auto given = static_cast<std::int64_t>(index);
        coordinates[d].push_back(random() % 3 == 0 ? given - static_cast<std::int64_t>(model.shape[d]) : given);
      }
    }
    selection = points(std::move(coordinates));
    return;
  }
  for (std::size_t d = 0; d < rank; ++d) {
    const std::uint64_t extent = model.shape[d];
    meaning.lists.emplace_back();
    meaning.dropped.push_back(false);
    Shape& list = meaning.lists.back();
    SelectionItem item;
    switch (random() % 5) {
      case 0:
        if (extent == 0) break;
        item.kind = SelectionItem::Kind::kIndex;
        list.push_back(random() % extent);
        item.start = static_cast<std::int64_t>(list[0]);
        meaning.dropped.back() = true;
        break;
      case 1: {
        item.start = static_cast<std::int64_t>(extent == 0 ? 0 : random() % extent);
        item.stop = *item.start + static_cast<std::int64_t>(random() % (extent + 3));
        item.step = static_cast<std::int64_t>(1 + random() % 5);
        for (std::int64_t i = *item.start; i < std::min(*item.stop, static_cast<std::int64_t>(extent));
             i += item.step) {
          list.push_back(static_cast<std::uint64_t>(i));
        }
        break;
      }
      case 2: {
        std::vector<bool> where(extent);
        for (std::uint64_t i = 0; i < extent; ++i) {
          where[i] = random() % 2 == 0;
          if (where[i]) list.push_back(i);
        }
        item = mask(where);
        break;
      }
      case 3: {
        const std::uint64_t size = model.chunk[d], blocks = (extent + size - 1) / size;
        const std::uint64_t first = random() % (blocks + 1), count = random() % (blocks - first + 1);
        item = count == 1 ? block(static_cast<std::int64_t>(first) - static_cast<std::int64_t>(random() % 2 * blocks))
                          : block_range(static_cast<std::int64_t>(first), static_cast<std::int64_t>(first + count));
        for (std::uint64_t i = first * size; i < std::min((first + count) * size, extent); ++i) list.push_back(i);
        break;
      }
      default: {
        // Ascending and descending runs, repeats, and single indexes.
        std::vector<std::int64_t> indices;
        for (std::uint64_t left = extent == 0 ? 0 : random() % 6; left > 0; --left) {
          std::int64_t index = static_cast<std::int64_t>(random() % extent);
          const std::int64_t step = static_cast<std::int64_t>(random() % 4) - 1;
          for (std::uint64_t i = random() % 5; i > 0 && index >= 0 && index < static_cast<std::int64_t>(extent); --i) {
            list.push_back(static_cast<std::uint64_t>(index));
            indices.push_back(random() % 4 == 0 ? index - static_cast<std::int64_t>(extent) : index);
            index += step;
          }
        }
        item = index_list(std::move(indices));
      }
    }
    if (item.kind == SelectionItem::Kind::kSlice && !item.start) {  // an empty dimension: everything
      item = SelectionItem();
    }
    selection.push_back(std::move(item));
  }
}

TEST_P(SelectionRead, AnyArrayAnySelection) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 60; ++round) {
    Model model = any_model(random);
    const std::string path = "round" + std::to_string(round);
    ASSERT_TRUE(model.write(*Access::impl(*store), path).ok());
    auto array = Array::open(*store, path);
    ASSERT_TRUE(array.ok()) << array.status().to_string();
    for (int pick = 0; pick < 12; ++pick) {
      Selection selection;
      Meaning meaning;
      any_selection(model, random, selection, meaning);
      SCOPED_TRACE("round " + std::to_string(round) + " selection " + std::to_string(pick) + " " + model.codecs(0));
      check(*array, model, selection, meaning, pick % 3 == 2);
      if (HasFailure()) return;
    }
  }
}

Model nested();

TEST_P(SelectionRead, AnySelectionsTogether) {
  std::mt19937_64 random(23);
  for (int round = 0; round < 60; ++round) {
    Model model = any_model(random);
    const std::string path = "together" + std::to_string(round);
    ASSERT_TRUE(model.write(*Access::impl(*store), path).ok());
    auto array = Array::open(*store, path);
    ASSERT_TRUE(array.ok()) << array.status().to_string();
    for (int pick = 0; pick < 4; ++pick) {
      const std::size_t count = 1 + random() % 6;
      std::vector<Selection> selections(count);
      std::vector<Meaning> meanings(count);
      for (std::size_t i = 0; i < count; ++i) any_selection(model, random, selections[i], meanings[i]);
      SCOPED_TRACE("round " + std::to_string(round) + " pick " + std::to_string(pick) + " " + model.codecs(0));
      check_together(*array, model, selections, meanings);
      if (HasFailure()) return;
    }
  }
}

// A shard that is replaced while the array is open is noticed by arrays opened with `revalidate`.
TEST_P(SelectionRead, ReplacedShardsAreSeenWithRevalidation) {
  Model model = nested();
  ASSERT_TRUE(model.write(*Access::impl(*store), "a").ok());
  OpenOptions options;
  options.revalidate = true;
  auto looks = Array::open(*store, "a", options).value();
  const Selection all = parse_selection(":").value();
  Meaning meaning{false, {Shape(64), Shape(64)}, {false, false}};
  for (Shape& list : meaning.lists) std::iota(list.begin(), list.end(), std::uint64_t{0});
  check(looks, model, all, meaning);
  check(looks, model, all, meaning);
  Model other = nested();
  other.seed = 99;
  ASSERT_TRUE(other.write(*Access::impl(*store), "a").ok());
  check(looks, other, all, meaning);
}

TEST_P(SelectionRead, FromADocumentThatIsNotStored) {
  Model model = nested();
  ASSERT_TRUE(model.write(*Access::impl(*store), "a/b").ok());
  const auto stored = Access::impl(*store)->get("a/b/zarr.json", 1 << 20).value();
  const std::string document(reinterpret_cast<const char*>(stored.data()), stored.size());
  auto array = Array::from_document(*store, "a/b", 3, document);
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  check(*array, model, parse_selection("33, 17").value(), {false, {{33}, {17}}, {true, true}});
  EXPECT_EQ(Array::from_document(*store, "a/b", 4, document).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Array::from_document(*store, "a/b", 3, "{").status().code(), Code::kCorrupt);
  EXPECT_EQ(Array::from_document(*store, "a/b", 2, document).status().code(), Code::kCorrupt);
  EXPECT_EQ(Array::from_document(*store, "../b", 3, document).status().code(), Code::kInvalidArgument);
}

TEST_P(SelectionRead, TogetherRefusesAnyInvalidPart) {
  Model model = nested();
  ASSERT_TRUE(model.write(*Access::impl(*store), "a").ok());
  auto array = Array::open(*store, "a").value();
  auto buffer = Buffer::allocate(*device, 64).value();
  EXPECT_EQ(array.read_many({}, *device).code(), Code::kInvalidArgument);
  std::vector<ReadPart> parts(2);
  const DataType& dtype = array.info().dtype;
  parts[0] = {parse_selection("0, 0:4").value(), {buffer, dtype, {4}}};
  parts[1] = {parse_selection("0, 64").value(), {buffer, dtype, {}, {}, 16}};
  Status status = array.read_many(parts, *device);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.to_string().find("selection 1"), std::string::npos) << status.to_string();
  parts[1] = {parse_selection("0, 0:4").value(), {buffer, dtype, {5}, {}, 16}};
  EXPECT_EQ(array.read_many(parts, *device).code(), Code::kInvalidArgument);
  parts[1].tensor.shape = {4};
  EXPECT_TRUE(array.read_many(parts, *device).ok());
}

Model nested() {
  Model model;
  model.shape = model.chunk = {64, 64};
  model.levels = {{{}, {16, 32}, true}, {{1, 0}, {8, 4}, false}};  // chunks of 4 x 8
  model.checked = true;
  return model;
}

// Reads one of 256 chunks: the index of each level, then what it refers to.
TEST_P(SelectionRead, OneChunkOfNestedShardsReadsOneChunk) {
  Model model = nested();
  ASSERT_TRUE(model.write(*Access::impl(*store), "a").ok());
  auto array = Array::open(*store, "a").value();
  EXPECT_EQ(array.info().chunk_shape, (Shape{4, 8}));
  EXPECT_EQ(array.info().shard_shape, (Shape{64, 64}));
  EXPECT_EQ(array.info().outer_codecs, (std::vector<std::string>{"sharding_indexed", "sharding_indexed"}));
  check(array, model, parse_selection("33, 17").value(), {false, {{33}, {17}}, {true, true}});
  EXPECT_EQ(last.chunks, 1u);
  EXPECT_EQ(last.requests, 3u);
  // The indexes have 4 x 2 and 2 x 8 entries. Both indexes and the chunk end in a checksum.
  EXPECT_EQ(last.stored_bytes, 4u * 8 * 4 + 4);
  EXPECT_EQ(last.read_bytes, last.stored_bytes + (8u * 16 + 4) + (16u * 16 + 4));
}

TEST_P(SelectionRead, DuplicatesInAnyOrderReadEachChunkOnce) {
  Model model = nested();
  ASSERT_TRUE(model.write(*Access::impl(*store), "a").ok());
  auto array = Array::open(*store, "a").value();
  check(array, model, parse_selection("[63, 0, 63, 1, 0, -1], [5, 5]").value(),
        {false, {{63, 0, 63, 1, 0, 63}, {5, 5}}, {false, false}});
  EXPECT_EQ(last.chunks, 2u);
  check(array, model, parse_points("[63, 0, 63, 0, 1], 5").value(), {true, {{63, 0, 63, 0, 1}, {5, 5, 5, 5, 5}}, {}});
  EXPECT_EQ(last.chunks, 2u);
}

TEST_P(SelectionRead, EmptyListsAndMasksReadNothing) {
  Model model = nested();
  ASSERT_TRUE(model.write(*Access::impl(*store), "a").ok());
  auto array = Array::open(*store, "a").value();
  check(array, model, {index_list({})}, {false, {{}, Shape(64)}, {false, false}});
  EXPECT_EQ(last.requests, 0u);
  check(array, model, {SelectionItem(), mask(std::vector<bool>(64))}, {false, {Shape(64), {}}, {false, false}});
  check(array, model, points({{}, {}}), {true, {{}, {}}, {}});
  EXPECT_EQ(last.requests, 0u);
}

TEST_P(SelectionRead, MaskOfAllDimensionsIsPoints) {
  Model model = nested();
  ASSERT_TRUE(model.write(*Access::impl(*store), "a").ok());
  auto array = Array::open(*store, "a").value();
  std::vector<std::uint8_t> where(64 * 64);
  Meaning meaning{true, {{}, {}}, {}};
  for (const std::uint64_t i : {7u, 8u, 9u, 700u, 4095u}) {
    where[i] = 1;
    meaning.lists[0].push_back(i / 64);
    meaning.lists[1].push_back(i % 64);
  }
  check(array, model, mask_points(where, array.info().shape).value(), meaning);
}

// A damaged index inside a shard fails the chunks below it, by name, and nothing else.
TEST_P(SelectionRead, DamagedInnerIndexIsOneFailure) {
  Model model = nested();
  ASSERT_TRUE(model.write(*Access::impl(*store), "good").ok());
  // The first inner shard's index is at its start. That shard is stored last, right before the outer index.
  std::vector<std::size_t> axes = {0, 1};
  Bytes object = Model(model).encode(0, model.chunk, axes, {0, 0});
  std::uint64_t first = 0;
  std::memcpy(&first, object.data() + object.size() - (16 * 8 + 4), 8);
  object[static_cast<std::size_t>(first) + 3] ^= std::byte{1};
  ASSERT_TRUE(testing::put_text(*Access::impl(*store), "bad/zarr.json",
                                R"({"zarr_format":3,"node_type":"array","shape":[64,64],"data_type":"uint32",)"
                                R"("chunk_grid":{"name":"regular","configuration":{"chunk_shape":[64,64]}},)"
                                R"("chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":)" +
                                    model.codecs(0) + "}")
                  .ok());
  ASSERT_TRUE(Access::impl(*store)->put("bad/c/0/0", object).ok());
  auto array = Array::open(*store, "bad").value();
  auto buffer = Buffer::allocate(*device, 64 * 64 * 4).value();
  ReadOptions options;
  options.collect_errors = true;
  auto reading = array.read_async({}, {buffer, array.info().dtype, {64, 64}}, *device, options);
  ASSERT_TRUE(reading.ok()) << reading.status().to_string();
  EXPECT_TRUE(reading->wait().ok());
  ASSERT_EQ(reading->errors().size(), 1u);
  EXPECT_EQ(reading->errors()[0].status.code(), Code::kCorrupt);
  EXPECT_EQ(reading->errors()[0].key, "bad/c/0/0");
  EXPECT_EQ(reading->stats().chunks, 7u * 16);
}

TEST_P(SelectionRead, WrongSelectionsAreNamed) {
  Model model = nested();
  ASSERT_TRUE(model.write(*Access::impl(*store), "a").ok());
  auto array = Array::open(*store, "a").value();
  const auto message = [&](const Selection& selection) {
    const Status status = array.resolve(selection).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(message({SelectionItem(), index_list({1, 64})}),
            "selection of dimension 1: entry 1 of the list, index 64 is out of range for extent 64");
  EXPECT_EQ(message({mask({true})}), "selection of dimension 0: the mask has 1 entries, the extent is 64");
  EXPECT_EQ(message({block(1)}), "selection of dimension 0: block 1 is out of range for extent 1");
  EXPECT_EQ(message(points({{1}})), "points have coordinates in 1 dimensions, but the array has 2");
  EXPECT_EQ(message(points({{1, 2}, {1, 2, 3}})), "selection of dimension 1: 3 coordinates, but dimension 0 has 2");
  EXPECT_EQ(message({points({{1}})[0], SelectionItem()}),
            "selection of dimension 1: points are a selection of their own and cannot be mixed with other items");
  EXPECT_EQ(resolve_selection({block(0)}, array.info().shape).status().code(), Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, SelectionRead,
                         ::testing::Values(std::tuple{"host", "memory", false}, std::tuple{"host", "file", false},
                                           std::tuple{"host-staged", "file", false},
                                           std::tuple{"host-staged", "file", true},
                                           std::tuple{"host-staged", "memory", true}));

}  // namespace
}  // namespace headrace
