#include "transfer/read/read.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fault.h"
#include "os/descriptors.h"
#include "transfer/read/cold_part.h"
#include "transfer/read/host_sink.h"
#include "transfer/read/placing.h"
#include "transfer/read/staged_sink.h"
#include "transfer/threads/task_list.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kManyReads = 16;  // reads of files, which take longer than waking a thread

// The engine makes every read that workers do not make themselves.
RoutePolicy policy(const ContextOptions& context, bool cache_reads) {
  return {.path = cache_reads ? Path::kAuto : Path::kDirect,
          .allow_direct = context.allow_direct,
          .cache_reread = context.cache_reread,
          .when_missing = Way::kPageCache};
}

}  // namespace

Read::Read(Resources& resources, std::unique_ptr<Plan> plan, std::shared_ptr<device::Device> device,
           ReadOptions options, const ReadStart& start, ReadExtras extras)
    : resources_(resources),
      notifier_(resources.pool().notifier()),
      plan_(std::move(plan)),
      device_(std::move(device)),
      options_(std::move(options)),
      cache_reads_(resources.options().engine == "auto"),
      owned_report_(std::make_unique<ReadReport>(options_.progress, options_.collect_errors, start.start_ns)),
      report_(*owned_report_),
      tasks_(*plan_, report_, options_.verify != Verify::kWhole),
      router_(policy(resources.options(), cache_reads_), device_, resources.mapped(), resources.reuse()),
      mapped_(tasks_, router_),
      kept_(std::move(extras.kept)),
      end_(std::move(extras.end)),
      forms_(resources, *plan_, *device_, options_.placement),
      groups_(resources, *plan_, tasks_, router_, mapped_, forms_, waves_, kept_.in_memory.get(),
              device_->info().host_addressable ? nullptr : device_) {
  Stats planned;
  planned.plan_seconds = start.plan_seconds;
  report_.add(planned);
}

Result<std::shared_ptr<Scheduler>> Read::create(Resources& resources, std::unique_ptr<Plan> plan,
                                                std::shared_ptr<device::Device> device, ReadOptions options,
                                                const ReadStart& start, const HostTarget& target, ReadExtras extras) {
  const std::optional<Cancel> cancel = options.cancel;
  if (cancel && cancel->asked()) return Status(Code::kCancelled, Layer::kTransfer, "the read was cancelled");
  std::unique_ptr<Read> read(
      new Read(resources, std::move(plan), std::move(device), std::move(options), start, std::move(extras)));
  Scheduler::Setup setup;
  setup.start_ns = start.start_ns;
  if (Status status = read->prepare(setup, target); !status.ok()) {
    read->give_back_slabs();
    return status;
  }
  std::unique_ptr<ReadReport> report = std::move(read->owned_report_);
  auto scheduler = std::make_shared<Scheduler>(resources.pool(), std::move(report), std::move(read), std::move(setup));
  if (cancel) scheduler->cancel_by(*cancel);
  return scheduler;
}

Status Read::prepare(Scheduler::Setup& setup, const HostTarget& target) {
  if (target.make_sink) cpu_sink_ = target.make_sink(tasks_);
  const bool plans_rooms = cpu_sink_ == nullptr || !cpu_sink_->has_own_buffers();
  HEADRACE_TRY_ASSIGN(const ReadSizes sizes, forms_.begin(target.lane_bytes, plans_rooms));
  decode_note_ = forms_.current()->decoding.note;
  HEADRACE_TRY(make_waves(sizes));
  setup.chunks = plan_->chunk_count();
  setup.waves = static_cast<std::uint32_t>(sizes.waves);
  setup.workers = make_workers(sizes.workers);
  setup.cost = plan_->group_cost(!device_->info().host_addressable);
  return {};
}

// The policy that chooses between CPU and device; null: the device always decodes.
std::shared_ptr<PlacementPolicy> Read::placement_policy(const ReadSizes& sizes) {
  if (options_.placement != Placement::kAuto) return nullptr;
  const WaveForm& largest = *forms_.current();
  const device::DeviceInfo& info = device_->info();
  const std::string kind =
      placement_kind(info.name + ' ' + info.description, *largest.chunks->chain, largest.decoding.first_stage,
                     std::min(plan_->chunk_count(), sizes.waves * sizes.tasks));
  const std::shared_ptr<PlacementPrior> prior = resources_.placement().of(kind);
  std::shared_ptr<PlacementPolicy> policy = plan_->placement(kind, prior);
  return policy != nullptr ? policy : std::make_shared<PlacementPolicy>(prior);
}

Status Read::make_waves(const ReadSizes& sizes) {
  const ContextOptions& options = resources_.options();
  const auto wave_count = static_cast<std::size_t>(sizes.waves);
  const bool decodes = forms_.current()->decoding.decoder != nullptr, staged = !device_->info().host_addressable;
  const Turns::Sizes turns{static_cast<std::size_t>(sizes.workers), plan_->chunk_count()};
  std::shared_ptr<PlacementPolicy> policy;
  if (decodes && kept_.on_device == nullptr) policy = placement_policy(sizes);  // the device has decoded what is kept
  if (policy != nullptr) {
    turns_.emplace(std::move(policy), turns);
  } else {
    turns_.emplace(decodes ? WaveKind::kGpu : WaveKind::kCpu, turns);
  }
  for (std::size_t i = 0; i < wave_count; ++i) waves_.push_back(std::make_unique<Wave>());
  if (staged) {
    // A named engine makes every read.
    const bool maps = cache_reads_ && options.allow_mapped;
    cpu_sink_ = std::make_unique<StagedSink>(tasks_, device_, kept_.on_device, maps);
    if (decodes)
      device_sink_ = std::make_unique<DeviceSink>(tasks_, device_, resources_.indices(), kept_.on_device, maps);
    HEADRACE_TRY(borrow_slots(sizes));
  } else if (cpu_sink_ == nullptr) {
    cpu_sink_ = std::make_unique<HostSink>(tasks_);
  }
  return {};
}

// The first slot is made here if there is none, the others by workers. More of them at a time would not be faster: the
// driver pins memory for one thread at a time, and meanwhile launches nothing.
Status Read::borrow_slots(const ReadSizes& sizes) {
  constexpr std::size_t kAtOnce = 3;
  const ContextOptions& options = resources_.options();
  const StagingPool::Bytes slabs{static_cast<std::size_t>(sizes.areas.pinned_bytes),
                                 static_cast<std::size_t>(sizes.areas.device_bytes)};
  // Slots of other sizes take milliseconds to free, so keep those that fit the budgets next to these.
  const auto beside = [&](std::size_t budget, std::size_t slab) {
    return budget - std::min(budget, slab * waves_.size());
  };
  const StagingPool::Bytes keep{beside(options.host_budget_bytes, slabs.pinned),
                                beside(options.device_budget_bytes, slabs.device)};
  loan_.emplace(resources_.staging(), device_, slabs, waves_.size(), keep, notifier_);
  if (loan_->making() != nullptr) {
    std::vector<std::function<void()>> tasks;
    loading_ = std::make_shared<Loading>();
    loading_->form = forms_.current();
    loading_->chunks = std::min(sizes.tasks, plan_->chunk_count());
    tasks.emplace_back([loading = loading_] { loading->load(); });
    for (std::size_t i = 0; i < loan_->missing(); ++i) {
      tasks.emplace_back([making = loan_->making()] { making->make_one(); });
    }
    resources_.pool().add(std::make_shared<TaskList>(std::move(tasks), kAtOnce), kAtOnce);
  }
  Wave& first = *waves_.front();
  HEADRACE_TRY_ASSIGN(first.stage.slot, loan_->take_first());
  HEADRACE_TRY(device_->wait_native(*first.stage.slot->stream, options_.native_stream));
  for (std::size_t i = 1; i < waves_.size() && !loan_->complete(); ++i) {
    HEADRACE_TRY_ASSIGN(waves_[i]->stage.slot, loan_->take());
    if (waves_[i]->stage.slot == nullptr) break;
    HEADRACE_TRY(device_->wait_native(*waves_[i]->stage.slot->stream, options_.native_stream));
  }
  if (loan_->complete()) return {};
  HEADRACE_TRY_ASSIGN(begun_, device_->create_event());
  return device_->record(*begun_, *first.stage.slot->stream);
}

// Work that the caller queues after the read has begun is not waited for.
Status Read::take_slot(Wave& wave) {
  HEADRACE_TRY_ASSIGN(wave.stage.slot, loan_->take());
  if (wave.stage.slot == nullptr) {
    return Status(Code::kInternal, Layer::kTransfer, "a wave is filled before it has a slab");
  }
  return device_->make_native_wait(*begun_, device_->native_handle(*wave.stage.slot->stream));
}

void Read::Loading::load() noexcept {
  std::call_once(once, [&] {
    HEADRACE_DELAY("transfer.load");
    if (form->decoding.decoder != nullptr) {
      const codec::Chain& chain = *form->chunks->chain;
      const std::uint64_t most = chain.capacity_before(form->decoding.first_stage);
      const auto items = static_cast<std::uint32_t>(chunks);
      form->decoding.decoder->load({items, items * most, most, items * chain.decoded_bytes()});
    }
    form.reset();
  });
}

void Read::Loading::end() noexcept {
  std::call_once(once, [&] { form.reset(); });
}

std::vector<std::unique_ptr<Worker>> Read::make_workers(std::uint64_t count) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto worker = std::make_unique<Worker>();
    worker->number = static_cast<std::uint32_t>(i);
    worker->memory = resources_.take_worker_memory();
    worker->use(plan_->largest_form());
    worker->cold.reserve(Scheduler::kMaxGroupsPerClaim);
    worker->jobs.reserve(Scheduler::kMaxGroupsPerClaim);
    worker->resumed.reserve(Scheduler::kMaxGroupsPerClaim);
    worker->again.reserve(Scheduler::kMaxGroupsPerClaim);
    workers.push_back(std::move(worker));
  }
  return workers;
}

// Threads that only move bytes keep up with the bus from the CPUs near it. Where they also decode, all CPUs together
// are faster than the near ones.
void Read::begin() {
  const bool carries = cpu_sink_->launches() && (plan_->largest_form()->chain->raw() || device_sink_ != nullptr);
  near_use_ = resources_.near().use(carries ? device_->info().numa_node : NearThreads::kAllCpus);
}

Status Read::begin_wave(Wave& wave) {
  HEADRACE_TRY_ASSIGN(const auto form, plan_->next_form());
  HEADRACE_TRY(forms_.take(form));
  wave.form = forms_.current();
  if (loan_ && wave.stage.slot == nullptr) HEADRACE_TRY(take_slot(wave));
  turns_->begin(wave, resources_.mapped().registered_bytes());
  wave.sink = &sink_of(wave);
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(wave.form->sizes.tasks, plan_->chunk_count()));
  wave.tasks.tasks.reserve(most);
  wave.tasks.groups.reserve(most);
  return {};
}

ChunkSink& Read::sink_of(const Wave& wave) const noexcept {
  const bool decodes = wave.turn.kind == WaveKind::kGpu && wave.form->decoding.decoder != nullptr;
  return decodes ? *device_sink_ : *cpu_sink_;
}

WaveWork::Filled Read::fill(std::uint32_t index, Worker& worker) {
  trace::Timer timer(trace::Stage::kPlan);
  HEADRACE_DELAY("transfer.plan");
  Wave& wave = *waves_[index];
  os::Descriptors& descriptors = os::Descriptors::of_process();
  const bool needs_descriptors = plan_->store().ranges() == nullptr, begins = !std::exchange(fills_on_, false);
  if (begins) wave.tasks.clear();
  if (needs_descriptors && plan_->opens_next() && !descriptors.room()) return {.starved = true};
  Result<More> more(Status::out_of_memory());
  bool planned = false;
  try {
    Status begun = begins ? begin_wave(wave) : Status();
    lookup_done_ = false;
    planned = begun.ok();
    more = planned ? plan_->fill(wave.tasks, *this) : Result<More>(std::move(begun));
    report_.add_lookups(std::exchange(wave.tasks.lookups, {}));
    if (more.ok() && *more == More::kAfterLookups) {
      worker.stats.plan_seconds += timer.stop();
      fills_on_ = true;
      return {.waits = true};
    }
    if (more.ok() && wave.tasks.tasks.size() > wave.form->sizes.tasks) {
      more = Status(Code::kInternal, Layer::kTransfer, "a plan put more chunks in a wave than fit its slab");
    }
    const std::size_t groups = wave.tasks.groups.size();
    if (wave.fetch.jobs.size() < groups) wave.fetch.jobs.resize(groups);
    if (wave.fetch.objects.size() < groups) wave.fetch.objects.resize(groups);
    if (!needs_descriptors && wave.fetch.reads.size() < groups) wave.fetch.reads.resize(groups);
    if (tasks_.parts() && plan_->wants_parts()) begin_parts(wave.fetch, groups);
    if (!wave.tasks.tasks.empty()) wave.sink->begin(wave);
  } catch (const std::bad_alloc&) {
    more = Status::out_of_memory();
  }
  worker.stats.plan_seconds += timer.stop();
  const bool shortage = planned && !more.ok() && os::is_shortage(more.status().system_error());
  if (shortage && wave.tasks.groups.empty() && descriptors.some_will_close()) return {.starved = true};
  if (!more.ok()) report_.stop(more.status());
  return {false, !more.ok() || *more == More::kNo, static_cast<std::uint32_t>(wave.tasks.groups.size()),
          needs_descriptors && wave.tasks.sources.empty(),
          !needs_descriptors && wave.sink != nullptr && !wave.sink->has_own_buffers()};
}

bool Read::launch(std::uint32_t index, Worker& worker) {
  Wave& wave = *waves_[index];
  if (!wave.sink->launches()) {
    groups_.check_sources(wave);
    return false;
  }
  if (!wave.fetch.mapped.pieces.empty()) resources_.mapped().note_traffic();
  // Even a launch that failed half way may have queued work: the event marks when the slab is free.
  if (Status status = wave.sink->launch(wave, worker); !status.ok()) report_.stop(std::move(status));
  return true;
}

bool Read::drain(std::uint32_t index, Worker& worker) {
  Wave& wave = *waves_[index];
  const std::uint64_t start = base::now_ns();
  Status status = wave.sink->drain(wave);
  worker.stats.copy_seconds += static_cast<double>(base::now_ns() - start) * 1e-9;
  if (!status.ok()) report_.stop(std::move(status));
  // Checking the size of every mapped file and closing it takes long, and so does decoding on the CPU what the device
  // handed back.
  return wave.fetch.mapped.reads.size() > kManyReads || (!report_.stopped() && wave.sink->returns_tasks(wave));
}

void Read::settle(std::uint32_t index, Worker& worker) {
  Wave& wave = *waves_[index];
  worker.described = nullptr;
  Status status;
  try {
    if (!report_.stopped()) mapped_.check(wave, worker);
    if (!report_.stopped()) status = take_returned(wave, wave.sink->settle(wave, worker), worker);
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  // Freeing the slab waits for work queued since.
  if (!status.ok()) wave.stage.slot.reset();
  if (status.ok() && !report_.stopped()) groups_.check_sources(wave);
  mapped_.close(wave);
  if (!status.ok()) report_.stop(std::move(status));
}

Status Read::take_returned(Wave& wave, std::span<const std::uint32_t> returned, Worker& worker) {
  if (returned.empty()) return {};
  for (const std::uint32_t task : returned) {
    if (report_.stopped()) break;
    std::span<const std::byte> data;
    if (wave.decode.chunks[task].mapped && !wave.decode.chunks[task].from_kept) {
      if (Status status = mapped_.read_again(wave, task, worker, data); !status.ok()) {
        tasks_.fail(wave.tasks, group_of(wave.tasks, task), wave.tasks.tasks[task], worker, std::move(status));
        continue;
      }
    }
    HEADRACE_TRY(wave.sink->decode_returned(wave, task, data, worker));
  }
  return wave.sink->finish_returned(wave, worker);
}

void Read::release(std::uint32_t index) {
  Wave& wave = *waves_[index];
  mapped_.close(wave);
  wave.tasks.release_sources();  // shards are closed with the last wave that needs them
  // If the CPU decoded because the device has no decoder for the form, the duration measures neither.
  const bool elsewhere = wave.turn.kind == WaveKind::kGpu && wave.sink != device_sink_.get();
  if (wave.sink != nullptr) wave.sink->release(wave);
  // Making slabs slows down whatever else runs.
  const bool disturbed = loan_ && !loan_->complete();
  turns_->end(wave, report_.stopped() || elsewhere || disturbed);
}

Status Read::replace_damaged() {
  constexpr std::size_t kBatch = 2048;
  std::span<const device::Box> boxes = report_.replaced();
  if (boxes.empty() || report_.stopped()) return {};
  const device::ElementOp op{.element_bytes = static_cast<std::uint32_t>(report_.replacement().size())};
  HEADRACE_TRY_ASSIGN(const auto stream, device_->create_stream());
  HEADRACE_TRY_ASSIGN(const auto event, device_->create_event());
  for (; !boxes.empty(); boxes = boxes.subspan(std::min(boxes.size(), kBatch))) {
    const auto some = boxes.first(std::min(boxes.size(), kBatch));
    HEADRACE_TRY(device_->assemble(some, op, report_.replacement().data(), *stream));
  }
  HEADRACE_TRY(device_->record(*event, *stream));
  return device_->synchronize(*event);
}

Status Read::finish_elements() {
  if (end_ == nullptr || report_.stopped()) return {};
  Stats stats;
  HEADRACE_TRY(end_->finish(stats));
  report_.add(stats);
  return {};
}

void Read::end(std::span<const std::unique_ptr<Worker>> workers) {
  try {
    if (Status status = replace_damaged(); !status.ok()) report_.stop(std::move(status));
    if (Status status = finish_elements(); !status.ok()) report_.stop(std::move(status));
  } catch (const std::bad_alloc&) {
    report_.stop(Status::out_of_memory());
  }
  for (const auto& worker : workers) report_.add(worker->stats);
  std::string engine = "none", straight_engine, device_note;
  const Stats& stats = report_.stats();
  try {
    if (stats.straight_bytes > 0) straight_engine = resources_.straight(device_).engine_name();
    if (stats.direct_bytes + stats.engine_bytes > stats.straight_bytes) {
      if (Result<IoService*> service = resources_.io(); service.ok()) engine = (*service)->engine().name;
    }
    device_note = device_->note();
  } catch (const std::bad_alloc&) {  // only the counts are reported
  }
  report_.end(engine, straight_engine, device_note, decode_note_);
  near_use_ = {};
  for (const auto& wave : waves_) {
    if (wave->sink != nullptr) wave->sink->release(*wave);
  }
  for (const auto& worker : workers) {
    if (worker->memory != nullptr) resources_.give_worker_memory(std::move(worker->memory));
  }
  give_back_slabs();
  // A holder of the read's Completion must not keep device memory alive.
  device_sink_.reset();
  kept_ = {};
  end_.reset();
  plan_.reset();
  os::Descriptors::of_process().idle();  // a stopped read may have held an open shard
}

void Read::give_back_slabs() {
  if (loading_ != nullptr) loading_->end();
  loan_.reset();
  for (auto& wave : waves_) {
    if (wave->stage.slot != nullptr) resources_.staging().give(std::move(wave->stage.slot));
  }
}

}  // namespace headrace::transfer
