// Makes every fault point that the sources declare fail in every way while a scenario runs.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "base/fault.h"
#include "support/failures.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace::support {

// Every point that the library's sources declare. A source that passes something other than a literal name to
// HEADRACE_FAULT has a function that takes the name: fault("..."), injected("...").
inline std::set<std::string> declared_points() {
  std::set<std::string> points;
  const char* const source = ::getenv("HEADRACE_SOURCE_DIR");
  for (const char* const top : {"src", "backends", "codecs", "tools"}) {
    const auto root = std::filesystem::path(source == nullptr ? "." : source) / top;
    for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
      const std::string extension = file.path().extension().string();
      if ((extension != ".cc" && extension != ".h" && extension != ".cu") ||
          file.path().stem().string().ends_with("_test") || file.path().filename() == "fault.h") {
        continue;
      }
      std::stringstream text;
      text << std::ifstream(file.path()).rdbuf();
      const std::string all = text.str();
      std::size_t found = 0;
      for (const std::string_view use : {"HEADRACE_FAULT(\"", "fault(\"", "injected(\""}) {
        for (std::size_t at = 0; (at = all.find(use, at)) != std::string::npos; ++found) {
          at += use.size();
          points.insert(all.substr(at, all.find('"', at) - at));
        }
      }
      if (all.find("HEADRACE_FAULT(") != std::string::npos) {
        EXPECT_GT(found, 0u) << file.path() << " has fault points that this test finds no names of";
      }
    }
  }
  return points;
}

// Runs `scenario` with each failure at the first, second, ... and last hit of each declared point whose name begins
// with one of `prefixes`, both once and for ever. A point that the scenario never hits is a test failure.
// AddressSanitizer builds make a third of these runs.
inline void fail_everywhere(const std::set<std::string>& prefixes, const std::function<void(bool faulty)>& scenario) {
  base::disarm_faults();
  base::arm_fault({.point = "none"});  // resets the counts
  scenario(false);
  std::map<std::string, std::uint64_t> hits;
  for (const auto& count : base::fault_counts()) hits[count.point] = count.hits;
  std::size_t points = 0, runs = 0;
  std::uint64_t turn = 0;
  for (const std::string& point : declared_points()) {
    bool wanted = false;
    for (const std::string& prefix : prefixes) wanted = wanted || point.starts_with(prefix);
    if (!wanted) continue;
    ++points;
    const std::uint64_t n = hits[point];
    EXPECT_GT(n, 0u) << point << " is never hit";
    std::set<std::uint64_t> at = {0, 1, 2, n / 2};
    if (n > 0) at.insert(n - 1);
    for (const Failure& failure : kFailures) {
      for (const std::uint64_t nth : at) {
        for (const bool forever : {false, true}) {
          if (nth >= n || (forever && nth > 1)) continue;
          if (support::kAddressSanitizer && (turn++ * 0x9E3779B97F4A7C15 >> 32) % 3 != 0) continue;
          SCOPED_TRACE(point + " " + failure.name + " at hit " + std::to_string(nth) + (forever ? " and on" : ""));
          const std::size_t descriptors = open_descriptors();
          base::arm_fault(
              {.point = point, .kind = failure.kind, .error = failure.error, .nth = nth, .forever = forever});
          scenario(true);
          base::disarm_faults();
          EXPECT_LE(descriptors_left(descriptors), descriptors) << "descriptors were lost";
          ++runs;
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GE(points, prefixes.size());
  ::testing::Test::RecordProperty("runs", static_cast<int>(runs));
}

}  // namespace headrace::support
