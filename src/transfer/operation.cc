#include "transfer/operation.h"

#include <algorithm>
#include <new>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fault.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kSlabAlignment = 16;  // widest vector access of the copy kernels
constexpr std::size_t kMaxTasksPerWave = 4096;

double seconds_since(std::uint64_t start_ns) { return static_cast<double>(base::now_ns() - start_ns) * 1e-9; }

std::string describe_path(const Stats& stats, const std::string& engine) {
  std::string path;
  const auto join = [&path](const std::string& part) { path += (path.empty() ? "" : " + ") + part; };
  if (stats.direct_bytes > 0) join(engine + " direct");
  if (stats.engine_bytes > 0) join(engine + " buffered");
  if (stats.buffered_bytes > 0) join("buffered (page cache)");
  if (stats.memory_bytes > 0) join("memory");
  if (stats.missing_chunks > 0) join("fill value");
  return path.empty() ? "nothing read" : path;
}

}  // namespace

ReadOperation::ReadOperation(Resources& resources, std::unique_ptr<Plan> plan, std::shared_ptr<device::Device> device,
                             ReadOptions options)
    : resources_(resources),
      notifier_(resources.pool().notifier()),
      plan_(std::move(plan)),
      device_(std::move(device)),
      options_(std::move(options)),
      staged_(!device_->info().host_addressable) {}

Result<std::shared_ptr<ReadOperation>> ReadOperation::create(Resources& resources, std::unique_ptr<Plan> plan,
                                                             std::shared_ptr<device::Device> device,
                                                             ReadOptions options) {
  std::shared_ptr<ReadOperation> operation(
      new ReadOperation(resources, std::move(plan), std::move(device), std::move(options)));
  HEADRACE_TRY(operation->prepare());
  return operation;
}

ReadOperation::~ReadOperation() {
  if (!done_) give_back();
}

void ReadOperation::give_back() {
  for (auto& lane : lanes_) {
    if (lane->memory != nullptr) resources_.give_lane_memory(std::move(lane->memory));
  }
  for (auto& wave : waves_) {
    if (wave->slot != nullptr) resources_.staging().give(std::move(wave->slot));
  }
}

// Sizes waves and lanes so that the budgets hold whatever the array's size.
Status ReadOperation::prepare() {
  const ContextOptions& options = resources_.options();
  const codec::Chain& chain = plan_->chain();
  inline_reads_ = options.engine == "auto";
  const std::uint64_t decoded = std::max<std::uint64_t>(chain.decoded_bytes(), 1);
  slab_stride_ = base::align_up(decoded, std::uint64_t{kSlabAlignment});

  // Encoded bytes are nearly always fewer than decoded ones; buffers grow to what a stream really needs.
  const std::uint64_t encoded =
      std::max(std::min(chain.max_encoded_bytes(), decoded + decoded / 32 + 65536), plan_->max_group_bytes());
  const std::uint64_t lane_bytes = encoded + (staged_ ? 0 : decoded) + 2 * chain.temporary_bytes();
  const std::uint64_t io_bytes = options.host_budget_bytes / 8;
  const std::uint64_t budget = options.host_budget_bytes - io_bytes;
  const std::uint64_t chunks = std::max<std::uint64_t>(plan_->chunk_count(), 1);

  std::uint64_t tasks = std::clamp<std::uint64_t>(options.wave_bytes / slab_stride_, 1, kMaxTasksPerWave);
  std::size_t wave_count = options.waves;
  std::uint64_t staging_bytes = 0;
  if (staged_) {
    // Room for two chunks a thread, or some threads would wait for a slab while the slowest of its chunks is decoded.
    tasks = std::max(tasks, base::ceil_div(std::uint64_t{2} * resources_.threads(), std::uint64_t{options.waves}));
    tasks = std::min({tasks, chunks, std::uint64_t{kMaxTasksPerWave}});
    const std::uint64_t host_room = budget > lane_bytes ? (budget - lane_bytes) / slab_stride_ : 0;
    const std::uint64_t room = std::min(host_room, options.device_budget_bytes / slab_stride_);
    if (room < 1) {
      return Status(Code::kResourceExhausted, Layer::kTransfer,
                    "one chunk decodes to " + std::to_string(decoded) +
                        " bytes, which does not fit the budgets (host " + std::to_string(options.host_budget_bytes) +
                        ", device " + std::to_string(options.device_budget_bytes) + " bytes); raise them");
    }
    wave_count =
        static_cast<std::size_t>(std::min<std::uint64_t>({options.waves, room, base::ceil_div(chunks, tasks)}));
    tasks = std::clamp<std::uint64_t>(room / wave_count, 1, tasks);
    staging_bytes = wave_count * tasks * slab_stride_;
  } else if (lane_bytes > budget) {
    return Status(Code::kResourceExhausted, Layer::kTransfer,
                  "decoding one chunk takes " + std::to_string(lane_bytes) +
                      " bytes of working memory, the host budget is " + std::to_string(options.host_budget_bytes) +
                      "; raise host_budget_bytes");
  }
  const std::uint64_t lanes = std::clamp<std::uint64_t>((budget - staging_bytes) / lane_bytes, 1, resources_.threads());

  for (std::size_t i = 0; i < wave_count; ++i) {
    auto wave = std::make_unique<Wave>();
    wave->tasks.max_tasks = static_cast<std::size_t>(tasks);
    if (staged_) {
      HEADRACE_TRY_ASSIGN(wave->slot,
                          resources_.staging().take(device_, static_cast<std::size_t>(tasks * slab_stride_)));
      HEADRACE_TRY(device_->wait_native(*wave->slot->stream, options_.native_stream));
    }
    waves_.push_back(std::move(wave));
  }
  for (std::uint64_t i = 0; i < lanes; ++i) {
    auto lane = std::make_unique<Lane>();
    lane->memory = resources_.take_lane_memory();
    lane->workspace = chain.make_workspace();
    lane->cold.reserve(kMaxGroupsPerClaim);
    lane->jobs.reserve(kMaxGroupsPerClaim);
    lanes_.push_back(std::move(lane));
  }
  for (auto& lane : lanes_) free_lanes_.push_back(lane.get());
  filled_.reserve(wave_count);
  ready_jobs_.reserve(256);
  start_ns_ = base::now_ns();
  last_progress_ns_ = start_ns_;
  return {};
}

void ReadOperation::start() { resources_.pool().add(shared_from_this()); }

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
  ended_.wait(lock, [&] { return done_; });
  return status_;
}

bool ReadOperation::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

void ReadOperation::cancel() {
  {
    std::lock_guard lock(mutex_);
    if (ending_) return;
    stop_locked(Status(Code::kCancelled, Layer::kTransfer, "the read was cancelled"));
  }
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
    if (!exhausted_ || free_lanes_.size() != lanes_.size() || !complete_locked()) return;
  }
  plan_.reset();
  std::lock_guard lock(mutex_);
  done_ = true;
  ended_.notify_all();
}

Workload::Progress ReadOperation::work() {
  trace::came_back(start_ns_);
  Lane* lane = acquire_lane();
  if (lane == nullptr) return done() ? Progress::kFinished : Progress::kIdle;
  bool finished = false;
  try {
    for (;;) {
      const Claim next = claim(*lane);
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
      report_progress();
    }
  } catch (const std::bad_alloc&) {
    stop(Status::out_of_memory());
    notifier_.notify();
  }
  release_lane(lane);
  if (finished || done()) {
    notifier_.notify();  // others may be asleep on this operation
    return Progress::kFinished;
  }
  return Progress::kIdle;
}

ReadOperation::Claim ReadOperation::claim(Lane& lane) {
  std::lock_guard lock(mutex_);
  return claim_locked(lane);
}

ReadOperation::Claim ReadOperation::claim_locked(Lane& lane) {
  if (ending_) return {ClaimKind::kFinished};
  if (staged_ && trace::recording()) notice_copies_locked();
  const auto lanes = static_cast<std::uint32_t>(lanes_.size());
  if (!ready_jobs_.empty()) {
    const std::size_t take = std::clamp<std::size_t>(ready_jobs_.size() / (2 * lanes), 1, kMaxGroupsPerClaim);
    lane.jobs.assign(ready_jobs_.end() - static_cast<std::ptrdiff_t>(take), ready_jobs_.end());
    ready_jobs_.resize(ready_jobs_.size() - take);
    return {ClaimKind::kJobs};
  }
  // One wave is kept filled ahead, so that nobody waits for the plan.
  if (!exhausted_ && !filling_ && filled_.size() < 2) {
    for (auto& wave : waves_) {
      if (wave->state != WaveState::kFree) continue;
      filling_ = true;
      wave->state = WaveState::kFilled;
      return {ClaimKind::kFill, wave.get()};
    }
  }
  if (!filled_.empty()) {
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
      if (wave->state != WaveState::kDraining) continue;
      draining_ = true;
      wave->being_drained = true;
      return {ClaimKind::kDrain, wave.get()};
    }
  }
  return {ClaimKind::kNone, nullptr, 0, 0, waits_for_locked()};
}

// For the trace: what a worker without work waits for is what most of the waves wait for.
trace::Stage ReadOperation::waits_for_locked() const {
  std::size_t in_copy = 0;
  for (const auto& wave : waves_) in_copy += wave->state == WaveState::kDraining ? 1 : 0;
  if (in_copy > 0 && 2 * in_copy >= waves_.size()) return trace::Stage::kCopy;
  if (jobs_in_flight_ > 0) return trace::Stage::kRead;
  if (filling_) return trace::Stage::kPlan;
  return in_copy > 0 ? trace::Stage::kCopy : trace::Stage::kWait;  // kWait: the last groups, with other workers
}

// For the trace: a copy that has ended is otherwise seen only when a worker has nothing better to do than wait for it.
void ReadOperation::notice_copies_locked() {
  for (auto& wave : waves_) {
    if (wave->state != WaveState::kDraining || wave->being_drained || wave->copied_ns != 0 || !wave->slot) continue;
    if (Result<bool> done = device_->query(*wave->slot->event); done.ok() && *done) wave->copied_ns = base::now_ns();
  }
}

void ReadOperation::fill_wave(Wave& wave, Lane& lane) {
  trace::Timer timer(trace::Stage::kPlan);
  HEADRACE_DELAY("transfer.plan");
  wave.tasks.clear();
  Result<bool> more(Status::out_of_memory());
  try {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(wave.tasks.max_tasks, plan_->chunk_count()));
    wave.tasks.tasks.reserve(most);
    wave.tasks.groups.reserve(most);
    more = plan_->fill(wave.tasks);
    const std::size_t groups = wave.tasks.groups.size();
    if (wave.jobs.size() < groups) wave.jobs.resize(groups);
    if (wave.objects.size() < groups) wave.objects.resize(groups);
    if (staged_ && wave.boxes.size() < wave.tasks.tasks.size()) wave.boxes.resize(wave.tasks.tasks.size());
  } catch (const std::bad_alloc&) {
    more = Status::out_of_memory();
  }
  lane.stats.plan_seconds += timer.stop();
  {
    std::lock_guard lock(mutex_);
    filling_ = false;
    if (!more.ok()) {
      wave.state = WaveState::kFree;
      stop_locked(more.status());
    } else {
      exhausted_ = exhausted_ || !*more;
      wave.next_group = 0;
      wave.groups_left = static_cast<std::uint32_t>(wave.tasks.groups.size());
      if (wave.groups_left == 0 || stop_) {
        wave.state = WaveState::kFree;
      } else {
        ++stats_.waves;
        filled_.push_back(&wave);
      }
    }
  }
  notifier_.notify();
}

void ReadOperation::run_groups(Wave& wave, std::uint32_t begin, std::uint32_t end, Lane& lane) {
  std::uint32_t finished = 0;
  lane.cold.clear();
  lane.described = nullptr;  // task addresses are used again by the next wave
  for (std::uint32_t i = begin; i < end; ++i) {
    GroupResult result = GroupResult::kDone;
    try {
      if (!stop_.load(std::memory_order_relaxed)) result = process_group(wave, i, lane);
    } catch (const std::bad_alloc&) {
      wave.objects[i].close();
      lane.described = nullptr;
      stop(Status::out_of_memory());
    }
    if (result == GroupResult::kDone) {
      ++finished;
    } else {
      lane.cold.push_back(i);
    }
  }
  if (!lane.cold.empty()) post_cold(wave, lane);
  if (finished > 0) finish_groups(wave, finished, lane);
}

void ReadOperation::run_jobs(Lane& lane) {
  std::vector<IoJob*>& jobs = lane.jobs;
  lane.described = nullptr;
  for (IoJob* job : jobs) {
    Wave& wave = *waves_[static_cast<std::size_t>(job->user >> 32)];
    const auto index = static_cast<std::uint32_t>(job->user);
    lane.stats.read_bytes += job->read_bytes;
    (job->direct ? lane.stats.direct_bytes : lane.stats.engine_bytes) += job->read_bytes;
    try {
      if (stop_.load(std::memory_order_relaxed)) {
        // Only the buffers and descriptors are given back.
      } else if (!job->status.ok()) {
        fail_group(wave, index, lane, std::move(job->status));
      } else {
        decode_group(wave, index, job->data, job->offset, job->length, lane);
      }
    } catch (const std::bad_alloc&) {
      lane.described = nullptr;
      stop(Status::out_of_memory());
    }
    job->status = {};
  }
  Result<IoService*> service = resources_.io();
  if (service.ok()) (*service)->release(jobs);
  for (IoJob* job : jobs) {
    Wave& wave = *waves_[static_cast<std::size_t>(job->user >> 32)];
    wave.objects[static_cast<std::uint32_t>(job->user)].close();
    finish_groups(wave, 1, lane);
  }
  jobs.clear();
}

void ReadOperation::on_io_done(std::span<IoJob* const> jobs) noexcept {
  // Once the lock is gone a worker may end the read and free it.
  const WorkerPool::Notifier notifier = notifier_;
  {
    std::lock_guard lock(mutex_);
    // Never more than the capacity reserved when the jobs were posted.
    ready_jobs_.insert(ready_jobs_.end(), jobs.begin(), jobs.end());
    jobs_in_flight_ -= jobs.size();
  }
  notifier.notify();
}

void ReadOperation::finish_groups(Wave& wave, std::uint32_t count, Lane& lane) {
  bool launch = false;
  {
    std::lock_guard lock(mutex_);
    wave.groups_left -= count;
    if (wave.groups_left > 0) return;
    launch = staged_ && !stop_;
    if (launch) {
      wave.state = WaveState::kLaunching;
    } else {
      release_wave_locked(wave);
    }
  }
  if (launch) {
    Status status = launch_wave(wave, lane);
    std::lock_guard lock(mutex_);
    // Even a launch that failed half way may have queued work: the event tells when the slab is free.
    wave.state = WaveState::kDraining;
    if (!status.ok()) stop_locked(std::move(status));
  }
  notifier_.notify();
}

// Moves the wave's slab to the device and its chunks to their places: one copy call, at most one assemble call.
Status ReadOperation::launch_wave(Wave& wave, Lane& lane) {
  trace::Timer timer(trace::Stage::kAssemble);
  const std::uint64_t bus_bytes_before = lane.stats.bus_bytes;
  const device::ElementOp& op = plan_->element_op();
  bool scattered = !op.moves_bytes_only();
  std::size_t count = wave.tasks.tasks.size();
  std::size_t live = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const device::Box& box = wave.boxes[i];
    if (box.rank < 0) continue;
    scattered = scattered || box.src == nullptr || !device::is_contiguous(box, op.element_bytes);
    ++live;
  }
  Status status;
  try {
    if (live > 0) status = queue_wave(wave, scattered, lane);
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  Status recorded = device_->record(*wave.slot->event, *wave.slot->stream);
  wave.bus_bytes = lane.stats.bus_bytes - bus_bytes_before;
  wave.launched_ns = timer.start_ns();
  wave.copied_ns = 0;
  lane.stats.assemble_seconds += timer.stop();
  // Without the event nothing tells when the device is through; freeing its memory waits for that.
  if (!recorded.ok()) wave.slot.reset();
  return status.ok() ? recorded : status;
}

Status ReadOperation::queue_wave(Wave& wave, bool scattered, Lane& lane) {
  const device::ElementOp& op = plan_->element_op();
  StagingSlot& slot = *wave.slot;
  const std::size_t count = wave.tasks.tasks.size();
  wave.pieces.clear();
  if (!scattered) {
    // Every chunk is one run of the tensor: the bytes go straight there, neighbours as one piece.
    for (std::size_t i = 0; i < count; ++i) {
      const device::Box& box = wave.boxes[i];
      if (box.rank < 0) continue;
      const std::size_t bytes = static_cast<std::size_t>(box.element_count()) * op.element_bytes;
      if (bytes == 0) continue;
      if (!wave.pieces.empty()) {
        device::Piece& last = wave.pieces.back();
        if (last.src + last.bytes == box.src && last.dst + last.bytes == box.dst) {
          last.bytes += bytes;
          continue;
        }
      }
      wave.pieces.push_back({box.src, box.dst, bytes});
    }
    for (const device::Piece& piece : wave.pieces) lane.stats.bus_bytes += piece.bytes;
    return device_->copy_to_device(wave.pieces, *slot.stream);
  }
  std::size_t kept = 0;
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (wave.boxes[i].rank < 0) continue;
    if (kept != i) wave.boxes[kept] = wave.boxes[i];
    device::Box& box = wave.boxes[kept++];
    if (box.src == nullptr) continue;
    used = (i + 1) * slab_stride_;
    box.src = slot.on_device + (box.src - slot.pinned);
  }
  used = std::min(used, slot.bytes);
  if (used > 0) {
    const device::Piece piece{slot.pinned, slot.on_device, used};
    lane.stats.bus_bytes += used;
    HEADRACE_TRY(device_->copy_to_device({&piece, 1}, *slot.stream));
  }
  return device_->assemble({wave.boxes.data(), kept}, op, plan_->fill_element(), *slot.stream);
}

void ReadOperation::drain_wave(Wave& wave, Lane& lane) {
  const std::uint64_t start = base::now_ns();
  Status status;
  {
    trace::Span wait(trace::WaitFor{trace::Stage::kCopy});
    if (wave.slot != nullptr) status = device_->synchronize(*wave.slot->event);
  }
  if (!status.ok()) wave.slot.reset();
  if (trace::recording()) {
    trace::record(trace::Stage::kCopy, wave.launched_ns, wave.copied_ns != 0 ? wave.copied_ns : base::now_ns(),
                  wave.bus_bytes, trace::LaneKind::kDevice);
  }
  lane.stats.copy_seconds += seconds_since(start);
  {
    std::lock_guard lock(mutex_);
    draining_ = false;
    wave.being_drained = false;
    release_wave_locked(wave);
    if (!status.ok()) stop_locked(std::move(status));
  }
  notifier_.notify();
}

void ReadOperation::release_wave_locked(Wave& wave) {
  wave.tasks.sources.clear();  // shards are closed with the last wave that needs them
  wave.state = WaveState::kFree;
}

void ReadOperation::stop(Status status) {
  std::lock_guard lock(mutex_);
  stop_locked(std::move(status));
}

void ReadOperation::stop_locked(Status status) {
  if (status_.ok()) status_ = std::move(status);
  stop_ = true;
  exhausted_ = true;
  for (Wave* wave : filled_) {
    wave->groups_left -= static_cast<std::uint32_t>(wave->tasks.groups.size()) - wave->next_group;
    wave->next_group = static_cast<std::uint32_t>(wave->tasks.groups.size());
    if (wave->groups_left == 0) release_wave_locked(*wave);
  }
  filled_.clear();
}

// True for the one call that finds everything finished.
bool ReadOperation::complete_locked() {
  if (ending_ || filling_ || jobs_in_flight_ > 0 || !ready_jobs_.empty()) return false;
  for (const auto& wave : waves_) {
    if (wave->state != WaveState::kFree) return false;
  }
  ending_ = true;
  for (const auto& lane : lanes_) stats_ += lane->stats;
  Result<IoService*> service(Status::out_of_memory());
  if (stats_.direct_bytes + stats_.engine_bytes > 0) service = resources_.io();
  try {
    stats_.engine = service.ok() ? (*service)->engine().name : "none";
    stats_.path = describe_path(stats_, stats_.engine);
  } catch (const std::bad_alloc&) {  // the counts remain
  }
  stats_.wall_seconds = seconds_since(start_ns_);
  give_back();
  return true;
}

void ReadOperation::report_progress() {
  if (!options_.progress) return;
  {
    std::lock_guard lock(mutex_);
    const std::uint64_t now = base::now_ns();
    if (now - last_progress_ns_ < 100'000'000) return;
    last_progress_ns_ = now;
  }
  options_.progress(chunks_done_.load(std::memory_order_relaxed), plan_->chunk_count());
}

}  // namespace headrace::transfer
