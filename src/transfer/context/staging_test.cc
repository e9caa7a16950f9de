// Slots are lent, made for whoever lacks them, and kept; nobody waits for more than the first.
#include "transfer/context/staging.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "device/device.h"

namespace headrace::transfer {
namespace {

using std::chrono::milliseconds;

constexpr StagingPool::Bytes kSlabs{1 << 20, 1 << 19}, kKeepAll{1 << 30, 1 << 30};

class Staging : public ::testing::Test {
 protected:
  ~Staging() override {
    base::disarm_faults();
    base::arm_delay("", milliseconds(0));
  }
  std::unique_ptr<StagingPool::Loan> lend(std::size_t count, StagingPool::Bytes slabs = kSlabs,
                                          StagingPool::Bytes keep = kKeepAll) {
    return std::make_unique<StagingPool::Loan>(pool_, device_, slabs, count, keep, workers_->notifier());
  }
  // A thread that is making one of the loan's slots, for as long as the delay.
  std::thread making_one(const StagingPool::Loan& loan, milliseconds delay) {
    base::arm_delay("transfer.slot", delay);
    std::thread maker([making = loan.making()] { making->make_one(); });
    while (base::delays_begun() == 0) std::this_thread::yield();
    return maker;
  }
  std::unique_ptr<StagingSlot> slot_of(StagingPool::Loan& loan) { return loan.take().value(); }

  const std::shared_ptr<device::Device> device_ = device::open_device("host-staged").value();
  const std::unique_ptr<WorkerPool> workers_ = WorkerPool::create(1).value();
  StagingPool pool_;
};

TEST_F(Staging, ALoanGetsItsSlotsAsTheyAreMade) {
  const auto loan = lend(3);
  ASSERT_NE(loan->making(), nullptr);
  EXPECT_EQ(loan->missing(), 3u);
  EXPECT_FALSE(loan->ready());
  EXPECT_EQ(slot_of(*loan), nullptr);
  std::vector<std::unique_ptr<StagingSlot>> slots;
  slots.push_back(loan->take_first().value());  // makes it
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(loan->ready());
    EXPECT_FALSE(loan->complete());
    const std::uint64_t before = workers_->generation();
    loan->making()->make_one();
    EXPECT_GT(workers_->generation(), before);  // workers are told
    EXPECT_TRUE(loan->ready());
    slots.push_back(slot_of(*loan));
  }
  for (const auto& slot : slots) {
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(slot->device, device_);
    EXPECT_GE(slot->pinned.size(), kSlabs.pinned);
    EXPECT_GE(slot->on_device.size(), kSlabs.device);
    EXPECT_NE(slot->stream, nullptr);
  }
  EXPECT_TRUE(loan->complete());
  EXPECT_FALSE(loan->ready());
  loan->making()->make_one();  // no more than were missing
  EXPECT_EQ(slot_of(*loan), nullptr);
}

TEST_F(Staging, FreeSlotsAreUsedFirst) {
  const std::byte* first = nullptr;
  {
    const auto loan = lend(1);
    auto slot = loan->take_first().value();
    first = slot->pinned.data();
    pool_.give(std::move(slot));
  }
  const auto loan = lend(2);
  EXPECT_EQ(loan->missing(), 1u);
  EXPECT_EQ(loan->take_first().value()->pinned.data(), first);
}

TEST_F(Staging, WhatIsMadeAfterALoanHasEndedIsForLaterOnes) {
  std::shared_ptr<StagingPool::Making> making;
  {
    const auto loan = lend(3);
    making = loan->making();
    pool_.give(loan->take_first().value());
    making->make_one();  // arrives, and is not taken
  }
  making->make_one();
  const auto later = lend(3);
  EXPECT_EQ(later->making(), nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_NE(slot_of(*later), nullptr);
}

TEST_F(Staging, ALaterLoanGetsTheSlotThatIsBeingMadeForOneThatHasEnded) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  auto ended = lend(3);
  std::thread maker = making_one(*ended, milliseconds(100));
  const auto old = ended->making();
  ended.reset();
  const auto loan = lend(2);
  EXPECT_EQ(loan->missing(), 1u);
  old->make_one();  // the later loan's own Making makes what nobody had begun
  EXPECT_FALSE(loan->ready());
  maker.join();
  EXPECT_TRUE(loan->ready());
  EXPECT_NE(slot_of(*loan), nullptr);
  loan->making()->make_one();
  EXPECT_NE(slot_of(*loan), nullptr);
  EXPECT_TRUE(loan->complete());
}

TEST_F(Staging, NothingMoreIsMadeForALoanThatHasEndedOnceALaterOneLacksSlots) {
  auto ended = lend(3);
  const auto old = ended->making();
  pool_.give(ended->take_first().value());
  ended.reset();
  EXPECT_EQ(lend(1)->missing(), 0u);  // it lacks none
  old->make_one();
  const auto larger = lend(1, {4 << 20, 4 << 20});
  old->make_one();
  EXPECT_EQ(larger->missing(), 1u);
  EXPECT_EQ(lend(3)->missing(), 1u);
}

TEST_F(Staging, TheFirstSlotIsWaitedForIfAnotherThreadMakesIt) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const auto loan = lend(1);
  std::thread maker = making_one(*loan, milliseconds(100));
  EXPECT_NE(loan->take_first().value(), nullptr);
  EXPECT_EQ(base::delays_begun(), 1u);
  maker.join();
}

TEST_F(Staging, ALoanDoesNotTakeWhatIsMadeForAnother) {
  const auto first = lend(1), second = lend(1);
  EXPECT_EQ(second->missing(), 1u);
  first->making()->make_one();
  EXPECT_FALSE(second->ready());
  EXPECT_TRUE(first->ready());
}

TEST_F(Staging, SlotsThatAreTooSmallAreFreedUnlessTheyMayStay) {
  const auto give_small = [&] { pool_.give(lend(1)->take_first().value()); };
  give_small();
  (void)lend(1, {4 << 20, 4 << 20}, kSlabs);
  EXPECT_EQ(lend(1)->missing(), 0u);
  (void)lend(1, {4 << 20, 4 << 20}, {kSlabs.pinned, kSlabs.device - 1});
  EXPECT_EQ(lend(1)->missing(), 1u);
}

TEST_F(Staging, AFailureIsTheLoans) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  auto loan = lend(3);
  pool_.give(loan->take_first().value());
  base::arm_fault({.point = "dev_host.allocate_pinned", .error = ENOMEM});
  loan->making()->make_one();
  EXPECT_TRUE(loan->ready());
  EXPECT_EQ(loan->take().status().code(), Code::kResourceExhausted);
  EXPECT_EQ(loan->take_first().status().code(), Code::kResourceExhausted);
  loan->making()->make_one();  // nothing more is made
  base::disarm_faults();
  loan.reset();
  EXPECT_EQ(lend(1)->missing(), 0u);  // the slot that was made is still there
  EXPECT_EQ(lend(2)->missing(), 1u);
}

// The attempt of an ended loan is not the later one's failure.
TEST_F(Staging, AFailureForALoanThatHasEndedIsNobodys) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  auto ended = lend(1);
  base::arm_fault({.point = "dev_host.allocate_pinned", .error = ENOMEM});
  std::thread maker = making_one(*ended, milliseconds(100));
  ended.reset();
  const auto loan = lend(1);
  EXPECT_EQ(loan->making(), nullptr);
  EXPECT_NE(loan->take_first().value(), nullptr);
  maker.join();
}

}  // namespace
}  // namespace headrace::transfer
