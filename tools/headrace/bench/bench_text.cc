#include "bench_text.h"

#include <algorithm>
#include <cstdio>

#include "bench_units.h"
#include "cli_common.h"
#include "remote_options.h"

namespace headrace::bench {
namespace {

using cli::human_bytes;
using cli::human_count;
using cli::human_seconds;

const char* kind_name(BytesOf kind) {
  switch (kind) {
    case BytesOf::kReadFromFiles:
      return "read from files";
    case BytesOf::kReadFromStore:
      return "read from the store";
    case BytesOf::kWrittenToFiles:
      return "written to files";
    case BytesOf::kReadAndWritten:
      return "read and written";
    case BytesOf::kOverTheBus:
      return "over the bus";
    case BytesOf::kStored:
      return "stored";
    case BytesOf::kDecoded:
      return "decoded";
    case BytesOf::kEncoded:
      return "encoded";
    case BytesOf::kWithoutIo:
      return "handed on without I/O";
  }
  return "";
}

// A mixed job, or merged jobs of both directions.
bool is_mixed(const JobResult& result) { return result.read.requests > 0 && result.write.requests > 0; }

BytesOf kind_of(const JobResult& result) {
  if (result.decode) return BytesOf::kEncoded;
  if (result.remote) return BytesOf::kReadFromStore;
  if (result.options.skips_io()) return BytesOf::kWithoutIo;
  if (is_mixed(result)) return BytesOf::kReadAndWritten;
  return result.write.requests > 0 || (result.options.write && result.read.requests == 0) ? BytesOf::kWrittenToFiles
                                                                                          : BytesOf::kReadFromFiles;
}

std::string nanoseconds(double ns) { return human_seconds(ns * 1e-9); }

void add_part(std::string& line, const char* name, std::uint64_t bytes) {
  if (bytes > 0) line += (line.empty() ? "" : ", ") + std::string(name) + " " + human_bytes(bytes);
}

std::string paths_line(const JobResult& result) {
  std::string line;
  if (result.array) {
    add_part(line, "direct", result.array->direct_bytes);
    add_part(line, "of these straight into device memory", result.array->straight_bytes);
    add_part(line, "engine without O_DIRECT", result.array->engine_bytes);
    add_part(line, "buffered", result.array->buffered_bytes);
    add_part(line, "mapped", result.array->mapped_bytes);
    add_part(line, "memory", result.array->memory_bytes);
    add_part(line, "unpacked", result.array->packed_bytes);
    add_part(line, "store", result.array->store_bytes);
    add_part(line, "disk cache", result.array->cache_bytes);
  } else if (result.remote) {
    add_part(line, "store", result.bytes());
  } else {
    add_part(line, "direct", result.stats.direct_bytes + result.stats.written_direct_bytes);
    add_part(line, "buffered", result.stats.buffered_bytes + result.stats.written_buffered_bytes);
    add_part(line, "mapped", result.stats.mapped_bytes);
  }
  return line.empty() ? "none" : line;
}

std::string headline(const JobResult& result) {
  const JobOptions& job = result.options;
  std::string out = cli::one_line(job.name) + ": (g=" + std::to_string(result.group) + ")";
  if (result.decode) return out + " decode=" + cli::one_line(cli::shown_urls(job.decode));
  if (result.array)
    return out + " zarr=" + cli::one_line(cli::shown_urls(job.zarr)) + ", iodepth=" + std::to_string(job.depth);
  out += " rw=" + direction_text(job) + (job.paths.empty() ? ", bs=" + block_text(job) : ", whole files");
  if (job.list > 1) out += ", list=" + std::to_string(job.list);
  if (result.remote) return out + ", iodepth=" + std::to_string(job.depth) + ", path=store";
  return out + ", iodepth=" + std::to_string(job.depth) + ", path=" + std::string(path_name(job.chosen_path()));
}

std::string decode_line(const JobResult& result) {  // device time: there is no waiting between passes
  const DecodeResult& decode = *result.decode;
  const std::uint64_t passes = std::max<std::uint64_t>(result.requests(), 1);
  return rate_text(decode.decoded_bytes, decode.times.seconds, BytesOf::kDecoded) + ", " +
         rate_text(decode.encoded_bytes, decode.times.seconds, BytesOf::kEncoded) + "; " +
         human_count(result.requests()) + " passes of " + human_count(decode.chunks / passes) + " chunks, " +
         human_bytes(decode.decoded_bytes / passes) + " decoded";
}

// Rates of the whole job, or of its reads or writes only.
std::string rates_line(const JobResult& result, std::uint64_t bytes, std::uint64_t ios, BytesOf kind, bool whole) {
  if (result.decode) return decode_line(result);
  std::string out = rate_text(bytes, result.seconds, kind);
  const std::uint64_t bus = result.array ? result.array->bus_bytes : result.stats.bus_bytes;
  if (result.array) {
    out += ", " + rate_text(result.array->stored_bytes, result.seconds, BytesOf::kStored);
    out += ", " + rate_text(result.array->decoded_bytes, result.seconds, BytesOf::kDecoded);
  }
  if (bus > 0 && whole) out += ", " + rate_text(bus, result.seconds, BytesOf::kOverTheBus);
  if (result.seconds > 0) {
    const auto per_second = static_cast<std::uint64_t>(static_cast<double>(ios) / result.seconds);
    out += ", " + human_count(per_second) + (result.array ? " arrays/s" : " IOPS");
  }
  return out + "; " + human_bytes(bytes) + " in " + human_seconds(result.seconds);
}

std::string latency_line(const JobResult& result, const LatencyHistogram& lat) {
  std::string out = "min " + nanoseconds(static_cast<double>(lat.min())) + ", mean " + nanoseconds(lat.mean());
  for (const double percent : {50.0, 99.0, 99.9}) {
    char name[32];
    std::snprintf(name, sizeof(name), ", p%g ", percent);
    out += name + nanoseconds(static_cast<double>(lat.percentile(percent)));
  }
  out += ", max " + nanoseconds(static_cast<double>(lat.max()));
  return result.options.list > 1 ? out + " (of whole lists)" : out;
}

// A mixed job also has one line per direction.
void add_rates(const JobResult& result, std::vector<TextRow>& rows) {
  rows.push_back({"rate", rates_line(result, result.bytes(), result.ios(), kind_of(result), true)});
  if (!is_mixed(result)) return;
  const bool io = !result.options.skips_io();
  rows.push_back({"read", rates_line(result, result.read.bytes, result.read.ios,
                                     io ? BytesOf::kReadFromFiles : BytesOf::kWithoutIo, false)});
  rows.push_back({"written", rates_line(result, result.write.bytes, result.write.ios,
                                        io ? BytesOf::kWrittenToFiles : BytesOf::kWithoutIo, false)});
}

void add_latencies(const JobResult& result, std::vector<TextRow>& rows) {
  if (!is_mixed(result)) {
    rows.push_back(
        {"latency", latency_line(result, result.write.requests > 0 ? result.write.total : result.read.total)});
    return;
  }
  rows.push_back({"read latency", latency_line(result, result.read.total)});
  rows.push_back({"write latency", latency_line(result, result.write.total)});
}

std::string cpu_line(const JobResult& result) {
  char text[128];
  const double seconds = result.seconds > 0 ? result.seconds : 1;
  std::snprintf(text, sizeof(text), "usr %.1f %%, sys %.1f %% of the calling thread%s; %.2f cores in the whole process",
                100 * result.cpu.user_seconds / seconds, 100 * result.cpu.system_seconds / seconds,
                result.threads > 1 ? "s, summed" : "", result.cpu.process_seconds / seconds);
  return text;
}

std::string steps_line(const DecodeResult& decode) {
  double all = 0;
  for (const DecodeBatch::Step& step : decode.times.steps) all += step.seconds;
  std::string out;
  for (const DecodeBatch::Step& step : decode.times.steps) {
    char text[32];
    std::snprintf(text, sizeof(text), " %.1f %%", all > 0 ? 100 * step.seconds / all : 0.0);
    out += (out.empty() ? "" : ", ") + step.name + text;
  }
  return out;
}

std::string percent_text(const std::optional<Residency>& residency) {
  if (!residency) return "unknown";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100 * residency->share());
  return text;
}

}  // namespace

std::string rate_text(std::uint64_t bytes, double seconds, BytesOf kind) {
  return cli::human_rate(bytes, seconds) + " " + kind_name(kind);
}

std::string direction_text(const JobOptions& job) {
  return std::string(job.random ? "rand" : "") + (job.mixed() ? "rw" : job.write ? "write" : "read");
}

std::string block_text(const JobOptions& job) {
  const bool both = job.uses_sizes(0) && job.uses_sizes(1);
  if (both && job.sizes[0] != job.sizes[1]) return job.sizes[0].text() + "," + job.sizes[1].text();
  return job.sizes[job.uses_sizes(0) ? 0 : 1].text();
}

std::string job_title(const JobResult& result) {
  return headline(result) + (result.threads > 1 ? ", threads=" + std::to_string(result.threads) : "");
}

std::vector<TextRow> job_rows(const JobResult& result) {
  std::vector<TextRow> rows;
  if (!result.status.ok()) rows.push_back({"failed", cli::one_line(result.status.to_string())});
  if (!result.options.description.empty()) rows.push_back({"description", cli::one_line(result.options.description)});
  if (result.interrupted) rows.push_back({"interrupted", "the figures are of the time until then"});
  if (result.requests() > 0) {
    add_rates(result, rows);
    if (result.decode) {
      rows.push_back({"steps", steps_line(*result.decode)});
      rows.push_back({"scratch", human_bytes(result.decode->scratch_bytes)});
      if (!result.decode->undone.empty()) rows.push_back({"undone before", result.decode->undone});
    } else {
      rows.push_back({"bytes by path", paths_line(result)});
    }
    add_latencies(result, rows);
    rows.push_back({"cpu", cpu_line(result)});
  }
  if (result.passes.size() > 1) {
    std::string line;
    for (std::size_t i = 0; i < result.passes.size() && i < 8; ++i) {
      line += (i == 0 ? "" : ", ") + rate_text(result.passes[i].bytes, result.passes[i].seconds, kind_of(result));
    }
    rows.push_back({"pass by pass", line + (result.passes.size() > 8 ? ", ..." : "")});
  }
  if (!result.decode && !result.remote)
    rows.push_back(
        {"page cache", percent_text(result.before) + " resident before, " + percent_text(result.after) + " after"});
  rows.push_back(
      {"device", result.device + ", engine " + (result.stats.engine.empty() ? result.engine : result.stats.engine)});
  if (!result.stats.notes.empty()) rows.push_back({"notes", cli::one_line(result.stats.notes)});
  for (const std::string& note : result.notes) rows.push_back({"note", cli::one_line(note)});
  if (!result.options.verifies()) return rows;
  rows.push_back(
      {"verify", human_count(result.verify.blocks) + " blocks checked, " + human_count(result.verify.bad) + " bad"});
  for (const VerifyFault& fault : result.verify.faults) {
    rows.push_back({"", std::string(fault_kind_name(fault.kind)) + " at offset " + std::to_string(fault.offset_bytes) +
                            " of " + cli::one_line(result.file) + ": expected " + fault.expected + "; found " +
                            fault.found});
  }
  return rows;
}

std::string bench_text(const BenchOutcome& outcome) {
  std::string out;
  for (const JobResult& result : outcome.results) {
    out += job_title(result) + "\n";
    for (const TextRow& row : job_rows(result)) {
      std::string name = "  " + row.name;
      name.resize(std::max<std::size_t>(name.size(), 16), ' ');
      out += name + row.text + "\n";
    }
  }
  for (const JobResult& group : outcome.groups) {
    // Omitted if every group is a single result.
    if (group.requests() == 0 || outcome.results.size() == outcome.groups.size()) continue;
    out += "group " + std::to_string(group.group) + ": " + rate_text(group.bytes(), group.seconds, kind_of(group)) +
           ", " + human_bytes(group.bytes()) + " in " + human_seconds(group.seconds) + "\n";
  }
  return out;
}

}  // namespace headrace::bench
