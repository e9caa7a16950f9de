// Parsers for what credential services and programs return: JSON of containers, instances, single sign-on and token
// services, XML of AWS's security token service.
//
// Threads: pure functions.
// Fails:   return nothing for ill-formed text. No part of the text is ever repeated in a message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/credentials.h"

namespace headrace::http {

inline constexpr std::size_t kMaxCredentialBytes = 64 << 10;  // of a response

// "2026-01-31T12:00:00Z", optionally with fractions of a second or an offset such as "+02:00", as seconds since 1970.
std::optional<std::int64_t> parse_timestamp(std::string_view text);

// {"AccessKeyId": .., "SecretAccessKey": .., "Token": .., "Expiration": ..}; other members are ignored. "Code", if
// present, must be "Success".
std::optional<Credentials> parse_json_keys(std::string_view text);

// The output of a credential_process: the same with "SessionToken" and "Version": 1. Token and expiration are optional,
// since a user's keys have neither.
std::optional<Credentials> parse_process_keys(std::string_view text);

// {"accessToken": .., "expiresAt": ..}: a file of `aws sso login`. The token becomes `bearer`.
std::optional<Credentials> parse_sso_token(std::string_view text);

// {"roleCredentials": {"accessKeyId": .., "secretAccessKey": .., "sessionToken": .., "expiration": ..}}, the expiration
// in milliseconds.
std::optional<Credentials> parse_sso_keys(std::string_view text);

// {"access_token": .., "expires_in": ..}, of Google and Azure; "expires_on" where "expires_in" is missing. `now`:
// seconds since 1970.
std::optional<Credentials> parse_json_token(std::string_view text, std::int64_t now);

// <AssumeRole...Response><AssumeRole...Result><Credentials>..
std::optional<Credentials> parse_sts_keys(std::string_view text);

// The code of <ErrorResponse><Error><Code>..; empty where the text is something else or the code is not printable.
std::string parse_sts_error(std::string_view text);

}  // namespace headrace::http
