#include "fio_json.h"

#include <headrace/headrace.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "cli_common.h"
#include "json_writer.h"

namespace headrace::bench {
namespace {

using cli::JsonWriter;

std::string percentile_key(double percent) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6f", percent);
  return text;
}

void write_latency(JsonWriter& json, const char* key, const LatencyHistogram& histogram,
                   const std::vector<double>* percentiles, bool with_buckets) {
  json.key(key)
      .begin_object()
      .member("min", histogram.min())
      .member("max", histogram.max())
      .member("mean", histogram.mean())
      .member("stddev", histogram.stddev())
      .member("N", histogram.count());
  if (percentiles != nullptr && histogram.count() > 0) {
    json.key("percentile").begin_object();
    for (const double percent : *percentiles) json.member(percentile_key(percent), histogram.percentile(percent));
    json.end_object();
    if (with_buckets) {
      json.key("bins").begin_object();
      histogram.for_each_bucket(
          [&](std::uint64_t middle, std::uint64_t count) { json.member(std::to_string(middle), count); });
      json.end_object();
    }
  }
  json.end_object();
}

const std::vector<double>* percentiles_if(bool wanted, const JobResult& result) {
  return wanted ? &result.options.percentiles : nullptr;
}

// fio's data direction.
void write_direction(JsonWriter& json, const char* key, const JobResult& result, const DirectionResult& side,
                     bool with_buckets) {
  const double seconds = side.requests > 0 ? result.seconds : 0;
  const auto rate = [&](std::uint64_t count) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; };
  const JobOptions& options = result.options;
  json.key(key)
      .begin_object()
      .member("io_bytes", side.bytes)
      .member("io_kbytes", side.bytes / 1024)
      .member("bw_bytes", static_cast<std::uint64_t>(rate(side.bytes)))
      .member("bw", static_cast<std::uint64_t>(rate(side.bytes) / 1024))
      .member("iops", rate(side.ios))
      .member("runtime", static_cast<std::uint64_t>(std::llround(seconds * 1e3)))
      .member("total_ios", side.ios)
      .member("short_ios", 0)
      .member("drop_ios", 0);
  write_latency(json, "slat_ns", side.submit, percentiles_if(options.slat_percentiles, result), with_buckets);
  write_latency(json, "clat_ns", side.complete, percentiles_if(options.clat_percentiles, result), with_buckets);
  write_latency(json, "lat_ns", side.total, percentiles_if(options.lat_percentiles, result), with_buckets);
  json.member("bw_min", static_cast<std::uint64_t>(side.bandwidth.min()))
      .member("bw_max", static_cast<std::uint64_t>(side.bandwidth.max()))
      .member("bw_mean", side.bandwidth.mean())
      .member("bw_dev", side.bandwidth.stddev())
      .member("bw_samples", side.bandwidth.count())
      .member("iops_min", static_cast<std::uint64_t>(side.iops.min()))
      .member("iops_max", static_cast<std::uint64_t>(side.iops.max()))
      .member("iops_mean", side.iops.mean())
      .member("iops_stddev", side.iops.stddev())
      .member("iops_samples", side.iops.count())
      .end_object();
}

// Trims too, of which there are none: programs that read fio's results look for all three.
void write_directions(JsonWriter& json, const JobResult& result, bool with_buckets) {
  static const DirectionResult kNone;
  if (result.options.report_sum) {
    DirectionResult sum = result.read;
    sum.add(result.write);
    write_direction(json, "mixed", result, sum, with_buckets);
  }
  if (!result.options.report_directions) return;
  write_direction(json, "read", result, result.read, with_buckets);
  write_direction(json, "write", result, result.write, with_buckets);
  write_direction(json, "trim", result, kNone, with_buckets);
}

void write_residency(JsonWriter& json, const char* key, const std::optional<Residency>& residency) {
  json.key(key);
  if (!residency) {
    json.null();
    return;
  }
  json.begin_object()
      .member("pages", residency->pages)
      .member("resident_pages", residency->resident)
      .member("resident_share", residency->share())
      .end_object();
}

void write_bytes_by_path(JsonWriter& json, const JobResult& result) {
  json.key("bytes_by_path").begin_object();
  if (result.array) {
    json.member("direct", result.array->direct_bytes)
        .member("engine_buffered", result.array->engine_bytes)
        .member("buffered", result.array->buffered_bytes)
        .member("mapped", result.array->mapped_bytes)
        .member("memory", result.array->memory_bytes);
  } else {
    json.member("direct", result.stats.direct_bytes)
        .member("buffered", result.stats.buffered_bytes)
        .member("mapped", result.stats.mapped_bytes)
        .member("written_direct", result.stats.written_direct_bytes)
        .member("written_buffered", result.stats.written_buffered_bytes);
  }
  json.end_object();
}

void write_verify(JsonWriter& json, const JobResult& result) {
  json.key("verify");
  if (!result.options.verifies()) {
    json.null();
    return;
  }
  json.begin_object()
      .member("blocks", result.verify.blocks)
      .member("bad_blocks", result.verify.bad)
      .key("faults")
      .begin_array();
  for (const VerifyFault& fault : result.verify.faults) {
    json.begin_object()
        .member("kind", fault_kind_name(fault.kind))
        .member("file", result.file)
        .member("offset", fault.offset_bytes)
        .member("expected", fault.expected)
        .member("found", fault.found)
        .end_object();
  }
  json.end_array().end_object();
}

// Null but for decode jobs.
void write_decode(JsonWriter& json, const JobResult& result) {
  json.key("decode");
  if (!result.decode) {
    json.null();
    return;
  }
  const DecodeResult& decode = *result.decode;
  json.begin_object()
      .member("chunks", decode.chunks)
      .member("encoded_bytes", decode.encoded_bytes)
      .member("decoded_bytes", decode.decoded_bytes)
      .member("seconds", decode.times.seconds)
      .member("host_seconds", decode.times.host_seconds)
      .member("scratch_bytes", decode.scratch_bytes)
      .member("undone", decode.undone)
      .key("steps")
      .begin_array();
  for (const DecodeBatch::Step& step : decode.times.steps) {
    json.begin_object().member("name", step.name).member("seconds", step.seconds).end_object();
  }
  json.end_array().end_object();
}

// What every result has that fio's does not.
void write_own(JsonWriter& json, const JobResult& result) {
  const Stats none;
  const Stats& array = result.array ? *result.array : none;
  const double seconds = result.seconds;
  json.key("headrace").begin_object().member("file", result.file).member("threads", result.threads);
  write_bytes_by_path(json, result);
  json.member("stored_bytes", result.array ? array.stored_bytes : result.bytes())
      .member("bus_bytes", result.array ? array.bus_bytes : result.stats.bus_bytes);
  json.key("decoded_bytes");
  if (result.decode) {
    json.value(result.decode->decoded_bytes);
  } else {
    result.array ? json.value(array.decoded_bytes) : json.null();
  }
  json.member("seconds", seconds)
      .member("requests", result.requests())
      .member("waves", result.array ? array.waves : result.stats.waves);
  json.key("system_calls");
  result.array || result.decode ? json.null() : json.value(result.stats.system_calls);
  json.key("cpu_seconds")
      .begin_object()
      .member("thread", result.cpu.user_seconds + result.cpu.system_seconds)
      .member("process", result.cpu.process_seconds)
      .end_object()
      .member("process_cores", seconds > 0 ? result.cpu.process_seconds / seconds : 0.0)
      .member("device", result.device)
      .member("device_description", result.device_description)
      .member("engine", result.array                  ? array.engine
                        : result.stats.engine.empty() ? result.engine
                                                      : result.stats.engine)
      .member("path", result.array ? array.path : std::string(path_name(result.options.chosen_path())))
      .member("notes", result.all_notes())
      .member("interrupted", result.interrupted)
      .member("io_skipped", result.options.skips_io())
      .member("copy_skipped", result.options.no_copy);
  write_residency(json, "residency_before", result.before);
  write_residency(json, "residency_after", result.after);
  json.key("passes").begin_array();
  for (const PassTime& pass : result.passes) {
    json.begin_object().member("bytes", pass.bytes).member("seconds", pass.seconds).end_object();
  }
  json.end_array();
  write_decode(json, result);
  write_latency(json, "sync_lat_ns", result.sync, nullptr, false);
  write_verify(json, result);
  json.key("error");
  result.status.ok() ? json.null() : json.value(cli::one_line(result.status.to_string()));
  json.end_object();
}

void write_options(JsonWriter& json, const char* key, const std::vector<GivenOption>& options, bool global) {
  json.key(key).begin_object();
  for (const GivenOption& option : options) {
    if (option.global == global) json.member(option.key, option.value);
  }
  json.end_object();
}

// A failure without an errno still is one.
int error_number(const Status& status) {
  if (status.ok()) return 0;
  return status.system_error() != 0 ? status.system_error() : EIO;
}

void write_job(JsonWriter& json, const JobResult& result, bool with_buckets) {
  const double seconds = result.seconds;
  const auto percent = [&](double cpu) { return seconds > 0 ? 100 * cpu / seconds : 0; };
  json.begin_object()
      .member("jobname", result.options.name)
      .member("groupid", result.group)
      .member("error", error_number(result.status))
      .member("elapsed", static_cast<std::uint64_t>(std::ceil(seconds)));
  if (!result.options.description.empty()) json.member("desc", result.options.description);
  write_options(json, "job options", result.options.given, false);
  write_directions(json, result, with_buckets);
  json.member("job_runtime", static_cast<std::uint64_t>(std::llround(seconds * 1e3)))
      .member("usr_cpu", percent(result.cpu.user_seconds))
      .member("sys_cpu", percent(result.cpu.system_seconds))
      .member("ctx", result.cpu.context_switches)
      .member("majf", result.cpu.major_faults)
      .member("minf", result.cpu.minor_faults);
  write_own(json, result);
  json.end_object();
}

void write_groups(JsonWriter& json, const BenchOutcome& outcome) {
  json.key("groups").begin_array();
  for (const JobResult& group : outcome.groups) {
    json.begin_object().member("groupid", group.group);
    write_directions(json, group, false);
    write_own(json, group);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string fio_json(const BenchOutcome& outcome, bool with_buckets) {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  char text[64] = "";
  if (localtime_r(&seconds, &local) != nullptr) std::strftime(text, sizeof(text), "%a %b %d %H:%M:%S %Y", &local);
  JsonWriter json;
  json.begin_object()
      .member("headrace version", std::string("headrace-") + hr_version())
      .member("timestamp", static_cast<std::int64_t>(seconds))
      .member("timestamp_ms",
              static_cast<std::int64_t>(
                  std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count()))
      .member("time", text);
  write_options(json, "global options",
                outcome.results.empty() ? std::vector<GivenOption>() : outcome.results.front().options.given, true);
  json.key("jobs").begin_array();
  for (const JobResult& result : outcome.results) write_job(json, result, with_buckets);
  json.end_array().key("headrace").begin_object();
  write_groups(json, outcome);
  json.member("interrupted", outcome.interrupted);
  json.end_object().end_object();
  return json.text();
}

}  // namespace headrace::bench
