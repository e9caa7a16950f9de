#include "fio_json.h"

#include <headrace/headrace.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "cli_common.h"
#include "json_text.h"
#include "remote_options.h"

namespace headrace::bench {
namespace {

using cli::Json;

std::string percentile_key(double percent) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6f", percent);
  return text;
}

Json latency_json(const LatencyHistogram& histogram, const std::vector<double>* percentiles, bool with_buckets) {
  Json json = {{"min", histogram.min()},
               {"max", histogram.max()},
               {"mean", histogram.mean()},
               {"stddev", histogram.stddev()},
               {"N", histogram.count()}};
  if (percentiles != nullptr && histogram.count() > 0) {
    Json& values = json["percentile"] = Json::object();
    for (const double percent : *percentiles) values[percentile_key(percent)] = histogram.percentile(percent);
    if (with_buckets) {
      Json& bins = json["bins"] = Json::object();
      histogram.for_each_bucket(
          [&](std::uint64_t middle, std::uint64_t count) { bins[std::to_string(middle)] = count; });
    }
  }
  return json;
}

const std::vector<double>* percentiles_if(bool wanted, const JobResult& result) {
  return wanted ? &result.options.percentiles : nullptr;
}

// The object that fio writes per data direction.
Json direction_json(const JobResult& result, const DirectionResult& side, bool with_buckets) {
  const double seconds = side.requests > 0 ? result.seconds : 0;
  const auto rate = [&](std::uint64_t count) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; };
  const JobOptions& options = result.options;
  return {
      {"io_bytes", side.bytes},
      {"io_kbytes", side.bytes / 1024},
      {"bw_bytes", static_cast<std::uint64_t>(rate(side.bytes))},
      {"bw", static_cast<std::uint64_t>(rate(side.bytes) / 1024)},
      {"iops", rate(side.ios)},
      {"runtime", static_cast<std::uint64_t>(std::llround(seconds * 1e3))},
      {"total_ios", side.ios},
      {"short_ios", 0},
      {"drop_ios", 0},
      {"slat_ns", latency_json(side.submit, percentiles_if(options.slat_percentiles, result), with_buckets)},
      {"clat_ns", latency_json(side.complete, percentiles_if(options.clat_percentiles, result), with_buckets)},
      {"lat_ns", latency_json(side.total, percentiles_if(options.lat_percentiles, result), with_buckets)},
      {"bw_min", static_cast<std::uint64_t>(side.bandwidth.min())},
      {"bw_max", static_cast<std::uint64_t>(side.bandwidth.max())},
      {"bw_mean", side.bandwidth.mean()},
      {"bw_dev", side.bandwidth.stddev()},
      {"bw_samples", side.bandwidth.count()},
      {"iops_min", static_cast<std::uint64_t>(side.iops.min())},
      {"iops_max", static_cast<std::uint64_t>(side.iops.max())},
      {"iops_mean", side.iops.mean()},
      {"iops_stddev", side.iops.stddev()},
      {"iops_samples", side.iops.count()},
  };
}

// Includes empty trims, because programs that read fio's results expect all three directions.
void add_directions(Json& json, const JobResult& result, bool with_buckets) {
  static const DirectionResult kNone;
  if (result.options.report_sum) {
    DirectionResult sum = result.read;
    sum.add(result.write);
    json["mixed"] = direction_json(result, sum, with_buckets);
  }
  if (!result.options.report_directions) return;
  json["read"] = direction_json(result, result.read, with_buckets);
  json["write"] = direction_json(result, result.write, with_buckets);
  json["trim"] = direction_json(result, kNone, with_buckets);
}

Json residency_json(const std::optional<Residency>& residency) {
  if (!residency) return {};
  return {{"pages", residency->pages}, {"resident_pages", residency->resident}, {"resident_share", residency->share()}};
}

Json bytes_by_path(const JobResult& result) {
  if (result.array) {
    return {{"direct", result.array->direct_bytes},
            {"direct_straight", result.array->straight_bytes},
            {"engine_buffered", result.array->engine_bytes},
            {"buffered", result.array->buffered_bytes},
            {"mapped", result.array->mapped_bytes},
            {"memory", result.array->memory_bytes},
            {"unpacked", result.array->packed_bytes},
            {"store", result.array->store_bytes},
            {"cache", result.array->cache_bytes}};
  }
  if (result.remote) return {{"store", result.bytes()}};
  return {{"direct", result.stats.direct_bytes},
          {"direct_straight", result.stats.straight_bytes},
          {"buffered", result.stats.buffered_bytes},
          {"mapped", result.stats.mapped_bytes},
          {"written_direct", result.stats.written_direct_bytes},
          {"written_buffered", result.stats.written_buffered_bytes}};
}

Json verify_json(const JobResult& result) {
  if (!result.options.verifies()) return {};
  Json faults = Json::array();
  for (const VerifyFault& fault : result.verify.faults) {
    faults.push_back({{"kind", fault_kind_name(fault.kind)},
                      {"file", result.file},
                      {"offset", fault.offset_bytes},
                      {"expected", fault.expected},
                      {"found", fault.found}});
  }
  return {{"blocks", result.verify.blocks}, {"bad_blocks", result.verify.bad}, {"faults", std::move(faults)}};
}

// Null except for decode jobs.
Json decode_json(const JobResult& result) {
  if (!result.decode) return {};
  const DecodeResult& decode = *result.decode;
  Json steps = Json::array();
  for (const DecodeBatch::Step& step : decode.times.steps) {
    steps.push_back({{"name", step.name}, {"seconds", step.seconds}});
  }
  return {{"chunks", decode.chunks},
          {"encoded_bytes", decode.encoded_bytes},
          {"decoded_bytes", decode.decoded_bytes},
          {"seconds", decode.times.seconds},
          {"host_seconds", decode.times.host_seconds},
          {"scratch_bytes", decode.scratch_bytes},
          {"undone", decode.undone},
          {"steps", std::move(steps)}};
}

// Results that fio's format has no field for.
Json own_json(const JobResult& result) {
  const Stats none;
  const Stats& array = result.array ? *result.array : none;
  const double seconds = result.seconds;
  Json decoded, passes = Json::array();
  if (result.decode) {
    decoded = result.decode->decoded_bytes;
  } else if (result.array) {
    decoded = array.decoded_bytes;
  }
  for (const PassTime& pass : result.passes) passes.push_back({{"bytes", pass.bytes}, {"seconds", pass.seconds}});
  return {
      {"file", result.file},
      {"threads", result.threads},
      {"bytes_by_path", bytes_by_path(result)},
      {"stored_bytes", result.array ? array.stored_bytes : result.bytes()},
      {"bus_bytes", result.array ? array.bus_bytes : result.stats.bus_bytes},
      {"decoded_bytes", std::move(decoded)},
      {"seconds", seconds},
      {"requests", result.requests()},
      {"waves", result.array ? array.waves : result.stats.waves},
      {"system_calls", result.array || result.decode || result.remote ? Json() : Json(result.stats.system_calls)},
      {"cpu_seconds",
       {{"thread", result.cpu.user_seconds + result.cpu.system_seconds}, {"process", result.cpu.process_seconds}}},
      {"process_cores", seconds > 0 ? result.cpu.process_seconds / seconds : 0.0},
      {"device", result.device},
      {"device_description", result.device_description},
      {"engine", result.array                  ? array.engine
                 : result.stats.engine.empty() ? result.engine
                                               : result.stats.engine},
      {"path", result.array    ? array.path
               : result.remote ? "store"
                               : std::string(path_name(result.options.chosen_path()))},
      {"notes", result.all_notes()},
      {"interrupted", result.interrupted},
      {"io_skipped", result.options.skips_io()},
      {"copy_skipped", result.options.no_copy},
      {"residency_before", residency_json(result.before)},
      {"residency_after", residency_json(result.after)},
      {"passes", std::move(passes)},
      {"decode", decode_json(result)},
      {"sync_lat_ns", latency_json(result.sync, nullptr, false)},
      {"verify", verify_json(result)},
      {"error", result.status.ok() ? Json() : Json(cli::one_line(result.status.to_string()))},
  };
}

Json options_json(const std::vector<GivenOption>& options, bool global) {
  Json json = Json::object();
  for (const GivenOption& option : options) {
    if (option.global == global) json[option.key] = cli::shown_urls(option.value);
  }
  return json;
}

// A failure without an errno must still be nonzero.
int error_number(const Status& status) {
  if (status.ok()) return 0;
  return status.system_error() != 0 ? status.system_error() : EIO;
}

Json job_json(const JobResult& result, bool with_buckets) {
  const double seconds = result.seconds;
  const auto percent = [&](double cpu) { return seconds > 0 ? 100 * cpu / seconds : 0; };
  Json json = {{"jobname", result.options.name},
               {"groupid", result.group},
               {"error", error_number(result.status)},
               {"elapsed", static_cast<std::uint64_t>(std::ceil(seconds))}};
  if (!result.options.description.empty()) json["desc"] = result.options.description;
  json["job options"] = options_json(result.options.given, false);
  add_directions(json, result, with_buckets);
  json.update({{"job_runtime", static_cast<std::uint64_t>(std::llround(seconds * 1e3))},
               {"usr_cpu", percent(result.cpu.user_seconds)},
               {"sys_cpu", percent(result.cpu.system_seconds)},
               {"ctx", result.cpu.context_switches},
               {"majf", result.cpu.major_faults},
               {"minf", result.cpu.minor_faults},
               {"headrace", own_json(result)}});
  return json;
}

Json groups_json(const BenchOutcome& outcome) {
  Json groups = Json::array();
  for (const JobResult& group : outcome.groups) {
    Json json = {{"groupid", group.group}};
    add_directions(json, group, false);
    json["headrace"] = own_json(group);
    groups.push_back(std::move(json));
  }
  return groups;
}

}  // namespace

std::string fio_json(const BenchOutcome& outcome, bool with_buckets) {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  char text[64] = "";
  if (localtime_r(&seconds, &local) != nullptr) std::strftime(text, sizeof(text), "%a %b %d %H:%M:%S %Y", &local);
  const std::int64_t milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  Json jobs = Json::array();
  for (const JobResult& result : outcome.results) jobs.push_back(job_json(result, with_buckets));
  return cli::json_text(
             {{"headrace version", std::string("headrace-") + hr_version()},
              {"timestamp", static_cast<std::int64_t>(seconds)},
              {"timestamp_ms", milliseconds},
              {"time", text},
              {"global options",
               outcome.results.empty() ? Json::object() : options_json(outcome.results.front().options.given, true)},
              {"jobs", std::move(jobs)},
              {"headrace", {{"groups", groups_json(outcome)}, {"interrupted", outcome.interrupted}}}}) +
         "\n";
}

}  // namespace headrace::bench
