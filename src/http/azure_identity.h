// Who asks Azure where neither options nor the environment have a key or a token: a workload's identity, or that of the
// machine or the application that this runs in.
//
// Threads: pure but for the functions it is given. Blocks while the service is asked.
// Fails:   kPermission where there is none; messages name options and variables, never what they hold.
#pragma once

#include "http/credentials.h"
#include "http/fetch.h"
#include "http/storage_options.h"
#include "http/surroundings.h"

namespace headrace::http {

// `now`: seconds since 1970.
Result<Credentials> obtain_azure_credentials(const StorageOptions& options, const Surroundings& surroundings,
                                             const Fetch& fetch, std::int64_t now);

}  // namespace headrace::http
