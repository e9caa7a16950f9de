// The data of a file job: regions of one or several files, or a list of files that are read whole.
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

// The part of one file that a job uses.
struct RegionFile {
  std::string path;
  std::optional<File> file;  // unset for a list of files
  std::uint64_t offset_bytes = 0, bytes = 0;
  std::uint64_t first_sequence = 1;  // next sequence number for verify blocks
  bool created = false;              // created for this job
};

struct FileRegion {
  std::string path;  // of the first file, or of the list
  std::vector<RegionFile> files;
  bool whole_files = false;    // a list of files
  std::uint64_t io_bytes = 0;  // bytes to transfer per loop of the job; 0: the total size of the files
  std::string notes;           // one line for each change made to the files before the job

  std::vector<CacheRange> cache_ranges() const;
  // Removes the files that were created for the job.
  void remove_made() const;
};

// Opens and measures the files. If a size is known, missing files and files too short to write into are created or
// extended first. kInvalidArgument: a region exceeds its file, or is misaligned for direct I/O.
Result<FileRegion> open_region(const JobOptions& options, unsigned thread);

// File names of one thread of a job. Fails: kNotFound, kInvalidArgument.
Result<std::vector<std::string>> file_names(const JobOptions& options, unsigned thread);

}  // namespace headrace::bench
