// Every engine delivers the same bytes and the same counts, and exactly one completion per request.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "io/engine.h"
#include "io/request_queue.h"
#include "os/direct_align.h"
#include "support/engine_over_file.h"
#include "support/temp_dir.h"

namespace headrace::io {
namespace {

using namespace std::chrono_literals;
using support::pattern;

class EngineConformance : public EngineOverFile {};

TEST_P(EngineConformance, InfoNamesTheRow) {
  EXPECT_EQ(engine_->info().name, GetParam().name);
  EXPECT_GT(engine_->info().depth, 0u);
  EXPECT_EQ(engine_->info().reaches_device_memory, GetParam().to_device);
}

TEST_P(EngineConformance, ReadsWhatIsThere) {
  std::vector<std::byte> buffer(4096);
  submit_all({{Op::kRead, fd_, 12345, buffer.data(), 4096, 7}});
  collect(1);
  EXPECT_EQ(results_[7], 4096);
  EXPECT_EQ(std::memcmp(buffer.data(), bytes_.data() + 12345, 4096), 0);
}

TEST_P(EngineConformance, EndOfFileGivesFewerBytesAndThenNone) {
  std::vector<std::byte> buffer(8192);
  submit_all({{Op::kRead, fd_, kFileBytes - 100, buffer.data(), 4096, 1},
              {Op::kRead, fd_, kFileBytes + 4096, buffer.data() + 4096, 4096, 2}});
  collect(2);
  EXPECT_EQ(results_[1], 100);
  EXPECT_EQ(results_[2], 0);
}

TEST_P(EngineConformance, WritesAndReadsBack) {
  const auto fresh = pattern(10000, 5);
  std::vector<std::byte> out = fresh, in(10000);
  submit_all({{Op::kWrite, fd_, 4321, out.data(), 10000, 1}});
  collect(1);
  EXPECT_EQ(results_[1], 10000);
  submit_all({{Op::kRead, fd_, 4321, in.data(), 10000, 2}});
  collect(1);
  EXPECT_EQ(results_[2], 10000);
  EXPECT_EQ(in, fresh);
}

TEST_P(EngineConformance, BadRequestsFailAloneWithTheirErrno) {
  const int write_only = ::open((dir_ / "file").c_str(), O_WRONLY | O_CLOEXEC);
  const int directory = ::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::vector<std::byte> a(64), b(64), c(64), d(64), e(64);
  submit_all({{Op::kRead, fd_, 0, a.data(), 64, 1},
              {Op::kRead, 1'000'000, 0, b.data(), 64, 2},
              {Op::kRead, fd_, 64, c.data(), 64, 3},
              {Op::kRead, write_only, 0, d.data(), 64, 4},
              {Op::kRead, directory, 0, e.data(), 64, 5},
              {Op::kRead, fd_, 128, b.data(), 64, 6}});
  collect(6);
  EXPECT_EQ(results_[1], 64);
  EXPECT_EQ(results_[2], -EBADF);
  EXPECT_EQ(results_[3], 64);
  EXPECT_EQ(results_[4], -EBADF);
  EXPECT_LT(results_[5], 0);  // EISDIR, or EINVAL from aio
  EXPECT_EQ(results_[6], 64);
  EXPECT_EQ(std::memcmp(c.data(), bytes_.data() + 64, 64), 0);
  ::close(write_only);
  ::close(directory);
}

TEST_P(EngineConformance, TagsMayHaveAnyValue) {
  std::vector<std::byte> buffer(64 * 5);
  const std::uint64_t tags[] = {0, ~std::uint64_t{0}, ~std::uint64_t{0} - 1, 128, 129};
  std::vector<EngineRequest> requests;
  for (std::size_t i = 0; i < 5; ++i) requests.push_back({Op::kRead, fd_, i * 64, buffer.data() + i * 64, 64, tags[i]});
  submit_all(requests);
  collect(5);
  for (const std::uint64_t tag : tags) EXPECT_EQ(results_[tag], 64);
}

TEST_P(EngineConformance, TakesNoMoreThanItsDepthAndLosesNothing) {
  for (const unsigned depth : {1u, 4u, 16u}) {
    remake({.depth = depth});
    results_.clear();
    std::vector<std::byte> buffer(500 * 512);
    std::vector<EngineRequest> requests;
    for (std::uint64_t i = 0; i < 500; ++i) {
      requests.push_back({Op::kRead, fd_, i * 512, buffer.data() + i * 512, 512, i});
    }
    std::span<const EngineRequest> rest = requests;
    std::size_t in_flight = 0;
    while (results_.size() < requests.size()) {
      auto taken = engine_->submit(rest);
      ASSERT_TRUE(taken.ok());
      rest = rest.subspan(*taken);
      in_flight += *taken;
      ASSERT_LE(in_flight, engine_->info().depth);
      const std::size_t before = results_.size();
      collect(1);
      in_flight -= results_.size() - before;
    }
    EXPECT_TRUE(std::equal(buffer.begin(), buffer.end(), bytes_.begin()));
  }
}

TEST_P(EngineConformance, DeferredRequestsAreStartedByTheNextReap) {
  std::vector<std::byte> buffer(64 * 4096);
  std::uint64_t tag = 0;
  for (int round = 0; round < 8; ++round) {
    results_.clear();
    const std::uint64_t calls = engine_->system_calls();
    std::size_t in_flight = 0;
    // Alternates between leaving requests to the next reap and starting them at once. Each ends exactly once, whoever
    // starts it.
    for (int part = 0; part <= round % 4; ++part) {
      std::vector<EngineRequest> requests;
      for (std::uint64_t i = 0; i < 5; ++i, ++tag) {
        requests.push_back({Op::kRead, fd_, tag % 64 * 4096, buffer.data() + tag % 64 * 4096, 4096, tag});
      }
      auto taken = part % 2 == 0 ? engine_->submit_before_reap(requests) : engine_->submit(requests);
      ASSERT_TRUE(taken.ok()) << taken.status().to_string();
      ASSERT_EQ(*taken, requests.size());
      in_flight += *taken;
    }
    if (round % 2 == 1) engine_->cancel(tag - 1);
    collect(in_flight);
    EXPECT_GT(engine_->system_calls(), calls);
    for (const auto& [which, result] : results_) {
      EXPECT_TRUE(result == 4096 || (which == tag - 1 && result == -ECANCELED)) << which << ": " << result;
      if (result != 4096) continue;
      EXPECT_EQ(std::memcmp(buffer.data() + which % 64 * 4096, bytes_.data() + which % 64 * 4096, 4096), 0);
    }
  }
  // With a zero timeout, reap must not wait: neither when it has nothing to start or return, nor when it starts
  // requests.
  const EngineRequest request{Op::kRead, fd_, 0, buffer.data(), 4096, tag};
  ASSERT_TRUE(engine_->submit_before_reap({&request, 1}).ok());
  results_.clear();
  for (int i = 0; i < 10'000 && results_.empty(); ++i) {
    EngineResult event;
    auto n = engine_->reap({&event, 1}, 0ns);
    ASSERT_TRUE(n.ok());
    if (*n == 1) results_[event.tag] = event.result;
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(results_[tag], 4096);
}

TEST_P(EngineConformance, ReapReturnsAfterItsTimeout) {
  EngineResult event;
  auto n = engine_->reap({&event, 1}, 0ns);
  ASSERT_TRUE(n.ok());
  EXPECT_EQ(*n, 0u);
  const auto start = std::chrono::steady_clock::now();
  n = engine_->reap({&event, 1}, 30ms);
  ASSERT_TRUE(n.ok());
  EXPECT_EQ(*n, 0u);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 25ms);
}

TEST_P(EngineConformance, WakeEndsTheNextReapAndOneInProgress) {
  EngineResult event;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    engine_->wake();
    ASSERT_TRUE(engine_->reap({&event, 1}, 10s).ok());
    std::thread waker([this] {
      std::this_thread::sleep_for(2ms);
      engine_->wake();
    });
    ASSERT_TRUE(engine_->reap({&event, 1}, 10s).ok());
    waker.join();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  }
}

TEST_P(EngineConformance, WakesFromManyThreadsLoseNoEvent) {
  std::vector<std::byte> buffer(2000 * 64);
  std::atomic<bool> stop{false};
  std::vector<std::thread> wakers;
  for (int i = 0; i < 3; ++i) {
    wakers.emplace_back([&] {
      while (!stop) {
        engine_->wake();
        std::this_thread::yield();
      }
    });
  }
  std::vector<EngineRequest> requests;
  for (std::uint64_t i = 0; i < 2000; ++i) requests.push_back({Op::kRead, fd_, i * 64, buffer.data() + i * 64, 64, i});
  submit_all(requests);
  collect(requests.size() - results_.size());
  stop = true;
  for (std::thread& waker : wakers) waker.join();
  EXPECT_EQ(results_.size(), 2000u);
  EXPECT_TRUE(std::equal(buffer.begin(), buffer.end(), bytes_.begin()));
}

TEST_P(EngineConformance, EngineMadeOnAnotherThreadWorks) {
  std::thread user([this] {
    std::vector<std::byte> buffer(64);
    submit_all({{Op::kRead, fd_, 0, buffer.data(), 64, 1}});
    collect(1);
    engine_.reset();
  });
  user.join();
  EXPECT_EQ(results_[1], 64);
}

TEST_P(EngineConformance, RegisteredBuffersGiveTheSameBytes) {
  Aligned one(256 << 10), two(256 << 10);
  const std::span<std::byte> buffers[] = {two.span(), one.span()};
  ASSERT_TRUE(engine_->register_buffers(buffers).ok());
  std::vector<std::byte> outside(4096);
  submit_all({{Op::kRead, fd_, 1, one.data + 7, 100'000, 1},
              {Op::kRead, fd_, 2, two.data, 256 << 10, 2},
              {Op::kRead, fd_, 3, outside.data(), 4096, 3},
              {Op::kWrite, fd_, kFileBytes, one.data + 200'000, 5, 4}});
  collect(4);
  EXPECT_EQ(results_[1], 100'000);
  EXPECT_EQ(results_[2], 256 << 10);
  EXPECT_EQ(results_[3], 4096);
  EXPECT_EQ(results_[4], 5);
  EXPECT_EQ(std::memcmp(one.data + 7, bytes_.data() + 1, 100'000), 0);
  EXPECT_EQ(std::memcmp(two.data, bytes_.data() + 2, 256 << 10), 0);
  EXPECT_EQ(std::memcmp(outside.data(), bytes_.data() + 3, 4096), 0);
}

// Registers between submits, where the engine allows it: requests in flight continue, are not waited for, and end once.
TEST_P(EngineConformance, BuffersMayBeRegisteredLater) {
  constexpr std::size_t kReads = 40, kLength = 20'480;
  Aligned slab(kReads * kLength);
  const std::span<std::byte> buffers[] = {slab.span()};
  const bool late = engine_->info().registers_late;
  if (!late) {
    ASSERT_TRUE(engine_->register_buffers(buffers).ok());
  }
  int never[2] = {-1, -1};  // only io_uring waits for a pipe, and only its kernel could make registration wait
  std::byte from_pipe{};
  if (std::string_view(GetParam().name) == "io_uring") {
    ASSERT_EQ(::pipe2(never, O_CLOEXEC), 0);
    submit_all({{Op::kRead, never[0], 0, &from_pipe, 1, kReads}});
  }
  std::atomic<bool> stop{false};
  std::thread reports([&, features = engine_->info().features] {
    while (!stop) {
      EXPECT_EQ(engine_->info().features, features);
      const std::string said = engine_->registration();
      EXPECT_TRUE(said.empty() || said.find("registered") != std::string::npos) << said;
    }
  });
  const auto reads = [&](std::size_t begin, std::size_t end) {
    std::vector<EngineRequest> out;
    for (std::size_t i = begin; i < end; ++i) out.push_back({Op::kRead, fd_, i, slab.data + i * kLength, kLength, i});
    return out;
  };
  submit_all(reads(0, kReads / 2));
  const std::vector<EngineRequest> left = reads(kReads / 2, kReads / 2 + 1);
  ASSERT_EQ(*engine_->submit_before_reap(left), 1u);
  if (late) {
    EXPECT_TRUE(engine_->register_buffers(buffers).ok());
  }
  submit_all(reads(kReads / 2 + 1, kReads));
  collect(kReads - results_.size());
  stop = true;
  reports.join();
  for (std::size_t i = 0; i < kReads; ++i) {
    EXPECT_EQ(results_[i], static_cast<std::int64_t>(kLength)) << i;
    EXPECT_EQ(std::memcmp(slab.data + i * kLength, bytes_.data() + i, kLength), 0) << i;
  }
  EXPECT_EQ(results_.count(kReads), 0u);
  if (never[0] < 0) return;
  ASSERT_EQ(::write(never[1], "x", 1), 1);
  collect(1);
  EXPECT_EQ(results_[kReads], 1);
  ::close(never[0]), ::close(never[1]);
}

TEST_P(EngineConformance, DirectReadsWithTail) {
  // The working directory is more often on a disk file system than /tmp is.
  support::TempDir disk(".");
  ASSERT_TRUE(support::write_file(disk / "file", bytes_));
  const int fd = ::open((disk / "file").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (fd < 0) GTEST_SKIP() << "this file system refuses O_DIRECT: " << std::strerror(errno);
  const auto align = os::direct_alignment(fd);
  Aligned buffer(1 << 20);
  const auto range = os::widen(kFileBytes - 5000, 5000, align.offset_bytes);
  RequestQueue queue(*engine_);
  const Request request{.fd = fd,
                        .offset_bytes = range.offset_bytes,
                        .buffer = {buffer.data, range.length_bytes},
                        .tag = 9,
                        .min_bytes = range.lead_bytes + 5000,
                        .alignment_bytes = align.offset_bytes};
  queue.push({&request, 1});
  RequestResult done;
  for (int i = 0; i < 100 && queue.wait({&done, 1}, 1s) == 0; ++i) {
  }
  ASSERT_TRUE(done.status.ok()) << done.status.to_string();
  EXPECT_EQ(done.tag, 9u);
  EXPECT_EQ(done.bytes, range.lead_bytes + 5000);
  EXPECT_EQ(std::memcmp(buffer.data + range.lead_bytes, bytes_.data() + kFileBytes - 5000, 5000), 0);
  // Asks for one byte more than the file has; the tail must not pass for a complete read.
  Request greedy = request;
  greedy.min_bytes = range.lead_bytes + 5001;
  if (greedy.min_bytes <= greedy.buffer.size()) {
    queue.push({&greedy, 1});
    for (int i = 0; i < 100 && queue.wait({&done, 1}, 1s) == 0; ++i) {
    }
    EXPECT_EQ(done.status.code(), Code::kShort) << done.status.to_string();
    EXPECT_EQ(done.bytes, range.lead_bytes + 5000);
  }
  ::close(fd);
}

TEST_P(EngineConformance, MisalignedDirectReadIsAnErrorOfThatRequest) {
  support::TempDir disk(".");
  ASSERT_TRUE(support::write_file(disk / "file", bytes_));
  const int fd = ::open((disk / "file").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (fd < 0) GTEST_SKIP() << "this file system refuses O_DIRECT: " << std::strerror(errno);
  Aligned buffer(8192);
  submit_all({{Op::kRead, fd, 1, buffer.data, 4096, 1}, {Op::kRead, fd, 4096, buffer.data + 4096, 4096, 2}});
  collect(2);
  if (results_[1] >= 0) GTEST_SKIP() << "this file system takes misaligned direct reads";
  EXPECT_EQ(results_[1], -EINVAL);
  EXPECT_EQ(results_[2], 4096);
  EXPECT_EQ(std::memcmp(buffer.data + 4096, bytes_.data() + 4096, 4096), 0);
  ::close(fd);
}

TEST_P(EngineConformance, QueueSplitsLongRequests) {
  std::vector<std::byte> buffer(kFileBytes);
  RequestQueue queue(*engine_, {.piece_bytes = 4096});
  const Request request{.fd = fd_, .buffer = buffer, .tag = 1};
  queue.push({&request, 1});
  RequestResult done;
  for (int i = 0; i < 1000 && queue.wait({&done, 1}, 1s) == 0; ++i) {
  }
  ASSERT_TRUE(done.status.ok()) << done.status.to_string();
  EXPECT_EQ(done.bytes, kFileBytes);
  EXPECT_EQ(buffer, bytes_);
  EXPECT_EQ(queue.stats().pieces, (kFileBytes + 4095) / 4096);
}

// A request reported as done is complete and right; the buffer of a cancelled one is no longer written to. No request
// is both.
TEST_P(EngineConformance, CancelRacesEndExactlyOnce) {
  remake({.depth = 32});
  RequestQueue queue(*engine_, {.piece_bytes = 4096});
  std::mt19937 random(1);
  constexpr std::size_t kSlots = 64, kLength = 10'000;  // three pieces
  constexpr std::uint64_t kTotal = 20'000;
  std::vector<std::vector<std::byte>> buffers(kSlots, std::vector<std::byte>(kLength));
  std::vector<std::uint64_t> owner(kSlots, ~std::uint64_t{0});
  std::vector<std::size_t> free_slots;
  for (std::size_t i = 0; i < kSlots; ++i) free_slots.push_back(i);
  std::uint64_t next = 0, completed = 0, cancelled = 0;
  while (completed < kTotal) {
    std::vector<Request> batch;
    while (!free_slots.empty() && next < kTotal && batch.size() < 24) {
      const std::size_t slot = free_slots.back();
      free_slots.pop_back();
      owner[slot] = next;
      batch.push_back({.fd = fd_, .offset_bytes = next % 900'000, .buffer = buffers[slot], .tag = next << 8 | slot});
      ++next;
    }
    queue.push(batch);
    for (const Request& request : batch) {
      if (random() % 3 == 0) queue.cancel(request.tag);
    }
    RequestResult done[16];
    const std::size_t n = queue.wait(done, 1s);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t slot = done[i].tag & 0xff;
      ASSERT_EQ(owner[slot], done[i].tag >> 8) << "completed twice";
      owner[slot] = ~std::uint64_t{0};
      ++completed;
      if (done[i].status.ok()) {
        ASSERT_EQ(std::memcmp(buffers[slot].data(), bytes_.data() + (done[i].tag >> 8) % 900'000, kLength), 0);
      } else {
        ASSERT_EQ(done[i].status.code(), Code::kCancelled) << done[i].status.to_string();
        ++cancelled;
      }
      // From here on the test owns the buffer again: a late write of the engine is detected below or by a sanitizer.
      std::memset(buffers[slot].data(), 0x5A, kLength);
      free_slots.push_back(slot);
    }
    for (const std::size_t slot : free_slots) {
      if (owner[slot] == ~std::uint64_t{0} && buffers[slot][kLength - 1] != std::byte{0} &&
          buffers[slot][0] != std::byte{0}) {
        ASSERT_EQ(buffers[slot][0], std::byte{0x5A});
        ASSERT_EQ(buffers[slot][kLength - 1], std::byte{0x5A});
      }
    }
  }
  EXPECT_EQ(queue.pending(), 0u);
  EXPECT_EQ(queue.stats().spurious_completions, 0u);
  EXPECT_GT(cancelled, 0u);
}

TEST_P(EngineConformance, DestructionWaitsForRequestsInFlight) {
  const std::size_t before = support::open_descriptors();
  for (int i = 0; i < 50; ++i) {
    std::vector<std::byte> buffer(64 << 10);
    remake({.depth = 16});
    std::vector<EngineRequest> requests;
    for (std::uint64_t k = 0; k < 16; ++k) requests.push_back({Op::kRead, fd_, k, buffer.data() + k * 4096, 4096, k});
    ASSERT_TRUE(engine_->submit(requests).ok());
    engine_.reset();
    std::fill(buffer.begin(), buffer.end(), std::byte{1});
    ASSERT_EQ(buffer[0], std::byte{1});
  }
  EXPECT_LE(support::open_descriptors(), before);
}

TEST(Engines, AutoTakesTheFirstThatWorks) {
  std::string why_not;
  auto engine = make_engine("auto", {}, &why_not);
  ASSERT_TRUE(engine.ok()) << why_not;
  EXPECT_EQ(make_engine("no such", {}).status().code(), Code::kInvalidArgument);
}

TEST(Engines, WorkUnderATightMemlockLimit) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &old), 0);
  rlimit tight = old;
  tight.rlim_cur = 64 << 10;
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &tight), 0);
  for (const EngineRow& row : engines()) {
    auto engine = row.make({.depth = 256});
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    if (!engine.ok()) continue;
    Aligned big(4 << 20);
    const std::span<std::byte> buffers[] = {big.span()};
    EXPECT_TRUE((*engine)->register_buffers(buffers).ok());
  }
  ::setrlimit(RLIMIT_MEMLOCK, &old);
}

INSTANTIATE_TEST_SUITE_P(Engine, EngineConformance, ::testing::ValuesIn(variants()), name_of);

}  // namespace
}  // namespace headrace::io
