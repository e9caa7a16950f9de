// nanobind's conversions of C++ types, all that the module uses. Include this header, never one of them: a source file
// without a conversion that it needs compiles, and its function raises std::bad_cast when it is called.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
