// Makes the decode index of zstd streams on the CPU: the same index that a GPU collects on its first decode
// (zstd_layout.h).
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <span>
#include <vector>

namespace headrace::codec {

// Empty: an index would be of no use. kCorrupt, kUnsupported: these bytes cannot be indexed. Not all rules of the
// format are checked, because users of an index verify it. Throws std::bad_alloc.
Result<std::vector<std::byte>> make_zstd_index(std::span<const std::byte> frames);

}  // namespace headrace::codec
