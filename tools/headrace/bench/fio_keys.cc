#include "fio_keys.h"

#include <algorithm>
#include <string>

#include "bench_units.h"

namespace headrace::bench {
namespace {

constexpr const char* kNoReportLine = "the report has no such line";
constexpr const char* kNoLog = "logs are written whole when the job has ended";
constexpr const char* kNoIolog = "acts with read_iolog alone";
constexpr const char* kZbd = "acts with zonemode=zbd alone";
constexpr const char* kZones = "give each zone a job of its own, with offset and size";
constexpr const char* kDedupe = "acts with dedupe_percentage alone";
constexpr const char* kSteady = "acts with steadystate alone";
constexpr const char* kTarget = "acts with latency_target alone";
constexpr const char* kClock = "two clock readings a request are taken anyhow";
constexpr const char* kTrim = "nothing is trimmed here";
constexpr const char* kMemory = "buffers are the device's memory";

constexpr OtherFioKey kOtherKeys[] = {
    // Files
    {"unique_filename", "", "0|1", "there are no network clients"},
    {"lockfile", "", "none", "files are not locked: exclusive and readwrite are unsupported"},
    {"openfiles", "", "#", "all files of a job stay open"},
    {"fallocate", "", "none|posix|native|keep|truncate|0|1", "files are not preallocated: writes extend them"},
    {"fadvise_hint", "", "0|1|none|sequential|random|noreuse", "the kernel gets no hint"},
    {"create_serialize", "", "0|1", "files are made one after the other"},
    {"create_on_open", "", "0|1", "files are made before the jobs start"},
    {"allow_mounted_write", "", "0", "a block device with a mounted file system: mind what you write to"},
    {"fill_device", "fill_fs", nullptr, "give a size"},
    {"unlink_each_loop", "", nullptr, "unlink removes what was made when the job has ended"},
    {"write_hint", "", "none|0", "files have no write hint"},
    // Order of I/O
    {"random_generator", "", "tausworthe|lfsr|tausworthe64", "the order comes from a permutation of its own"},
    {"ignore_error", "", nullptr, "a job stops at its first error"},
    {"continue_on_error", "", "none", "a job stops at its first error"},
    {"error_dump", "", "0|1", "the first error is reported in any case"},
    {"write_barrier", "", nullptr, "fsync=N"},
    {"sync_file_range", "", nullptr, "fsync=N"},
    {"atomic", "", nullptr, "direct=1 without a promise of atomic writes"},
    {"io_submit_mode", "", "inline", "the job's thread hands requests over itself"},
    {"experimental_verify", "", "0|1", "verify needs no record of what was written"},
    // Memory, clock, process
    {"thread", "", "0|1", "jobs are always threads"},
    {"mem", "iomem", "*", kMemory},
    {"mem_align", "iomem_align", "#", kMemory},
    {"hugepage-size", "", "#", kMemory},
    {"lockmem", "", "#", "no memory is locked for the job"},
    {"clocksource", "", "gettimeofday|clock_gettime|cpu", "the clock is clock_gettime's monotonic one"},
    {"gtod_reduce", "", "0|1", kClock},
    {"gtod_cpu", "", "#", kClock},
    {"disable_lat", "", "0|1", kClock},
    {"disable_clat", "", "0|1", kClock},
    {"disable_slat", "", "0|1", kClock},
    {"disable_bw_measurement", "disable_bw", "0|1", kClock},
    {"nice", "", nullptr, "start headrace under nice, so that the library's threads have it too"},
    {"prio", "", nullptr, "start headrace under ionice"},
    {"prioclass", "", nullptr, "start headrace under ionice"},
    {"numa_cpu_nodes", "", nullptr, "start headrace under numactl, or give cpus_allowed"},
    {"numa_mem_policy", "", nullptr, "start headrace under numactl"},
    {"cgroup", "", nullptr, "start headrace in the group, by systemd-run"},
    {"cgroup_weight", "", "#", "acts with cgroup alone"},
    {"cgroup_nodelete", "", "0|1", "acts with cgroup alone"},
    {"uid", "", nullptr, "start headrace as that user"},
    {"gid", "", nullptr, "start headrace as that group"},
    {"exec_prerun", "", nullptr, "run the command before headrace"},
    {"exec_postrun", "", nullptr, "run the command after headrace"},
    {"ioscheduler", "", nullptr, "set it in /sys/block before the run"},
    // Contents
    {"refill_buffers", "", "0|1",
     "buffers are filled once, each with other random bytes; verify fills them for each write"},
    {"scramble_buffers", "", "0|1", "buffers are filled once, each with other random bytes"},
    {"dedupe_percentage", "", nullptr, "buffer_compress_percentage, or buffer_pattern for contents that repeat"},
    {"dedupe_mode", "", "repeat|working_set", kDedupe},
    {"dedupe_working_set_percentage", "", "#", kDedupe},
    {"dedupe_global", "", "0|1", kDedupe},
    // Rate and time
    {"rate_ignore_thinktime", "", "0|1", "rates include thinktime"},
    {"latency_target", "", nullptr, "run one job for each iodepth and compare their latencies"},
    {"latency_window", "", "#", kTarget},
    {"latency_percentile", "", "#", kTarget},
    {"latency_run", "", "0|1", kTarget},
    {"steadystate", "ss", nullptr, "ramp_time and runtime"},
    {"steadystate_duration", "ss_dur", "#", kSteady},
    {"steadystate_ramp_time", "ss_ramp", "#", kSteady},
    {"flow", "", nullptr, "rate, or rwmixread in one job"},
    {"flow_id", "", "#", "acts with flow alone"},
    {"flow_sleep", "", "#", "acts with flow alone"},
    {"wait_for", "", nullptr, "stonewall waits for all jobs before"},
    {"exit_what", "", "all|group|stonewall", "exitall ends the jobs that run at the same time"},
    {"exitall_on_error", "", "0|1", "no job begins after one that failed"},
    // Verification
    {"verify_offset", "", nullptr, "the header is always the first of a verify block"},
    {"verify_dump", "", "0|1", "a bad block is named with what was expected and what was found; no file is written"},
    {"verify_async", "", "#", "the job's thread checks the blocks"},
    {"verify_async_cpus", "", "*", "the job's thread checks the blocks"},
    {"verify_backlog", "", nullptr, "write jobs verify when all is written (do_verify)"},
    {"verify_backlog_batch", "", "#", "acts with verify_backlog alone"},
    {"verify_state_load", "", "0|1", "each block records which pass wrote it"},
    {"verify_state_save", "", "0|1", "each block records which pass wrote it"},
    {"verifysort", "", "0|1", "written blocks are read in the order of writing"},
    {"verifysort_nr", "", "#", "written blocks are read in the order of writing"},
    {"trim_percentage", "", nullptr, kTrim},
    {"trim_verify_zero", "", nullptr, kTrim},
    {"trim_backlog", "", "#", "acts with trim_percentage alone"},
    {"trim_backlog_batch", "", "#", "acts with trim_percentage alone"},
    {"block_error_percentiles", "", "0|1", kTrim},
    // Traces and zones
    {"write_iolog", "", nullptr, "write_lat_log with log_offset=1 lists each I/O"},
    {"read_iolog", "", nullptr, "--trace shows what a program reads; a job gives the order by rw, bs and bssplit"},
    {"read_iolog_chunked", "", "0|1", kNoIolog},
    {"replay_no_stall", "", "0|1", kNoIolog},
    {"replay_redirect", "", "*", kNoIolog},
    {"replay_scale", "", "#", kNoIolog},
    {"replay_align", "", "#", kNoIolog},
    {"replay_time_scale", "", "#", kNoIolog},
    {"replay_skip", "", "*", kNoIolog},
    {"merge_blktrace_file", "", nullptr, "--trace shows what a program reads"},
    {"merge_blktrace_scalars", "", "*", kNoIolog},
    {"merge_blktrace_iters", "", "*", kNoIolog},
    {"zonemode", "", "none", kZones},
    {"zonesize", "", nullptr, kZones},
    {"zonerange", "", nullptr, kZones},
    {"zoneskip", "", nullptr, kZones},
    {"zonecapacity", "", "#", kZbd},
    {"read_beyond_wp", "", "0|1", kZbd},
    {"max_open_zones", "", "#", kZbd},
    {"job_max_open_zones", "", "#", kZbd},
    {"ignore_zone_limits", "", "0|1", kZbd},
    {"zone_reset_threshold", "", "#", kZbd},
    {"zone_reset_frequency", "", "#", kZbd},
    // Report and logs
    {"kb_base", "", "1024", "sizes are powers of 1024, rates decimal"},
    {"unit_base", "", "0|1|8", "rates are in bytes"},
    {"significant_figures", "", "#", "figures have three digits"},
    {"disk_util", "", "0|1", kNoReportLine},
    {"bwavgtime", "", "#", "log_avg_msec sets the window of logs"},
    {"iopsavgtime", "", "#", "log_avg_msec sets the window of logs"},
    {"log_entries", "", "#", "logs grow as they need"},
    {"log_prio", "", "0|1", "requests have no priority: the column is 0"},
    {"log_compression", "", "#", kNoLog},
    {"log_compression_cpus", "", "*", kNoLog},
    {"log_store_compressed", "", "0", kNoLog},
    {"write_hist_log", "", nullptr, "--output-format=json+ has the histogram of the whole run"},
    {"log_hist_msec", "", "#", "acts with write_hist_log alone"},
    {"log_hist_coarseness", "", "#", "acts with write_hist_log alone"},
};

constexpr OtherFioKey kArguments[] = {
    {"eta-newline", "", "#", "the progress line is one line that is written over"},
    {"eta-interval", "", "#", "the progress line is looked at twice a second"},
    {"max-jobs", "", "#", "jobs need no memory set aside for them"},
    {"alloc-size", "", "#", "jobs need no memory set aside for them"},
    {"warnings-fatal", "", "0|1", "what cannot be done as asked is an error in any case"},
    {"terse-version", "", "#", "acts with --output-format=terse alone"},
    {"aux-path", "", "*", "no files but --output and logs are written"},
    {"minimal", "", nullptr, "--output-format=json"},
    {"append-terse", "", nullptr, "--output-format=json"},
    {"status-interval", "", nullptr, "the progress line, or write_bw_log with log_avg_msec"},
    {"bandwidth-log", "", nullptr, "write_bw_log"},
    {"debug", "", nullptr, "--trace writes what happened when"},
    {"showcmd", "", nullptr, "--output-format=json has each job's options"},
    {"idle-prof", "", nullptr, "process_cores of --output-format=json"},
    {"inflate-log", "", nullptr, "logs are not compressed"},
    {"trigger-file", "", nullptr, "an interrupt (SIGINT) prints what was measured until then"},
    {"trigger-timeout", "", nullptr, "runtime"},
    {"profile", "", nullptr, "write the jobs out"},
};

bool is_word_of(std::string_view value, std::string_view words) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find('|'), words.size());
    if (value == words.substr(0, end)) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// A number with an optional fraction and unit: "4k", "500ms", "0.5", "99.9%".
bool is_quantity(std::string_view value) {
  const std::size_t digits = std::min(value.find_first_not_of("0123456789."), value.size());
  const std::string_view unit = value.substr(digits);
  return digits > 0 && parse_decimal(value.substr(0, digits)).ok() && unit.size() <= 4 &&
         std::all_of(unit.begin(), unit.end(),
                     [](char c) { return c == '%' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); });
}

}  // namespace

std::span<const OtherFioKey> other_fio_keys() { return kOtherKeys; }

std::span<const OtherFioKey> other_fio_arguments() { return kArguments; }

const OtherFioKey* find_other_fio_key(std::string_view name) {
  for (const OtherFioKey& key : kOtherKeys) {
    if (name == key.name || (*key.alias != 0 && name == key.alias)) return &key;
  }
  return nullptr;
}

Status check_other_value(const OtherFioKey& key, std::string_view value) {
  const auto refuse = [&](const std::string& what) {
    return Status(Code::kInvalidArgument, Layer::kApi, std::string(key.name) + what);
  };
  if (key.values == nullptr) return refuse(" is not supported: " + std::string(key.text));
  const std::string_view words(key.values);
  if (words == "*") return {};
  const std::string shown = ": '" + std::string(value.substr(0, 80)) + "' ";
  if (words == "#") return is_quantity(value) ? Status() : refuse(shown + "is not a number");
  // A flag may have no value.
  const bool flag = is_word_of("1", words) && value.empty();
  if (flag || is_word_of(value, words)) return {};
  return refuse(shown + "is not supported, only " + std::string(words) + ": " + key.text);
}

}  // namespace headrace::bench
