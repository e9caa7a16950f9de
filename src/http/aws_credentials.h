// Finds AWS credentials in the same places as AWS's own tools: options, the environment, roles, profiles, and the
// credential services of containers and instances.
//
// Threads: pure but for the functions it is given. Blocks while it reads files and queries services.
// Fails:   kPermission where no credentials are found. Messages name options, variables, files, profiles and AWS error
//          codes, never their contents.
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
