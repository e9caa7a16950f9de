// S3Settings: where a bucket is, from the user's options, then from what AWS's own tools read: the environment, then
// profiles. Who asks, aws_credentials.h finds.
//
// Threads: pure but for the functions it is given.
// Fails:   messages name options, variables, files and profiles, never what they hold.
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
  bool anonymous = false;       // somebody has said so: requests are not signed
  std::string region;           // never empty
  std::optional<Url> endpoint;  // nothing: AWS
  enum class Addressing : std::uint8_t { kAuto, kPath, kHost, kEndpointIsBucket } addressing = Addressing::kAuto;
  bool requester_pays = false;
};

// The profile that is read, and its values: of the files of credentials and of settings.
struct AwsProfile {
  std::string name;
  bool given = false, named = false;  // by an option; by an option or a variable
  std::string credentials, config;    // the files' texts

  bool exists() const { return exists(name); }
  bool exists(std::string_view profile) const;
  std::string value(std::string_view what) const { return value(name, what); }
  std::string value(std::string_view profile, std::string_view what) const;
};
AwsProfile find_aws_profile(const StorageOptions& options, const Surroundings& surroundings);

Result<S3Settings> find_s3_settings(const StorageOptions& options, const Surroundings& surroundings);

// A server's address from an option, variable or profile; `what` names those in messages. Nothing for no text.
Result<std::optional<Url>> parse_endpoint(const std::string& text, const char* what, const StorageOptions& options);

// Tokens and signed queries are worth the same to whoever reads them on the way: kInvalidArgument for a server that is
// not asked by TLS, unless it is this machine or the option 'allow_http' is on.
Status check_secret_may_go(const Url& endpoint, const StorageOptions& options);

// The address of a key in a bucket: the endpoint's path style, or the bucket's own host at AWS.
Url place_in_bucket(const S3Settings& settings, std::string_view region, std::string_view bucket, std::string_view key);

// Lower case letters, digits, '-', '.', '_' and capitals of old ones; 3 to 63 of them, no ".." .
bool valid_bucket(std::string_view bucket) noexcept;
bool valid_region(std::string_view region) noexcept;

}  // namespace headrace::http
