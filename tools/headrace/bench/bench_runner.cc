#include "bench_runner.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "bench_job.h"
#include "bench_progress.h"
#include "remote_options.h"

namespace headrace::bench {
namespace {

// Holds the threads of a stage until all are set up; if any set-up fails, none starts.
class StartLine {
 public:
  explicit StartLine(std::size_t threads) : missing_(threads) {}

  bool arrive_and_wait(bool ready) {
    arrive(ready);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return missing_ == 0; });
    return all_ready_;
  }

  void arrive(bool ready) {
    std::lock_guard lock(mutex_);
    all_ready_ = all_ready_ && ready;
    if (--missing_ == 0) changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t missing_;
  bool all_ready_ = true;
};

struct Thread {
  std::unique_ptr<BenchJob> job;
  JobResult result;
  unsigned index = 0;   // within its job
  unsigned number = 0;  // within the run, from 1
  JobMonitor monitor;
};
using Stage = std::vector<std::unique_ptr<Thread>>;

// Contexts by engine. Jobs with the same engine share threads and mapped windows, like one program.
using Contexts = std::map<std::string, Context>;

Result<Context> context_for(const std::string& engine, unsigned worker_threads, Contexts& contexts) {
  if (const auto found = contexts.find(engine); found != contexts.end()) return found->second;
  ContextOptions options;
  options.engine = engine;
  options.threads = worker_threads;
  HEADRACE_TRY_ASSIGN(Context context, Context::create(options));
  return contexts.emplace(engine, std::move(context)).first->second;
}

Status prepare(const JobOptions& options, unsigned index, unsigned group, const Context& context, unsigned number,
               Stage& stage) {
  HEADRACE_TRY_ASSIGN(const Device device, Device::open(options.is_remote() ? "host" : options.device));
  auto made = std::make_unique<Thread>();
  Thread& thread = *made;
  thread.index = index;
  thread.number = number;
  HEADRACE_TRY_ASSIGN(thread.job, !options.decode.empty() ? make_decode_job(options, context, device)
                                  : !options.zarr.empty() ? make_zarr_job(options, context, device)
                                  : options.is_remote()   ? make_remote_job(options, index, context)
                                                          : make_file_job(options, index, context, device));
  const std::vector<CacheRange> ranges = thread.job->cache_ranges();
  if (!options.is_remote()) {
    HEADRACE_TRY_ASSIGN(thread.result.before, set_cache_state(ranges, options.cache, options.largest_block()));
  }
  thread.result.options = options;
  thread.result.group = group;
  thread.result.file = !options.decode.empty()  ? cli::shown_urls(options.decode)
                       : !options.zarr.empty()  ? cli::shown_urls(options.zarr)
                       : !options.paths.empty() ? options.paths
                       : options.is_remote()    ? cli::shown_urls(options.filename)
                                                : ranges.front().path;
  thread.result.device = device.name();
  thread.result.device_description = device.description();
  thread.result.engine = options.is_remote() ? "http" : context.engine_name();
  for (const OptionNote& note : options.notes) thread.result.notes.push_back(note.key + ": " + note.text);
  if (!options.cpus.empty()) {
    thread.result.notes.push_back("cpus_allowed: the job's thread is pinned, the library's threads are not");
  }
  stage.push_back(std::move(made));
  return {};
}

// Keeps exceptions from leaving a thread.
template <class Work>
Status guarded(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

// Pins the job's own thread; the library's threads are not pinned.
Status pin(const Thread& thread) {
  const JobOptions& options = thread.result.options;
  if (options.cpus.empty()) return {};
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  for (std::size_t i = 0; i < options.cpus.size(); ++i) {
    const bool taken = !options.split_cpus || i == thread.index % options.cpus.size();
    if (taken && options.cpus[i] < CPU_SETSIZE) CPU_SET(options.cpus[i], &allowed);
  }
  const int error = ::pthread_setaffinity_np(::pthread_self(), sizeof(allowed), &allowed);
  if (error == 0) return {};
  return Status(Code::kInvalidArgument, Layer::kApi, "cpus_allowed: this process may not run on any of these CPUs")
      .with_cause(std::generic_category().message(error));
}

void run_thread(Thread& thread, StartLine& line) {
  thread.result.status = guarded([&] {
    const Status pinned = pin(thread);
    return pinned.ok() ? thread.job->set_up() : pinned;
  });
  if (!line.arrive_and_wait(thread.result.status.ok())) return;
  const Status ran = guarded([&] {
    thread.job->run(thread.result, thread.monitor);
    return Status();
  });
  if (!ran.ok()) thread.result.status = ran;
  const bool stopped = thread.monitor.stopped();
  thread.result.interrupted = interrupted() != 0;
  if (thread.result.options.exit_all) thread.monitor.stop->store(true);
  const bool nothing_to_do = stopped || thread.result.options.create_only;
  if (thread.result.status.ok() && thread.result.requests() == 0 && !nothing_to_do) {
    thread.result.status =
        Status(Code::kInvalidArgument, Layer::kApi, "the job ended within its ramp_time: nothing counted");
  }
}

// Bytes so far, and the progress of the job that is furthest behind.
ProgressNow look_at(const Stage& stage, std::uint64_t begun) {
  ProgressNow now;
  const double seconds = static_cast<double>(now_ns() - begun) * 1e-9;
  double least = 1;
  for (const auto& thread : stage) {
    const JobOptions& options = thread->result.options;
    const std::uint64_t bytes = thread->monitor.bytes.load(std::memory_order_relaxed);
    now.bytes += bytes;
    now.ios += thread->monitor.ios.load(std::memory_order_relaxed);
    double share = 0;
    const double whole = options.runtime_seconds + options.ramp_seconds + options.start_delay_seconds;
    if (options.runtime_seconds > 0) share = seconds / whole;
    const std::uint64_t expected = thread->job->expected_bytes();
    if (expected > 0 && !options.time_based) {
      share = std::max(share, static_cast<double>(bytes) / static_cast<double>(expected));
    }
    least = std::min(least, share);
  }
  now.share = least;
  return now;
}

Status run_stage(Stage& stage, const RunOptions& run) {
  StartLine line(stage.size());
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.reserve(stage.size());
  for (const auto& thread : stage) {
    thread->monitor.stop = &stop;
    try {
      threads.emplace_back([&thread = *thread, &line] { run_thread(thread, line); });
    } catch (const std::system_error& error) {
      thread->result.status =
          Status(Code::kResourceExhausted, Layer::kApi, "cannot start a thread").with_cause(error.what());
      line.arrive(false);
    }
  }
  {
    std::optional<BenchProgress> progress;
    if (run.show_progress || run.always_progress) {
      const std::uint64_t begun = now_ns();
      progress.emplace(
          "bench", [&stage, begun] { return look_at(stage, begun); }, run.always_progress);
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const auto& thread : stage) {
    // For the report only: if a file has disappeared, its job has already failed.
    if (!thread->result.options.is_remote()) {
      if (auto after = sample_residency(thread->job->cache_ranges()); after.ok()) thread->result.after = *after;
    }
    Status written = thread->job->write_logs(thread->number);
    if (thread->result.status.ok()) thread->result.status = std::move(written);
    thread->job.reset();
  }
  const auto failed = std::find_if(stage.begin(), stage.end(), [](const auto& t) { return !t->result.status.ok(); });
  return failed == stage.end() ? Status() : (*failed)->result.status;
}

void collect(Stage& stage, BenchOutcome& outcome) {
  for (std::size_t i = 0; i < stage.size();) {
    std::vector<JobResult> group;
    const unsigned number = stage[i]->result.group;
    bool together = false;
    for (; i < stage.size() && stage[i]->result.group == number; ++i) {
      JobResult& result = stage[i]->result;
      together = together || result.options.group_reporting;
      // Failures are kept even for jobs without statistics.
      if (result.options.stats || !result.status.ok() || result.verify.bad > 0) group.push_back(std::move(result));
    }
    if (group.empty()) continue;
    outcome.groups.push_back(merge_results(group));
    if (together) {
      outcome.results.push_back(outcome.groups.back());
    } else {
      std::move(group.begin(), group.end(), std::back_inserter(outcome.results));
    }
  }
}

}  // namespace

Result<BenchOutcome> run_jobs(const std::vector<JobOptions>& jobs, const RunOptions& run) {
  BenchOutcome outcome;
  Contexts contexts;
  unsigned group = 0, number = 0;
  for (std::size_t next = 0; next < jobs.size();) {
    Stage stage;
    const std::size_t first = next;
    for (; next < jobs.size() && (next == first || !jobs[next].stonewall); ++next) {
      const JobOptions options = as_run(jobs[next]);
      if (next > 0 && (next == first || options.new_group)) ++group;
      HEADRACE_TRY_ASSIGN(const Context context, context_for(options.engine, run.worker_threads, contexts));
      for (unsigned i = 0; i < options.threads; ++i) HEADRACE_TRY(prepare(options, i, group, context, ++number, stage));
    }
    const Status status = run_stage(stage, run);
    collect(stage, outcome);
    outcome.interrupted = interrupted() != 0;
    if (!status.ok() || outcome.interrupted) break;
  }
  return outcome;
}

}  // namespace headrace::bench
