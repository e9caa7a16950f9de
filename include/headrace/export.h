// HEADRACE_API: marks what the shared library exports. Everything else in it is hidden.
#pragma once

#include <headrace/version.h>

#if defined(__GNUC__)
#define HEADRACE_API [[gnu::visibility("default")]]
#else
#define HEADRACE_API
#endif
