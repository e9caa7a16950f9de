// "az://container/prefix" and "abfs://container@account.dfs.core.windows.net/prefix": objects of Azure's blob service.
#include <memory>
#include <new>
#include <string>

#include "http/azure.h"
#include "http/client_options.h"
#include "store/range_store.h"

namespace headrace::store {
namespace {

Result<std::shared_ptr<Store>> open(std::string_view location, const char* scheme, const StoreOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(http::AzureLocation place, http::parse_azure_location(location, scheme));
    if (!place.prefix.empty()) HEADRACE_TRY(check_key(place.prefix));
    HEADRACE_TRY_ASSIGN(const auto given, http::StorageOptions::parse(options.storage, http::StorageService::kAzure));
    HEADRACE_TRY_ASSIGN(http::AzureSettings settings,
                        http::find_azure_settings(given, http::Surroundings::of_process(), place.account));
    HEADRACE_TRY_ASSIGN(const http::ClientOptions client, http::find_client_options(given));
    std::string url = std::string(scheme) + "://" + std::string(location.substr(0, location.find('/')));
    auto dialect =
        std::make_unique<http::AzureDialect>(std::move(url), std::move(place.container), std::move(settings));
    const std::string identity = dialect->place(place.prefix).to_string();
    HEADRACE_TRY_ASSIGN(auto objects,
                        http::make_bucket_store(std::move(dialect), std::move(place.prefix), client, nullptr, nullptr));
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
