#include "transfer/read/scheduler.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/clock.h"

namespace headrace::transfer {
namespace {

// How many threads can share so many groups of a wave.
std::uint32_t tasks_in(std::uint32_t groups, bool sends_requests) noexcept {
  return sends_requests ? groups / Scheduler::kRequestsPerClaim : groups;
}

}  // namespace

Scheduler::Scheduler(WorkerPool& pool, std::unique_ptr<ReadReport> report, std::unique_ptr<WaveWork> work, Setup setup)
    : pool_(pool),
      notifier_(pool.notifier()),
      report_(std::move(report)),
      work_(std::move(work)),
      setup_(std::move(setup)),
      cost_(setup_.cost != nullptr ? setup_.cost : std::make_shared<GroupCost>()),
      waves_(setup_.waves) {
  for (const auto& worker : setup_.workers) free_lanes_.push_back(worker.get());
  filled_.reserve(waves_.size());
  left_.reserve(setup_.workers.size());  // at most one per claim
}

// A child of fork() must not touch anything that its parent's threads may have locked.
Scheduler::~Scheduler() {
  if (!done_ && !ended_.inherited()) work_->end(setup_.workers);
}

void Scheduler::start() {
  work_->begin();
  pool_.add(shared_from_this(), 1);  // for the first wave; whoever has filled it wakes others
}

Status Scheduler::run() {
  // A read of one chunk runs on this thread only; no worker is woken.
  if (setup_.workers.size() > 1 && setup_.chunks > 1) {
    try {
      start();
    } catch (const std::bad_alloc&) {  // this thread does it alone
    }
  }
  for (;;) {
    const std::uint64_t seen = pool_.generation();
    if (work() == Progress::kFinished) break;
    pool_.wait(seen);
  }
  return wait();
}

Status Scheduler::wait() {
  std::unique_lock lock(mutex_);
  ended_->wait(lock, [&] { return done_; });
  return report_->status();
}

bool Scheduler::wait_for(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return ended_->wait_for(lock, timeout, [&] { return done_; });
}

bool Scheduler::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

void Scheduler::cancel() noexcept {
  try {
    report_->stop(Status(Code::kCancelled, Layer::kTransfer, "the read was cancelled"));
  } catch (const std::bad_alloc&) {
    report_->stop(Status::out_of_memory());
  }
  notifier_.notify();
}

void Scheduler::cancel_by(const Cancel& token) {
  const auto stop = [](void* read) noexcept { static_cast<Scheduler*>(read)->cancel(); };
  cancel_link_ = std::make_unique<base::CancelLink>(token, stop, this);
}

Worker* Scheduler::acquire_worker() {
  std::lock_guard lock(mutex_);
  if (ending_ || free_lanes_.empty()) return nullptr;
  Worker* worker = free_lanes_.back();
  free_lanes_.pop_back();
  return worker;
}

void Scheduler::release_worker(Worker* worker) {
  {
    std::lock_guard lock(mutex_);
    free_lanes_.push_back(worker);
    (void)stopped_locked();
    if (!complete_locked()) return;
    ending_ = true;
  }
  work_->end(setup_.workers);
  cancel_link_.reset();  // the token's lock precedes others in the lock order
  std::lock_guard lock(mutex_);
  done_ = true;
  ended_->notify_all();
}

Workload::Progress Scheduler::work() {
  trace::returned_to(setup_.start_ns);
  Worker* worker = acquire_worker();
  if (worker == nullptr) return done() ? Progress::kFinished : Progress::kIdle;
  bool finished = false;
  try {
    for (;;) {
      Claim next;
      {
        std::lock_guard lock(mutex_);
        next = claim_locked();
      }
      if (next.kind == ClaimKind::kFinished) finished = true;
      if (next.kind == ClaimKind::kNone) trace::leave_waiting(next.waits_for, setup_.start_ns);
      if (next.kind == ClaimKind::kNone || next.kind == ClaimKind::kFinished) break;
      switch (next.kind) {
        case ClaimKind::kFill:
          fill(next.wave, *worker);
          break;
        case ClaimKind::kGroups:
          run_groups(next, *worker);
          break;
        case ClaimKind::kResume:
          resume(*worker);
          break;
        case ClaimKind::kGiveUp:
          work_->cancel();
          break;
        case ClaimKind::kDrain:
          drain(next.wave, *worker);
          break;
        default:
          break;
      }
      if (!report_->show_progress(setup_.chunks)) notifier_.notify();
    }
  } catch (const std::bad_alloc&) {
    report_->stop(Status::out_of_memory());
    notifier_.notify();
  }
  release_worker(worker);
  if (finished || done()) {
    notifier_.notify(1);  // the caller in run(), and a worker that makes the pool forget this read
    return Progress::kFinished;
  }
  return Progress::kIdle;
}

Scheduler::Claim Scheduler::claim_locked() {
  if (ending_) return {ClaimKind::kFinished};
  if (stopped_locked() && !std::exchange(cancel_claimed_, true)) return {ClaimKind::kGiveUp};
  if (trace::recording()) {
    for (std::uint32_t wave = 0; wave < waves_.size(); ++wave) {
      if (waves_[wave].state == WaveState::kDraining && !waves_[wave].being_drained) work_->notice(wave);
    }
  }
  if (work_->any_completed()) return {ClaimKind::kResume};
  if (!starved_.load() && !left_.empty()) {
    const Left left = left_.back();
    left_.pop_back();
    return {ClaimKind::kGroups, left.wave, left.begin, left.end};
  }
  if (const Claim claim = claim_fill_locked(); claim.kind != ClaimKind::kNone) return claim;
  if (const Claim claim = claim_drain_locked(true); claim.kind != ClaimKind::kNone) return claim;
  if (const Claim claim = claim_groups_locked(); claim.kind != ClaimKind::kNone) return claim;
  if (const Claim claim = claim_drain_locked(false); claim.kind != ClaimKind::kNone) return claim;
  return {ClaimKind::kNone, 0, 0, 0, waits_for_locked()};
}

// Keeps one wave filled ahead, so that no worker waits for the plan.
Scheduler::Claim Scheduler::claim_fill_locked() {
  if (waiting_fill_ && work_->lookups_done()) {
    const Claim claim{ClaimKind::kFill, *waiting_fill_};
    waiting_fill_.reset();
    return claim;
  }
  if (starved_.load() || exhausted_ || filling_ || filled_.size() >= 2) return {};
  for (std::uint32_t wave = 0; wave < waves_.size(); ++wave) {
    if (waves_[wave].state != WaveState::kFree || !work_->ready(wave)) continue;
    filling_ = true;
    waves_[wave].state = WaveState::kFilled;
    return {ClaimKind::kFill, wave};
  }
  return {};
}

Scheduler::Claim Scheduler::claim_groups_locked() {
  if (filled_.empty()) return {};
  const std::uint32_t index = filled_.front();
  WaveSlot& wave = waves_[index];
  // Groups of open shards need no descriptor, but others may be waiting for theirs.
  if (starved_.load() && wave.opens) return {};
  const std::uint32_t left = wave.groups - wave.next_group;
  const auto workers = static_cast<std::uint32_t>(setup_.workers.size());
  // Guided scheduling: large runs first, single groups at the end.
  const std::uint32_t share = std::max(left / (2 * workers), wave.sends_requests ? kRequestsPerClaim : 1);
  const std::uint32_t take = std::clamp<std::uint32_t>(share, 1, std::min(left, kMaxGroupsPerClaim));
  const Claim claim{ClaimKind::kGroups, index, wave.next_group, wave.next_group + take};
  wave.next_group += take;
  if (wave.next_group == wave.groups) filled_.erase(filled_.begin());
  return claim;
}

// A wave that the device has finished is drained before other work, because the next wave needs its memory. Waiting for
// an unfinished wave is the last resort.
Scheduler::Claim Scheduler::claim_drain_locked(bool passed_only) {
  constexpr std::uint64_t kAskEveryNs = 50'000;  // a query takes a microsecond, and the lock is held
  if (draining_ || !work_->launches()) return {};
  std::uint64_t now = 0;
  if (passed_only) {
    now = base::now_ns();
    if (now - queried_ns_ < kAskEveryNs) return {};
  }
  std::optional<std::uint32_t> first;  // the first launched, which ends soonest
  for (std::uint32_t wave = 0; wave < waves_.size(); ++wave) {
    if (waves_[wave].state != WaveState::kDraining || waves_[wave].being_drained) continue;
    if (passed_only) {
      queried_ns_ = now;
      if (!work_->passed(wave)) continue;
    }
    if (!first || waves_[wave].launched < waves_[*first].launched) first = wave;
    if (passed_only) break;
  }
  if (!first) return {};
  draining_ = true;
  waves_[*first].being_drained = true;
  return {ClaimKind::kDrain, *first};
}

// For the trace: a worker without work waits for whatever most waves wait for.
trace::Stage Scheduler::waits_for_locked() const {
  std::size_t in_copy = 0;
  for (const WaveSlot& wave : waves_) in_copy += wave.state == WaveState::kDraining ? 1 : 0;
  if (in_copy > 0 && 2 * in_copy >= waves_.size()) return trace::Stage::kCopy;
  if (work_->in_flight() > 0) return trace::Stage::kRead;
  if (filling_) return trace::Stage::kPlan;
  return in_copy > 0 ? trace::Stage::kCopy : trace::Stage::kWait;  // kWait: other workers have the last groups
}

void Scheduler::fill(std::uint32_t index, Worker& worker) {
  const std::uint64_t begun = base::now_ns();
  const WaveWork::Filled filled = work_->fill(index, worker);
  const std::uint32_t helpers = helpers_for(filled.groups, filled.sends_requests);
  {
    std::lock_guard lock(mutex_);
    WaveSlot& wave = waves_[index];
    if (filled.waits && !stopped_locked()) {
      waiting_fill_ = index;
      return;
    }
    filling_ = false;
    exhausted_ = exhausted_ || filled.last;
    wave.opens = filled.opens;
    wave.sends_requests = filled.sends_requests;
    wave.few_helpers = helpers < tasks_in(filled.groups, filled.sends_requests);
    wave.next_group = 0;
    wave.groups = wave.groups_left = filled.groups;
    if (stopped_locked() || wave.groups_left == 0) {
      release_locked(index);
    } else {
      ++worker.stats.waves;
      filled_.push_back(index);
    }
  }
  if (filled.starved) return wait_for_descriptor();
  // This thread may fill the next wave first.
  const bool takes_long = base::now_ns() - begun > GroupCost::kWakeNs;
  notifier_.notify(helpers > 0 || takes_long ? helpers + 1 : 0);
}

void Scheduler::run_groups(const Claim& claim, Worker& worker) {
  const std::uint64_t begun = base::now_ns();
  const WaveWork::RunResult ran = work_->run(claim.wave, claim.begin, claim.end, worker);
  const std::uint64_t took = base::now_ns() - begun;
  if (ran.next > claim.begin) cost_->note(ran.next - claim.begin, took);
  if (took > GroupCost::kWakeNs) wake_helpers(claim.wave);
  if (ran.finished > 0) finish_groups(claim.wave, ran.finished, worker);
  if (ran.next == claim.end) return;
  // The objects that this claim has open are being read by others, or are closed at the end of the wave, so others may
  // wait for them.
  put_back(claim.wave, ran.next, claim.end);
  wait_for_descriptor();
}

void Scheduler::resume(Worker& worker) {
  for (const std::uint32_t wave : work_->resume(worker, setup_.workers.size())) finish_groups(wave, 1, worker);
}

void Scheduler::drain(std::uint32_t index, Worker& worker) {
  const bool takes_long = work_->drain(index, worker);
  if (takes_long) {
    {
      std::lock_guard lock(mutex_);
      draining_ = false;
    }
    notifier_.notify(1);  // another wave may be drained
  }
  work_->settle(index, worker);
  {
    std::lock_guard lock(mutex_);
    if (!takes_long) draining_ = false;
    waves_[index].being_drained = false;
    release_locked(index);
  }
  wake_if_groups_are_long(2);  // another wave may be drained, and this one filled
}

void Scheduler::finish_groups(std::uint32_t index, std::uint32_t count, Worker& worker) {
  WaveSlot& wave = waves_[index];
  bool launch = false;
  {
    std::lock_guard lock(mutex_);
    wave.groups_left -= count;
    if (wave.groups_left > 0) return;
    launch = !report_->stopped();
    if (launch) {
      wave.state = WaveState::kLaunching;
    } else {
      release_locked(index);
    }
  }
  if (launch) {
    if (work_->launches()) hand_over();
    const bool queued = work_->launch(index, worker);
    std::lock_guard lock(mutex_);
    if (queued) {
      wave.state = WaveState::kDraining;
      wave.launched = ++launches_;
    } else {
      release_locked(index);
    }
  }
  wake_if_groups_are_long(1);  // it may be drained, or filled again
}

void Scheduler::hand_over() {
  {
    std::lock_guard lock(mutex_);
    const bool fills = !exhausted_ && !filling_ &&
                       std::ranges::any_of(waves_, [](const WaveSlot& wave) { return wave.state == WaveState::kFree; });
    if (!fills && filled_.empty()) return;
  }
  notifier_.notify(1);
}

std::uint32_t Scheduler::helpers_for(std::uint32_t groups, bool sends_requests) const noexcept {
  return std::min(tasks_in(groups, sends_requests), cost_->helpers(groups));
}

void Scheduler::wake_helpers(std::uint32_t index) {
  std::uint32_t helpers = 0;
  {
    std::lock_guard lock(mutex_);
    WaveSlot& wave = waves_[index];
    if (!wave.few_helpers) return;
    helpers = helpers_for(wave.groups - wave.next_group, wave.sends_requests);
    wave.few_helpers = helpers == 0;
  }
  notifier_.notify(helpers);
}

void Scheduler::wake_if_groups_are_long(std::size_t tasks) const noexcept {
  if (cost_->helpers(1) > 0) notifier_.notify(tasks);
}

// Returns groups of a claim, to be claimed again.
void Scheduler::put_back(std::uint32_t wave, std::uint32_t begin, std::uint32_t end) {
  std::lock_guard lock(mutex_);
  if (stopped_locked()) {
    drop_groups_locked(wave, end - begin);  // stopped_locked() could not drop them
  } else {
    left_.push_back({wave, begin, end});
  }
}

// Groups that need a descriptor are not claimed until one is closed.
void Scheduler::wait_for_descriptor() {
  starved_ = true;
  os::Descriptors::of_process().call_when_closed(weak_from_this());
}

void Scheduler::descriptor_closed() noexcept {
  starved_ = false;
  notifier_.notify();
}

void Scheduler::drop_groups_locked(std::uint32_t wave, std::uint32_t count) {
  waves_[wave].groups_left -= count;
  if (waves_[wave].groups_left == 0) release_locked(wave);
}

void Scheduler::release_locked(std::uint32_t wave) {
  work_->release(wave);
  waves_[wave].state = WaveState::kFree;
}

// Whether the read has been stopped. The first caller to notice drops all unclaimed work.
bool Scheduler::stopped_locked() {
  if (!report_->stopped()) return false;
  if (std::exchange(dropped_, true)) return true;
  exhausted_ = true;
  if (waiting_fill_) {
    filling_ = false;
    release_locked(*waiting_fill_);
    waiting_fill_.reset();
  }
  for (const std::uint32_t index : filled_) {
    WaveSlot& wave = waves_[index];
    const std::uint32_t unclaimed = wave.groups - wave.next_group;
    wave.next_group = wave.groups;
    drop_groups_locked(index, unclaimed);
  }
  filled_.clear();
  for (const Left& left : left_) drop_groups_locked(left.wave, left.end - left.begin);
  left_.clear();
  return true;
}

// Returns true in the one call that finds everything finished.
bool Scheduler::complete_locked() const {
  if (!exhausted_ || free_lanes_.size() != setup_.workers.size()) return false;
  if (ending_ || filling_ || !work_->idle()) return false;
  return std::all_of(waves_.begin(), waves_.end(), [](const WaveSlot& wave) { return wave.state == WaveState::kFree; });
}

}  // namespace headrace::transfer
