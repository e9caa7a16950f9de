// Property: a chunk's length in an index is compared with the metadata before a byte is read. A chunk with a wrong
// length is the only one that fails, reported with key, offset and length, on every path of bytes to a tensor. Nothing
// else in the tensor or around it is written, and the chunk's bytes are not requested.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace_bench/decode_batch.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "support/flat_array.h"
#include "support/guard_buffer.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"
#include "support/zip_writer.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;

constexpr std::uint32_t kUntouched = 0x55555555;
constexpr std::uint64_t kFar = 40'000;  // distance beyond which chunks are not read together
constexpr std::uint64_t kTailBytes = std::uint64_t{5} << 18;

// How bytes get from the store to the tensor.
struct Way {
  const char* name;
  const char* device;
  const char* engine;  // "auto": workers read from the page cache
  const char* store;   // "file", "memory", "zip", "deflated"
  Placement placement = Placement::kAuto;
  bool mapped = false;
};

constexpr Way kWays[] = {
    {"cached", "host", "auto", "file"},
    {"engine", "host", "threads", "file"},
    {"memory", "host", "auto", "memory"},
    {"zip", "host", "auto", "zip"},
    {"deflated", "host", "auto", "deflated"},
    {"staged", "host-staged", "auto", "file"},
    {"staged_engine", "host-staged", "threads", "file"},
    {"staged_memory", "host-staged", "auto", "memory"},
    {"staged_deflated", "host-staged", "auto", "deflated"},
    {"staged_mapped", "host-staged", "auto", "file", Placement::kAuto, true},
    {"device", "host-staged", "auto", "file", Placement::kGpu},
    {"device_engine", "host-staged", "threads", "file", Placement::kGpu},
    {"device_mapped", "host-staged", "auto", "file", Placement::kGpu, true},
};

// The shards of an array in which the index gives chunk `bad` the length `says`. Each shard has enough bytes for that
// after its chunks, all 0xBD.
struct Stored {
  FlatArray array;
  std::uint64_t bad = 0, says = 0, gap = 0;
  std::uint64_t bad_offset = 0;  // out

  store::Bytes shard(std::uint64_t number) {
    store::Bytes out;
    std::vector<std::uint64_t> index(2 * array.shard_chunks, ~std::uint64_t{0});
    for (std::uint64_t i = 0; i < array.shard_chunks; ++i) {
      const std::uint64_t chunk = number * array.shard_chunks + i;
      if (chunk >= array.chunks) break;
      const store::Bytes encoded = array.encoded(chunk);
      index[2 * i] = out.size();
      index[2 * i + 1] = chunk == bad ? says : encoded.size();
      if (chunk == bad) bad_offset = out.size();
      out.insert(out.end(), encoded.begin(), encoded.end());
      out.resize(out.size() + gap, std::byte{0xBD});
    }
    out.resize(out.size() + kTailBytes, std::byte{0xBD});
    const auto raw = std::as_bytes(std::span(index));
    out.insert(out.end(), raw.begin(), raw.end());
    return out;
  }
};

class StoredLength : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override { device::staged_decode_model().any_codec = true; }
  void TearDown() override { device::staged_decode_model().any_codec = false; }

  // Writes the store and opens its array.
  void open(Stored& stored) {
    const Way& way = GetParam();
    ContextOptions options;
    options.threads = 2;
    options.engine = way.engine;
    options.allow_mapped = way.mapped;
    options.wave_bytes = 1 << 16;
    options.host_budget_bytes = std::size_t{64} << 20;
    array_.reset();
    store_.reset();
    context_ = std::make_unique<Context>(Context::create(options).value());
    device_ = std::make_unique<Device>(Device::open(way.device).value());
    const std::uint64_t shards = (stored.array.chunks + stored.array.shard_chunks - 1) / stored.array.shard_chunks;
    const std::string name = std::to_string(++stores_);
    const std::string_view kind = way.store;
    if (kind == "file" || kind == "memory") {
      const std::string url = kind == "file" ? directory_.path() + "/" + name : "memory://stored_length_" + name;
      std::filesystem::create_directory(directory_.path() + "/" + name);
      store_ = std::make_unique<Store>(Store::open(*context_, url).value());
      ASSERT_TRUE(testing::put_text(*Access::impl(*store_), stored.array.metadata_key(), stored.array.metadata()).ok());
      for (std::uint64_t i = 0; i < shards; ++i) {
        ASSERT_TRUE(store_->put("c/" + std::to_string(i), stored.shard(i)).ok());
      }
    } else {
      testing::ZipWriter zip;
      zip.add_text(stored.array.metadata_key(), stored.array.metadata());
      for (std::uint64_t i = 0; i < shards; ++i) {
        zip.add("c/" + std::to_string(i), stored.shard(i), {.deflate = kind == "deflated"});
      }
      const std::string path = directory_.path() + "/" + name + ".zip";
      ASSERT_TRUE(support::write_file(path, zip.finish()));
      store_ = std::make_unique<Store>(Store::open(*context_, path).value());
    }
    array_ = std::make_unique<Array>(Array::open(*store_).value());
  }

  struct Outcome {
    Status status;
    Stats stats;
    std::vector<ChunkError> errors;
    std::vector<std::uint32_t> elements;
    bool intact = true;
  };
  // Reads all elements, between guard pages if the tensor is on the host.
  Outcome read(bool collect, test::Flush flush) {
    Outcome out;
    out.elements.assign(static_cast<std::size_t>(array_->info().shape[0]), kUntouched);
    const std::size_t bytes = out.elements.size() * 4;
    test::GuardBuffer guarded(bytes, flush);
    Buffer buffer;
    std::byte* data = guarded.data();
    if (device_->host_addressable()) {
      std::memcpy(data, out.elements.data(), bytes);
    } else {
      buffer = Buffer::allocate(*device_, bytes).value();
      data = buffer.data();
      std::memcpy(data, out.elements.data(), bytes);  // the simulated device's memory
    }
    ReadOptions options;
    options.collect_errors = collect;
    options.placement = GetParam().placement;
    const auto reading =
        array_->read_async({}, {{data, bytes}, array_->info().dtype, array_->info().shape}, *device_, options);
    EXPECT_TRUE(reading.ok()) << reading.status().to_string();
    if (!reading.ok()) return out;
    out.status = reading->wait();
    out.stats = reading->stats();
    out.errors = reading->errors();
    std::memcpy(out.elements.data(), data, bytes);
    out.intact = guarded.intact();
    return out;
  }
  Outcome read_mapped() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      Outcome out = read(true, test::Flush::kRight);
      if (out.stats.mapped_bytes > 0 || std::chrono::steady_clock::now() > deadline) return out;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  void check(Stored stored, Code expected_code) {
    ASSERT_NO_FATAL_FAILURE(open(stored));
    auto wanted = stored.array.expected();
    const auto bad = wanted.begin() + static_cast<std::ptrdiff_t>(stored.bad * stored.array.chunk_elements);
    std::fill_n(bad, stored.array.chunk_elements, kUntouched);
    const std::string key = stored.array.key(stored.bad);
    for (const test::Flush flush : {test::Flush::kLeft, test::Flush::kRight}) {
      const Outcome out = GetParam().mapped ? read_mapped() : read(true, flush);
      ASSERT_TRUE(out.status.ok()) << out.status.to_string();
      if (GetParam().mapped) {
        EXPECT_GT(out.stats.mapped_bytes, 0u);
      }
      EXPECT_TRUE(out.intact);
      ASSERT_EQ(out.errors.size(), 1u);
      const ChunkError& error = out.errors[0];
      EXPECT_EQ(error.key, key);
      EXPECT_EQ(error.offset, stored.bad_offset);
      EXPECT_EQ(error.length, stored.says);
      EXPECT_EQ(error.status.code(), expected_code) << error.status.to_string();
      EXPECT_EQ(error.status.key(), key);
      EXPECT_EQ(error.status.offset(), stored.bad_offset);
      EXPECT_EQ(error.status.length(), stored.says);
      EXPECT_EQ(out.stats.chunks, stored.array.chunks - 1);
      ASSERT_TRUE(out.elements == wanted);
      if (stored.says >= kTailBytes) {
        EXPECT_LT(out.stats.read_bytes, kTailBytes);  // they are not requested
      }
    }
    const Outcome strict = read(false, test::Flush::kRight);
    EXPECT_EQ(strict.status.code(), expected_code) << strict.status.to_string();
    EXPECT_EQ(strict.status.key(), key);
    EXPECT_TRUE(strict.intact);
  }

  support::TempDir directory_;
  int stores_ = 0;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Array> array_;
};

TEST_P(StoredLength, OfARawChunkIsThatOfItsElements) {
  if (GetParam().placement == Placement::kGpu) return;  // nothing to decode
  FlatArray array{.layout = Layout::kShardedRaw, .chunks = 40, .chunk_elements = 1000, .shard_chunks = 8};
  constexpr std::uint64_t kBytes = 4000;
  for (const std::uint64_t gap : {std::uint64_t{0}, kFar}) {
    for (const std::uint64_t bad : {13u, 39u}) {
      for (const std::uint64_t says : {kBytes - 1, kBytes + 1, 2 * kBytes, kBytes + 200'000, kTailBytes}) {
        // Each case writes megabytes of gaps.
        if (support::kAddressSanitizer && gap > 0 && says != kBytes - 1 && says != kTailBytes) continue;
        SCOPED_TRACE("gap " + std::to_string(gap) + ", chunk " + std::to_string(bad) + " of " + std::to_string(says));
        check({array, bad, says, gap}, says < kBytes ? Code::kShort : Code::kCorrupt);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(StoredLength, OfACompressedChunkIsAtMostTheCodecsMaximum) {
  FlatArray array{.layout = Layout::kShardedZstd, .chunks = 40, .chunk_elements = 1000, .shard_chunks = 8};
  for (const std::uint64_t gap : {std::uint64_t{0}, kFar}) {
    for (const std::uint64_t bad : {0u, 13u}) {
      SCOPED_TRACE("gap " + std::to_string(gap) + ", chunk " + std::to_string(bad));
      check({array, bad, kTailBytes, gap}, Code::kCorrupt);
      if (HasFailure()) return;
    }
  }
}

// All chunks at once, without a plan's waves.
TEST_P(StoredLength, IsComparedBeforeABatchIsLoaded) {
  Stored stored{
      {.layout = Layout::kShardedZstd, .chunks = 16, .chunk_elements = 1000, .shard_chunks = 8}, 9, kTailBytes};
  ASSERT_NO_FATAL_FAILURE(open(stored));
  const auto batch = DecodeBatch::load(*array_, {}, *device_);
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.status().code(), Code::kCorrupt) << batch.status().to_string();
  EXPECT_EQ(batch.status().key(), stored.array.key(9));
  EXPECT_EQ(batch.status().offset(), stored.bad_offset);
  EXPECT_EQ(batch.status().length(), kTailBytes);
}

INSTANTIATE_TEST_SUITE_P(Way, StoredLength, ::testing::ValuesIn(kWays),
                         [](const auto& about) { return std::string(about.param.name); });

}  // namespace
}  // namespace headrace
