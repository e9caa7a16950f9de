// Every hit of every fault point that a read passes, made to fail in every way: the tensor is right or the call says
// what failed, no descriptor is lost, and the next read is right.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "backends/dev_host/staged_decoder.h"
#include "support/failures.h"
#include "support/flat_array.h"
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
  bool device_decodes = false;  // and hands every third chunk back
  const char* store = "file";
};

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
  // Everything anew, so that making it is hit as well.
  Status read_all(const std::string& path, const FlatArray& array, std::vector<std::uint32_t>& got) {
    ContextOptions options;
    options.threads = 1;
    options.engine = GetParam().engine;
    options.wave_bytes = 4096;
    options.host_budget_bytes = std::size_t{4} << 20;
    auto context = Context::create(options);
    if (!context.ok()) return context.status();
    auto store = Store::open(*context, path);
    if (!store.ok()) return store.status();
    auto opened = Array::open(*store);
    if (!opened.ok()) return opened.status();
    auto device = Device::open(GetParam().device);
    if (!device.ok()) return device.status();
    auto buffer = Buffer::allocate(*device, array.elements() * 4);
    if (!buffer.ok()) return buffer.status();
    ReadOptions read_options;
    read_options.placement = GetParam().device_decodes ? Placement::kGpu : Placement::kAuto;
    const Status status = opened->read({}, {buffer->data(), {array.elements()}, {}}, *device, read_options);
    if (!status.ok()) return status;
    return buffer->copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4);
  }
};

TEST_P(ReadFaults, RightElementsOrAnError) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  support::TempDir directory;
  const FlatArray array{.layout = GetParam().layout, .chunks = 12, .chunk_elements = 256, .shard_chunks = 4};
  const auto expected = array.expected();
  std::string url;
  {
    ContextOptions options;
    options.threads = 1;
    auto context = Context::create(options).value();
    std::filesystem::create_directory(directory / "tree");
    const auto tree = Store::open(context, directory / "tree").value();
    ASSERT_TRUE(testing::write_flat_array(*tree.impl(), "", array).ok());
    const auto* const row =
        std::find_if(std::begin(testing::kStoresUnderTest), std::end(testing::kStoresUnderTest),
                     [](const auto& kind) { return std::string_view(kind.name) == GetParam().store; });
    ASSERT_NE(row, std::end(testing::kStoresUnderTest));
    url = row->fill(directory.path(), testing::objects_of(*tree.impl()));
    ASSERT_NE(url, "");
  }
  std::vector<std::uint32_t> got(array.elements());
  const auto right = [&] {
    std::fill(got.begin(), got.end(), 0u);
    const Status status = read_all(url, array, got);
    return status.ok() && got == expected ? std::string() : "a read without faults fails: " + status.to_string();
  };
  ASSERT_EQ(right(), "");              // opens what stays open
  base::arm_fault({.point = "none"});  // resets the counts
  ASSERT_EQ(right(), "");
  std::uint64_t hits = 0;
  for (const auto& count : base::fault_counts()) hits += count.hits;
  base::disarm_faults();
  ASSERT_GT(hits, 10u);

  const std::size_t descriptors = support::open_descriptors();
  int failed = 0, survived = 0;
  // An engine takes long to make and tear down; there each hit fails in some of the ways, each way at some of the hits.
  const std::string_view engine = GetParam().engine;
  const std::uint64_t step = engine == "auto" ? 1 : engine == "aio" ? 17 : 5;
  std::uint64_t turn = 0;
  for (const support::Failure& failure : support::kFailures) {
    for (std::uint64_t nth = turn++ % step; nth < hits; nth += step) {
      for (const bool forever : {false, true}) {
        if (forever && (nth + turn) % 7 != 0) continue;
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
        ASSERT_EQ(support::open_descriptors(), descriptors) << "descriptors were lost";
      }
    }
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(survived, 0);
  EXPECT_EQ(right(), "");
  RecordProperty("failed", failed);
  RecordProperty("survived", survived);
}

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const char* device : {"host", "host-staged"}) {
    for (const char* engine : {"auto", "io_uring", "aio", "threads"}) {
      if (std::string_view(device) != "host" && std::string_view(engine) == "aio") continue;  // as io_uring to a device
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
  }
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
