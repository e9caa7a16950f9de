// The decode index of zstd streams, made by the CPU: what a GPU's first decode of them collects (zstd_layout.h).
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <span>
#include <vector>

namespace headrace::codec {

// Empty: none is of use. kCorrupt, kUnsupported: there is none for these bytes. Not all rules of the format are looked
// at: an index is verified by whoever uses it. Throws std::bad_alloc.
Result<std::vector<std::byte>> make_zstd_index(std::span<const std::byte> frames);

}  // namespace headrace::codec
