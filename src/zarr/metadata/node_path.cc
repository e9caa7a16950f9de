#include "zarr/metadata/node_path.h"

#include <algorithm>

#include "store/store.h"

namespace headrace::zarr {

bool valid_node_path(std::string_view path, int zarr_format, bool reserved) noexcept {
  if (!store::valid_key(path)) return false;
  if (zarr_format != 3) return true;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if ((name.substr(0, 2) == "__" && !reserved) || name == "zarr.json" ||
        std::all_of(name.begin(), name.end(), [](char c) { return c == '.'; })) {
      return false;
    }
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

Result<std::string> normalize_path(std::string_view path) {
  std::string out;
  out.reserve(path.size());
  for (char c : path) {
    if (c == '\\') c = '/';
    if (c == '/' && (out.empty() || out.back() == '/')) continue;
    out += c;
  }
  if (!out.empty() && out.back() == '/') out.pop_back();
  if (!out.empty()) HEADRACE_TRY(store::check_key(out));
  return out;
}

}  // namespace headrace::zarr
