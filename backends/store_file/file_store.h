// FileStore: a directory tree as a store.
#pragma once

#include <memory>
#include <string_view>

#include "store/store.h"

namespace headrace::store {

struct FileStoreOptions {
  bool kernel_resolves = true;  // false: behave as on a kernel without openat2
  StoreOptions store = {};      // for a ZIP file on the path
};

Result<std::shared_ptr<Store>> open_file_store_with(std::string_view location, const FileStoreOptions& options);

}  // namespace headrace::store
