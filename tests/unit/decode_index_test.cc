// Property: decode indexes change nothing that a caller sees except the counts. The first read collects them, later
// ones use them, an index is dropped when its chunk has changed, and none is kept without a budget. The simulated GPU
// makes an index of a chunk's checksum, so that a wrong index is detected.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/decode_index.h>
#include <unistd.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "os/file_handle.h"
#include "support/flat_array.h"
#include "support/flat_zip.h"
#include "support/forwarding_store.h"
#include "support/temp_dir.h"
#include "zarr/array/array_impl.h"

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
    const Status status = array.read(selection, {buffer, array.info().dtype, shape}, *device, options, &stats);
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
      ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
      const auto expected = array.expected();
      std::vector<std::uint32_t> elements;
      // First a part; the next read, of everything, finds the indexes of its chunks.
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
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
    std::vector<std::uint32_t> elements;
    for (int i = 0; i < 2; ++i) {
      const Stats stats = reader.read(elements);
      EXPECT_TRUE(elements == array.expected());
      EXPECT_EQ(stats.indexed_chunks, 0u);
      EXPECT_EQ(stats.gpu_chunks, array.chunks);
    }
  }
}

// Two chunks are swapped: their sizes may be equal, their bytes are not.
TEST(DecodeIndex, OfAnotherVersionIsDroppedAndRebuilt) {
  const Indexing indexing;
  const FlatArray array = array_of(Layout::kZstd);
  support::TempDir directory;
  const Reader reader(directory.path());
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
  std::vector<std::uint32_t> elements;
  (void)reader.read(elements);
  // One byte differs in each of three chunks and in what they decode to; their checksums are not verified here.
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
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
  std::vector<std::uint32_t> elements;
  for (int i = 0; i < 4; ++i) {
    const Stats stats = reader.read(elements);
    EXPECT_TRUE(elements == array.expected());
    EXPECT_LT(stats.indexed_chunks, array.chunks);
    EXPECT_EQ(stats.bad_indices, 0u);
  }
}

// Gives every chunk new elements with many short matches, which indexes are made for, and returns them.
std::vector<std::uint32_t> write_words(const std::string& directory, const FlatArray& array) {
  std::vector<std::uint32_t> all;
  std::uint32_t state = 7;
  const auto next = [&state] { return (state = state * 1664525u + 1013904223u) >> 8; };
  for (std::uint64_t chunk = 0; chunk < array.chunks; ++chunk) {
    std::vector<std::uint32_t> plain(static_cast<std::size_t>(array.chunk_elements));
    for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = i % 3 == 2 ? next() : next() % 40 * 2654435761u;
    std::vector<char> out(ZSTD_compressBound(plain.size() * 4));
    const std::size_t bytes = ZSTD_compress(out.data(), out.size(), plain.data(), plain.size() * 4, 3);
    std::ofstream(directory + "/" + array.key(chunk), std::ios::binary)
        .write(out.data(), static_cast<std::streamsize>(bytes));
    all.insert(all.end(), plain.begin(), plain.end());
  }
  return all;
}

std::string only_file(const std::string& directory) {
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    EXPECT_TRUE(path.empty()) << "one file and nothing half-made";
    path = entry.path().string();
  }
  return path;
}

TEST(DecodeIndexFile, IsMadeByTheCpuCheckedAndLoaded) {
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    const FlatArray array = array_of(layout);
    support::TempDir directory, indices;
    const Reader reader(directory.path());
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
    const std::uint64_t unit = array.sharded() ? array.shard_chunks : 1;
    if (!array.sharded()) (void)write_words(directory.path(), array);
    std::filesystem::remove(directory.path() + "/" + array.key(0));  // missing chunks have no index
    const Array opened = Array::open(*reader.store).value();
    const std::string place = indices.path() + "/a/b";
    EXPECT_EQ(check_decode_index(opened, place).status().code(), Code::kNotFound);
    const auto built = build_decode_index(opened, place);
    ASSERT_TRUE(built.ok()) << built.status().to_string();
    EXPECT_EQ(built->codec, "zstd");
    if (!array.sharded()) {
      EXPECT_EQ(built->indexed, built->chunks);
    }
    EXPECT_EQ(built->chunks, array.chunks - unit);
    EXPECT_EQ(built->indexed + built->small, built->chunks);
    EXPECT_EQ(built->decoded_bytes, built->chunks * 17'000 * 4);
    EXPECT_EQ(built->file, only_file(place));
    EXPECT_EQ(built->file_bytes, std::filesystem::file_size(built->file));
    EXPECT_LE(built->index_bytes, built->decoded_bytes / 192 + 16 * built->chunks);
    const auto checked = check_decode_index(opened, place);
    ASSERT_TRUE(checked.ok());
    EXPECT_EQ(checked->stale + checked->missing, 0u);
    EXPECT_EQ(checked->index_bytes, built->index_bytes);

    OpenOptions options;
    options.index_directory = place;
    EXPECT_EQ(Array::open(*reader.store, "", options)->info().decode_index,
              std::to_string(built->chunks) + " chunks, " + std::to_string(built->index_bytes) + " bytes");
    // One chunk is replaced by another, and one is added.
    std::filesystem::copy_file(directory.path() + "/" + array.key(2 * unit), directory.path() + "/" + array.key(0));
    const Reader later(directory.path());
    const auto again = check_decode_index(Array::open(*later.store).value(), place);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->missing, unit);

    const Reader without(directory.path(), 0);
    EXPECT_EQ(Array::open(*without.store, "", options).status().code(), Code::kInvalidArgument);
    options.index_directory = indices.path();
    EXPECT_EQ(Array::open(*reader.store, "", options)->info().decode_index.substr(0, 10), "none saved");
  }
}

// In a directory that others can write to, planted links under the names of the file and of its temporary file are not
// followed.
TEST(DecodeIndexFile, IsNotWrittenThroughLinks) {
  const FlatArray array = array_of(Layout::kZstd);
  support::TempDir directory, indices;
  const Reader reader(directory.path());
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
  const std::string victim = directory / "victim", name = indices / "decode.hrindex";
  std::ofstream(victim) << "mine";
  for (const std::string& planted : {name, name + "." + std::to_string(::getpid()), name + ".tmp"}) {
    std::filesystem::create_symlink(victim, planted);
  }
  const auto built = build_decode_index(Array::open(*reader.store).value(), indices.path());
  ASSERT_TRUE(built.ok()) << built.status().to_string();
  EXPECT_EQ(std::filesystem::file_size(victim), 4u);
  EXPECT_FALSE(std::filesystem::is_symlink(name));
  EXPECT_TRUE(std::filesystem::is_symlink(name + "." + std::to_string(::getpid())));
  os::FileHandle file;
  EXPECT_FALSE(os::FileHandle::open(name + ".tmp", {.write = true, .create = true, .exclusive = true}, file).ok());
}

// The simulated GPU rejects every index but its own: elements are right, and its own indexes replace the others.
TEST(DecodeIndexFile, ElementsAreRightForAnyContents) {
  const Indexing indexing;
  const FlatArray array = array_of(Layout::kZstd);
  support::TempDir directory, indices;
  const Reader maker(directory.path());
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*maker.store), "", array).ok());
  const std::vector<std::uint32_t> expected = write_words(directory.path(), array);
  const auto built = build_decode_index(Array::open(*maker.store).value(), indices.path());
  ASSERT_TRUE(built.ok());
  ASSERT_EQ(built->indexed, array.chunks);
  std::ifstream in(built->file, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  std::vector<std::string> files = {good, "", good.substr(0, 40), good.substr(0, good.size() - 1), good + '\0'};
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{17}, std::size_t{33}, good.size() - 3}) {
    files.push_back(good);
    files.back()[at] = static_cast<char>(files.back()[at] + 1);
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    SCOPED_TRACE(i);
    std::ofstream(built->file, std::ios::binary).write(files[i].data(), static_cast<std::streamsize>(files[i].size()));
    const Reader reader(directory.path());
    OpenOptions options;
    options.index_directory = indices.path();
    const auto opened = Array::open(*reader.store, "", options);
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(opened->info().decode_index.substr(0, 8) == "ignored:", i > 0) << opened->info().decode_index;
    std::vector<std::uint32_t> elements;
    const Stats first = reader.read(elements);
    EXPECT_TRUE(elements == expected);
    EXPECT_EQ(first.bad_indices, i == 0 ? built->indexed : 0u);
    (void)reader.read(elements);
    const Stats last = reader.read(elements);
    EXPECT_TRUE(elements == expected);
    EXPECT_EQ(last.bad_indices, 0u);
    if (i > 0) {
      EXPECT_EQ(last.indexed_chunks, array.chunks);
    }
  }
}

TEST(DecodeIndexFile, OtherCodecsAndDamagedChunksHaveNone) {
  support::TempDir directory, indices;
  {
    const FlatArray array = array_of(Layout::kBlosc);
    const Reader reader(directory.path());
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "blosc", array).ok());
    const auto built = build_decode_index(Array::open(*reader.store, "blosc").value(), indices.path());
    EXPECT_EQ(built.status().code(), Code::kUnsupported);
    EXPECT_TRUE(std::filesystem::is_empty(indices.path()));
  }
  const FlatArray array = array_of(Layout::kZstd);
  const Reader reader(directory.path());
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "zstd", array).ok());
  for (const int chunk : {0, 7}) {
    std::fstream file(directory.path() + "/zstd/" + array.key(static_cast<std::uint64_t>(chunk)),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.write("\xff\xff\xff\xff", 4);
  }
  const auto built = build_decode_index(Array::open(*reader.store, "zstd").value(), indices.path());
  ASSERT_TRUE(built.ok()) << built.status().to_string();
  EXPECT_EQ(built->without, 2u);
  EXPECT_EQ(built->indexed + built->small, array.chunks - 2);
}

// A chunk that fails its archive's checksum gets no index, even if it can be decoded.
TEST(DecodeIndexFile, AnEntrysChecksumIsVerified) {
  const FlatArray array = array_of(Layout::kZstd);
  support::TempDir directory, indices;
  for (const bool deflate : {false, true}) {
    const std::string path = directory / (deflate ? "deflated.zip" : "stored.zip");
    ASSERT_TRUE(support::write_file(path, testing::zip_of(array, deflate, 2)));
    const Reader reader(path);
    const auto built = build_decode_index(Array::open(*reader.store).value(), indices.path());
    ASSERT_TRUE(built.ok()) << built.status().to_string();
    EXPECT_EQ(built->without, 1u) << path;
    EXPECT_EQ(built->indexed + built->small, array.chunks - 1);
  }
}

// A failure to get memory is reported with the chunk's key.
TEST(DecodeIndexFile, AFailureNamesItsChunk) {
  FlatArray array = array_of(Layout::kZstd);
  array.chunks = 2;
  array.chunk_elements = 1 << 21;
  support::TempDir directory, indices;
  ContextOptions options;
  options.threads = 1;
  options.stored_budget_bytes = std::size_t{1} << 20;
  const Context context = Context::create(options).value();
  const Store store = Store::open(context, directory.path()).value();
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(store), "", array).ok());
  const Array opened = Array::open(store).value();
  // Longer than any encoder's output.
  const std::uint64_t longest = Access::impl(opened)->unit_chain().max_encoded_bytes();
  ASSERT_GT(longest, array.chunk_elements * 4 * 33 / 32 + (std::uint64_t{1} << 20));
  std::filesystem::resize_file(directory.path() + "/" + array.key(1), longest);
  const Status status = build_decode_index(opened, indices.path()).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
  EXPECT_EQ(status.key(), array.key(1)) << status.to_string();
}

// A store whose objects are gone once they are open.
class GoneOnceOpen final : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Status unpack(const store::ByteSource&, std::span<std::byte>, os::PageBuffer&) override {
    return Status(Code::kNotFound, Layer::kStore, "there is no such object");
  }
};

TEST(DecodeIndexFile, OnlyWhatCannotBeOpenedIsAbsent) {
  const FlatArray array = array_of(Layout::kZstd);
  support::TempDir directory, indices;
  const std::string path = directory / "array.zip";
  ASSERT_TRUE(support::write_file(path, testing::zip_of(array, true)));
  const Reader reader(path);
  const Store store = Access::make<Store>(*reader.context, std::make_shared<GoneOnceOpen>(Access::impl(*reader.store)));
  const auto built = build_decode_index(Array::open(store).value(), indices.path());
  ASSERT_TRUE(built.ok()) << built.status().to_string();
  EXPECT_EQ(built->chunks, array.chunks);
  EXPECT_EQ(built->without, array.chunks);
}

// A worker's memory is part of the host budget, as for any read: more than for reading the chunks alone, and more again
// if they must be unpacked.
TEST(DecodeIndexFile, WorkersKeepToTheHostBudget) {
  FlatArray array = array_of(Layout::kZstd);
  array.chunks = 2;
  array.chunk_elements = 1 << 18;
  std::uint64_t least[2];
  for (const bool deflate : {false, true}) {
    support::TempDir directory, indices;
    const std::string path = directory / "array.zip";
    ASSERT_TRUE(support::write_file(path, testing::zip_of(array, deflate)));
    const auto built_with = [&](std::uint64_t bytes) {
      ContextOptions options;
      options.threads = 1;
      options.host_budget_bytes = static_cast<std::size_t>(bytes);
      const Context context = Context::create(options).value();
      return build_decode_index(Array::open(Store::open(context, path).value()).value(), indices.path()).status();
    };
    std::uint64_t refused = 1 << 20, enough = std::uint64_t{64} << 20;
    EXPECT_EQ(built_with(refused).code(), Code::kResourceExhausted);
    ASSERT_TRUE(built_with(enough).ok());
    while (enough - refused > 4096) {
      const std::uint64_t middle = refused + (enough - refused) / 2;
      (built_with(middle).ok() ? enough : refused) = middle;
    }
    least[deflate] = enough;
    const std::uint64_t temporary = Access::impl(*Array::open(*Reader(path).store))->unit_chain().temporary_bytes();
    EXPECT_GT(enough, array.encoded(0).size() + array.chunk_elements * 4 + 3 * temporary);
  }
  EXPECT_GT(least[1], least[0] + array.encoded(0).size());
}

}  // namespace
}  // namespace headrace
