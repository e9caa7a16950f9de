// Property: for chunks that must be fetched from a disk or a user-supplied store, a selection of some rows reads the
// table of a chunk's parts and then those parts, if that saves more than the second request costs. The elements equal
// those of whole chunks, even if an object changes between the two requests. Stats counts what was read.
#include "transfer/read/cold_part.h"

#include <blosc.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "os/file_read.h"
#include "support/byte_store_testing.h"
#include "support/ranges_in_memory.h"
#include "support/sanitizer.h"
#include "support/stats_ways.h"
#include "support/temp_dir.h"
#include "transfer/read/chunk_part.h"

namespace headrace {
namespace {

using testing::Objects;
using testing::RangeHabits;
using testing::RangeStoreInMemory;

constexpr std::uint64_t kPlanes = 4, kRows = 1024, kColumns = 256;
constexpr std::size_t kChunkBytes = kRows * kColumns * 4;

// Half of the bytes are noise, so that a chunk compresses to about half of its size.
std::uint32_t value_at(std::uint64_t version, std::uint64_t plane, std::uint64_t row, std::uint64_t column) {
  std::uint64_t x = (((version * kPlanes + plane) * kRows + row) * kColumns + column + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<std::uint32_t>((x ^ (x >> 31)) & 0xffff) | 0x40000000u;
}

constexpr std::uint64_t kBlockBytes = 16 << 10;  // 64 per chunk

store::Bytes chunk(std::uint64_t version, std::uint64_t plane, std::uint64_t block_bytes) {
  std::vector<std::uint32_t> elements;
  for (std::uint64_t i = 0; i < kRows * kColumns; ++i) {
    elements.push_back(value_at(version, plane, i / kColumns, i % kColumns));
  }
  store::Bytes out(kChunkBytes + BLOSC_MAX_OVERHEAD);
  const int bytes =
      blosc_compress_ctx(1, 1, 4, kChunkBytes, elements.data(), out.data(), out.size(), "zstd", block_bytes, 1);
  EXPECT_GT(bytes, 0);
  out.resize(static_cast<std::size_t>(bytes));
  return out;
}

std::string key_of(bool sharded, std::uint64_t plane) {
  return sharded ? "c/0/0/0" : "c/" + std::to_string(plane) + "/0/0";
}

// One chunk per plane: one object each, or all in one shard.
Objects objects_of(bool sharded, std::uint64_t version = 0, std::uint64_t block_bytes = kBlockBytes) {
  const std::string plane = std::to_string(kRows) + "," + std::to_string(kColumns) + "]";
  std::string codecs =
      R"([{"name":"bytes","configuration":{"endian":"little"}},{"name":"blosc","configuration":{"cname":"zstd",)"
      R"("clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}}])";
  if (sharded) {
    codecs = R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[1,)" + plane + R"(,"codecs":)" + codecs +
             R"(,"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}}])";
  }
  const std::string text = R"({"zarr_format":3,"node_type":"array","shape":[)" + std::to_string(kPlanes) + "," + plane +
                           R"(,"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" +
                           std::to_string(sharded ? kPlanes : 1) + "," + plane +
                           R"(}},"chunk_key_encoding":{"name":"default"},"fill_value":7,"codecs":)" + codecs + "}";
  Objects out;
  const auto* const from = reinterpret_cast<const std::byte*>(text.data());
  out["zarr.json"] = store::Bytes(from, from + text.size());
  store::Bytes index;
  for (std::uint64_t i = 0; i < kPlanes; ++i) {
    const store::Bytes one = chunk(version, i, block_bytes);
    store::Bytes& object = out[key_of(sharded, i)];
    const std::uint64_t entry[2] = {object.size(), one.size()};
    object.insert(object.end(), one.begin(), one.end());
    const auto* const bytes = reinterpret_cast<const std::byte*>(entry);
    index.insert(index.end(), bytes, bytes + sizeof entry);
  }
  if (sharded) out[key_of(true, 0)].insert(out[key_of(true, 0)].end(), index.begin(), index.end());
  return out;
}

struct Way {
  const char* device = "host";
  Placement placement = Placement::kCpu;
  bool sharded = false;
};

std::string name_of(const ::testing::TestParamInfo<Way>& info) {
  const Way& way = info.param;
  std::string name =
      std::string(way.device) + (way.placement == Placement::kGpu ? "_gpu" : "_cpu") + (way.sharded ? "_sharded" : "");
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

class ColdParts : public ::testing::TestWithParam<Way> {
 protected:
  ColdParts() : device_(Device::open(GetParam().device).value()) { save(0); }
  void TearDown() override {
    transfer::min_saved_file_bytes = std::uint64_t{128} << 10;
    transfer::min_saved_store_bytes = std::uint64_t{1} << 20;
  }
  // Sets how many bytes a second request must save.
  static void save(std::uint64_t least) { transfer::min_saved_file_bytes = transfer::min_saved_store_bytes = least; }
  static Context make_context(unsigned threads = 2, const char* engine = "auto", bool direct = true) {
    ContextOptions options;
    options.threads = threads;
    options.engine = engine;
    options.allow_direct = direct;
    options.allow_mapped = false;  // mapped pages would stay in the page cache
    return Context::create(options).value();
  }
  Array open(RangeHabits habits, std::uint64_t block_bytes = kBlockBytes) {
    {
      std::lock_guard lock(mutex_);
      asked_ = given_ = 0;
    }
    auto change = std::move(habits.change);
    habits.change = [this, change](RangeRead& read) {
      if (change) change(read);
      std::lock_guard lock(mutex_);
      ++asked_;
      given_ += read.status.ok() ? read.bytes : 0;
    };
    in_memory_ = std::make_shared<RangeStoreInMemory>(objects_of(sharded(), 0, block_bytes), habits);
    return Array::open(Store::open(context_, in_memory_).value()).value();
  }
  static bool sharded() { return GetParam().sharded; }

  struct Rows {
    std::uint64_t begin, end;
  };
  // The result of reading some rows of all planes.
  struct Outcome {
    Status status;
    Stats stats;
    std::vector<std::uint32_t> elements;
    bool is(std::uint64_t plane, std::uint64_t version, Rows rows) const {
      const std::uint64_t count = (rows.end - rows.begin) * kColumns;
      for (std::uint64_t i = 0; i < count; ++i) {
        if (elements[plane * count + i] != value_at(version, plane, rows.begin + i / kColumns, i % kColumns))
          return false;
      }
      return true;
    }
    bool are(std::uint64_t version, Rows rows) const {
      for (std::uint64_t plane = 0; plane < kPlanes; ++plane) {
        if (!is(plane, version, rows)) return false;
      }
      return true;
    }
  };
  Outcome read(const Array& array, Rows rows, Verify verify = Verify::kAsRead) {
    Outcome out;
    const std::uint64_t count = kPlanes * (rows.end - rows.begin) * kColumns;
    Buffer buffer = Buffer::allocate(device_, count * 4).value();
    ReadOptions options;
    options.placement = GetParam().placement;
    options.verify = verify;
    const Selection selection{{}, {.start = std::int64_t(rows.begin), .stop = std::int64_t(rows.end)}, {}};
    out.status = array.read(selection, {buffer, array.info().dtype, {kPlanes, rows.end - rows.begin, kColumns}},
                            device_, options, &out.stats);
    out.elements.resize(count);
    EXPECT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(out.elements.data()), count * 4).ok());
    EXPECT_EQ(testing::bytes_by_all_ways(out.stats), out.stats.read_bytes);
    EXPECT_LE(out.stats.stored_bytes, out.stats.read_bytes);
    return out;
  }
  // Requests and bytes of the store since the last call.
  std::pair<std::uint64_t, std::uint64_t> traffic() {
    std::lock_guard lock(mutex_);
    return {std::exchange(asked_, 0), std::exchange(given_, 0)};
  }

  const Context context_ = make_context();
  const Device device_;
  std::shared_ptr<RangeStoreInMemory> in_memory_;
  std::mutex mutex_;
  std::uint64_t asked_ = 0, given_ = 0;  // guarded by mutex_
};

TEST_P(ColdParts, OnlyTheTableAndTheNeededPartAreRequested) {
  const Array array = open({.tells_version = true});
  const Rows rows{200, 232};  // three of 64 blocks
  (void)read(array, rows);    // opens the shard
  (void)traffic();
  const Outcome part = read(array, rows);
  const auto [requests, bytes] = traffic();
  ASSERT_TRUE(part.status.ok()) << part.status.to_string();
  EXPECT_TRUE(part.are(0, rows));
  EXPECT_EQ(requests, 2 * kPlanes);
  EXPECT_EQ(part.stats.requests, requests);
  EXPECT_EQ(part.stats.store_bytes, bytes);
  EXPECT_EQ(part.stats.chunks, kPlanes);
  EXPECT_EQ(part.stats.skipped_bytes, kPlanes * 61 * kBlockBytes);
  const Outcome whole = read(array, rows, Verify::kWhole);
  EXPECT_EQ(whole.stats.skipped_bytes, 0u);
  EXPECT_EQ(traffic().first, kPlanes);
  EXPECT_LT(bytes, whole.stats.store_bytes / 5);
}

TEST_P(ColdParts, AnyRowsAreTheSame) {
  std::mt19937 random(20261126);
  for (const bool tells_version : {true, false}) {
    const Array array = open({.answers = RangeHabits::Answers::kReversed, .tells_version = tells_version});
    for (int i = 0; i < (support::kThreadSanitizer ? 8 : 25); ++i) {
      const std::uint64_t begin = random() % kRows;
      const Rows rows{begin, begin + 1 + random() % (i % 2 == 0 ? 40 : kRows - begin)};
      const Rows within{rows.begin, std::min(rows.end, kRows)};
      const Outcome out = read(array, within);
      ASSERT_TRUE(out.status.ok()) << out.status.to_string();
      ASSERT_TRUE(out.are(0, within)) << within.begin << " to " << within.end;
    }
  }
}

// Without versions, only a single request is known to return one version.
TEST_P(ColdParts, WithoutVersionsOneRequestIsMade) {
  const Array array = open({.tells_version = false});
  (void)traffic();
  const Outcome out = read(array, {200, 232});
  ASSERT_TRUE(out.status.ok()) << out.status.to_string();
  EXPECT_TRUE(out.are(0, {200, 232}));
  // For a shard also its index, before and after.
  EXPECT_EQ(traffic().first, kPlanes + (sharded() ? 2 : 0));
}

// A chunk of 1 MiB is stored in about 512 KiB, which is less than a round trip to a store is worth.
TEST_P(ColdParts, SmallSavingsReadTheWholeChunk) {
  transfer::min_saved_store_bytes = std::uint64_t{1} << 20;
  const Rows rows{200, 232};
  const Array array = open({.tells_version = true});
  (void)read(array, rows);
  (void)traffic();
  const Outcome out = read(array, rows);
  ASSERT_TRUE(out.status.ok()) << out.status.to_string();
  EXPECT_TRUE(out.are(0, rows));
  EXPECT_EQ(traffic().first, kPlanes);
  // The bytes saved are those of the rows that are not wanted.
  save(150 << 10);
  (void)read(array, {0, 600});
  EXPECT_EQ(traffic().first, 2 * kPlanes);
  (void)read(array, {0, 740});
  EXPECT_EQ(traffic().first, kPlanes);
}

// A container of one block has no parts.
TEST_P(ColdParts, ChunksWithoutPartsAreReadWhole) {
  const Array array = open({.tells_version = true}, kChunkBytes);
  const Rows rows{200, 232};
  (void)read(array, rows);
  (void)traffic();
  const Outcome out = read(array, rows);
  ASSERT_TRUE(out.status.ok()) << out.status.to_string();
  EXPECT_TRUE(out.are(0, rows));
  EXPECT_EQ(out.stats.skipped_bytes, 0u);
  EXPECT_EQ(traffic().first, 2 * kPlanes);
}

TEST_P(ColdParts, AnObjectReplacedBetweenItsTableAndItsPartIsReadAnew) {
  const Rows rows{200, 232};
  for (const bool removed : {false, true}) {
    std::atomic<int> tables{0};
    RangeHabits habits{.tells_version = true};
    const Objects newer = objects_of(sharded(), 1);
    habits.change = [&](RangeRead& read) {
      const bool is_table = read.out.size() == codec::kMaxPartTableBytes && read.key.starts_with("c/");
      if (!is_table || tables++ != 0) return;
      for (const auto& [key, bytes] : newer) {
        if (!key.starts_with("c/")) continue;
        if (removed) {
          in_memory_->remove(key);
        } else {
          EXPECT_TRUE(in_memory_->put(key, bytes).ok());
        }
      }
    };
    const Array array = open(habits);
    const Outcome out = read(array, rows);
    EXPECT_GT(tables, 0);
    if (sharded()) {
      EXPECT_EQ(out.status.code(), Code::kAgainExhausted) << out.status.to_string();
      continue;
    }
    ASSERT_TRUE(out.status.ok()) << out.status.to_string();
    if (removed) {
      EXPECT_EQ(out.stats.missing_chunks, kPlanes);
      EXPECT_EQ(std::count(out.elements.begin(), out.elements.end(), 7u), std::ptrdiff_t(out.elements.size()));
    } else {
      EXPECT_TRUE(out.are(1, rows));
    }
  }
}

// Each chunk has elements of a single version, however often a writer replaces it.
TEST_P(ColdParts, VersionsAreNotMixed) {
  const Objects versions[] = {objects_of(sharded(), 0), objects_of(sharded(), 1)};
  std::mt19937 random(20261126);
  RangeHabits habits{.tells_version = true};
  habits.change = [&](RangeRead& read) {  // called on the store's only thread
    if (!read.key.starts_with("c/") || random() % 3 != 0) return;
    const std::string key(read.key);
    EXPECT_TRUE(in_memory_->put(key, versions[random() % 2].at(key)).ok());
  };
  const Array array = open(habits);
  const Rows rows{100, 132};
  constexpr int kReads = support::kThreadSanitizer ? 10 : 30;
  int good = 0;
  for (int i = 0; i < kReads; ++i) {
    const Outcome out = read(array, rows);
    if (!out.status.ok()) {
      EXPECT_EQ(out.status.code(), Code::kAgainExhausted) << out.status.to_string();
      continue;
    }
    ++good;
    for (std::uint64_t plane = 0; plane < kPlanes; ++plane) {
      ASSERT_TRUE(out.is(plane, 0, rows) || out.is(plane, 1, rows)) << "plane " << plane;
    }
  }
  if (!sharded()) {
    EXPECT_EQ(good, kReads);
  }
}

TEST_P(ColdParts, WrongAnswersAreRejected) {
  testing::RandomLies lies(20261126, 4);
  RangeHabits habits{.tells_version = true};
  std::atomic<bool> honest{true};
  habits.change = [&](RangeRead& read) {
    if (!honest) lies.tell(read);
  };
  const Array array = open(habits);
  honest = false;
  int failed = 0;
  for (int i = 0; i < 50; ++i) {
    const Rows rows{100, 132};
    const Outcome out = read(array, rows);
    if (!out.status.ok()) {
      ++failed;
    } else if (out.stats.missing_chunks == 0) {
      ASSERT_TRUE(out.are(0, rows));
    }
    ASSERT_EQ(in_memory_->in_flight, 0u);
  }
  EXPECT_GT(failed, 10);
}

// Cold files, with the automatic engine and a named one, with O_DIRECT and through the page cache.
TEST_P(ColdParts, OfAFileOnlyThePartsAreRead) {
  support::TempDir directory;
  {
    const Store files = Store::open(context_, directory.path()).value();
    for (const auto& [key, bytes] : objects_of(sharded())) ASSERT_TRUE(files.put(key, bytes).ok());
  }
  const auto drop = [&] {
    for (std::uint64_t plane = 0; plane < kPlanes; ++plane) {
      const int fd = ::open((directory / key_of(sharded(), plane)).c_str(), O_RDONLY | O_CLOEXEC);
      ASSERT_GE(fd, 0);
      EXPECT_EQ(::fdatasync(fd), 0);
      // Recently read pages may stay in use for a short while.
      const auto bytes = static_cast<std::uint64_t>(::lseek(fd, 0, SEEK_END));
      for (int tries = 0; tries < 200; ++tries) {
        EXPECT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        const os::Residency left = os::residency(fd, 0, bytes);
        if (left != os::Residency::kPartly && left != os::Residency::kCached) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      ::close(fd);
    }
  };
  const Rows rows{200, 232};
  for (const char* engine : {"auto", "threads"}) {
    for (const bool direct : {true, false}) {
      SCOPED_TRACE(std::string(engine) + (direct ? " direct" : " through the page cache"));
      const Context context = make_context(2, engine, direct);
      const Array array = Array::open(Store::open(context, directory.path()).value()).value();
      (void)read(array, rows, Verify::kWhole);
      drop();
      const Outcome part = read(array, rows);
      ASSERT_TRUE(part.status.ok()) << part.status.to_string();
      EXPECT_TRUE(part.are(0, rows));
      EXPECT_EQ(part.stats.chunks, kPlanes);
      EXPECT_EQ(part.stats.skipped_bytes, kPlanes * 61 * kBlockBytes);
      EXPECT_GT(part.stats.direct_bytes + part.stats.engine_bytes, 0u);
      drop();
      const Outcome whole = read(array, rows, Verify::kWhole);
      EXPECT_LT(part.stats.read_bytes, whole.stats.read_bytes / 3);
      transfer::min_saved_file_bytes = ~std::uint64_t{0};
      // Pages left in the cache do not make the read larger.
      Outcome at_once;
      for (int tries = 0; tries < 10 && at_once.stats.read_bytes <= whole.stats.read_bytes / 2; ++tries) {
        drop();
        at_once = read(array, rows);
        EXPECT_TRUE(at_once.are(0, rows));
      }
      EXPECT_GT(at_once.stats.read_bytes, whole.stats.read_bytes / 2);
      save(0);
    }
  }
}

std::vector<Way> ways() {
  std::vector<Way> out;
  for (const bool sharded : {false, true}) {
    out.push_back({"host", Placement::kCpu, sharded});
    out.push_back({"host-staged", Placement::kCpu, sharded});
    out.push_back({"host-staged", Placement::kGpu, sharded});
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, ColdParts, ::testing::ValuesIn(support::all_or_every(4, ways())), name_of);

}  // namespace
}  // namespace headrace
