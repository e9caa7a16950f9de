// Google's files of credentials: keys of service accounts, and what `gcloud auth application-default login` leaves.
// Either is worth a token of its token service, for reading alone where the file lets that be chosen.
//
// Threads: pure but for the functions it is given. Blocks while the service is asked.
// Fails:   kPermission where there is no such file, or the service gives no token; kInvalidArgument for a file that is
//          none; kUnsupported for other kinds. Messages name what named the file, never what it holds.
#pragma once

#include "http/credentials.h"
#include "http/fetch.h"
#include "http/surroundings.h"

namespace headrace::http {

// `path`: of the file; `named`: what names it, for messages: "GOOGLE_APPLICATION_CREDENTIALS". `now`: seconds since
// 1970.
Result<Credentials> obtain_google_file_credentials(const std::string& path, const std::string& named,
                                                   const Surroundings& surroundings, const Fetch& fetch,
                                                   std::int64_t now);

// Where gcloud leaves the file; empty where there is no home directory.
std::string gcloud_file(const Surroundings& surroundings);

}  // namespace headrace::http
