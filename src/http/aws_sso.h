// Credentials from AWS single sign-on: takes the token that `aws sso login` left in ~/.aws/sso/cache and exchanges it
// for the keys of an account and a role. It neither writes nor refreshes the token.
//
// Threads: pure but for the functions it is given. Blocks while it queries the service.
// Fails:   kPermission where the token is missing or has expired; the message says what to do. Messages name profiles
//          and files, never their contents.
#pragma once

#include "http/credentials.h"
#include "http/fetch.h"
#include "http/s3_settings.h"

namespace headrace::http {

bool has_sso(const AwsProfile& profile, const std::string& name);

// `name`: the profile's; `now`: seconds since 1970.
Result<Credentials> obtain_sso_credentials(const AwsProfile& profile, const std::string& name,
                                           const Surroundings& surroundings, const Fetch& fetch, std::int64_t now);

}  // namespace headrace::http
