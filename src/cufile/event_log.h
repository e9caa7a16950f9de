// EventLog: appends lines to the log file that the configuration names.
//
// Nothing is written unless a file or folder was configured; if it cannot be written to, the line is dropped silently.
//
// Threads: every call from any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

namespace headrace::cufile {

enum class Severity : int { kTrace, kDebug, kInfo, kNotice, kWarn, kError, kFatal };

class EventLog {
 public:
  // `file` wins over `folder`, in which cufile.log is written; both may be empty.
  void configure(std::string_view level, std::string_view file, std::string_view folder);
  bool wants(Severity severity) const noexcept { return static_cast<int>(severity) >= min_.load(); }
  void write(Severity severity, std::string_view what) noexcept;

 private:
  std::atomic<int> min_{static_cast<int>(Severity::kFatal) + 1};
  std::mutex mutex_;
  std::string path_;  // guarded by mutex_
};

}  // namespace headrace::cufile
