// "s3://bucket/prefix": objects of AWS S3, or of a server that speaks its protocol.
#include <time.h>

#include <memory>
#include <new>
#include <string>

#include "http/aws_credentials.h"
#include "http/client_options.h"
#include "http/s3_dialect.h"
#include "store/range_store.h"

namespace headrace::store {

Result<std::shared_ptr<Store>> open_s3_store(std::string_view location, const StoreOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(http::BucketLocation place, http::parse_s3_location(location, "s3"));
    if (!place.prefix.empty()) HEADRACE_TRY(check_key(place.prefix));
    HEADRACE_TRY_ASSIGN(const auto given, http::StorageOptions::parse(options.storage, http::StorageService::kS3));
    const http::Surroundings surroundings = http::Surroundings::of_process();
    HEADRACE_TRY_ASSIGN(http::S3Settings settings, http::find_s3_settings(given, surroundings));
    HEADRACE_TRY_ASSIGN(const http::ClientOptions client, http::find_client_options(given));
    auto stop = std::make_shared<std::atomic<bool>>(false);
    http::ObtainCredentials obtain;
    if (!settings.anonymous) {
      obtain = [given, surroundings, fetch = http::make_fetch(client.transport, stop)] {
        return http::obtain_aws_credentials(given, surroundings, fetch, static_cast<std::int64_t>(::time(nullptr)));
      };
    }
    auto dialect = std::make_unique<http::S3Dialect>("s3", std::move(place.bucket), std::move(settings));
    const std::string identity = dialect->place(place.prefix).to_string();
    HEADRACE_TRY_ASSIGN(auto objects, http::make_bucket_store(std::move(dialect), std::move(place.prefix), client,
                                                              std::move(obtain), std::move(stop)));
    return make_remote_store(std::move(objects), identity, options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
