// What services and programs that give credentials answer, taken apart: JSON of containers, instances, single sign-on
// and tokens, XML of AWS's security token service.
//
// Threads: pure functions.
// Fails:   nothing where a text is not of its form. None of it is ever repeated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/credentials.h"

namespace headrace::http {

inline constexpr std::size_t kMostCredentialBytes = 64 << 10;  // of an answer

// "2026-01-31T12:00:00Z", also with fractions of a second or an offset "+02:00", as seconds since 1970.
std::optional<std::int64_t> parse_timestamp(std::string_view text);

// {"AccessKeyId": .., "SecretAccessKey": .., "Token": .., "Expiration": ..}, and what else there may be. "Code", where
// there is one, is "Success".
std::optional<Credentials> parse_json_keys(std::string_view text);

// What a credential_process prints: the same with "SessionToken", and "Version": 1. Neither a token nor an end has to
// be there: keys of users have none.
std::optional<Credentials> parse_process_keys(std::string_view text);

// {"accessToken": .., "expiresAt": ..}: a file of `aws sso login`. The token is `bearer`.
std::optional<Credentials> parse_sso_token(std::string_view text);

// {"roleCredentials": {"accessKeyId": .., "secretAccessKey": .., "sessionToken": .., "expiration": ..}}, the last in
// milliseconds.
std::optional<Credentials> parse_sso_keys(std::string_view text);

// {"access_token": .., "expires_in": ..}, of Google's and Azure's; "expires_on" where there is no "expires_in". `now`:
// seconds since 1970.
std::optional<Credentials> parse_json_token(std::string_view text, std::int64_t now);

// <AssumeRole...Response><AssumeRole...Result><Credentials>..
std::optional<Credentials> parse_sts_keys(std::string_view text);

// <ErrorResponse><Error><Code>..; empty where it is not that, or no word that may be printed.
std::string parse_sts_error(std::string_view text);

}  // namespace headrace::http
