// What a file job works on: regions of one file or of several, or a list of files that are each read whole.
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

// The part of one file that a job works on.
struct RegionFile {
  std::string path;
  std::optional<File> file;  // not with a list
  std::uint64_t offset_bytes = 0, bytes = 0;
  std::uint64_t first_sequence = 1;  // of verify blocks that are written
  bool made = false;                 // for this job
};

struct FileRegion {
  std::string path;  // of the first file, or of the list
  std::vector<RegionFile> files;
  bool whole_files = false;    // a list
  std::uint64_t io_bytes = 0;  // to read or write in each of the job's loops; 0: what the files have
  std::string notes;           // a line for each thing done to the files before the job

  std::vector<CacheRange> cache_ranges() const;
  // Removes the files that were made for the job.
  void remove_made() const;
};

// Opens and measures them; files that are not there, or too short to write in the middle of, are made first if a size
// is known. kInvalidArgument: a region does not lie in its file, or does not suit direct I/O.
Result<FileRegion> open_region(const JobOptions& options, unsigned thread);

// The names of the files of one thread of a job. kNotFound, kInvalidArgument.
Result<std::vector<std::string>> file_names(const JobOptions& options, unsigned thread);

}  // namespace headrace::bench
