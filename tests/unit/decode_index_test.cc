// Property: decode indices change nothing that a caller sees but the counts: they are collected by a first read, given
// to the next ones, dropped where the chunk has changed, and none is kept without a budget. The stand-in for a GPU
// makes an index of a chunk's checksum, so that a wrong one is seen.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "backends/dev_host/staged_decoder.h"
#include "support/flat_array.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;

struct Indexing {
  Indexing() { set(true); }
  ~Indexing() { set(false); }
  static void set(bool on) {
    device::staged_decode_model().any_codec = on;
    device::staged_decode_model().index = on;
  }
};

struct Reader {
  explicit Reader(const std::string& url, std::size_t budget = std::size_t{4} << 20) {
    ContextOptions options;
    options.threads = 2;
    options.wave_bytes = std::size_t{512} << 10;
    options.host_budget_bytes = std::size_t{64} << 20;
    options.index_budget_bytes = budget;
    context = std::make_unique<Context>(Context::create(options).value());
    store = std::make_unique<Store>(Store::open(*context, url).value());
    device = std::make_unique<Device>(Device::open("host-staged").value());
  }
  Stats read(std::vector<std::uint32_t>& elements, const Selection& selection = {}) const {
    const Array array = Array::open(*store).value();
    const auto shape = resolve_selection(selection, array.info().shape).value().shape;
    elements.assign(static_cast<std::size_t>(shape[0]), 0x55555555);
    auto buffer = Buffer::allocate(*device, elements.size() * 4).value();
    ReadOptions options;
    options.placement = Placement::kGpu;
    Stats stats;
    const Status status = array.read(selection, {buffer.data(), shape, {}}, *device, options, &stats);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(elements.data()), elements.size() * 4).ok());
    return stats;
  }
  std::unique_ptr<Context> context;
  std::unique_ptr<Store> store;
  std::unique_ptr<Device> device;
};

constexpr Layout kLayouts[] = {Layout::kZstd, Layout::kBlosc, Layout::kShardedZstd};

FlatArray array_of(Layout layout) {
  return {.layout = layout, .chunks = 24, .chunk_elements = 17'000, .shard_chunks = 8};
}

TEST(DecodeIndex, CollectedByOneReadUsedByTheNext) {
  const Indexing indexing;
  for (const Layout layout : kLayouts) {
    for (const char* kind : {"file", "memory"}) {
      SCOPED_TRACE(std::string(testing::layout_name(layout)) + ' ' + kind);
      const FlatArray array = array_of(layout);
      support::TempDir directory;
      static int number = 0;
      const Reader reader(std::string_view(kind) == "file" ? directory.path()
                                                           : "memory://decode_index" + std::to_string(++number));
      ASSERT_TRUE(testing::write_flat_array(*reader.store->impl(), "", array).ok());
      const auto expected = array.expected();
      std::vector<std::uint32_t> elements;
      // A part first: the next read, of everything, finds the chunks of it.
      const Stats part = reader.read(elements, parse_selection("20000:120001:3").value());
      EXPECT_EQ(part.indexed_chunks, 0u);
      for (std::size_t i = 0; i < elements.size(); ++i) ASSERT_EQ(elements[i], expected[20'000 + 3 * i]);
      const Stats first = reader.read(elements);
      EXPECT_TRUE(elements == expected);
      EXPECT_EQ(first.indexed_chunks, part.gpu_chunks);
      EXPECT_EQ(first.gpu_chunks, array.chunks);
      for (int i = 0; i < 3; ++i) {
        const Stats second = reader.read(elements);
        EXPECT_TRUE(elements == expected);
        EXPECT_EQ(second.indexed_chunks, array.chunks);
        EXPECT_EQ(second.bad_indices, 0u);
      }
    }
  }
}

TEST(DecodeIndex, NoneWithoutABudgetOrForSmallChunks) {
  const Indexing indexing;
  for (const bool small : {false, true}) {
    FlatArray array = array_of(Layout::kZstd);
    if (small) array.chunk_elements = 1000;
    support::TempDir directory;
    const Reader reader(directory.path(), small ? std::size_t{1} << 20 : 0);
    ASSERT_TRUE(testing::write_flat_array(*reader.store->impl(), "", array).ok());
    std::vector<std::uint32_t> elements;
    for (int i = 0; i < 2; ++i) {
      const Stats stats = reader.read(elements);
      EXPECT_TRUE(elements == array.expected());
      EXPECT_EQ(stats.indexed_chunks, 0u);
      EXPECT_EQ(stats.gpu_chunks, array.chunks);
    }
  }
}

// Two chunks change places: sizes may be the same, the bytes are not.
TEST(DecodeIndex, OfAnotherVersionItIsDroppedAndMadeAnew) {
  const Indexing indexing;
  const FlatArray array = array_of(Layout::kZstd);
  support::TempDir directory;
  const Reader reader(directory.path());
  ASSERT_TRUE(testing::write_flat_array(*reader.store->impl(), "", array).ok());
  std::vector<std::uint32_t> elements;
  (void)reader.read(elements);
  // One byte of each of three chunks is another, and what they decode to is: their checksums are not looked at here.
  auto expected = array.expected();
  const auto path = [&](std::uint64_t chunk) { return directory.path() + "/" + array.key(chunk); };
  for (const auto& [a, b] : {std::pair{1, 2}, std::pair{5, 9}}) {
    std::filesystem::rename(path(a), path(99));
    std::filesystem::rename(path(b), path(a));
    std::filesystem::rename(path(99), path(b));
    std::swap_ranges(expected.begin() + a * 17'000, expected.begin() + (a + 1) * 17'000, expected.begin() + b * 17'000);
  }
  const Stats changed = reader.read(elements);
  EXPECT_TRUE(elements == expected);
  EXPECT_EQ(changed.indexed_chunks, array.chunks - 4);
  const Stats again = reader.read(elements);
  EXPECT_TRUE(elements == expected);
  const Stats third = reader.read(elements);
  EXPECT_TRUE(elements == expected);
  EXPECT_EQ(third.indexed_chunks, array.chunks);
  EXPECT_EQ(third.bad_indices, 0u);
  EXPECT_EQ(changed.bad_indices + again.indexed_chunks, array.chunks) << "those refused are collected by the next";
}

// More chunks than the budget has room for.
TEST(DecodeIndex, ASmallBudgetHolds) {
  const Indexing indexing;
  const FlatArray array = array_of(Layout::kShardedZstd);
  support::TempDir directory;
  const Reader reader(directory.path(), 160);
  ASSERT_TRUE(testing::write_flat_array(*reader.store->impl(), "", array).ok());
  std::vector<std::uint32_t> elements;
  for (int i = 0; i < 4; ++i) {
    const Stats stats = reader.read(elements);
    EXPECT_TRUE(elements == array.expected());
    EXPECT_LT(stats.indexed_chunks, array.chunks);
    EXPECT_EQ(stats.bad_indices, 0u);
  }
}

}  // namespace
}  // namespace headrace
