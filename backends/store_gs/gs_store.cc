// "gs://bucket/prefix": objects of Google Cloud Storage, through its interface that speaks S3's protocol.
#include <new>

#include "http/remote_service.h"
#include "store/range_store.h"

namespace headrace::store {

Result<std::shared_ptr<Store>> open_gs_store(std::string_view location, const StoreOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(http::RemoteService service, http::find_google_service(location, options.storage));
    if (!service.prefix.empty()) HEADRACE_TRY(check_key(service.prefix));
    const std::string identity = service.identity();
    HEADRACE_TRY_ASSIGN(auto objects, http::make_bucket_store(std::move(service)));
    return make_remote_store(std::move(objects), identity, options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
