// Property: an array whose objects are ranges of one file, at any offset, or must be unpacked, reads like one in a
// directory: through the page cache, with O_DIRECT, with every engine, from mappings; whole and in part. A stored
// checksum is verified on every path that reads the whole object.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "base/fault.h"
#include "io/engine.h"
#include "support/flat_array.h"
#include "support/flat_zip.h"
#include "support/sanitizer.h"
#include "support/stats_ways.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;
using testing::Objects;

// Index of the first unexpected element; `count` if there is none.
HEADRACE_TEST_OWN_BYTES std::size_t first_other(const std::uint32_t* got, std::size_t count,
                                                const std::uint32_t* expected, std::size_t step) {
  std::size_t i = 0;
  while (i < count && got[i] == expected[i * step]) ++i;
  return i;
}

class FileRangeRead : public ::testing::TestWithParam<testing::StoreUnderTest> {
 protected:
  void TearDown() override { device::staged_decode_model().any_codec = false; }
  // Writes the array's objects into a store of the kind under test.
  void write(const FlatArray& array) {
    auto memory = store::open_store("memory://file_range_read").value();
    ASSERT_TRUE(testing::write_flat_array(*memory, "", array).ok());
    fill(testing::objects_of(*memory));
  }
  void fill(const Objects& objects) {
    directory_ = std::make_unique<support::TempDir>();
    url_ = GetParam().fill(directory_->path(), objects);
    ASSERT_FALSE(url_.empty());
  }
  bool open(const std::string& engine, const char* device) {
    ContextOptions options;
    options.engine = engine;
    options.threads = 2;
    options.wave_bytes = 1 << 20;
    options.host_budget_bytes = std::size_t{256} << 20;
    options.mapped_budget_bytes = std::size_t{32} << 20;
    auto made = Context::create(options);
    if (!made.ok()) return false;  // the engines' own tests count this
    context_ = std::make_unique<Context>(std::move(*made));
    store_ = std::make_unique<Store>(Store::open(*context_, url_).value());
    device_ = std::make_unique<Device>(Device::open(device).value());
    return true;
  }
  struct Outcome {
    Status status;
    Stats stats;
    std::vector<ChunkError> errors;
    std::vector<std::uint32_t> elements;
  };
  // The CPU always reads shard indexes; without them, stats cover chunks only.
  static void leave_out_indexes(const ArrayInfo& info, Stats& stats) {
    if (info.shard_shape.empty()) return;
    const std::uint64_t bytes = stats.objects_opened * (info.shard_shape[0] / info.chunk_shape[0] * 16);
    ASSERT_GE(stats.read_bytes, bytes);
    stats.read_bytes -= bytes;
    (stats.memory_bytes > 0 ? stats.memory_bytes : stats.buffered_bytes) -= bytes;
  }
  Outcome read(const char* part = "", Placement placement = Placement::kAuto) {
    const Array array = Array::open(*store_).value();
    Outcome out = read(array, part, placement);
    leave_out_indexes(array.info(), out.stats);
    return out;
  }
  Outcome read(const Array& array, const char* part, Placement placement) {
    Outcome out;
    const Selection selection = parse_selection(part).value();
    const auto shape = resolve_selection(selection, array.info().shape).value().shape;
    out.elements.assign(static_cast<std::size_t>(shape[0]), 0x55555555);
    auto buffer = Buffer::allocate(*device_, out.elements.size() * 4).value();
    ReadOptions options;
    options.collect_errors = true;
    options.placement = placement;
    auto reading = array.read_async(selection, {buffer, array.info().dtype, shape}, *device_, options).value();
    out.status = reading.wait();
    out.stats = reading.stats();
    EXPECT_EQ(testing::bytes_by_all_ways(out.stats), out.stats.read_bytes) << out.stats.path;
    out.errors = reading.errors();
    EXPECT_TRUE(
        buffer.copy_to_host(0, reinterpret_cast<std::byte*>(out.elements.data()), out.elements.size() * 4).ok());
    return out;
  }
  void expect_parts(const std::vector<std::uint32_t>& expected, Placement placement = Placement::kAuto) {
    for (const auto& [part, first, step] :
         {std::tuple{"", 0u, 1u}, {"7:39990", 7u, 1u}, {"5000:20000", 5000u, 1u}, {"3:30000:3", 3u, 3u}}) {
      SCOPED_TRACE(part);
      const Outcome out = read(part, placement);
      ASSERT_TRUE(out.status.ok()) << out.status.to_string();
      ASSERT_TRUE(out.errors.empty()) << out.errors[0].status.to_string();
      const auto& got = out.elements;
      ASSERT_TRUE(got.empty() || first + (got.size() - 1) * step < expected.size());
      const std::size_t i = first_other(got.data(), got.size(), expected.data() + first, step);
      if (i != got.size()) {
        FAIL() << "element " << i << ": " << got[i] << ", not " << expected[first + i * step];
      }
    }
  }
  bool deflated() const { return std::string_view(GetParam().name) == "zip_deflated"; }
  bool zip() const { return std::string_view(GetParam().name).starts_with("zip"); }
  // An object with a known checksum is read by the CPU when it is read whole.
  bool maps(const FlatArray& array) const {
    return std::string_view(GetParam().name) != "memory" && !deflated() && (!zip() || array.sharded());
  }
  // Reads until the device takes everything from mappings, which are made in the background.
  void read_mapped() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    Outcome out = read("", Placement::kGpu);
    while (out.stats.mapped_bytes < out.stats.read_bytes && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      out = read("", Placement::kGpu);
    }
    ASSERT_EQ(out.stats.mapped_bytes, out.stats.read_bytes) << out.stats.path;
  }

  std::unique_ptr<support::TempDir> directory_;
  std::string url_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Device> device_;
};

TEST_P(FileRangeRead, GivesTheSameElementsByEveryEngine) {
  std::vector<std::string> engines = {"auto"};
  for (const io::EngineRow& row : io::engines()) engines.emplace_back(row.name);
  int turn = 0;
  for (const Layout layout : testing::kLayouts) {
    const FlatArray array{.layout = layout, .chunks = 8, .chunk_elements = 5000, .shard_chunks = 4};
    ASSERT_NO_FATAL_FAILURE(write(array));
    const auto expected = array.expected();
    for (const std::string& engine : engines) {
      for (const char* device : {"host", "host-staged"}) {
        if (support::kThreadSanitizer && turn++ % 3 != 0) continue;  // every engine and device with some layout
        SCOPED_TRACE(std::string(testing::layout_name(layout)) + " " + engine + " " + device);
        if (!open(engine, device)) continue;
        ASSERT_NO_FATAL_FAILURE(expect_parts(expected));
      }
    }
  }
}

TEST_P(FileRangeRead, GivesTheSameElementsOutOfMappings) {
  device::staged_decode_model().any_codec = true;
  for (const Layout layout : testing::kLayouts) {
    SCOPED_TRACE(testing::layout_name(layout));
    // Windows are 4 MiB, so chunks and shards extend across them.
    const FlatArray array{.layout = layout,
                          .chunks = support::kThreadSanitizer || support::kAddressSanitizer ? 40u : 80u,
                          .chunk_elements = 50'000,
                          .shard_chunks = 40};
    ASSERT_NO_FATAL_FAILURE(write(array));
    ASSERT_TRUE(open("auto", "host-staged"));
    const bool all = maps(array);
    const auto expected = array.expected();
    if (all) {
      ASSERT_NO_FATAL_FAILURE(read_mapped());
    }
    const Outcome out = read("", Placement::kGpu);
    EXPECT_EQ(out.stats.mapped_bytes, all ? out.stats.read_bytes : 0u) << out.stats.path;
    ASSERT_TRUE(out.elements == expected);
    ASSERT_NO_FATAL_FAILURE(expect_parts(expected, Placement::kGpu));
    // The CPU reads chunks that the device leaves to it again, at their offset in the file.
    device::staged_decode_model().host_only_every = 3;
    EXPECT_TRUE(read("", Placement::kGpu).elements == expected);
    device::staged_decode_model().host_only_every = 0;
  }
}

TEST_P(FileRangeRead, ErrorsNameTheObject) {
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    const FlatArray array{.layout = layout, .chunks = 8, .chunk_elements = 5000, .shard_chunks = 4};
    auto memory = store::open_store("memory://file_range_errors").value();
    ASSERT_TRUE(testing::write_flat_array(*memory, "", array).ok());
    Objects objects = testing::objects_of(*memory);
    store::Bytes& bad = objects[array.key(5)];
    bad[0] ^= std::byte{0xff};  // of the first chunk in that object
    ASSERT_NO_FATAL_FAILURE(fill(objects));
    for (const char* engine : {"auto", "threads"}) {
      for (const char* device : {"host", "host-staged"}) {
        ASSERT_TRUE(open(engine, device));
        const Outcome out = read();
        ASSERT_EQ(out.errors.size(), 1u);
        EXPECT_EQ(out.errors[0].key, array.key(5));
        EXPECT_EQ(out.errors[0].status.code(), Code::kCorrupt) << out.errors[0].status.to_string();
        EXPECT_EQ(out.errors[0].offset, 0u) << "in the object, not in the file";
      }
    }
  }
}

// If the CPU's second read of a mapped chunk fails, the error gives the offset in the object.
TEST_P(FileRangeRead, ErrorsOfRepeatedReadsNameTheObject) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  device::staged_decode_model().any_codec = true;
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    const FlatArray array{.layout = layout, .chunks = 8, .chunk_elements = 5000, .shard_chunks = 4};
    ASSERT_NO_FATAL_FAILURE(write(array));
    if (!maps(array)) continue;
    ASSERT_TRUE(open("auto", "host-staged"));
    ASSERT_NO_FATAL_FAILURE(read_mapped());
    const Array opened = Array::open(*store_).value();
    (void)read(opened, "", Placement::kGpu);  // caches the shards' indexes
    device::staged_decode_model().host_only_every = 1;
    base::arm_fault({.point = "base.pread", .error = EIO, .forever = true});
    const Outcome out = read(opened, "", Placement::kGpu);
    base::disarm_faults();
    device::staged_decode_model().host_only_every = 0;
    ASSERT_EQ(out.errors.size(), array.chunks) << out.status.to_string();
    for (const ChunkError& error : out.errors) {
      EXPECT_EQ(error.status.code(), Code::kIo) << error.status.to_string();
      store::ByteSource object;
      ASSERT_TRUE(Access::impl(*store_)->open(error.key, object).ok());
      EXPECT_LE(error.offset + error.length, object.size_bytes()) << error.status.to_string();
      if (!array.sharded()) {
        EXPECT_EQ(error.offset, 0u) << error.status.to_string();
        EXPECT_EQ(error.length, object.size_bytes());
      }
    }
  }
}

// The packed bytes of a deflated entry are counted: for a chunk at each read, for a shard when it is opened.
TEST_P(FileRangeRead, UnpackedObjectsAreCountedByTheirStoredSize) {
  if (!zip()) return;
  for (const Layout layout : {Layout::kRaw, Layout::kShardedRaw}) {
    const FlatArray array{.layout = layout, .chunks = 8, .chunk_elements = 5000, .shard_chunks = 4};
    ASSERT_NO_FATAL_FAILURE(write(array));
    ASSERT_TRUE(open("auto", "host"));
    const std::uint64_t objects = array.sharded() ? 2 : 8;
    std::uint64_t file_bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_->path())) {
      if (entry.is_regular_file()) file_bytes += entry.file_size();
    }
    const Array opened = Array::open(*store_).value();
    const Outcome first = read(opened, "", Placement::kAuto), second = read(opened, "", Placement::kAuto);
    ASSERT_TRUE(first.elements == array.expected());
    EXPECT_EQ(first.stats.packed_bytes > 0, deflated());
    EXPECT_LT(first.stats.packed_bytes, file_bytes);
    if (!deflated()) continue;
    // The rest are names, headers and metadata.
    EXPECT_GT(first.stats.packed_bytes + objects * 300 + 4096, file_bytes);
    EXPECT_EQ(first.stats.path, array.sharded() ? "memory" : "unpacked");
    EXPECT_EQ(second.stats.packed_bytes, array.sharded() ? 0 : first.stats.packed_bytes);
    EXPECT_EQ(second.stats.memory_bytes, array.sharded() ? second.stats.stored_bytes : 0);
    EXPECT_EQ(first.stats.requests - second.stats.requests, array.sharded() ? 2 * objects : 0) << "and its index";
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, FileRangeRead, ::testing::ValuesIn(testing::stores_under_test()),
                         [](const auto& row) { return std::string(row.param.name); });

// Whoever reads a stored entry whole verifies its checksum.
class ZipChecksum : public FileRangeRead {};

TEST_P(ZipChecksum, IsVerifiedByEveryEngineOnEveryDevice) {
  const FlatArray array{.layout = Layout::kRaw, .chunks = 4, .chunk_elements = 5000};
  for (const bool deflate : {false, true}) {
    directory_ = std::make_unique<support::TempDir>();
    url_ = directory_->path() + "/a.zip";
    ASSERT_TRUE(support::write_file(url_, testing::zip_of(array, deflate, 2)));
    std::vector<std::string> engines = {"auto"};
    for (const io::EngineRow& row : io::engines()) engines.emplace_back(row.name);
    for (const std::string& engine : engines) {
      for (const char* device : {"host", "host-staged"}) {
        SCOPED_TRACE(engine + " " + device);
        if (!open(engine, device)) continue;
        for (int round = 0; round < 3; ++round) {
          const Outcome out = read();
          ASSERT_EQ(out.errors.size(), 1u);
          EXPECT_EQ(out.errors[0].key, "2");
          EXPECT_EQ(out.errors[0].status.code(), Code::kCorrupt);
          EXPECT_NE(out.errors[0].status.message().find("CRC-32"), std::string::npos);
          EXPECT_EQ(out.stats.chunks, 3u);
        }
        // A part of a stored entry cannot be verified; a deflated one is always unpacked whole.
        EXPECT_EQ(read("10001:10010").errors.size(), deflate ? 1u : 0u);
      }
    }
  }
}

TEST_P(ZipChecksum, AnArchiveCutShortWhileOpenIsAnError) {
  const FlatArray array{.layout = Layout::kRaw, .chunks = 4, .chunk_elements = 5000};
  ASSERT_NO_FATAL_FAILURE(write(array));
  for (const char* engine : {"auto", "threads"}) {
    ASSERT_TRUE(open(engine, "host"));
    ASSERT_EQ(read().errors.size(), 0u);
    const std::string path = directory_->path() + "/objects.zip";
    const store::Bytes whole = store::open_store(directory_->path()).value()->get("objects.zip", 1 << 20).value();
    store::ByteSource object;
    ASSERT_TRUE(Access::impl(*store_)->open("2", object).ok());
    std::filesystem::resize_file(path, object.file().begin + 100);
    const Outcome out = read();
    ASSERT_EQ(out.errors.size(), 2u);
    for (const ChunkError& error : out.errors) {
      EXPECT_EQ(error.status.code(), Code::kShort) << error.status.to_string();
      EXPECT_EQ(error.offset, 0u) << error.status.to_string();
      EXPECT_EQ(error.length, 20'000u);
    }
    ASSERT_TRUE(support::write_file(path, whole));
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, ZipChecksum, ::testing::Values(testing::store_under_test("zip")),
                         [](const auto& row) { return std::string(row.param.name); });

// A file of many objects is truncated before one of them while the device reads it: all of that object is missing.
class CutBeforeObject : public FileRangeRead {};

TEST_P(CutBeforeObject, TheRangeThatIsMissingIsTheObjects) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const FlatArray array{.layout = Layout::kRaw, .chunks = 8, .chunk_elements = 20'000};
  ASSERT_NO_FATAL_FAILURE(write(array));
  ASSERT_TRUE(open("auto", "host-staged"));
  ASSERT_NO_FATAL_FAILURE(read_mapped());
  const auto copies = [] {
    std::uint64_t hits = 0;
    for (const base::FaultCount& count : base::fault_counts()) hits += count.point == "dev_host.copy" ? count.hits : 0;
    return hits;
  };
  base::arm_delay("dev_host.copy", std::chrono::seconds(1));  // counted from when the copy is queued
  std::thread cutter([&copies, before = copies(), this] {
    while (copies() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const char* name : {"data0", "data1"}) std::filesystem::resize_file((*directory_) / name, 100);
  });
  const Outcome out = read("", Placement::kGpu);
  cutter.join();
  base::arm_delay("dev_host.copy", std::chrono::microseconds(0));
  ASSERT_FALSE(out.errors.empty());
  std::size_t gone = 0;
  for (const ChunkError& error : out.errors) {
    EXPECT_EQ(error.status.code(), Code::kShort) << error.status.to_string();
    EXPECT_LE(error.offset + error.length, array.chunk_elements * 4) << error.status.to_string();
    gone += error.offset == 0 && error.length == array.chunk_elements * 4 ? 1 : 0;
  }
  EXPECT_GT(gone, 2u) << "lie wholly behind the file's new end";
}

INSTANTIATE_TEST_SUITE_P(Stores, CutBeforeObject, ::testing::Values(testing::store_under_test("reference")),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace headrace
