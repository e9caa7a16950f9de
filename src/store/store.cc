#include "store/store.h"

#include <initializer_list>

#include "base/file_read.h"

// clang-format off: needs what is declared above
#include "builtin_store.inc"
// clang-format on

namespace headrace::store {

void Object::close() noexcept {
  base::close_descriptor(fd);
  fd = -1;
  memory = nullptr;
  size_bytes = 0;
}

bool valid_key(std::string_view key) noexcept {
  if (key.empty() || key.size() > 4096) return false;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= key.size(); ++i) {
    if (i < key.size() && key[i] != '/') {
      if (key[i] == '\0' || key[i] == '\\') return false;
      continue;
    }
    const std::string_view part = key.substr(start, i - start);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    start = i + 1;
  }
  return true;
}

Status check_key(std::string_view key) {
  if (valid_key(key)) return {};
  return Status(Code::kInvalidArgument, Layer::kStore,
                "not a valid key: components must be non-empty, not '.' or '..', without backslash or NUL")
      .with_key(key.substr(0, 200));
}

std::span<const StoreRow> stores() {
  static constexpr std::initializer_list<StoreRow> kRows = {HEADRACE_BUILTIN_ROWS};
  return {kRows.begin(), kRows.size()};
}

Result<std::shared_ptr<Store>> open_store(std::string_view url) {
  std::string_view scheme = "file";
  std::string_view location = url;
  if (auto mark = url.find("://"); mark != std::string_view::npos) {
    scheme = url.substr(0, mark);
    location = url.substr(mark + 3);
  }
  if (location.empty()) return Status(Code::kInvalidArgument, Layer::kStore, "the store's path or URL is empty");
  std::string known;
  for (const StoreRow& row : stores()) {
    if (scheme == row.scheme) return row.open(location);
    known += std::string(known.empty() ? "" : ", ") + row.scheme;
  }
  return Status(Code::kUnsupported, Layer::kStore,
                "no store for the scheme '" + std::string(scheme) + "'; this build has " + known);
}

}  // namespace headrace::store
