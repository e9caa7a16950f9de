#include "http/remote_service.h"

#include <time.h>

#include <new>
#include <optional>
#include <utility>

#include "http/aws_credentials.h"
#include "http/azure.h"
#include "http/azure_identity.h"
#include "http/client_options.h"
#include "http/google.h"
#include "http/s3_dialect.h"

namespace headrace {

Result<ObjectPlace> split_object_url(std::string_view url) {
  const auto refuse = [] { return Status(Code::kInvalidArgument, Layer::kStore, "the URL names no object"); };
  const std::size_t mark = url.find("://");
  if (mark == std::string_view::npos) return refuse();
  const std::string_view path = url.substr(0, url.find_first_of("?#"));
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || slash < mark + 4 || slash + 1 == path.size()) return refuse();
  try {
    ObjectPlace place{std::string(url.substr(0, slash)), std::string(path.substr(slash + 1))};
    if (!url.starts_with("http")) return place;
    place.store_url += url.substr(path.size());
    // Keys are escaped again when requested.
    const std::string escaped = std::exchange(place.key, {});
    if (!http::unescape_path(escaped, place.key) || place.key.find('/') != std::string::npos) return refuse();
    return place;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

namespace http {
namespace {

std::int64_t unix_now_s() { return static_cast<std::int64_t>(::time(nullptr)); }

// Common to all services: the options, and the environment as it is now.
struct ServiceStart {
  StorageOptions given;
  RemoteService service;
  Surroundings surroundings;
};

Result<ServiceStart> start_service(std::span<const StorageOption> options, StorageService kind) {
  ServiceStart start;
  HEADRACE_TRY_ASSIGN(start.given, StorageOptions::parse(options, kind));
  HEADRACE_TRY_ASSIGN(start.service.client, find_client_options(start.given));
  start.service.stop = std::make_shared<std::atomic<bool>>(false);
  start.surroundings = Surroundings::of_process(start.service.stop);
  return start;
}

using Obtain = Result<Credentials> (*)(const StorageOptions&, const Surroundings&, const Fetch&, std::int64_t now);

// Tokens are sent only to endpoints where they cannot be intercepted.
ObtainCredentials obtain_by(Obtain obtain, const ServiceStart& start, std::optional<Url> endpoint) {
  return [obtain, given = start.given, surroundings = start.surroundings, endpoint = std::move(endpoint),
          fetch = make_fetch(start.service.client.transport, start.service.stop)]() -> Result<Credentials> {
    auto found = obtain(given, surroundings, fetch, unix_now_s());
    if (found.ok() && !found->bearer.empty() && endpoint) HEADRACE_TRY(check_secret_may_go(*endpoint, given));
    return found;
  };
}

// Differences between services that speak S3's protocol.
struct BucketVendor {
  const char* scheme;
  StorageService kind;
  const char* anonymous;  // what made requests anonymous, if not the option 'anon'
  bool has_regions;
  Result<S3Settings> (*find_settings)(const StorageOptions&, const Surroundings&);
  Obtain obtain;
};

Result<RemoteService> find_bucket_service(const BucketVendor& vendor, std::string_view location,
                                          std::span<const StorageOption> options) {
  HEADRACE_TRY_ASSIGN(BucketLocation place, parse_s3_location(location, vendor.scheme));
  HEADRACE_TRY_ASSIGN(ServiceStart start, start_service(options, vendor.kind));
  HEADRACE_TRY_ASSIGN(S3Settings settings, vendor.find_settings(start.given, start.surroundings));
  RemoteService& service = start.service;
  if (settings.anonymous) {
    const bool by_option = start.given.flag(StorageName::kAnonymous).has_value();
    service.source = std::string("anonymous (") + (by_option ? "the storage option 'anon'" : vendor.anonymous) + ")";
  } else {
    service.obtain = obtain_by(vendor.obtain, start, settings.endpoint);
  }
  if (vendor.has_regions) service.region = settings.region;
  service.prefix = std::move(place.prefix);
  service.dialect = std::make_unique<S3Dialect>(vendor.scheme, std::move(place.bucket), std::move(settings));
  return std::move(service);
}

}  // namespace

std::string RemoteService::url() const {
  if (dialect == nullptr) return base.without_secrets();
  return dialect->url() + (prefix.empty() ? "" : "/" + prefix);
}

Result<RemoteService> find_s3_service(std::string_view location, std::span<const StorageOption> options) {
  return find_bucket_service(
      {"s3", StorageService::kS3, "AWS_NO_SIGN_REQUEST", true, find_s3_settings, obtain_aws_credentials}, location,
      options);
}

Result<RemoteService> find_google_service(std::string_view location, std::span<const StorageOption> options) {
  return find_bucket_service({"gs", StorageService::kGoogle, "the storage option 'token'", false, find_google_settings,
                              obtain_google_credentials},
                             location, options);
}

Result<RemoteService> find_azure_service(std::string_view location, const char* scheme,
                                         std::span<const StorageOption> options) {
  HEADRACE_TRY_ASSIGN(AzureLocation place, parse_azure_location(location, scheme));
  HEADRACE_TRY_ASSIGN(ServiceStart start, start_service(options, StorageService::kAzure));
  HEADRACE_TRY_ASSIGN(AzureSettings settings, find_azure_settings(start.given, start.surroundings, place.account));
  RemoteService& service = start.service;
  if (settings.use_machine_identity) {
    service.obtain = obtain_by(obtain_azure_credentials, start, settings.endpoint);
  } else {
    service.source = settings.anonymous ? "anonymous (" + settings.source + ")" : settings.source;
  }
  service.prefix = std::move(place.prefix);
  std::string url = std::string(scheme) + "://" + std::string(location.substr(0, location.find('/')));
  service.dialect = std::make_unique<AzureDialect>(std::move(url), std::move(place.container), std::move(settings));
  return std::move(service);
}

Result<RemoteService> find_web_service(const std::string& url, std::span<const StorageOption> options) {
  RemoteService service;
  HEADRACE_TRY_ASSIGN(service.base, parse_url(url));
  while (service.base.path.ends_with('/')) service.base.path.pop_back();
  HEADRACE_TRY_ASSIGN(const auto given, StorageOptions::parse(options, StorageService::kHttp));
  if (!service.base.tls && given.flag(StorageName::kAllowHttp) == false) {
    return Status(Code::kInvalidArgument, Layer::kStore,
                  "the URL is plain http, and the storage option 'allow_http' is false");
  }
  HEADRACE_TRY_ASSIGN(service.client, find_client_options(given));
  service.headers = given.headers();
  service.source = !service.headers.empty()      ? "header lines of the storage options"
                   : !service.base.query.empty() ? "the query of the URL"
                                                 : "anonymous";
  return service;
}

Result<RemoteService> find_remote_service(std::string_view url, std::span<const StorageOption> options) {
  const std::size_t mark = url.find("://");
  const std::string_view scheme = url.substr(0, mark);
  const std::string_view location = mark == std::string_view::npos ? std::string_view() : url.substr(mark + 3);
  try {
    if (location.empty()) return Status(Code::kInvalidArgument, Layer::kStore, "the URL names no place");
    if (scheme == "http" || scheme == "https") return find_web_service(std::string(url), options);
    if (scheme == "s3") return find_s3_service(location, options);
    if (scheme == "gs" || scheme == "gcs") return find_google_service(location, options);
    for (const char* azure : {"az", "abfs", "abfss"}) {
      if (scheme == azure) return find_azure_service(location, azure, options);
    }
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
  return Status(Code::kUnsupported, Layer::kStore,
                "the URL's scheme is not supported: http, https, s3, gs, gcs, az, abfs and abfss are");
}

Result<std::shared_ptr<ByteStore>> make_bucket_store(RemoteService service) {
  return make_bucket_store(std::move(service.dialect), std::move(service.prefix), service.client,
                           std::move(service.obtain), std::move(service.stop));
}

std::string shown_url(std::string_view url) {
  const std::size_t mark = url.find("://");
  if (mark == std::string_view::npos) return std::string(url.substr(0, url.find_first_of("?#")));
  const std::string_view scheme = url.substr(0, mark);
  std::string_view rest = url.substr(mark + 3);
  rest = rest.substr(0, rest.find_first_of("?#"));
  // In these schemes the container precedes the '@'.
  const bool azure = scheme == "az" || scheme == "abfs" || scheme == "abfss";
  const std::size_t at = rest.substr(0, rest.find('/')).rfind('@');
  if (!azure && at != std::string_view::npos) rest.remove_prefix(at + 1);
  return std::string(scheme) + "://" + std::string(rest);
}

}  // namespace http
}  // namespace headrace
