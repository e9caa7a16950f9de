#include "workers.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <new>
#include <thread>

#include "support/sanitizer.h"

namespace headrace::stress {
namespace {

using Clock = std::chrono::steady_clock;

#ifdef HEADRACE_ASAN
constexpr const char* kSanitizerName = " (AddressSanitizer)";
constexpr bool kSanitizer = true;
#else
constexpr const char* kSanitizerName = support::kThreadSanitizer ? " (ThreadSanitizer)" : "";
constexpr bool kSanitizer = support::kThreadSanitizer;
#endif

// How much resident memory one case may add: the Context's budget of 64 MiB plus 256 MiB; more under a sanitizer, which
// keeps freed memory.
constexpr std::uint64_t kAllowance = (std::uint64_t{64} + 256 + (kSanitizer ? 700 : 0)) << 20;
constexpr int kTooMuchMemory = 40;
constexpr double kHangSeconds = kSanitizer ? 240 : 60;
constexpr std::size_t kMaxKinds = 16;

// Memory shared by a worker and the process that watches it.
struct Progress {
  std::atomic<std::uint64_t> number, cases, findings, began_ns, of_kind[kMaxKinds];
  std::atomic<std::uint64_t> reads, failed, refused_chunks, opens_refused, device_chunks, mapped_bytes, direct_bytes,
      buffered_bytes, skipped_bytes, not_judged;
  std::atomic<int> kind;
  std::atomic<bool> done;
};

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
}

std::uint64_t resident_bytes() {
  unsigned long long pages = 0, resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%llu %llu", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t max_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

struct Selected {
  std::vector<int> kinds;
  unsigned weights = 0;

  int draw(Dice& dice) const {
    std::uint64_t at = dice.below(weights);
    for (const int kind : kinds) {
      const unsigned weight = case_kinds()[static_cast<std::size_t>(kind)].weight;
      if (at < weight) return kind;
      at -= weight;
    }
    return kinds.front();
  }
};

class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options), started_(Clock::now()) {}

  int run();

 private:
  bool select_kinds();
  void start(unsigned job, std::uint64_t from);
  [[noreturn]] void work(unsigned job, std::uint64_t from);
  bool over() const {
    return options_.seconds > 0 && std::chrono::duration<double>(Clock::now() - started_).count() > options_.seconds;
  }
  void report(std::uint64_t number, int kind, const std::string& what) const {
    const std::string line = "FINDING " + what + "\n  again: store_fuzz --seed " + std::to_string(options_.seed) +
                             " --first " + std::to_string(number) + " --count 1 --kind " +
                             case_kinds()[static_cast<std::size_t>(kind)].name + "\n";
    [[maybe_unused]] const ssize_t wrote = ::write(STDOUT_FILENO, line.data(), line.size());
  }
  std::uint64_t findings() const;
  void watch();
  void look_after(unsigned job);
  void summary() const;
  std::string directory(const std::string& base, unsigned job) const {
    return base + "/store_fuzz." + std::to_string(::getpid()) + "." + std::to_string(job);
  }

  const RunOptions options_;
  const Clock::time_point started_;
  Selected selected_;
  Progress* progress_ = nullptr;
  std::vector<pid_t> workers_;
  std::vector<std::string> directories_;
};

bool Run::select_kinds() {
  const auto& kinds = case_kinds();
  std::string wanted = "," + options_.kinds + ",";
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string name = std::string(",") + kinds[i].name + ",";
    const std::size_t at = wanted.find(name);
    if (!options_.kinds.empty() && at == std::string::npos) continue;
    if (at != std::string::npos) wanted.erase(at, name.size() - 1);
    selected_.kinds.push_back(static_cast<int>(i));
    selected_.weights += kinds[i].weight;
  }
  if (!options_.kinds.empty() && wanted != ",") {
    std::fprintf(stderr, "store_fuzz: no kind '%s'; there are:\n", wanted.c_str());
    for (const CaseKind& kind : kinds) std::fprintf(stderr, "  %-10s %s\n", kind.name, kind.what);
    return false;
  }
  return true;
}

void Run::work(unsigned job, std::uint64_t from) {
  const bool cuda = std::any_of(options_.rig.devices.begin(), options_.rig.devices.end(),
                                [](const std::string& name) { return name.rfind("cuda", 0) == 0; });
  if (!kSanitizer && !cuda) {
    // An unbounded allocation must fail instead of taking the machine's memory.
    const rlimit limit{std::uint64_t{8} << 30, std::uint64_t{8} << 30};
    setrlimit(RLIMIT_AS, &limit);
  }
  Progress& progress = progress_[job];
  RigOptions rig_options = options_.rig;
  rig_options.directory = directories_[2 * job];
  rig_options.disk = options_.rig.disk.empty() ? "" : directories_[2 * job + 1];
  Rig rig(rig_options, make_contexts());
  Counts told;
  for (std::uint64_t number = from; number < options_.first + options_.count && !over(); number += options_.jobs) {
    Dice dice(options_.seed, number);
    const int kind = selected_.draw(dice);
    progress.kind = kind;
    progress.number = number;
    progress.began_ns = now_ns();
    const std::uint64_t most = max_resident_bytes(), before = options_.verbose ? 0 : resident_bytes();
    const std::string wrong = case_kinds()[static_cast<std::size_t>(kind)].run(rig, dice);
    ++progress.cases;
    ++progress.of_kind[kind];
    progress.reads += rig.counts.reads - told.reads;
    progress.failed += rig.counts.failed - told.failed;
    progress.refused_chunks += rig.counts.refused_chunks - told.refused_chunks;
    progress.opens_refused += rig.counts.opens_refused - told.opens_refused;
    progress.device_chunks += rig.counts.device_chunks - told.device_chunks;
    progress.mapped_bytes += rig.counts.mapped_bytes - told.mapped_bytes;
    progress.direct_bytes += rig.counts.direct_bytes - told.direct_bytes;
    progress.buffered_bytes += rig.counts.buffered_bytes - told.buffered_bytes;
    progress.skipped_bytes += rig.counts.skipped_bytes - told.skipped_bytes;
    progress.not_judged += rig.counts.not_judged - told.not_judged;
    told = rig.counts;
    if (!wrong.empty()) {
      ++progress.findings;
      report(number, kind, wrong);
    }
    const std::uint64_t after = max_resident_bytes();
    if (after > most && after > before + kAllowance) {
      ++progress.findings;
      report(number, kind, std::to_string((after - before) >> 20) + " MiB of memory were taken");
      _exit(kTooMuchMemory);
    }
    if (findings() >= options_.max_findings) break;
  }
  progress.done = true;
  _exit(0);
}

void Run::start(unsigned job, std::uint64_t from) {
  std::fflush(nullptr);
  progress_[job].began_ns = now_ns();
  const pid_t child = ::fork();
  if (child < 0) {
    std::perror("store_fuzz: fork");
    std::exit(2);
  }
  if (child == 0) work(job, from);
  workers_[job] = child;
}

std::uint64_t Run::findings() const {
  std::uint64_t out = 0;
  for (unsigned job = 0; job < options_.jobs; ++job) out += progress_[job].findings;
  return out;
}

// Checks whether the worker ended, and why.
void Run::look_after(unsigned job) {
  if (workers_[job] == 0) return;
  Progress& progress = progress_[job];
  int status = 0;
  const pid_t ended = ::waitpid(workers_[job], &status, WNOHANG);
  if (ended == 0) {
    const std::uint64_t began = progress.began_ns, now = now_ns();
    if (now > began && static_cast<double>(now - began) > kHangSeconds * 1e9) ::kill(workers_[job], SIGKILL);
    return;
  }
  workers_[job] = 0;
  if (progress.done) return;
  const bool told = WIFEXITED(status) && WEXITSTATUS(status) == kTooMuchMemory;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) std::exit(2);  // a fault of the machine, already reported
  if (!told) {
    ++progress.findings;
    const std::string how = !WIFSIGNALED(status)          ? "exit code " + std::to_string(WEXITSTATUS(status))
                            : WTERMSIG(status) == SIGKILL ? "no end, or killed from outside"
                                                          : std::string("signal ") + ::strsignal(WTERMSIG(status));
    report(progress.number, progress.kind, "the process ended: " + how);
  }
  const std::uint64_t next = progress.number + options_.jobs;
  if (findings() < options_.max_findings && next < options_.first + options_.count && !over()) start(job, next);
}

void Run::watch() {
  while (std::any_of(workers_.begin(), workers_.end(), [](pid_t pid) { return pid != 0; })) {
    for (unsigned job = 0; job < options_.jobs; ++job) look_after(job);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void Run::summary() const {
  const auto sum = [&](auto member) {
    std::uint64_t out = 0;
    for (unsigned job = 0; job < options_.jobs; ++job) out += progress_[job].*member;
    return static_cast<unsigned long long>(out);
  };
  const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  std::string kinds;
  for (const int kind : selected_.kinds) {
    std::uint64_t cases = 0;
    for (unsigned job = 0; job < options_.jobs; ++job) cases += progress_[job].of_kind[kind];
    kinds += (kinds.empty() ? "\"" : ", \"") + std::string(case_kinds()[static_cast<std::size_t>(kind)].name) +
             "\": " + std::to_string(cases);
  }
  char line[1536];
  std::snprintf(
      line, sizeof line,
      "{\"target\": \"store_fuzz%s\", \"technique\": \"stores\", \"seed\": %llu, \"first\": %llu, \"executions\": "
      "%llu, "
      "\"seconds\": %.0f, \"findings\": %llu, \"reads\": %llu, \"failed_reads\": %llu, \"refused_chunks\": %llu, "
      "\"refused_opens\": %llu, \"device_chunks\": %llu, \"mapped_bytes\": %llu, \"direct_bytes\": %llu, "
      "\"buffered_bytes\": %llu, \"skipped_bytes\": %llu, \"not_judged\": %llu, \"kinds\": {%s}}",
      kSanitizerName, static_cast<unsigned long long>(options_.seed), static_cast<unsigned long long>(options_.first),
      sum(&Progress::cases), seconds, static_cast<unsigned long long>(findings()), sum(&Progress::reads),
      sum(&Progress::failed), sum(&Progress::refused_chunks), sum(&Progress::opens_refused),
      sum(&Progress::device_chunks), sum(&Progress::mapped_bytes), sum(&Progress::direct_bytes),
      sum(&Progress::buffered_bytes), sum(&Progress::skipped_bytes), sum(&Progress::not_judged), kinds.c_str());
  print_result(line, options_.record);
}

int Run::run() {
  if (!select_kinds()) return 2;
  void* const shared =
      ::mmap(nullptr, sizeof(Progress) * options_.jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("store_fuzz: mmap");
    return 2;
  }
  progress_ = static_cast<Progress*>(shared);
  workers_.resize(options_.jobs);
  for (unsigned job = 0; job < options_.jobs; ++job) {
    new (&progress_[job]) Progress();
    directories_.push_back(directory(options_.rig.directory, job));
    directories_.push_back(directory(options_.rig.disk, job));
  }
  for (unsigned job = 0; job < options_.jobs; ++job) start(job, options_.first + job);
  watch();
  std::error_code ignored;
  for (std::size_t i = 0; i < directories_.size(); ++i) {
    if (i % 2 == 0 || !options_.rig.disk.empty()) std::filesystem::remove_all(directories_[i], ignored);
  }
  summary();
  return findings() > 0 ? 1 : 0;
}

}  // namespace

void print_result(const std::string& json, const RecordOptions& record) {
  std::printf("%s\n", json.c_str());
  if (record.file.empty()) return;
  char date[16] = "";
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
  if (std::FILE* out = std::fopen(record.file.c_str(), "a")) {
    std::fprintf(out, "%s, \"commit\": \"%s\", \"date\": \"%s\", \"machine\": \"%u cores\"}\n",
                 json.substr(0, json.size() - 1).c_str(), record.commit.c_str(), date,
                 std::thread::hardware_concurrency());
    std::fclose(out);
  } else {
    std::perror(record.file.c_str());
  }
}

int run_cases(const RunOptions& options) { return Run(options).run(); }

}  // namespace headrace::stress
