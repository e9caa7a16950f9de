// The page cache's part in a measurement: how much of a file is in it, and putting it into a stated state.
//
// Fails: a state that was asked for and not reached is kIo, with the pages that are in the wrong state; a file that
//        cannot be opened is kNotFound or kPermission. Status::key() is the path.
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

// How many pages of the ranges the page cache holds: cachestat(2) where the kernel has it, else mincore(2).
Result<Residency> sample_residency(std::span<const CacheRange> ranges);

// Brings the ranges into `state` and proves it; gives the residency reached. Cold: written back and dropped, all but
// 64 pages or a thousandth, which per-CPU lists may hold. Warm: read until all are there. Half: dropped, then every
// other block read; within a tenth of one half.
Result<Residency> set_cache_state(std::span<const CacheRange> ranges, CacheState state, std::uint64_t block_bytes);

// The granularity at which O_DIRECT reads of the file must be aligned, in bytes; 512 where the system does not say.
Result<std::uint64_t> direct_alignment(const std::string& path);

}  // namespace headrace::bench
