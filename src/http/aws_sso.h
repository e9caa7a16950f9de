// Keys of AWS's single sign-on: a token that `aws sso login` has left in ~/.aws/sso/cache, and the keys that it is
// worth for an account and a role. The token is neither written nor fetched anew.
//
// Threads: pure but for the functions it is given. Blocks while the service is asked.
// Fails:   kPermission where there is no token, or it has ended, with what to do; messages name profiles and files,
//          never what they hold.
#pragma once

#include "http/credentials.h"
#include "http/fetch.h"
#include "http/s3_settings.h"

namespace headrace::http {

bool has_sso(const AwsProfile& profile, const std::string& name);

// `name`: of the profile; `now`: seconds since 1970.
Result<Credentials> obtain_sso_credentials(const AwsProfile& profile, const std::string& name,
                                           const Surroundings& surroundings, const Fetch& fetch, std::int64_t now);

}  // namespace headrace::http
