// Chunks that are kept on the device, decoded or encoded: later reads return the same elements without reading
// anything, as long as the files are unchanged.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "support/flat_array.h"
#include "support/temp_dir.h"
#include "zarr/kept_read.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;
using transfer::ChunkCache;

constexpr std::uint64_t kChunks = 40, kElements = 20'000;
constexpr std::uint64_t kChunkBytes = kElements * 4, kPlaceBytes = (kChunkBytes + 255) / 256 * 256;

struct Way {
  const char* device;
  ChunkCache::Form form;
};

class KeptChunks : public ::testing::TestWithParam<Way> {
 protected:
  static bool encoded() { return GetParam().form == ChunkCache::Form::kEncoded; }
  // Raw chunks count as decoded in either form.
  static std::uint64_t kept(const Stats& stats) { return stats.kept_chunks + stats.kept_encoded_chunks; }
  static std::uint64_t read_anew(const Stats& stats) { return stats.chunks - stats.kept_encoded_chunks; }

  void SetUp() override {
    device::staged_decode_model().any_codec = true;
    auto device = Device::open(GetParam().device);
    if (!device.ok()) GTEST_SKIP() << "cuda: " << device.status().to_string();
    device_ = std::make_unique<Device>(std::move(*device));
  }
  void TearDown() override {
    device::staged_decode_model().any_codec = false;
    device::staged_decode_model().host_only_every = 0;
  }

  static bool is_raw(Layout layout) { return layout == Layout::kRaw || layout == Layout::kShardedRaw; }
  // Writes into the same folder as before: version 2 before version 3, which is opened if both exist.
  void write(Layout layout) {
    device::staged_decode_model().any_codec = !is_raw(layout);  // otherwise it would decode raw chunks too
    content_ = {.layout = layout, .chunks = kChunks, .chunk_elements = kElements, .shard_chunks = 8};
    store_ = std::make_unique<Store>(Store::open(context_, directory_.path()).value());
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(*store_), "", content_).ok());
    support::wait_until_unchanged();
    array_ = std::make_unique<Array>(Array::open(*store_).value());
  }
  std::shared_ptr<ChunkCache> cache(std::uint64_t chunks) const {
    return std::make_shared<ChunkCache>(Access::impl(*device_), GetParam().form,
                                        ChunkCache::Limits{chunks * kPlaceBytes, kChunks});
  }

  struct Range {
    std::uint64_t begin, count;
  };
  // Reads the ranges in one call, compares them and returns the status.
  Status read(const std::vector<Range>& ranges, const std::shared_ptr<ChunkCache>& cache, Stats* stats) const {
    std::vector<Buffer> buffers;
    std::vector<ReadPart> parts;
    for (const Range& range : ranges) {
      buffers.push_back(Buffer::allocate(*device_, range.count * 4).value());
      const auto from = static_cast<std::int64_t>(range.begin);
      parts.push_back({{{.start = from, .stop = from + static_cast<std::int64_t>(range.count)}},
                       {buffers.back(), array_->info().dtype, {range.count}}});
    }
    ReadOptions options;
    options.placement = placement_;
    Result<Completion> read = zarr::read_many_kept(*array_, parts, *device_, options, {cache, nullptr});
    if (!read.ok()) return std::move(read).status();
    Status status = read->wait();
    *stats = read->stats();
    if (!status.ok()) return status;
    const std::vector<std::uint32_t> all = content_.expected();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      std::vector<std::uint32_t> got(ranges[i].count);
      EXPECT_TRUE(buffers[i].copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
      EXPECT_EQ(std::memcmp(got.data(), &all[ranges[i].begin], got.size() * 4), 0) << "range " << i;
    }
    return status;
  }
  std::vector<Range> random_ranges(std::size_t count) {
    std::vector<Range> out;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t length = 1 + random_() % (2 * kElements);
      out.push_back({random_() % (kChunks * kElements - length + 1), length});
    }
    return out;
  }

  support::TempDir directory_;
  Context context_ = Context::create({.threads = 3}).value();
  std::unique_ptr<Device> device_;
  FlatArray content_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Array> array_;
  std::mt19937_64 random_{18};
  Placement placement_ = Placement::kAuto;
};

TEST_P(KeptChunks, TheSecondReadTakesNothingFromTheStore) {
  for (const Layout layout : {Layout::kZstd, Layout::kBlosc, Layout::kRaw, Layout::kShardedZstd, Layout::kShardedRaw}) {
    SCOPED_TRACE(testing::layout_name(layout));
    write(layout);
    if (HasFatalFailure()) return;
    const bool sharded = layout == Layout::kShardedZstd || layout == Layout::kShardedRaw;
    const auto cache = this->cache(kChunks);
    const std::vector<Range> all = {{0, kChunks * kElements}};
    Stats first, second;
    ASSERT_TRUE(read(all, cache, &first).ok());
    EXPECT_EQ(kept(first), 0u);
    EXPECT_EQ(first.gpu_chunks, is_raw(layout) ? 0u : kChunks);
    ASSERT_TRUE(read(all, cache, &second).ok());
    EXPECT_EQ(kept(second), kChunks);
    EXPECT_EQ(read_anew(second), 0u);
    EXPECT_EQ(second.stored_bytes, 0u);
    EXPECT_EQ(second.decoded_bytes, first.decoded_bytes);
    EXPECT_EQ(second.bus_bytes, 0u);
    if (!sharded) {
      EXPECT_EQ(second.read_bytes, 0u);
    } else {
      EXPECT_LT(second.read_bytes, first.read_bytes / 4) << "an index of a young shard may be read again";
    }
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(read(random_ranges(1 + random_() % 6), cache, &second).ok());
      EXPECT_EQ(read_anew(second), 0u);
      if (HasFailure()) return;
    }
  }
}

// Of a kept encoded chunk with many blocks, only the blocks that a selection needs are decoded, by either processor.
TEST_P(KeptChunks, PartsAreCutOutOfKeptChunks) {
  constexpr int kBlockBytes = 8192;
  write(Layout::kBlosc);
  if (HasFatalFailure()) return;
  for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) {
    const std::vector<std::uint32_t> values = content_.values(chunk * kElements, kElements);
    store::Bytes stored(kChunkBytes + BLOSC_MAX_OVERHEAD);
    const int bytes = blosc_compress_ctx(5, BLOSC_SHUFFLE, 4, kChunkBytes, values.data(), stored.data(), stored.size(),
                                         "lz4", kBlockBytes, 1);
    ASSERT_GT(bytes, 0);
    stored.resize(static_cast<std::size_t>(bytes));
    ASSERT_TRUE(support::write_file(directory_.path() + "/" + content_.key(chunk), stored));
  }
  support::wait_until_unchanged();
  for (const unsigned host_only_every : {0u, 3u}) {
    const bool staged = std::string_view(GetParam().device) == "host-staged";
    if (host_only_every != 0 && !staged) continue;
    const auto cache = this->cache(kChunks);
    Stats stats;
    for (int pass = 0; pass < 3; ++pass) ASSERT_TRUE(read({{0, kChunks * kElements}}, cache, &stats).ok());
    device::staged_decode_model().host_only_every = host_only_every;
    std::uint64_t skipped = 0, returned = 0;
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t at = random_() % (kChunks * kElements - 100);
      ASSERT_TRUE(read({{at, 100}, {random_() % kElements, 1}}, cache, &stats).ok());
      EXPECT_EQ(read_anew(stats) - stats.returned_chunks, 0u);
      EXPECT_EQ(stats.stored_bytes, 0u);
      skipped += stats.skipped_bytes;
      returned += stats.returned_chunks;
      if (HasFailure()) return;
    }
    device::staged_decode_model().host_only_every = 0;
    EXPECT_EQ(skipped > 20 * kChunkBytes / 2, encoded());
    EXPECT_EQ(returned > 0, encoded() && host_only_every != 0);
  }
}

// If no device decoder is involved, the first request for a few bytes reads the whole chunk into the cache.
TEST_P(KeptChunks, PartsOfRawChunksKeepThemWhole) {
  for (const Layout layout : {Layout::kRaw, Layout::kShardedRaw}) {
    SCOPED_TRACE(testing::layout_name(layout));
    write(layout);
    if (HasFatalFailure()) return;
    const auto cache = this->cache(kChunks / 2);
    Stats stats;
    for (std::uint64_t i = 0; i < kChunks; ++i) ASSERT_TRUE(read({{i * kElements + 100, 50}}, cache, &stats).ok());
    EXPECT_LT(stats.read_bytes, kChunkBytes) << "what does not fit is read in part";
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(read(random_ranges(1 + random_() % 6), cache, &stats).ok());
    ASSERT_TRUE(read({{0, kChunks * kElements}}, cache, &stats).ok());
    EXPECT_EQ(kept(stats), kChunks / 2);
    EXPECT_EQ(read_anew(stats), kChunks / 2);
  }
}

// They are kept like chunks that the device decodes.
TEST_P(KeptChunks, ChunksThatTheCpuDecodes) {
  placement_ = Placement::kCpu;
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    SCOPED_TRACE(testing::layout_name(layout));
    write(layout);
    if (HasFatalFailure()) return;
    const auto cache = this->cache(kChunks);
    Stats first, second;
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(read(random_ranges(4), cache, &first).ok());
    ASSERT_TRUE(read({{0, kChunks * kElements}}, cache, &first).ok());
    ASSERT_TRUE(read({{0, kChunks * kElements}}, cache, &second).ok());
    EXPECT_EQ(kept(second), encoded() ? 0u : kChunks);
    EXPECT_EQ(second.cpu_chunks, encoded() ? kChunks : 0u);
    EXPECT_EQ(second.gpu_chunks, 0u);
  }
}

// Chunks that do not fit are read as without a cache, and those in the cache stay.
TEST_P(KeptChunks, AFullCacheKeepsWhatItHas) {
  for (const Layout layout : {Layout::kBlosc, Layout::kRaw, Layout::kShardedZstd}) {
    SCOPED_TRACE(testing::layout_name(layout));
    write(layout);
    if (HasFatalFailure()) return;
    std::uint64_t most_bytes = 0;  // room for a quarter of the chunks
    for (std::uint64_t i = 0; i < kChunks; i += 4) {
      most_bytes += encoded() ? (content_.encoded(i).size() + 255) / 256 * 256 : kPlaceBytes;
    }
    const auto cache =
        std::make_shared<ChunkCache>(Access::impl(*device_), GetParam().form, ChunkCache::Limits{most_bytes, kChunks});
    Stats stats;
    for (int i = 0; i < 12; ++i) {
      ASSERT_TRUE(read(random_ranges(1 + random_() % 8), cache, &stats).ok());
      EXPECT_LE(cache->used_bytes(), most_bytes);
      if (HasFailure()) return;
    }
    ASSERT_TRUE(read({{0, kChunks * kElements}}, cache, &stats).ok());
    ASSERT_TRUE(read({{0, kChunks * kElements}}, cache, &stats).ok());
    EXPECT_EQ(kept(stats) + read_anew(stats), kChunks);
    EXPECT_GT(kept(stats), 0u);
    EXPECT_LT(kept(stats), kChunks);
    EXPECT_LE(kept(stats), encoded() && !is_raw(layout) ? kChunks - 1 : kChunks / 4);  // encoded sizes vary
  }
}

TEST_P(KeptChunks, AFileThatChangesIsReadAgain) {
  for (const Layout layout : {Layout::kZstd, Layout::kRaw}) {
    write(layout);
    if (HasFatalFailure()) return;
    const auto cache = this->cache(kChunks);
    Stats stats;
    ASSERT_TRUE(read({{0, kChunks * kElements}}, cache, &stats).ok());
    // Chunk 3 gets the bytes of chunk 5, under its own name.
    std::filesystem::copy_file(directory_.path() + "/" + content_.key(5), directory_.path() + "/" + content_.key(3),
                               std::filesystem::copy_options::overwrite_existing);
    support::wait_until_unchanged();
    for (int pass = 0; pass < 2; ++pass) {
      Buffer out = Buffer::allocate(*device_, kChunkBytes).value();
      const auto from = static_cast<std::int64_t>(3 * kElements), to = static_cast<std::int64_t>(4 * kElements);
      const ReadPart part{{{.start = from, .stop = to}}, {out, array_->info().dtype, {kElements}}};
      ASSERT_TRUE(zarr::read_many_kept(*array_, {&part, 1}, *device_, {}, {cache, nullptr}).value().wait().ok());
      std::vector<std::uint32_t> got(kElements);
      ASSERT_TRUE(out.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), kChunkBytes).ok());
      const std::vector<std::uint32_t> all = content_.expected();
      EXPECT_EQ(std::memcmp(got.data(), &all[5 * kElements], kChunkBytes), 0);
    }
  }
}

// A chunk that the device leaves to the CPU is right, but not kept; a damaged chunk gives an error each time.
TEST_P(KeptChunks, OnlyWhatTheDeviceDecodedIsKept) {
  write(Layout::kZstd);
  if (HasFatalFailure()) return;
  if (std::string_view(GetParam().device) == "host-staged") {
    device::staged_decode_model().host_only_every = 4;
    const auto cache = this->cache(kChunks);
    Stats stats;
    for (int pass = 0; pass < 3; ++pass) {
      ASSERT_TRUE(read({{0, kChunks * kElements}}, cache, &stats).ok());
      EXPECT_EQ(kept(stats) + read_anew(stats), kChunks);
    }
    EXPECT_GT(kept(stats), 0u);
    EXPECT_LT(kept(stats), kChunks);
    device::staged_decode_model().host_only_every = 0;
  }
  std::fstream file(directory_.path() + "/" + content_.key(7), std::ios::in | std::ios::out | std::ios::binary);
  file.write("\xff\xff\xff\xff\xff\xff", 6);
  file.close();
  support::wait_until_unchanged();
  const auto cache = this->cache(kChunks);
  for (int pass = 0; pass < 3; ++pass) {
    Stats stats;
    const Status status = read({{0, kChunks * kElements}}, cache, &stats);
    EXPECT_EQ(status.code(), Code::kCorrupt) << status.to_string();
    EXPECT_NE(status.to_string().find(content_.key(7)), std::string::npos) << status.to_string();
    EXPECT_TRUE(read({{0, 7 * kElements}}, cache, &stats).ok());
  }
}

// Concurrent reads, some of which are cancelled: the others get every element.
TEST_P(KeptChunks, ReadsAtOnce) {
  for (const Layout layout : {Layout::kBlosc, Layout::kRaw}) {
    write(layout);
    if (HasFatalFailure()) return;
    const auto cache = this->cache(kChunks / 2);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (int i = 0; i < 12; ++i) {
          const std::uint64_t length = 1 + random() % (6 * kElements);
          const std::vector<Range> ranges = {{random() % (kChunks * kElements - length + 1), length}};
          if (t == 0) {
            const Buffer out = Buffer::allocate(*device_, kChunks * kChunkBytes).value();
            const ReadPart all{{{}}, {out, array_->info().dtype, {kChunks * kElements}}};
            const Completion read = zarr::read_many_kept(*array_, {&all, 1}, *device_, {}, {cache, nullptr}).value();
            if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
            read.cancel();
            (void)read.wait();
            continue;
          }
          Stats stats;
          EXPECT_TRUE(read(ranges, cache, &stats).ok());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Stats stats;
    ASSERT_TRUE(read({{0, kChunks * kElements}}, cache, &stats).ok());
    ASSERT_TRUE(read({{0, kChunks * kElements}}, cache, &stats).ok());
    EXPECT_GT(kept(stats), kChunks / 4) << "other reads decode the chunks that cancelled reads claimed";
  }
}

// Threads fill the table until memory is used up: each chunk is decoded by a single thread, and no thread waits for
// ever.
TEST(ChunkCacheTable, OneThreadDecodesAChunk) {
  const Device device = Device::open("host-staged").value();
  constexpr std::uint64_t kKeys = 64, kRoom = 40;
  for (int round = 0; round < 100; ++round) {
    ChunkCache cache(Access::impl(device), ChunkCache::Form::kDecoded, {kRoom * 256, kKeys});
    std::vector<std::atomic<int>> decoded(kKeys);
    std::atomic<std::uint64_t> kept{0}, found{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < 3 * kKeys; ++i) {
          const std::uint64_t key = (i * 7 + std::uint64_t{t} * 13) % kKeys;
          const ChunkCache::Found at = cache.find({key, key * 3, {}}, 200);
          if (at.what == ChunkCache::Found::What::kKept) {
            ++found;
            EXPECT_EQ(at.memory.front(), std::byte(key));
          }
          if (at.what != ChunkCache::Found::What::kToKeep) continue;
          if (i % 5 == t) {
            cache.abandon(at.entry);
            continue;
          }
          EXPECT_EQ(decoded[key]++, 0) << key;
          at.memory.front() = std::byte(key);
          ++kept;
          cache.keep(at.entry);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(kept, kRoom);
    EXPECT_GT(kept, kRoom / 2);
    EXPECT_GT(found, 0u);
    if (::testing::Test::HasFailure()) return;
  }
}

// A dropped chunk stays dropped; one of another file or of another size is not found.
TEST(ChunkCacheTable, OtherKeysAreNotFound) {
  const Device device = Device::open("host-staged").value();
  ChunkCache cache(Access::impl(device), ChunkCache::Form::kDecoded, {std::uint64_t{10} * 256, 10});
  using What = ChunkCache::Found::What;
  transfer::StoredVersion file{{1, 2, 3, 4, 5}};
  const ChunkCache::Found first = cache.find({1, 0, file}, 100);
  ASSERT_EQ(first.what, What::kToKeep);
  EXPECT_EQ(cache.find({1, 0, file}, 100).what, What::kNothing) << "it is being decoded";
  cache.abandon(first.entry);
  EXPECT_EQ(cache.find({1, 0, file}, 100).memory.data(), first.memory.data());
  cache.keep(first.entry);
  EXPECT_EQ(cache.find({1, 0, file}, 100).what, What::kKept);
  EXPECT_EQ(cache.find({1, 0, file}, 99).what, What::kNothing);
  EXPECT_EQ(cache.find({1, 8, file}, 100).what, What::kToKeep) << "another chunk of the file";
  file.file.changed_ns = 6;
  EXPECT_EQ(cache.find({1, 0, file}, 100).what, What::kNothing);
  const ChunkCache::Found other = cache.find({2, 0, file}, 100);
  ASSERT_EQ(other.what, What::kToKeep);
  cache.drop(other.entry);
  EXPECT_EQ(cache.find({2, 0, file}, 100).what, What::kNothing);
  EXPECT_EQ(cache.find({3, 0, file}, 0).what, What::kNothing);
  EXPECT_EQ(cache.find({4, 0, file}, ~std::uint64_t{0} - 1).what, What::kNothing);
}

// For a chunk that is still to be requested, the size is only known with the answer.
TEST(ChunkCacheTable, MemoryIsReservedOnceTheSizeIsKnown) {
  const Device device = Device::open("host-staged").value();
  ChunkCache cache(Access::impl(device), ChunkCache::Form::kEncoded, {std::uint64_t{2} * 256, 10});
  using What = ChunkCache::Found::What;
  const ChunkCache::Found first = cache.find({1, 0, {}}, ChunkCache::kUnknown);
  ASSERT_EQ(first.what, What::kToKeep);
  EXPECT_TRUE(first.memory.empty());
  EXPECT_EQ(cache.used_bytes(), 0u);
  EXPECT_EQ(cache.find({1, 0, {}}, ChunkCache::kUnknown).what, What::kNothing) << "it is being asked for";
  EXPECT_EQ(cache.take_room(first.entry, 300).size(), 300u);
  cache.abandon(first.entry);
  ASSERT_EQ(cache.find({1, 0, {}}, ChunkCache::kUnknown).what, What::kToKeep);
  EXPECT_TRUE(cache.take_room(first.entry, 301).empty()) << "it has another size by now";
  EXPECT_EQ(cache.take_room(first.entry, 300).size(), 300u);
  cache.keep(first.entry);
  EXPECT_EQ(cache.find({1, 0, {}}, ChunkCache::kUnknown).memory.size(), 300u);
  const ChunkCache::Found absent = cache.find({2, 0, {}}, ChunkCache::kUnknown);
  ASSERT_EQ(absent.what, What::kToKeep);
  cache.keep(absent.entry);
  EXPECT_EQ(cache.find({2, 0, {}}, ChunkCache::kUnknown).what, What::kKept);
  EXPECT_TRUE(cache.find({2, 0, {}}, ChunkCache::kUnknown).memory.empty());
  const ChunkCache::Found last = cache.find({3, 0, {}}, ChunkCache::kUnknown);
  ASSERT_EQ(last.what, What::kToKeep);
  EXPECT_TRUE(cache.take_room(last.entry, 1).empty()) << "there is no memory left";
  cache.drop(last.entry);
  EXPECT_EQ(cache.find({4, 0, {}}, ChunkCache::kUnknown).what, What::kNothing) << "nor for anything else";
}

INSTANTIATE_TEST_SUITE_P(All, KeptChunks,
                         ::testing::Values(Way{"host-staged", ChunkCache::Form::kDecoded},
                                           Way{"host-staged", ChunkCache::Form::kEncoded},
                                           Way{"cuda", ChunkCache::Form::kDecoded},
                                           Way{"cuda", ChunkCache::Form::kEncoded}),
                         [](const auto& row) {
                           return std::string(row.param.form == ChunkCache::Form::kEncoded ? "encoded_" : "decoded_") +
                                  (std::string(row.param.device) == "cuda" ? "cuda" : "host_staged");
                         });

}  // namespace
}  // namespace headrace
