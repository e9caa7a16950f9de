// RemoteReferences: a reference file on a web server or in a bucket, whose references lead to objects there or on other
// servers.
//
// A stranger may have written the file, so it gets no one's secrets sent anywhere: the user's options apply to the
// server that the URL names, and objects of other servers are requested anonymously. Local files are never opened for
// it.
#pragma once

#include <memory>
#include <string_view>

#include "store/store.h"

namespace headrace::store {

// `url`: an address of a remote service whose path has a component that ends in ".json", the reference file; what
// follows that is a folder of its keys. A reference that must not be followed fails when its object is read.
Result<std::shared_ptr<Store>> open_remote_references(std::string_view url, const StoreOptions& options);

}  // namespace headrace::store
