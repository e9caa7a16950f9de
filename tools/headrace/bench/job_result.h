// JobResult: what one job, or the jobs of a group together, did. Plain data: the runner fills it, the reports read it.
#pragma once

#include <headrace/file.h>
#include <headrace/stats.h>
#include <headrace/status.h>
#include <headrace_bench/decode_batch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache_state.h"
#include "job_options.h"
#include "latency_histogram.h"
#include "rate_samples.h"
#include "verify_block.h"

namespace headrace::bench {

// Of the job's own thread, except process_seconds: user and system time of the whole process, which includes the
// library's threads and jobs that ran at the same time.
struct CpuUse {
  double user_seconds = 0, system_seconds = 0, process_seconds = 0;
  std::uint64_t context_switches = 0, major_faults = 0, minor_faults = 0;
};

struct PassTime {
  std::uint64_t bytes = 0;
  double seconds = 0;  // since the pass before ended
};

struct VerifyResult {
  std::uint64_t blocks = 0;         // checked
  std::uint64_t bad = 0;            // of them
  std::vector<VerifyFault> faults;  // the first 16
};

// Sums over all passes; times are the device's.
struct DecodeResult {
  std::uint64_t chunks = 0, encoded_bytes = 0, decoded_bytes = 0;
  std::uint64_t scratch_bytes = 0;  // of one pass
  std::string undone;               // codecs that were not the device's part
  DecodeBatch::Times times;
  void add(const DecodeResult& other);
};

// What was read, or what was written.
struct DirectionResult {
  std::uint64_t requests = 0, ios = 0;  // ios: blocks, whole files or array reads
  std::uint64_t bytes = 0;              // of them; of an array its stored bytes, of a decode the encoded ones
  LatencyHistogram submit, complete, total;
  RateSamples bandwidth, iops;  // KiB/s and blocks/s of each half second, of jobs on files
  void add(const DirectionResult& other);
};

struct JobResult {
  JobOptions options;
  unsigned group = 0;
  unsigned threads = 1;  // that are summed here
  std::string file, device, device_description, engine;
  Status status;
  // What was measured: from the end of ramp_time to the last completion.
  double seconds = 0;
  DirectionResult read, write;
  LatencyHistogram sync;
  FileStats stats;
  std::optional<Stats> array;  // of array reads, which leave `stats` empty
  std::optional<DecodeResult> decode;
  bool remote = false;  // bytes came from a store over a network, and `stats` is empty
  CpuUse cpu;
  std::vector<PassTime> passes;  // the first 64, ramp_time included
  std::optional<Residency> before, after;
  VerifyResult verify;
  std::vector<std::string> notes;  // what else there is to know: options that change nothing, files that were made
  bool interrupted = false;

  std::uint64_t requests() const { return read.requests + write.requests; }
  std::uint64_t ios() const { return read.ios + write.ios; }
  std::uint64_t bytes() const { return read.bytes + write.bytes; }
  // Every note, a line each, those of the queue first.
  std::string all_notes() const;
};

// One result for all of a reporting group: counts are added, times are the longest.
JobResult merge_results(const std::vector<JobResult>& results);

}  // namespace headrace::bench
