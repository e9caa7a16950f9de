#include "job_options.h"

#include <algorithm>

#include "bench_units.h"
#include "fio_keys.h"
#include "remote_options.h"
#include "text.h"

namespace headrace::bench {
namespace {

constexpr unsigned kMaxBlocks = 1u << 24;

// A later value of a key replaces earlier ones.
void replace_given(JobOptions& job, const char* name, std::string value, bool global) {
  std::erase_if(job.given, [&](const GivenOption& option) { return option.key == name; });
  job.given.push_back({name, std::move(value), global});
}

void drop_notes(JobOptions& job, std::string_view key) {
  std::erase_if(job.notes, [&](const OptionNote& note) { return note.key == key; });
}

Status set_other_option(JobOptions& job, const OtherFioKey& key, std::string_view value, bool global) {
  HEADRACE_TRY(check_other_value(key, value));
  drop_notes(job, key.name);
  job.notes.push_back({key.name, std::string("has no effect: ") + key.text});
  const bool flag = key.values[0] == '0' && value.empty();
  replace_given(job, key.name, flag ? "1" : std::string(value), global);
  return {};
}

}  // namespace

bool JobOptions::uses_sizes(unsigned which) const {
  if (!sizes_by_order) return which == 0 ? read : write;
  return which == 1 ? random : !random || percent_random < 100 || sequential_run > 1;
}

std::uint64_t JobOptions::smallest_block() const {
  std::uint64_t bytes = UINT64_MAX;
  for (const unsigned which : {0u, 1u}) bytes = uses_sizes(which) ? std::min(bytes, sizes[which].smallest()) : bytes;
  return bytes;
}

std::uint64_t JobOptions::largest_block() const {
  std::uint64_t bytes = 0;
  for (const unsigned which : {0u, 1u}) bytes = uses_sizes(which) ? std::max(bytes, sizes[which].largest()) : bytes;
  return bytes;
}

bool JobOptions::is_remote() const { return works_on_files() && cli::is_remote_url(filename); }

bool JobOptions::each_block_once() const {
  if (!random) return !mixed();
  return smallest_block() == largest_block() && !norandommap && percent_random == 100 && sequential_run == 1 &&
         distribution.law == DistributionKind::Law::kUniform && (align_bytes == 0 || align_bytes >= largest_block());
}

Path JobOptions::chosen_path() const {
  if (direct.value_or(false)) return Path::kDirect;
  return path == Path::kAuto && engine_maps ? Path::kMapped : path;
}

Result<SizeOrPercent> parse_size_or_percent(std::string_view value) {
  SizeOrPercent out;
  if (value.empty() || value.back() != '%') {
    HEADRACE_TRY_ASSIGN(out.bytes, parse_size(value));
    return out;
  }
  HEADRACE_TRY_ASSIGN(const std::uint64_t percent, parse_number(value.substr(0, value.size() - 1)));
  if (percent > 100) return invalid("'" + std::string(value) + "' is more than the whole file");
  out.percent = static_cast<unsigned>(percent);
  return out;
}

std::string nearest_key(std::string_view word, std::span<const char* const> extra) {
  cli::NearestWord nearest(word);
  for (const JobKey& key : job_keys()) {
    nearest.consider(key.name);
    if (*key.alias != 0) nearest.consider(key.alias);
  }
  for (const OtherFioKey& key : other_fio_keys()) {
    if (key.values != nullptr) nearest.consider(key.name);
  }
  for (const char* name : extra) nearest.consider(name);
  return nearest.best();
}

Status set_option(JobOptions& job, std::string_view key, std::string_view value, bool global) {
  const JobKey* known = find_job_key(key);
  if (known == nullptr) {
    if (const OtherFioKey* other = find_other_fio_key(key)) return set_other_option(job, *other, value, global);
    const std::string near = nearest_key(key);
    return invalid("unknown key '" + std::string(key.substr(0, 40)) + "'" +
                   (near.empty() ? "" : ", did you mean '" + near + "'?"));
  }
  drop_notes(job, known->name);
  if (Status status = known->set(job, value); !status.ok()) {
    return invalid(std::string(known->name) + ": " + status.message());
  }
  for (OptionNote& note : job.notes) {
    if (note.key.empty()) note.key = known->name;
  }
  std::string text(value);
  if (known->value_name == nullptr) text = parse_truth(value).value() ? "1" : "0";
  replace_given(job, known->name, std::move(text), global);
  return {};
}

namespace {

Status check_sources(const JobOptions& job) {
  const bool array = !job.zarr.empty() || !job.decode.empty();
  const bool named = !job.filename.empty() || !job.directory.empty() || !job.opendir.empty();
  const int others = int{!job.paths.empty()} + !job.zarr.empty() + !job.decode.empty();
  const bool sized = job.size_bytes > 0 || job.min_file_bytes > 0;
  if (!named && others == 0 && !sized) {
    return invalid("there is nothing to read or write: give filename, directory, paths, zarr or decode, or a size");
  }
  if (int{named} + others > 1) {
    return invalid("filename (or directory, or opendir), paths, zarr and decode exclude each other");
  }
  if (job.create_only && others > 0) return invalid("create_only makes files: give filename or directory, and size");
  if (job.write && others > 0) return invalid("paths, zarr and decode are only read: rw=read");
  if (job.placement != Placement::kAuto && job.zarr.empty()) return invalid("placement is for arrays: give zarr");
  if (!job.select.empty() && !array) return invalid("select is a part of an array: give zarr or decode");
  if (!job.decode.empty() && (job.depth > 1 || job.cache != CacheState::kAsIs)) {
    return invalid("a decode job does no I/O and has one batch at a time: no iodepth or cache with it");
  }
  if (job.cache == CacheState::kHalf && others > 0) {
    return invalid("cache=half reads every other block of a file: give filename");
  }
  if (array && (job.chosen_path() != Path::kAuto || job.skips_io() || job.no_copy || job.list > 1 || job.random)) {
    return invalid("an array's job chooses its path itself: no path, direct, no_io, no_copy, list or randread with it");
  }
  const bool shaped = job.rate[0] > 0 || job.rate_iops[0] > 0 || job.rate_min[0] > 0 || job.rate_iops_min[0] > 0 ||
                      job.think_seconds > 0 || job.log.any() || job.io_size.given() || job.number_ios > 0 ||
                      job.max_latency_seconds > 0;
  if (cli::is_remote_url(job.zarr) && job.cache != CacheState::kAsIs) {
    return invalid("cache is the page cache of files, and the array is a URL");
  }
  if (array && shaped) {
    return invalid("rates, thinktime, logs, io_size, number_ios and max_latency are for files: give filename");
  }
  return {};
}

Status check_blocks(const JobOptions& job) {
  std::uint64_t memory_bytes = 0;
  if (__builtin_mul_overflow(job.largest_block(), std::uint64_t{job.depth} * job.list, &memory_bytes) ||
      memory_bytes > std::uint64_t{1} << 42) {
    return invalid("bs x list x iodepth is more than 4 TiB of device memory");
  }
  if (std::uint64_t{job.depth} * job.list > kMaxBlocks) {
    return invalid("list x iodepth is more than " + std::to_string(kMaxBlocks) + " blocks in flight");
  }
  if (job.no_overlap && job.write && !job.each_block_once()) {
    return invalid(
        "serialize_overlap: blocks of this job may overlap: leave out norandommap, random_distribution, "
        "percentage_random, block sizes that differ, or mixed directions");
  }
  return {};
}

Status check_verify(const JobOptions& job) {
  if (job.verify_only && job.write && !job.verifies())
    return invalid("verify_only checks what verify wrote: give verify");
  if (!job.verifies()) return {};
  if (!job.works_on_files()) return invalid("verify checks blocks of a file: give filename");
  if (job.skips_io() || job.no_copy) {
    return invalid("verify needs both the I/O and the copy: no_io and no_copy exclude it");
  }
  if (job.mixed() && job.verify_only) {
    return invalid(
        "verify_only with rw or randrw: nobody can tell which blocks an earlier run wrote; the job itself checks them "
        "when it has ended (do_verify), and rw=write with verify_only checks a file that was written whole");
  }
  if (job.write && job.threads > 1 && !job.filename.empty() &&
      (job.size_bytes == 0 || job.offset_increment.bytes < job.size_bytes)) {
    return invalid(
        "verify needs threads that write different blocks: give size, and offset_increment of at least that");
  }
  if (job.verify == VerifySum::kPattern && job.verify_pattern.empty()) {
    return invalid("verify=pattern needs the pattern: give verify_pattern");
  }
  const std::uint64_t interval = job.interval_bytes(), least = min_verify_bytes(job.verify);
  const auto divides = [&](std::uint64_t bytes) { return interval > 0 && bytes % interval == 0; };
  const bool whole = (!job.uses_sizes(0) || divides(job.sizes[0].divisor(job.unaligned))) &&
                     (!job.uses_sizes(1) || divides(job.sizes[1].divisor(job.unaligned)));
  if (interval < least || interval > std::uint64_t{1} << 31 || !whole) {
    return invalid("a verify block of " + std::to_string(interval) + " bytes: it has at least " +
                   std::to_string(least) + ", at most 2 GiB, and bs is a multiple of it");
  }
  if (job.tracks_written() && (!divides(job.align_bytes) || !divides(job.hole_bytes))) {
    return invalid("verify: ba, and the hole of rw=rw:SIZE, are multiples of the verify block of " +
                   std::to_string(interval) + " bytes where a job reads and writes, or may write a block twice");
  }
  return {};
}

}  // namespace

Status check_options(const JobOptions& job) {
  HEADRACE_TRY(check_sources(job));
  if (job.is_remote()) HEADRACE_TRY(check_remote_options(job));
  const Path path = job.chosen_path();
  if (job.direct.value_or(false) && (job.engine_maps || (job.path != Path::kAuto && job.path != Path::kDirect))) {
    return invalid("direct=1 and " + (job.engine_maps ? "ioengine=mmap" : "path=" + std::string(path_name(job.path))) +
                   " contradict each other");
  }
  if (job.write && path == Path::kMapped) {
    return invalid(std::string(job.engine_maps ? "ioengine=mmap" : "path=mapped") +
                   " only reads: use auto, direct or buffered");
  }
  if (job.write && !job.read && (job.cache == CacheState::kWarm || job.cache == CacheState::kHalf)) {
    return invalid("cache=warm and cache=half apply only to reads");
  }
  if (job.log.any() && job.log.average_seconds == 0 && job.log.maximum) {
    return invalid("log_max_value applies to a window: give log_avg_msec");
  }
  HEADRACE_TRY(check_blocks(job));
  return check_verify(job);
}

void note_idle_options(JobOptions& job) {
  const auto note = [&](const char* key, const char* text) {
    const auto said = [&](const GivenOption& option) { return option.key == key; };
    if (!std::any_of(job.given.begin(), job.given.end(), said)) return;
    drop_notes(job, key);
    job.notes.push_back({key, std::string("has no effect: ") + text});
  };
  if (job.runtime_seconds <= 0) note("time_based", "runtime is not set");
  if (!job.write) {
    for (const char* key : {"fsync", "fdatasync", "sync", "end_fsync", "fsync_on_close", "zero_buffers",
                            "buffer_pattern", "buffer_compress_percentage", "overwrite", "file_append"}) {
      note(key, "nothing is written");
    }
  }
  if (!job.mixed()) {
    note("rwmixread", "rw=rw and randrw mix");
    note("rwmixwrite", "rw=rw and randrw mix");
  }
  if (!job.random) {
    for (const char* key : {"norandommap", "randrepeat", "random_distribution", "percentage_random", "ba"}) {
      note(key, "blocks are not random");
    }
  }
  if (!job.filename.empty() || !job.opendir.empty()) {
    note("nrfiles", "filename or opendir names the files");
    note("filename_format", "filename or opendir names the files");
  }
  if (!job.verifies()) {
    for (const char* key : {"do_verify", "verify_fatal", "verify_interval", "verify_pattern", "verify_only"}) {
      note(key, "verify is not set");
    }
  }
  if (!job.log.any()) {
    for (const char* key : {"log_avg_msec", "log_max_value", "log_offset", "log_unix_epoch", "log_alternate_epoch",
                            "log_alternate_epoch_clock_id", "per_job_logs"}) {
      note(key, "no log is written");
    }
  }
  if (job.think_seconds == 0) {
    for (const char* key : {"thinktime_blocks", "thinktime_spin", "thinktime_blocks_type", "thinktime_iotime"}) {
      note(key, "thinktime is not set");
    }
  }
  if (job.cpus.empty()) note("cpus_allowed_policy", "cpus_allowed is not set");
  if (job.compress_percent == 0) note("buffer_compress_chunk", "buffer_compress_percentage is not set");
  if (job.depth_low >= job.depth) note("iodepth_low", "it is not below iodepth");
}

JobOptions as_run(JobOptions job) {
  job.time_based = job.time_based && job.runtime_seconds > 0;
  job.depth_low = job.depth_low >= job.depth ? 0 : job.depth_low;
  job.overwrite = job.overwrite || job.create_only;
  if (job.verify_only && job.verifies() && job.write) {
    job.read = true;
    job.write = false;
    if (!job.sizes_by_order) job.sizes[0] = job.sizes[1];
  }
  if (!job.write) {
    job.end_fsync = false;
    job.fsync_every = 0;
  }
  return job;
}

}  // namespace headrace::bench
