// Every fault point declared anywhere is hit by a scenario that makes it fail in every way. io_fault_test covers those
// of engines and folders, this test the others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "device/device.h"
#include "os/descriptors.h"
#include "os/file_handle.h"
#include "os/file_mapping.h"
#include "os/file_read.h"
#include "os/numa.h"
#include "os/page_buffer.h"
#include "os/page_cache.h"
#include "os/probe_file.h"
#include "os/trusted_path.h"
#include "store/file_offers.h"
#include "store/store.h"
#include "support/child.h"
#include "support/fault_scan.h"
#include "support/flat_array.h"
#include "support/http_server.h"
#include "support/one_object.h"
#include "support/range_reader.h"
#include "support/sanitizer.h"
#include "support/stores_under_test.h"

namespace headrace {
namespace {

using support::fail_everywhere;
using support::pattern;

std::atomic<bool> lingers{false};

// Registered before any object with a destructor exists, so it runs after all of them are destroyed.
__attribute__((constructor(101))) void linger_at_the_end() {
  std::atexit([] {
    if (lingers) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
}

// Prefixes of the stores in the table that declare fault points, except the file store, which io_fault_test covers.
std::set<std::string> points_of_stores() {
  std::set<std::string> out;
  for (const store::StoreRow& row : store::stores()) {
    const std::string prefix = "store_" + std::string(row.scheme) + ".";
    for (const std::string& point : support::declared_points()) {
      if (point.starts_with(prefix) && prefix != "store_file.") out.insert(prefix);
    }
  }
  return out;
}

TEST(FaultPoints, EachBelongsToAScenario) {
  std::set<std::string> here = points_of_stores(), io_fault_test = {"io_", "store_file.", "store.openat"};
  here.insert({"base.", "dev_host.", "store.fstat", "store.fcntl", "http_curl."});
  std::set<std::string> met;
  for (const std::string& point : support::declared_points()) {
    std::size_t homes = 0;
    for (const auto* scans : {&here, &io_fault_test}) {
      for (const std::string& prefix : *scans) {
        if (!point.starts_with(prefix)) continue;
        ++homes;
        met.insert(prefix);
      }
    }
    EXPECT_EQ(homes, 1u) << point << " belongs to no scenario: write one, and add its prefix here";
  }
  EXPECT_EQ(met.size(), here.size() + io_fault_test.size()) << "a scan finds no point at all";
}

rlimit files_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

// Whether one more file may be opened when the soft limit is used up but the hard limit is larger.
bool room_beyond_soft_limit() {
  const rlimit before = files_limit();
  const rlimit small{std::min<rlim_t>(before.rlim_max / 2, 256), before.rlim_max};
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  os::Descriptors all;
  for (rlim_t i = 0; i < small.rlim_cur; ++i) all.opened();
  const bool room = all.room();
  EXPECT_EQ(room, files_limit().rlim_cur > small.rlim_cur);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  return room;
}

// Threads that outlive main(), like the daemon threads of a Python program.
TEST(FaultPoints, ThreadsHitThemWhileTheProcessEnds) {
  for (int round = 0; round < 5; ++round) {
    std::fflush(nullptr);
    const int status = support::in_child([]() -> int {
      lingers = true;
      for (int i = 0; i < 4; ++i) {
        std::thread([] {
          for (;;) {
            for (const char* name : {"test.first", "test.second", "test.third"}) (void)base::fault_point(name, 1);
          }
        }).detach();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::exit(0);
    });
    ASSERT_EQ(status, 0) << "round " << round;
  }
}

// The calls that the upper layers build on: files, mappings, memory and threads. Each yields right bytes or an error.
TEST(FaultPoints, CallsOfTheSystem) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  support::TempDir dir;
  const auto content = pattern(20'000);
  const std::string path = dir / "file";
  const auto expect = [](bool faulty, const Status& status) {
    EXPECT_TRUE(status.ok() || faulty) << status.to_string();
    EXPECT_TRUE(status.ok() || !status.message().empty());
  };
  fail_everywhere({"base."}, [&](bool faulty) {
    ASSERT_TRUE(support::write_file(path, content));
    std::vector<std::byte> got(content.size());
    os::FileHandle file, again;
    Status status = os::FileHandle::open(path, {.write = true}, file);
    expect(faulty, status);
    if (status.ok()) {
      std::uint64_t calls = 0, moved = 0;
      int error = 0;
      status = os::write_exactly(file.fd(), 0, content.data(), content.size(), calls);
      expect(faulty, status);
      expect(faulty, file.sync());
      status = os::read_exactly(file.fd(), 0, got);
      expect(faulty, status);
      EXPECT_TRUE(!status.ok() || got == content);
      std::fill(got.begin(), got.end(), std::byte{});
      const auto cached = os::read_cached(file.fd(), 0, got, moved, error);
      EXPECT_TRUE(cached != os::CachedRead::kDone || got == content);
      EXPECT_TRUE(cached != os::CachedRead::kFailed || (faulty && error != 0));
      EXPECT_LE(os::query_cachestat(file.fd(), 0, content.size()).value_or(0), 6u);
      os::FileIdentity by_descriptor, by_name;
      const bool both = os::identify(file.fd(), by_descriptor, error) && os::identify(path.c_str(), by_name, error);
      EXPECT_TRUE(both ? by_descriptor == by_name : faulty && error != 0);
      status = os::FileHandle::adopt(file.fd(), again);
      expect(faulty, status);
      const std::size_t bytes = 5 * os::page_bytes();
      if (std::byte* const address = os::reserve_addresses(bytes); address != nullptr) {
        const int refused = os::map_file_at(address, os::page_bytes(), file.fd(), 0);
        EXPECT_TRUE(refused == 0 ? std::equal(address, address + os::page_bytes(), content.begin()) : faulty);
        os::unmap(address, bytes);
      } else {
        EXPECT_TRUE(faulty);
      }
    }
    std::vector<std::byte> start(100);
    status = os::read_file_start(path.c_str(), start);
    expect(faulty, status);
    EXPECT_TRUE(!status.ok() || std::equal(start.begin(), start.end(), content.begin()));
    if (const auto probe = os::ProbeFile::open(path); probe.ok()) {
      const std::int64_t n = probe->read(got.data(), got.size(), 0);
      EXPECT_TRUE(n == static_cast<std::int64_t>(content.size()) ? got == content : faulty) << n;
    }
    const auto trusted = os::resolve_trusted(path);
    expect(faulty, trusted.status());
    os::PageBuffer pages;
    EXPECT_TRUE(pages.reserve(10'000).data() != nullptr || faulty);
    const auto cpus = os::thread_cpus();
    ASSERT_TRUE(cpus.has_value());
    EXPECT_TRUE(os::set_thread_cpus(*cpus) == 0 || faulty);
    EXPECT_TRUE(room_beyond_soft_limit() || faulty);
  });
}

// A container's seccomp rules may forbid setrlimit().
TEST(FaultPoints, AReadGoesOnWhereTheLimitOfOpenFilesCannotBeRaised) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  support::TempDir dir;
  const testing::FlatArray array{.layout = testing::Layout::kShardedRaw, .chunks = 600, .shard_chunks = 2};
  {
    auto context = Context::create({.threads = 1}).value();
    const auto store = Store::open(context, dir.path()).value();
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(store), "", array).ok());
  }
  const auto expected = array.expected();
  EXPECT_EQ(support::in_child(
                [&] {
                  const rlimit few{64, 512};
                  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
                  base::arm_fault({.point = "base.setrlimit", .error = EPERM, .forever = true});
                  const auto context = Context::create({.threads = 2}).value();
                  const auto opened = Array::open(Store::open(context, dir.path()).value()).value();
                  std::vector<std::uint32_t> got(array.elements());
                  const Status status = opened.read({}, {got, {got.size()}}, Device::open("host").value());
                  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
                  if (!status.ok() || got != expected) return 2;
                  for (const auto& count : base::fault_counts()) {
                    if (count.point == "base.setrlimit" && count.fired > 0) return files_limit().rlim_cur == 64 ? 0 : 3;
                  }
                  return 4;  // setrlimit() was never called
                },
                60),
            0);
}

TEST(FaultPoints, StoresThatAreOneFileOrMany) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  support::TempDir dir;
  testing::Objects objects;
  for (const char* key : {"a", "b", "c", "d"}) objects[key] = pattern(3'000);
  // Each store has a folder of its own. The file store's scenario is in io_fault_test.
  std::vector<std::string> urls;
  for (const testing::StoreUnderTest& row : testing::stores_under_test()) {
    const std::string_view name = row.name;
    if (name == "file" || name.find('_') != std::string_view::npos) continue;
    ASSERT_EQ(::mkdir((dir / row.name).c_str(), 0755), 0);
    urls.push_back(row.fill(dir / row.name, objects));
  }
  std::set<std::string> points = points_of_stores();
  points.insert({"store.fstat", "store.fcntl"});
  fail_everywhere(points, [&](bool faulty) {
    for (const std::string& url : urls) {
      ASSERT_NE(url, "");
      auto store = store::open_store(url);
      if (!store.ok()) {
        EXPECT_TRUE(faulty) << store.status().to_string();
        EXPECT_FALSE(store.status().key().empty()) << store.status().to_string();
        continue;
      }
      for (const auto& [key, bytes] : objects) {
        const auto got = (*store)->get(key, 10'000);
        EXPECT_TRUE(got.ok() ? *got == bytes : faulty && got.status().key() == key) << got.status().to_string();
        store::ByteSource object;
        if (!(*store)->open(key, object).ok()) continue;
        store::FileOffers* const files = (*store)->files();
        if (files == nullptr) continue;
        if (const auto direct = files->open_direct(key, object); direct.ok()) ::close(*direct);
      }
    }
  });
}

TEST(FaultPoints, ConnectionsToAServer) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const testing::HttpServer server(testing::honest());
  fail_everywhere({"http_curl."}, [&](bool faulty) {
    testing::RangeReader reader(server.url());
    const auto got = reader.read(5, 10);
    EXPECT_TRUE(got.read.status.ok() || faulty) << got.read.status.to_string();
    if (!got.read.status.ok()) return;
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(got.bytes.data()), got.bytes.size()),
              testing::text_of(5, 10));
  });
}

// The device that stands in for a GPU: the calls that a read makes, and those of cuFile's streams.
TEST(FaultPoints, TheDeviceWithoutAGpu) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  support::TempDir dir;
  const testing::FlatArray array{
      .layout = testing::Layout::kZstd, .chunks = 2, .chunk_elements = 64, .shard_chunks = 1};
  const auto expected = array.expected();
  {
    auto context = Context::create({}).value();
    const auto tree = Store::open(context, dir.path()).value();
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(tree), "", array).ok());
  }
  device::staged_decode_model().any_codec = true;
  const auto queue = [](device::Device& device, bool& called, int& moved) -> Status {
    HEADRACE_TRY_ASSIGN(auto stream, device.create_stream());
    HEADRACE_TRY_ASSIGN(auto event, device.create_event());
    HEADRACE_TRY_ASSIGN(std::byte* const memory, device.allocate_pinned(8192));
    const int from = 7;
    const device::Piece piece{reinterpret_cast<const std::byte*>(&from), memory, sizeof from};
    void* const native = device.native_handle(*stream);
    Status status = device.call_host(
        native, [](void* data) { *static_cast<bool*>(data) = true; }, &called);
    if (status.ok()) status = device.move_late({&piece, 1}, native);
    if (status.ok()) status = device.assemble({}, device::ElementOp{}, nullptr, *stream);
    if (status.ok()) status = device.record(*event, *stream);
    stream.reset();  // completes the queued work
    std::memcpy(&moved, memory, sizeof moved);
    if (status.ok()) status = device.synchronize(*event);
    if (status.ok()) status = device.register_mapping(memory, 8192);
    if (status.ok()) device.unregister_mapping(memory, 8192);
    device.deallocate_pinned(memory, 8192);
    return status;
  };
  fail_everywhere({"dev_host."}, [&](bool faulty) {
    auto device = device::open_device("host-staged");
    ASSERT_TRUE(device.ok());
    bool called = false;
    int moved = 0;
    Status status = queue(**device, called, moved);
    EXPECT_TRUE(status.ok() ? called && moved == 7 : faulty) << status.to_string();

    std::vector<std::uint32_t> got(array.elements());
    const auto read = [&]() -> Status {
      HEADRACE_TRY_ASSIGN(auto context, Context::create({.threads = 1}));
      HEADRACE_TRY_ASSIGN(auto store, Store::open(context, dir.path()));
      HEADRACE_TRY_ASSIGN(auto opened, Array::open(store));
      HEADRACE_TRY_ASSIGN(auto target, Device::open("host-staged"));
      HEADRACE_TRY_ASSIGN(auto buffer, Buffer::allocate(target, array.elements() * 4));
      ReadOptions options;
      options.placement = Placement::kGpu;
      HEADRACE_TRY(opened.read({}, {buffer, opened.info().dtype, {array.elements()}}, target, options));
      return buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4);
    };
    status = read();
    EXPECT_TRUE(status.ok() ? got == expected : faulty) << status.to_string();
    EXPECT_TRUE(status.ok() || !status.message().empty());
  });
  device::staged_decode_model().any_codec = false;
}

}  // namespace
}  // namespace headrace
