// Options of a client: those of the user, else HEADRACE_HTTP_* and the usual names of certificate files in the
// environment.
//
// Fails: kInvalidArgument for what is no number in bounds; the message names the option or variable.
#pragma once

#include <headrace/status.h>

#include "http/range_client.h"
#include "http/storage_options.h"

namespace headrace::http {

Result<ClientOptions> find_client_options(const StorageOptions& given);

}  // namespace headrace::http
