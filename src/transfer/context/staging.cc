#include "transfer/context/staging.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/fault.h"
#include "base/trace.h"

namespace headrace::transfer {

// Small enough to keep within a budget of a few MiB, large enough that reads of nearly one size share their slabs.
constexpr std::size_t kSlabUnit = std::size_t{64} << 10;

StagingSlot::~StagingSlot() {
  event.reset();
  copied.reset();
  stream.reset();
  if (pinned.data() != nullptr) device->deallocate_pinned(pinned.data(), pinned.size());
  if (on_device.data() != nullptr) device->deallocate(on_device.data(), on_device.size());
}

namespace {

Result<std::unique_ptr<StagingSlot>> make(const std::shared_ptr<device::Device>& device, StagingPool::Bytes slabs) {
  auto slot = std::make_unique<StagingSlot>();
  slot->device = device;
  const std::size_t pinned_bytes = base::align_up(std::max<std::size_t>(slabs.pinned, 1), kSlabUnit);
  const std::size_t device_bytes = base::align_up(std::max<std::size_t>(slabs.device, 1), kSlabUnit);
  trace::Span span(trace::Stage::kRegister, pinned_bytes);
  HEADRACE_DELAY("transfer.slot");
  HEADRACE_TRY_ASSIGN(std::byte* const pinned, device->allocate_pinned(pinned_bytes));
  slot->pinned = {pinned, pinned_bytes};
  HEADRACE_TRY_ASSIGN(std::byte* const on_device, device->allocate(device_bytes));
  slot->on_device = {on_device, device_bytes};
  HEADRACE_TRY_ASSIGN(slot->stream, device->create_stream());
  HEADRACE_TRY_ASSIGN(slot->event, device->create_event());
  HEADRACE_TRY_ASSIGN(slot->copied, device->create_event());
  return slot;
}

}  // namespace

// Freeing takes milliseconds, which is for the caller to do without the lock. REQUIRES: room in `out`.
void StagingPool::take_too_small_locked(const device::Device& device, Bytes keep,
                                        std::vector<std::unique_ptr<StagingSlot>>& out) {
  for (auto& slot : free_) {
    if (slot->device.get() != &device) continue;
    if (slot->pinned.size() > keep.pinned || slot->on_device.size() > keep.device) {
      out.push_back(std::move(slot));
      continue;
    }
    keep.pinned -= slot->pinned.size();
    keep.device -= slot->on_device.size();
  }
  std::erase(free_, nullptr);
}

void StagingPool::give(std::unique_ptr<StagingSlot> slot) noexcept {
  std::lock_guard lock(mutex_);
  give_locked(std::move(slot));
}

void StagingPool::give_locked(std::unique_ptr<StagingSlot> slot) noexcept {
  try {
    free_.push_back(std::move(slot));
  } catch (const std::bad_alloc&) {  // freed instead
  }
}

void StagingPool::Making::make_one() noexcept {
  {
    std::lock_guard lock(pool_.mutex_);
    if (to_make_ == 0) return;
    --to_make_;
    ++being_made_;
  }
  Result<std::unique_ptr<StagingSlot>> made = Status::out_of_memory();
  try {
    made = make(kind_.device, kind_.slabs);
  } catch (const std::bad_alloc&) {
  }
  std::optional<WorkerPool::Notifier> notifier;
  {
    std::lock_guard lock(pool_.mutex_);
    --being_made_;
    if (loan_ != nullptr) notifier = loan_->notifier_;
    if (!made.ok() && adopted_) {
      ++to_make_;  // the attempt began before the loan did, so take_first() makes another if it needs one
      adopted_ = being_made_ > 0;
    } else if (!made.ok()) {
      to_make_ = 0;
      if (loan_ != nullptr && loan_->failure_.ok()) loan_->failure_ = std::move(made).status();
    } else if (loan_ != nullptr && loan_->here_.size() < loan_->wanted_) {
      loan_->here_.push_back(std::move(made).value());  // it has room for all that the loan wants
    } else {
      pool_.give_locked(std::move(made).value());
    }
  }
  pool_.arrived_->notify_all();
  if (notifier) notifier->notify(1);
}

StagingPool::Loan::Loan(StagingPool& pool, const std::shared_ptr<device::Device>& device, Bytes slabs,
                        std::size_t count, Bytes keep, WorkerPool::Notifier notifier)
    : pool_(pool), notifier_(std::move(notifier)), wanted_(count) {
  const Kind kind{device, slabs};
  here_.reserve(count);
  std::vector<std::unique_ptr<StagingSlot>> too_small;
  std::lock_guard lock(pool_.mutex_);
  const auto free =
      static_cast<std::size_t>(std::ranges::count_if(pool_.free_, [&](const auto& slot) { return kind.fits(*slot); }));
  const bool lacks = free < count;
  if (lacks) {
    std::erase_if(pool_.making_, [](const auto& making) { return making->left_locked() == 0; });
    missing_ = count - free;
    for (const auto& making : pool_.making_) {
      if (making->loan_ == nullptr && making->kind_.covers(kind)) missing_ -= std::min(missing_, making->being_made_);
    }
  }
  if (missing_ > 0) {
    pool_.making_.reserve(pool_.making_.size() + 1);
    too_small.reserve(pool_.free_.size());
    making_.reset(new Making(pool_, kind, missing_, this));
  }
  // Nothing throws from here on.
  for (auto& slot : pool_.free_) {
    if (here_.size() < count && kind.fits(*slot)) here_.push_back(std::move(slot));
  }
  std::erase(pool_.free_, nullptr);
  if (!lacks) return;
  for (const auto& making : pool_.making_) {
    if (making->loan_ != nullptr || making->kind_.device != device) continue;
    making->to_make_ = 0;  // this loan orders what it lacks itself, and the budgets allow no more
    if (!making->kind_.covers(kind)) continue;
    making->loan_ = this;
    making->adopted_ = true;
  }
  if (making_ == nullptr) return;
  pool_.making_.push_back(making_);
  pool_.take_too_small_locked(*device, keep, too_small);
}

// A child of fork() must not touch what its parent's threads may have locked.
StagingPool::Loan::~Loan() {
  if (pool_.arrived_.inherited()) return;
  std::lock_guard lock(pool_.mutex_);
  for (const auto& making : pool_.making_) {
    if (making->loan_ == this) making->loan_ = nullptr;
  }
  for (auto& slot : here_) pool_.give_locked(std::move(slot));
}

Result<std::unique_ptr<StagingSlot>> StagingPool::Loan::take_first() {
  std::unique_lock lock(pool_.mutex_);
  for (;;) {
    Result<std::unique_ptr<StagingSlot>> taken = take_locked();
    if (!taken.ok() || *taken != nullptr) return taken;
    const auto due = std::ranges::find_if(
        pool_.making_, [&](const auto& making) { return making->loan_ == this && making->to_make_ > 0; });
    if (due == pool_.making_.end()) {
      pool_.arrived_->wait(lock);  // for a thread that is making one
      continue;
    }
    const std::shared_ptr<Making> making = *due;
    lock.unlock();
    making->make_one();
    lock.lock();
  }
}

Result<std::unique_ptr<StagingSlot>> StagingPool::Loan::take() {
  std::lock_guard lock(pool_.mutex_);
  return take_locked();
}

Result<std::unique_ptr<StagingSlot>> StagingPool::Loan::take_locked() {
  if (!failure_.ok()) return failure_;
  if (here_.empty()) return std::unique_ptr<StagingSlot>();
  std::unique_ptr<StagingSlot> slot = std::move(here_.back());
  here_.pop_back();
  --wanted_;
  return slot;
}

bool StagingPool::Loan::ready() const {
  if (complete()) return false;
  std::lock_guard lock(pool_.mutex_);
  return !failure_.ok() || !here_.empty();
}

}  // namespace headrace::transfer
