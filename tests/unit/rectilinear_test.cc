// The chunk grid "rectilinear": which grids are accepted, and that every selection of every grid yields its elements.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/access.h"
#include "base/json.h"
#include "tests/support/raw_array.h"
#include "zarr/metadata/metadata.h"

namespace headrace::zarr {
namespace {

using base::Json;

Result<RectilinearGrid> parse(const char* shapes, const std::vector<std::uint64_t>& shape) {
  return parse_rectilinear(Json{{"kind", "inline"}, {"chunk_shapes", Json::parse(shapes)}}, shape);
}

// "16 10 | 24 14"
std::string edges_of(const RectilinearGrid& grid) {
  std::string out;
  for (const auto& axis : grid.axes) {
    out += out.empty() ? "" : " |";
    std::uint64_t element = 0, chunk = 0;
    for (const EdgeRun& run : axis) {
      EXPECT_EQ(run.first_element, element);
      EXPECT_EQ(run.first_chunk, chunk);
      for (std::uint64_t i = 0; i < run.count; ++i) out += " " + std::to_string(run.edge);
      element += run.edge * run.count;
      chunk += run.count;
    }
  }
  return out;
}

TEST(RectilinearGrid, ReadsEveryFormOfTheRegistration) {
  // The specification's own example.
  auto grid = parse("[4, [1, 2, 3], [[4, 2]], [[1, 3], 3], [4, 4, 4]]", {6, 6, 6, 6, 6});
  ASSERT_TRUE(grid.ok()) << grid.status().to_string();
  EXPECT_EQ(edges_of(*grid), " 4 4 | 1 2 3 | 4 4 | 1 1 1 3 | 4 4 4");
  EXPECT_EQ(grid->chunk_count(4), 3u);
  EXPECT_EQ(grid->largest_edge(3), 3u);
  grid = parse("[[[10, 5], 5, 5], [15, 15]]", {60, 30});
  ASSERT_TRUE(grid.ok());
  EXPECT_EQ(edges_of(*grid), " 10 10 10 10 10 5 5 | 15 15");
  EXPECT_EQ(grid->axes[1].size(), 1u);  // runs are joined
  EXPECT_TRUE(parse("[]", {}).ok());
}

TEST(RectilinearGrid, EmptyAxesNeedNoChunks) {
  auto grid = parse("[3, [], [2]]", {0, 0, 0});
  ASSERT_TRUE(grid.ok()) << grid.status().to_string();
  EXPECT_EQ(grid->chunk_count(0), 0u);
  EXPECT_EQ(grid->chunk_count(2), 1u);
}

TEST(RectilinearGrid, RefusesWhatTheRegistrationForbids) {
  struct Row {
    const char *shapes, *part;
  };
  for (const Row& row :
       {Row{"[[3, 2]]", "covers 5 elements"}, Row{"[[]]", "covers 0 elements"}, Row{"[0]", "from 1 to"},
        Row{"[[3, 0, 3]]", "chunk_shapes[0][1]"}, Row{"[-6]", "from 1 to"}, Row{"[6.0]", "from 1 to"},
        Row{"[[[0, 6]]]", "chunk_shapes[0][0][0]"}, Row{"[[[6, 0]]]", "chunk_shapes[0][0][1]"},
        Row{"[[[3]]]", "a pair"}, Row{"[[[3, 2, 1]]]", "a pair"}, Row{"[[[[3, 2], 1]]]", "from 1 to"},
        Row{"[[\"6\"]]", "from 1 to"}, Row{"[null]", "from 1 to"}, Row{"[6, 6]", "2 dimensions"},
        Row{"[]", "0 dimensions"}, Row{"6", "a list"},
        Row{"[[9223372036854775807, 9223372036854775807]]", "2^63 - 1 elements"},
        Row{"[[[4294967296, 4294967296]]]", "2^63 - 1 elements"}}) {
    const Status status = parse(row.shapes, {6}).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << row.shapes;
    EXPECT_NE(status.message().find(row.part), std::string::npos) << status.to_string();
  }
  EXPECT_EQ(parse_rectilinear(Json::parse(R"({"chunk_shapes": [6]})"), {6}).status().code(), Code::kCorrupt);
  EXPECT_EQ(parse_rectilinear(Json::parse(R"({"kind": "inline"})"), {6}).status().code(), Code::kCorrupt);
  EXPECT_EQ(parse_rectilinear(Json::parse(R"({"kind": 5, "chunk_shapes": [6]})"), {6}).status().code(), Code::kCorrupt);
  EXPECT_EQ(parse_rectilinear(Json::parse(R"({"kind": "inline", "chunk_shapes": [6], "x": 1})"), {6}).status().code(),
            Code::kCorrupt);
}

TEST(RectilinearGrid, RunsCostNoMoreThanTheirText) {
  auto grid = parse("[[[1, 4611686018427387904], 5]]", {4611686018427387904});
  ASSERT_TRUE(grid.ok()) << grid.status().to_string();
  EXPECT_EQ(grid->axes[0].size(), 2u);
  EXPECT_EQ(grid->chunk_count(0), 4611686018427387905u);
}

// An array whose element i (C order) is i, in chunks with any edges.
struct Stored {
  std::vector<std::uint64_t> shape;
  std::vector<std::vector<std::uint64_t>> edges;
  bool transposed = false, sharded = false;
  int missing_every = 0;
};

class RectilinearRead : public ::testing::TestWithParam<const char*> {
 protected:
  RectilinearRead() {
    context_.emplace(Context::create({}).value());
    make_store();
    device_.emplace(Device::open(GetParam()).value());
  }

  void make_store() {
    static int number = 0;
    store_.emplace(Store::open(*context_, "memory://rectilinear_" + std::to_string(++number)).value());
  }

  std::string document(const Stored& about) {
    Json shapes = Json::array();
    for (const auto& axis : about.edges) shapes.push_back(axis);
    Json codecs = Json::array();
    if (about.transposed) {
      Json order = Json::array();
      for (std::size_t i = 0; i < about.shape.size(); ++i) order.push_back(about.shape.size() - 1 - i);
      codecs.push_back({{"name", "transpose"}, {"configuration", {{"order", order}}}});
    }
    const Json bytes = {{"name", "bytes"}, {"configuration", {{"endian", "little"}}}};
    if (about.sharded) {
      codecs.push_back({{"name", "sharding_indexed"},
                        {"configuration",
                         {{"chunk_shape", std::vector<int>(about.shape.size(), 2)},
                          {"codecs", {bytes}},
                          {"index_codecs", {bytes}}}}});
    } else {
      codecs.push_back(bytes);
    }
    return Json{
        {"zarr_format", 3},
        {"node_type", "array"},
        {"shape", about.shape},
        {"data_type", "uint32"},
        {"chunk_grid", {{"name", "rectilinear"}, {"configuration", {{"kind", "inline"}, {"chunk_shapes", shapes}}}}},
        {"chunk_key_encoding", {{"name", "default"}}},
        {"fill_value", 4000000000u},
        {"codecs", codecs}}
        .dump();
  }

  // Elements of a box; garbage outside the array.
  std::vector<std::uint32_t> box(const Stored& about, const std::vector<std::uint64_t>& begin,
                                 const std::vector<std::uint64_t>& extent, bool reversed) {
    testing::RawArray raw;
    raw.shape = about.shape;
    std::uint64_t count = 1;
    for (std::uint64_t n : extent) count *= n;
    std::vector<std::uint32_t> out(count);
    std::vector<std::uint64_t> at(extent.size(), 0);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t linear = 0, place = 0, stride = 1;
      bool inside = true;
      for (std::size_t d = 0; d < at.size(); ++d) {
        linear = linear * about.shape[d] + begin[d] + at[d];
        inside = inside && begin[d] + at[d] < about.shape[d];
      }
      for (std::size_t k = 0; k < at.size(); ++k) {  // fastest axis first
        const std::size_t d = reversed ? k : at.size() - 1 - k;
        place += at[d] * stride;
        stride *= extent[d];
      }
      out[place] = inside ? static_cast<std::uint32_t>(linear) : 0xDEADBEEF;
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < extent[d]) break;
        at[d] = 0;
      }
    }
    return out;
  }

  // Writes the array; `expected` receives what a reader must find.
  void write(const Stored& about, std::vector<std::uint32_t>& expected) {
    make_store();
    ASSERT_TRUE(testing::put_text(*Access::impl(*store_), "zarr.json", document(about)).ok());
    std::uint64_t elements = 1;
    for (std::uint64_t n : about.shape) elements *= n;
    expected.resize(elements);
    for (std::uint64_t i = 0; i < elements; ++i) expected[i] = static_cast<std::uint32_t>(i);
    std::vector<std::uint64_t> chunk(about.shape.size(), 0), begin(about.shape.size(), 0);
    for (std::uint64_t number = 0;; ++number) {
      std::vector<std::uint64_t> extent;
      std::string key = "c";
      for (std::size_t d = 0; d < chunk.size(); ++d) {
        extent.push_back(about.edges[d][chunk[d]]);
        key += "/" + std::to_string(chunk[d]);
        begin[d] = 0;
        for (std::uint64_t k = 0; k < chunk[d]; ++k) begin[d] += about.edges[d][k];
      }
      if (about.missing_every > 0 && number % static_cast<std::uint64_t>(about.missing_every) == 0) {
        for (std::uint64_t i = 0; i < elements; ++i) {
          std::uint64_t rest = i;
          bool inside = true;
          for (std::size_t d = about.shape.size(); d-- > 0;) {
            const std::uint64_t position = rest % about.shape[d];
            rest /= about.shape[d];
            inside = inside && position >= begin[d] && position < begin[d] + extent[d];
          }
          if (inside) expected[i] = 4000000000u;
        }
      } else {
        put_chunk(about, key, begin, extent);
      }
      std::size_t d = chunk.size();
      while (d > 0 && ++chunk[d - 1] == about.edges[d - 1].size()) chunk[--d] = 0;
      if (d == 0) return;
    }
  }

  void put_chunk(const Stored& about, const std::string& key, const std::vector<std::uint64_t>& begin,
                 const std::vector<std::uint64_t>& extent) {
    std::vector<std::uint32_t> values;
    std::vector<std::uint64_t> index;
    if (!about.sharded) {
      values = box(about, begin, extent, about.transposed);
    } else {
      std::vector<std::uint64_t> inner(extent.size(), 0);
      while (true) {
        std::vector<std::uint64_t> at;
        for (std::size_t d = 0; d < inner.size(); ++d) at.push_back(begin[d] + 2 * inner[d]);
        const auto part = box(about, at, std::vector<std::uint64_t>(extent.size(), 2), false);
        index.push_back(values.size() * 4);
        index.push_back(part.size() * 4);
        values.insert(values.end(), part.begin(), part.end());
        std::size_t d = inner.size();
        while (d > 0 && ++inner[d - 1] == extent[d - 1] / 2) inner[--d] = 0;
        if (d == 0) break;
      }
    }
    std::vector<std::byte> bytes(values.size() * 4 + index.size() * 8);
    std::memcpy(bytes.data(), values.data(), values.size() * 4);
    if (!index.empty()) std::memcpy(bytes.data() + values.size() * 4, index.data(), index.size() * 8);
    ASSERT_TRUE(Access::impl(*store_)->put(key, bytes).ok());
  }

  // Reads `text` and compares it with the same part of `expected`.
  void check(const Array& array, const Stored& about, const std::string& text,
             const std::vector<std::uint32_t>& expected) {
    const Selection selection = parse_selection(text).value();
    const ResolvedSelection resolved = resolve_selection(selection, about.shape).value();
    std::uint64_t count = 1;
    for (const auto& dim : resolved.dims) count *= dim.count;
    auto buffer = Buffer::allocate(*device_, count * 4).value();
    Stats stats;
    const Status status = array.read(selection, {buffer, array.info().dtype, resolved.shape}, *device_, {}, &stats);
    ASSERT_TRUE(status.ok()) << text << status.to_string();
    EXPECT_EQ(stats.decoded_bytes, count * 4) << text;
    std::vector<std::uint32_t> values(count);
    if (count > 0) {
      ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(values.data()), count * 4).ok());
    }
    std::vector<std::uint64_t> at(about.shape.size(), 0);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t linear = 0;
      for (std::size_t d = 0; d < at.size(); ++d) {
        linear = linear * about.shape[d] + resolved.dims[d].start + at[d] * resolved.dims[d].step;
      }
      ASSERT_EQ(values[i], expected[linear]) << text << " element " << i;
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < resolved.dims[d].count) break;
        at[d] = 0;
      }
    }
  }

  // `lists`: the indexes that `selection` takes along each axis, or those of each point.
  void check_lists(const Array& array, const Stored& about, const Selection& selection, bool points,
                   const std::vector<std::vector<std::uint64_t>>& lists, const std::vector<std::uint32_t>& expected) {
    const auto resolved = array.resolve(selection);
    ASSERT_TRUE(resolved.ok()) << resolved.status().to_string();
    // In the result's C order: the index of each element in the array, and the chunk that contains it.
    std::vector<std::uint64_t> linear{0}, chunk{0};
    if (points) {
      linear.assign(lists[0].size(), 0);
      chunk = linear;
    }
    for (std::size_t d = 0; d < lists.size(); ++d) {
      std::vector<std::uint64_t> next, next_chunk;
      for (std::size_t i = 0; i < linear.size(); ++i) {
        for (std::size_t k = points ? i : 0; k < (points ? i + 1 : lists[d].size()); ++k) {
          std::uint64_t number = 0, end = 0;
          while ((end += about.edges[d][number]) <= lists[d][k]) ++number;
          next.push_back(linear[i] * about.shape[d] + lists[d][k]);
          next_chunk.push_back(chunk[i] * about.edges[d].size() + number);
        }
      }
      linear = std::move(next);
      chunk = std::move(next_chunk);
    }
    auto buffer = Buffer::allocate(*device_, std::max<std::size_t>(linear.size(), 1) * 4).value();
    Stats stats;
    const Status status = array.read(selection, {buffer, array.info().dtype, resolved->shape}, *device_, {}, &stats);
    ASSERT_TRUE(status.ok()) << status.to_string() << document(about);
    std::vector<std::uint32_t> values(linear.size());
    if (!values.empty()) {
      ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(values.data()), values.size() * 4).ok());
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], expected[linear[i]]) << "element " << i << document(about);
    }
    EXPECT_EQ(stats.chunks + stats.missing_chunks, std::set(chunk.begin(), chunk.end()).size()) << document(about);
  }

  // A random array with up to `most` axes.
  template <class Random>
  Stored make_stored(Random& random, std::size_t most) {
    Stored about;
    const std::size_t rank = 1 + random() % most;
    about.transposed = random() % 3 == 0;
    about.sharded = !about.transposed && random() % 3 == 0;
    about.missing_every = random() % 2 == 0 ? 0 : static_cast<int>(2 + random() % 4);
    for (std::size_t d = 0; d < rank; ++d) {
      std::vector<std::uint64_t> edges;
      std::uint64_t sum = 0;
      for (std::size_t i = 0, n = 1 + random() % 6; i < n; ++i) {
        edges.push_back((1 + random() % 4) * (about.sharded ? 2 : 1));
        sum += edges.back();
      }
      about.shape.push_back(1 + random() % sum);  // allows chunks beyond the array
      about.edges.push_back(std::move(edges));
    }
    return about;
  }

  // A random item of any kind; `list` receives the indexes it takes.
  template <class Random>
  static SelectionItem make_item(Random& random, const Stored& about, std::size_t axis,
                                 std::vector<std::uint64_t>& list) {
    const std::uint64_t extent = about.shape[axis];
    const std::vector<std::uint64_t>& edges = about.edges[axis];
    const auto add = [&](std::uint64_t begin, std::uint64_t end, std::uint64_t step) {
      for (std::uint64_t i = begin; i < std::min(end, extent); i += step) list.push_back(i);
    };
    const auto begin_of = [&](std::uint64_t chunk) {
      return std::accumulate(edges.begin(), edges.begin() + static_cast<std::ptrdiff_t>(chunk), std::uint64_t{0});
    };
    switch (random() % 6) {
      case 0: {
        std::vector<std::int64_t> indices;
        for (std::size_t i = 0, n = random() % 9; i < n; ++i) {
          list.push_back(random() % extent);
          indices.push_back(static_cast<std::int64_t>(list.back()));
          if (random() % 3 == 0) indices.back() -= static_cast<std::int64_t>(extent);
        }
        return index_list(std::move(indices));
      }
      case 1: {
        std::vector<bool> where(static_cast<std::size_t>(extent));
        for (std::size_t i = 0; i < where.size(); ++i) {
          if ((where[i] = random() % 3 == 0)) list.push_back(i);
        }
        return mask(where);
      }
      case 2: {
        const std::uint64_t number = random() % edges.size();
        add(begin_of(number), begin_of(number + 1), 1);
        return block(static_cast<std::int64_t>(number) -
                     (random() % 2 == 0 ? 0 : static_cast<std::int64_t>(edges.size())));
      }
      case 3: {
        const std::uint64_t first = random() % edges.size(), end = first + random() % (edges.size() - first + 1);
        add(begin_of(first), begin_of(end), 1);
        return block_range(static_cast<std::int64_t>(first), static_cast<std::int64_t>(end));
      }
      case 4: {
        list.push_back(random() % extent);
        SelectionItem item;
        item.kind = SelectionItem::Kind::kIndex;
        item.start = static_cast<std::int64_t>(list.back());
        return item;
      }
      default: {
        SelectionItem item;
        const std::uint64_t begin = random() % extent, end = begin + random() % (extent + 1), step = 1 + random() % 5;
        item.start = static_cast<std::int64_t>(begin);
        item.stop = static_cast<std::int64_t>(end);
        item.step = static_cast<std::int64_t>(step);
        add(begin, end, step);
        return item;
      }
    }
  }

  std::optional<Context> context_;
  std::optional<Store> store_;
  std::optional<Device> device_;
};

TEST_P(RectilinearRead, GivesEveryElementOfEverySelection) {
  std::mt19937 random(4711);
  for (int round = 0; round < 40; ++round) {
    const Stored about = round == 0 ? Stored() : make_stored(random, 3);
    const std::size_t rank = about.shape.size();
    std::vector<std::uint32_t> expected;
    write(about, expected);
    auto array = Array::open(*store_);
    ASSERT_TRUE(array.ok()) << array.status().to_string() << document(about);
    EXPECT_EQ(array->info().chunk_grid, "rectilinear");
    check(*array, about, "...", expected);
    for (int i = 0; i < 12 && rank > 0; ++i) {
      std::string text;
      for (std::size_t d = 0; d < rank; ++d) {
        const int extent = static_cast<int>(about.shape[d]);
        if (d > 0) text += ", ";
        if (random() % 4 == 0) {
          text += std::to_string(static_cast<int>(random() % about.shape[d]));
        } else {
          const int start = static_cast<int>(random() % about.shape[d]);
          text += std::to_string(start) + ":" + std::to_string(start + static_cast<int>(random() % (extent + 1))) +
                  ":" + std::to_string(1 + random() % 5);
        }
      }
      check(*array, about, text, expected);
    }
  }
}

TEST_P(RectilinearRead, ListsMasksBlocksAndPointsGiveTheirElements) {
  std::mt19937 random(1147);
  for (int round = 0; round < 60; ++round) {
    const Stored about = make_stored(random, 3);
    std::vector<std::uint32_t> expected;
    write(about, expected);
    auto array = Array::open(*store_);
    ASSERT_TRUE(array.ok()) << array.status().to_string() << document(about);
    for (int i = 0; i < 12; ++i) {
      Selection selection;
      std::vector<std::vector<std::uint64_t>> lists(about.shape.size());
      for (std::size_t d = 0; d < lists.size(); ++d) {
        selection.push_back(make_item(random, about, d, lists[d]));
      }
      check_lists(*array, about, selection, false, lists, expected);
      if (HasFatalFailure()) return;
    }
    for (int i = 0; i < 6; ++i) {
      const std::size_t count = i == 0 ? 0 : 1 + random() % 40;
      std::vector<std::vector<std::uint64_t>> lists;
      std::vector<std::vector<std::int64_t>> coordinates;
      for (const std::uint64_t extent : about.shape) {
        std::vector<std::uint64_t>& list = lists.emplace_back();
        for (std::size_t k = 0; k < count; ++k) list.push_back(random() % extent);
        coordinates.emplace_back(list.begin(), list.end());
        if (random() % 4 == 0 && count > 0) coordinates.back()[0] -= static_cast<std::int64_t>(extent);
      }
      check_lists(*array, about, points(coordinates), true, lists, expected);
      if (HasFatalFailure()) return;
    }
    std::uint64_t elements = 1;
    for (const std::uint64_t extent : about.shape) elements *= extent;
    std::vector<std::uint8_t> where(elements);
    std::vector<std::vector<std::uint64_t>> lists(about.shape.size());
    for (std::uint64_t i = 0; i < elements; ++i) {
      if ((where[i] = random() % 2) == 0) continue;
      std::uint64_t rest = i;
      for (std::size_t d = about.shape.size(); d-- > 0;) {
        lists[d].push_back(rest % about.shape[d]);
        rest /= about.shape[d];
      }
    }
    check_lists(*array, about, mask_points(where, about.shape).value(), true, lists, expected);
  }
}

// The cost of a selection depends only on its own length.
TEST_P(RectilinearRead, HugeGridsAreSelectedFromWithoutAListOfTheirChunks) {
  make_store();
  const std::string edges = "[[[3, 1000000000000], 5, [2, 1000000000000]], [[1, 4000000]]]";
  ASSERT_TRUE(
      testing::put_text(*Access::impl(*store_), "zarr.json",
                        R"({"zarr_format":3,"node_type":"array","shape":[5000000000005,4000000],"data_type":"uint8",)"
                        R"("chunk_grid":{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":)" +
                            edges +
                            R"(}},"chunk_key_encoding":{"name":"default"},"fill_value":7,)"
                            R"("codecs":["bytes"]})")
          .ok());
  ASSERT_TRUE(Access::impl(*store_)->put("c/1000000000000/2", std::vector<std::byte>(5, std::byte{9})).ok());
  auto array = Array::open(*store_);
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  auto buffer = Buffer::allocate(*device_, 64).value();
  std::vector<std::byte> got(64);
  Selection selection{index_list({4999999999999, 3000000000002, 0, 3000000000002}), index_list({2, 1})};
  ASSERT_TRUE(array->read(selection, {buffer, array->info().dtype, {4, 2}}, *device_).ok());
  ASSERT_TRUE(buffer.copy_to_host(0, got.data(), 8).ok());
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(got[static_cast<std::size_t>(i)], i == 2 || i == 6 ? std::byte{9} : std::byte{7}) << i;
  selection = {block(1000000000000), block(-4)};
  const auto resolved = array->resolve(selection);
  ASSERT_TRUE(resolved.ok()) << resolved.status().to_string();
  EXPECT_EQ(resolved->dims[0].start, 3000000000000u);
  EXPECT_EQ(resolved->dims[0].count, 5u);
  EXPECT_EQ(resolved->dims[1].start, 3999996u);
  selection = points({{3000000000001, 5000000000004}, {2, 0}});
  ASSERT_TRUE(array->read(selection, {buffer, array->info().dtype, {2}}, *device_).ok());
  ASSERT_TRUE(buffer.copy_to_host(0, got.data(), 2).ok());
  EXPECT_EQ(got[0], std::byte{9});
  EXPECT_EQ(got[1], std::byte{7});
}

TEST_P(RectilinearRead, PointsAmongMoreChunksThan64BitsNumberAreRefused) {
  make_store();
  ASSERT_TRUE(
      testing::put_text(*Access::impl(*store_), "zarr.json",
                        R"({"zarr_format":3,"node_type":"array","shape":[4294967296,4294967296],"data_type":"uint8",)"
                        R"("chunk_grid":{"name":"rectilinear","configuration":{"kind":"inline",)"
                        R"("chunk_shapes":[[[1,4294967296]],[[1,4294967296]]]}},)"
                        R"("chunk_key_encoding":{"name":"default"},"fill_value":7,"codecs":["bytes"]})")
          .ok());
  auto array = Array::open(*store_);
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  auto buffer = Buffer::allocate(*device_, 8).value();
  const Status status = array->read(points({{1}, {2}}), {buffer, array->info().dtype, {1}}, *device_);
  EXPECT_EQ(status.code(), Code::kUnsupported) << status.to_string();
  EXPECT_NE(status.message().find("2^64 chunks"), std::string::npos) << status.to_string();
}

TEST_P(RectilinearRead, AsynchronousReadsEndAndCanBeCancelled) {
  Stored about;
  about.shape = {12, 9};
  about.edges = {{1, 2, 3, 6}, {4, 5}};
  std::vector<std::uint32_t> expected;
  write(about, expected);
  auto array = Array::open(*store_).value();
  EXPECT_EQ(array.info().chunk_count, 8u);
  EXPECT_EQ(array.info().chunk_shape, (std::vector<std::uint64_t>{6, 5}));
  auto buffer = Buffer::allocate(*device_, 12 * 9 * 4).value();
  std::uint64_t last_total = 0;
  ReadOptions options;
  options.progress = [&](std::uint64_t, std::uint64_t total) { last_total = total; };
  auto reading = array.read_async({}, {buffer, array.info().dtype, {12, 9}}, *device_, options);
  ASSERT_TRUE(reading.ok());
  ASSERT_TRUE(reading->wait().ok());
  EXPECT_TRUE(reading->done());
  EXPECT_EQ(reading->stats().chunks, 8u);
  EXPECT_TRUE(last_total == 0 || last_total == 8);
  std::vector<std::uint32_t> values(12 * 9);
  ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(values.data()), values.size() * 4).ok());
  EXPECT_EQ(values, expected);
  reading = array.read_async({}, {buffer, array.info().dtype, {12, 9}}, *device_);
  ASSERT_TRUE(reading.ok());
  reading->cancel();
  const Status status = reading->wait();
  EXPECT_TRUE(status.ok() || status.code() == Code::kCancelled) << status.to_string();
}

TEST_P(RectilinearRead, ABadChunkIsNamedAndTheOthersAreRead) {
  Stored about;
  about.shape = {6};
  about.edges = {{1, 2, 3}};
  std::vector<std::uint32_t> expected;
  write(about, expected);
  ASSERT_TRUE(testing::put_text(*Access::impl(*store_), "c/1", "short").ok());
  auto array = Array::open(*store_).value();
  auto buffer = Buffer::allocate(*device_, 24).value();
  const Status status = array.read({}, {buffer, array.info().dtype, {6}}, *device_);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.to_string().find("c/1"), std::string::npos) << status.to_string();
  ReadOptions options;
  options.collect_errors = true;
  auto reading = array.read_async({}, {buffer, array.info().dtype, {6}}, *device_, options).value();
  (void)reading.wait();
  ASSERT_EQ(reading.errors().size(), 1u);
  EXPECT_EQ(reading.errors()[0].key, "c/1");
  EXPECT_EQ(reading.stats().chunks, 2u);
}

TEST_P(RectilinearRead, ShardsThatInnerChunksDoNotDivideAreRefused) {
  Stored about;
  about.shape = {7};
  about.edges = {{4, 3}};
  about.sharded = true;
  ASSERT_TRUE(testing::put_text(*Access::impl(*store_), "zarr.json", document(about)).ok());
  auto array = Array::open(*store_);
  auto buffer = Buffer::allocate(*device_, 28).value();
  const Status status = array.ok() ? array->read({}, {buffer, array->info().dtype, {7}}, *device_) : array.status();
  EXPECT_EQ(status.code(), Code::kCorrupt) << status.to_string();
  EXPECT_NE(status.message().find("does not divide"), std::string::npos) << status.to_string();
}

INSTANTIATE_TEST_SUITE_P(Devices, RectilinearRead, ::testing::Values("host", "host-staged"),
                         [](const auto& about) { return std::string(about.param) == "host" ? "host" : "host_staged"; });

}  // namespace
}  // namespace headrace::zarr
