// Tests the queue's guarantees against a scripted engine and a clock that only the test advances.
#include "io/request_queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <random>

#include "support/temp_dir.h"

namespace headrace::io {
namespace {

using namespace std::chrono_literals;

std::uint64_t g_now = 1;
std::uint64_t fake_now() { return g_now; }

// A file of `file_bytes` patterned bytes. Completions are held until reap(), and returned in order or shuffled.
class FakeEngine : public Engine {
 public:
  explicit FakeEngine(unsigned depth = 8, std::uint64_t file_bytes = 1 << 20) : file_bytes_(file_bytes) {
    info_.name = "fake";
    info_.depth = depth;
    in_flight_.reserve(depth);
  }
  const EngineInfo& info() const noexcept override { return info_; }
  Status register_buffers(std::span<const std::span<std::byte>>) override { return {}; }
  Result<std::size_t> submit(std::span<const EngineRequest> requests) override {
    if (!submit_failure.ok()) return submit_failure;
    ++submits;
    std::size_t n = 0;
    for (; n < requests.size() && in_flight_.size() < std::min(info_.depth, room); ++n)
      in_flight_.push_back(requests[n]);
    max_in_flight = std::max(max_in_flight, in_flight_.size());
    return n;
  }
  Result<std::size_t> reap(std::span<EngineResult> events, std::chrono::nanoseconds timeout) override {
    last_timeout = timeout;
    if (!reap_failure.ok()) return reap_failure;
    if (in_flight_.empty() || hold) {
      g_now += static_cast<std::uint64_t>(std::min<std::chrono::nanoseconds>(timeout, 1s).count());
      return std::size_t{0};
    }
    if (shuffle) std::shuffle(in_flight_.begin(), in_flight_.end(), random_);
    std::size_t n = 0;
    while (n < events.size() && !in_flight_.empty()) {
      const EngineRequest request = in_flight_.back();
      in_flight_.pop_back();
      events[n++] = {request.tag, perform(request)};
      last_tag = request.tag;
      if (repeat_events && n < events.size()) events[n++] = {request.tag, 1};
    }
    return n;
  }
  void cancel(std::uint64_t tag) override {
    ++cancels;
    for (const EngineRequest& request : in_flight_) {
      if (request.tag == tag) cancelled_.push_back(tag);
    }
  }
  void wake() noexcept override {}
  std::uint64_t system_calls() const noexcept override { return submits; }

  std::deque<std::int64_t> script;  // results that override the true one: -errno, or a count that caps it
  std::vector<EngineRequest> seen;
  Status submit_failure, reap_failure;
  unsigned room = ~0u;
  bool hold = false, shuffle = false, repeat_events = false, record = true;
  std::size_t submits = 0, cancels = 0, max_in_flight = 0;
  std::uint64_t last_tag = 0;
  std::chrono::nanoseconds last_timeout{0};

 private:
  std::int64_t perform(const EngineRequest& request) {
    if (record) seen.push_back(request);
    if (std::erase(cancelled_, request.tag) > 0) return -ECANCELED;
    std::int64_t cap = request.length_bytes;
    if (!script.empty()) {
      cap = std::min(cap, script.front());
      script.pop_front();
    }
    if (cap < 0) return cap;
    if (request.op == Op::kWrite) return cap;
    if (request.offset_bytes >= file_bytes_) return 0;
    const auto n = std::min<std::uint64_t>(static_cast<std::uint64_t>(cap), file_bytes_ - request.offset_bytes);
    for (std::uint64_t i = 0; i < n; ++i) request.buffer[i] = support::pattern_at(request.offset_bytes + i);
    return static_cast<std::int64_t>(n);
  }

  EngineInfo info_;
  std::uint64_t file_bytes_;
  std::vector<EngineRequest> in_flight_;
  std::vector<std::uint64_t> cancelled_;
  std::mt19937 random_{7};
};

class RequestQueueTest : public ::testing::Test {
 protected:
  static RequestQueueOptions options(std::uint32_t piece = 4096) { return {.piece_bytes = piece, .now_ns = &fake_now}; }
  static std::vector<RequestResult> drain(RequestQueue& queue) {
    std::vector<RequestResult> all;
    for (int i = 0; i < 5000 && queue.pending() > 0; ++i) {
      RequestResult out[3];
      const std::size_t n = queue.wait(out, 1s);
      for (std::size_t k = 0; k < n; ++k) all.push_back(std::move(out[k]));
    }
    EXPECT_EQ(queue.pending(), 0u);
    return all;
  }
  RequestResult one(RequestQueue& queue, const Request& request) {
    queue.push({&request, 1});
    auto all = drain(queue);
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? RequestResult{} : std::move(all[0]);
  }
  Request read(std::uint64_t offset, std::uint64_t length) {
    buffer_.assign(length, std::byte{0xEE});
    return {.offset_bytes = offset, .buffer = buffer_, .tag = 42};
  }
  bool right(std::uint64_t offset, std::uint64_t n) const {
    for (std::uint64_t i = 0; i < n; ++i) {
      if (buffer_[i] != support::pattern_at(offset + i)) return false;
    }
    return true;
  }
  std::vector<std::byte> buffer_;
};

TEST_F(RequestQueueTest, SplitsAndJoins) {
  FakeEngine engine(4);
  engine.shuffle = true;
  RequestQueue queue(engine, options());
  const auto done = one(queue, read(1000, 100'001));
  EXPECT_TRUE(done.status.ok()) << done.status.to_string();
  EXPECT_EQ(done.tag, 42u);
  EXPECT_EQ(done.bytes, 100'001u);
  EXPECT_TRUE(right(1000, 100'001));
  EXPECT_EQ(queue.stats().pieces, 25u);
  EXPECT_LE(engine.max_in_flight, 4u);
}

TEST_F(RequestQueueTest, ShortCountsAreContinued) {
  FakeEngine engine;
  engine.script = {1, 100, 4095, 1, 7};
  RequestQueue queue(engine, options(1 << 20));
  const auto done = one(queue, read(3, 10'000));
  EXPECT_TRUE(done.status.ok()) << done.status.to_string();
  EXPECT_TRUE(right(3, 10'000));
  EXPECT_EQ(queue.stats().short_counts, 5u);
}

TEST_F(RequestQueueTest, EndOfFileIsShortWithCounts) {
  FakeEngine engine(8, 5000);
  RequestQueue queue(engine, options());
  const auto done = one(queue, read(1000, 10'000));
  EXPECT_EQ(done.status.code(), Code::kShort);
  EXPECT_EQ(done.bytes, 4000u);
  EXPECT_EQ(done.status.offset(), 1000u);
  EXPECT_EQ(done.status.length(), 10'000u);
  EXPECT_TRUE(right(1000, 4000));
}

TEST_F(RequestQueueTest, MinBytesAllowsTheTailOfAFile) {
  FakeEngine engine(8, 5000);
  RequestQueue queue(engine, options());
  Request request = read(4096, 4096);
  request.alignment_bytes = 512;
  request.min_bytes = 904;
  auto done = one(queue, request);
  EXPECT_TRUE(done.status.ok()) << done.status.to_string();
  EXPECT_EQ(done.bytes, 904u);
  EXPECT_EQ(engine.seen.size(), 1u);
  request.min_bytes = 905;
  done = one(queue, request);
  EXPECT_EQ(done.status.code(), Code::kShort);
  EXPECT_EQ(done.bytes, 904u);
  request.min_bytes = 0;
  request.offset_bytes = 1 << 20;
  EXPECT_TRUE(one(queue, request).status.ok());
}

TEST_F(RequestQueueTest, AlignedReadsAreContinuedAligned) {
  FakeEngine engine;
  engine.script = {1000, 100};
  RequestQueue queue(engine, options());
  Request request = read(4096, 4096);
  request.alignment_bytes = 512;
  auto done = one(queue, request);
  // First 1000 of 4096 bytes; the retry from 512 gets 100, no more than before, so the file is taken to end there.
  EXPECT_EQ(done.status.code(), Code::kShort);
  EXPECT_EQ(done.bytes, 1000u);
  engine.seen.clear();
  engine.script = {1000};
  done = one(queue, request);
  EXPECT_TRUE(done.status.ok());
  EXPECT_TRUE(right(4096, 4096));
  for (const EngineRequest& piece : engine.seen) {
    EXPECT_EQ(piece.offset_bytes % 512, 0u);
    EXPECT_EQ(piece.length_bytes % 512, 0u);
  }
}

TEST_F(RequestQueueTest, TransientFailuresAreRetriedAndThenGivenUp) {
  FakeEngine engine;
  engine.script = {-EAGAIN, -EINTR, -EAGAIN, 10, -EAGAIN};
  RequestQueue queue(engine, options());
  EXPECT_TRUE(one(queue, read(0, 4096)).status.ok());
  EXPECT_TRUE(right(0, 4096));
  EXPECT_EQ(queue.stats().retries, 4u);
  for (const int error : {EAGAIN, EINTR}) {
    engine.script.assign(1000, -error);
    const auto done = one(queue, read(0, 4096));
    EXPECT_EQ(done.status.code(), Code::kAgainExhausted);
    EXPECT_EQ(done.status.system_error(), error);
    EXPECT_EQ(engine.script.size(), 1000u - 17);
    engine.script.clear();
  }
}

TEST_F(RequestQueueTest, ErrorsNameOffsetLengthAndCause) {
  FakeEngine engine;
  engine.script = {4096, -EIO};
  RequestQueue queue(engine, options());
  std::vector<RequestResult> all;
  const auto done = one(queue, read(0, 8192));
  EXPECT_EQ(done.status.code(), Code::kIo);
  EXPECT_EQ(done.status.system_error(), EIO);
  EXPECT_EQ(done.status.length(), 4096u);
  engine.script = {-EACCES};
  EXPECT_EQ(one(queue, read(0, 1)).status.code(), Code::kPermission);
  engine.script = {-ENOMEM};
  EXPECT_EQ(one(queue, read(0, 1)).status.code(), Code::kResourceExhausted);
}

TEST_F(RequestQueueTest, OneBadRequestLeavesTheOthersExact) {
  for (std::size_t bad = 0; bad < 20; ++bad) {
    FakeEngine engine(4);
    RequestQueue queue(engine, options());
    std::vector<std::vector<std::byte>> buffers(20, std::vector<std::byte>(5000));
    std::vector<Request> requests;
    for (std::uint64_t i = 0; i < 20; ++i) {
      requests.push_back({.offset_bytes = i == bad ? std::uint64_t{1} << 30 : i * 777, .buffer = buffers[i], .tag = i});
    }
    queue.push(requests);
    const auto all = drain(queue);
    ASSERT_EQ(all.size(), 20u);
    for (const RequestResult& done : all) {
      ASSERT_EQ(done.status.ok(), done.tag != bad);
      for (std::size_t k = 0; done.status.ok() && k < 5000; ++k) {
        ASSERT_EQ(buffers[done.tag][k], support::pattern_at(done.tag * 777 + k));
      }
    }
  }
}

TEST_F(RequestQueueTest, WrongRequestsAreRefusedWithoutTheEngine) {
  FakeEngine engine;
  RequestQueue queue(engine, options());
  Request request = read(0, 100);
  request.buffer = {static_cast<std::byte*>(nullptr), 100};
  EXPECT_EQ(one(queue, request).status.code(), Code::kInvalidArgument);
  request = read(std::uint64_t{1} << 63, 100);
  EXPECT_EQ(one(queue, request).status.code(), Code::kInvalidArgument);
  request = read(0, 100);
  request.offset_bytes = ~std::uint64_t{0} - 50;
  EXPECT_EQ(one(queue, request).status.code(), Code::kInvalidArgument);
  request = read(0, 100);
  request.min_bytes = 101;
  EXPECT_EQ(one(queue, request).status.code(), Code::kInvalidArgument);
  request = read(1, 512);
  request.alignment_bytes = 512;
  EXPECT_EQ(one(queue, request).status.code(), Code::kInvalidArgument);
  request.alignment_bytes = 3;
  EXPECT_EQ(one(queue, request).status.code(), Code::kInvalidArgument);
  EXPECT_EQ(engine.seen.size(), 0u);
  request = read(0, 0);
  EXPECT_TRUE(one(queue, request).status.ok());
}

TEST_F(RequestQueueTest, CancelWaitsForTheEngineAndIssuesNoMore) {
  FakeEngine engine(2);
  engine.hold = true;
  RequestQueue queue(engine, options());
  const Request request = read(0, 5 * 4096);
  queue.push({&request, 1});
  queue.cancel(42);
  RequestResult out;
  EXPECT_EQ(queue.wait({&out, 1}, 1s), 0u) << "completed while the engine holds its buffer";
  EXPECT_EQ(queue.pending(), 1u);
  EXPECT_EQ(engine.cancels, 2u);
  queue.cancel(42);
  engine.hold = false;
  const auto all = drain(queue);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status.code(), Code::kCancelled);
  EXPECT_EQ(all[0].bytes, 0u);
  EXPECT_EQ(engine.seen.size(), 2u);
}

TEST_F(RequestQueueTest, ACancelAfterTheLastByteChangesNothing) {
  FakeEngine engine;
  RequestQueue queue(engine, options());
  const Request request = read(0, 4096);
  queue.push({&request, 1});
  // This engine ignores cancellation, as aio does.
  engine.script = {4096};
  engine.hold = false;
  RequestResult out;
  ASSERT_EQ(queue.wait({&out, 1}, 1s), 1u);
  queue.cancel(42);
  EXPECT_TRUE(out.status.ok());
  EXPECT_EQ(queue.pending(), 0u);
}

TEST_F(RequestQueueTest, DeadlineEndsWhatIsLate) {
  FakeEngine engine(2);
  engine.hold = true;
  RequestQueue queue(engine, options());
  Request request = read(0, 5 * 4096);
  request.deadline_ns = g_now + 1'000'000;
  queue.push({&request, 1});
  RequestResult out;
  EXPECT_EQ(queue.wait({&out, 1}, 10s), 0u);
  EXPECT_LE(engine.last_timeout, 1ms) << "slept beyond the deadline";
  EXPECT_EQ(queue.wait({&out, 1}, 10s), 0u);
  EXPECT_EQ(engine.cancels, 2u);
  engine.hold = false;
  const auto all = drain(queue);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status.code(), Code::kTimeout);
}

TEST_F(RequestQueueTest, StrayAndRepeatedEventsAreIgnored) {
  FakeEngine engine(4);
  engine.repeat_events = true;
  RequestQueue queue(engine, options());
  const auto done = one(queue, read(17, 100'000));
  EXPECT_TRUE(done.status.ok()) << done.status.to_string();
  EXPECT_TRUE(right(17, 100'000));
  EXPECT_GT(queue.stats().spurious_completions, 0u);
}

TEST_F(RequestQueueTest, AnEngineThatAcceptsNothingIsAbandoned) {
  FakeEngine engine(4);
  engine.room = 0;
  RequestQueue queue(engine, options());
  std::vector<Request> requests(10, read(0, 10'000));
  queue.push(requests);
  const auto all = drain(queue);
  ASSERT_EQ(all.size(), 10u);
  for (const RequestResult& done : all) EXPECT_EQ(done.status.code(), Code::kAgainExhausted);
  EXPECT_LT(engine.submits, 1000u);
  engine.room = 4;
  EXPECT_TRUE(one(queue, read(5, 10'000)).status.ok());
}

TEST_F(RequestQueueTest, ABrokenEngineEndsEverythingWithItsStatus) {
  for (const bool at_submit : {true, false}) {
    FakeEngine engine(4);
    RequestQueue queue(engine, options());
    std::vector<Request> requests(10, read(0, 10'000));
    const Status gone(Code::kIo, Layer::kIo, "the ring is gone");
    (at_submit ? engine.submit_failure : engine.reap_failure) = gone;
    queue.push(requests);
    const auto all = drain(queue);
    ASSERT_EQ(all.size(), 10u);
    for (const RequestResult& done : all) EXPECT_EQ(done.status.message(), "the ring is gone");
    EXPECT_EQ(one(queue, read(0, 1)).status.message(), "the ring is gone");
  }
}

TEST_F(RequestQueueTest, WritesContinueAndNeverEndShort) {
  FakeEngine engine;
  engine.script = {10, 0, 0, 500, -EINTR};
  RequestQueue queue(engine, options());
  Request request = read(0, 9000);
  request.op = Op::kWrite;
  auto done = one(queue, request);
  EXPECT_TRUE(done.status.ok()) << done.status.to_string();
  engine.script.assign(100, 0);
  done = one(queue, request);
  EXPECT_EQ(done.status.code(), Code::kAgainExhausted);
  engine.script = {-ENOSPC};
  EXPECT_EQ(one(queue, request).status.system_error(), ENOSPC);
}

// Random scripts: whatever the engine answers, each request completes once, with the right bytes or an error.
TEST_F(RequestQueueTest, SeededChaos) {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    FakeEngine engine(1 + seed % 6, 60'000);
    engine.shuffle = true;
    engine.repeat_events = random() % 4 == 0;
    const std::int64_t choices[] = {-EIO, -EAGAIN, -EINTR,  0,       1,       511,    512,
                                    4095, -ENOMEM, 1 << 20, 1 << 20, 1 << 20, 1 << 20};
    for (int i = 0; i < 60; ++i) engine.script.push_back(choices[random() % std::size(choices)]);
    RequestQueue queue(engine, options());
    std::vector<std::vector<std::byte>> buffers;
    std::vector<Request> requests;
    for (std::uint64_t i = 0; i < 30; ++i) {
      const std::uint64_t length = random() % 20'000;
      buffers.emplace_back(length + 1);
      requests.push_back(
          {.offset_bytes = random() % 61'000, .buffer = std::span(buffers.back()).first(length), .tag = i});
      if (random() % 3 == 0) requests.back().min_bytes = length / 2;
      if (random() % 5 == 0) requests.back().deadline_ns = g_now + random() % 3'000'000;
    }
    queue.push(std::span(requests).first(15));
    if (seed % 3 == 0) queue.cancel(random() % 15);
    queue.push(std::span(requests).subspan(15));
    if (seed % 3 == 1) queue.cancel(random() % 30);
    const auto all = drain(queue);
    std::vector<int> count(30);
    for (const RequestResult& done : all) {
      ++count[done.tag];
      const Request& request = requests[done.tag];
      ASSERT_LE(done.bytes, request.buffer.size());
      if (done.status.ok()) {
        const auto least = request.min_bytes == Request::kAll ? request.buffer.size() : request.min_bytes;
        ASSERT_GE(done.bytes, least) << "seed " << seed;
      }
      std::uint64_t right = 0;
      while (right < done.bytes && request.buffer[right] == support::pattern_at(request.offset_bytes + right)) ++right;
      ASSERT_EQ(right, done.bytes) << "seed " << seed;
    }
    for (const int n : count) ASSERT_EQ(n, 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace headrace::io
