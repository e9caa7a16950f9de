// RemoteZip: a ZIP file on a web server or in a bucket, as a read-only store.
//
// The directory is read once, by one request for the archive's end and at most one more for the rest of it. Entries are
// then ranges of that version of the archive. Names that the directory does not have cost no request.
#pragma once

#include <memory>
#include <string_view>

#include "store/store.h"

namespace headrace::store {

// `url`: an address of a remote service, whose path has a component that ends in ".zip"; what follows that is a folder
// in the archive. If there is no object of that name, the URL's own store is opened. kUnsupported: the server states no
// version or no size, or has no ranges; kCorrupt and others as for local archives.
Result<std::shared_ptr<Store>> open_remote_zip(std::string_view url, const StoreOptions& options);

}  // namespace headrace::store
