// Options of a client as the environment has them: HEADRACE_HTTP_* and the usual names of certificate files.
//
// Fails: kInvalidArgument for what is no number in bounds; the message names the variable.
#pragma once

#include <headrace/status.h>

#include "http/range_client.h"

namespace headrace::http {

Result<ClientOptions> client_options_from_environment();

}  // namespace headrace::http
