// What a file job works on: a region of one file in blocks, or a list of files that are each read whole.
#pragma once

#include <headrace/file.h>
#include <headrace/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache_state.h"
#include "job_options.h"

namespace headrace::bench {

struct FileRegion {
  std::string path;          // of the file, or of the list
  std::optional<File> file;  // not with a list
  std::uint64_t offset_bytes = 0;
  std::uint64_t blocks = 0;                // or files
  std::uint64_t first_sequence = 1;        // of verify blocks that are written
  std::vector<std::string> files;          // with a list
  std::vector<std::uint64_t> files_bytes;  // of each

  std::vector<CacheRange> cache_ranges(std::uint64_t block_bytes) const;
};

// Opens and measures it. kInvalidArgument: the region does not lie in the file, or does not suit direct I/O.
Result<FileRegion> open_region(const JobOptions& options, unsigned thread);

}  // namespace headrace::bench
