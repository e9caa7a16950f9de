// A FileQueue may pass from thread to thread with requests in flight. A forked child can only destroy an inherited one:
// nothing of the parent's is touched, and nothing waits.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/file.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "base/access.h"
#include "io/engine.h"
#include "support/child.h"
#include "support/flat_array.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using support::pattern;

constexpr std::size_t kBytes = std::size_t{8} << 20;

struct Variant {
  const char* device;
  const char* engine;
  Path path;
};

std::string name_of(const ::testing::TestParamInfo<Variant>& info) {
  std::string name =
      std::string(info.param.device) + "_" + info.param.engine + "_" + std::string(path_name(info.param.path));
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const char* device : {"host", "host-staged"}) {
    for (const io::EngineRow& row : io::engines()) out.push_back({device, row.name, Path::kDirect});
    out.push_back({device, "auto", Path::kBuffered});
  }
  return out;
}

class HandOver : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(dir_.ok());
    ASSERT_TRUE(support::write_file(dir_ / "data", bytes_));
    ContextOptions options;
    options.threads = 2;
    options.engine = GetParam().engine;
    auto context = Context::create(options);
    if (!context.ok()) GTEST_SKIP() << context.status().to_string();
    context_.emplace(*context);
    device_.emplace(Device::open(GetParam().device).value());
    file_.emplace(File::open(dir_ / "data").value());
    target_.emplace(Buffer::allocate(*device_, kBytes).value());
    make_queue();
  }
  void make_queue() {
    FileQueueOptions options;
    options.path = GetParam().path;
    queue_.emplace(FileQueue::create(*context_, *device_, options).value());
  }
  void submit(std::uint64_t tag) {
    static const std::vector<std::byte> zeros(kBytes);
    ASSERT_TRUE(target_->copy_from_host(0, zeros.data(), kBytes).ok());
    const FileRange range{0, target_->data(), kBytes};
    ASSERT_TRUE(queue_->read(*file_, {&range, 1}, tag).ok());
    queue_->flush();
  }
  void submit_elsewhere(std::uint64_t tag) {
    std::thread([&] { submit(tag); }).join();
  }
  // The buffer is static: the kernel would clear newly allocated memory each time, and ThreadSanitizer's shadow memory
  // takes several times as much.
  bool target_is(const std::vector<std::byte>& wanted) {
    static std::vector<std::byte> got(kBytes);
    EXPECT_TRUE(target_->copy_to_host(0, got.data(), kBytes).ok());
    return support::same_bytes(got, wanted);
  }
  void finish(std::uint64_t tag) {
    FileCompletion done;
    ASSERT_EQ(queue_->wait({&done, 1}, 1, 60s), 1u);
    ASSERT_TRUE(done.status.ok()) << done.status.to_string();
    EXPECT_EQ(done.tag, tag);
    EXPECT_TRUE(target_is(bytes_));
  }
  // The caller owns the memory again: nothing may overwrite what is written into it.
  void expect_quiet() {
    static const std::vector<std::byte> mark(kBytes, std::byte{0xEE});
    ASSERT_TRUE(target_->copy_from_host(0, mark.data(), kBytes).ok());
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(target_is(mark));
  }

  support::TempDir dir_;
  static const std::vector<std::byte>& content() {
    static const std::vector<std::byte> once = pattern(kBytes);
    return once;
  }

  const std::vector<std::byte>& bytes_ = content();
  std::optional<Context> context_;
  std::optional<Device> device_;
  std::optional<File> file_;
  std::optional<Buffer> target_;
  std::optional<FileQueue> queue_;
};

TEST_P(HandOver, OneThreadFlushesAndAnotherWaits) {
  for (std::uint64_t round = 0; round < 4; ++round) {
    submit_elsewhere(round);
    if (round % 2 == 1) {
      std::thread([&] { finish(round); }).join();
    } else {
      finish(round);
    }
    expect_quiet();
  }
}

TEST_P(HandOver, TheFlushingThreadMayStillRun) {
  std::atomic<bool> over{false};
  std::atomic<int> begun{0};
  std::thread first([&] {
    submit(1);
    begun = 1;
    while (!over) std::this_thread::sleep_for(1ms);
  });
  while (begun == 0) std::this_thread::sleep_for(1ms);
  finish(1);
  over = true;
  first.join();
  expect_quiet();
}

TEST_P(HandOver, AThirdThreadDestroysTheQueue) {
  for (std::uint64_t round = 0; round < 3; ++round) {
    submit_elsewhere(round);
    FileCompletion done;
    std::thread([&] { (void)queue_->wait({&done, 1}, 1, 1ms); }).join();
    std::thread([&] { queue_.reset(); }).join();
    expect_quiet();
    make_queue();
  }
}

TEST_P(HandOver, AChildThatDropsTheQueueTakesNothingFromItsParent) {
  for (std::uint64_t round = 0; round < (support::kThreadSanitizer ? 1 : 4); ++round) {
    submit(round);
    const int child = support::in_child([&] {
      queue_.reset();
      target_.reset();
      file_.reset();
      device_.reset();
      context_.reset();
      return 0;
    });
    EXPECT_EQ(child, 0);
    finish(round);
    expect_quiet();
  }
}

// No call in the child waits for something that only the parent can complete.
TEST_P(HandOver, AChildGetsAnErrorForItsRequests) {
  submit(7);
  const int child = support::in_child([&] {
    queue_->flush();
    (void)queue_->stats();
    const FileRange range{0, target_->data(), 4096};
    if (queue_->read(*file_, {&range, 1}, 8).code() != Code::kForked) return 1;
    FileCompletion done;
    if (queue_->pending() != 1 || queue_->wait({&done, 1}) != 1) return 2;
    if (done.tag != 7 || done.status.code() != Code::kForked) return 3;
    return queue_->pending() == 0 && queue_->wait({&done, 1}) == 0 ? 0 : 4;
  });
  EXPECT_EQ(child, 0);
  finish(7);
}

// A thread of the parent sleeps in wait(): in the child, its locks and condition variables stay in use for ever.
TEST_P(HandOver, AChildDropsAQueueThatAThreadOfTheParentIsWaitingOn) {
  for (std::uint64_t round = 0; round < (support::kThreadSanitizer ? 2 : 8); ++round) {
    std::atomic<bool> begun{false};
    std::thread waiter([&] {
      submit(round);
      begun = true;
      finish(round);
    });
    while (!begun) std::this_thread::yield();
    const int child = support::in_child([&] {
      queue_.reset();
      target_.reset();
      context_.reset();
      return 0;
    });
    EXPECT_EQ(child, 0);
    waiter.join();
  }
}

INSTANTIATE_TEST_SUITE_P(All, HandOver, ::testing::ValuesIn(variants()), name_of);

// Reads that another thread makes or waits for at the time of the fork.
class Forked : public ::testing::TestWithParam<const char*> {};

TEST_P(Forked, AChildReleasesReadsInFlight) {
  // Threads of the parent allocate all the time, and GCC 12's runtime does not take its allocator's locks before a
  // fork.
  if (support::kThreadSanitizer) GTEST_SKIP() << "a forked child may wait for ever in ThreadSanitizer's malloc()";
  support::TempDir directory;
  const testing::FlatArray array{
      .layout = testing::Layout::kShardedZstd, .chunks = 256, .chunk_elements = 4096, .shard_chunks = 8};
  ContextOptions options;
  options.threads = 2;
  std::optional<Context> context(Context::create(options).value());
  std::optional<Store> store(Store::open(*context, directory.path()).value());
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*store), "", array).ok());
  std::optional<Device> device(Device::open(GetParam()).value());
  std::optional<Array> opened(Array::open(*store).value());
  std::optional<Buffer> mine(Buffer::allocate(*device, array.elements() * 4).value());
  Buffer others = Buffer::allocate(*device, array.elements() * 4).value();
  std::atomic<bool> over{false};
  std::atomic<int> failed{0};
  std::thread reader([&] {
    while (!over) {
      failed += opened->read({}, {others, opened->info().dtype, {array.elements()}}, *device).ok() ? 0 : 1;
      auto also = Device::open(GetParam());  // the list of devices has a lock
      auto small = Buffer::allocate(*also, 4096);
      failed += small.ok() ? 0 : 1;
    }
  });
  for (int round = 0; round < 40 && !HasFailure(); ++round) {
    auto completion = opened->read_async({}, {*mine, opened->info().dtype, {array.elements()}}, *device);
    EXPECT_TRUE(completion.ok());
    if (!completion.ok()) break;
    const int child = support::in_child([&] {
      if (completion->wait().code() != Code::kForked || !completion->done() || !completion->wait_for(1s)) return 1;
      completion->cancel();
      completion = Status(Code::kForked, Layer::kApi, "let go");
      opened.reset();
      mine.reset();
      store.reset();
      device.reset();
      context.reset();
      // A lock held by a thread of the parent must not be held in the child.
      auto again = Device::open(GetParam());
      if (!again.ok() || !Buffer::allocate(*again, 4096).ok()) return 2;
      return 0;
    });
    EXPECT_EQ(child, 0) << "round " << round;
    EXPECT_TRUE(completion->wait().ok());
  }
  over = true;
  reader.join();
  EXPECT_EQ(failed, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Forked, ::testing::Values("host", "host-staged"),
                         [](const auto& kind) { return std::string(kind.param).substr(kind.param[4] == '-' ? 5 : 0); });

}  // namespace
}  // namespace headrace
