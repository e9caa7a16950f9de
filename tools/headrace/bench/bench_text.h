// The result for people, formatted like fio's. Every rate names the bytes it counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_runner.h"

namespace headrace::bench {

enum class BytesOf : std::uint8_t {
  kReadFromFiles,
  kReadFromStore,
  kWrittenToFiles,
  kReadAndWritten,
  kOverTheBus,
  kStored,
  kEncoded,
  kDecoded,
  kWithoutIo,
};

// "12.3 GB/s read from files". All rates are formatted by this function.
std::string rate_text(std::uint64_t bytes, double seconds, BytesOf kind);

struct TextRow {
  std::string name, text;
};
// "randrw", "4KiB,8KiB": as on the command line.
std::string direction_text(const JobOptions& job);
std::string block_text(const JobOptions& job);
std::string job_title(const JobResult& result);
std::vector<TextRow> job_rows(const JobResult& result);

std::string bench_text(const BenchOutcome& outcome);

}  // namespace headrace::bench
