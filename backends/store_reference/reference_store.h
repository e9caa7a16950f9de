// ReferenceStore: a read-only store whose objects are ranges of local files, as a reference file says.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/store.h"

namespace headrace::store {

struct ReferenceStoreOptions {
  std::string name;             // what url() gives
  std::string directory;        // relative references begin here
  std::string folder;           // of the keys: "" or a valid key, below which the store's objects lie
  std::string root;             // nothing outside is opened; "": `directory`
  bool kernel_resolves = true;  // false: as on a kernel without openat2
  std::shared_ptr<base::MemoryBudget> memory = {};
};

// `text`: the reference file's. kInvalidArgument, kNotFound and kPermission of the directories; kCorrupt and
// kUnsupported of the text. References that may not be followed are refused when their object is opened.
Result<std::shared_ptr<Store>> open_references(std::string_view text, const ReferenceStoreOptions& options);

}  // namespace headrace::store
