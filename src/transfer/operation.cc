#include "transfer/operation.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fault.h"
#include "transfer/host_sink.h"
#include "transfer/staged_sink.h"

namespace headrace::transfer {
namespace {

constexpr unsigned kWaves = 4;

// Smaller chunks have nothing to gain: it is many of them that a device decodes at a time.
constexpr std::uint64_t kLeastIndexedBytes = 64 << 10;

}  // namespace

ReadOperation::ReadOperation(Resources& resources, std::unique_ptr<Plan> plan, std::shared_ptr<device::Device> device,
                             ReadOptions options, std::uint64_t start_ns)
    : resources_(resources),
      notifier_(resources.pool().notifier()),
      plan_(std::move(plan)),
      fetcher_(plan_->store()),
      device_(std::move(device)),
      options_(std::move(options)),
      cache_reads_(resources.options().engine == "auto"),
      start_ns_(start_ns),
      report_(options_.progress, options_.collect_errors, start_ns),
      tasks_(*plan_, report_),
      router_(cache_reads_, resources.options().allow_direct),
      cold_(router_, notifier_),
      mapped_(tasks_, resources.mapped(), device_) {}

Result<std::shared_ptr<ReadOperation>> ReadOperation::create(Resources& resources, std::unique_ptr<Plan> plan,
                                                             std::shared_ptr<device::Device> device,
                                                             ReadOptions options, const ReadBegun& begun) {
  std::shared_ptr<ReadOperation> operation(
      new ReadOperation(resources, std::move(plan), std::move(device), std::move(options), begun.start_ns));
  Stats planned;
  planned.plan_seconds = begun.plan_seconds;
  operation->report_.add(planned);
  HEADRACE_TRY(operation->prepare());
  return operation;
}

ReadOperation::~ReadOperation() {
  if (!done_ && !ended_.inherited()) give_back();
}

void ReadOperation::give_back() {
  near_use_ = {};
  for (auto& lane : lanes_) {
    if (lane->memory != nullptr) resources_.give_lane_memory(std::move(lane->memory));
  }
  for (auto& wave : waves_) {
    if (wave->stage.slot != nullptr) resources_.staging().give(std::move(wave->stage.slot));
  }
}

Status ReadOperation::prepare() {
  HEADRACE_TRY_ASSIGN(ChunkDecoding decoding, choose_decoder(plan_->chain(), *device_, options_.placement));
  HEADRACE_TRY_ASSIGN(const ReadSizes sizes, size(decoding));
  decode_note_ = std::move(decoding.note);
  return make_waves(sizes, std::move(decoding));
}

// Waves and lanes so that the budgets hold whatever the array's size. Leaves `decoding` to the CPU where the device's
// decoder does not fit them.
Result<ReadSizes> ReadOperation::size(ChunkDecoding& decoding) {
  const ContextOptions& options = resources_.options();
  const codec::Chain& chain = plan_->chain();
  // Encoded bytes are nearly always fewer than decoded ones; buffers grow to what a stream really needs.
  const std::uint64_t decoded = std::max<std::uint64_t>(chain.decoded_bytes(), 1);
  const std::uint64_t encoded =
      std::max(std::min(chain.max_encoded_bytes(), decoded + decoded / 32 + 65536), plan_->max_group_bytes());
  planned_bytes_ = encoded;
  SizeRequest request;
  request.chunks = plan_->chunk_count();
  request.decoded_bytes = decoded;
  request.lane_bytes = encoded;
  const auto and_also = [](SizeRequest& to, std::uint64_t bytes) {  // sizes of metadata: any
    to.lane_bytes = base::checked_add(to.lane_bytes, bytes).value_or(UINT64_MAX);
  };
  request.staged = !device_->info().host_addressable;
  if (!request.staged) and_also(request, decoded);
  for (int i = 0; i < 2; ++i) and_also(request, chain.temporary_bytes());
  if (plan_->store().packs()) and_also(request, store::Store::most_packed_bytes(encoded));
  request.host_budget_bytes = options.host_budget_bytes;
  request.device_budget_bytes = options.device_budget_bytes;
  request.wave_bytes = options.wave_bytes;
  request.waves = options.waves != 0 ? options.waves : kWaves;
  request.threads = resources_.threads();
  if (decoding.decoder != nullptr) {
    SizeRequest with_decoder = request;
    with_decoder.decoder = decoding.decoder.get();
    with_decoder.source_bytes = chain.capacity_before(decoding.first_stage);
    if (decoding.first_stage > 0) and_also(with_decoder, with_decoder.source_bytes);
    if (resources_.indices().enabled() && plan_->keeps_indices() && decoded >= kLeastIndexedBytes) {
      with_decoder.index_stride = decoding.index_stride = decoding.decoder->index_stride();
    }
    Result<ReadSizes> sized = options.waves != 0 ? size_read(with_decoder) : size_decoded_read(with_decoder);
    if (sized.ok() || options_.placement != Placement::kAuto) return sized;
    decoding.decoder.reset();
    decoding.note = "the budgets are too small for the device's decoder";
  }
  return size_read(request);
}

// What is known of who decodes faster; null: the device decodes, whoever is faster.
std::shared_ptr<PlacementPolicy> ReadOperation::placement_policy(const ReadSizes& sizes, std::size_t first_stage) {
  if (options_.placement != Placement::kAuto) return nullptr;
  const std::string kind = placement_kind(device_->info().name, plan_->chain(), first_stage,
                                          std::min(plan_->chunk_count(), sizes.waves * sizes.tasks));
  const std::shared_ptr<PlacementPrior> prior = resources_.placement().of(kind);
  std::shared_ptr<PlacementPolicy> policy = plan_->placement(kind, prior);
  return policy != nullptr ? policy : std::make_shared<PlacementPolicy>(prior);
}

Status ReadOperation::make_waves(const ReadSizes& sizes, ChunkDecoding decoding) {
  const ContextOptions& options = resources_.options();
  const auto wave_count = static_cast<std::size_t>(sizes.waves);
  const bool decodes = decoding.decoder != nullptr, staged = !device_->info().host_addressable;
  const Turns::Sizes turns{static_cast<std::size_t>(sizes.tasks), static_cast<std::size_t>(sizes.trial_tasks),
                           static_cast<std::size_t>(sizes.lanes), plan_->chunk_count(), plan_->chain().decoded_bytes()};
  std::shared_ptr<PlacementPolicy> policy;
  if (decodes) policy = placement_policy(sizes, decoding.first_stage);
  if (policy != nullptr) {
    turns_.emplace(std::move(policy), turns);
  } else {
    turns_.emplace(decodes ? WaveKind::kGpu : WaveKind::kCpu, turns);
  }
  for (std::size_t i = 0; i < wave_count; ++i) waves_.push_back(std::make_unique<Wave>());
  if (staged) {
    // An engine asked for by name gets every read.
    const bool maps = cache_reads_ && options.allow_mapped;
    cpu_sink_ = std::make_unique<StagedSink>(tasks_, device_, sizes.stride, maps);
    if (decodes) {
      device_sink_ = std::make_unique<DeviceSink>(tasks_, device_, std::move(decoding), sizes.areas, sizes.stride,
                                                  resources_.indices(), maps);
    }
    const StagingPool::Bytes slabs{static_cast<std::size_t>(sizes.areas.pinned_bytes),
                                   static_cast<std::size_t>(sizes.areas.device_bytes)};
    // Slots of other sizes take milliseconds to free: those that fit the budgets beside these stay.
    const auto beside = [&](std::size_t budget, std::size_t slab) {
      return budget - std::min(budget, slab * wave_count);
    };
    HEADRACE_TRY_ASSIGN(auto slots, resources_.staging().take(device_, slabs, wave_count,
                                                              {beside(options.host_budget_bytes, slabs.pinned),
                                                               beside(options.device_budget_bytes, slabs.device)}));
    for (std::size_t i = 0; i < wave_count; ++i) {
      waves_[i]->stage.slot = std::move(slots[i]);
      HEADRACE_TRY(device_->wait_native(*waves_[i]->stage.slot->stream, options_.native_stream));
    }
  } else {
    cpu_sink_ = std::make_unique<HostSink>(tasks_);
  }
  for (std::uint64_t i = 0; i < sizes.lanes; ++i) {
    auto lane = std::make_unique<Lane>();
    lane->memory = resources_.take_lane_memory();
    lane->workspace = plan_->chain().make_workspace();
    lane->cold.reserve(kMaxGroupsPerClaim);
    lane->jobs.reserve(kMaxGroupsPerClaim);
    lanes_.push_back(std::move(lane));
  }
  for (auto& lane : lanes_) free_lanes_.push_back(lane.get());
  filled_.reserve(wave_count);
  left_.reserve(lanes_.size());  // one a claim
  return {};
}

// Threads that only carry bytes keep up with the bus from the CPUs near it; where they decode, all CPUs do more than
// near ones.
void ReadOperation::start() {
  const bool carries = !device_->info().host_addressable && (plan_->chain().raw() || device_sink_ != nullptr);
  near_use_ = resources_.near().use(carries ? device_->info().numa_node : NearThreads::kAllCpus);
  resources_.pool().add(shared_from_this());
}

Status ReadOperation::run() {
  // A read of one chunk is done here and wakes nobody.
  if (lanes_.size() > 1 && plan_->chunk_count() > 1) {
    try {
      start();
    } catch (const std::bad_alloc&) {  // this thread does it alone
    }
  }
  for (;;) {
    const std::uint64_t seen = resources_.pool().generation();
    if (work() == Progress::kFinished) break;
    resources_.pool().wait(seen);
  }
  return wait();
}

Status ReadOperation::wait() {
  std::unique_lock lock(mutex_);
  ended_->wait(lock, [&] { return done_; });
  return report_.status();
}

bool ReadOperation::wait_for(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return ended_->wait_for(lock, timeout, [&] { return done_; });
}

bool ReadOperation::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

void ReadOperation::cancel() {
  report_.stop(Status(Code::kCancelled, Layer::kTransfer, "the read was cancelled"));
  notifier_.notify();
}

Lane* ReadOperation::acquire_lane() {
  std::lock_guard lock(mutex_);
  if (ending_ || free_lanes_.empty()) return nullptr;
  Lane* lane = free_lanes_.back();
  free_lanes_.pop_back();
  return lane;
}

void ReadOperation::release_lane(Lane* lane) {
  {
    std::lock_guard lock(mutex_);
    free_lanes_.push_back(lane);
    (void)stopped_locked();
    if (!exhausted_ || free_lanes_.size() != lanes_.size() || !complete_locked()) return;
  }
  plan_.reset();
  base::Descriptors::of_process().idle();  // a read that was stopped may have been within a shard
  std::lock_guard lock(mutex_);
  done_ = true;
  ended_->notify_all();
}

Workload::Progress ReadOperation::work() {
  trace::came_back(start_ns_);
  Lane* lane = acquire_lane();
  if (lane == nullptr) return done() ? Progress::kFinished : Progress::kIdle;
  bool finished = false;
  try {
    for (;;) {
      const Claim next = claim();
      if (next.kind == ClaimKind::kFinished) finished = true;
      if (next.kind == ClaimKind::kNone) trace::left_waiting(next.waits_for, start_ns_);
      if (next.kind == ClaimKind::kNone || next.kind == ClaimKind::kFinished) break;
      switch (next.kind) {
        case ClaimKind::kFill:
          fill_wave(*next.wave, *lane);
          break;
        case ClaimKind::kGroups:
          run_groups(*next.wave, next.begin, next.end, *lane);
          break;
        case ClaimKind::kJobs:
          run_jobs(*lane);
          break;
        case ClaimKind::kDrain:
          drain_wave(*next.wave, *lane);
          break;
        default:
          break;
      }
      if (!report_.show_progress(plan_->chunk_count())) notifier_.notify();
    }
  } catch (const std::bad_alloc&) {
    report_.stop(Status::out_of_memory());
    notifier_.notify();
  }
  release_lane(lane);
  if (finished || done()) {
    notifier_.notify();  // others may be asleep on this operation
    return Progress::kFinished;
  }
  return Progress::kIdle;
}

ReadOperation::Claim ReadOperation::claim() {
  std::lock_guard lock(mutex_);
  return claim_locked();
}

ReadOperation::Claim ReadOperation::claim_locked() {
  if (ending_) return {ClaimKind::kFinished};
  (void)stopped_locked();
  if (trace::recording()) {
    for (auto& wave : waves_) {
      if (wave->state == Wave::State::kDraining && !wave->being_drained) wave->sink->notice(*wave);
    }
  }
  const auto lanes = static_cast<std::uint32_t>(lanes_.size());
  if (cold_.any_came()) return {ClaimKind::kJobs};
  const bool starved = starved_.load();
  if (!starved && !left_.empty()) {
    const Left left = left_.back();
    left_.pop_back();
    return {ClaimKind::kGroups, left.wave, left.begin, left.end};
  }
  // One wave is kept filled ahead, so that nobody waits for the plan.
  if (!starved && !exhausted_ && !filling_ && filled_.size() < 2) {
    for (auto& wave : waves_) {
      if (wave->state != Wave::State::kFree) continue;
      filling_ = true;
      wave->state = Wave::State::kFilled;
      return {ClaimKind::kFill, wave.get()};
    }
  }
  if (Wave* const passed = passed_wave_locked(); passed != nullptr) {
    draining_ = true;
    passed->being_drained = true;
    return {ClaimKind::kDrain, passed};
  }
  // Groups of open shards need no descriptor, and others may be waiting for theirs.
  if (!filled_.empty() && (!starved || !filled_.front()->tasks.sources.empty())) {
    Wave& wave = *filled_.front();
    const auto total = static_cast<std::uint32_t>(wave.tasks.groups.size());
    const std::uint32_t left = total - wave.next_group;
    // Guided: large runs first, single groups at the end, so that workers end together.
    const std::uint32_t take = std::clamp<std::uint32_t>(left / (2 * lanes), 1, std::min(left, kMaxGroupsPerClaim));
    Claim claim{ClaimKind::kGroups, &wave, wave.next_group, wave.next_group + take};
    wave.next_group += take;
    if (wave.next_group == total) filled_.erase(filled_.begin());
    return claim;
  }
  if (!draining_) {
    for (auto& wave : waves_) {
      if (wave->state != Wave::State::kDraining || wave->being_drained) continue;
      draining_ = true;
      wave->being_drained = true;
      return {ClaimKind::kDrain, wave.get()};
    }
  }
  return {ClaimKind::kNone, nullptr, 0, 0, waits_for_locked()};
}

// A wave that the device is through with: its slab is wanted for the next one, however much else there is to do.
Wave* ReadOperation::passed_wave_locked() {
  constexpr std::uint64_t kAskEveryNs = 50'000;  // asking takes a microsecond, and the lock is held
  if (draining_ || !cpu_sink_->launches()) return nullptr;
  const std::uint64_t now = base::now_ns();
  if (now - asked_ns_ < kAskEveryNs) return nullptr;
  for (auto& wave : waves_) {
    if (wave->state != Wave::State::kDraining || wave->being_drained) continue;
    asked_ns_ = now;
    if (wave->sink->passed(*wave)) return wave.get();
  }
  return nullptr;
}

// For the trace: what a worker without work waits for is what most of the waves wait for.
trace::Stage ReadOperation::waits_for_locked() const {
  std::size_t in_copy = 0;
  for (const auto& wave : waves_) in_copy += wave->state == Wave::State::kDraining ? 1 : 0;
  if (in_copy > 0 && 2 * in_copy >= waves_.size()) return trace::Stage::kCopy;
  if (cold_.in_flight() > 0) return trace::Stage::kRead;
  if (filling_) return trace::Stage::kPlan;
  return in_copy > 0 ? trace::Stage::kCopy : trace::Stage::kWait;  // kWait: the last groups, with other workers
}

void ReadOperation::fill_wave(Wave& wave, Lane& lane) {
  trace::Timer timer(trace::Stage::kPlan);
  HEADRACE_DELAY("transfer.plan");
  wave.tasks.clear();
  base::Descriptors& descriptors = base::Descriptors::of_process();
  if (plan_->opens_next() && !descriptors.room()) return fill_later(wave);
  Result<bool> more(Status::out_of_memory());
  try {
    turns_->begin(wave, resources_.mapped().registered_bytes());
    wave.sink = wave.turn.kind == WaveKind::kGpu ? device_sink_.get() : cpu_sink_.get();
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(turns_->wave_tasks(), plan_->chunk_count()));
    wave.tasks.tasks.reserve(most);
    wave.tasks.groups.reserve(most);
    more = plan_->fill(wave.tasks);
    report_.add_lookups(std::exchange(wave.tasks.lookups, {}));
    if (wave.tasks.tasks.size() > turns_->wave_tasks()) {
      more = Status(Code::kInternal, Layer::kTransfer, "a plan gave a wave more chunks than its slab has room for");
    }
    const std::size_t groups = wave.tasks.groups.size();
    if (wave.fetch.jobs.size() < groups) wave.fetch.jobs.resize(groups);
    if (wave.fetch.objects.size() < groups) wave.fetch.objects.resize(groups);
    wave.sink->begin(wave);
  } catch (const std::bad_alloc&) {
    more = Status::out_of_memory();
  }
  lane.stats.plan_seconds += timer.stop();
  const bool shortage = !more.ok() && base::is_shortage(more.status().system_error());
  if (shortage && wave.tasks.groups.empty() && descriptors.some_will_close()) return fill_later(wave);
  if (!more.ok()) report_.stop(more.status());
  {
    std::lock_guard lock(mutex_);
    filling_ = false;
    exhausted_ = exhausted_ || !more.ok() || !*more;
    wave.next_group = 0;
    wave.groups_left = static_cast<std::uint32_t>(wave.tasks.groups.size());
    if (stopped_locked() || wave.groups_left == 0) {
      release_wave_locked(wave);
    } else {
      ++lane.stats.waves;
      filled_.push_back(&wave);
    }
  }
  notifier_.notify();
}

void ReadOperation::fill_later(Wave& wave) {
  {
    std::lock_guard lock(mutex_);
    filling_ = false;
    release_wave_locked(wave);
  }
  wait_for_descriptor();
}

void ReadOperation::run_groups(Wave& wave, std::uint32_t begin, std::uint32_t end, Lane& lane) {
  std::uint32_t finished = 0;
  lane.cold.clear();
  lane.described = nullptr;  // task addresses are used again by the next wave
  std::uint32_t next = begin;
  for (; next < end; ++next) {
    GroupResult result = GroupResult::kDone;
    try {
      if (!report_.stopped()) result = process_group(wave, next, lane);
    } catch (const std::bad_alloc&) {
      wave.fetch.objects[next].close();
      lane.described = nullptr;
      report_.stop(Status::out_of_memory());
    }
    if (result == GroupResult::kStarved) break;
    if (result == GroupResult::kCold) {
      lane.cold.push_back(next);
    } else {
      ++finished;
    }
  }
  if (!lane.mapped.reads.empty() && !mapped_.hand_over(wave, lane)) report_.stop(Status::out_of_memory());
  if (!lane.cold.empty()) post_cold(wave, lane);
  if (finished > 0) finish_groups(wave, finished, lane);
  if (next == end) return;
  // What this claim has open is with the I/O service, or is closed when the wave is through: others can wait for it.
  put_back(wave, next, end);
  wait_for_descriptor();
}

// Groups that were claimed and are to be claimed again.
void ReadOperation::put_back(Wave& wave, std::uint32_t begin, std::uint32_t end) {
  std::lock_guard lock(mutex_);
  if (!stopped_locked()) {
    left_.push_back({&wave, begin, end});
    return;
  }
  // They were not there to be dropped.
  wave.groups_left -= end - begin;
  if (wave.groups_left == 0) release_wave_locked(wave);
}

// What needs one is not claimed until then.
void ReadOperation::wait_for_descriptor() {
  starved_ = true;
  base::Descriptors::of_process().call_when_closed(weak_from_this());
}

void ReadOperation::descriptor_closed() noexcept {
  starved_ = false;
  notifier_.notify();
}

void ReadOperation::run_jobs(Lane& lane) {
  std::vector<IoJob*>& jobs = lane.jobs;
  cold_.take(jobs, lanes_.size());
  if (jobs.empty()) return;  // others took them
  lane.described = nullptr;
  for (IoJob* job : jobs) {
    Wave& wave = *waves_[static_cast<std::size_t>(job->user >> 32)];
    const auto index = static_cast<std::uint32_t>(job->user);
    cold_.read_refused(*job);
    try {
      const Group& group = wave.tasks.groups[index];
      const store::ByteSource& object = wave.object_of(index);
      const Status status = fetcher_.finish(object, *job, lane.stats);
      if (report_.stopped()) {
        // Only the buffers and descriptors are given back.
      } else if (!status.ok()) {
        tasks_.fail_group(wave.tasks, group, lane, status);
      } else {
        wave.sink->take(wave, group, job->data, job->offset - object.file().begin, lane);
      }
    } catch (const std::bad_alloc&) {
      lane.described = nullptr;
      report_.stop(Status::out_of_memory());
    }
    job->status = {};
  }
  Result<IoService*> service = resources_.io();
  if (service.ok()) (*service)->release(jobs);
  for (IoJob* job : jobs) {
    Wave& wave = *waves_[static_cast<std::size_t>(job->user >> 32)];
    wave.fetch.objects[static_cast<std::uint32_t>(job->user)].close();
    finish_groups(wave, 1, lane);
  }
  jobs.clear();
}

void ReadOperation::finish_groups(Wave& wave, std::uint32_t count, Lane& lane) {
  bool launch = false, check = false;
  {
    std::lock_guard lock(mutex_);
    wave.groups_left -= count;
    if (wave.groups_left > 0) return;
    launch = wave.sink->launches() && !report_.stopped();
    check = !wave.sink->launches() && !report_.stopped();
    if (launch) {
      wave.state = Wave::State::kLaunching;
    } else if (!check) {
      release_wave_locked(wave);
    }
  }
  if (check) {
    check_sources(wave);
    std::lock_guard lock(mutex_);
    release_wave_locked(wave);
  }
  if (launch) {
    if (Status status = launch_wave(wave, lane); !status.ok()) report_.stop(std::move(status));
    std::lock_guard lock(mutex_);
    // Even a launch that failed half way may have queued work: the event tells when the slab is free.
    wave.state = Wave::State::kDraining;
  }
  notifier_.notify();
}

void ReadOperation::release_wave_locked(Wave& wave) {
  mapped_.close(wave);
  wave.tasks.let_go();  // shards are closed with the last wave that needs them
  turns_->end(wave, report_.stopped());
  wave.state = Wave::State::kFree;
}

// Whether the read has been stopped. Who finds out first drops what nobody has claimed.
bool ReadOperation::stopped_locked() {
  if (!report_.stopped()) return false;
  if (std::exchange(dropped_, true)) return true;
  exhausted_ = true;
  for (Wave* wave : filled_) {
    wave->groups_left -= static_cast<std::uint32_t>(wave->tasks.groups.size()) - wave->next_group;
    wave->next_group = static_cast<std::uint32_t>(wave->tasks.groups.size());
    if (wave->groups_left == 0) release_wave_locked(*wave);
  }
  filled_.clear();
  for (const Left& left : left_) {
    left.wave->groups_left -= left.end - left.begin;
    if (left.wave->groups_left == 0) release_wave_locked(*left.wave);
  }
  left_.clear();
  return true;
}

// True for the one call that finds everything finished.
bool ReadOperation::complete_locked() {
  if (ending_ || filling_ || !cold_.idle()) return false;
  for (const auto& wave : waves_) {
    if (wave->state != Wave::State::kFree) return false;
  }
  ending_ = true;
  for (const auto& lane : lanes_) report_.add(lane->stats);
  std::string engine = "none", device_note;
  const Stats& stats = report_.stats();
  try {
    if (stats.direct_bytes + stats.engine_bytes > 0) {
      if (Result<IoService*> service = resources_.io(); service.ok()) engine = (*service)->engine().name;
    }
    device_note = device_->note();
  } catch (const std::bad_alloc&) {  // the counts remain
  }
  report_.end(engine, device_note, decode_note_);
  give_back();
  return true;
}

}  // namespace headrace::transfer
