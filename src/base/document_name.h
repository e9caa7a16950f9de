// Which objects of a store are Zarr's own documents. They say what there is: whoever opens an array again wants them as
// they are now, so nothing that remembers what a store has said holds for them.
//
// Threads: pure.
#pragma once

#include <string_view>

namespace headrace::base {

inline bool is_zarr_document(std::string_view key) noexcept {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  return name == "zarr.json" || name == ".zarray" || name == ".zgroup" || name == ".zattrs" || name == ".zmetadata";
}

}  // namespace headrace::base
