// RemoteReport: what a bucket, container or web server offers to reads: reachability, credentials, latency, throughput,
// and support for the requests that reads depend on.
//
// A part of SystemReport (system.h). Nothing is written. The report contains no secrets: it describes credentials only
// by their source.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headrace {

// Why arrays cannot be read there, or only partly. All but kNone and kNoRanges prevent every read.
enum class RemoteProblem : std::uint8_t {
  kNone,
  kUrl,             // the URL or an option is not valid
  kNoCredentials,   // no credentials were found
  kNoSuchHost,      // the name of the server, or of the proxy, has no address
  kNoConnection,    // refused, unreachable, or dropped
  kCertificate,     // the server's certificate is not trusted, or no secure connection could be established
  kTimeout,         // no answer within the timeout
  kNotHttp,         // the peer does not speak HTTP, or violates the protocol
  kNoBucket,        // the bucket or container does not exist
  kDenied,          // these credentials may not read
  kBadCredentials,  // unknown keys, or a wrong signature
  kExpired,         // the credentials have expired
  kClock,           // this machine's clock is wrong, and the server does not say by how much
  kRegion,          // the bucket is in another region, and signing for that region did not help
  kNothingThere,    // no object at or below the URL
  kNoRanges,        // only whole objects can be read
  kBusy,            // the server is overloaded or failing
  kOther
};
HEADRACE_API const char* remote_problem_name(RemoteProblem problem) noexcept;  // "no-bucket"

// What limits the throughput of reads.
enum class RemoteBound : std::uint8_t { kUnknown, kLatency, kConnections, kProcessor, kNetwork, kThrottled };
HEADRACE_API const char* remote_bound_name(RemoteBound bound) noexcept;  // "network"

// Times are seconds. Empty values are unknown: not measured, not reported, or not applicable.
struct RemoteReport {
  std::string url;  // with secrets removed
  RemoteProblem problem = RemoteProblem::kNone;
  Status status;           // the Status of a read; OK with kNone
  std::string verdict;     // one sentence
  std::string what_to_do;  // one sentence; empty if no action is needed

  std::string service;                               // "http", "s3", "azure"
  std::string origin;                                // server that is contacted: "https://host:port"
  std::string credentials;                           // their source: names of options, variables, profiles and services
  std::optional<double> credentials_seconds;         // time taken to find them
  std::optional<double> credentials_expire_seconds;  // from now
  std::string region;                                // the region that requests are signed for
  bool region_was_wrong = false;                     // the service reported a region other than the configured one;
                                                     // reads use it
  std::uint32_t redirects = 0;                       // before the first answer

  std::string http_version, tls_version;                             // "1.1", "2"; "TLSv1.3"
  std::optional<double> name_seconds, connect_seconds, tls_seconds;  // of the first connection, per step
  std::optional<double> clock_ahead_seconds;  // how far the server's clock is ahead of this machine's, to one second

  std::string sample;  // the object that was read, below the URL; empty: the one that the URL names
  std::optional<std::uint64_t> sample_bytes;
  std::optional<bool> lists;          // can list names
  std::optional<bool> ranges;         // serves a part of an object
  std::optional<bool> suffix_ranges;  // serves the end of an object without knowing its length
  std::optional<bool> tells_version;  // sends a strong ETag
  std::optional<bool> if_match;       // refuses a part of an object whose version has changed

  std::optional<bool> keeps_connections;  // connections stay open for the next request

  // To the first byte of an answer, without connection set-up.
  std::uint32_t latency_requests = 0;
  std::optional<double> first_byte_min_seconds, first_byte_median_seconds;
  // Throughput into host memory: one range at a time on one connection, and on `connections` connections at once.
  std::uint64_t range_bytes = 0;     // per request
  std::uint64_t measured_bytes = 0;  // read for both figures
  std::uint32_t connections = 0;
  std::optional<double> one_connection_bytes_per_second, all_connections_bytes_per_second;
  std::optional<double> cpu_seconds_per_gigabyte;  // of this process, over all connections; per 10^9 bytes
  RemoteBound bound = RemoteBound::kUnknown;
  std::string bound_sentence;
  std::vector<std::string> warnings;  // what costs speed or reliability
};

}  // namespace headrace
