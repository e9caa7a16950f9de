#include "doctor_remote.h"

#include <cmath>
#include <cstdio>

#include "cli_common.h"
#include "json_text.h"

namespace headrace::cli {
namespace {

std::string read_rate(double bytes_per_second) {
  return human_rate(static_cast<std::uint64_t>(std::llround(bytes_per_second)), 1);
}

std::string server_text(const RemoteReport& remote) {
  std::string text = remote.origin;
  if (!remote.http_version.empty()) text += ", HTTP/" + remote.http_version;
  if (!remote.tls_version.empty()) text += ", " + remote.tls_version;
  if (!remote.region.empty()) {
    text += ", region " + remote.region;
    if (remote.region_was_wrong) text += " as the service says";
  }
  return text;
}

std::string first_connection(const RemoteReport& remote) {
  std::string text;
  const auto step = [&](const char* what, const std::optional<double>& seconds) {
    if (seconds) text += (text.empty() ? "" : ", ") + std::string(what) + " " + human_seconds(*seconds);
  };
  step("name", remote.name_seconds);
  step("connection", remote.connect_seconds);
  step("TLS", remote.tls_seconds);
  return text;
}

std::string answers_text(const RemoteReport& remote) {
  std::string text;
  const auto say = [&](const std::optional<bool>& has, const char* what) {
    if (has) text += (text.empty() ? "" : ", ") + std::string(*has ? "" : "no ") + what;
  };
  say(remote.ranges, "ranges");
  say(remote.suffix_ranges, "ranges from the end");
  say(remote.tells_version, "strong ETag");
  say(remote.if_match, "If-Match");
  say(remote.lists, "listings");
  say(remote.keeps_connections, "connections that stay");
  return text;
}

}  // namespace

void print_remote(DoctorRows& text, const RemoteReport& remote) {
  text.section(remote.url);
  if (!remote.credentials.empty()) {
    std::string who = remote.credentials;
    if (remote.credentials_seconds) who += ", found in " + human_seconds(*remote.credentials_seconds);
    if (remote.credentials_expire_seconds) {
      who += ", expire in " +
             human_count(static_cast<std::uint64_t>(std::max(0.0, *remote.credentials_expire_seconds))) + " s";
    }
    text.row("credentials", who);
  }
  if (!remote.origin.empty()) text.row("server", server_text(remote));
  if (const std::string steps = first_connection(remote); !steps.empty()) text.row("first connection", steps);
  if (remote.sample_bytes) {
    text.row("tried",
             (remote.sample.empty() ? "the object itself" : remote.sample) + ", " + human_bytes(*remote.sample_bytes));
  }
  if (const std::string answers = answers_text(remote); !answers.empty()) text.row("answers", answers);
  if (remote.first_byte_median_seconds) {
    text.row("first byte", "after " + human_seconds(*remote.first_byte_min_seconds) + " at least, " +
                               human_seconds(*remote.first_byte_median_seconds) + " in the median of " +
                               human_count(remote.latency_requests) + " requests");
  }
  if (remote.one_connection_bytes_per_second) {
    text.row("one connection", read_rate(*remote.one_connection_bytes_per_second) + " read, ranges of " +
                                   human_bytes(remote.range_bytes) + " one after another");
  }
  if (remote.all_connections_bytes_per_second) {
    char cpu[64] = "";
    if (remote.cpu_seconds_per_gigabyte) {
      std::snprintf(cpu, sizeof cpu, ", %.2f CPU seconds a GB", *remote.cpu_seconds_per_gigabyte);
    }
    text.row("all connections",
             read_rate(*remote.all_connections_bytes_per_second) + " read by " + human_count(remote.connections) + cpu);
  }
  if (!remote.bound_sentence.empty()) text.row("bounded by", remote.bound_sentence);
  text.row("-> reads", remote.verdict + (remote.status.ok() ? "" : ": " + describe(remote.status)));
  if (!remote.what_to_do.empty()) text.row("to do", remote.what_to_do);
  for (const std::string& warning : remote.warnings) text.warning(warning);
}

Json remote_json(const RemoteReport& remote) {
  const auto positive = [](std::uint64_t value) { return value > 0 ? Json(value) : Json(); };
  return {{"url", remote.url},
          {"problem", remote_problem_name(remote.problem)},
          {"error", remote.status.ok() ? Json() : Json(describe(remote.status))},
          {"verdict", remote.verdict},
          {"what_to_do", text_or_null(remote.what_to_do)},
          {"service", text_or_null(remote.service)},
          {"origin", text_or_null(remote.origin)},
          {"credentials", text_or_null(remote.credentials)},
          {"credentials_seconds", or_null(remote.credentials_seconds)},
          {"credentials_expire_seconds", or_null(remote.credentials_expire_seconds)},
          {"region", text_or_null(remote.region)},
          {"region_was_wrong", remote.region_was_wrong},
          {"redirects", remote.redirects},
          {"http_version", text_or_null(remote.http_version)},
          {"tls_version", text_or_null(remote.tls_version)},
          {"name_seconds", or_null(remote.name_seconds)},
          {"connect_seconds", or_null(remote.connect_seconds)},
          {"tls_seconds", or_null(remote.tls_seconds)},
          {"clock_ahead_seconds", or_null(remote.clock_ahead_seconds)},
          {"sample", remote.sample_bytes ? Json(remote.sample) : Json()},
          {"sample_bytes", or_null(remote.sample_bytes)},
          {"lists", or_null(remote.lists)},
          {"ranges", or_null(remote.ranges)},
          {"suffix_ranges", or_null(remote.suffix_ranges)},
          {"tells_version", or_null(remote.tells_version)},
          {"if_match", or_null(remote.if_match)},
          {"keeps_connections", or_null(remote.keeps_connections)},
          {"latency_requests", positive(remote.latency_requests)},
          {"first_byte_min_seconds", or_null(remote.first_byte_min_seconds)},
          {"first_byte_median_seconds", or_null(remote.first_byte_median_seconds)},
          {"range_bytes", positive(remote.range_bytes)},
          {"measured_bytes", positive(remote.measured_bytes)},
          {"connections", positive(remote.connections)},
          {"one_connection_bytes_per_second", or_null(remote.one_connection_bytes_per_second)},
          {"all_connections_bytes_per_second", or_null(remote.all_connections_bytes_per_second)},
          {"cpu_seconds_per_gigabyte", or_null(remote.cpu_seconds_per_gigabyte)},
          {"bound", remote_bound_name(remote.bound)},
          {"bound_sentence", text_or_null(remote.bound_sentence)},
          {"warnings", remote.warnings}};
}

}  // namespace headrace::cli
