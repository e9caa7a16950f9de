#include "transfer/fetch/io_service.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "base/part.h"
#include "base/trace.h"
#include "io/request_queue.h"
#include "os/direct_align.h"
#include "os/page_buffer.h"
#include "transfer/fetch/register_later.h"
#include "transfer/fetch/slab_map.h"
#include "transfer/fetch/straight_reads.h"

namespace headrace::transfer {
namespace {

constexpr std::size_t kMaxBatch = 256;  // requests started and completions taken at a time

}  // namespace

class IoService::Impl {
 public:
  // The memory that jobs get pieces of.
  struct Area {
    explicit Area(std::size_t bytes) : map(bytes), size(bytes) {}
    std::span<std::byte> whole() const noexcept { return {slab.data(), static_cast<std::size_t>(size)}; }

    os::PageBuffer slab;
    SlabMap map;  // guarded by mutex
    const std::uint64_t size;
    bool dedicated_in_use = false;  // guarded by mutex: only one read larger than the slab at a time
    os::PageBuffer dedicated;       // guarded by dedicated_in_use
  };

  Impl(std::unique_ptr<io::Engine> made, std::string refused_text, const IoServiceOptions& options)
      : engine(std::move(made)),
        refused(std::move(refused_text)),
        files(options.slab_bytes),
        ranges(options.store_slab_bytes) {
    requests.reserve(kMaxBatch);
    done.reserve(kMaxBatch);
    from_stores.reserve(kMaxBatch);
    completions.resize(kMaxBatch);
    queue.emplace(*engine);
  }

  void run();
  bool place(ReadJob& job);
  Area& area_of(const ReadJob& job) noexcept { return job.read != nullptr ? ranges : files; }
  void start_jobs();
  void report();

  const std::unique_ptr<io::Engine> engine;
  const std::string refused;
  Area files, ranges;

  std::mutex mutex;
  std::vector<ReadJob*> waiting;  // guarded by mutex: not yet placed, from next_waiting on
  std::size_t next_waiting = 0;   // guarded by mutex
  bool stopping = false;          // guarded by mutex
  RegisterLater registering;      // the thread's own
  // The thread's own, made before it starts: if memory is short, the service fails to start, not while running.
  std::optional<io::RequestQueue> queue;
  std::vector<io::Request> requests;
  std::vector<io::RequestResult> completions;
  std::vector<ReadJob*> done;
  std::vector<StoreRead*> from_stores;
  StoreReads stores;
  std::shared_ptr<NearThreads> near;  // may be null
  std::thread thread;
};

// Gives the job a place to read into, or a failed status. False: no place is free. REQUIRES: mutex held.
bool IoService::Impl::place(ReadJob& job) {
  // An engine that reads into a device's memory accepts any alignment.
  job.alignment = job.direct && !job.straight ? os::direct_alignment(job.fd).offset_bytes : 1;
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62;  // widening cannot overflow below this
  if (job.offset > kMaxBytes || job.length > kMaxBytes) {
    job.status = Status(Code::kInvalidArgument, Layer::kTransfer, "the range exceeds the largest file size")
                     .with_range(job.offset, job.length);
    return true;
  }
  const os::WidenedRange range = os::widen(job.offset, job.length, job.alignment);
  job.aligned_offset = range.offset_bytes;
  if (!job.place.empty()) return true;
  const std::uint64_t bytes = base::align_up(range.length_bytes, SlabMap::kUnit);
  std::uint64_t at = 0;
  Area& area = area_of(job);
  job.dedicated = bytes > area.size;
  if (!job.dedicated) {
    if (area.slab.data() == nullptr && area.slab.reserve(static_cast<std::size_t>(area.size)).data() == nullptr) {
      job.status = Status::out_of_memory();
      return true;
    }
    if (!area.map.allocate(bytes, at)) return false;
    job.slot = area.whole().subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(bytes));
  } else {
    if (area.dedicated_in_use) return false;
    job.slot = area.dedicated.reserve(static_cast<std::size_t>(bytes));
    area.dedicated_in_use = true;
    if (job.slot.data() == nullptr) job.status = Status::out_of_memory();
  }
  return true;
}

// Starts waiting jobs. Those that cannot be started are added to `done`.
void IoService::Impl::start_jobs() {
  requests.clear();
  from_stores.clear();
  const std::uint64_t start_ns = base::now_ns();
  {
    std::lock_guard lock(mutex);
    while (next_waiting < waiting.size() && requests.size() + done.size() + from_stores.size() < kMaxBatch) {
      ReadJob& job = *waiting[next_waiting];
      if (!place(job)) break;
      ++next_waiting;
      const os::WidenedRange range = os::widen(job.offset, job.length, job.alignment);
      const auto buffer = base::part(job.memory(), 0, range.length_bytes);
      if (job.status.ok() && !buffer) {
        job.status = Status(Code::kInternal, Layer::kTransfer, "a read exceeds its buffer");
      }
      if (!job.status.ok()) {
        done.push_back(&job);
        continue;
      }
      job.start_ns = start_ns;
      if (job.read != nullptr) {
        from_stores.push_back(job.read);
        continue;
      }
      io::Request request;
      request.fd = job.fd;
      request.offset_bytes = job.aligned_offset;
      request.buffer = *buffer;
      request.min_bytes = range.lead_bytes + job.length;
      request.alignment_bytes = job.alignment;
      request.tag = reinterpret_cast<std::uint64_t>(&job);
      requests.push_back(request);
      if (!job.dedicated) registering.read(range.length_bytes);
    }
    if (next_waiting * 2 >= waiting.size()) {  // also clears a finished list; amortised
      waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(next_waiting));
      next_waiting = 0;
    }
  }
  if (!from_stores.empty()) stores.start(from_stores);
  if (requests.empty()) return;
  try {
    queue->reserve(requests.size());
  } catch (const std::bad_alloc&) {
    for (const io::Request& request : requests) {
      auto* job = reinterpret_cast<ReadJob*>(request.tag);
      job->status = Status::out_of_memory();
      done.push_back(job);
    }
    return;
  }
  queue->push(requests, true);  // run() waits next
}

void IoService::Impl::run() {
  trace::name_thread("I/O");
  NearThreads::Thread self(near);
  for (;;) {
    done.clear();
    registering.before_submit(*engine, files.whole());
    self.follow();
    start_jobs();
    if (!done.empty()) report();
    {
      std::lock_guard lock(mutex);
      if (stopping) break;
    }
    const std::size_t count = queue->wait(completions, std::chrono::milliseconds(500));
    done.clear();
    if (count > 0) HEADRACE_DELAY("transfer.engine_read");
    const std::uint64_t end_ns = count > 0 ? base::now_ns() : 0;
    for (std::size_t i = 0; i < count; ++i) {
      ReadJob& job = *reinterpret_cast<ReadJob*>(completions[i].tag);
      job.read_bytes = completions[i].bytes;
      job.status = std::move(completions[i].status);
      if (job.status.ok()) {
        const auto wanted = base::part(job.memory(), job.offset - job.aligned_offset, job.length);
        if (wanted) job.data = *wanted;
      }
      job.seconds = static_cast<double>(end_ns - job.start_ns) * 1e-9;
      trace::record(trace::Stage::kRead, job.start_ns, end_ns, job.read_bytes, trace::TrackKind::kIo);
      done.push_back(&job);
    }
    if (!done.empty()) report();
  }
  queue.reset();  // an engine is used by one thread only
}

// One call per run of jobs with the same sink.
void IoService::Impl::report() {
  for (std::size_t begin = 0; begin < done.size();) {
    IoSink* sink = done[begin]->sink;
    std::size_t end = begin + 1;
    while (end < done.size() && done[end]->sink == sink) ++end;
    sink->on_io_done({done.data() + begin, end - begin});
    begin = end;
  }
}

IoService::IoService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<IoService>> IoService::create(const IoServiceOptions& options) {
  io::EngineOptions engine_options;
  engine_options.depth = options.depth;
  engine_options.one_thread = true;
  if (options.to_device != nullptr) {
    reach_device(engine_options, *options.to_device);
    engine_options.must_reach_device = true;
  }
  std::string own_refused;
  std::string& refused = options.refused != nullptr ? *options.refused : own_refused;
  const NearThreads::StartsThreads starting;  // for the engine's threads too
  HEADRACE_TRY_ASSIGN(auto engine, io::make_engine(options.engine, engine_options, &refused));
  auto impl = std::make_unique<Impl>(std::move(engine), refused, options);
  impl->near = options.near;
  if (options.slab_bytes != 0 && impl->files.slab.reserve(options.slab_bytes).data() == nullptr)
    return Status::out_of_memory();
  try {
    impl->thread = std::thread([raw = impl.get()] { raw->run(); });
  } catch (const std::exception& error) {
    return Status(Code::kResourceExhausted, Layer::kTransfer, "the I/O thread could not be started")
        .with_cause(error.what());
  }
  return std::unique_ptr<IoService>(new IoService(std::move(impl)));
}

IoService::~IoService() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->engine->wake();
  impl_->thread.join();
}

const io::EngineInfo& IoService::engine() const noexcept { return impl_->engine->info(); }
std::string IoService::engine_features() const {
  std::string out = impl_->engine->info().features;
  if (const std::string buffers = impl_->engine->registration(); !buffers.empty()) {
    out += (out.empty() ? "" : " ") + buffers;
  }
  return out;
}
const std::string& IoService::refused_engines() const noexcept { return impl_->refused; }

void IoService::submit(std::span<ReadJob* const> jobs) {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->waiting.insert(impl_->waiting.end(), jobs.begin(), jobs.end());
  }
  impl_->engine->wake();
}

void IoService::cancel(IoSink& sink) noexcept {
  for (;;) {
    ReadJob* jobs[64];
    std::size_t count = 0;
    {
      std::lock_guard lock(impl_->mutex);
      std::vector<ReadJob*>& waiting = impl_->waiting;
      auto keep = waiting.begin() + static_cast<std::ptrdiff_t>(impl_->next_waiting);
      for (auto at = keep; at != waiting.end(); ++at) {
        if ((*at)->sink == &sink && (*at)->read != nullptr && count < std::size(jobs)) {
          jobs[count++] = *at;
        } else {
          *keep++ = *at;
        }
      }
      waiting.erase(keep, waiting.end());
    }
    if (count == 0) break;
    for (std::size_t i = 0; i < count; ++i) StoreReads::set_cancelled(*jobs[i]->read);
    sink.on_io_done({jobs, count});
  }
  impl_->stores.cancel();
}

void IoService::release(std::span<ReadJob* const> jobs) noexcept {
  bool wake = false;
  {
    std::lock_guard lock(impl_->mutex);
    for (ReadJob* job : jobs) {
      Impl::Area& area = impl_->area_of(*job);
      if (job->dedicated) {
        area.dedicated_in_use = false;
      } else if (!job->slot.empty()) {
        area.map.release(static_cast<std::uint64_t>(job->slot.data() - area.slab.data()), job->slot.size());
      }
      job->slot = {};
    }
    wake = impl_->next_waiting < impl_->waiting.size();
  }
  if (wake) impl_->engine->wake();
}

}  // namespace headrace::transfer
