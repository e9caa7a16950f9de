// S3Settings: where a bucket is, from the user's options, then from what AWS's own tools read: the environment, then
// profiles. Credentials are found by aws_credentials.h.
//
// Threads: pure but for the functions it is given.
// Fails:   messages name options, variables, files and profiles, never their contents.
#pragma once

#include <headrace/status.h>

#include <optional>
#include <string>
#include <string_view>

#include "http/ini_file.h"
#include "http/storage_options.h"
#include "http/surroundings.h"
#include "http/url.h"

namespace headrace::http {

struct S3Settings {
  bool anonymous = false;       // explicitly requested: requests are not signed
  std::string region;           // never empty
  std::optional<Url> endpoint;  // empty: AWS
  enum class Addressing : std::uint8_t { kAuto, kPath, kHost, kEndpointIsBucket } addressing = Addressing::kAuto;
  bool requester_pays = false;
};

// The selected profile, with the contents of the credentials and configuration files.
struct AwsProfile {
  std::string name;
  bool given = false, named = false;  // given: by an option; named: by an option or a variable
  std::string credentials, config;    // contents of the files

  bool exists() const { return exists(name); }
  bool exists(std::string_view profile) const;
  std::string value(std::string_view what) const { return value(name, what); }
  std::string value(std::string_view profile, std::string_view what) const;
};
AwsProfile find_aws_profile(const StorageOptions& options, const Surroundings& surroundings);

Result<S3Settings> find_s3_settings(const StorageOptions& options, const Surroundings& surroundings);

// A server's URL from an option, variable or profile; `what` names that source in messages. Nothing for an empty text.
Result<std::optional<Url>> parse_endpoint(const std::string& text, const char* what, const StorageOptions& options);

// Tokens and signed queries can be used by whoever intercepts them. kInvalidArgument for an endpoint without TLS,
// unless it is this machine or the option 'allow_http' is on.
Status check_secret_may_go(const Url& endpoint, const StorageOptions& options);

// The URL of a key in a bucket: path style below an endpoint, or virtual-hosted style at AWS.
Url place_in_bucket(const S3Settings& settings, std::string_view region, std::string_view bucket, std::string_view key);

// 3 to 63 lower-case letters, digits, '-', '.', '_', and upper-case letters as in old buckets; no ".." .
bool valid_bucket(std::string_view bucket) noexcept;
bool valid_region(std::string_view region) noexcept;

}  // namespace headrace::http
