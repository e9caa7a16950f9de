// Threads stay on the CPUs near the device they serve, and threads bound elsewhere by others are not moved. Uses a
// simulated /sys of a two-node machine, whose nodes share the real CPUs of this one.
#include "transfer/threads/near_threads.h"

#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/file.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/access.h"
#include "base/fault.h"
#include "os/numa.h"
#include "support/flat_array.h"
#include "support/temp_dir.h"
#include "transfer/context/context_impl.h"

namespace headrace::transfer {
namespace {

using testing::FlatArray;
using testing::Layout;
using Cpus = std::vector<unsigned>;
namespace fs = std::filesystem;

std::string list_of(const Cpus& cpus) {
  std::string text;
  for (const unsigned cpu : cpus) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text + "\n";
}

// A fake /sys/devices/system/node.
class Tree {
 public:
  Tree(const std::string& online, const std::map<int, std::string>& nodes) {
    put("online", online);
    for (const auto& [node, cpus] : nodes) put("node" + std::to_string(node) + "/cpulist", cpus);
  }
  const std::string& root() const { return dir_.path(); }

 private:
  void put(const std::string& name, const std::string& text) {
    const fs::path path = fs::path(dir_.path()) / "sys/devices/system/node" / name;
    fs::create_directories(path.parent_path());
    EXPECT_TRUE(support::write_file(path, std::as_bytes(std::span(text))));
  }
  support::TempDir dir_;
};

TEST(NearCpus, AreThoseOfTheNodeThatMayBeUsed) {
  const Tree tree("0-1\n", {{0, "0-3,8-11\n"}, {1, "4-7,12-15\n"}});
  const Cpus some{2, 3, 4, 8, 13};
  os::NearCpus near = os::near_cpus(0, some, tree.root());
  EXPECT_EQ(near.cpus, (Cpus{2, 3, 8}));
  EXPECT_EQ(near.why_not, "");
  EXPECT_EQ(os::near_cpus(1, some, tree.root()).cpus, (Cpus{4, 13}));
  near = os::near_cpus(1, {0, 1}, tree.root());
  EXPECT_TRUE(near.cpus.empty());
  EXPECT_EQ(near.why_not, "this process may not run on any CPU of NUMA node 1");
  near = os::near_cpus(0, {0, 9}, tree.root());
  EXPECT_EQ(near.cpus, (Cpus{0, 9}));
  EXPECT_EQ(near.why_not, "every CPU that this process may run on is near it");
}

TEST(NearCpus, AreNotGuessed) {
  const Cpus some{0, 1};
  const Tree one("0\n", {{0, "0-1\n"}}), two("0-1\n", {{0, "0\n"}, {1, "1\n"}});
  EXPECT_EQ(os::near_cpus(0, some, one.root()).why_not, "the machine has one NUMA node");
  EXPECT_EQ(os::near_cpus(0, some, "/nowhere").why_not, "the machine has one NUMA node");
  EXPECT_EQ(os::near_cpus(-1, some, two.root()).why_not, "its NUMA node is not known");
  EXPECT_EQ(os::near_cpus(2, some, two.root()).why_not, "the CPUs of NUMA node 2 are unknown");
  EXPECT_EQ(os::near_cpus(2147483647, some, two.root()).why_not, "the CPUs of NUMA node 2147483647 are unknown");
  for (const char* text : {"0-4294967295\n", "0-65536\n", "1-0\n", "1,1\n", "0,\n", "-1\n", "0x1\n", "0-\n", "1 0\n",
                           "99999999999999999999\n", "\xff\xfe\n"}) {
    const Tree hostile("0-1\n", {{0, text}, {1, "1\n"}});
    EXPECT_TRUE(os::near_cpus(0, some, hostile.root()).cpus.empty()) << text;
    EXPECT_FALSE(os::near_cpus(0, some, hostile.root()).why_not.empty()) << text;
    const Tree nodes(text, {{0, "0\n"}, {1, "1\n"}});
    EXPECT_TRUE(os::near_cpus(0, some, nodes.root()).cpus.empty()) << text;
  }
  // A node with memory only.
  const Tree memory("0-1\n", {{0, "0-1\n"}, {1, "\n"}});
  EXPECT_EQ(os::near_cpus(1, some, memory.root()).why_not, "this process may not run on any CPU of NUMA node 1");
}

Cpus cpus_of(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  Cpus cpus;
  if (::sched_getaffinity(thread, sizeof set, &set) != 0) return cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// Number of this process's threads that may run on exactly these CPUs.
std::size_t threads_on(const Cpus& cpus) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
    count += cpus_of(static_cast<pid_t>(std::stol(entry.path().filename().string()))) == cpus ? 1 : 0;
  }
  return count;
}

bool soon(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Node 1 has the last of this process's CPUs, node 0 the others, node 2 one that it may not use.
class NearThreadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    all_ = os::thread_cpus().value_or(Cpus());
    if (all_.size() < 2) GTEST_SKIP() << "this process may use one CPU only";
    near0_ = Cpus(all_.begin(), all_.end() - 1);
    near1_ = {all_.back()};
    tree_ = std::make_unique<Tree>(
        "0-2\n", std::map<int, std::string>{{0, list_of(near0_)}, {1, list_of(near1_)}, {2, "65000\n"}});
    near_ = NearThreads::create(true);
    near_->read_from(tree_->root());
  }
  void TearDown() override {
    base::disarm_faults();
    if (!all_.empty()) {
      EXPECT_EQ(cpus_of(0), all_) << "a test has moved the program's own thread";
    }
  }
  // Runs a function on a new thread, whose binding the test may change freely.
  template <class F>
  void on_thread(F f) {
    std::thread([&] { f(); }).join();
  }

  Cpus all_, near0_, near1_;
  std::unique_ptr<Tree> tree_;
  std::shared_ptr<NearThreads> near_;
};

TEST_F(NearThreadsTest, SetsOfCpusAreWhatTheKernelSays) {
  on_thread([&] {
    EXPECT_EQ(os::thread_cpus(), cpus_of(0));
    EXPECT_EQ(os::set_thread_cpus(near1_), 0);
    EXPECT_EQ(cpus_of(0), near1_);
    EXPECT_EQ(os::thread_cpus(), near1_);
    EXPECT_EQ(os::set_thread_cpus({}), EINVAL);
    EXPECT_EQ(os::set_thread_cpus({65000}), EINVAL);
    EXPECT_EQ(os::set_thread_cpus({4000000000u}), EINVAL);
    EXPECT_EQ(cpus_of(0), near1_);
  });
}

TEST_F(NearThreadsTest, FollowWhatIsInFlight) {
  on_thread([&] {
    NearThreads::Thread thread(near_);
    const auto now = [&] {
      thread.follow();
      return cpus_of(0);
    };
    EXPECT_EQ(now(), all_);
    {
      const auto one = near_->use(1);
      EXPECT_EQ(now(), near1_);
      EXPECT_EQ(near_->bound_cpus(), 1u);
      {
        const auto again = near_->use(1);
        EXPECT_EQ(now(), near1_);
        const auto other = near_->use(0);
        EXPECT_EQ(now(), all_);
        EXPECT_EQ(near_->bound_cpus(), 0u);
      }
      EXPECT_EQ(now(), near1_);
      {
        const auto host = near_->use(NearThreads::kAllCpus);
        EXPECT_EQ(now(), all_);
      }
      EXPECT_EQ(now(), near1_);
      {
        const auto nowhere = near_->use(2);
        EXPECT_EQ(now(), all_);
      }
      EXPECT_EQ(now(), near1_);
    }
    EXPECT_EQ(now(), near1_) << "threads stay bound when idle: the next work is likely on the same node";
    const auto zero = near_->use(0);
    EXPECT_EQ(now(), near0_);
    EXPECT_EQ(near_->bound_cpus(), near0_.size());
    {
      const NearThreads::StartsThreads starting;
      EXPECT_EQ(cpus_of(0), all_);
      on_thread([&] { EXPECT_EQ(cpus_of(0), all_); });
    }
    EXPECT_EQ(cpus_of(0), near0_);
  });
  EXPECT_EQ(near_->note(), "");
}

TEST_F(NearThreadsTest, AThreadsCpusAreOnlyEverNarrowed) {
  on_thread([&] {
    ASSERT_EQ(os::set_thread_cpus(near1_), 0);
    NearThreads::Thread thread(near_);
    auto use = near_->use(0);  // this thread may use none of its CPUs
    thread.follow();
    EXPECT_EQ(cpus_of(0), near1_);
    use = near_->use(1);
    thread.follow();
    EXPECT_EQ(cpus_of(0), near1_);
    use = near_->use(NearThreads::kAllCpus);
    thread.follow();
    EXPECT_EQ(cpus_of(0), near1_);
  });
  on_thread([&] {
    NearThreads::Thread thread(near_);
    auto use = near_->use(0);
    thread.follow();
    EXPECT_EQ(cpus_of(0), near0_);
    ASSERT_EQ(os::set_thread_cpus(near1_), 0);  // somebody else, with taskset
    use = near_->use(NearThreads::kAllCpus);
    thread.follow();
    EXPECT_EQ(cpus_of(0), near1_) << "a binding made by others is kept";
  });
}

TEST_F(NearThreadsTest, NothingIsBoundWithoutBenefit) {
  const Tree one("0\n", {{0, list_of(near1_)}});
  const auto single = NearThreads::create(true), off = NearThreads::create(false);
  single->read_from(one.root());
  off->read_from(tree_->root());
  for (const auto& near : {single, off}) {
    on_thread([&] {
      NearThreads::Thread thread(near);
      for (const int node : {0, 1, 2, -1}) {
        const auto use = near->use(node);
        thread.follow();
        EXPECT_EQ(cpus_of(0), all_);
        EXPECT_EQ(near->bound_cpus(), 0u);
      }
    });
  }
  on_thread([&] {
    NearThreads::Thread thread(nullptr);
    thread.follow();
    EXPECT_EQ(cpus_of(0), all_);
  });
}

TEST_F(NearThreadsTest, RefusedBindingsAreNotedAndIgnored) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled";
  on_thread([&] {
    NearThreads::Thread thread(near_);
    base::arm_fault({.point = "base.set_affinity", .error = EPERM, .forever = true});
    auto use = near_->use(1);
    thread.follow();
    EXPECT_EQ(cpus_of(0), all_);
    EXPECT_NE(near_->note().find("not permitted"), std::string::npos) << near_->note();
    base::disarm_faults();
    use = near_->use(0);
    thread.follow();
    EXPECT_EQ(cpus_of(0), near0_);
  });
}

// The ids of the parent's threads may exist in the child too, but the child must not bind them.
TEST_F(NearThreadsTest, AForkedChildLeavesThemAlone) {
  auto use = near_->use(1);
  const pid_t child = ::fork();
  if (child == 0) {
    use = near_->use(0);
    use = {};
    ::_exit(near_->bound_cpus() == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Counts the threads that are in work() at the same time.
class Crowd final : public Workload {
 public:
  Progress work() override {
    const int now = inside_.fetch_add(1) + 1;
    int most = max_.load();
    while (now > most && !max_.compare_exchange_weak(most, now)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    inside_.fetch_sub(1);
    calls_.fetch_add(1);
    return closed_.load() ? Progress::kFinished : Progress::kIdle;
  }
  int most() const { return max_.load(); }
  int calls() const { return calls_.load(); }
  void forget() { max_.store(0); }
  void close() { closed_.store(true); }

 private:
  std::atomic<int> inside_{0}, max_{0}, calls_{0};
  std::atomic<bool> closed_{false};
};

TEST_F(NearThreadsTest, NoMoreWorkersThanCpusUnlessAskedFor) {
  for (const bool one_per_cpu : {true, false}) {
    SCOPED_TRACE(one_per_cpu);
    auto use = near_->use(1);
    auto pool = WorkerPool::create(2, near_, one_per_cpu).value();
    EXPECT_EQ(pool->bound_cpus(), 1u);
    const auto crowd = std::make_shared<Crowd>();
    pool->add(crowd);
    ASSERT_TRUE(soon([&] { return threads_on(near1_) == 2; }));
    const auto crowded = [&] {
      pool->notify();
      return crowd->most() == 2;
    };
    if (one_per_cpu) {
      const int before = crowd->calls();
      ASSERT_TRUE(soon([&] { return crowded() || crowd->calls() >= before + 20; }));
      EXPECT_EQ(crowd->most(), 1);
    } else {
      EXPECT_TRUE(soon(crowded));
    }
    crowd->forget();
    use = near_->use(NearThreads::kAllCpus);
    EXPECT_TRUE(soon(crowded));
    EXPECT_TRUE(soon([&] { return threads_on(near1_) == 0; }));
    crowd->close();
    pool->notify();
  }
}

// Reads with a device that simulates a GPU on node 1.
class NearReads : public NearThreadsTest {
 protected:
  void SetUp() override {
    NearThreadsTest::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_unique<Device>(Device::open("host-staged").value());
    host_ = std::make_unique<Device>(Device::open("host").value());
    info().numa_node = 1;
  }
  void TearDown() override {
    context_.reset();
    store_.reset();
    device_.reset();
    NearThreadsTest::TearDown();
  }
  // Devices are not constant objects, so the const_cast is safe.
  device::DeviceInfo& info() { return const_cast<device::DeviceInfo&>(Access::impl(*device_)->info()); }
  void open(ContextOptions options = {}) {
    store_.reset();
    context_.reset();
    options.threads = 2;
    options.wave_bytes = 1 << 16;
    context_ = std::make_unique<Context>(Context::create(options).value());
    Access::impl(*context_)->resources->near().read_from(tree_->root());
    store_ = std::make_unique<Store>(Store::open(*context_, directory_.path()).value());
  }
  void write(const std::string& path, Layout layout) {
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(*store_), path, array(layout)).ok());
  }
  static FlatArray array(Layout layout) { return {.layout = layout, .chunks = 64, .chunk_elements = 4096}; }
  Stats read(const std::string& path, Layout layout, const Device& device) {
    std::vector<std::uint32_t> elements(array(layout).elements());
    auto buffer = Buffer::allocate(device, elements.size() * 4).value();
    const Array stored = Array::open(*store_, path).value();
    auto reading = stored.read_async({}, {buffer, stored.info().dtype, {elements.size()}}, device).value();
    EXPECT_TRUE(reading.wait().ok());
    EXPECT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(elements.data()), elements.size() * 4).ok());
    EXPECT_EQ(elements, array(layout).expected());
    return reading.stats();
  }

  support::TempDir directory_;
  std::unique_ptr<Device> device_, host_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Store> store_;
};

TEST_F(NearReads, WorkersRunNearTheirWork) {
  ContextOptions options;
  options.allow_mapped = false;
  open(options);
  write("raw", Layout::kRaw);
  write("bz2", Layout::kBz2);
  read("raw", Layout::kRaw, *host_);
  EXPECT_EQ(threads_on(near1_), 0u);
  read("raw", Layout::kRaw, *device_);
  EXPECT_TRUE(soon([&] { return threads_on(near1_) == 2; }));
  // Repeated reads make no system call for binding.
  const auto asked = [] {
    std::uint64_t hits = 0;
    for (const base::FaultCount& count : base::fault_counts())
      hits += count.point == "base.set_affinity" ? count.hits : 0;
    return hits;
  };
  const std::uint64_t before = asked();
  for (int i = 0; i < 5; ++i) read("raw", Layout::kRaw, *device_);
  EXPECT_EQ(asked(), before);
  EXPECT_EQ(threads_on(near1_), 2u);
  // What the CPU decodes, and reads for the host, use all CPUs.
  read("bz2", Layout::kBz2, *device_);
  EXPECT_TRUE(soon([&] { return threads_on(near1_) == 0; }));
  read("raw", Layout::kRaw, *device_);
  EXPECT_TRUE(soon([&] { return threads_on(near1_) == 2; }));
  read("raw", Layout::kRaw, *host_);
  EXPECT_TRUE(soon([&] { return threads_on(near1_) == 0; }));
}

TEST_F(NearReads, TheOptionTurnsItOff) {
  ContextOptions options;
  options.bind_threads = false;
  open(options);
  write("raw", Layout::kRaw);
  for (int i = 0; i < 3; ++i) read("raw", Layout::kRaw, *device_);
  EXPECT_EQ(threads_on(near1_), 0u);
}

// The engine's own threads only wait for disks.
TEST_F(NearReads, TheIoThreadFollowsAndTheEnginesDoNot) {
  ContextOptions options;
  options.engine = "threads";
  open(options);
  write("raw", Layout::kRaw);
  read("raw", Layout::kRaw, *device_);
  EXPECT_TRUE(soon([&] { return threads_on(near1_) == 3; })) << threads_on(near1_);
}

TEST_F(NearReads, TheMappingThreadFollowsToo) {
  open();
  write("raw", Layout::kShardedRaw);
  std::this_thread::sleep_for(std::chrono::milliseconds(130));  // old enough to be trusted
  ASSERT_TRUE(soon([&] { return read("raw", Layout::kShardedRaw, *device_).mapped_bytes > 0; }));
  EXPECT_TRUE(soon([&] { return threads_on(near1_) == 3; })) << threads_on(near1_);
}

TEST_F(NearReads, AFileQueueCountsAsWorkWhileItExists) {
  open();
  ASSERT_TRUE(support::write_file(directory_ / "file", support::pattern(1 << 20)));
  const File file = File::open(directory_ / "file").value();
  FileQueueOptions options;
  options.path = Path::kBuffered;
  const auto read_with = [&](FileQueue& queue, const Device& device) {
    auto buffer = Buffer::allocate(device, 1 << 20).value();
    const FileRange range{0, buffer.data(), 1 << 20};
    ASSERT_TRUE(queue.read(file, {&range, 1}, 0).ok());
    FileCompletion done;
    ASSERT_EQ(queue.wait({&done, 1}), 1u);
    EXPECT_TRUE(done.status.ok());
    std::vector<std::byte> bytes(1 << 20);
    ASSERT_TRUE(buffer.copy_to_host(0, bytes.data(), bytes.size()).ok());
    EXPECT_EQ(bytes, support::pattern(1 << 20));
  };
  FileQueue queue = FileQueue::create(*context_, *device_, options).value();
  read_with(queue, *device_);
  EXPECT_TRUE(soon([&] { return threads_on(near1_) == 2; }));
  {
    FileQueue other = FileQueue::create(*context_, *host_, options).value();
    read_with(other, *host_);
    EXPECT_TRUE(soon([&] { return threads_on(near1_) == 0; }));
  }
  // A worker that is still awake may do the whole read; the other stays where it is until it is needed.
  EXPECT_TRUE(soon([&] {
    read_with(queue, *device_);
    return threads_on(near1_) == 2;
  }));
  EXPECT_EQ(queue.stats().notes, "");
}

}  // namespace
}  // namespace headrace::transfer
