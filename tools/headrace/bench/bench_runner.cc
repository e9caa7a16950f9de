#include "bench_runner.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "bench_job.h"

namespace headrace::bench {
namespace {

// Holds the threads of a stage until all are set up; none starts if one could not be.
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
};

// Contexts by engine: jobs with the same one share its threads and mapped windows, as one program would.
using Contexts = std::map<std::string, Context>;

Result<Context> context_for(const std::string& engine, unsigned worker_threads, Contexts& contexts) {
  if (const auto found = contexts.find(engine); found != contexts.end()) return found->second;
  ContextOptions options;
  options.engine = engine;
  options.threads = worker_threads;
  HEADRACE_TRY_ASSIGN(Context context, Context::create(options));
  return contexts.emplace(engine, std::move(context)).first->second;
}

Status prepare(const JobOptions& options, unsigned index, unsigned group, const Context& context,
               std::vector<Thread>& stage) {
  HEADRACE_TRY_ASSIGN(const Device device, Device::open(options.device));
  Thread thread;
  HEADRACE_TRY_ASSIGN(thread.job, !options.decode.empty() ? make_decode_job(options, context, device)
                                  : !options.zarr.empty() ? make_zarr_job(options, context, device)
                                                          : make_file_job(options, index, context, device));
  const std::vector<CacheRange> ranges = thread.job->cache_ranges();
  HEADRACE_TRY_ASSIGN(thread.result.before, set_cache_state(ranges, options.cache, options.block_bytes));
  thread.result.options = options;
  thread.result.group = group;
  thread.result.file = !options.decode.empty()  ? options.decode
                       : !options.zarr.empty()  ? options.zarr
                       : !options.paths.empty() ? options.paths
                                                : ranges.front().path;
  thread.result.device = device.name();
  thread.result.device_description = device.description();
  thread.result.engine = context.engine_name();
  stage.push_back(std::move(thread));
  return {};
}

// No exception may leave a thread.
template <class Work>
Status guarded(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

void run_thread(Thread& thread, StartLine& line) {
  thread.result.status = guarded([&] { return thread.job->set_up(); });
  if (!line.arrive_and_wait(thread.result.status.ok())) return;
  const Status ran = guarded([&] {
    thread.job->run(thread.result);
    return Status();
  });
  if (!ran.ok()) thread.result.status = ran;
  if (thread.result.status.ok() && thread.result.requests == 0) {
    thread.result.status =
        Status(Code::kInvalidArgument, Layer::kApi, "the job ended within its ramp_time: nothing counted");
  }
}

Status run_stage(std::vector<Thread>& stage) {
  StartLine line(stage.size());
  std::vector<std::thread> threads;
  threads.reserve(stage.size());
  for (Thread& thread : stage) {
    try {
      threads.emplace_back([&] { run_thread(thread, line); });
    } catch (const std::system_error& error) {
      thread.result.status =
          Status(Code::kResourceExhausted, Layer::kApi, "cannot start a thread").with_cause(error.what());
      line.arrive(false);
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (Thread& thread : stage) {
    // Sampled for the report alone: a file that has gone since is its job's failure, not this one's.
    if (auto after = sample_residency(thread.job->cache_ranges()); after.ok()) thread.result.after = *after;
    thread.job.reset();
  }
  const auto failed = std::find_if(stage.begin(), stage.end(), [](const Thread& t) { return !t.result.status.ok(); });
  return failed == stage.end() ? Status() : failed->result.status;
}

void collect(std::vector<Thread>& stage, BenchOutcome& outcome) {
  for (std::size_t i = 0; i < stage.size();) {
    std::vector<JobResult> group;
    const unsigned number = stage[i].result.group;
    bool together = false;
    for (; i < stage.size() && stage[i].result.group == number; ++i) {
      together = together || stage[i].result.options.group_reporting;
      group.push_back(std::move(stage[i].result));
    }
    outcome.groups.push_back(merge_results(group));
    if (together) {
      outcome.results.push_back(outcome.groups.back());
    } else {
      std::move(group.begin(), group.end(), std::back_inserter(outcome.results));
    }
  }
}

}  // namespace

Result<BenchOutcome> run_jobs(const std::vector<JobOptions>& jobs, unsigned worker_threads) {
  BenchOutcome outcome;
  Contexts contexts;
  unsigned group = 0;
  for (std::size_t next = 0; next < jobs.size();) {
    std::vector<Thread> stage;
    const std::size_t first = next;
    for (; next < jobs.size() && (next == first || !jobs[next].stonewall); ++next) {
      const JobOptions& options = jobs[next];
      if (next > 0 && (next == first || options.new_group)) ++group;
      HEADRACE_TRY_ASSIGN(const Context context, context_for(options.engine, worker_threads, contexts));
      for (unsigned i = 0; i < options.threads; ++i) HEADRACE_TRY(prepare(options, i, group, context, stage));
    }
    const Status status = run_stage(stage);
    collect(stage, outcome);
    if (!status.ok()) break;
  }
  return outcome;
}

}  // namespace headrace::bench
