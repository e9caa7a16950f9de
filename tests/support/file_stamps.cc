#include "support/file_stamps.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <chrono>
#include <thread>

namespace headrace::support {

std::atomic<bool> whole_seconds{false};
std::atomic<std::int64_t> stamp_ns{0};
std::atomic<std::uint64_t> fstat_calls{0};
std::atomic<std::int64_t> slept_ns{0};

void wait_for_second() {
  timespec now;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::clock_gettime(CLOCK_REALTIME, &now);
  } while (now.tv_nsec > 100'000'000);
}

}  // namespace headrace::support

namespace stamps = headrace::support;

extern "C" int fstat(int fd, struct stat* out) noexcept {
  stamps::fstat_calls.fetch_add(1);
  const int result = ::fstatat(fd, "", out, AT_EMPTY_PATH);
  if (result == 0 && stamps::whole_seconds.load()) out->st_mtim.tv_nsec = out->st_ctim.tv_nsec = 0;
  if (const std::int64_t ns = stamps::stamp_ns.load(); result == 0 && ns != 0) {
    out->st_mtim = out->st_ctim = {ns / 1'000'000'000, ns % 1'000'000'000};
  }
  return result;
}

extern "C" int nanosleep(const timespec* time, timespec* left) {
  stamps::slept_ns += std::int64_t{time->tv_sec} * 1'000'000'000 + time->tv_nsec;
  return ::clock_nanosleep(CLOCK_MONOTONIC, 0, time, left) == 0 ? 0 : -1;
}
