#include "file_region.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "bench_units.h"
#include "verify_block.h"

namespace headrace::bench {
namespace {

Status unfit(std::string message, const std::string& path) {
  return Status(Code::kInvalidArgument, Layer::kApi, std::move(message)).with_key(path);
}

std::string file_path(const JobOptions& options, unsigned thread) {
  // fio's names for files that are not named.
  std::string name = options.filename;
  if (name.empty()) name = options.name + "." + std::to_string(thread) + ".0";
  if (options.directory.empty() || name.front() == '/') return name;
  return options.directory + "/" + name;
}

// The threads of a job share the list out among them.
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
    region.files.push_back(line);
    region.files_bytes.push_back(static_cast<std::uint64_t>(info.st_size));
  }
  region.blocks = region.files.size();
  return region.blocks > 0 ? Status() : unfit("the list names fewer files than the job has threads", region.path);
}

Result<std::uint64_t> region_bytes(const JobOptions& options, const FileRegion& region, std::uint64_t file_bytes) {
  std::uint64_t bytes = options.size_bytes;
  if (options.size_percent > 0) {
    bytes = static_cast<std::uint64_t>(static_cast<unsigned __int128>(file_bytes) * options.size_percent / 100);
  }
  const std::uint64_t there = file_bytes > region.offset_bytes ? file_bytes - region.offset_bytes : 0;
  if (bytes == 0) bytes = there;
  if (bytes == 0) {
    return unfit("the file ends before offset " + std::to_string(region.offset_bytes) + ": give a smaller offset" +
                     (options.write ? " or a size" : ""),
                 region.path);
  }
  if (!options.write && bytes > there) {
    return unfit("size=" + size_text(bytes) + " is larger than the file, which has " + size_text(there) +
                     " from offset " + std::to_string(region.offset_bytes) + ": give a smaller size or none",
                 region.path);
  }
  if (bytes < options.block_bytes) {
    return unfit("bs=" + size_text(options.block_bytes) + " is larger than the region of " + size_text(bytes),
                 region.path);
  }
  return bytes;
}

Status check_alignment(const JobOptions& options, const FileRegion& region) {
  if (options.chosen_path() != Path::kDirect) return {};
  HEADRACE_TRY_ASSIGN(const std::uint64_t alignment, direct_alignment(region.path));
  for (const auto& [name, value] :
       {std::pair<const char*, std::uint64_t>{"bs", options.block_bytes}, {"offset", region.offset_bytes}}) {
    if (value % alignment != 0) {
      return unfit(std::string(name) + "=" + size_text(value) + " is not a multiple of " + std::to_string(alignment) +
                       ", the file's direct I/O alignment: use a multiple or --path auto",
                   region.path);
    }
  }
  return {};
}

// One more than what lies there, so that a block the new pass does not reach is seen to be old.
std::uint64_t next_sequence(const JobOptions& options, const FileRegion& region) {
  std::array<std::byte, kVerifyHeaderBytes> header{};
  std::ifstream in(region.path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(region.offset_bytes));
  in.read(reinterpret_cast<char*>(header.data()), static_cast<std::streamsize>(header.size()));
  if (!in) return 1;
  return verify_block_sequence(header, region.offset_bytes, options.seed).value_or(0) + 1;
}

}  // namespace

std::vector<CacheRange> FileRegion::cache_ranges(std::uint64_t block_bytes) const {
  if (file) return {{path, offset_bytes, blocks * block_bytes}};
  std::vector<CacheRange> ranges;
  ranges.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) ranges.push_back({files[i], 0, files_bytes[i]});
  return ranges;
}

Result<FileRegion> open_region(const JobOptions& options, unsigned thread) {
  FileRegion region;
  if (!options.paths.empty()) {
    region.path = options.paths;
    HEADRACE_TRY(read_list(options, thread, region));
    return region;
  }
  region.path = file_path(options, thread);
  std::uint64_t increment = 0;
  if (__builtin_mul_overflow(options.offset_increment_bytes, std::uint64_t{thread}, &increment) ||
      __builtin_add_overflow(options.offset_bytes, increment, &region.offset_bytes) ||
      region.offset_bytes > std::uint64_t{1} << 62) {
    return unfit("offset and offset_increment lead beyond 2^62 bytes", region.path);
  }
  if (options.write && options.size_bytes == 0) {
    // Found out before the file is made.
    std::error_code error;
    if (!std::filesystem::exists(region.path, error)) {
      return unfit("there is no such file yet, and no size to make it with: give size", region.path);
    }
  }
  FileOptions open_options;
  open_options.write = open_options.create = options.write;
  HEADRACE_TRY_ASSIGN(region.file, File::open(region.path, open_options));
  HEADRACE_TRY_ASSIGN(const std::uint64_t file_bytes, region.file->size_bytes());
  HEADRACE_TRY_ASSIGN(const std::uint64_t bytes, region_bytes(options, region, file_bytes));
  HEADRACE_TRY(check_alignment(options, region));
  region.blocks = bytes / options.block_bytes;
  if (options.verify && options.write) region.first_sequence = next_sequence(options, region);
  return region;
}

}  // namespace headrace::bench
