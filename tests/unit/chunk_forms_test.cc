// Property: one read covers chunks of any number of shapes: all elements are right, each chunk is read once, errors are
// per chunk, progress covers all of them, and the budget is sized for the largest.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "base/fault.h"
#include "support/raw_array.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"
#include "zarr/grid/chunk_order.h"

namespace headrace {
namespace {

using Shape = std::vector<std::uint64_t>;
using testing::element_value;

constexpr std::uint32_t kFill = 4'000'000'000u, kUntouched = 0x55555555;
constexpr std::uint64_t kShapes = 1000;

// An array whose element i (C order) is element_value(i, 1), in chunks with any edges.
struct Stored {
  std::vector<Shape> edges;  // for each axis
  bool zstd = false;
  std::uint64_t missing_every = 0;

  Shape shape() const {
    Shape out;
    for (const Shape& axis : edges) out.push_back(std::accumulate(axis.begin(), axis.end(), std::uint64_t{0}));
    return out;
  }
  Shape counts() const {
    Shape out;
    for (const Shape& axis : edges) out.push_back(axis.size());
    return out;
  }
  // Ends of the chunks along each axis.
  std::vector<Shape> ends() const {
    std::vector<Shape> out = edges;
    for (Shape& axis : out) std::partial_sum(axis.begin(), axis.end(), axis.begin());
    return out;
  }
  bool missing(std::uint64_t number) const { return missing_every != 0 && number % missing_every == 0; }
};

// Number (in C order) of the chunk that contains the element.
std::uint64_t chunk_of(const std::vector<Shape>& ends, const Shape& element) {
  std::uint64_t number = 0;
  for (std::size_t d = 0; d < element.size(); ++d) {
    const auto chunk = std::upper_bound(ends[d].begin(), ends[d].end(), element[d]) - ends[d].begin();
    number = number * ends[d].size() + static_cast<std::uint64_t>(chunk);
  }
  return number;
}

std::string key_of(const Shape& chunk) {
  std::string key = "c";
  for (const std::uint64_t index : chunk) key += "/" + std::to_string(index);
  return key;
}

void write(store::Store& store, const Stored& about) {
  const Shape shape = about.shape();
  const std::string codec = about.zstd ? R"(,{"name":"zstd","configuration":{"level":1,"checksum":false}})" : "";
  std::string edges;
  for (const Shape& axis : about.edges) edges += (edges.empty() ? "" : ",") + testing::detail::json_list(axis);
  const std::string document = R"({"zarr_format":3,"node_type":"array","shape":)" + testing::detail::json_list(shape) +
                               R"(,"data_type":"uint32","chunk_grid":{"name":"rectilinear","configuration":)"
                               R"({"kind":"inline","chunk_shapes":[)" +
                               edges + R"(]}},"chunk_key_encoding":{"name":"default"},"fill_value":)" +
                               std::to_string(kFill) +
                               R"(,"codecs":[{"name":"bytes","configuration":{"endian":"little"}})" + codec + "]}";
  ASSERT_TRUE(testing::put_text(store, "zarr.json", document).ok());
  Shape chunk(shape.size(), 0);
  std::uint64_t number = 0;
  do {
    if (about.missing(number++)) continue;
    Shape begin, extent;
    for (std::size_t d = 0; d < chunk.size(); ++d) {
      const auto at = about.edges[d].begin() + static_cast<std::ptrdiff_t>(chunk[d]);
      begin.push_back(std::accumulate(about.edges[d].begin(), at, std::uint64_t{0}));
      extent.push_back(*at);
    }
    std::vector<std::uint32_t> values;
    Shape at(shape.size(), 0);
    do {
      std::uint64_t linear = 0;
      for (std::size_t d = 0; d < at.size(); ++d) linear = linear * shape[d] + begin[d] + at[d];
      values.push_back(element_value(linear, 1));
    } while (testing::detail::advance(at, extent));
    std::vector<std::byte> bytes(values.size() * 4);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    if (about.zstd) {
      std::vector<std::byte> encoded(ZSTD_compressBound(bytes.size()));
      encoded.resize(ZSTD_compress(encoded.data(), encoded.size(), bytes.data(), bytes.size(), 1));
      bytes = std::move(encoded);
    }
    ASSERT_TRUE(store.put(key_of(chunk), bytes).ok());
  } while (testing::detail::advance(chunk, about.counts()));
}

struct Way {
  const char* name;
  const char* device;
  bool zstd, on_device;
  unsigned host_only_every = 0;  // the device leaves every so many-th chunk to the CPU
  bool files = false;            // chunks are files, which may be mapped
  bool in_turns = false;         // whichever of device and CPU is faster decodes
};

class ChunkForms : public ::testing::TestWithParam<Way> {
 protected:
  ChunkForms() {
    device::staged_decode_model().any_codec = GetParam().on_device;
    device::staged_decode_model().host_only_every = GetParam().host_only_every;
    ContextOptions options;
    options.threads = 4;
    options.wave_bytes = 1 << 16;
    options.host_budget_bytes = std::size_t{64} << 20;
    open(options);
  }
  ~ChunkForms() override {
    device::staged_decode_model().any_codec = false;
    device::staged_decode_model().host_only_every = 0;
    device::staged_decode_model().stage_scratch = nullptr;
    base::arm_delay("transfer.plan", std::chrono::microseconds(0));
  }
  void open(const ContextOptions& options) {
    static int number = 0;
    store_.reset();
    device_.reset();
    context_ = std::make_unique<Context>(Context::create(options).value());
    std::string url = "memory://chunk_forms" + std::to_string(++number);
    if (GetParam().files) {
      url = directory_.path() + "/" + std::to_string(number);
      std::filesystem::create_directory(url);
    }
    store_ = std::make_unique<Store>(Store::open(*context_, url).value());
    device_ = std::make_unique<Device>(Device::open(GetParam().device).value());
  }
  ReadOptions options() const {
    ReadOptions options;
    options.placement = GetParam().in_turns    ? Placement::kAuto
                        : GetParam().on_device ? Placement::kGpu
                                               : Placement::kCpu;
    return options;
  }

  // 1,000 chunks of 1 to 1,000 elements, all of different lengths.
  Stored thousand() const {
    Stored about;
    about.zstd = GetParam().zstd;
    about.missing_every = 7;
    about.edges.emplace_back();
    for (std::uint64_t i = 0; i < kShapes; ++i) about.edges[0].push_back((i * 379 + 11) % kShapes + 1);
    return about;
  }
  Array make(const Stored& about) {
    write(*Access::impl(*store_), about);
    return Array::open(*store_).value();
  }
  // Calls a function for the elements of a selection, in the result's order.
  template <class Function>
  static void for_each_element(const ResolvedSelection& selection, const Function& function) {
    const auto at = [&](std::size_t d, std::uint64_t i) {
      const ResolvedSelection::Dim& dim = selection.dims[d];
      return dim.list != nullptr ? (*dim.list)[static_cast<std::size_t>(i)] : dim.start + i * dim.step;
    };
    Shape counts, index(selection.dims.size(), 0), element(selection.dims.size());
    for (const auto& dim : selection.dims) counts.push_back(dim.count);
    if (selection.points) counts.assign(1, counts[0]), index.assign(1, 0);
    if (std::count(counts.begin(), counts.end(), 0) != 0) return;
    do {
      for (std::size_t d = 0; d < element.size(); ++d) element[d] = at(d, index[selection.points ? 0 : d]);
      function(element);
    } while (testing::detail::advance(index, counts));
  }

  // Reads the selections together and compares every element.
  void check(const Array& array, const Stored& about, const std::vector<Selection>& selections) {
    std::vector<ReadPart> parts;
    std::vector<ResolvedSelection> resolved;
    std::uint64_t total = 0;
    for (const Selection& selection : selections) {
      resolved.push_back(array.resolve(selection).value());
      std::uint64_t elements = 1;
      for (const std::uint64_t extent : resolved.back().shape) elements *= extent;
      total += elements;
    }
    const auto buffer = Buffer::allocate(*device_, static_cast<std::size_t>(total) * 4 + 4).value();
    std::uint64_t first = 0;
    for (std::size_t i = 0; i < selections.size(); ++i) {
      const Shape& shape = resolved[i].shape;
      parts.push_back({selections[i], {buffer, array.info().dtype, shape, {}, static_cast<std::size_t>(first) * 4}});
      std::uint64_t elements = 1;
      for (const std::uint64_t extent : shape) elements *= extent;
      first += elements;
    }
    Stats stats;
    const Status status = array.read_many(parts, *device_, options(), &stats);
    ASSERT_TRUE(status.ok()) << status.to_string();
    std::vector<std::uint32_t> got(static_cast<std::size_t>(total) + 1);
    ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
    std::set<std::uint64_t> touched;
    std::size_t place = 0;
    std::uint64_t last = ~std::uint64_t{0};
    const std::vector<Shape> ends = about.ends();
    const Shape shape = about.shape();
    for (const ResolvedSelection& selection : resolved) {
      for_each_element(selection, [&](const Shape& element) {
        std::uint64_t linear = 0;
        for (std::size_t d = 0; d < element.size(); ++d) linear = linear * shape[d] + element[d];
        const std::uint64_t chunk = chunk_of(ends, element);
        const std::uint32_t wanted = about.missing(chunk) ? kFill : element_value(linear, 1);
        if (got[place] != wanted && !HasFailure()) ADD_FAILURE() << "element " << place << " of the result";
        ++place;
        if (chunk != last) touched.insert(last = chunk);
      });
    }
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(stats.chunks + stats.missing_chunks, touched.size()) << "each chunk once";
    EXPECT_EQ(stats.decoded_bytes, total * 4);
    if (GetParam().on_device && !GetParam().in_turns) {
      EXPECT_EQ(stats.gpu_chunks + stats.returned_chunks, stats.chunks);
    }
    if (GetParam().host_only_every != 0 && stats.chunks > 100) {
      EXPECT_GT(stats.returned_chunks, 0u);
    }
  }

  support::TempDir directory_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Device> device_;
};

std::vector<std::int64_t> some(std::mt19937& random, std::uint64_t extent, std::size_t count) {
  std::vector<std::int64_t> out(count);
  for (std::int64_t& index : out) index = static_cast<std::int64_t>(random() % extent);
  return out;
}

TEST_P(ChunkForms, AThousandShapesGiveTheElementsOfEverySelection) {
  const Stored about = thousand();
  const Array array = make(about);
  std::mt19937 random(5);
  const std::uint64_t extent = about.shape()[0];
  const Selection slice = parse_selection("1234:400000:77").value(), few = parse_selection("250000:250007").value();
  const Selection list{index_list(some(random, extent, 3000))}, picked = points({some(random, extent, 3000)});
  for (const Selection& selection : {Selection{}, slice, few, list, picked}) check(array, about, {selection});
  // Repeated, so that the data may come from the page cache.
  for (int i = 0; i < 3; ++i) check(array, about, {Selection{}});
  check(array, about, {list, slice, picked, few});
  check(array, about, {picked, points({some(random, extent, 10)})});
}

TEST_P(ChunkForms, SeveralSelectionsAreReadTogetherFromAnyGrid) {
  std::mt19937 random(99);
  for (int round = 0; round < (support::kThreadSanitizer ? 2 : support::kAddressSanitizer ? 6 : 25); ++round) {
    SCOPED_TRACE(round);
    Stored about;
    about.zstd = GetParam().zstd;
    about.missing_every = round % 2 == 0 ? 0 : 3;
    about.edges.resize(1 + random() % 3);
    for (Shape& axis : about.edges) {
      axis.resize(1 + random() % 6);
      for (std::uint64_t& edge : axis) edge = 1 + random() % 4;
    }
    open([] {
      ContextOptions options;
      options.threads = 2;
      options.wave_bytes = 4096;
      options.host_budget_bytes = std::size_t{64} << 20;
      return options;
    }());
    const Array array = make(about);
    const Shape shape = about.shape();
    for (int i = 0; i < 8; ++i) {
      std::vector<Selection> selections(1 + random() % 4);
      for (Selection& selection : selections) {
        std::vector<std::vector<std::int64_t>> coordinates;
        for (const std::uint64_t extent : shape) coordinates.push_back(some(random, extent, 9));
        if (random() % 3 == 0) {
          selection = points(coordinates);
          continue;
        }
        for (std::size_t d = 0; d < shape.size(); ++d) {
          const auto start = static_cast<std::int64_t>(random() % shape[d]);
          switch (random() % 3) {
            case 0:
              selection.push_back(index_list(some(random, shape[d], random() % 6)));
              break;
            case 1:
              selection.push_back(parse_selection(std::to_string(start)).value()[0]);
              break;
            default:
              selection.push_back(
                  parse_selection(std::to_string(start) + "::" + std::to_string(1 + random() % 3)).value()[0]);
          }
        }
      }
      check(array, about, selections);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ChunkForms, BadChunksOfSeveralShapesAreListedAndTheOthersRead) {
  const Stored about = thousand();
  const Array array = make(about);
  const std::set<std::uint64_t> bad{1, 200, 333, 640, 999};
  for (const std::uint64_t number : bad) {
    ASSERT_TRUE(testing::put_text(*Access::impl(*store_), key_of({number}), "rubbish").ok());
  }
  const std::uint64_t extent = about.shape()[0];
  std::vector<std::uint32_t> got(static_cast<std::size_t>(extent), kUntouched);
  auto buffer = Buffer::allocate(*device_, got.size() * 4).value();
  const auto bytes = [&] { return reinterpret_cast<std::byte*>(got.data()); };
  ASSERT_TRUE(buffer.copy_from_host(0, bytes(), got.size() * 4).ok());
  const TensorView tensor(buffer, array.info().dtype, {extent});
  ReadOptions collecting = options();
  collecting.collect_errors = true;
  const Completion reading = array.read_async({}, tensor, *device_, collecting).value();
  (void)reading.wait();
  std::set<std::string> keys, wanted_keys;
  for (const ChunkError& error : reading.errors()) keys.insert(error.key);
  for (const std::uint64_t number : bad) wanted_keys.insert(key_of({number}));
  EXPECT_EQ(keys, wanted_keys);
  EXPECT_EQ(reading.errors().size(), bad.size());
  EXPECT_EQ(reading.stats().chunks + reading.stats().missing_chunks, kShapes - bad.size());
  ASSERT_TRUE(buffer.copy_to_host(0, bytes(), got.size() * 4).ok());
  std::uint64_t element = 0;
  for (std::uint64_t number = 0; number < kShapes; ++number) {
    for (std::uint64_t i = 0; i < about.edges[0][static_cast<std::size_t>(number)]; ++i, ++element) {
      if (bad.count(number) != 0) continue;
      const std::uint32_t value = about.missing(number) ? kFill : element_value(element, 1);
      ASSERT_EQ(got[static_cast<std::size_t>(element)], value) << "element " << element << " of chunk " << number;
    }
  }
  // Without collect_errors, one bad chunk ends the read.
  const Status status = array.read({}, tensor, *device_, options());
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(wanted_keys.count(status.key()), 1u) << status.to_string();
}

TEST_P(ChunkForms, ProgressGoesOverAllShapesAndCancellingEndsAmongThem) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const Stored about = thousand();
  const Array array = make(about);
  const std::uint64_t extent = about.shape()[0];
  const auto buffer = Buffer::allocate(*device_, static_cast<std::size_t>(extent) * 4).value();
  const TensorView tensor(buffer, array.info().dtype, {extent});
  base::arm_delay("transfer.plan", std::chrono::microseconds(700));
  std::atomic<std::uint64_t> last{0}, calls{0};
  std::atomic<bool> wrong{false};
  ReadOptions counting = options();
  counting.progress = [&](std::uint64_t done, std::uint64_t chunks) {
    if (chunks != kShapes || done > chunks || done < last.exchange(done)) wrong = true;
    ++calls;
  };
  Stats stats;
  EXPECT_TRUE(array.read({}, tensor, *device_, counting, &stats).ok());
  EXPECT_GE(calls.load(), 3u);
  EXPECT_GT(last.load(), 0u);
  EXPECT_FALSE(wrong.load());
  EXPECT_EQ(stats.chunks + stats.missing_chunks, kShapes);
  ReadOptions cancelling = options();
  cancelling.cancel.emplace();
  cancelling.progress = [token = *cancelling.cancel](std::uint64_t, std::uint64_t) { token.ask(); };
  const Completion reading = array.read_async({}, tensor, *device_, cancelling).value();
  EXPECT_EQ(reading.wait().code(), Code::kCancelled);
  EXPECT_GT(reading.stats().chunks, 0u);
  EXPECT_LT(reading.stats().chunks + reading.stats().missing_chunks, kShapes);
}

// One large chunk does not reduce the number of small chunks per wave.
TEST_P(ChunkForms, WavesOfSmallChunksTakeAsManyAsSlabsOfTheLargestHaveRoomFor) {
  Stored about;
  about.zstd = GetParam().zstd;
  about.edges.emplace_back(2000, 4);
  about.edges[0][1000] = 1 << 18;
  const Array array = make(about);
  const std::uint64_t extent = about.shape()[0];
  const auto buffer = Buffer::allocate(*device_, static_cast<std::size_t>(extent) * 4).value();
  Stats stats;
  const Status status = array.read({}, {buffer, array.info().dtype, {extent}}, *device_, options(), &stats);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(stats.chunks, 2000u);
  // For chunks that a device decodes, a wave has room for the longest possible streams of 16-byte chunks.
  EXPECT_LE(stats.waves, GetParam().on_device ? 100u : 4u);
}

TEST_P(ChunkForms, ABudgetThatTheLargestDoesNotFitRefusesBeforeAnythingIsRead) {
  Stored about;
  about.zstd = GetParam().zstd;
  about.edges.emplace_back(20, 100);
  about.edges[0][10] = 1 << 20;
  ContextOptions small;
  small.threads = 2;
  small.host_budget_bytes = std::size_t{2} << 20;
  small.device_budget_bytes = std::size_t{2} << 20;
  open(small);
  const Array array = make(about);
  const std::uint64_t extent = about.shape()[0];
  const auto buffer = Buffer::allocate(*device_, static_cast<std::size_t>(extent) * 4).value();
  Stats stats;
  const Status status = array.read({}, {buffer, array.info().dtype, {extent}}, *device_, options(), &stats);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
  EXPECT_EQ(stats.objects_opened, 0u);
  // Also refused if the large chunk is one of several points.
  EXPECT_EQ(array.read(points({{0, 1500, 5}}), {buffer, array.info().dtype, {3}}, *device_, options()).code(),
            Code::kResourceExhausted);
  const Selection others = parse_selection("0:1000").value();
  EXPECT_TRUE(array.read(others, {buffer, array.info().dtype, {1000}}, *device_, options()).ok());
}

// For chunks below 400 bytes, more scratch than any slab has.
std::uint64_t much_for_few(const device::DecodeStage& stage, const device::gpu::Limits& limits) {
  (void)limits;
  return stage.capacity_bytes < 400 ? std::uint64_t{1} << 40 : 0;
}

TEST_P(ChunkForms, ChunksTooLargeForTheDeviceAreDecodedByTheCpu) {
  if (!GetParam().on_device) return;
  device::staged_decode_model().stage_scratch = much_for_few;
  const Stored about = thousand();
  const Array array = make(about);
  const std::uint64_t extent = about.shape()[0];
  std::vector<std::uint32_t> got(static_cast<std::size_t>(extent));
  const auto buffer = Buffer::allocate(*device_, got.size() * 4).value();
  const TensorView tensor(buffer, array.info().dtype, {extent});
  ReadOptions either;
  Stats stats;
  Status status = array.read({}, tensor, *device_, either, &stats);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(stats.chunks + stats.missing_chunks, kShapes);
  EXPECT_GE(stats.cpu_chunks, 80u);  // of 99, some of which are missing
  EXPECT_GT(stats.gpu_chunks + stats.returned_chunks, 0u);
  ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
  std::uint64_t element = 0;
  for (std::uint64_t number = 0; number < kShapes; ++number) {
    for (std::uint64_t i = 0; i < about.edges[0][static_cast<std::size_t>(number)]; ++i, ++element) {
      ASSERT_EQ(got[static_cast<std::size_t>(element)], about.missing(number) ? kFill : element_value(element, 1));
    }
  }
  either.placement = Placement::kGpu;
  status = array.read({}, tensor, *device_, either);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
}

std::vector<Way> ways() {
  return {{"host", "host", false, false},
          {"host_zstd", "host", true, false},
          {"staged", "host-staged", false, false},
          {"staged_zstd", "host-staged", true, false},
          {"decoded", "host-staged", true, true},
          {"files", "host-staged", false, false, 0, true},
          {"handed_back", "host-staged", true, true, 3},
          {"decoded_files", "host-staged", true, true, 0, true},
          {"in_turns", "host-staged", true, true, 0, false, true}};
}

INSTANTIATE_TEST_SUITE_P(Ways, ChunkForms, ::testing::ValuesIn(support::all_or_every(4, ways())),
                         [](const auto& about) { return std::string(about.param.name); });

// Tests of ChunkOrder.

std::shared_ptr<const zarr::RectilinearGrid> grid_of(const std::vector<Shape>& edges) {
  zarr::RectilinearGrid grid;
  for (const Shape& axis : edges) {
    std::uint64_t element = 0, chunk = 0;
    auto& runs = grid.axes.emplace_back();
    for (const std::uint64_t edge : axis) {
      if (!runs.empty() && runs.back().edge == edge) {
        ++runs.back().count;
      } else {
        runs.push_back({edge, 1, chunk, element});
      }
      element += edge;
      ++chunk;
    }
  }
  return std::make_shared<const zarr::RectilinearGrid>(std::move(grid));
}

TEST(ChunkOrder, NumbersAreOfOneChunkEachAndThoseOfOneShapeAreNeighbours) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Shape> edges(random() % 4);
    Shape counts;
    for (Shape& axis : edges) {
      axis.resize(1 + random() % 7);
      for (std::uint64_t& edge : axis) edge = 1 + random() % 3;
      counts.push_back(axis.size());
    }
    const zarr::ChunkOrder order(grid_of(edges));
    std::uint64_t all = 1;
    for (const std::uint64_t count : counts) all *= count;
    ASSERT_EQ(order.count(), all);
    std::set<Shape> shapes, places;
    Shape last;
    std::uint64_t end = 0;
    for (std::uint64_t number = 0; number < all; ++number) {
      std::vector<zarr::ChunkOrder::Chunk> axes(edges.size() + 1);
      order.chunk(number, axes.data());
      Shape at(edges.size() + 1), shape;
      order.position(number, at.data());
      at.pop_back();
      for (std::size_t d = 0; d < edges.size(); ++d) {
        const auto chunk = edges[d].begin() + static_cast<std::ptrdiff_t>(at[d]);
        ASSERT_LT(at[d], edges[d].size());
        EXPECT_EQ(axes[d].number, at[d]);
        EXPECT_EQ(axes[d].edge, *chunk);
        EXPECT_EQ(axes[d].begin, std::accumulate(edges[d].begin(), chunk, std::uint64_t{0}));
        shape.push_back(axes[d].edge);
      }
      EXPECT_EQ(order.number(at.data()), number);
      EXPECT_TRUE(places.insert(at).second);
      for (std::size_t d = 0; d < edges.size() && number == 0; ++d) {
        EXPECT_EQ(shape[d], *std::max_element(edges[d].begin(), edges[d].end()));
      }
      if (number == 0 || shape != last) {
        EXPECT_TRUE(shapes.insert(shape).second) << "the shape was there before";
        EXPECT_EQ(number, end);
      }
      end = order.shape_end(number);
      last = shape;
    }
    EXPECT_EQ(end, all);
  }
}

TEST(ChunkOrder, CountsUpTo64Bits) {
  zarr::RectilinearGrid grid;
  grid.axes = {{{1, std::uint64_t{1} << 32, 0, 0}}, {{1, std::uint64_t{1} << 32, 0, 0}}};
  EXPECT_EQ(zarr::ChunkOrder(std::make_shared<const zarr::RectilinearGrid>(grid)).count(), std::nullopt);
  grid.axes[1][0].count = (std::uint64_t{1} << 32) - 1;
  const zarr::ChunkOrder order(std::make_shared<const zarr::RectilinearGrid>(grid));
  ASSERT_TRUE(order.count());
  const std::uint64_t last = *order.count() - 1;
  std::uint64_t at[2];
  order.position(last, at);
  EXPECT_EQ(at[0], (std::uint64_t{1} << 32) - 1);
  EXPECT_EQ(at[1], (std::uint64_t{1} << 32) - 2);
  EXPECT_EQ(order.number(at), last);
  grid.axes[0].clear();
  EXPECT_EQ(zarr::ChunkOrder(std::make_shared<const zarr::RectilinearGrid>(grid)).count(), 0u);
}

}  // namespace
}  // namespace headrace
