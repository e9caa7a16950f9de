#include "job_options.h"

#include <algorithm>

#include "bench_units.h"
#include "text.h"

namespace headrace::bench {
namespace {

Status invalid(std::string message) { return {Code::kInvalidArgument, Layer::kApi, std::move(message)}; }

Status assign(std::string& target, std::string_view value) {
  if (value.empty()) return invalid("a value is missing");
  target = value;
  return {};
}

Status assign(bool& target, std::string_view value) {
  HEADRACE_TRY_ASSIGN(target, parse_truth(value));
  return {};
}

Status assign_size(std::uint64_t& target, std::string_view value) {
  HEADRACE_TRY_ASSIGN(target, parse_size(value));
  return {};
}

Status assign_seconds(double& target, std::string_view value) {
  HEADRACE_TRY_ASSIGN(target, parse_duration(value));
  return {};
}

Status assign_number(std::uint64_t& target, std::string_view value) {
  HEADRACE_TRY_ASSIGN(target, parse_number(value));
  return {};
}

Status assign_count(unsigned& target, std::string_view value, unsigned most) {
  HEADRACE_TRY_ASSIGN(const std::uint64_t number, parse_number(value));
  if (number < 1 || number > most) {
    return invalid("'" + std::string(value) + "' is not between 1 and " + std::to_string(most));
  }
  target = static_cast<unsigned>(number);
  return {};
}

Status set_direction(JobOptions& job, std::string_view value) {
  for (const bool write : {false, true}) {
    for (const bool random : {false, true}) {
      if (value == std::string(random ? "rand" : "") + (write ? "write" : "read")) {
        job.write = write;
        job.random = random;
        return {};
      }
    }
  }
  return invalid("'" + std::string(value) + "' is not one of read, write, randread, randwrite");
}

Status set_placement(JobOptions& job, std::string_view value) {
  if (value == "auto") {
    job.placement = Placement::kAuto;
  } else if (value == "cpu") {
    job.placement = Placement::kCpu;
  } else if (value == "gpu") {
    job.placement = Placement::kGpu;
  } else {
    return invalid("'" + std::string(value) + "' is not one of auto, cpu, gpu");
  }
  return {};
}

Status set_file_size(JobOptions& job, std::string_view value) {
  job.size_bytes = 0;
  job.size_percent = 0;
  if (!value.empty() && value.back() == '%')
    return assign_count(job.size_percent, value.substr(0, value.size() - 1), 100);
  HEADRACE_TRY(assign_size(job.size_bytes, value));
  return job.size_bytes > 0 ? Status() : invalid("a size of 0 leaves nothing to do");
}

Status set_engine(JobOptions& job, std::string_view value) {
  for (const char* known : {"auto", "io_uring", "aio", "threads"}) {
    if (value == known) return assign(job.engine, value);
  }
  if (value == "libaio") return assign(job.engine, "aio");
  return invalid("'" + std::string(value) + "' is not one of auto, io_uring, libaio, threads");
}

Status set_cache(JobOptions& job, std::string_view value) {
  for (const auto& [name, state] : {std::pair<const char*, CacheState>{"as-is", CacheState::kAsIs},
                                    {"cold", CacheState::kCold},
                                    {"half", CacheState::kHalf},
                                    {"warm", CacheState::kWarm}}) {
    if (value != name) continue;
    job.cache = state;
    return {};
  }
  return invalid("'" + std::string(value) + "' is not one of as-is, cold, half, warm");
}

Status set_invalidate(JobOptions& job, std::string_view value) {
  HEADRACE_TRY_ASSIGN(const bool drop, parse_truth(value));
  if (drop) job.cache = CacheState::kCold;
  return {};
}

Status set_verify(JobOptions& job, std::string_view value) {
  if (value != "0" && value != "crc32c") return invalid("'" + std::string(value) + "' is not one of crc32c, 0");
  job.verify = value == "crc32c";
  return {};
}

using J = JobOptions;
using V = std::string_view;
constexpr unsigned kMostDepth = 1u << 16, kMostThreads = 1024, kMostList = 1u << 20, kMostBlocks = 1u << 24;

constexpr const char kWhat[] = "What to read or write";
constexpr const char kHow[] = "How";
constexpr const char kLong[] = "How long";
constexpr const char kReport[] = "Order and reporting";
constexpr const char kVerify[] = "Verification";

constexpr JobKey kKeys[] = {
    {"name", "", "TEXT", kWhat, "name of the job; on the command line, begins a new job",
     [](J& j, V v) { return assign(j.name, v); }},
    {"filename", "", "FILE", kWhat, "the file or block device", [](J& j, V v) { return assign(j.filename, v); }},
    {"directory", "", "DIR", kWhat, "put before filename; without one the file is NAME.THREAD.0",
     [](J& j, V v) { return assign(j.directory, v); }},
    {"paths", "", "FILE", kWhat, "a list of files, one a line, each read whole; threads share it out",
     [](J& j, V v) { return assign(j.paths, v); }},
    {"zarr", "", "PATH", kWhat, "a Zarr array, read whole or by --select", [](J& j, V v) { return assign(j.zarr, v); }},
    {"decode", "", "PATH", kWhat, "a Zarr array, decoded from device memory into device memory: no I/O",
     [](J& j, V v) { return assign(j.decode, v); }},
    {"select", "", "TEXT", kWhat, "with --zarr or --decode: the part of the array, as in NumPy",
     [](J& j, V v) { return assign(j.select, v); }},
    {"placement", "", "NAME", kWhat, "with --zarr: who decodes: auto (the default), cpu, gpu", set_placement},
    {"rw", "readwrite", "KIND", kWhat, "read (the default), write, randread, randwrite", set_direction},
    {"bs", "blocksize", "SIZE", kWhat, "bytes of a block; default 4k",
     [](J& j, V v) -> Status {
       HEADRACE_TRY(assign_size(j.block_bytes, v));
       return j.block_bytes > 0 ? Status() : invalid("a block has at least 1 byte");
     }},
    {"size", "", "SIZE", kWhat, "bytes of the file to use, or N%; default all", set_file_size},
    {"offset", "", "SIZE", kWhat, "where the region begins", [](J& j, V v) { return assign_size(j.offset_bytes, v); }},
    {"offset_increment", "", "SIZE", kWhat, "added to offset for each thread of the job",
     [](J& j, V v) { return assign_size(j.offset_increment_bytes, v); }},
    {"norandommap", "", nullptr, kWhat, "random blocks may repeat within a pass",
     [](J& j, V v) { return assign(j.norandommap, v); }},
    {"randseed", "", "N", kWhat, "seed of random blocks and of verify patterns; default 1",
     [](J& j, V v) { return assign_number(j.seed, v); }},
    {"path", "", "PATH", kHow, "auto (the default), direct, buffered, mapped",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(j.path, parse_path_name(v));
       return {};
     }},
    {"direct", "", nullptr, kHow, "1 is --path direct; 0 leaves the path as it is",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(j.direct, parse_truth(v));
       return {};
     }},
    {"ioengine", "", "NAME", kHow, "auto (the default), io_uring, libaio, threads", set_engine},
    {"device", "", "NAME", kHow, "auto (the first GPU, else the host), host, cuda, cuda:N",
     [](J& j, V v) { return assign(j.device, v); }},
    {"iodepth", "", "N", kHow, "requests in flight; default 1",
     [](J& j, V v) { return assign_count(j.depth, v, kMostDepth); }},
    {"iodepth_batch_submit", "iodepth_batch", "N", kHow, "requests handed over together; default: all that fit",
     [](J& j, V v) { return assign_count(j.batch_submit, v, kMostDepth); }},
    {"iodepth_batch_complete", "iodepth_batch_complete_min", "N", kHow, "completions to wait for; default 1",
     [](J& j, V v) { return assign_count(j.batch_complete, v, kMostDepth); }},
    {"list", "", "N", kHow, "blocks (or files) of one request; default 1",
     [](J& j, V v) { return assign_count(j.list, v, kMostList); }},
    {"numjobs", "", "N", kHow, "threads that each do this job; default 1",
     [](J& j, V v) { return assign_count(j.threads, v, kMostThreads); }},
    {"thread", "", nullptr, kHow, "jobs are threads; accepted for fio's job files",
     [](J&, V v) -> Status {
       HEADRACE_TRY_ASSIGN(const bool thread, parse_truth(v));
       return thread ? Status() : invalid("jobs are always threads here");
     }},
    {"cache", "", "STATE", kHow, "page cache before the job: as-is (the default), cold, half, warm; proven", set_cache},
    {"invalidate", "", nullptr, kHow, "1 is --cache cold; 0 leaves the cache as it is (fio's default is 1)",
     set_invalidate},
    {"no_io", "", nullptr, kHow, "no file is touched: the copy alone", [](J& j, V v) { return assign(j.no_io, v); }},
    {"no_copy", "", nullptr, kHow, "nothing goes to the device (null sink): the I/O alone",
     [](J& j, V v) { return assign(j.no_copy, v); }},
    {"fsync", "", "N", kHow, "fsync after every N writes", [](J& j, V v) { return assign_number(j.fsync_every, v); }},
    {"end_fsync", "", nullptr, kHow, "fsync when all is written", [](J& j, V v) { return assign(j.end_fsync, v); }},
    {"loops", "", "N", kLong, "passes over the region; default 1",
     [](J& j, V v) -> Status {
       HEADRACE_TRY(assign_number(j.loops, v));
       return j.loops > 0 ? Status() : invalid("there is at least 1 pass");
     }},
    {"runtime", "", "TIME", kLong, "stop after so long; seconds unless ms, m or h is said",
     [](J& j, V v) { return assign_seconds(j.runtime_seconds, v); }},
    {"time_based", "", nullptr, kLong, "go on for the whole runtime",
     [](J& j, V v) { return assign(j.time_based, v); }},
    {"ramp_time", "", "TIME", kLong, "run so long before anything counts",
     [](J& j, V v) { return assign_seconds(j.ramp_seconds, v); }},
    {"stonewall", "wait_for_previous", nullptr, kReport, "start when all jobs before have ended",
     [](J& j, V v) { return assign(j.stonewall, v); }},
    {"new_group", "", nullptr, kReport, "begin a new reporting group",
     [](J& j, V v) { return assign(j.new_group, v); }},
    {"group_reporting", "", nullptr, kReport, "one result for the group instead of one a thread",
     [](J& j, V v) { return assign(j.group_reporting, v); }},
    {"percentile_list", "", "LIST", kReport, "latency percentiles, as 50:99:99.9",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(j.percentiles, parse_percentiles(v));
       return {};
     }},
    {"verify", "", "SUM", kVerify, "crc32c: write or check blocks that say where they belong", set_verify},
    {"verify_interval", "", "SIZE", kVerify, "bytes of a verify block, at least 64; default bs",
     [](J& j, V v) { return assign_size(j.verify_interval_bytes, v); }},
    {"verify_fatal", "", nullptr, kVerify, "stop at the first bad block",
     [](J& j, V v) { return assign(j.verify_fatal, v); }},
    {"do_verify", "", nullptr, kVerify, "after writing, read everything back and check it; default 1",
     [](J& j, V v) { return assign(j.do_verify, v); }},
};

const JobKey* find_key(std::string_view name) {
  for (const JobKey& key : kKeys) {
    if (name == key.name || (*key.alias != 0 && name == key.alias)) return &key;
  }
  return nullptr;
}

}  // namespace

std::span<const JobKey> job_keys() { return kKeys; }

std::string nearest_key(std::string_view word, std::span<const char* const> extra) {
  cli::NearestWord nearest(word);
  for (const JobKey& key : kKeys) {
    nearest.consider(key.name);
    if (*key.alias != 0) nearest.consider(key.alias);
  }
  for (const char* name : extra) nearest.consider(name);
  return nearest.best();
}

Status set_option(JobOptions& job, std::string_view key, std::string_view value, bool global) {
  const JobKey* known = find_key(key);
  if (known == nullptr) {
    const std::string near = nearest_key(key);
    return invalid("unknown key '" + std::string(key.substr(0, 40)) + "'" +
                   (near.empty() ? "" : ", did you mean '" + near + "'?"));
  }
  if (Status status = known->set(job, value); !status.ok()) {
    return invalid(std::string(known->name) + ": " + status.message());
  }
  std::erase_if(job.given, [&](const GivenOption& option) { return option.key == known->name; });
  std::string text(value);
  if (known->value_name == nullptr) text = parse_truth(value).value() ? "1" : "0";
  job.given.push_back({known->name, std::move(text), global});
  return {};
}

Status check_options(const JobOptions& job) {
  const bool array = !job.zarr.empty() || !job.decode.empty();
  const int sources = int{!job.filename.empty() || !job.directory.empty()} + !job.paths.empty() + !job.zarr.empty() +
                      !job.decode.empty();
  if (sources == 0)
    return invalid("there is nothing to read or write: give filename, directory, paths, zarr or decode");
  if (sources > 1) return invalid("filename (or directory), paths, zarr and decode exclude each other");
  if (job.write && (!job.paths.empty() || array)) return invalid("paths, zarr and decode are only read: rw=read");
  if (job.placement != Placement::kAuto && job.zarr.empty()) return invalid("placement is for arrays: give zarr");
  if (!job.select.empty() && !array) return invalid("select is a part of an array: give zarr or decode");
  if (!job.decode.empty() && (job.depth > 1 || job.cache != CacheState::kAsIs)) {
    return invalid("a decode job does no I/O and has one batch at a time: no iodepth or cache with it");
  }
  if (job.cache == CacheState::kHalf && job.filename.empty() && job.directory.empty()) {
    return invalid("cache=half reads every other block of a file: give filename");
  }
  if (array && (job.chosen_path() != Path::kAuto || job.no_io || job.no_copy || job.list > 1 || job.random)) {
    return invalid("an array's job chooses its path itself: no path, direct, no_io, no_copy, list or randread with it");
  }
  if (job.time_based && job.runtime_seconds <= 0) return invalid("time_based needs a runtime");
  if (job.direct.value_or(false) && job.path != Path::kAuto && job.path != Path::kDirect) {
    return invalid("direct=1 and path=" + std::string(path_name(job.path)) + " contradict each other");
  }
  if (job.write && job.path == Path::kMapped) return invalid("path=mapped only reads: use auto, direct or buffered");
  if (job.write && (job.cache == CacheState::kWarm || job.cache == CacheState::kHalf)) {
    return invalid("cache=warm and cache=half are states of what is read");
  }
  if (!job.write && (job.fsync_every > 0 || job.end_fsync)) return invalid("fsync and end_fsync are for writes");
  std::uint64_t memory_bytes = 0;
  if (__builtin_mul_overflow(job.block_bytes, std::uint64_t{job.depth} * job.list, &memory_bytes) ||
      memory_bytes > std::uint64_t{1} << 42) {
    return invalid("bs x list x iodepth is more than 4 TiB of device memory");
  }
  if (std::uint64_t{job.depth} * job.list > kMostBlocks) {
    return invalid("list x iodepth is more than " + std::to_string(kMostBlocks) + " blocks in flight");
  }
  if (!job.verify) return {};
  if (!job.paths.empty() || array) return invalid("verify checks blocks of a file: give filename");
  if (job.no_io || job.no_copy) return invalid("verify needs both the I/O and the copy: no_io and no_copy exclude it");
  if (job.write && job.norandommap) return invalid("verify writes each block once a pass: norandommap excludes it");
  if (job.write && job.threads > 1 && !job.filename.empty() &&
      (job.size_bytes == 0 || job.offset_increment_bytes < job.size_bytes)) {
    return invalid(
        "verify needs threads that write different blocks: give size, and offset_increment of at least that");
  }
  const std::uint64_t interval = job.interval_bytes();
  if (interval < 64 || interval > std::uint64_t{1} << 31 || job.block_bytes % interval != 0) {
    return invalid("a verify block of " + std::to_string(interval) + " bytes: it has at least 64, at most 2 GiB, and " +
                   "bs is a multiple of it");
  }
  return {};
}

}  // namespace headrace::bench
