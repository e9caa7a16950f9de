// RemoteService: the URL of a cloud or web server with everything needed to send requests to it: the location of
// objects, credentials and limits. Stores are built from it, as are tools that inspect a service without reading
// arrays.
//
// Threads: pure, except that it reads the environment and credentials files. Sends no requests.
// Fails:   kInvalidArgument for invalid URLs and options, kPermission where no credentials are found; messages name
//          options and variables, never their values.
#pragma once

#include <headrace/open_options.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/bucket_store.h"

namespace headrace::http {

struct RemoteService {
  std::unique_ptr<BucketDialect> dialect;  // null: a web server
  std::string prefix;                      // path below the bucket, not yet made into a key
  Url base;                                // a web server's URL without a trailing '/'; its query may be a secret
  std::vector<std::string> headers;        // a web server's request headers; may be secrets
  ClientOptions client;
  ObtainCredentials obtain;                 // null: anonymous, or as `source` says
  std::shared_ptr<std::atomic<bool>> stop;  // cancels requests that `obtain` has in flight
  std::string source;                       // of the credentials if `obtain` is null: "anonymous (AWS_NO_SIGN_REQUEST)"
  std::string region;                       // S3: the configured region; the service may name another

  // Identifies everything below the URL, for caches; may hold secrets.
  std::string identity() const { return dialect != nullptr ? dialect->place(prefix).to_string() : base.to_string(); }
  // Safe to print.
  std::string url() const;
};

// `location`: the text after "scheme://".
Result<RemoteService> find_s3_service(std::string_view location, std::span<const StorageOption> options);
Result<RemoteService> find_google_service(std::string_view location, std::span<const StorageOption> options);
Result<RemoteService> find_azure_service(std::string_view location, const char* scheme,
                                         std::span<const StorageOption> options);
// `url`: the whole URL.
Result<RemoteService> find_web_service(const std::string& url, std::span<const StorageOption> options);

// Dispatches on the URL's scheme: http, https, s3, gs, gcs, az, abfs, abfss. kUnsupported for others.
Result<RemoteService> find_remote_service(std::string_view url, std::span<const StorageOption> options);

// For a cloud service. Waits for credentials, as the other make_bucket_store().
Result<std::shared_ptr<ByteStore>> make_bucket_store(RemoteService service);

// A printable form of a URL that may be invalid: user names, passwords and queries are removed.
std::string shown_url(std::string_view url);

}  // namespace headrace::http
