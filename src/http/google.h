// Google Cloud Storage through its XML interface, which speaks S3's protocol: endpoint and credentials.
//
// Threads: pure but for the functions it is given. Blocks while it queries services.
// Fails:   messages name options and variables, never their values.
#pragma once

#include "http/credentials.h"
#include "http/fetch.h"
#include "http/s3_settings.h"

namespace headrace::http {

Result<S3Settings> find_google_settings(const StorageOptions& options, const Surroundings& surroundings);

// HMAC keys, a token, or a token obtained by a credentials file or from the machine's metadata service. kPermission
// where there is none. `now`: seconds since 1970.
Result<Credentials> obtain_google_credentials(const StorageOptions& options, const Surroundings& surroundings,
                                              const Fetch& fetch, std::int64_t now);

}  // namespace headrace::http
