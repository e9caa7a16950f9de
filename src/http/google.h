// Google's object storage by its XML interface, which speaks S3's protocol: where it is, and who asks.
//
// Threads: pure but for the functions it is given. Blocks while services are asked.
// Fails:   messages name options and variables, never what they hold.
#pragma once

#include "http/credentials.h"
#include "http/fetch.h"
#include "http/s3_settings.h"

namespace headrace::http {

Result<S3Settings> find_google_settings(const StorageOptions& options, const Surroundings& surroundings);

// Keys of the kind "HMAC", a token, or one that a file of credentials or the machine's metadata service gives.
// kPermission where there is none.
// `now`: seconds since 1970.
Result<Credentials> obtain_google_credentials(const StorageOptions& options, const Surroundings& surroundings,
                                              const Fetch& fetch, std::int64_t now);

}  // namespace headrace::http
