#include <time.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>

#include "base/clock.h"
#include "store/range_read.h"
#include "store/store.h"
#include "system/probes.h"
#include "system/remote_probe.h"

namespace headrace::system {
namespace {

constexpr std::uint64_t kMostRange = std::uint64_t{4} << 20;
constexpr std::uint64_t kMostMemory = std::uint64_t{256} << 20;
constexpr std::uint64_t kMostOverOne = std::uint64_t{64} << 20, kMostOverAll = std::uint64_t{512} << 20;
constexpr double kSecondsOverOne = 1.0, kSecondsOverAll = 2.0;

double process_cpu_seconds() {
  struct timespec used {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// As the user's, but for the number of connections; no cache, which would be what is measured.
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

// Ranges of the objects in turn, from the start of each to its end.
class Walk {
 public:
  Walk(std::span<const RemoteObject> objects, std::uint64_t range_bytes) : objects_(objects), range_(range_bytes) {}
  void next(RangeRead& read, std::span<std::byte> memory) {
    const RemoteObject& object = objects_[at_];
    read = RangeRead();
    read.key = object.key;
    read.offset = offset_;
    read.out = memory.first(static_cast<std::size_t>(std::min(range_, object.bytes - offset_)));
    offset_ += read.out.size();
    if (offset_ < object.bytes) return;
    offset_ = 0;
    at_ = (at_ + 1) % objects_.size();
  }

 private:
  std::span<const RemoteObject> objects_;
  const std::uint64_t range_;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;
};

struct Run {
  double seconds = 0, cpu_seconds = 0;
  std::uint64_t bytes = 0;
};

struct Pull {
  std::unique_ptr<std::byte[]> memory;
  store::PendingRange range;  // the last: it goes first, and waits for what writes into the memory
};

Result<Run> run(ByteStore& store, std::span<const RemoteObject> objects, std::uint64_t range_bytes,
                std::uint32_t connections, double seconds, std::uint64_t most_bytes) {
  Walk walk(objects, range_bytes);
  const auto room = static_cast<std::size_t>(range_bytes);
  Run run;
  // The handshake is not what is measured.
  {
    auto memory = std::make_unique<std::byte[]>(1);
    RangeRead first;
    first.key = objects[0].key;
    first.out = {memory.get(), 1};
    HEADRACE_TRY(store::read_range(store, first));
  }
  const std::uint64_t begun = base::now_ns();
  const double cpu = process_cpu_seconds();
  std::deque<std::unique_ptr<Pull>> flying;
  const auto elapsed = [&] { return static_cast<double>(base::now_ns() - begun) * 1e-9; };
  std::uint64_t asked = 0;
  const auto start = [&](std::unique_ptr<Pull> pull) {
    walk.next(pull->range.read, {pull->memory.get(), room});
    asked += pull->range.read.out.size();
    pull->range.start(store);
    flying.push_back(std::move(pull));
  };
  for (std::uint32_t i = 0; i < connections && asked < most_bytes; ++i) {
    auto pull = std::make_unique<Pull>();
    pull->memory = std::make_unique<std::byte[]>(room);
    start(std::move(pull));
  }
  while (!flying.empty()) {
    std::unique_ptr<Pull> pull = std::move(flying.front());
    flying.pop_front();
    HEADRACE_TRY(pull->range.wait());
    run.bytes += pull->range.read.bytes;
    // The time is that of whole ranges: what is under way when it is over counts, and is waited for.
    if (asked >= most_bytes || elapsed() >= seconds) continue;
    auto next = std::make_unique<Pull>();
    next->memory = std::move(pull->memory);
    start(std::move(next));
  }
  run.seconds = elapsed();
  run.cpu_seconds = process_cpu_seconds() - cpu;
  return run;
}

}  // namespace

Result<RangeRates> measure_ranges(const std::string& url, std::span<const StorageOption> storage,
                                  std::span<const RemoteObject> objects, std::uint32_t connections) {
  std::uint64_t largest = 1;
  for (const RemoteObject& object : objects) largest = std::max(largest, object.bytes);
  RangeRates rates;
  rates.connections = connections;
  rates.range_bytes = std::min({kMostRange, kMostMemory / connections, largest});
  for (const bool all : {false, true}) {
    const std::vector<StorageOption> options = with_connections(storage, all ? connections : 1);
    HEADRACE_TRY_ASSIGN(const auto store, store::open_store(url, {.memory = nullptr, .storage = options}));
    ByteStore* const ranges = store->ranges();
    if (ranges == nullptr) return Status(Code::kInternal, Layer::kStore, "a remote store without ranges");
    auto ran = run(*ranges, objects, rates.range_bytes, all ? connections : 1, all ? kSecondsOverAll : kSecondsOverOne,
                   all ? kMostOverAll : kMostOverOne);
    if (!ran.ok() && ran.status().code() == Code::kAgainExhausted) {
      rates.throttled = true;
      return rates;
    }
    HEADRACE_TRY(ran.status());
    rates.bytes += ran->bytes;
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
    return say(RemoteBound::kThrottled,
               "the service: it refuses requests because there are too many; fewer connections, or more prefixes");
  }
  if (rates.one <= 0 || rates.all <= 0) return;
  const double times = rates.all / rates.one;
  // One thread receives.
  if (rates.cores >= 0.85) {
    std::snprintf(text, sizeof text, "the processor: %.2f cores are busy receiving, %.2f CPU seconds a GB", rates.cores,
                  rates.cpu_seconds_per_gigabyte);
    return say(RemoteBound::kProcessor, text);
  }
  const double whole = static_cast<double>(rates.range_bytes) / rates.one;  // seconds of a range over one connection
  const double wait = report.first_byte_median_seconds.value_or(0);
  if (times < 0.6 * rates.connections) {
    std::snprintf(text, sizeof text, "the network or the server: %u connections bring %.1f times what one does",
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
  std::snprintf(text, sizeof text, "the number of connections: each brings %s; more of them bring more",
                rate_text(rates.one).c_str());
  say(RemoteBound::kConnections, std::string(text) + " (HEADRACE_HTTP_CONNECTIONS)");
}

}  // namespace headrace::system
