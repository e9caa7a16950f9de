// Property: what the device reads from the page cache itself gives the same elements and errors as a normal read: raw
// and encoded chunks, whole and in part, across windows. A changed file is never returned in its old version.
//
// HEADRACE_MAPPED_DEVICE=cuda runs the tests that need no simulated device on a GPU.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "base/clock.h"
#include "base/fault.h"
#include "support/child.h"
#include "support/flat_array.h"
#include "support/sanitizer.h"
#include "support/stats_ways.h"
#include "support/temp_dir.h"
#include "transfer/pagecache/mapped_cache.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;
namespace fs = std::filesystem;

class MappedRead : public ::testing::Test {
 protected:
  void SetUp() override { open({}); }
  void TearDown() override {
    device::staged_decode_model().any_codec = false;
    device::staged_decode_model().host_only_every = 0;
    base::arm_delay("dev_host.copy", std::chrono::microseconds(0));
  }
  void open(ContextOptions options) {
    options.threads = 2;
    options.wave_bytes = 1 << 20;
    options.host_budget_bytes = std::size_t{256} << 20;
    context = std::make_unique<Context>(Context::create(options).value());
    store = std::make_unique<Store>(Store::open(*context, directory.path()).value());
    device = std::make_unique<Device>(Device::open(device_name()).value());
  }
  static const char* device_name() {
    const char* name = std::getenv("HEADRACE_MAPPED_DEVICE");
    return name != nullptr ? name : "host-staged";
  }
  // Whether the device is the simulated one, which can decode every codec.
  static bool plays() { return std::string_view(device_name()) == "host-staged"; }
  static bool raw(Layout layout) { return layout == Layout::kRaw || layout == Layout::kShardedRaw; }
  void write(const std::string& path, const FlatArray& array) {
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(*store), path, array).ok());
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
  Outcome read(const std::string& path, const char* part = "", Placement placement = Placement::kAuto) {
    Outcome out;
    auto array = Array::open(*store, path).value();
    const Selection selection = parse_selection(part).value();
    const auto shape = resolve_selection(selection, array.info().shape).value().shape;
    out.elements.assign(static_cast<std::size_t>(shape[0]), 0x55555555);
    auto buffer = Buffer::allocate(*device, out.elements.size() * 4).value();
    ReadOptions options;
    options.collect_errors = true;
    options.placement = placement;
    auto reading = array.read_async(selection, {buffer, array.info().dtype, shape}, *device, options).value();
    out.status = reading.wait();
    out.stats = reading.stats();
    EXPECT_EQ(testing::bytes_by_all_ways(out.stats), out.stats.read_bytes) << out.stats.path;
    leave_out_indexes(array.info(), out.stats);
    out.errors = reading.errors();
    EXPECT_TRUE(
        buffer.copy_to_host(0, reinterpret_cast<std::byte*>(out.elements.data()), out.elements.size() * 4).ok());
    return out;
  }
  // Reads until all bytes come from mappings, which are made in the background.
  Outcome read_mapped(const std::string& path, const char* part = "", Placement placement = Placement::kAuto) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      Outcome out = read(path, part, placement);
      if (out.stats.mapped_bytes == out.stats.read_bytes || std::chrono::steady_clock::now() > deadline) return out;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  static void expect_mapped(const Outcome& out) {
    ASSERT_TRUE(out.status.ok()) << out.status.to_string();
    EXPECT_EQ(out.stats.mapped_bytes, out.stats.read_bytes);
    EXPECT_EQ(out.stats.buffered_bytes, 0u);
    EXPECT_NE(out.stats.path.find("mapped"), std::string::npos) << out.stats.path;
  }

  support::TempDir directory;
  std::unique_ptr<Context> context;
  std::unique_ptr<Store> store;
  std::unique_ptr<Device> device;
};

TEST_F(MappedRead, GivesTheSameElements) {
  device::staged_decode_model().any_codec = true;
  for (const Layout layout : testing::kLayouts) {
    if (!plays() && !raw(layout)) continue;
    SCOPED_TRACE(testing::layout_name(layout));
    const FlatArray array{.layout = layout, .chunks = 40, .chunk_elements = 5000, .shard_chunks = 8};
    const std::string path = testing::layout_name(layout);
    write(path, array);
    const auto expected = array.expected();
    const Placement placement = Placement::kGpu;
    const Outcome whole = read_mapped(path, "", placement);
    expect_mapped(whole);
    EXPECT_TRUE(whole.elements == expected);
    EXPECT_EQ(whole.stats.chunks, array.chunks);
    EXPECT_EQ(whole.stats.decoded_bytes, array.elements() * 4);
    for (const auto& [part, first, step] :
         {std::tuple{"7:199990", 7u, 1u}, {"5000:20000", 5000u, 1u}, {"3:180000:3", 3u, 3u}}) {
      SCOPED_TRACE(part);
      const Outcome some = read_mapped(path, part, placement);
      expect_mapped(some);
      for (std::size_t i = 0; i < some.elements.size(); ++i) ASSERT_EQ(some.elements[i], expected[first + i * step]);
    }
    // Chunks that the CPU decodes are read by the CPU.
    const Outcome cpu = read(path, "", Placement::kCpu);
    ASSERT_TRUE(cpu.status.ok());
    EXPECT_TRUE(cpu.elements == expected);
    EXPECT_EQ(cpu.stats.mapped_bytes, raw(layout) ? cpu.stats.read_bytes : 0u);
  }
}

TEST_F(MappedRead, CrossesWindows) {
  ContextOptions options;
  options.mapped_budget_bytes = std::size_t{8} << 20;  // windows of 1 MiB
  open(options);
  device::staged_decode_model().any_codec = true;
  for (const Layout layout : {Layout::kShardedRaw, Layout::kShardedZstd, Layout::kRaw}) {
    if (!plays() && !raw(layout)) continue;
    // Chunks of 1.6 MB; and shorter ones, several of which are read together.
    for (const FlatArray& array :
         {FlatArray{.layout = layout, .chunks = 4, .chunk_elements = 400'000, .shard_chunks = 4},
          FlatArray{.layout = layout, .chunks = 32, .chunk_elements = 50'000, .shard_chunks = 16}}) {
      const std::string path = testing::layout_name(layout) + std::to_string(array.chunks);
      write(path, array);
      const Outcome out = read_mapped(path, "", Placement::kGpu);
      EXPECT_TRUE(out.status.ok());
      EXPECT_TRUE(out.elements == array.expected());
      EXPECT_GT(out.stats.mapped_bytes, 0u) << out.stats.path;
      fs::remove_all(directory.path() + "/" + path);
      open(options);  // releases the budget
    }
  }
}

TEST_F(MappedRead, MissingBadAndReturnedChunks) {
  for (const unsigned every : {0u, 3u}) {
    device::staged_decode_model().any_codec = true;
    device::staged_decode_model().host_only_every = every;
    for (const Layout layout : {Layout::kRaw, Layout::kZstd, Layout::kShardedZstd}) {
      if (!plays() && !raw(layout)) continue;
      SCOPED_TRACE(testing::layout_name(layout));
      const FlatArray array{.layout = layout, .chunks = 30, .chunk_elements = 3000, .shard_chunks = 3};
      const std::string path = std::string(testing::layout_name(layout)) + std::to_string(every);
      write(path, array);
      fs::remove(directory.path() + "/" + path + "/" + array.key(6));
      if (layout != Layout::kRaw) {  // damages the first bytes of the object of chunk 9
        std::fstream file(directory.path() + "/" + path + "/" + array.key(9),
                          std::ios::in | std::ios::out | std::ios::binary);
        file.write("\xff\xff\xff\xff", 4);
      }
      const std::uint64_t gone = array.sharded() ? 3 : 1;
      const Outcome cpu = read(path, "", Placement::kCpu);
      // The CPU reads chunks that the device left to it, and broken ones; they are counted once.
      const auto mapped = [&](const Outcome& out) {
        const std::uint64_t again = out.stats.returned_chunks + out.errors.size();
        return cpu.stats.read_bytes - (layout == Layout::kRaw ? 0 : again * array.encoded(0).size());
      };
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      Outcome out = read(path, "", Placement::kGpu);
      while (out.stats.mapped_bytes != mapped(out) && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        out = read(path, "", Placement::kGpu);
      }
      EXPECT_EQ(out.stats.mapped_bytes, mapped(out));
      EXPECT_EQ(out.stats.read_bytes, cpu.stats.read_bytes);
      EXPECT_EQ(out.stats.returned_chunks > 0, every != 0 && layout != Layout::kRaw);
      EXPECT_EQ(out.stats.buffered_bytes > 0, layout != Layout::kRaw);
      ASSERT_TRUE(out.status.ok()) << out.status.to_string();
      EXPECT_GT(out.stats.mapped_bytes, 0u);
      ASSERT_EQ(out.errors.size(), cpu.errors.size());
      ASSERT_EQ(out.errors.size(), layout == Layout::kRaw ? 0u : 1u);
      if (!out.errors.empty()) {
        EXPECT_EQ(out.errors[0].status.to_string(), cpu.errors[0].status.to_string());
      }
      const auto expected = array.expected();
      for (std::size_t i = 0; i < out.elements.size(); ++i) {
        const std::uint64_t chunk = i / array.chunk_elements;
        if (!out.errors.empty() && chunk == 9) continue;
        ASSERT_EQ(out.elements[i], chunk >= 6 && chunk < 6 + gone ? testing::kFillValue : expected[i]) << i;
      }
      EXPECT_EQ(out.stats.chunks, array.chunks - gone - out.errors.size());
    }
  }
}

TEST_F(MappedRead, ANewVersionIsReadAnew) {
  for (const Layout layout : {Layout::kRaw, Layout::kShardedRaw}) {
    const FlatArray array{.layout = layout, .chunks = 16, .chunk_elements = 3000, .shard_chunks = 8, .seed = 1};
    FlatArray next = array;
    next.seed = 2;
    const std::string path = testing::layout_name(layout);
    write(path, array);
    expect_mapped(read_mapped(path));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    write(path, next);  // replaced
    EXPECT_TRUE(read(path).elements == next.expected());
    expect_mapped(read_mapped(path));
    // Rewritten in place: the same file with other bytes.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (std::uint64_t chunk = 0; chunk < array.chunks; chunk += array.sharded() ? array.shard_chunks : 1) {
      const store::Bytes bytes =
          array.sharded() ? testing::flat_shard(array, chunk / array.shard_chunks) : array.encoded(chunk);
      std::ofstream file(directory.path() + "/" + path + "/" + array.key(chunk),
                         std::ios::in | std::ios::out | std::ios::binary);
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    EXPECT_TRUE(read(path).elements == array.expected());
  }
}

TEST_F(MappedRead, AFileCutShortMeanwhileIsAnError) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  for (const Layout layout : {Layout::kRaw, Layout::kShardedRaw, Layout::kZstd}) {
    SCOPED_TRACE(testing::layout_name(layout));
    device::staged_decode_model().any_codec = true;
    const FlatArray array{.layout = layout, .chunks = 4, .chunk_elements = 20000, .shard_chunks = 2};
    const std::string path = testing::layout_name(layout);
    write(path, array);
    expect_mapped(read_mapped(path, "", Placement::kGpu));
    base::arm_delay("dev_host.copy", std::chrono::milliseconds(300));
    std::thread cutter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      fs::resize_file(directory.path() + "/" + path + "/" + array.key(2), 100);
    });
    const Outcome out = read(path, "", Placement::kGpu);
    cutter.join();
    base::arm_delay("dev_host.copy", std::chrono::microseconds(0));
    ASSERT_FALSE(out.errors.empty());
    EXPECT_EQ(out.errors[0].key, path + "/" + array.key(2));
    EXPECT_EQ(out.errors[0].status.code(), Code::kShort) << out.errors[0].status.to_string();
    EXPECT_EQ(out.stats.chunks + out.errors.size(), array.chunks);
    const auto expected = array.expected();
    for (std::size_t i = 0; i < 2 * array.chunk_elements; ++i) ASSERT_EQ(out.elements[i], expected[i]);
  }
}

TEST_F(MappedRead, IsNotUsedWhereForbidden) {
  ContextOptions options;
  options.allow_mapped = false;
  open(options);
  const FlatArray array{.layout = Layout::kRaw, .chunks = 8, .chunk_elements = 3000};
  write("", array);
  for (int i = 0; i < 10; ++i) {
    const Outcome out = read("");
    EXPECT_TRUE(out.elements == array.expected());
    EXPECT_EQ(out.stats.mapped_bytes, 0u);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Files stay open until the device has finished with them. All reads together must leave the process enough
// descriptors.
TEST_F(MappedRead, ReadsAtOnceShareTheDescriptors) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const FlatArray array{.layout = Layout::kRaw, .chunks = 200, .chunk_elements = 64};
  write("", array);
  (void)read_mapped("", "0:64");
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  for (int i = 0; i < 4; ++i) (void)read("");  // used often enough
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  struct Limit {
    explicit Limit(rlim_t files) {
      EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
      const rlimit now{files, before.rlim_max};
      EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
    }
    ~Limit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0); }
    rlimit before{};
  };
  const Limit limit(support::open_descriptors() + 80);
  base::arm_delay("dev_host.copy", std::chrono::milliseconds(100));
  std::vector<std::thread> threads;
  std::vector<Outcome> outcomes(6);
  for (Outcome& out : outcomes) threads.emplace_back([&] { out = read(""); });
  for (std::thread& thread : threads) thread.join();
  std::uint64_t mapped = 0;
  for (const Outcome& out : outcomes) {
    EXPECT_TRUE(out.status.ok()) << out.status.to_string();
    EXPECT_TRUE(out.errors.empty()) << out.errors[0].status.to_string();
    EXPECT_TRUE(out.elements == array.expected());
    mapped += out.stats.mapped_bytes;
  }
  EXPECT_GT(mapped, 0u);
}

// Several caches together register no more than one may, and nothing if the machine has no memory left.
TEST_F(MappedRead, BudgetsAreSharedByAllCaches) {
  constexpr std::uint64_t kBytes = 6 << 20, kBudget = 8 << 20;
  const std::string path = directory / "file";
  std::ofstream(path) << std::string(kBytes, 'x');
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const auto windows = [&](transfer::MappedCache& cache) {
    auto handle = std::make_shared<os::FileHandle>();
    EXPECT_TRUE(os::FileHandle::open(path, {}, *handle).ok());
    os::FileIdentity identity;
    int error = 0;
    EXPECT_TRUE(os::identify(handle->fd(), identity, error));
    const auto file = cache.file(Access::impl(*device), identity);
    std::size_t ready = 0;
    for (std::size_t i = 0; i < kBytes / cache.window_bytes(); ++i) {
      (void)cache.touch(file, i, 0, handle, nullptr, transfer::MappedCache::Worth::kNow);
      cache.wait(*file, i);
      ready += cache.window(*file, i, base::now_ns()) != nullptr ? 1 : 0;
    }
    return ready;
  };
  const transfer::MappedBudget shared{.bytes = kBudget, .process_bytes = kBudget};
  {
    transfer::MappedCache first(shared), second(shared), own(transfer::MappedBudget{.bytes = kBudget});
    EXPECT_EQ(windows(first), 6u);
    EXPECT_EQ(windows(second), 2u);
    EXPECT_NE(second.note().find("of the process"), std::string::npos) << second.note();
    EXPECT_EQ(windows(own), 6u);
  }
  transfer::MappedCache third(shared);
  EXPECT_EQ(windows(third), 6u);
  transfer::MappedCache none({.bytes = kBudget, .machine_bytes = 1});
  EXPECT_EQ(windows(none), 0u);
  EXPECT_NE(none.note().find("pinned on the machine"), std::string::npos) << none.note();
}

// With many CPUs, bytes that are read fast are worth a window at their second read, and slowly read ones after a
// sixteenth of the window or some hundred reads. With few CPUs, all are worth it after a sixteenth.
TEST_F(MappedRead, SlowReadsMakeWindowsPaySooner) {
  using Worth = transfer::MappedCache::Worth;
  const std::string path = directory / "file";
  std::ofstream(path) << std::string(4 << 20, 'x');
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  auto handle = std::make_shared<os::FileHandle>();
  ASSERT_TRUE(os::FileHandle::open(path, {}, *handle).ok());
  os::FileIdentity identity;
  int error = 0;
  ASSERT_TRUE(os::identify(handle->fd(), identity, error));
  const auto reads_until_asked = [&](unsigned cpus, Worth worth, std::uint64_t bytes) {
    transfer::MappedCache cache({.bytes = 8 << 20}, nullptr, cpus);
    const auto file = cache.file(Access::impl(*device), identity);
    EXPECT_EQ(cache.window_bytes(), 1u << 20);
    for (int reads = 1; reads < 3000; ++reads) {
      if (cache.touch(file, 1, bytes, handle, nullptr, worth)) return reads;
    }
    return 0;
  };
  EXPECT_EQ(reads_until_asked(16, Worth::kOften, 4096), 256 + 16);
  EXPECT_EQ(reads_until_asked(16, Worth::kSoon, 4096), 16);
  EXPECT_EQ(reads_until_asked(16, Worth::kSoon, 7), 400);
  EXPECT_EQ(reads_until_asked(16, Worth::kOften, 7), 0);
  EXPECT_EQ(reads_until_asked(16, Worth::kNow, 0), 1);
  EXPECT_EQ(reads_until_asked(2, Worth::kOften, 4096), 16);
}

// Requests all windows of one large file, or of many small ones; returns how many are registered.
std::size_t register_windows(transfer::MappedCache& cache, const std::shared_ptr<device::Device>& device,
                             const std::vector<std::string>& paths) {
  std::vector<std::pair<std::shared_ptr<transfer::MappedFile>, std::size_t>> asked;
  for (const std::string& path : paths) {
    auto handle = std::make_shared<os::FileHandle>();
    os::FileIdentity identity;
    int error = 0;
    if (!os::FileHandle::open(path, {}, *handle).ok() || !os::identify(handle->fd(), identity, error)) return 0;
    const auto file = cache.file(device, identity);
    for (std::size_t i = 0; i * cache.window_bytes() < identity.size_bytes; ++i) {
      (void)cache.touch(file, i, 0, handle, nullptr, transfer::MappedCache::Worth::kNow);
      asked.emplace_back(file, i);
    }
  }
  std::size_t ready = 0;
  for (const auto& [file, index] : asked) {
    cache.wait(*file, index);
    ready += cache.window(*file, index, base::now_ns()) != nullptr ? 1 : 0;
  }
  return ready;
}

// Bytes of files in a folder that a process has mapped and that are resident.
std::uint64_t mapped_of(int process, const std::string& folder) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/smaps");
  std::uint64_t bytes = 0;
  bool wanted = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) wanted = line.find(folder + "/") != std::string::npos;
    if (wanted && line.starts_with("Rss:")) bytes += 1024 * std::stoull(line.substr(4));
  }
  return bytes;
}

// Independent processes in a control group that has less room than their budgets together.
TEST_F(MappedRead, ProcessesOfAControlGroupLeaveHalfOfItsPageCache) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  constexpr int kProcesses = 4;
  constexpr std::uint64_t kRoom = 64 << 20, kBudget = kRoom / 4;
  struct Shared {
    std::atomic<int> pids[kProcesses], done;
    std::atomic<std::uint64_t> registered, mapped;
  };
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Shared& shared = *new (memory) Shared{};
  // Half of them have one large file, the others small ones.
  std::vector<std::string> paths[kProcesses];
  for (int i = 0; i < kProcesses; ++i) {
    const int files = i % 2 == 0 ? 1 : 32;
    for (int k = 0; k < files; ++k) {
      paths[i].push_back(directory / ("file_" + std::to_string(i) + "_" + std::to_string(k)));
      std::ofstream(paths[i].back()) << std::string(kBudget / static_cast<unsigned>(files), 'x');
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const std::string folder = directory.path();
  const auto mapped_by_all = [&] {
    std::uint64_t bytes = 0;
    for (const auto& pid : shared.pids) bytes += mapped_of(pid, folder);
    return bytes;
  };
  const auto wait_for_all = [](const auto& here) {
    while (!here()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto worker = [&](int i) {
    shared.pids[i] = ::getpid();
    wait_for_all(
        [&] { return std::none_of(shared.pids, shared.pids + kProcesses, [](const auto& p) { return p == 0; }); });
    transfer::MappedCache cache({.bytes = kBudget, .process_bytes = kBudget, .groups = [&] {
                                   return std::vector{os::MemoryGroups::PageCache{kRoom, mapped_by_all()}};
                                 }});
    const auto own = Device::open("host-staged").value();
    (void)register_windows(cache, Access::impl(own), paths[i]);
    shared.registered += cache.registered_bytes();
    ++shared.done;
    wait_for_all([&] { return shared.done >= kProcesses; });
    if (i == 0) shared.mapped = mapped_by_all();
    if (i == 0) ++shared.done;
    wait_for_all([&] { return shared.done > kProcesses; });
    return 0;
  };
  std::vector<std::thread> parents;
  std::atomic<int> failed{0};
  for (int i = 0; i < kProcesses; ++i) {
    parents.emplace_back([&, i] { failed += support::in_child([&] { return worker(i); }, 120) != 0 ? 1 : 0; });
  }
  for (std::thread& parent : parents) parent.join();
  EXPECT_EQ(failed, 0);
  EXPECT_LE(shared.registered, kRoom / 2);
  EXPECT_GT(shared.registered, kRoom / 8);
  EXPECT_LE(shared.mapped, kRoom / 2);
  EXPECT_GE(shared.mapped, shared.registered);
  ::munmap(memory, sizeof(Shared));
}

TEST_F(MappedRead, WindowsAreDroppedWhenAControlGroupShrinks) {
  constexpr std::uint64_t kBytes = 6 << 20;
  const std::string path = directory / "file";
  std::ofstream(path) << std::string(kBytes, 'x');
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  std::atomic<std::uint64_t> room{64 << 20}, others{0};
  const transfer::MappedBudget budget{
      .bytes = 8 << 20, .groups = [&] {
        const os::MemoryGroups::PageCache inner{room, others + mapped_of(::getpid(), directory.path())};
        return std::vector{os::MemoryGroups::PageCache{std::uint64_t{1} << 40, 0}, inner};
      }};
  transfer::MappedCache cache(budget);
  EXPECT_EQ(register_windows(cache, Access::impl(*device), {path}), kBytes / cache.window_bytes());
  EXPECT_EQ(cache.registered_bytes(), kBytes);
  room = 10 << 20;  // more than half of it are windows
  for (int i = 0; i < 100 && cache.registered_bytes() > room / 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_LE(cache.registered_bytes(), room / 2);
  others = 6 << 20;
  transfer::MappedCache late(budget);
  EXPECT_EQ(register_windows(late, Access::impl(*device), {path}), 0u);
  EXPECT_NE(late.note().find("control group"), std::string::npos) << late.note();
}

}  // namespace
}  // namespace headrace
