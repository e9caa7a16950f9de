// RemoteReport: what a bucket, container or web server offers to reads: whether it can be asked, by whom, how far away
// it is, how fast it gives, and what it does with requests that reads depend on.
//
// A part of SystemReport (system.h). Nothing is written, and nothing secret is in it: credentials are named by where
// they come from.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headrace {

// Why arrays cannot be read there, or only in part. All but kNone and kNoRanges keep everything from being read.
enum class RemoteProblem : std::uint8_t {
  kNone,
  kUrl,             // the URL or an option is not valid
  kNoCredentials,   // nobody is found who could ask
  kNoSuchHost,      // no address for the name of the server, or of the proxy
  kNoConnection,    // refused, unreachable, or broken on the way
  kCertificate,     // the server's certificate is not trusted, or no secure connection could be made
  kTimeout,         // no answer in time
  kNotHttp,         // something answers that is no HTTP, or breaks its rules
  kNoBucket,        // there is no such bucket or container
  kDenied,          // who asks may not read
  kBadCredentials,  // the keys are not known, or the signature is wrong
  kExpired,         // the credentials have ended
  kClock,           // this machine's clock is wrong, and the server does not say how much
  kRegion,          // the bucket is elsewhere, and signing for that region did not help
  kNothingThere,    // no object at or below the URL
  kNoRanges,        // whole objects alone can be read
  kBusy,            // the server is overloaded, or broken
  kOther
};
HEADRACE_API const char* remote_problem_name(RemoteProblem problem) noexcept;  // "no-bucket"

// What the rate of reads there is limited by.
enum class RemoteBound : std::uint8_t { kUnknown, kLatency, kConnections, kProcessor, kNetwork, kThrottled };
HEADRACE_API const char* remote_bound_name(RemoteBound bound) noexcept;  // "network"

// Times are seconds. What is empty was not found out: not measured, not told, or there was no such thing.
struct RemoteReport {
  std::string url;  // without what may be secret
  RemoteProblem problem = RemoteProblem::kNone;
  Status status;           // what a read would say; OK with kNone
  std::string verdict;     // one sentence
  std::string what_to_do;  // one sentence; empty where there is nothing to do

  std::string service;      // "http", "s3", "azure"
  std::string origin;       // what is asked: "https://host:port"
  std::string credentials;  // where they come from, by the names of options, variables, profiles and services
  std::optional<double> credentials_seconds;         // that it took to find them
  std::optional<double> credentials_expire_seconds;  // from now
  std::string region;                                // that requests are signed for
  bool region_was_wrong = false;                     // the service told another one than was set, which reads follow
  std::uint32_t redirects = 0;                       // of the first answer

  std::string http_version, tls_version;                             // "1.1", "2"; "TLSv1.3"
  std::optional<double> name_seconds, connect_seconds, tls_seconds;  // of the first connection, each step alone
  std::optional<double> clock_ahead_seconds;  // how much the server's clock is ahead of this machine's, to a second

  std::string sample;  // the object that was tried, below the URL; empty: what the URL names itself
  std::optional<std::uint64_t> sample_bytes;
  std::optional<bool> lists;          // the names of what is there
  std::optional<bool> ranges;         // gives a part of an object
  std::optional<bool> suffix_ranges;  // gives the end of an object without being told its length
  std::optional<bool> tells_version;  // a strong ETag
  std::optional<bool> if_match;       // refuses a part of an object that is another version by now

  std::optional<bool> keeps_connections;  // for the next request

  // To the first byte of an answer, making a connection not included.
  std::uint32_t latency_requests = 0;
  std::optional<double> first_byte_min_seconds, first_byte_median_seconds;
  // Bytes of objects into host memory; a range at a time over one connection, and one over each of `connections`.
  std::uint64_t range_bytes = 0;     // of each request
  std::uint64_t measured_bytes = 0;  // read for both
  std::uint32_t connections = 0;
  std::optional<double> one_connection_bytes_per_second, all_connections_bytes_per_second;
  std::optional<double> cpu_seconds_per_gigabyte;  // of this process, over all connections; 10^9 bytes
  RemoteBound bound = RemoteBound::kUnknown;
  std::string bound_sentence;
  std::vector<std::string> warnings;  // what costs speed or certainty there
};

}  // namespace headrace
