// Points in time in the format of credential documents.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>

namespace headrace::testing {

// "2026-01-31T12:00:00Z": the given number of seconds from now; negative: before now.
inline std::string utc_time(std::int64_t seconds_from_now) {
  const ::time_t at = ::time(nullptr) + seconds_from_now;
  struct tm parts {};
  ::gmtime_r(&at, &parts);
  char text[32];
  ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace headrace::testing
