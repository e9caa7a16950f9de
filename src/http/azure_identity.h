// Obtains an Azure token where neither options nor the environment hold a key or a token: from the workload identity,
// or the managed identity of the machine or application.
//
// Threads: pure but for the functions it is given. Blocks while it queries the service.
// Fails:   kPermission where there is no identity; messages name options and variables, never their values.
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
