// Credentials of a store: keys that sign requests, or a bearer token that is sent as it is.
//
// Owns:    secrets. No message contains any part of them.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace headrace::http {

struct AwsKeys {
  std::string id, secret, session_token;  // empty id: requests are not signed
};

struct Credentials {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  AwsKeys keys;
  std::string bearer;             // for services that take tokens
  std::string source;             // names an option, variable, profile or service; not secret
  std::int64_t expires = kNever;  // seconds since 1970
};

// Obtains credentials afresh on each call. Blocks; called from one thread at a time.
using ObtainCredentials = std::function<Result<Credentials>()>;

}  // namespace headrace::http
