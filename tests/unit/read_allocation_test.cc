// Property: the number of allocations of a read does not grow with the number of chunks.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "support/alloc_counter.h"
#include "support/flat_array.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;

constexpr std::uint64_t kFew = 128, kMany = 8 * kFew;
constexpr std::uint64_t kWaveChunks = 32;  // so that both reads reuse their waves
// Per read: plan, waves, lanes and their vectors, which reach their full size with the first waves; and the form of its
// chunks.
constexpr std::uint64_t kConstant = 64 + 4;
constexpr std::uint64_t kPerWave = 4;
// Per read that the device decodes: the decoder, and the lists of encoded chunks of each wave and stream.
constexpr std::uint64_t kDecoder = 24;
// Per read from mappings: the lists of pieces, files and windows of each wave and worker.
constexpr std::uint64_t kMapped = 24;

struct Variant {
  const char* store;
  const char* device;
  const char* engine;
  unsigned threads;
  Layout layout;
  bool device_decodes = false;
  bool mapped = false;  // the device reads from the page cache
};

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const char* store : {"file", "memory"}) {
    for (const char* device : {"host", "host-staged"}) {
      for (const unsigned threads : {1u, 2u}) {
        for (const Layout layout : testing::kLayouts) {
          out.push_back({store, device, "auto", threads, layout});
          // Through an engine, as for cold data.
          const bool cold = layout == Layout::kRaw || layout == Layout::kShardedZstd;
          if (std::string_view(store) == "file" && cold) out.push_back({store, device, "threads", threads, layout});
          const bool on_device = std::string_view(device) == "host-staged";
          if (on_device && cold && std::string_view(store) == "file") {
            out.push_back({store, device, "auto", threads, layout, layout == Layout::kShardedZstd, true});
          }
          const bool encoded = layout != Layout::kRaw && layout != Layout::kShardedRaw;
          if (std::string_view(device) == "host" || !encoded) continue;
          out.push_back({store, device, "auto", threads, layout, true});
          if (std::string_view(store) == "file") out.push_back({store, device, "threads", threads, layout, true});
        }
      }
    }
  }
  // Ranges of one file, and objects that must be unpacked.
  for (const char* store : {"zip", "zip_deflated", "reference"}) {
    for (const char* device : {"host", "host-staged"}) {
      for (const Layout layout : {Layout::kRaw, Layout::kZstd, Layout::kShardedZstd}) {
        for (const char* engine : {"auto", "threads"}) out.push_back({store, device, engine, 2, layout});
      }
    }
  }
  return out;
}

std::string name_of(const ::testing::TestParamInfo<Variant>& info) {
  const Variant& v = info.param;
  std::string name = std::string(v.store) + "_" + v.device + "_" + v.engine + "_" + std::to_string(v.threads) + "_" +
                     testing::layout_name(v.layout) + (v.device_decodes ? "_on_device" : "") +
                     (v.mapped ? "_mapped" : "");
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

class ReadAllocation : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
    const Variant& v = GetParam();
    device::staged_decode_model().any_codec = v.device_decodes;
    ContextOptions options;
    options.threads = v.threads;
    options.engine = v.engine;
    options.waves = 3;
    options.allow_mapped = v.mapped;
    options.wave_bytes = kWaveChunks * 256;
    options.host_budget_bytes = std::size_t{64} << 20;
    auto made = Context::create(options);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    context = std::make_unique<Context>(std::move(*made));
    static int number = 0;
    // Read-only stores are filled from the store in memory.
    auto opened = Store::open(*context, in_files() ? files().path() : "memory://allocation" + std::to_string(++number));
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    store = std::make_unique<Store>(std::move(*opened));
    auto opened_device = Device::open(v.device);
    ASSERT_TRUE(opened_device.ok()) << opened_device.status().to_string();
    device = std::make_unique<Device>(std::move(*opened_device));
  }

  void TearDown() override { device::staged_decode_model().any_codec = false; }

  static bool in_files() { return std::string_view(GetParam().store) == "file"; }

  // Shared by all variants: the thousand files of an array are written once.
  static const support::TempDir& files() {
    static const support::TempDir shared;
    return shared;
  }

  struct Figures {
    std::uint64_t allocations = ~std::uint64_t{0}, waves = 0;
  };

  static std::uint64_t limit(const Figures& figures) {
    return kConstant + (GetParam().device_decodes ? kDecoder : 0) + (GetParam().mapped ? kMapped : 0) +
           kPerWave * figures.waves;
  }

  // The fewest allocations of several reads, after two warm-up reads. Threads that start or wake at different times
  // change the count slightly, so more reads are made if two were above the limit. Allocations per chunk, or in every
  // read, occur in all of them.
  Figures measure(std::uint64_t chunks) {
    FlatArray array{.layout = GetParam().layout, .chunks = chunks};
    // A path too long for the small-string optimisation.
    const std::string path = std::string("a-directory-with-a-long-name/") + testing::layout_name(array.layout) +
                             "-array-of-" + std::to_string(chunks);
    static std::set<std::string> written;
    if (!in_files() || written.insert(path).second) {
      EXPECT_TRUE(testing::write_flat_array(*Access::impl(*store), path, array).ok());
    }
    Figures best;
    std::optional<Store> from = *store;
    for (const testing::StoreUnderTest& row : testing::stores_under_test()) {
      if (row.writable || std::string_view(row.name) != GetParam().store) continue;
      const std::string folder = directory.path() + "/" + std::to_string(chunks);
      std::filesystem::create_directory(folder);
      auto filled = Store::open(*context, row.fill(folder, testing::objects_of(*Access::impl(*store))));
      EXPECT_TRUE(filled.ok()) << filled.status().to_string();
      from = std::move(*filled);
    }
    auto opened = Array::open(*from, path);
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    if (!opened.ok()) return best;
    std::vector<std::uint32_t> got(array.elements());
    ReadOptions read_options;
    read_options.placement = GetParam().device_decodes ? Placement::kGpu : Placement::kCpu;
    const TensorView tensor{got, {array.elements()}};
    // Mappings are made in the background, once files are old enough.
    for (int i = 0; GetParam().mapped && i < 500; ++i) {
      Stats stats;
      EXPECT_TRUE(opened->read({}, tensor, *device, read_options, &stats).ok());
      if (stats.mapped_bytes == stats.read_bytes) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (array.sharded()) support::wait_until_unchanged();
    for (int round = 0; round < 4 || (round < 16 && best.allocations > limit(best)); ++round) {
      std::fill(got.begin(), got.end(), 0);
      Stats stats;
      const support::AllocScope scope;
      const Status status = opened->read({}, tensor, *device, read_options, &stats);
      const std::uint64_t allocations = scope.allocations();
      EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(stats.chunks, chunks);
      EXPECT_EQ(stats.mapped_bytes, GetParam().mapped ? stats.read_bytes : 0);
      EXPECT_EQ(stats.gpu_chunks, GetParam().device_decodes ? chunks : 0);
      if (round < 2 || allocations >= best.allocations) continue;
      best.allocations = allocations;
      best.waves = stats.waves;
    }
    EXPECT_TRUE(got == array.expected());
    return best;
  }

  support::TempDir directory;
  std::unique_ptr<Context> context;
  std::unique_ptr<Store> store;
  std::unique_ptr<Device> device;
};

TEST_P(ReadAllocation, DoesNotGrowWithTheNumberOfChunks) {
  const Figures few = measure(kFew), many = measure(kMany);
  if (HasFailure()) return;
  // host-staged keeps a queue, which allocates a block for every few waves.
  const bool staged = std::string_view(GetParam().device) == "host-staged";
  const double queue = staged ? static_cast<double>(many.waves - few.waves) : 0;
  const double per_chunk = (static_cast<double>(many.allocations) - static_cast<double>(few.allocations) - queue) /
                           static_cast<double>(kMany - kFew);
  RecordProperty("allocations_few", std::to_string(few.allocations));
  RecordProperty("allocations_many", std::to_string(many.allocations));
  RecordProperty("allocations_per_chunk", std::to_string(per_chunk));
  EXPECT_LT(per_chunk, 0.01) << few.allocations << " for " << kFew << " chunks, " << many.allocations << " for "
                             << kMany;
  EXPECT_LE(few.allocations, limit(few));
  EXPECT_LE(many.allocations, limit(many));
}

INSTANTIATE_TEST_SUITE_P(All, ReadAllocation, ::testing::ValuesIn(variants()), name_of);

}  // namespace
}  // namespace headrace
