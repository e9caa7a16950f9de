/* The version of these headers; hr_version() is that of the library. For C and C++. */
#ifndef HEADRACE_VERSION_H
#define HEADRACE_VERSION_H

#define HEADRACE_VERSION_MAJOR 0
#define HEADRACE_VERSION_MINOR 1
#define HEADRACE_VERSION_PATCH 0
/* For comparisons: #if HEADRACE_VERSION >= 200 is 0.2.0 or later. */
#define HEADRACE_VERSION (HEADRACE_VERSION_MAJOR * 10000 + HEADRACE_VERSION_MINOR * 100 + HEADRACE_VERSION_PATCH)

#endif
