// "gs://bucket/prefix": objects of Google's storage, by its interface that speaks S3's protocol.
#include <time.h>

#include <memory>
#include <new>
#include <string>

#include "http/client_options.h"
#include "http/google.h"
#include "http/s3_dialect.h"
#include "store/range_store.h"

namespace headrace::store {

Result<std::shared_ptr<Store>> open_gs_store(std::string_view location, const StoreOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(http::BucketLocation place, http::parse_s3_location(location, "gs"));
    if (!place.prefix.empty()) HEADRACE_TRY(check_key(place.prefix));
    HEADRACE_TRY_ASSIGN(const auto given, http::StorageOptions::parse(options.storage, http::StorageService::kGoogle));
    const http::Surroundings surroundings = http::Surroundings::of_process();
    HEADRACE_TRY_ASSIGN(http::S3Settings settings, http::find_google_settings(given, surroundings));
    HEADRACE_TRY_ASSIGN(const http::ClientOptions client, http::find_client_options(given));
    auto stop = std::make_shared<std::atomic<bool>>(false);
    http::ObtainCredentials obtain;
    if (!settings.anonymous) {
      obtain = [given, surroundings, endpoint = *settings.endpoint,
                fetch = http::make_fetch(client.transport, stop)]() -> Result<http::Credentials> {
        auto found =
            http::obtain_google_credentials(given, surroundings, fetch, static_cast<std::int64_t>(::time(nullptr)));
        if (found.ok() && !found->bearer.empty()) HEADRACE_TRY(http::check_secret_may_go(endpoint, given));
        return found;
      };
    }
    auto dialect = std::make_unique<http::S3Dialect>("gs", std::move(place.bucket), std::move(settings));
    const std::string identity = dialect->place(place.prefix).to_string();
    HEADRACE_TRY_ASSIGN(auto objects, http::make_bucket_store(std::move(dialect), std::move(place.prefix), client,
                                                              std::move(obtain), std::move(stop)));
    return make_remote_store(std::move(objects), identity, options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
