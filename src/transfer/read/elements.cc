#include "transfer/read/elements.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "base/checked.h"
#include "base/clock.h"
#include "base/trace.h"
#include "transfer/threads/worker_pool.h"

namespace headrace::transfer {

using codec::VariableSlot;

namespace {

constexpr std::uint64_t kElementsPerCopy = std::uint64_t{1} << 16;
constexpr std::uint64_t kBytesPerElement = sizeof(std::int64_t) + sizeof(VariableSlot);
std::byte g_nowhere{};  // stands for the first slot where slots are not kept

}  // namespace

void Elements::Free::operator()(void* memory) const noexcept { std::free(memory); }

void Elements::Portion::use(const std::shared_ptr<const ChunkForm>& of) {
  if (form == of) return;
  form.reset();
  workspace = of->chain->make_workspace();
  workspace.set_budget(budget);
  form = of;
}

void Elements::Portion::use(codec::GrowthBudget& of) noexcept {
  budget = &of;
  workspace.set_budget(&of);
  decoded.set_budget(&of);
}

void Elements::Portion::drop_unpacking() noexcept {
  unpacking.emplace();
  unpacking_memory.give_all();
}

Elements::Elements(Resources& resources, std::uint64_t count, const VariableReadOptions& options)
    : resources_(resources),
      options_(options),
      count_(count),
      shared_(resources.options().host_budget_bytes / 2),
      alone_(resources.options().host_budget_bytes / 2) {
  for (unsigned i = 0; i < resources.threads(); ++i) {
    portions_.push_back(std::make_unique<Portion>());
    portions_.back()->use(shared_);
    portions_.back()->encoded.set_budget(&shared_);
    portions_.back()->unpacking_memory = base::Charge(resources.stored_memory());
  }
}

Result<std::unique_ptr<Elements>> Elements::create(Resources& resources, std::uint64_t count,
                                                   const VariableReadOptions& options) {
  std::unique_ptr<Elements> out(new Elements(resources, count, options));
  if (options.check_only) return out;
  const auto bytes = base::checked_mul(count, kBytesPerElement);
  if (!bytes || *bytes > options.max_bytes || *bytes > std::uint64_t{1} << 62) {
    return Status(Code::kResourceExhausted, Layer::kTransfer,
                  "the selection has " + std::to_string(count) + " elements, which take " +
                      std::to_string(kBytesPerElement) + " bytes each to read, and max_bytes allows " +
                      std::to_string(options.max_bytes) + ": select fewer, or allow more");
  }
  out->kept_bytes_ = *bytes;
  // Zeroed by the kernel, so the elements of a chunk that fails are empty.
  out->slots_.reset(static_cast<VariableSlot*>(std::calloc(static_cast<std::size_t>(count) + 1, sizeof(VariableSlot))));
  if (out->slots_ == nullptr) return Status::out_of_memory();
  return out;
}

std::span<std::byte> Elements::slots() const noexcept {
  const auto bytes = static_cast<std::size_t>(count_) * sizeof(VariableSlot);
  // With check_only the plan's destinations are computed but never used.
  if (slots_ == nullptr) return {&g_nowhere, bytes};
  return {reinterpret_cast<std::byte*>(slots_.get()), bytes};
}

Status Elements::keep(std::uint64_t bytes) {
  const std::uint64_t before = kept_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (before <= options_.max_bytes && bytes <= options_.max_bytes - before) return {};
  kept_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return Status(Code::kResourceExhausted, Layer::kTransfer,
                "the selected elements take more than " + std::to_string(before) + " bytes, and max_bytes allows " +
                    std::to_string(options_.max_bytes) + ": select fewer, or allow more");
}

void Elements::acquire_second_half(Portion& portion) {
  portion.use(shared_);
  portion.alone = std::unique_lock(alone_mutex_);
  portion.use(alone_);
}

void Elements::release_second_half(Portion& portion) noexcept {
  if (!portion.alone.owns_lock()) return;
  portion.use(shared_);
  portion.encoded.set_budget(&shared_);
  portion.alone.unlock();
}

// Copies elements to their places, a block at a time. The thread in run() helps; the Elements is not used after run()
// has returned.
class Elements::Copying final : public Workload, public std::enable_shared_from_this<Copying> {
 public:
  explicit Copying(const Elements& of) : of_(of), count_(of.count_) {}

  Status run(WorkerPool& pool, double& seconds) {
    if (count_ > kElementsPerCopy) {
      try {
        pool.add(shared_from_this());
      } catch (const std::bad_alloc&) {  // this thread does it alone
      }
    }
    (void)work();
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return under_way_ == 0; });
    seconds += seconds_;
    return cancelled_ ? Status(Code::kCancelled, Layer::kTransfer, "the read was cancelled") : Status();
  }

  Progress work() override {
    for (std::unique_lock lock(mutex_); next_ < count_;) {
      if (of_.options_.cancel && of_.options_.cancel->asked()) {
        cancelled_ = true;
        next_ = count_;
        break;
      }
      const std::uint64_t begin = next_, end = next_ = std::min(count_, begin + kElementsPerCopy);
      ++under_way_;
      lock.unlock();
      const double seconds = copy(begin, end);
      lock.lock();
      seconds_ += seconds;
      if (--under_way_ == 0) ended_.notify_all();
    }
    return Progress::kFinished;
  }

 private:
  double copy(std::uint64_t begin, std::uint64_t end) const {
    const std::int64_t* const offsets = of_.offsets_.data();
    trace::Timer timer(trace::Stage::kAssemble, static_cast<std::uint64_t>(offsets[end] - offsets[begin]));
    const VariableSlot* const slots = of_.slots_.get();
    for (std::uint64_t i = begin; i < end;) {
      // Neighbours are mostly adjacent in the memory that keeps them, too.
      const std::byte* const src = slots[i].data;
      std::uint64_t bytes = slots[i].bytes;
      std::uint64_t next = i + 1;
      for (; next < end && slots[next].bytes != 0 && slots[next].data == src + bytes; ++next)
        bytes += slots[next].bytes;
      if (bytes != 0) std::memcpy(of_.data_.get() + offsets[i], src, static_cast<std::size_t>(bytes));
      i = next;
    }
    return timer.stop();
  }

  const Elements& of_;
  const std::uint64_t count_;
  std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_:
  std::uint64_t next_ = 0, under_way_ = 0;
  double seconds_ = 0;
  bool cancelled_ = false;
};

// Computes offsets from the lengths in the slots.
Status Elements::sum_up() {
  offsets_.resize(static_cast<std::size_t>(count_) + 1);
  std::int64_t at = 0;  // below max_bytes + 24 bytes per element, which is below 2^63
  for (std::size_t i = 0; i < count_; ++i) {
    offsets_[i] = at;
    at += static_cast<std::int64_t>(slots_.get()[i].bytes);
  }
  offsets_.back() = at;
  data_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(std::max<std::int64_t>(at, 1))]);
  return data_ == nullptr ? Status::out_of_memory() : Status();
}

Status Elements::gather(Stats& stats) {
  if (!keeps()) return {};
  const std::uint64_t start = base::now_ns();
  HEADRACE_TRY(sum_up());
  HEADRACE_TRY(std::make_shared<Copying>(*this)->run(resources_.pool(), stats.assemble_seconds));
  stats.wall_seconds += static_cast<double>(base::now_ns() - start) * 1e-9;
  return {};
}

}  // namespace headrace::transfer
