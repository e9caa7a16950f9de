// The table of job keys. Each row's function parses a value; check_options() checks that values are compatible.
#include <algorithm>

#include "bench_units.h"
#include "cli_common.h"
#include "job_options.h"
#include "text.h"

namespace headrace::bench {
namespace {

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

Status assign_seconds(double& target, std::string_view value, double unit_seconds) {
  HEADRACE_TRY_ASSIGN(target, parse_duration(value, unit_seconds));
  return {};
}

Status assign_percent(unsigned& target, std::string_view value) {
  if (!value.empty() && value.back() == '%') value.remove_suffix(1);
  HEADRACE_TRY_ASSIGN(const std::uint64_t number, parse_number(value));
  if (number > 100) return invalid("'" + std::string(value) + "' is more than 100 percent");
  target = static_cast<unsigned>(number);
  return {};
}

Status assign_share(SizeOrPercent& target, std::string_view value) {
  HEADRACE_TRY_ASSIGN(target, parse_size_or_percent(value));
  return {};
}

// "10m", "10m,5m", ",5m": for reads and for writes.
Status assign_rates(std::uint64_t (&target)[2], std::string_view value) {
  HEADRACE_TRY_ASSIGN(const DirectionTexts texts, parse_directions(value));
  if (texts.read.empty() && texts.write.empty()) return invalid("a value is missing");
  if (!texts.read.empty()) {
    HEADRACE_TRY(assign_size(target[0], texts.read));
  }
  return texts.write.empty() ? Status() : assign_size(target[1], texts.write);
}

Status assign_blocks(JobOptions& job, std::string_view value, Result<BlockSizes> (*parse)(std::string_view)) {
  HEADRACE_TRY_ASSIGN(const DirectionTexts texts, parse_directions(value));
  if (texts.read.empty() && texts.write.empty()) return invalid("a value is missing");
  if (!texts.read.empty()) {
    HEADRACE_TRY_ASSIGN(job.sizes[0], parse(texts.read));
  }
  if (!texts.write.empty()) {
    HEADRACE_TRY_ASSIGN(job.sizes[1], parse(texts.write));
  }
  return {};
}

Status assign_log(std::optional<std::string>& target, std::string_view value) {
  target = value;
  return {};
}

// A single value for both reads and writes, in any of the accepted forms.
Result<std::string_view> of_both(std::string_view value) {
  HEADRACE_TRY_ASSIGN(const DirectionTexts texts, parse_directions(value));
  if (!texts.read.empty() && !texts.write.empty() && texts.read != texts.write) {
    return invalid("'" + std::string(value.substr(0, 80)) + "' has two values: reads and writes have one here");
  }
  return texts.read.empty() ? texts.write : texts.read;
}

void note(JobOptions& job, std::string text) { job.notes.push_back({"", std::move(text)}); }

Status set_direction(JobOptions& job, std::string_view value) {
  constexpr const char* kKnown = "one of read, write, randread, randwrite, rw, randrw";
  const std::size_t colon = std::min(value.find(':'), value.size());
  const std::string_view kind = value.substr(0, colon);
  const bool random = kind.substr(0, 4) == "rand";
  const std::string_view direction = random ? kind.substr(4) : kind;
  if (direction != "read" && direction != "write" && direction != "rw" && kind != "readwrite") {
    if (kind.find("trim") != std::string_view::npos)
      return invalid("trims are not supported: there is " + std::string(kKnown).substr(7));
    return invalid("'" + std::string(value) + "' is not " + kKnown);
  }
  job.random = random;
  job.read = direction != "write";
  job.write = direction != "read";
  job.sequential_run = 1;
  job.hole_bytes = 0;
  if (colon == value.size()) return {};
  if (random) return assign_count(job.sequential_run, value.substr(colon + 1), 1u << 20);
  HEADRACE_TRY(assign_size(job.hole_bytes, value.substr(colon + 1)));
  return job.hole_bytes <= std::uint64_t{1} << 50 ? Status() : invalid("a hole of more than 1 PiB");
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
  return job.size_bytes > 0 ? Status() : invalid("a size of 0 is no work");
}

Status set_engine(JobOptions& job, std::string_view value) {
  job.engine_maps = job.engine_is_null = false;
  const auto& known = cli::engine_choices();
  if (std::find(known.begin(), known.end(), value) != known.end()) return assign(job.engine, value);
  if (value == "libaio") return assign(job.engine, "aio");
  for (const char* calls : {"sync", "psync", "vsync", "pvsync", "pvsync2", "posixaio"}) {
    if (value != calls) continue;
    note(job, std::string(calls) + " is threads: threads of the library call pread and pwrite");
    return assign(job.engine, "threads");
  }
  if (value == "mmap" || value == "null") {
    job.engine_maps = value == "mmap";
    job.engine_is_null = value == "null";
    note(job, job.engine_maps ? "mmap is path=mapped, without a thread that touches each page"
                              : "null is no_io: no file is touched, bytes go to the device");
    return assign(job.engine, "auto");
  }
  if (value == "libcufile")
    return invalid("libcufile is not an engine here: 'headrace cufile-run' runs cuFile programs");
  return invalid("'" + std::string(value.substr(0, 80)) + "' is not one of " + cli::comma_list(known) +
                 ", libaio, sync, psync, vsync, pvsync, pvsync2, posixaio, mmap, null");
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
  for (const auto& [name, sum] : {std::pair<const char*, VerifySum>{"0", VerifySum::kNone},
                                  {"crc32c", VerifySum::kCrc32c},
                                  {"crc32c-intel", VerifySum::kCrc32c},
                                  {"crc7", VerifySum::kCrc7},
                                  {"crc16", VerifySum::kCrc16},
                                  {"crc32", VerifySum::kCrc32},
                                  {"crc64", VerifySum::kCrc64},
                                  {"xxhash", VerifySum::kXxhash},
                                  {"md5", VerifySum::kMd5},
                                  {"sha256", VerifySum::kSha256},
                                  {"meta", VerifySum::kMeta},
                                  {"pattern", VerifySum::kPattern}}) {
    if (value != name) continue;
    job.verify = sum;
    return {};
  }
  return invalid("'" + std::string(value.substr(0, 80)) +
                 "' is not one of crc32c, crc7, crc16, crc32, crc64, xxhash, md5, sha256, meta, pattern, 0");
}

Status set_file_size_range(JobOptions& job, std::string_view value) {
  const std::size_t dash = value.find('-');
  HEADRACE_TRY(assign_size(job.min_file_bytes, value.substr(0, dash)));
  job.max_file_bytes = job.min_file_bytes;
  if (dash != std::string_view::npos) {
    HEADRACE_TRY(assign_size(job.max_file_bytes, value.substr(dash + 1)));
  }
  if (job.min_file_bytes == 0) return invalid("a file of 0 bytes is no work");
  return job.max_file_bytes >= job.min_file_bytes ? Status() : invalid("a range that ends before it begins");
}

Status set_service(JobOptions& job, std::string_view value) {
  const std::size_t colon = std::min(value.find(':'), value.size());
  const std::string_view name = value.substr(0, colon);
  job.service_ios = 1;
  if (name == "roundrobin") {
    job.service = FileService::kRoundRobin;
  } else if (name == "random") {
    job.service = FileService::kRandom;
  } else if (name == "sequential") {
    job.service = FileService::kSequential;
  } else if (name == "zipf" || name == "pareto" || name == "normal" || name == "gauss") {
    const std::string law = name == "gauss" ? "normal" + std::string(value.substr(colon)) : std::string(value);
    HEADRACE_TRY_ASSIGN(job.service_law, parse_distribution(law));
    job.service = FileService::kDrawn;
    return {};
  } else {
    return invalid("'" + std::string(value.substr(0, 80)) +
                   "' is not one of roundrobin, random, sequential, zipf, pareto, normal");
  }
  return colon == value.size() ? Status() : assign_count(job.service_ios, value.substr(colon + 1), 1u << 30);
}

Status set_cpu_mask(JobOptions& job, std::string_view value) {
  HEADRACE_TRY_ASSIGN(const std::uint64_t mask, parse_number(value));
  if (mask == 0) return invalid("a mask of 0 allows no CPU");
  job.cpus.clear();
  for (unsigned cpu = 0; cpu < 64; ++cpu) {
    if ((mask >> cpu & 1) != 0) job.cpus.push_back(cpu);
  }
  return {};
}

Status set_pattern(BlockPattern& target, std::string_view value) {
  HEADRACE_TRY_ASSIGN(target, parse_pattern(value));
  return {};
}

using J = JobOptions;
using V = std::string_view;
constexpr unsigned kMaxDepth = 1u << 16, kMaxThreads = 1024, kMaxList = 1u << 20, kMaxFiles = 1u << 16;

constexpr const char kWhat[] = "What to read or write";
constexpr const char kOrder[] = "Order and sizes of blocks";
constexpr const char kHow[] = "How";
constexpr const char kLong[] = "How fast and how long";
constexpr const char kReport[] = "Order of jobs and reporting";
constexpr const char kVerify[] = "Contents and verification";

constexpr JobKey kKeys[] = {
    {"name", "", "TEXT", kWhat, "name of the job; on the command line, begins a new job",
     [](J& j, V v) { return assign(j.name, v); }},
    {"description", "", "TEXT", kWhat, "a line of text that the result carries",
     [](J& j, V v) { return assign(j.description, v); }},
    {"filename", "", "FILES", kWhat, "the file, block device or URL of an object (of a folder, with '/' at its end); of several, ':' between",
     [](J& j, V v) { return assign(j.filename, v); }},
    {"directory", "", "DIR", kWhat, "folder of filename; without filename, files are NAME.THREAD.N; with several folders, threads take turns",
     [](J& j, V v) { return assign(j.directory, v); }},
    {"filename_format", "", "TEXT", kWhat, "of those names; default $jobname.$jobnum.$filenum",
     [](J& j, V v) { return assign(j.filename_format, v); }},
    {"opendir", "", "DIR", kWhat, "the files of a folder and of those in it",
     [](J& j, V v) { return assign(j.opendir, v); }},
    {"nrfiles", "", "N", kWhat, "files of a job, where none are named; default 1",
     [](J& j, V v) { return assign_count(j.files, v, kMaxFiles); }},
    {"filesize", "", "SIZE", kWhat, "bytes of each file, or a range; size is then how much is read or written",
     set_file_size_range},
    {"file_service_type", "", "KIND", kWhat, "roundrobin (the default), random, sequential; :N blocks in a row of each; zipf:T, pareto:H, normal:D",
     set_service},
    {"file_append", "", nullptr, kWhat, "start at the end of the file", [](J& j, V v) { return assign(j.file_append, v); }},
    {"overwrite", "", nullptr, kWhat, "create files in full before overwriting them",
     [](J& j, V v) { return assign(j.overwrite, v); }},
    {"allow_file_create", "", nullptr, kWhat, "0: a missing file is an error; default 1",
     [](J& j, V v) { return assign(j.may_create, v); }},
    {"create_fsync", "", nullptr, kWhat, "fsync files that are made for a job; default 1",
     [](J& j, V v) { return assign(j.create_fsync, v); }},
    {"create_only", "", nullptr, kWhat, "make the files and do nothing else",
     [](J& j, V v) { return assign(j.create_only, v); }},
    {"unlink", "", nullptr, kWhat, "remove the files that were made for the job when it has ended",
     [](J& j, V v) { return assign(j.unlink, v); }},
    {"paths", "", "FILE", kWhat, "a file with a list of files, one per line, each read whole; divided among the threads",
     [](J& j, V v) { return assign(j.paths, v); }},
    {"zarr", "", "PATH", kWhat, "a Zarr array, read whole or by --select", [](J& j, V v) { return assign(j.zarr, v); }},
    {"decode", "", "PATH", kWhat, "a Zarr array, decoded from device memory into device memory: no I/O",
     [](J& j, V v) { return assign(j.decode, v); }},
    {"select", "", "TEXT", kWhat, "with --zarr or --decode: the part of the array, as in NumPy",
     [](J& j, V v) { return assign(j.select, v); }},
    {"placement", "", "NAME", kWhat, "with --zarr: processor that decodes: auto (the default), cpu, gpu", set_placement},
    {"rw", "readwrite", "KIND", kWhat,
     "read (the default), write, randread, randwrite, rw, randrw; randX:N: N blocks in a row, X:SIZE: with holes",
     set_direction},
    {"rw_sequencer", "", "KIND", kOrder, "of rw=KIND:N: sequential (the default); identical: N times the same block",
     [](J& j, V v) -> Status {
       if (v != "sequential" && v != "identical") return invalid("'" + std::string(v) + "' is not one of sequential, identical");
       j.run_repeats = v == "identical";
       return {};
     }},
    {"rwmixread", "", "PERCENT", kWhat, "reads among the blocks of rw and randrw; default 50",
     [](J& j, V v) { return assign_percent(j.read_percent, v); }},
    {"rwmixwrite", "", "PERCENT", kWhat, "writes among them",
     [](J& j, V v) -> Status {
       HEADRACE_TRY(assign_percent(j.read_percent, v));
       j.read_percent = 100 - j.read_percent;
       return {};
     }},
    {"bs", "blocksize", "SIZE", kOrder, "bytes of a block, or a range; READ,WRITE for two; default 4k",
     [](J& j, V v) { return assign_blocks(j, v, BlockSizes::parse_size_or_range); }},
    {"bsrange", "blocksize_range", "RANGE", kOrder, "the same, as 4k-64k",
     [](J& j, V v) { return assign_blocks(j, v, BlockSizes::parse_size_or_range); }},
    {"bssplit", "", "LIST", kOrder, "sizes and their shares in percent, as 4k/60:64k/40",
     [](J& j, V v) { return assign_blocks(j, v, BlockSizes::parse_split); }},
    {"bs_unaligned", "blocksize_unaligned", nullptr, kOrder, "any size of a range, not multiples of the smallest",
     [](J& j, V v) { return assign(j.unaligned, v); }},
    {"bs_is_seq_rand", "", nullptr, kOrder, "bs=READ,WRITE is of blocks in sequence and blocks at random",
     [](J& j, V v) { return assign(j.sizes_by_order, v); }},
    {"ba", "blockalign", "SIZE", kOrder, "random offsets are multiples of it; default the smallest block",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(const V both, of_both(v));
       return assign_size(j.align_bytes, both);
     }},
    {"size", "", "SIZE", kWhat, "bytes of the files to use, or N%; default all", set_file_size},
    {"io_size", "io_limit", "SIZE", kWhat, "bytes to read or write in all, more or less than size; or N% of it",
     [](J& j, V v) { return assign_share(j.io_size, v); }},
    {"number_ios", "", "N", kWhat, "blocks to read or write in all",
     [](J& j, V v) { return assign_number(j.number_ios, v); }},
    {"offset", "", "SIZE", kWhat, "where the region begins, or N% of the file",
     [](J& j, V v) { return assign_share(j.offset, v); }},
    {"offset_align", "", "SIZE", kWhat, "an offset in percent is rounded down to this; default the smallest block",
     [](J& j, V v) { return assign_size(j.offset_align_bytes, v); }},
    {"offset_increment", "", "SIZE", kWhat, "added to offset for each thread of the job; or N% of the file",
     [](J& j, V v) { return assign_share(j.offset_increment, v); }},
    {"norandommap", "softrandommap", nullptr, kOrder, "random blocks may repeat within a pass",
     [](J& j, V v) { return assign(j.norandommap, v); }},
    {"random_distribution", "", "LAW", kOrder, "random (the default), zipf:THETA, pareto:H, normal:PERCENT, zoned:SHARE/PERCENT:..., zoned_abs:SHARE/SIZE:...",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(j.distribution, parse_distribution(v));
       return {};
     }},
    {"percentage_random", "", "PERCENT", kOrder, "random blocks of a random job; the others follow the one before",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(const V both, of_both(v));
       return assign_percent(j.percent_random, both);
     }},
    {"randrepeat", "allrandrepeat", nullptr, kOrder, "0: another order in each run; default 1",
     [](J& j, V v) { return assign(j.repeatable, v); }},
    {"randseed", "", "N", kOrder, "seed of random blocks and of verify patterns; default 1",
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
    {"buffered", "", nullptr, kHow, "0 is direct=1",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(const bool buffered, parse_truth(v));
       j.direct = !buffered;
       return {};
     }},
    {"ioengine", "", "NAME", kHow, "%; psync and its like, mmap, null; default auto", set_engine,
     [] { return cli::comma_list(cli::engine_choices()); }},
    {"device", "", "NAME", kHow, "%; auto (the default) is the first GPU, else the host",
     [](J& j, V v) { return assign(j.device, v); }, [] { return cli::device_help(); }},
    {"iodepth", "", "N", kHow, "requests in flight; default 1",
     [](J& j, V v) { return assign_count(j.depth, v, kMaxDepth); }},
    {"iodepth_batch_submit", "iodepth_batch", "N", kHow, "requests handed over together; default: all that fit",
     [](J& j, V v) { return assign_count(j.batch_submit, v, kMaxDepth); }},
    {"iodepth_batch_complete_min", "iodepth_batch_complete", "N", kHow, "completions to wait for; default 1",
     [](J& j, V v) { return assign_count(j.batch_complete, v, kMaxDepth); }},
    {"iodepth_batch_complete_max", "", "N", kHow, "completions to take at a time; default all",
     [](J& j, V v) { return assign_count(j.batch_complete_max, v, kMaxDepth); }},
    {"iodepth_low", "", "N", kHow, "once iodepth requests are in flight, wait until only so many are",
     [](J& j, V v) { return assign_count(j.depth_low, v, kMaxDepth); }},
    {"serialize_overlap", "", nullptr, kHow, "blocks in flight do not overlap: refused where they might",
     [](J& j, V v) { return assign(j.no_overlap, v); }},
    {"list", "", "N", kHow, "blocks (or files) of one request; default 1",
     [](J& j, V v) { return assign_count(j.list, v, kMaxList); }},
    {"numjobs", "", "N", kHow, "threads that each do this job; default 1",
     [](J& j, V v) { return assign_count(j.threads, v, kMaxThreads); }},
    {"cpus_allowed", "", "LIST", kHow, "CPUs of the job's thread, as 0-3,8",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(j.cpus, parse_cpu_list(v));
       return {};
     }},
    {"cpumask", "", "N", kHow, "the same as a mask", set_cpu_mask},
    {"cpus_allowed_policy", "", "KIND", kHow, "shared (the default); split: each thread has one of the CPUs",
     [](J& j, V v) -> Status {
       if (v != "shared" && v != "split") return invalid("'" + std::string(v) + "' is not one of shared, split");
       j.split_cpus = v == "split";
       return {};
     }},
    {"cache", "", "STATE", kHow, "page cache before the job: as-is (the default), cold, half, warm; proven", set_cache},
    {"invalidate", "", nullptr, kHow, "1 is --cache cold; 0 leaves the cache as it is (fio's default is 1)",
     set_invalidate},
    {"pre_read", "", nullptr, kHow, "1 is --cache warm",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(const bool warm, parse_truth(v));
       if (warm) j.cache = CacheState::kWarm;
       return {};
     }},
    {"no_io", "", nullptr, kHow, "no file is touched: the copy alone", [](J& j, V v) { return assign(j.no_io, v); }},
    {"no_copy", "", nullptr, kHow, "nothing goes to the device (null sink): the I/O alone",
     [](J& j, V v) { return assign(j.no_copy, v); }},
    {"fsync", "", "N", kHow, "fsync after every N writes", [](J& j, V v) { return assign_number(j.fsync_every, v); }},
    {"end_fsync", "", nullptr, kHow, "fsync when all is written", [](J& j, V v) { return assign(j.end_fsync, v); }},
    {"fdatasync", "", "N", kHow, "as fsync: the size is written too",
     [](J& j, V v) -> Status {
       note(j, "fsync is called, which writes the size too");
       return assign_number(j.fsync_every, v);
     }},
    {"fsync_on_close", "", nullptr, kHow, "as end_fsync", [](J& j, V v) { return assign(j.end_fsync, v); }},
    {"sync", "", "KIND", kHow, "1, sync or dsync is fsync=1; 0 or none (the default) nothing",
     [](J& j, V v) -> Status {
       if (v == "0" || v == "none") return {};
       if (v != "1" && v != "sync" && v != "dsync") return invalid("'" + std::string(v) + "' is not one of none, sync, dsync");
       j.fsync_every = 1;
       note(j, "fsync is called after each write; files are not opened with O_SYNC");
       return {};
     }},
    {"rate", "", "SIZE", kLong, "bytes a second at most; READ,WRITE for two",
     [](J& j, V v) { return assign_rates(j.rate, v); }},
    {"rate_iops", "", "N", kLong, "blocks a second at most", [](J& j, V v) { return assign_rates(j.rate_iops, v); }},
    {"rate_min", "ratemin", "SIZE", kLong, "fail where fewer bytes a second are reached",
     [](J& j, V v) { return assign_rates(j.rate_min, v); }},
    {"rate_iops_min", "", "N", kLong, "fail where fewer blocks a second are reached",
     [](J& j, V v) { return assign_rates(j.rate_iops_min, v); }},
    {"rate_cycle", "", "TIME", kLong, "over which the two are looked at; milliseconds; default 1s",
     [](J& j, V v) { return assign_seconds(j.rate_cycle_seconds, v, 1e-3); }},
    {"rate_process", "", "KIND", kLong, "linear (the default); poisson: random times between blocks",
     [](J& j, V v) -> Status {
       if (v != "linear" && v != "poisson") return invalid("'" + std::string(v) + "' is not one of linear, poisson");
       j.rate_poisson = v == "poisson";
       return {};
     }},
    {"thinktime", "", "TIME", kLong, "wait so long after each block; microseconds",
     [](J& j, V v) { return assign_seconds(j.think_seconds, v, 1e-6); }},
    {"thinktime_spin", "", "TIME", kLong, "of that, so long without sleeping; microseconds",
     [](J& j, V v) { return assign_seconds(j.think_spin_seconds, v, 1e-6); }},
    {"thinktime_blocks", "", "N", kLong, "wait after N blocks, not each",
     [](J& j, V v) -> Status {
       HEADRACE_TRY(assign_number(j.think_blocks, v));
       return j.think_blocks > 0 ? Status() : invalid("there is at least 1 block");
     }},
    {"thinktime_blocks_type", "", "KIND", kLong, "blocks that are counted: complete (the default), issue",
     [](J& j, V v) -> Status {
       if (v != "complete" && v != "issue") return invalid("'" + std::string(v) + "' is not one of complete, issue");
       j.think_after_issue = v == "issue";
       return {};
     }},
    {"thinktime_iotime", "", "TIME", kLong, "wait after so long a time of I/O, not after blocks; seconds",
     [](J& j, V v) { return assign_seconds(j.think_io_seconds, v); }},
    {"max_latency", "", "TIME", kLong, "fail where a request takes longer; microseconds",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(const V both, of_both(v));
       return assign_seconds(j.max_latency_seconds, both, 1e-6);
     }},
    {"loops", "", "N", kLong, "passes over the region; default 1",
     [](J& j, V v) -> Status {
       HEADRACE_TRY(assign_number(j.loops, v));
       return j.loops > 0 ? Status() : invalid("there is at least 1 pass");
     }},
    {"runtime", "timeout", "TIME", kLong, "stop after so long; seconds unless ms, m or h is said",
     [](J& j, V v) { return assign_seconds(j.runtime_seconds, v); }},
    {"time_based", "", nullptr, kLong, "go on for the whole runtime",
     [](J& j, V v) { return assign(j.time_based, v); }},
    {"ramp_time", "", "TIME", kLong, "run so long before anything counts",
     [](J& j, V v) { return assign_seconds(j.ramp_seconds, v); }},
    {"startdelay", "", "TIME", kLong, "begin so long after the other jobs",
     [](J& j, V v) { return assign_seconds(j.start_delay_seconds, v); }},
    {"exitall", "", nullptr, kReport, "when this job ends, so do those that run beside it",
     [](J& j, V v) { return assign(j.exit_all, v); }},
    {"stonewall", "wait_for_previous", nullptr, kReport, "start when all jobs before have ended",
     [](J& j, V v) { return assign(j.stonewall, v); }},
    {"new_group", "", nullptr, kReport, "begin a new reporting group",
     [](J& j, V v) { return assign(j.new_group, v); }},
    {"stats", "", nullptr, kReport, "0: the result has nothing of this job, unless it fails; default 1",
     [](J& j, V v) { return assign(j.stats, v); }},
    {"group_reporting", "", nullptr, kReport, "one result for the group instead of one a thread",
     [](J& j, V v) { return assign(j.group_reporting, v); }},
    {"percentile_list", "", "LIST", kReport, "latency percentiles, as 50:99:99.9",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(j.percentiles, parse_percentiles(v));
       return {};
     }},
    {"unified_rw_reporting", "", "KIND", kReport, "none (the default); mixed: JSON has the sum of reads and writes; both",
     [](J& j, V v) -> Status {
       const bool none = v == "none" || v == "0", mixed = v == "mixed" || v == "1", both = v == "both" || v == "2";
       if (!none && !mixed && !both) return invalid("'" + std::string(v) + "' is not one of none, mixed, both");
       j.report_sum = mixed || both;
       j.report_directions = none || both;
       return {};
     }},
    {"clat_percentiles", "", nullptr, kReport, "percentiles of completion; default 1",
     [](J& j, V v) { return assign(j.clat_percentiles, v); }},
    {"lat_percentiles", "", nullptr, kReport, "percentiles of the whole latency; default 1",
     [](J& j, V v) { return assign(j.lat_percentiles, v); }},
    {"slat_percentiles", "", nullptr, kReport, "percentiles of submission; default 0",
     [](J& j, V v) { return assign(j.slat_percentiles, v); }},
    {"write_bw_log", "", "[NAME]", kReport, "write NAME_bw.THREAD.log: time, KiB/s, direction, bytes",
     [](J& j, V v) { return assign_log(j.log.bw, v); }},
    {"write_lat_log", "", "[NAME]", kReport, "write NAME_lat, _slat and _clat logs, in nanoseconds",
     [](J& j, V v) { return assign_log(j.log.lat, v); }},
    {"write_iops_log", "", "[NAME]", kReport, "write NAME_iops.THREAD.log",
     [](J& j, V v) { return assign_log(j.log.iops, v); }},
    {"log_avg_msec", "", "TIME", kReport, "one line of a log for so many milliseconds; default one for each request",
     [](J& j, V v) { return assign_seconds(j.log.average_seconds, v, 1e-3); }},
    {"log_max_value", "", nullptr, kReport, "that line has the largest value, not the mean",
     [](J& j, V v) { return assign(j.log.maximum, v); }},
    {"log_offset", "", nullptr, kReport, "lines of logs have the offset", [](J& j, V v) { return assign(j.log.with_offset, v); }},
    {"log_unix_epoch", "", nullptr, kReport, "times of logs are Unix time",
     [](J& j, V v) { return assign(j.log.unix_epoch, v); }},
    {"log_alternate_epoch", "", nullptr, kReport, "the same, of log_alternate_epoch_clock_id",
     [](J& j, V v) { return assign(j.log.unix_epoch, v); }},
    {"log_alternate_epoch_clock_id", "", "N", kReport, "a clock of clock_gettime(2)",
     [](J& j, V v) -> Status {
       HEADRACE_TRY_ASSIGN(const std::uint64_t clock, parse_number(v));
       if (clock > 11) return invalid("'" + std::string(v) + "' is not a clock of clock_gettime");
       j.log.epoch_clock = static_cast<int>(clock);
       return {};
     }},
    {"per_job_logs", "", nullptr, kReport, "0: names of logs without the thread's number; default 1",
     [](J& j, V v) { return assign(j.log.per_job, v); }},
    {"zero_buffers", "", nullptr, kVerify, "write zeros", [](J& j, V v) { return assign(j.zero_buffers, v); }},
    {"buffer_pattern", "", "BYTES", kVerify, "write these again and again: 0xdeadbeef, 170, \"text\", %o the offset",
     [](J& j, V v) -> Status {
       HEADRACE_TRY(set_pattern(j.buffer_pattern, v));
       return j.buffer_pattern.offset_at.empty() ? Status() : invalid("%o is for verify_pattern");
     }},
    {"buffer_compress_percentage", "", "PERCENT", kVerify, "share of each chunk that is zeros or buffer_pattern",
     [](J& j, V v) { return assign_percent(j.compress_percent, v); }},
    {"buffer_compress_chunk", "", "SIZE", kVerify, "of such a chunk; default 512",
     [](J& j, V v) -> Status {
       HEADRACE_TRY(assign_size(j.compress_chunk_bytes, v));
       return j.compress_chunk_bytes > 0 ? Status() : invalid("a chunk has at least 1 byte");
     }},
    {"verify", "", "SUM", kVerify, "write or check blocks that say where they belong: crc32c, crc7, crc16, crc32, crc64, xxhash, md5, sha256, "
     "meta (the header alone), pattern",
     set_verify},
    {"verify_pattern", "", "BYTES", kVerify, "what such blocks are filled with; needed by verify=pattern",
     [](J& j, V v) { return set_pattern(j.verify_pattern, v); }},
    {"verify_only", "", nullptr, kVerify, "a write job reads and checks what an earlier run wrote",
     [](J& j, V v) { return assign(j.verify_only, v); }},
    {"verify_interval", "", "SIZE", kVerify, "bytes of a verify block, at least 64; default the smallest block",
     [](J& j, V v) { return assign_size(j.verify_interval_bytes, v); }},
    {"verify_fatal", "", nullptr, kVerify, "stop at the first bad block",
     [](J& j, V v) { return assign(j.verify_fatal, v); }},
    {"do_verify", "", nullptr, kVerify, "after writing, read everything back and check it; default 1",
     [](J& j, V v) { return assign(j.do_verify, v); }},
};

}  // namespace

std::span<const JobKey> job_keys() { return kKeys; }

std::string help_of(const JobKey& key) {
  std::string text = key.help;
  if (key.choices != nullptr) text.replace(text.find('%'), 1, key.choices());
  return text;
}

const JobKey* find_job_key(std::string_view name) {
  for (const JobKey& key : kKeys) {
    if (name == key.name || (*key.alias != 0 && name == key.alias)) return &key;
  }
  return nullptr;
}

}  // namespace headrace::bench
