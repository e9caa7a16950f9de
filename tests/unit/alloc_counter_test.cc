// Property: every allocation is counted for the thread that makes it, and exactly the planned one fails.
#include "support/alloc_counter.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

namespace headrace::support {
namespace {

// Keeps the compiler from removing an allocation whose result is unused.
void keep(void* memory) { asm volatile("" : : "g"(memory) : "memory"); }

class AllocCounterTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  }
};

TEST_F(AllocCounterTest, CountsEachKindOnce) {
  AllocScope scope(AllocScope::Of::kThread);
  void* memory[7];
  memory[0] = std::malloc(10);
  memory[1] = std::calloc(3, 5);
  memory[2] = std::realloc(nullptr, 7);
  memory[3] = std::aligned_alloc(64, 128);
  const int status = posix_memalign(&memory[4], 4096, 8192);
  memory[5] = ::operator new(100);
  memory[6] = ::operator new (100, std::align_val_t{256});
  for (void* m : memory) keep(m);
  const std::uint64_t allocations = scope.allocations(), bytes = scope.bytes();
  for (int i = 0; i < 5; ++i) std::free(memory[i]);
  ::operator delete(memory[5]);
  ::operator delete (memory[6], std::align_val_t{256});
  EXPECT_EQ(status, 0);
  EXPECT_EQ(allocations, 7u);
  EXPECT_GE(bytes, 10u + 15 + 7 + 128 + 8192 + 100 + 100);
}

TEST_F(AllocCounterTest, NothingIsCountedWhereNothingIsAllocated) {
  AllocScope scope;
  volatile int sum = 0;
  for (int i = 0; i < 1000; ++i) sum = sum + i;
  const std::uint64_t allocations = scope.allocations();
  EXPECT_EQ(allocations, 0u);
}

TEST_F(AllocCounterTest, FreesBalance) {
  const AllocCounts before = thread_allocs();
  for (int i = 0; i < 100; ++i) keep(std::make_unique<int>(i).get());
  const AllocCounts after = thread_allocs();
  EXPECT_EQ(after.allocations - before.allocations, 100u);
  EXPECT_EQ(after.frees - before.frees, 100u);
}

TEST_F(AllocCounterTest, AnotherThreadCountsForTheProcessOnly) {
  AllocScope process(AllocScope::Of::kProcess);
  std::uint64_t here = 0, there = 0;
  AllocScope own(AllocScope::Of::kThread);
  std::thread([&] {
    AllocScope scope(AllocScope::Of::kThread);
    for (int i = 0; i < 50; ++i) keep(std::make_unique<int>(i).get());
    there = scope.allocations();
  }).join();
  here = own.allocations();
  const std::uint64_t all = process.allocations();
  EXPECT_EQ(there, 50u);
  EXPECT_LT(here, 50u);  // what starting a thread allocates
  EXPECT_GE(all, here + there);
}

TEST_F(AllocCounterTest, RefusesExactlyTheNth) {
  for (std::uint64_t nth = 0; nth < 5; ++nth) {
    void* memory[5];
    int error = 0;
    fail_at_in_this_thread(nth);
    for (void*& m : memory) {
      errno = 0;
      m = std::malloc(16);
      if (m == nullptr) error = errno;
      keep(m);
    }
    const std::uint64_t refused = stop_failing();
    EXPECT_EQ(refused, 1u);
    EXPECT_EQ(error, ENOMEM);
    for (std::uint64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(memory[i] == nullptr, i == nth) << "request " << i << ", plan " << nth;
      std::free(memory[i]);
    }
  }
}

TEST_F(AllocCounterTest, ForeverRefusesTheRest) {
  void* memory[4];
  fail_at_in_this_thread(2, AllocFailure::kForever);
  for (void*& m : memory) keep(m = std::malloc(16));
  const std::uint64_t refused = stop_failing();
  EXPECT_EQ(refused, 2u);
  EXPECT_TRUE(memory[0] != nullptr && memory[1] != nullptr && memory[2] == nullptr && memory[3] == nullptr);
  for (void* m : memory) std::free(m);
}

TEST_F(AllocCounterTest, OperatorNewThrows) {
  bool thrown = false;
  fail_at_in_this_thread(0);
  try {
    keep(::operator new(64));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  stop_failing();
  EXPECT_TRUE(thrown);
}

TEST_F(AllocCounterTest, APlanForEveryThreadReachesAnother) {
  bool refused_there = false;
  std::thread other([&] {
    fail_at(0);
    void* memory = std::malloc(16);
    keep(memory);
    stop_failing();
    refused_there = memory == nullptr;
    std::free(memory);
  });
  other.join();
  EXPECT_TRUE(refused_there);
}

TEST_F(AllocCounterTest, FailedReallocKeepsTheOldBlock) {
  char* text = static_cast<char*>(std::malloc(8));
  ASSERT_NE(text, nullptr);
  std::memcpy(text, "intact", 7);
  fail_at_in_this_thread(0);
  void* bigger = std::realloc(text, 1 << 20);
  stop_failing();
  if (bigger != nullptr) {
    std::free(bigger);
    FAIL() << "the request was not refused";
  }
  EXPECT_STREQ(text, "intact");
  std::free(text);
}

TEST_F(AllocCounterTest, LiveBlocks) {
  const std::int64_t before = live_blocks();
  void* a = std::malloc(10);
  void* b = std::realloc(nullptr, 10);
  keep(a);
  keep(b);
  const std::int64_t two = live_blocks() - before;
  b = std::realloc(b, 100'000);
  fail_at_in_this_thread(0);
  void* refused = std::malloc(10);
  stop_failing();
  keep(b);
  const std::int64_t still_two = live_blocks() - before;
  std::free(a);
  std::free(b);
  const std::int64_t none = live_blocks() - before;
  EXPECT_EQ(refused, nullptr);
  EXPECT_EQ(two, 2);
  EXPECT_EQ(still_two, 2);
  EXPECT_EQ(none, 0);
}

}  // namespace
}  // namespace headrace::support
