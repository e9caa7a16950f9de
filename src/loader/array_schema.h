// The schema that a loader's state is checked against: its order and its arrays' samples.
#pragma once

#include <headrace/loader.h>

#include <span>

namespace headrace::loader {

// Throws std::bad_alloc.
LoaderSchema schema_of(const Order& order, std::span<const LoaderArray> arrays);

}  // namespace headrace::loader
