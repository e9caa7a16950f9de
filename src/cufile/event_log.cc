#include "cufile/event_log.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace headrace::cufile {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "ERROR", "FATAL"};

}  // namespace

void EventLog::configure(std::string_view level, std::string_view file, std::string_view folder) {
  std::lock_guard lock(mutex_);
  path_ = !file.empty() ? std::string(file) : folder.empty() ? std::string() : std::string(folder) + "/cufile.log";
  int least = static_cast<int>(Severity::kError);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == level) least = static_cast<int>(i);
  }
  min_.store(path_.empty() ? static_cast<int>(kNames.size()) : least);
}

void EventLog::write(Severity severity, std::string_view what) noexcept {
  if (!wants(severity)) return;
  try {
    timespec now;
    ::clock_gettime(CLOCK_REALTIME, &now);
    tm parts;
    ::gmtime_r(&now.tv_sec, &parts);
    char head[96];
    std::snprintf(head, sizeof head, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ pid %d %s ", parts.tm_year + 1900,
                  parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, now.tv_nsec / 1000000,
                  static_cast<int>(::getpid()), kNames[static_cast<std::size_t>(severity)].data());
    std::string line = head;
    for (const char c : what) line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    line += '\n';
    std::lock_guard lock(mutex_);
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) return;
    [[maybe_unused]] const ssize_t written = ::write(fd, line.data(), line.size());
    ::close(fd);
  } catch (...) {  // the line is lost
  }
}

}  // namespace headrace::cufile
