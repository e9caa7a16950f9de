// Which objects of a store are Zarr metadata documents. Caches of stored data must not serve them: a caller that opens
// an array again expects its current metadata.
//
// Threads: a pure function.
#pragma once

#include <string_view>

namespace headrace::base {

inline bool is_zarr_document(std::string_view key) noexcept {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  return name == "zarr.json" || name == ".zarray" || name == ".zgroup" || name == ".zattrs" || name == ".zmetadata";
}

}  // namespace headrace::base
