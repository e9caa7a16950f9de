// JobResult: the result of one job, or of a reporting group. Plain data: the runner fills it, the reports read it.
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

// CPU use of the job's thread; process_seconds is user and system time of the whole process, including the library's
// threads and concurrent jobs.
struct CpuUse {
  double user_seconds = 0, system_seconds = 0, process_seconds = 0;
  std::uint64_t context_switches = 0, major_faults = 0, minor_faults = 0;
};

struct PassTime {
  std::uint64_t bytes = 0;
  double seconds = 0;  // since the previous pass ended
};

struct VerifyResult {
  std::uint64_t blocks = 0;         // blocks checked
  std::uint64_t bad = 0;            // bad ones among them
  std::vector<VerifyFault> faults;  // the first 16
};

// Sums over all passes; times are device times.
struct DecodeResult {
  std::uint64_t chunks = 0, encoded_bytes = 0, decoded_bytes = 0;
  std::uint64_t scratch_bytes = 0;  // per pass
  std::string undone;               // codecs that the device did not decode
  DecodeBatch::Times times;
  void add(const DecodeResult& other);
};

// Results of the reads, or of the writes.
struct DirectionResult {
  std::uint64_t requests = 0, ios = 0;  // ios: blocks, whole files or array reads
  std::uint64_t bytes = 0;              // for an array its stored bytes, for a decode job the encoded bytes
  LatencyHistogram submit, complete, total;
  RateSamples bandwidth, iops;  // KiB/s and blocks/s of each half second, for jobs on files
  void add(const DirectionResult& other);
};

struct JobResult {
  JobOptions options;
  unsigned group = 0;
  unsigned threads = 1;  // number of threads summed here
  std::string file, device, device_description, engine;
  Status status;
  // The measured time: from the end of ramp_time to the last completion.
  double seconds = 0;
  DirectionResult read, write;
  LatencyHistogram sync;
  FileStats stats;
  std::optional<Stats> array;  // for array reads, which leave `stats` empty
  std::optional<DecodeResult> decode;
  bool remote = false;  // data came from a remote store, and `stats` is empty
  CpuUse cpu;
  std::vector<PassTime> passes;  // the first 64, including ramp_time
  std::optional<Residency> before, after;
  VerifyResult verify;
  std::vector<std::string> notes;  // further notes: options without effect, files that were created
  bool interrupted = false;

  std::uint64_t requests() const { return read.requests + write.requests; }
  std::uint64_t ios() const { return read.ios + write.ios; }
  std::uint64_t bytes() const { return read.bytes + write.bytes; }
  // All notes, one per line, the queue's first.
  std::string all_notes() const;
};

// Merges the results of a reporting group: adds counts, takes the longest times.
JobResult merge_results(const std::vector<JobResult>& results);

}  // namespace headrace::bench
