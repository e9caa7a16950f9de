#include <sys/resource.h>

#include "bench_job.h"

namespace headrace::bench {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

CpuUse cpu_now() noexcept {
  CpuUse use;
  rusage thread{}, process{};
  if (::getrusage(RUSAGE_THREAD, &thread) != 0 || ::getrusage(RUSAGE_SELF, &process) != 0) return use;
  use.user_seconds = seconds_of(thread.ru_utime);
  use.system_seconds = seconds_of(thread.ru_stime);
  use.process_seconds = seconds_of(process.ru_utime) + seconds_of(process.ru_stime);
  use.context_switches = static_cast<std::uint64_t>(thread.ru_nvcsw + thread.ru_nivcsw);
  use.major_faults = static_cast<std::uint64_t>(thread.ru_majflt);
  use.minor_faults = static_cast<std::uint64_t>(thread.ru_minflt);
  return use;
}

}  // namespace

JobClock::JobClock(const JobOptions& options)
    : ramp_ns_(static_cast<std::uint64_t>(options.ramp_seconds * 1e9)),
      runtime_ns_(static_cast<std::uint64_t>(options.runtime_seconds * 1e9)) {}

void JobClock::start() noexcept {
  const std::uint64_t now = now_ns();
  counting_from_ = now + ramp_ns_;
  if (runtime_ns_ > 0) stop_ = counting_from_ + runtime_ns_;
}

bool JobClock::counting_begins(std::uint64_t now) noexcept {
  if (counting_since_ != 0 || now < counting_from_) return false;
  counting_since_ = now;
  cpu_ = cpu_now();
  return true;
}

void JobClock::finish(JobResult& result) noexcept {
  if (counting_since_ == 0) return;
  result.seconds = static_cast<double>(now_ns() - counting_since_) * 1e-9;
  const CpuUse now = cpu_now();
  result.cpu.user_seconds = now.user_seconds - cpu_.user_seconds;
  result.cpu.system_seconds = now.system_seconds - cpu_.system_seconds;
  result.cpu.process_seconds = now.process_seconds - cpu_.process_seconds;
  result.cpu.context_switches = now.context_switches - cpu_.context_switches;
  result.cpu.major_faults = now.major_faults - cpu_.major_faults;
  result.cpu.minor_faults = now.minor_faults - cpu_.minor_faults;
}

}  // namespace headrace::bench
