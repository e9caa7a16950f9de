// ReferenceStore: a read-only store whose objects are ranges of local files, as described by a reference file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/store.h"

namespace headrace::store {

struct ReferenceStoreOptions {
  std::string name;             // what url() returns
  std::string directory;        // base of relative references
  std::string folder;           // folder of the keys that contains the store's objects: "" or a valid key
  std::string root;             // nothing outside it is opened; "": `directory`
  bool kernel_resolves = true;  // false: behave as on a kernel without openat2
  std::shared_ptr<base::MemoryBudget> memory = {};
};

// `text`: contents of the reference file. kInvalidArgument, kNotFound and kPermission for the directories; kCorrupt and
// kUnsupported for the text. A reference that must not be followed fails when its object is opened.
Result<std::shared_ptr<Store>> open_references(std::string_view text, const ReferenceStoreOptions& options);

}  // namespace headrace::store
