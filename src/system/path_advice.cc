#include <algorithm>
#include <cmath>
#include <cstdio>

#include "system/probes.h"

namespace headrace {

const char* read_path_name(ReadPath path) {
  switch (path) {
    case ReadPath::kDirect:
      return "direct";
    case ReadPath::kBuffered:
      return "buffered";
    case ReadPath::kMapped:
      return "mapped";
  }
  return "unknown";
}

namespace system {
namespace {

constexpr double kMostlyCached = 0.5;
constexpr double kWorthSaying = 1.1;  // smaller speed-ups are not mentioned

std::string scaled_text(double value, const char* const* units, int count) {
  int unit = 0;
  while (unit + 1 < count && value >= 999.5) {
    value /= 1000;
    ++unit;
  }
  char text[40];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
  return scaled_text(bytes, kUnits, 5);
}

std::string percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

// The minimum; nothing if any rate is unknown.
std::optional<double> slowest(std::initializer_list<std::optional<double>> rates) {
  std::optional<double> out;
  for (const auto& rate : rates) {
    if (!rate) return std::nullopt;
    out = std::min(out.value_or(*rate), *rate);
  }
  return out;
}

const EngineReport* find_engine(const SystemReport& report, std::string_view name) {
  for (const EngineReport& engine : report.engines) {
    if (engine.name == name) return &engine;
  }
  return nullptr;
}

class Adviser {
 public:
  Adviser(const PathReport& path, const DeviceReport& device, const SystemReport& report)
      : path_(path), device_(device), system_(report) {
    advice_.device = device.name;
  }

  PathAdvice advise() {
    choose();
    advice_.expected_bytes_per_second = expected(advice_.path, cached_);
    suggest();
    compose();
    return std::move(advice_);
  }

 private:
  // The rate of the bus; a device that the CPU can address has none.
  std::optional<double> bus() const {
    if (device_.host_addressable) return HUGE_VAL;
    return device_.pinned_to_device_bytes_per_second;
  }

  // Several threads copy; on a busy or small machine they may be no faster than one.
  std::optional<double> memory_copy() const {
    const HostReport& host = system_.host;
    if (!host.copy_one_core_bytes_per_second || !host.copy_all_cores_bytes_per_second) return std::nullopt;
    return std::max(*host.copy_one_core_bytes_per_second, *host.copy_all_cores_bytes_per_second);
  }

  std::optional<double> from_page_cache() const {
    if (!path_.page_cache_read_bytes_per_second) return slowest({memory_copy(), bus()});
    return slowest(
        {*path_.page_cache_read_bytes_per_second * std::max(1u, system_.host.copy_threads), memory_copy(), bus()});
  }

  std::optional<double> expected(ReadPath path, bool cached) const {
    if (path == ReadPath::kMapped) return bus();
    if (path == ReadPath::kDirect) return slowest({path_.direct_read_bytes_per_second, bus()});
    return cached ? from_page_cache() : slowest({path_.buffered_read_bytes_per_second, bus()});
  }

  bool direct_allowed() const {
    return !path_.is_network && !path_.is_fuse && !path_.is_memory && path_.direct_works.value_or(true);
  }

  void choose() {
    const bool mapping = device_.registers_file_mappings.value_or(false);
    cached_ = path_.is_memory || path_.resident_share.value_or(0) >= kMostlyCached;
    if (cached_) {
      advice_.path = mapping ? ReadPath::kMapped : ReadPath::kBuffered;
      advice_.reason = path_.is_memory ? path_.filesystem + " keeps files in memory"
                                       : "the page cache holds " + percent(*path_.resident_share) + " of " + sample();
      if (mapping) advice_.reason += " and the device reads it by itself";
      return;
    }
    advice_.path = direct_allowed() ? ReadPath::kDirect : ReadPath::kBuffered;
    advice_.reason = path_.resident_share
                         ? "the page cache holds " + percent(*path_.resident_share) + " of " + sample()
                         : std::string("no file could be tested; this applies to data outside the page cache");
    if (path_.is_network) {
      advice_.reason += ", and O_DIRECT is not used on network file systems unless asked for";
    } else if (path_.is_fuse) {
      advice_.reason += ", and O_DIRECT is not used through FUSE";
    } else if (!direct_allowed()) {
      advice_.reason += ", and direct reads are refused";
    }
  }

  std::string sample() const {
    return path_.sample_file == path_.path ? std::string("the file") : "'" + path_.sample_file + "'";
  }

  void suggest() {
    auto add = [&](std::string text) { advice_.faster.push_back(std::move(text)); };
    const HostReport& host = system_.host;
    const std::optional<double> now = advice_.expected_bytes_per_second;
    const auto better = [&](std::optional<double> rate) { return now && rate && *rate > *now * kWorthSaying; };

    if (advice_.path == ReadPath::kDirect) {
      if (const EngineReport* uring = find_engine(system_, "io_uring"); uring != nullptr && !uring->status.ok()) {
        add("allow io_uring (" + uring->status.message() + ")");
      } else if (uring != nullptr && uring->features.find("RLIMIT_MEMLOCK") != std::string::npos) {
        add("raise RLIMIT_MEMLOCK (ulimit -l, now " +
            bytes_text(static_cast<double>(host.memlock_limit_bytes.value_or(0))) +
            "), so that io_uring can register its buffers");
      }
    }
    if (advice_.path == ReadPath::kDirect && better(path_.buffered_read_bytes_per_second)) {
      add("buffered reads, which reached " + rate_text(*path_.buffered_read_bytes_per_second) +
          " here with one thread");
    }
    if (!cached_ && advice_.path == ReadPath::kBuffered && path_.direct_works == false) {
      add("keep the data on a file system that takes O_DIRECT");
    }
    if (cached_ && advice_.path == ReadPath::kBuffered) {
      if (!device_.host_addressable && better(bus())) {
        add("let the device read the page cache: " + device_.registers_file_mappings_why_not);
      }
      if (host.copy_threads > 0 && host.copy_threads < 4 && (device_.host_addressable || better(bus()))) {
        add("more CPUs (" + std::to_string(host.copy_threads) + " may be used, which limits the copy rate)");
      }
    }
    if (!cached_) {
      const std::uint64_t room = std::min(host.memory_available_bytes,
                                          host.cgroup_memory_available_bytes.value_or(host.memory_available_bytes));
      const bool mapping = device_.registers_file_mappings.value_or(false);
      const auto warm = expected(mapping ? ReadPath::kMapped : ReadPath::kBuffered, true);
      if (better(warm) && path_.sample_bytes <= room) {
        add("keep it in the page cache, if it is read again: " + rate_text(*warm));
      }
    }
    const PcieLink& link = device_.pcie;
    if (link.lanes < link.max_lanes) {
      add("the GPU's link has " + std::to_string(link.lanes) + " of " + std::to_string(link.max_lanes) + " lanes");
    }
  }

  void compose() {
    std::string& text = advice_.sentence;
    text = std::string(read_path_name(advice_.path)) + ", as " + advice_.reason;
    const auto rate = advice_.expected_bytes_per_second;
    text += rate ? "; should reach " + rate_text(*rate) + " read" : std::string("; no rate was measured");
    if (rate && advice_.path == ReadPath::kBuffered && !cached_) text += " per thread";
    for (std::size_t i = 0; i < advice_.faster.size(); ++i)
      text += (i == 0 ? "; faster: " : ", or ") + advice_.faster[i];
  }

  const PathReport& path_;
  const DeviceReport& device_;
  const SystemReport& system_;
  PathAdvice advice_;
  bool cached_ = false;
};

}  // namespace

std::string rate_text(double bytes_per_second) {
  static constexpr const char* kUnits[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return scaled_text(bytes_per_second, kUnits, 5);
}

PathAdvice advise(const PathReport& path, const DeviceReport& device, const SystemReport& report) {
  return Adviser(path, device, report).advise();
}

}  // namespace system
}  // namespace headrace
