// Property: the memory held by a read of very many chunks depends only on its waves.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <algorithm>
#include <vector>

#include "base/access.h"
#include "support/alloc_counter.h"
#include "support/raw_array.h"
#include "zarr/array/array_impl.h"
#include "zarr/plan/planner.h"

namespace headrace {
namespace {

// Reads an array of `chunks` one-element chunks, none of them stored, with a step that visits each chunk.
std::uint64_t allocated_bytes(std::uint64_t chunks, bool sharded, std::uint64_t& waves) {
  ContextOptions options;
  options.threads = 1;
  options.wave_bytes = sharded ? 4096 : 65536;  // an absent shard is one task
  auto context = Context::create(options).value();
  auto store = Store::open(context, "memory://plan" + std::to_string(chunks) + (sharded ? "s" : "")).value();
  auto device = Device::open("host").value();
  const std::string n = std::to_string(chunks);
  const std::string bytes = R"({"name":"bytes","configuration":{"endian":"little"}})";
  EXPECT_TRUE(testing::put_text(
                  *Access::impl(store), "zarr.json",
                  R"({"zarr_format":3,"node_type":"array","shape":[)" + n +
                      R"(],"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" +
                      (sharded ? "100" : "1") +
                      R"(]}},"chunk_key_encoding":{"name":"default"},"fill_value":7,"codecs":[)" +
                      (sharded ? R"({"name":"sharding_indexed","configuration":{"chunk_shape":[1],"codecs":[)" + bytes +
                                     R"(],"index_codecs":[)" + bytes + "]}}"
                               : bytes) +
                      "]}")
                  .ok());
  auto array = Array::open(store).value();
  std::vector<std::uint32_t> got(chunks, 0);
  const TensorView tensor{got, {chunks}};
  Stats stats;
  const support::AllocScope scope;
  const Status status = array.read({}, tensor, device, {}, &stats);
  const std::uint64_t allocated = scope.bytes();
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(std::count(got.begin(), got.end(), 7u), static_cast<std::ptrdiff_t>(chunks));
  waves = stats.waves;
  return allocated;
}

TEST(Plan, MemoryDoesNotGrowWithTheNumberOfChunks) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  for (const bool sharded : {false, true}) {
    SCOPED_TRACE(sharded ? "sharded" : "a chunk an object");
    std::uint64_t few_waves = 0, many_waves = 0;
    const std::uint64_t few = allocated_bytes(100'000, sharded, few_waves);
    const std::uint64_t many = allocated_bytes(1'000'000, sharded, many_waves);
    EXPECT_GT(many_waves, few_waves);
    EXPECT_LE(many, few + 4096) << few_waves << " and " << many_waves << " waves";
    RecordProperty(sharded ? "sharded_bytes" : "bytes", std::to_string(many));
  }
}

// 10^12 chunks, of which a few are selected: the others cost nothing.
TEST(Plan, OnlySelectedChunksCost) {
  ContextOptions options;
  options.threads = 1;
  auto context = Context::create(options).value();
  auto store = Store::open(context, "memory://plan-huge").value();
  auto device = Device::open("host").value();
  ASSERT_TRUE(testing::put_text(*Access::impl(store), "zarr.json",
                                R"({"zarr_format":3,"node_type":"array","shape":[1000000000000],"data_type":"uint32",
    "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1]}},"chunk_key_encoding":{"name":"default"},
    "fill_value":9,"codecs":[{"name":"bytes","configuration":{"endian":"little"}}]})")
                  .ok());
  auto array = Array::open(store).value();
  std::vector<std::uint32_t> got(100, 0);
  auto selection = parse_selection("::10000000000").value();
  Stats stats;
  ASSERT_TRUE(array.read(selection, {got, {100}}, device, {}, &stats).ok());
  EXPECT_EQ(stats.missing_chunks, 100u);
  EXPECT_EQ(std::count(got.begin(), got.end(), 9u), 100);
}

// 10^5 of 10^9 chunks: the memory held is proportional to the selection, as points or as a list, and not to the grid.
TEST(Plan, ListsAndPointsCostTheirOwnLength) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  ContextOptions options;
  options.threads = 1;
  auto context = Context::create(options).value();
  auto store = Store::open(context, "memory://plan-points").value();
  auto device = Device::open("host").value();
  ASSERT_TRUE(testing::put_text(*Access::impl(store), "zarr.json",
                                R"({"zarr_format":3,"node_type":"array","shape":[1000000000000],"data_type":"uint32",
    "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1000]}},"chunk_key_encoding":{"name":"default"},
    "fill_value":9,"codecs":[{"name":"bytes","configuration":{"endian":"little"}}]})")
                  .ok());
  auto array = Array::open(store).value();
  constexpr std::size_t kCount = 100'000;
  std::vector<std::int64_t> where(kCount);
  std::uint64_t state = 1;
  for (auto& index : where) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    index = static_cast<std::int64_t>((state >> 20) % 1'000'000'000'000u);
  }
  for (const bool as_points : {false, true}) {
    SCOPED_TRACE(as_points ? "points" : "list");
    const Selection selection = as_points ? points({where}) : Selection{index_list(where)};
    std::vector<std::uint32_t> got(kCount, 0);
    Stats stats;
    const support::AllocScope scope;
    const Status status = array.read(selection, {got, {kCount}}, device, {}, &stats);
    const std::uint64_t allocated = scope.bytes();
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(std::count(got.begin(), got.end(), 9u), static_cast<std::ptrdiff_t>(kCount));
    EXPECT_GT(stats.missing_chunks, kCount * 99 / 100);
    EXPECT_LT(allocated, kCount * 250 + (4u << 20)) << "in all, growing vectors included";
    RecordProperty(as_points ? "points_bytes" : "list_bytes", std::to_string(allocated));
  }
}

// A box gives its offset in its chunk, 0 included, and has no source address before the chunk is in memory.
TEST(Plan, BoxesBeginSomewhereInTheirChunkAndHaveNoSource) {
  const Context context = Context::create({.threads = 1}).value();
  const Store store = Store::open(context, "memory://plan-boxes").value();
  testing::RawArray raw;
  raw.shape = {4, 20};
  raw.chunk = {4, 10};
  ASSERT_TRUE(testing::write_raw_array(*Access::impl(store), "", raw).ok());
  const Array array = Array::open(store).value();
  struct Case {
    const char* selection;
    std::vector<std::int64_t> offsets;  // of all boxes of both chunks
  };
  for (const auto& [selection, offsets] :
       {Case{"", {0, 0}}, Case{"1:3,4:12", {4 * (10 + 4), 4 * 10}}, Case{"3,::3", {4 * 30, 4 * 32}}}) {
    SCOPED_TRACE(selection);
    const ResolvedSelection resolved =
        Access::impl(array)->resolve_selection(parse_selection(selection).value()).value();
    TensorView tensor;
    tensor.shape = resolved.shape;
    tensor.strides_bytes.assign(resolved.shape.size(), 0);
    std::uint32_t element = 0;
    tensor.memory = std::as_writable_bytes(std::span(&element, 1));
    tensor.dtype = array.info().dtype;
    auto conversion = zarr::make_conversion(array.info().dtype, Access::impl(array)->element_op,
                                            Access::impl(array)->fill, true, ReadOptions());
    const auto plan = zarr::make_plan(Access::impl(array), resolved, tensor, std::move(conversion).value()).value();
    transfer::WaveTasks wave;
    wave.max_tasks = 100;
    struct Nobody final : transfer::LookupListener {
      void lookup_done() noexcept override { ADD_FAILURE() << "it asks nobody"; }
    } nobody;
    ASSERT_TRUE(plan->fill(wave, nobody).ok());
    std::vector<std::int64_t> found;
    transfer::TaskDetail detail;
    for (const transfer::TaskGroup& group : wave.groups) {
      plan->describe(group, wave.tasks[group.first_task], detail);
      do {
        EXPECT_EQ(detail.box.src, nullptr);
        found.push_back(detail.source_offset);
        detail.box.src = &detail.tensor[0];  // as done when the chunk is placed
      } while (plan->next_box(detail));
    }
    EXPECT_EQ(found, offsets);
  }
}

// One element, with a step larger than any axis: the step must not be multiplied, which UndefinedBehaviorSanitizer
// would detect.
TEST(Plan, AStepBeyondTheAxisTakesTheFirstElement) {
  const Context context = Context::create({.threads = 1}).value();
  const Store store = Store::open(context, "memory://plan-step").value();
  testing::RawArray raw;
  raw.shape = {4, 20};
  raw.chunk = {4, 10};
  ASSERT_TRUE(testing::write_raw_array(*Access::impl(store), "", raw).ok());
  const Array array = Array::open(store).value();
  const Device device = Device::open("host").value();
  std::vector<std::uint32_t> all(80);
  ASSERT_TRUE(array.read({}, {all, {4, 20}}, device).ok());
  for (const char* text :
       {"1::4611686018427387904", "1::4611686018427387904,3::2305843009213693952", "1,3::9223372036854775807"}) {
    SCOPED_TRACE(text);
    const auto selection = parse_selection(text).value();
    const ResolvedSelection resolved = Access::impl(array)->resolve_selection(selection).value();
    std::uint64_t count = 1;
    for (const std::uint64_t extent : resolved.shape) count *= extent;
    std::vector<std::uint32_t> got(count);
    ASSERT_TRUE(array.read(selection, {got, resolved.shape}, device).ok());
    const std::size_t column = count == 1 ? 3 : 0;
    EXPECT_EQ(got, std::vector<std::uint32_t>(all.begin() + 20 + column, all.begin() + 20 + column + count));
  }
}

}  // namespace
}  // namespace headrace
