// Checks that a process in a long steady run does not grow in memory, descriptors or threads. Compares the peak of the
// run's last quarter with the peak of its second, when caches are full.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

namespace headrace::support {

struct Held {
  std::uint64_t memory_bytes = 0, descriptors = 0, threads = 0;  // memory: resident set
};

// Usage of this process; 0: unknown.
inline Held held_now() {
  Held out;
  if (std::FILE* status = std::fopen("/proc/self/status", "re"); status != nullptr) {
    char line[256];
    unsigned long long value = 0;
    while (std::fgets(line, sizeof line, status) != nullptr) {
      if (std::sscanf(line, "VmRSS: %llu kB", &value) == 1) out.memory_bytes = value * 1024;
      if (std::sscanf(line, "Threads: %llu", &value) == 1) out.threads = value;
    }
    std::fclose(status);
  }
  std::error_code ignored;
  for (auto it = std::filesystem::directory_iterator("/proc/self/fd", ignored); it != end(it); it.increment(ignored)) {
    ++out.descriptors;
  }
  return out;
}

class SteadyWatch {
 public:
  // Shorter runs are not judged, because caches keep entries for up to a minute.
  static constexpr double kMinSeconds = 300;

  explicit SteadyWatch(double seconds) : seconds_(seconds) {}

  void sample(double at_seconds, const Held& held) {
    const double part = at_seconds / seconds_;
    if (part >= 0.25 && part < 0.5) keep_most(second_, held);
    if (part >= 0.75) keep_most(last_, held);
  }

  // Empty, or what has grown by more than a tenth plus a constant.
  std::string growth() const {
    if (seconds_ < kMinSeconds) return "";
    std::string out;
    const auto compare = [&](const char* what, std::uint64_t before, std::uint64_t after, std::uint64_t constant) {
      if (after <= before + before / 10 + constant) return;
      out += (out.empty() ? "" : "; ") + std::string(what) + " grew from " + std::to_string(before) + " to " +
             std::to_string(after);
    };
    compare("resident bytes", second_.memory_bytes, last_.memory_bytes, std::uint64_t{64} << 20);
    compare("descriptors", second_.descriptors, last_.descriptors, 16);
    compare("threads", second_.threads, last_.threads, 2);
    return out;
  }
  const Held& second_quarter() const { return second_; }
  const Held& last_quarter() const { return last_; }

 private:
  static void keep_most(Held& most, const Held& held) {
    most.memory_bytes = std::max(most.memory_bytes, held.memory_bytes);
    most.descriptors = std::max(most.descriptors, held.descriptors);
    most.threads = std::max(most.threads, held.threads);
  }

  double seconds_;
  Held second_, last_;
};

}  // namespace headrace::support
