#include "transfer/read/variable_read.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "base/checked.h"
#include "base/clock.h"
#include "base/trace.h"
#include "transfer/read/variable_worker.h"

namespace headrace::transfer {
namespace {

using codec::VariableSlot;

constexpr std::size_t kTasksPerBatch = 1024, kMaxGroupsPerClaim = 32;
constexpr std::uint64_t kElementsPerCopy = std::uint64_t{1} << 16;
constexpr std::uint64_t kBytesPerElement = sizeof(std::int64_t) + sizeof(VariableSlot);
std::byte* const kNowhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);

}  // namespace

void VariableRead::Free::operator()(void* memory) const noexcept { std::free(memory); }

VariableRead::VariableRead(Resources& resources, std::uint64_t elements, const VariableReadOptions& options)
    : resources_(resources),
      options_(options),
      report_(options_.progress, options_.collect_errors, base::now_ns()),
      elements_(elements),
      shared_(resources.options().host_budget_bytes / 2),
      alone_(resources.options().host_budget_bytes / 2) {}

VariableRead::~VariableRead() = default;

Result<std::shared_ptr<VariableRead>> VariableRead::create(Resources& resources, std::uint64_t elements,
                                                           const VariableReadOptions& options) {
  std::shared_ptr<VariableRead> read(new VariableRead(resources, elements, options));
  if (options.check_only) return read;
  const auto bytes = base::checked_mul(elements, kBytesPerElement);
  if (!bytes || *bytes > options.max_bytes || *bytes > std::uint64_t{1} << 62) {
    return Status(Code::kResourceExhausted, Layer::kTransfer,
                  "the selection has " + std::to_string(elements) + " elements, which take " +
                      std::to_string(kBytesPerElement) + " bytes each to read, and max_bytes allows " +
                      std::to_string(options.max_bytes) + ": select fewer, or allow more");
  }
  read->kept_bytes_ = *bytes;
  // Zeroed by the kernel: the elements of a chunk that fails are empty ones.
  read->slots_.reset(
      static_cast<VariableSlot*>(std::calloc(static_cast<std::size_t>(elements) + 1, sizeof(VariableSlot))));
  if (read->slots_ == nullptr) return Status::out_of_memory();
  return read;
}

std::span<std::byte> VariableRead::slots() const noexcept {
  const auto bytes = static_cast<std::size_t>(elements_) * sizeof(VariableSlot);
  // With check_only the plan's destinations are computed and never used.
  if (slots_ == nullptr) return {kNowhere, bytes};
  return {reinterpret_cast<std::byte*>(slots_.get()), bytes};
}

Status VariableRead::run(std::unique_ptr<Plan> plan, double plan_seconds) {
  together_.plan_seconds = plan_seconds;
  plan_ = std::move(plan);
  WorkerPool& pool = resources_.pool();
  try {
    pool.add(shared_from_this());
  } catch (const std::bad_alloc&) {  // this thread does it alone
  }
  for (;;) {
    const std::uint64_t seen = pool.generation();
    if (work() == Progress::kFinished) break;
    pool.wait(seen);
  }
  // Workers are through with their claims, and may still be on their way out of work().
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return step_ == Phase::kEnded && outstanding_ == 0; });
  report_.add(together_);
  for (const auto& worker : workers_) report_.add(worker->stats);
  workers_.clear();
  slots_.reset();
  plan_.reset();
  report_.end("none", "", "");
  return report_.status();
}

Workload::Progress VariableRead::work() {
  Worker* worker = nullptr;
  for (;;) {
    const Claim next = claim();
    if (next.idle || next.step == Phase::kEnded) {
      if (worker != nullptr) give_worker(worker);
      return next.idle ? Progress::kIdle : Progress::kFinished;
    }
    try {
      if (next.step == Phase::kDecode) {
        if (worker == nullptr) worker = take_worker();
        worker->use(next.batch->tasks.form, shared_);
        for (std::uint64_t i = next.begin; i < next.end && !report_.stopped() && !cancelled(); ++i) {
          run_group(*next.batch, next.batch->tasks.groups[static_cast<std::size_t>(i)], *worker);
          worker->end_group(shared_);
        }
        const std::uint64_t count = next.end - next.begin;
        if (next.batch->groups_left.fetch_sub(count, std::memory_order_acq_rel) == count) check_sources(*next.batch);
        (void)report_.show_progress(plan_->chunk_count());
      } else if (next.step == Phase::kSum) {
        if (Status status = sum_up(); !status.ok()) report_.stop(std::move(status));
      } else {
        const double seconds = copy_elements(next.begin, next.end);
        std::lock_guard lock(mutex_);
        together_.assemble_seconds += seconds;
      }
    } catch (const std::bad_alloc&) {
      if (worker != nullptr) worker->end_group(shared_);
      report_.stop(Status::out_of_memory());
    }
    finish(next);
  }
}

VariableRead::Claim VariableRead::claim() {
  std::lock_guard lock(mutex_);
  Claim out;
  if (cancelled() && step_ != Phase::kEnded) {
    report_.stop(Status(Code::kCancelled, Layer::kTransfer, "the read was cancelled"));
  }
  if (report_.stopped() && outstanding_ == 0) step_ = Phase::kEnded;
  out.step = step_;
  out.idle = true;
  if (step_ == Phase::kEnded) {
    out.idle = false;
    ended_.notify_all();
    return out;
  }
  if (report_.stopped()) return out;
  if (step_ == Phase::kDecode) {
    while (batch_ == nullptr || batch_->next_group == batch_->tasks.groups.size()) {
      if (exhausted_) break;
      if (!fill_batch_locked()) return out;
    }
    if (batch_ != nullptr && batch_->next_group < batch_->tasks.groups.size()) {
      const std::size_t left = batch_->tasks.groups.size() - batch_->next_group;
      const std::size_t take = std::clamp<std::size_t>(left / (2 * resources_.threads()), 1, kMaxGroupsPerClaim);
      out.batch = batch_;
      out.begin = batch_->next_group;
      out.end = batch_->next_group += static_cast<std::uint32_t>(take);
      out.idle = false;
      ++outstanding_;
      return out;
    }
    if (outstanding_ > 0) return out;
    step_ = Phase::kSum;
    out.step = Phase::kSum;
    out.idle = false;
    ++outstanding_;
    return out;
  }
  if (step_ == Phase::kCopy && next_element_ < elements_) {
    out.begin = next_element_;
    out.end = next_element_ = std::min(elements_, next_element_ + kElementsPerCopy);
    out.idle = false;
    ++outstanding_;
  }
  return out;
}

// The plan reads the index of a shard now and then; the others wait for it.
bool VariableRead::fill_batch_locked() {
  trace::Timer timer(trace::Stage::kPlan);
  Result<bool> more(Status::out_of_memory());
  try {
    auto batch = std::make_shared<TaskBatch>();
    batch->tasks.max_tasks = kTasksPerBatch;
    const auto form = plan_->next_form();
    more = form.ok() ? plan_->fill(batch->tasks) : Result<bool>(form.status());
    report_.add_lookups(batch->tasks.lookups);
    batch->groups_left = batch->tasks.groups.size();
    if (more.ok()) {
      exhausted_ = !*more;
      batch_ = std::move(batch);
      ++together_.waves;
    }
  } catch (const std::bad_alloc&) {
  }
  together_.plan_seconds += timer.stop();
  return more.ok() || give_up_locked(std::move(more).status());
}

// False.
bool VariableRead::give_up_locked(Status status) {
  report_.stop(std::move(status));
  if (outstanding_ == 0) {
    step_ = Phase::kEnded;
    ended_.notify_all();
  }
  resources_.pool().notify();
  return false;
}

void VariableRead::finish(const Claim& claim) {
  bool notify = false;
  {
    std::lock_guard lock(mutex_);
    --outstanding_;
    const Phase before = step_;
    if (claim.step == Phase::kSum) step_ = options_.check_only || elements_ == 0 ? Phase::kEnded : Phase::kCopy;
    if (claim.step == Phase::kCopy && outstanding_ == 0 && next_element_ == elements_) step_ = Phase::kEnded;
    if (report_.stopped() && outstanding_ == 0) step_ = Phase::kEnded;
    const bool decoded = step_ == Phase::kDecode && outstanding_ == 0 && exhausted_;
    notify = step_ != before || decoded || step_ == Phase::kEnded;
    if (step_ == Phase::kEnded) ended_.notify_all();
  }
  if (notify) resources_.pool().notify();
}

VariableRead::Worker* VariableRead::take_worker() {
  {
    std::lock_guard lock(mutex_);
    if (!free_lanes_.empty()) {
      Worker* const worker = free_lanes_.back();
      free_lanes_.pop_back();
      return worker;
    }
  }
  auto made = std::make_unique<Worker>();
  made->encoded.set_budget(&shared_);
  made->unpacking_memory = base::Charge(resources_.stored_memory());
  std::lock_guard lock(mutex_);
  free_lanes_.reserve(workers_.size() + 1);  // room for all of them to come back
  workers_.push_back(std::move(made));
  return workers_.back().get();
}

// After the end worker may be gone; nobody takes one then.
void VariableRead::give_worker(Worker* worker) noexcept {
  std::lock_guard lock(mutex_);
  free_lanes_.push_back(worker);
}

// Offsets from the lengths in the slots.
Status VariableRead::sum_up() {
  if (options_.check_only) return {};
  offsets_.resize(static_cast<std::size_t>(elements_) + 1);
  std::int64_t at = 0;  // below max_bytes + 24 an element, which is below 2^63
  for (std::size_t i = 0; i < elements_; ++i) {
    offsets_[i] = at;
    at += static_cast<std::int64_t>(slots_.get()[i].bytes);
  }
  offsets_.back() = at;
  data_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(std::max<std::int64_t>(at, 1))]);
  return data_ == nullptr ? Status::out_of_memory() : Status();
}

double VariableRead::copy_elements(std::uint64_t begin, std::uint64_t end) const {
  const auto at = [&](std::uint64_t i) { return static_cast<std::uint64_t>(offsets_[static_cast<std::size_t>(i)]); };
  trace::Timer timer(trace::Stage::kAssemble, at(end) - at(begin));
  const VariableSlot* const slots = slots_.get();
  for (std::uint64_t i = begin; i < end;) {
    // Neighbours mostly lie behind one another where they are kept, too.
    const std::byte* const src = slots[i].data;
    std::uint64_t bytes = slots[i].bytes;
    std::uint64_t next = i + 1;
    for (; next < end && slots[next].bytes != 0 && slots[next].data == src + bytes; ++next) bytes += slots[next].bytes;
    if (bytes != 0) std::memcpy(data_.get() + at(i), src, static_cast<std::size_t>(bytes));
    i = next;
  }
  return timer.stop();
}

}  // namespace headrace::transfer
