#include "file_region.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "bench_units.h"
#include "file_layout.h"
#include "offset_generator.h"
#include "verify_block.h"

namespace headrace::bench {
namespace {

Status unfit(std::string message, const std::string& path) {
  return Status(Code::kInvalidArgument, Layer::kApi, std::move(message)).with_key(path);
}

// Divides the list among the threads of a job.
Status read_list(const JobOptions& options, unsigned thread, FileRegion& region) {
  std::ifstream list(region.path);
  if (!list) {
    return Status(Code::kNotFound, Layer::kApi, "cannot open the list of files")
        .with_key(region.path)
        .with_cause(std::generic_category().message(errno));
  }
  std::uint64_t number = 0;
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || number++ % options.threads != thread) continue;
    struct stat info {};
    if (::stat(line.c_str(), &info) != 0) {
      return Status(Code::kNotFound, Layer::kApi, "cannot look at a file of the list " + region.path)
          .with_key(line)
          .with_cause(std::generic_category().message(errno));
    }
    if (!S_ISREG(info.st_mode)) return unfit("not a regular file, in the list " + region.path, line);
    if (info.st_size == 0) return unfit("an empty file, in the list " + region.path, line);
    RegionFile file;
    file.path = line;
    file.bytes = static_cast<std::uint64_t>(info.st_size);
    region.files.push_back(std::move(file));
  }
  return !region.files.empty() ? Status() : unfit("the list names fewer files than the job has threads", region.path);
}

// Bytes of the file's region, given its present or future size; 0 if undetermined.
std::uint64_t wanted_bytes(const JobOptions& options, std::uint64_t file_bytes, std::size_t files, std::size_t index,
                           unsigned thread) {
  if (options.min_file_bytes > 0) {
    const std::uint64_t choices = options.max_file_bytes - options.min_file_bytes + 1;
    const std::uint64_t draw = mix64(mix64(options.seed + thread) + index);
    const std::uint64_t bytes = options.min_file_bytes + (choices == 0 ? 0 : draw % choices);
    return std::max(bytes / options.smallest_block() * options.smallest_block(), options.min_file_bytes);
  }
  if (options.size_percent > 0) return SizeOrPercent{0, options.size_percent}.of(file_bytes);
  return options.size_bytes / files;
}

// Offset of the region; a percentage refers to the file's size.
Result<std::uint64_t> region_offset(const JobOptions& options, const RegionFile& file, std::uint64_t file_bytes,
                                    unsigned thread) {
  std::uint64_t increment = 0, offset = options.offset.of(file_bytes);
  if (options.offset.percent > 0) {
    const std::uint64_t align = options.offset_align_bytes > 0 ? options.offset_align_bytes : options.smallest_block();
    offset = offset / align * align;
  }
  std::uint64_t step = options.offset_increment.of(file_bytes);
  if (options.offset_increment.percent > 0) step = step / options.smallest_block() * options.smallest_block();
  if (__builtin_mul_overflow(step, std::uint64_t{thread}, &increment) ||
      __builtin_add_overflow(offset, increment, &offset) || offset > std::uint64_t{1} << 62) {
    return unfit("offset and offset_increment lead beyond 2^62 bytes", file.path);
  }
  if (options.file_append) offset += file_bytes;
  return offset;
}

Status check_region(const JobOptions& options, const RegionFile& file, std::uint64_t there) {
  if (file.bytes == 0) {
    return unfit("the file ends before offset " + std::to_string(file.offset_bytes) + ": give a smaller offset" +
                     (options.write ? " or a size" : ""),
                 file.path);
  }
  if (!options.write && file.bytes > there) {
    return unfit("size=" + size_text(file.bytes) + " is larger than the file, which has " + size_text(there) +
                     " from offset " + std::to_string(file.offset_bytes) + ": give a smaller size or none",
                 file.path);
  }
  for (const AccessZones& zones : options.distribution.zones) {
    if (options.random && zones.bytes() > file.bytes) {
      return unfit("random_distribution=zoned_abs: the zones have " + size_text(zones.bytes()) + ", the region has " +
                       size_text(file.bytes) + ": give smaller zones or a larger size",
                   file.path);
    }
  }
  if (file.bytes < options.largest_block()) {
    return unfit("bs=" + size_text(options.largest_block()) + " is larger than the region of " + size_text(file.bytes),
                 file.path);
  }
  return {};
}

Status check_alignment(const JobOptions& options, const RegionFile& file) {
  if (options.chosen_path() != Path::kDirect || options.skips_io()) return {};
  HEADRACE_TRY_ASSIGN(const std::uint64_t alignment, direct_alignment(file.path));
  std::vector<std::pair<const char*, std::uint64_t>> values = {{"offset", file.offset_bytes},
                                                               {"ba", options.align_bytes}};
  for (const unsigned which : {0u, 1u}) {
    if (options.uses_sizes(which)) values.emplace_back("bs", options.sizes[which].divisor(options.unaligned));
  }
  for (const auto& [name, value] : values) {
    if (value % alignment != 0) {
      return unfit(std::string(name) + "=" + size_text(value) + " is not a multiple of " + std::to_string(alignment) +
                       ", the file's direct I/O alignment: use a multiple or --path auto",
                   file.path);
    }
  }
  return {};
}

// One more than the sequence of the region's first block, so that content of an earlier run is stale.
std::uint64_t next_sequence(const JobOptions& options, const RegionFile& file) {
  std::array<std::byte, kVerifyHeaderBytes> header{};
  std::ifstream in(file.path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(file.offset_bytes));
  in.read(reinterpret_cast<char*>(header.data()), static_cast<std::streamsize>(header.size()));
  if (!in) return 1;
  return verify_block_sequence(header, file.offset_bytes, VerifyFormat(options.seed, options.verify, {})).value_or(0) +
         1;
}

// A time stamp, for a job that may not rewrite the first block: its sequence says nothing about the others.
std::uint64_t unused_sequence() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count());
}

Status open_one(const JobOptions& options, unsigned thread, std::size_t files, std::size_t index, RegionFile& file,
                std::string& notes) {
  struct stat info {};
  const bool there = ::stat(file.path.c_str(), &info) == 0;
  if (there && S_ISREG(info.st_mode) && info.st_size == 0 && !options.write && options.size_bytes == 0 &&
      options.min_file_bytes == 0) {
    return unfit("the file is empty: give a non-empty file, or write it first", file.path);
  }
  FileOptions open_options;
  open_options.write = options.write;
  // A verify job must not create its input: no verify job would have written it.
  const bool makes = !there && options.may_create && (options.write || !options.verifies());
  std::uint64_t file_bytes = 0;
  if (!makes) {
    HEADRACE_TRY_ASSIGN(file.file, File::open(file.path, open_options));
    HEADRACE_TRY_ASSIGN(file_bytes, file.file->size_bytes());
  }
  const std::uint64_t wanted = wanted_bytes(options, file_bytes, files, index, thread);
  if (makes && wanted == 0) {
    if (!options.write) return File::open(file.path, open_options).status();
    return unfit("the file does not exist, and no size is given to create it: give size", file.path);
  }
  HEADRACE_TRY_ASSIGN(file.offset_bytes, region_offset(options, file, makes ? wanted : file_bytes, thread));
  const std::uint64_t behind = file_bytes > file.offset_bytes ? file_bytes - file.offset_bytes : 0;
  file.bytes = wanted == 0 ? behind : wanted;
  // A file with its own size includes the offset.
  if (options.min_file_bytes > 0) file.bytes = wanted > file.offset_bytes ? wanted - file.offset_bytes : 0;
  HEADRACE_TRY(check_region(options, file, makes ? file.bytes : behind));
  // Data that is read or overwritten must exist first.
  const std::uint64_t end = file.offset_bytes + file.bytes;
  const bool grows = makes || (options.write && S_ISREG(info.st_mode));
  file.created = makes;
  if ((options.read || options.overwrite) && file_bytes < end && grows) {
    HEADRACE_TRY(lay_out(file.path, file_bytes, end, mix64(options.seed + index), options.create_fsync));
    notes += std::string(makes ? "made" : "made longer") + " before the job: " + file.path + " (" +
             size_text(end - file_bytes) + ")\n";
  }
  if (!makes) return {};
  open_options.create = options.write;
  HEADRACE_TRY_ASSIGN(file.file, File::open(file.path, open_options));
  return {};
}

}  // namespace

std::vector<CacheRange> FileRegion::cache_ranges() const {
  std::vector<CacheRange> ranges;
  ranges.reserve(files.size());
  for (const RegionFile& file : files) ranges.push_back({file.path, file.offset_bytes, file.bytes});
  return ranges;
}

void FileRegion::remove_made() const {
  for (const RegionFile& file : files) {
    std::error_code ignored;
    if (file.created) std::filesystem::remove(file.path, ignored);
  }
}

Result<FileRegion> open_region(const JobOptions& options, unsigned thread) {
  FileRegion region;
  if (!options.paths.empty()) {
    region.path = options.paths;
    region.whole_files = true;
    HEADRACE_TRY(read_list(options, thread, region));
    return region;
  }
  HEADRACE_TRY_ASSIGN(const std::vector<std::string> names, file_names(options, thread));
  region.path = names.front();
  region.files.resize(names.size());
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    RegionFile& file = region.files[i];
    file.path = names[i];
    Status status = open_one(options, thread, names.size(), i, file, region.notes);
    if (status.ok()) status = check_alignment(options, file);
    if (!status.ok()) {
      // A job that cannot start leaves no files behind.
      region.remove_made();
      return status;
    }
    if (!options.unaligned) file.bytes = file.bytes / options.smallest_block() * options.smallest_block();
    if (options.verifies() && options.write) {
      file.first_sequence = options.tracks_written() ? unused_sequence() : next_sequence(options, file);
    }
    all += file.bytes;
  }
  if (options.io_size.given()) region.io_bytes = options.io_size.of(all);
  if (!options.io_size.given() && options.min_file_bytes > 0) region.io_bytes = std::min(options.size_bytes, all);
  return region;
}

}  // namespace headrace::bench
