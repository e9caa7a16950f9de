// The page cache in a measurement: samples how much of a file it holds, and establishes a given state.
//
// Fails: kIo, with the number of pages in the wrong state, if a requested state was not reached; kNotFound or
// kPermission
//        if a file cannot be opened. Status::key() is the path.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <span>
#include <string>

#include "job_options.h"

namespace headrace::bench {

struct CacheRange {
  std::string path;
  std::uint64_t offset_bytes = 0, bytes = 0;
};

struct Residency {
  std::uint64_t pages = 0, resident = 0;
  double share() const { return pages == 0 ? 0 : static_cast<double>(resident) / static_cast<double>(pages); }
};

// Counts the pages of the ranges in the page cache: by cachestat(2) if the kernel has it, else mincore(2).
Result<Residency> sample_residency(std::span<const CacheRange> ranges);

// Brings the ranges into `state`, verifies it, and returns the residency. Cold: written back and evicted, except for up
// to 64 pages or a thousandth, which per-CPU lists may hold. Warm: read until all pages are resident. Half: evicted,
// then every other block read; accepted within a tenth of one half.
Result<Residency> set_cache_state(std::span<const CacheRange> ranges, CacheState state, std::uint64_t block_bytes);

// Alignment in bytes that O_DIRECT reads of the file require; 512 if the system does not report it.
Result<std::uint64_t> direct_alignment(const std::string& path);

}  // namespace headrace::bench
