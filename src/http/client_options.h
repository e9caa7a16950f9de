// Options of a client: those of the user, then HEADRACE_HTTP_* and the usual certificate-file variables from the
// environment.
//
// Fails:   kInvalidArgument for a value that is not a number in bounds; the message names the option or variable.
#pragma once

#include <headrace/status.h>

#include "http/range_client.h"
#include "http/storage_options.h"

namespace headrace::http {

Result<ClientOptions> find_client_options(const StorageOptions& given);

}  // namespace headrace::http
