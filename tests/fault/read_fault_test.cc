// Every hit of every fault point during a read fails, some for ever: either the tensor is right or the call says what
// failed, no descriptor leaks, and the next read is right. A hit fails in a fifth of all ways, in the next variant in
// another fifth. AddressSanitizer, which makes reads many times slower, takes a thirteenth.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "io/engine.h"
#include "support/failures.h"
#include "support/flat_array.h"
#include "support/sanitizer.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;

struct Variant {
  const char* device;
  const char* engine;
  Layout layout;
  bool device_decodes = false;  // the device leaves every third chunk to the CPU
  const char* store = "file";
  std::uint64_t number = 0;  // index among all variants
};

constexpr std::uint64_t kShare = support::kAddressSanitizer ? 13 : 5, kForeverShare = 2 * kShare + 1;

class ReadFaults : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    device::staged_decode_model().any_codec = GetParam().device_decodes;
    device::staged_decode_model().host_only_every = 3;
  }
  void TearDown() override {
    device::staged_decode_model().any_codec = false;
    device::staged_decode_model().host_only_every = 0;
  }
  // Makes all objects again, so that their construction meets faults too.
  Status read_all(const std::string& path, const FlatArray& array, std::vector<std::uint32_t>& got) {
    ContextOptions options;
    options.threads = 1;
    options.engine = GetParam().engine;
    options.wave_bytes = 4096;
    options.host_budget_bytes = std::size_t{4} << 20;
    auto context = Context::create(options);
    if (!context.ok()) return context.status();
    auto store = testing::open_filled(*context, path);
    if (!store.ok()) return store.status();
    auto opened = Array::open(*store);
    if (!opened.ok()) return opened.status();
    auto device = Device::open(GetParam().device);
    if (!device.ok()) return device.status();
    auto buffer = Buffer::allocate(*device, array.elements() * 4);
    if (!buffer.ok()) return buffer.status();
    ReadOptions read_options;
    read_options.placement = GetParam().device_decodes ? Placement::kGpu : Placement::kAuto;
    const Status status = opened->read({}, {*buffer, opened->info().dtype, {array.elements()}}, *device, read_options);
    if (!status.ok()) return status;
    return buffer->copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4);
  }
};

TEST_P(ReadFaults, RightElementsOrAnError) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  support::TempDir directory;
  // Engines are expensive to make and destroy, so variants that name one use fewer chunks and have fewer hits.
  const std::string_view engine = GetParam().engine;
  const std::uint64_t chunks = engine == "auto" ? 12 : engine == "aio" ? 2 : 4;
  const FlatArray array{
      .layout = GetParam().layout, .chunks = chunks, .chunk_elements = 256, .shard_chunks = chunks == 12 ? 4u : 2u};
  const auto expected = array.expected();
  std::string url;
  {
    ContextOptions options;
    options.threads = 1;
    auto context = Context::create(options).value();
    std::filesystem::create_directory(directory / "tree");
    const auto tree = Store::open(context, directory / "tree").value();
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(tree), "", array).ok());
    url = testing::store_under_test(GetParam().store).fill(directory.path(), testing::objects_of(*Access::impl(tree)));
    ASSERT_NE(url, "");
  }
  std::vector<std::uint32_t> got(array.elements());
  const auto right = [&] {
    std::fill(got.begin(), got.end(), 0u);
    const Status status = read_all(url, array, got);
    return status.ok() && got == expected ? std::string() : "a read without faults fails: " + status.to_string();
  };
  ASSERT_EQ(right(), "");              // opens the files that stay open
  base::arm_fault({.point = "none"});  // resets the counts
  ASSERT_EQ(right(), "");
  std::uint64_t hits = 0;
  for (const auto& count : base::fault_counts()) hits += count.hits;
  base::disarm_faults();
  ASSERT_GT(hits,
            3u);  // a store of ranges has few fault points, and passes fewer the more ranges it is asked for together

  const std::size_t descriptors = support::open_descriptors();
  int failed = 0, survived = 0;
  std::uint64_t turn = 0;
  for (const support::Failure& failure : support::kFailures) {
    ++turn;
    for (std::uint64_t nth = 0; nth < hits; ++nth) {
      for (const bool forever : {false, true}) {
        if (forever ? (nth + turn) % kForeverShare != 0 : (nth + turn + GetParam().number) % kShare != 0) continue;
        SCOPED_TRACE(std::string(failure.name) + " at hit " + std::to_string(nth) + (forever ? " and on" : ""));
        std::fill(got.begin(), got.end(), 0u);
        base::arm_fault({.point = "*", .kind = failure.kind, .error = failure.error, .nth = nth, .forever = forever});
        const Status status = read_all(url, array, got);
        base::disarm_faults();
        if (status.ok()) {
          ASSERT_TRUE(got == expected) << "wrong elements without an error";
          ++survived;
        } else {
          EXPECT_FALSE(status.message().empty());
          ++failed;
        }
        ASSERT_LE(support::descriptors_left(descriptors), descriptors) << "descriptors were lost";
      }
    }
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(survived, 0);
  EXPECT_EQ(right(), "");
  RecordProperty("failed", failed);
  RecordProperty("survived", survived);
}

// How a read copes with a file system's treatment of O_DIRECT, for chunks and shards.
class DirectReads : public ::testing::TestWithParam<std::pair<Layout, const char*>> {
 protected:
  // Reads a whole array in chunks of a few pages, with an engine given by name, which uses O_DIRECT where it can.
  void read(const base::FaultPlan& plan, Stats& stats) {
    if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
    support::TempDir directory;
    const FlatArray array{.layout = GetParam().first, .chunks = 12, .chunk_elements = 4096, .shard_chunks = 4};
    ContextOptions options;
    options.threads = 1;
    options.engine = GetParam().second;
    auto context = Context::create(options);
    if (!context.ok()) GTEST_SKIP() << context.status().to_string();
    const auto store = Store::open(*context, directory.path()).value();
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(store), "", array).ok());
    const auto device = Device::open("host").value();
    std::vector<std::uint32_t> got(array.elements());
    const auto opened = Array::open(store).value();
    base::arm_fault(plan);
    const Status status = opened.read({}, {got, {got.size()}}, device, {}, &stats);
    base::disarm_faults();
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(got == array.expected());
  }
};

TEST_P(DirectReads, AreMadeAgainThroughThePageCacheWhereTheyAreRefused) {
  Stats stats;
  const std::string point =
      std::string_view(GetParam().second) == "threads" ? "io_threads.pread" : std::string("io_uring.result");
  read({.point = point, .error = EINVAL, .nth = 1}, stats);
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_GT(stats.engine_bytes, 0u);
  read({.point = "none"}, stats);
  if (stats.direct_bytes == 0) GTEST_SKIP() << "the file system refuses O_DIRECT";
  EXPECT_EQ(stats.engine_bytes, 0u);
}

TEST_P(DirectReads, AreNotMadeOnNetworkAndFuseFileSystems) {
  for (const int magic : {0x6969 /* NFS */, 0x65735546 /* FUSE */}) {
    Stats stats;
    read({.point = "base.filesystem_type", .error = -magic, .forever = true}, stats);
    if (IsSkipped() || HasFatalFailure()) return;
    EXPECT_EQ(stats.direct_bytes, 0u);
    EXPECT_GT(stats.engine_bytes, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DirectReads,
                         ::testing::Values(std::pair(Layout::kRaw, "io_uring"), std::pair(Layout::kRaw, "threads"),
                                           std::pair(Layout::kShardedRaw, "io_uring")),
                         [](const auto& kind) {
                           return std::string(testing::layout_name(kind.param.first)) + "_" + kind.param.second;
                         });

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const char* device : {"host", "host-staged"}) {
    std::vector<const char*> engines = {"auto"};
    for (const io::EngineRow& row : io::engines()) engines.push_back(row.name);
    for (const char* const engine : engines) {
      if (std::string_view(device) != "host" && std::string_view(engine) == "aio") continue;  // same as io_uring here
      out.push_back({device, engine, Layout::kZstd});
      out.push_back({device, engine, Layout::kShardedRaw});
      if (std::string_view(device) == "host" || std::string_view(engine) == "io_uring") continue;
      out.push_back({device, engine, Layout::kZstd, true});
      out.push_back({device, engine, Layout::kShardedZstd, true});
    }
    for (const char* store : {"zip", "zip_deflated", "reference"}) {
      out.push_back({device, "auto", Layout::kZstd, false, store});
      out.push_back({device, "auto", Layout::kShardedRaw, false, store});
      out.push_back({device, "io_uring", Layout::kShardedZstd, false, store});
    }
    for (const Layout layout : {Layout::kRaw, Layout::kZstd, Layout::kShardedZstd}) {
      out.push_back({device, "auto", layout, false, "ranges"});
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i].number = i;
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, ReadFaults, ::testing::ValuesIn(variants()), [](const auto& about) {
  std::string name = std::string(about.param.device) + "_" + about.param.engine + "_" +
                     testing::layout_name(about.param.layout) + (about.param.device_decodes ? "_on_device" : "");
  if (std::string_view(about.param.store) != "file") name += std::string("_") + about.param.store;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace headrace
