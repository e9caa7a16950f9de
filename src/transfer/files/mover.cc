#include "transfer/files/mover.h"

#include <algorithm>
#include <new>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/trace.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kMinSlabBytes = std::size_t{4} << 20;
constexpr std::size_t kLongList = 4096;
constexpr std::uint64_t kSpinNs = 100'000;  // spinning before the first nap: waking takes nearly as long
constexpr auto kNap = std::chrono::microseconds(20);
// How often the engine is polled while there is other work. Parts that arrive while a batch is in flight mostly wait
// for its end anyway, so polling less often collects more of them per system call.
constexpr std::uint64_t kPollEngineNs = 20'000, kPollBesideBatchNs = 100'000;
constexpr std::uint64_t kLongestNapNs = 800'000;

RoutePolicy policy(const FileQueueOptions& queue, const QueueSkips& skips, const ContextOptions& context, bool staged) {
  return {.path = queue.path,
          .staged = staged,
          .skip_io = skips.io,
          .allow_mapped = context.allow_mapped,
          .allow_direct = context.allow_direct,
          .network_direct = queue.network_direct,
          .cache_reread = context.cache_reread,
          .when_missing = Way::kDirect};
}

Status invalid(std::string message) { return Status(Code::kInvalidArgument, Layer::kTransfer, std::move(message)); }

}  // namespace

Mover::Mover(std::shared_ptr<Resources> resources, std::shared_ptr<device::Device> device,
             const FileQueueOptions& options, const QueueSkips& skips)
    : resources_(std::move(resources)),
      device_(std::move(device)),
      options_(options),
      skips_(skips),
      staged_(!device_->info().host_addressable),
      router_(policy(options_, skips_, resources_->options(), staged_), device_, resources_->mapped(),
              resources_->reuse()),
      files_(*resources_) {}

Status Mover::prepare() {
  if (options_.depth < 1 || options_.depth > 4096) return invalid("depth must be 1 to 4096");
  if (options_.staging_bytes < kMinSlabBytes) return invalid("staging_bytes must be at least 4 MiB");
  HEADRACE_TRY(resources_->check_usable());
  HEADRACE_TRY(parts_.open(device_, options_.staging_bytes, staged_));
  const std::size_t most = parts_.capacity();
  arrived_.reserve(most);
  direct_.reserve(most);
  const bool may_map =
      staged_ && resources_->options().allow_mapped && (options_.path == Path::kAuto || options_.path == Path::kMapped);
  crew_.open(resources_->pool(), may_map ? &resources_->mapped() : nullptr, device_, resources_->threads(), most,
             [this] { direct_.wake(); });
  if (staged_) HEADRACE_TRY(in_.open(device_, most));
  near_use_ = resources_->near().use(staged_ ? device_->info().numa_node : NearThreads::kAllCpus);
  files_.begin();
  return {};
}

Mover::~Mover() {
  if (!resources_->check_usable().ok()) return;  // a forked child: threads, engine and device are the parent's
  if (crew_.is_open()) {                         // else nothing was added
    for (const Index index : requests_.waiting()) {
      requests_.fail(index, Status(Code::kCancelled, Layer::kTransfer, "the queue was destroyed"));
    }
    FileCompletion gone;
    while (pending() > 0) (void)wait({&gone, 1}, 1, std::chrono::seconds(1));
    crew_.close();
  }
  direct_.close();
  in_.close();
  out_.close();
  caller_stream_event_.reset();
  caller_stream_.reset();
  parts_.close();
}

void Mover::leave_thread() {
  direct_.close();
  files_.drop_idle();
}

FileStats Mover::stats() const {
  FileStats out = stats_;
  out.engine = direct_.name();
  out.system_calls += direct_.system_calls();
  out.notes = router_.notes().text();
  out.system_calls += router_.system_calls();
  if (!resources_->check_usable().ok()) return out;  // a thread of the parent may hold the locks behind the rest
  if (const std::string mapped = resources_->mapped().note(); !mapped.empty()) out.notes += mapped + "\n";
  if (const std::string near = resources_->near().note(); !near.empty()) out.notes += near + "\n";
  return out;
}

Status Mover::add(const std::shared_ptr<os::FileHandle>& file, std::span<const FileRange> ranges, bool write,
                  std::uint64_t tag) {
  if (write && !file->writable()) {
    return invalid("the file is open for reading only").with_key(file->path());
  }
  std::uint64_t bytes = 0;
  for (const FileRange& range : ranges) {
    if (range.memory == nullptr && range.bytes != 0)
      return invalid("a range has a null memory pointer").with_key(file->path());
    if (range.offset_bytes > INT64_MAX || range.bytes > INT64_MAX - range.offset_bytes) {
      return invalid("a range ends beyond the largest file size").with_range(range.offset_bytes, range.bytes);
    }
    bytes += range.bytes;
  }
  HEADRACE_TRY(resources_->check_usable());
  HEADRACE_TRY(check_cancelled());
  const Index index = requests_.next();
  router_.begin_round();  // what the router has learnt before this request may no longer hold for the file
  FileRequest& request = requests_[index];
  if (write && staged_ && !out_.is_open()) HEADRACE_TRY(out_.open(device_, parts_.capacity()));
  const bool first = requests_.waiting().empty() && ranges.size() > kLongList;
  if (first) {
    request.list = ranges;
  } else {
    request.ranges.assign(ranges.begin(), ranges.end());
    request.list = request.ranges;
  }
  request.file = files_.acquire(file);  // nothing fails from here on
  request.count = ranges.size();
  request.write = write;
  request.tag = tag;
  request.bytes = bytes;
  requests_.begin(index);
  if (!first) return {};
  // A long list is started from the caller's memory; the rest is copied while the device is working.
  (void)progress();
  const auto left = requests_[index].list.subspan(std::min(requests_[index].next, ranges.size()));
  try {
    requests_[index].ranges.assign(left.begin(), left.end());
  } catch (const std::bad_alloc&) {
    requests_.fail(index, Status::out_of_memory());
    requests_[index].ranges.clear();
  }
  requests_[index].list = requests_[index].ranges;
  requests_[index].next = 0;
  return {};
}

Status Mover::add_paths(std::span<const PathRange> ranges, std::uint64_t tag) {
  std::uint64_t bytes = 0;
  for (const PathRange& range : ranges) {
    if (range.path == nullptr || (range.memory == nullptr && range.bytes != 0)) {
      return invalid("a range has a null path or memory pointer");
    }
    // Each range is one piece of the slab.
    if (staged_ && range.bytes > options_.staging_bytes / 2) {
      return invalid("larger than half of staging_bytes: open it as a File").with_key(range.path);
    }
    bytes += range.bytes;
  }
  HEADRACE_TRY(resources_->check_usable());
  HEADRACE_TRY(check_cancelled());
  const Index index = requests_.next();
  FileRequest& request = requests_[index];
  request.paths.assign(ranges.begin(), ranges.end());
  request.count = ranges.size();
  request.write = false;
  request.tag = tag;
  request.bytes = bytes;
  requests_.begin(index);
  return {};
}

void Mover::flush() {
  if (resources_->check_usable().ok()) (void)progress();
}

std::size_t Mover::wait(std::span<FileCompletion> out, std::size_t at_least, std::chrono::nanoseconds timeout) {
  if (const Status usable = resources_->check_usable(); !usable.ok()) {
    requests_.end_all(usable);
  } else {
    work(std::min({at_least, out.size(), pending()}), timeout);
  }
  const std::size_t count = std::min(requests_.ended().size(), out.size());
  for (std::size_t i = 0; i < count; ++i) {
    FileRequest& request = requests_[requests_.ended()[i]];
    const std::uint64_t bytes = request.status.ok() ? request.bytes : 0;
    stats_.ranges += request.count;
    ++stats_.requests;
    if (request.file != FileRequest::kNoFile) {
      if (!request.status.ok()) {
        request.status = std::move(request.status).with_key(files_[request.file].handle->path());
      }
      files_.release(request.file);
    }
    out[i] = {request.tag, bytes, std::move(request.status)};
  }
  requests_.take_ended(count);
  return count;
}

// Works until `at_least` requests have ended or the time is up.
void Mover::work(std::size_t at_least, std::chrono::nanoseconds timeout) {
  const std::uint64_t start = base::now_ns();
  const auto span = static_cast<std::uint64_t>(std::max<std::int64_t>(timeout.count(), 0));
  const std::uint64_t deadline = span > ~start ? ~std::uint64_t{0} : start + span;
  std::uint64_t busy_ns = start;
  std::optional<trace::Span> waiting;  // from when nothing could progress until something could
  waiting_ = true;
  for (;;) {
    const bool any = progress();
    if (requests_.ended().size() >= at_least) break;
    const std::uint64_t now = base::now_ns();
    if (any) {
      busy_ns = now;
      waiting.reset();
      continue;
    }
    if (now >= deadline) break;
    if (options_.caller_reads && crew_.outstanding() > 0 && crew_.help()) {
      waiting.reset();
      continue;
    }
    if (!waiting.has_value()) waiting.emplace(trace::WaitFor{awaited_stage()});
    // The fastest way to notice the end of a batch while nothing else is in flight.
    const bool only_batches =
        in_.in_flight() > 0 && out_.in_flight() == 0 && direct_.in_flight() == 0 && crew_.outstanding() == 0;
    if (now - busy_ns < kSpinNs && only_batches && in_.passes_soon()) continue;
    idle(deadline, busy_ns);
  }
  waiting_ = false;
  start_engine(false);
}

// kCancelled once the token was triggered; all requests then fail.
Status Mover::check_cancelled() {
  if (!options_.cancel || (!cancelled_ && !options_.cancel->asked())) return {};
  Status status(Code::kCancelled, Layer::kTransfer, "the transfer was cancelled");
  if (!cancelled_) requests_.fail_all(status);
  cancelled_ = true;
  return status;
}

// Makes all progress that is possible without waiting; false if there was none.
bool Mover::progress() {
  if (options_.cancel && !cancelled_) (void)check_cancelled();
  const std::uint64_t turn = requests_.turn();
  bool any = take_passed(in_);
  any = take_passed(out_) || any;
  any = collect() || any;
  any = take_arrived() || any;
  issue();
  any = any || requests_.turn() != turn;
  // Launches the batch being filled, unless it is small, other batches keep the device busy and more parts are in
  // flight.
  for (CopyLane* lane : {&in_, &out_}) {
    if (!lane->is_open()) continue;
    const bool others = lane->in_flight() > 0 && (direct_.in_flight() > 0 || crew_.outstanding() > 0);
    if (!others || lane->filling().worth_a_copy()) launch(*lane);
  }
  return any;
}

bool Mover::take_passed(CopyLane& lane) {
  bool any = false;
  while (CopyBatch* const batch = lane.take_passed()) {
    finish_batch(lane, *batch);
    any = true;
  }
  return any;
}

// Collects what crew and engine have completed.
bool Mover::collect() {
  bool any = crew_.collect(false, {}, arrived_, stats_.system_calls);
  const std::uint64_t apart = in_.in_flight() + out_.in_flight() > 0 ? kPollBesideBatchNs : kPollEngineNs;
  if (direct_.in_flight() > 0 && base::now_ns() - direct_.reaped_ns() > apart) any = reap_engine({}) || any;
  return any;
}

// Handles arrived parts until one finds no batch to join.
bool Mover::take_arrived() {
  std::size_t taken = 0;
  while (taken < arrived_.size() && arrive(*arrived_[taken])) ++taken;
  arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(taken));
  return taken > 0;
}

bool Mover::reap_engine(std::chrono::nanoseconds timeout) {
  const std::size_t count = direct_.reap(arrived_, timeout);
  if (direct_.in_flight() == 0) crew_.set_quiet(false);
  return count > 0;
}

// What a thread without work waits for.
trace::Stage Mover::awaited_stage() const noexcept {
  if (direct_.in_flight() == 0 && crew_.outstanding() == 0) return trace::Stage::kCopy;
  return out_.in_flight() > 0 ? trace::Stage::kWrite : trace::Stage::kRead;
}

void Mover::idle(std::uint64_t deadline_ns, std::uint64_t busy_ns) {
  const std::uint64_t now = base::now_ns();
  const std::chrono::nanoseconds left(deadline_ns > now ? std::min<std::uint64_t>(deadline_ns - now, 500'000'000) : 0);
  const bool batches = in_.in_flight() + out_.in_flight() > 0;
  if (direct_.in_flight() > 0 && batches && now - busy_ns < kSpinNs) {
    start_engine(false);
    base::relax();  // the device finishes sooner than a call that waits for the disk would return
  } else if (direct_.in_flight() > 0) {
    crew_.sleeps_elsewhere(true);
    // With a batch or the crew also in flight, the nap has to be short. The longer the wait has lasted, the longer a
    // nap may be.
    std::uint64_t most = 500'000'000;
    if (batches) most = std::min(now - busy_ns, kLongestNapNs);
    if (crew_.outstanding() > 0) most = std::min<std::uint64_t>(most, 50'000);
    start_engine(true);
    (void)reap_engine(std::min(left, std::chrono::nanoseconds(most)));
    crew_.sleeps_elsewhere(false);
  } else if (now - busy_ns < kSpinNs) {
    base::relax();
  } else if (crew_.outstanding() > 0) {
    (void)crew_.collect(true, std::min(left, batches ? std::chrono::nanoseconds(kNap) : left), arrived_,
                        stats_.system_calls);
  } else if (batches) {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kNap));
  }
}

}  // namespace headrace::transfer
