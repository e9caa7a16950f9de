// "az://container/prefix" and "abfs://container@account.dfs.core.windows.net/prefix": objects of Azure Blob Storage.
#include <new>

#include "http/remote_service.h"
#include "store/range_store.h"

namespace headrace::store {
namespace {

Result<std::shared_ptr<Store>> open(std::string_view location, const char* scheme, const StoreOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(http::RemoteService service, http::find_azure_service(location, scheme, options.storage));
    if (!service.prefix.empty()) HEADRACE_TRY(check_key(service.prefix));
    const std::string identity = service.identity();
    HEADRACE_TRY_ASSIGN(auto objects, http::make_bucket_store(std::move(service)));
    return make_remote_store(std::move(objects), identity, options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace

Result<std::shared_ptr<Store>> open_az_store(std::string_view location, const StoreOptions& options) {
  return open(location, "az", options);
}

Result<std::shared_ptr<Store>> open_abfs_store(std::string_view location, const StoreOptions& options) {
  return open(location, "abfs", options);
}

}  // namespace headrace::store
