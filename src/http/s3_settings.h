// S3Settings: where a bucket is and who asks, from what AWS's own tools read: the environment, then profiles.
//
// Threads: pure but for the two functions it is given.
// Fails:   messages name variables, files and profiles, never what they hold.
#pragma once

#include <headrace/status.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "http/request_signer.h"
#include "http/url.h"

namespace headrace::http {

struct S3Settings {
  AwsKeys keys;                 // none: requests are not signed
  std::string region;           // never empty
  std::optional<Url> endpoint;  // nothing: AWS
};

struct S3Surroundings {
  std::function<std::string(const char*)> secure_getenv;  // empty where it is not set
  // The text of a file; nothing where there is none.
  std::function<std::optional<std::string>(const std::string&)> file;
};

// kPermission where there are no credentials and nobody has said that there shall be none.
Result<S3Settings> find_s3_settings(const S3Surroundings& surroundings);

// A value of an INI file as AWS has it; empty where it is not there.
std::string ini_value(std::string_view text, std::string_view section, std::string_view name);

// The address of a key in a bucket: the endpoint's path style, or the bucket's own host at AWS.
Url place_in_bucket(const S3Settings& settings, std::string_view region, std::string_view bucket, std::string_view key);

// Lower case letters, digits, '-', '.', '_' and capitals of old ones; 3 to 63 of them, no ".." .
bool valid_bucket(std::string_view bucket) noexcept;

}  // namespace headrace::http
