#include "transfer/context/resources.h"

#include <algorithm>

#include "base/fork.h"
#include "os/cgroup.h"
#include "os/host_limits.h"
#include "os/page_buffer.h"
#include "transfer/threads/task_list.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kSmallestSlab = std::size_t{256} << 10;
// Enough for the engine's whole depth in megabyte pieces; touching and pinning more would only delay the first read.
constexpr std::size_t kLargestSlab = std::size_t{64} << 20;
// A network needs its bandwidth-delay product in flight, 12 GB/s times 150 ms at most.
constexpr std::size_t kLargestStoreSlab = std::size_t{2} << 30;
// Left over from half of the budget: the other half alone may be too little for the buffers of a few large chunks.
constexpr std::size_t kKeptFromStores = std::size_t{64} << 20;
// For waves of many small chunks, each in a file of its own, which stay open until they have been copied.
constexpr std::uint64_t kOpenFiles = 8192;

Status bad_option(std::string message) { return Status(Code::kInvalidArgument, Layer::kTransfer, std::move(message)); }

}  // namespace

Resources::Resources(const ContextOptions& options)
    : options_(options),
      stored_memory_(std::make_shared<base::MemoryBudget>(options.stored_budget_bytes,
                                                          "ContextOptions::stored_budget_bytes (--stored-budget)")),
      near_(NearThreads::create(options.bind_threads)),
      threads_(options.threads != 0 ? options.threads : os::usable_cpus()),
      indices_(options.index_budget_bytes),
      placement_(options.placement_file, threads_) {}

Result<std::shared_ptr<Resources>> Resources::create(const ContextOptions& options) {
  if (options.waves > 64) return bad_option("waves must be at most 64 (0: chosen per read)");
  if (options.threads > 1024) return bad_option("threads must be at most 1024 (0: one per CPU)");
  if (options.host_budget_bytes < (std::size_t{1} << 20)) return bad_option("host_budget_bytes must be at least 1 MiB");
  if (options.stored_budget_bytes < (std::size_t{1} << 20)) {
    return bad_option("stored_budget_bytes must be at least 1 MiB");
  }
  if (options.wave_bytes < 4096) return bad_option("wave_bytes must be at least 4096");
  if (const std::string& file = options.placement_file; file != "auto" && !file.empty() && file[0] != '/') {
    return bad_option("placement_file must be \"auto\", an absolute path or empty, not '" + file + "'");
  }
  bool known = options.engine == "auto";
  std::string names = "auto";
  for (const io::EngineRow& row : io::engines()) {
    known = known || options.engine == row.name;
    names += std::string(", ") + row.name;
  }
  if (!known) return bad_option("no I/O engine named '" + options.engine + "'; choose " + names);

  std::shared_ptr<Resources> resources(new Resources(options));
  resources->fork_generation_ = base::fork_generation();
  // Registered pages cannot be reclaimed. So a process registers up to a quarter of the memory, as long as less than
  // half of the machine's memory is pinned and less than half of the control group's page cache is mapped.
  MappedBudget mapped{.bytes = options.mapped_budget_bytes};
  if (mapped.bytes == 0) {
    os::MemoryGroups groups;
    mapped.bytes = mapped.process_bytes = groups.memory_limit_bytes() / 4;
    mapped.machine_bytes = std::max(os::machine_memory_bytes() / 2, mapped.bytes);
    if (groups.any()) mapped.groups = [groups = std::move(groups)] { return groups.page_cache(); };
  }
  resources->mapped_ = std::make_unique<MappedCache>(mapped, resources->near_);
  const bool alone = os::has_one_thread();
  if (alone) os::reserve_open_files(kOpenFiles);
  // A named engine must work; "auto" is resolved by the first read that needs an engine.
  if (options.engine != "auto") {
    HEADRACE_TRY_ASSIGN(auto* service, resources->io());
    (void)service;
  }
  HEADRACE_TRY_ASSIGN(resources->pool_,
                      WorkerPool::create(resources->threads_, resources->near_, options.threads == 0));
  if (!alone) {
    const auto reserve = [] { os::reserve_open_files(kOpenFiles); };
    resources->pool_->add(std::make_shared<TaskList>(std::vector<std::function<void()>>{reserve}, 1), 1);
  }
  return resources;
}

Resources::~Resources() {
  if (base::fork_generation() == fork_generation_) {
    placement_.keep();
    return;
  }
  // In a forked child the threads do not exist: joining them would hang, and their locks may be held for ever.
  (void)pool_.release();
  (void)io_.release();
  for (const auto& service : straight_) service->abandon();
  MappedCache::abandon(std::move(mapped_));
}

Status Resources::check_usable() const {
  if (base::fork_generation() == fork_generation_) return {};
  return Status(Code::kForked, Layer::kTransfer,
                "this Context was made before fork(); make a new Context in the child process");
}

std::size_t Resources::slab_bytes() const noexcept {
  return std::clamp<std::size_t>(options_.host_budget_bytes / 8, kSmallestSlab, kLargestSlab);
}

std::size_t Resources::store_slab_bytes() const noexcept {
  const std::size_t budget = options_.host_budget_bytes;
  const std::size_t most = std::max(budget / 4, budget / 2 - std::min(budget / 2, kKeptFromStores));
  return std::clamp(most, kSmallestSlab, kLargestStoreSlab);
}

Result<IoService*> Resources::io() {
  std::lock_guard lock(mutex_);
  if (io_ == nullptr) {
    HEADRACE_TRY_ASSIGN(io_, IoService::create(io_options()));
  }
  return io_.get();
}

IoServiceOptions Resources::io_options() const {
  IoServiceOptions options;
  options.engine = options_.engine;
  options.near = near_;
  options.slab_bytes = slab_bytes();
  options.store_slab_bytes = store_slab_bytes();
  return options;
}

StraightService& Resources::straight(const std::shared_ptr<device::Device>& device) {
  std::lock_guard lock(mutex_);
  for (const auto& service : straight_) {
    if (service->device() == device) return *service;
  }
  straight_.reserve(straight_.size() + 1);
  straight_.push_back(std::make_unique<StraightService>(device, io_options()));
  return *straight_.back();
}

std::string Resources::straight_report() const {
  std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& service : straight_) out += service->report();
  return out;
}

std::unique_ptr<WorkerMemory> Resources::take_worker_memory() {
  std::lock_guard lock(mutex_);
  if (worker_memory_.empty()) {
    auto made = std::make_unique<WorkerMemory>();
    made->beyond = base::Charge(stored_memory_);
    return made;
  }
  auto memory = std::move(worker_memory_.back());
  worker_memory_.pop_back();
  kept_worker_bytes_ -= memory->capacity();
  return memory;
}

void Resources::give_worker_memory(std::unique_ptr<WorkerMemory> memory) noexcept {
  // Reads of different arrays grow different buffers; all kept memory together stays within the budget of one read.
  const std::uint64_t bytes = memory->capacity();
  if (memory->beyond.bytes() != 0) return;
  std::lock_guard lock(mutex_);
  if (bytes > options_.host_budget_bytes - std::min<std::uint64_t>(options_.host_budget_bytes, kept_worker_bytes_))
    return;
  try {
    worker_memory_.push_back(std::move(memory));
    kept_worker_bytes_ += bytes;
  } catch (const std::bad_alloc&) {  // freed instead
  }
}

}  // namespace headrace::transfer
