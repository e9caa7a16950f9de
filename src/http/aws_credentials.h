// Who asks AWS's services, found as AWS's own tools find it: options, the environment, roles, profiles, and what gives
// credentials to containers and instances.
//
// Threads: pure but for the functions it is given. Blocks while files are read and services asked.
// Fails:   kPermission where nobody is found; messages name options, variables, files, profiles and AWS's words for
//          errors, never what they hold.
#pragma once

#include "http/credentials.h"
#include "http/fetch.h"
#include "http/storage_options.h"
#include "http/surroundings.h"

namespace headrace::http {

// `now`: seconds since 1970.
Result<Credentials> obtain_aws_credentials(const StorageOptions& options, const Surroundings& surroundings,
                                           const Fetch& fetch, std::int64_t now);

}  // namespace headrace::http
