// Fault points: named places where a test can make a system call or an allocation fail. Delay points: named places
// where a test can slow down a stage.
//
// Using a point declares it: HEADRACE_FAULT("io_threads.pread", result) evaluates to `result`, or to what the armed
// plan makes of it. HEADRACE_DELAY("transfer.decode") sleeps for the armed delay. Without HEADRACE_FAULT_POINTS the
// first macro is its second argument, the second is empty, and this code is not compiled.
//
// Threads: points may be hit on any thread; arm and disarm only while no request is in flight.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::base {

#ifdef HEADRACE_FAULT_POINTS
inline constexpr bool kFaultPointsCompiled = true;
#else
inline constexpr bool kFaultPointsCompiled = false;
#endif

// What an armed point does to the result of the call it guards, which is a byte count or -errno.
enum class FaultKind : std::uint8_t { kErrno, kShortByOne, kHalf, kZero };

struct FaultPlan {
  std::string point;  // exact name, or "*" for every point
  FaultKind kind = FaultKind::kErrno;
  int error = 0;          // errno for kErrno
  std::uint64_t nth = 0;  // 0-based hit at which it fires
  bool forever = false;   // fire at every hit from the nth on
};

struct FaultCount {
  std::string point;
  std::uint64_t hits = 0;  // since the last arm or disarm
  std::uint64_t fired = 0;
};

void arm_fault(const FaultPlan& plan);
void disarm_faults();
// Every point hit since the program started, sorted by name.
std::vector<FaultCount> fault_counts();

// `result` is what the real call returned or, before the call, would return on success.
std::int64_t fault_point(const char* name, std::int64_t result) noexcept;

// Delays every hit of `point`, until another point is armed or the delay is set to zero.
void arm_delay(const std::string& point, std::chrono::microseconds delay);
// Delays that have begun since the last arm_delay(), finished or not.
std::uint64_t delays_begun() noexcept;
void delay_point(const char* name) noexcept;

}  // namespace headrace::base

#ifdef HEADRACE_FAULT_POINTS
#define HEADRACE_FAULT(name, result) ::headrace::base::fault_point(name, result)
#define HEADRACE_DELAY(name) ::headrace::base::delay_point(name)
#else
#define HEADRACE_FAULT(name, result) static_cast<std::int64_t>(result)
#define HEADRACE_DELAY(name) static_cast<void>(0)
#endif
