#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "store/range_read.h"
#include "store/store.h"
#include "system/probes.h"
#include "system/remote_probe.h"

namespace headrace::system {
namespace {

constexpr std::uint64_t kFirstRange = std::uint64_t{64} << 10, kMaxRange = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxMemory = std::uint64_t{256} << 20;
constexpr std::uint64_t kMaxBytesPerConnection = std::uint64_t{64} << 20, kMaxBytesOfAll = std::uint64_t{512} << 20;
constexpr double kSecondsOverOne = 1.0, kSecondsOverAll = 2.0;

double process_cpu_seconds() {
  struct timespec used {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// The user's options, with another number of connections and without a cache, which would otherwise be measured.
std::vector<StorageOption> with_connections(std::span<const StorageOption> given, std::uint32_t count) {
  std::vector<StorageOption> options;
  for (const StorageOption& option : given) {
    if (option.name.find("max_pool_connections") != std::string::npos || option.name.starts_with("cache_")) continue;
    options.push_back(option);
  }
  options.push_back({"max_pool_connections", std::to_string(count)});
  options.push_back({"cache_dir", "off"});
  return options;
}

// Iterates over ranges of the objects in turn, each from start to end.
class Walk {
 public:
  explicit Walk(std::span<const RemoteObject> objects) : objects_(objects) {}
  void next(RangeRead& read, std::span<std::byte> memory) {
    const RemoteObject& object = objects_[at_];
    read = RangeRead();
    read.key = object.key;
    read.offset = offset_;
    read.out = memory.first(static_cast<std::size_t>(std::min<std::uint64_t>(memory.size(), object.bytes - offset_)));
    offset_ += read.out.size();
    if (offset_ < object.bytes) return;
    offset_ = 0;
    at_ = (at_ + 1) % objects_.size();
  }

 private:
  std::span<const RemoteObject> objects_;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;
};

struct Run {
  double seconds = 0, cpu_seconds = 0;
  std::uint64_t bytes = 0, range_bytes = 0;
};

// Keeps that many ranges in flight. Ranges that are not done after twice the time are abandoned.
class RangeRun final : private RangeListener {
 public:
  RangeRun(ByteStore& store, std::span<const RemoteObject> objects, std::uint32_t connections, std::uint64_t max_range)
      : store_(store), walk_(objects), max_range_(max_range), pulls_(connections) {
    ended_.reserve(connections);
    for (Pull& pull : pulls_) pull.memory = std::make_unique<std::byte[]>(static_cast<std::size_t>(max_range));
  }

  // Starts with ranges of `range_bytes` and doubles them while each takes less than a fifth of a second.
  Result<Run> run(std::uint64_t range_bytes, double seconds, std::uint64_t max_bytes) {
    range_ = std::min(range_bytes, max_range_);
    started_ = base::now_ns();
    const double cpu = process_cpu_seconds();
    Run run;
    Status failure;
    std::uint64_t asked = 0;
    const auto start = [&](std::size_t index) {
      Pull& pull = pulls_[index];
      walk_.next(pull.read, {pull.memory.get(), static_cast<std::size_t>(range_)});
      asked += pull.read.out.size();
      pull.read.listener = this;
      pull.read.user = index;
      pull.begun = base::now_ns();
      ++flying_;
      RangeRead* const one[] = {&pull.read};
      if (Status refused = store_.start(one); !refused.ok()) {
        pull.read.status = std::move(refused);
        done(one);
      }
    };
    for (std::size_t i = 0; i < pulls_.size() && asked < max_bytes; ++i) start(i);
    bool cancelled = false;
    while (flying_ > 0) {
      const std::optional<std::size_t> index = wait(cancelled ? 3600 : std::max(0.0, 2 * seconds - elapsed()));
      if (!index) {
        cancelled = true;
        run.seconds = elapsed();
        cancel_all();
        continue;
      }
      --flying_;
      const RangeRead& read = pulls_[*index].read;
      if (cancelled) continue;
      Status status = store::check_answer(read);
      if (!status.ok()) {
        failure = std::move(status);
        cancelled = true;
        cancel_all();
        continue;
      }
      run.bytes += read.bytes;
      const double took = static_cast<double>(base::now_ns() - pulls_[*index].begun) * 1e-9;
      if (took < 0.2) range_ = std::min(2 * range_, max_range_);
      if (asked < max_bytes && elapsed() < seconds) start(*index);
    }
    HEADRACE_TRY(failure);
    if (run.seconds == 0) run.seconds = elapsed();
    run.cpu_seconds = process_cpu_seconds() - cpu;
    run.range_bytes = range_;
    return run;
  }

 private:
  struct Pull {
    RangeRead read;
    std::unique_ptr<std::byte[]> memory;
    std::uint64_t begun = 0;
  };

  double elapsed() const { return static_cast<double>(base::now_ns() - started_) * 1e-9; }
  // The index of a read that has ended; nothing on timeout.
  std::optional<std::size_t> wait(double seconds) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !ended_.empty(); })) return {};
    const std::size_t index = ended_.back();
    ended_.pop_back();
    return index;
  }
  void cancel_all() noexcept {
    for (Pull& pull : pulls_) {
      RangeRead* const one[] = {&pull.read};
      store_.cancel(one);  // ignores those that have ended
    }
  }
  void done(std::span<RangeRead* const> reads) noexcept override {
    std::lock_guard lock(mutex_);
    for (const RangeRead* read : reads) ended_.push_back(static_cast<std::size_t>(read->user));  // capacity is reserved
    changed_.notify_one();
  }

  ByteStore& store_;
  Walk walk_;
  const std::uint64_t max_range_;
  std::vector<Pull> pulls_;
  std::uint64_t range_ = 0, started_ = 0;
  std::size_t flying_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> ended_;  // guarded by mutex_
};

}  // namespace

Result<RangeRates> measure_ranges(const std::string& url, std::span<const StorageOption> storage,
                                  std::span<const RemoteObject> objects, std::uint32_t connections) {
  std::uint64_t largest = 1;
  for (const RemoteObject& object : objects) largest = std::max(largest, object.bytes);
  RangeRates rates;
  rates.connections = connections;
  for (const bool all : {false, true}) {
    const std::vector<StorageOption> options = with_connections(storage, all ? connections : 1);
    HEADRACE_TRY_ASSIGN(const auto store, store::open_store(url, {.memory = nullptr, .storage = options}));
    ByteStore* const ranges = store->ranges();
    if (ranges == nullptr) return Status(Code::kInternal, Layer::kStore, "a remote store without ranges");
    // Excludes the handshake from the measurement.
    std::byte memory{};
    RangeRead first;
    first.key = objects[0].key;
    first.out = {&memory, 1};
    HEADRACE_TRY(store::read_range(*ranges, first));
    RangeRun runner(*ranges, objects, all ? connections : 1, std::min({kMaxRange, kMaxMemory / connections, largest}));
    // Assumes that all connections together are no faster than one, so that some ranges end within the time.
    const std::uint64_t share = static_cast<std::uint64_t>(rates.one) / connections;
    auto ran = runner.run(all ? std::max(kFirstRange, share) : kFirstRange, all ? kSecondsOverAll : kSecondsOverOne,
                          all ? kMaxBytesOfAll : kMaxBytesPerConnection);
    if (!ran.ok() && ran.status().code() == Code::kAgainExhausted) {
      rates.throttled = true;
      return rates;
    }
    HEADRACE_TRY(ran.status());
    rates.bytes += ran->bytes;
    rates.range_bytes = ran->range_bytes;
    if (ran->seconds <= 0 || ran->bytes == 0) continue;
    (all ? rates.all : rates.one) = static_cast<double>(ran->bytes) / ran->seconds;
    if (all) {
      rates.cpu_seconds_per_gigabyte = ran->cpu_seconds * 1e9 / static_cast<double>(ran->bytes);
      rates.cores = ran->cpu_seconds / ran->seconds;
    }
  }
  return rates;
}

void find_bound(const RangeRates& rates, RemoteReport& report) {
  char text[256];
  const auto say = [&](RemoteBound bound, const std::string& sentence) {
    report.bound = bound;
    report.bound_sentence = sentence;
  };
  if (rates.throttled) {
    return say(RemoteBound::kThrottled, "the service: it throttles requests; use fewer connections or more prefixes");
  }
  if (rates.one <= 0 || rates.all <= 0) return;
  const double times = rates.all / rates.one;
  // A single thread receives.
  if (rates.cores >= 0.85) {
    std::snprintf(text, sizeof text, "the processor: %.2f cores are busy receiving, %.2f CPU seconds a GB", rates.cores,
                  rates.cpu_seconds_per_gigabyte);
    return say(RemoteBound::kProcessor, text);
  }
  const double whole = static_cast<double>(rates.range_bytes) / rates.one;  // seconds per range on one connection
  const double wait = report.first_byte_median_seconds.value_or(0);
  if (times < 0.6 * rates.connections) {
    std::snprintf(text, sizeof text, "the network or the server: %u connections give %.1f times the rate of one",
                  rates.connections, times);
    return say(RemoteBound::kNetwork, text);
  }
  if (wait > 0.5 * whole) {
    std::snprintf(text, sizeof text,
                  "latency: %.0f %% of a request's time passes before its first byte; larger chunks, or more "
                  "connections (HEADRACE_HTTP_CONNECTIONS)",
                  std::min(100.0, 100 * wait / whole));
    return say(RemoteBound::kLatency, text);
  }
  std::snprintf(text, sizeof text, "the number of connections: each gives %s; add connections",
                rate_text(rates.one).c_str());
  say(RemoteBound::kConnections, std::string(text) + " (HEADRACE_HTTP_CONNECTIONS)");
}

}  // namespace headrace::system
