// Google's credentials files: service-account keys, and what `gcloud auth application-default login` writes. Either is
// exchanged for a token of Google's token service, restricted to reading where the file allows that.
//
// Threads: pure but for the functions it is given. Blocks while it queries the service.
// Fails:   kPermission where the file cannot be read or the service refuses a token; kInvalidArgument for an invalid
//          file; kUnsupported for other kinds of credentials. Messages say what named the file, never what it contains.
#pragma once

#include "http/credentials.h"
#include "http/fetch.h"
#include "http/surroundings.h"

namespace headrace::http {

// `named`: what named the file `path`, for messages, such as "GOOGLE_APPLICATION_CREDENTIALS". `now`: seconds since
// 1970.
Result<Credentials> obtain_google_file_credentials(const std::string& path, const std::string& named,
                                                   const Surroundings& surroundings, const Fetch& fetch,
                                                   std::int64_t now);

// Where gcloud writes its file; empty where there is no home directory.
std::string gcloud_file(const Surroundings& surroundings);

}  // namespace headrace::http
