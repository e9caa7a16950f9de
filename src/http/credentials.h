// Who asks a store: keys to sign with, or a token that is sent as it is.
//
// Owns:  texts that are secret. Nothing that is printed is made of them.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace headrace::http {

struct AwsKeys {
  std::string id, secret, session_token;  // no id: nothing is signed
};

struct Credentials {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  AwsKeys keys;
  std::string bearer;             // of services that take tokens
  std::string source;             // where they come from: names of options, variables, profiles and services; no secret
  std::int64_t expires = kNever;  // seconds since 1970
};

// Finds out who asks, anew each time. Blocks; called from one thread at a time.
using ObtainCredentials = std::function<Result<Credentials>()>;

}  // namespace headrace::http
