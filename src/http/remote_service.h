// RemoteService: a URL of a cloud or a web server, and what it takes to ask there: where objects are, who asks, within
// which limits. Stores are made of it, and whoever looks at a service without reading arrays.
//
// Threads: pure but for the environment and files of credentials, which are read. Asks nobody.
// Fails:   kInvalidArgument for URLs and options that are not valid, kPermission where nobody is found who could ask;
//          messages name options and variables, never what they hold.
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
  std::string prefix;                      // below the bucket; no key has been made of it yet
  Url base;                                // of a web server, without '/' at its end; its query may be a secret
  std::vector<std::string> headers;        // of a web server; may be secrets
  ClientOptions client;
  ObtainCredentials obtain;                 // null: nobody, or `source` says who
  std::shared_ptr<std::atomic<bool>> stop;  // ends what `obtain` has under way
  std::string source;  // of who asks, by name, where `obtain` is null: "nobody (AWS_NO_SIGN_REQUEST)"
  std::string region;  // of S3, as it was found; the service may say another

  // Of everything below it, for caches; may hold secrets.
  std::string identity() const { return dialect != nullptr ? dialect->place(prefix).to_string() : base.to_string(); }
  // Safe to print.
  std::string url() const;
};

// `location`: what follows "scheme://".
Result<RemoteService> find_s3_service(std::string_view location, std::span<const StorageOption> options);
Result<RemoteService> find_google_service(std::string_view location, std::span<const StorageOption> options);
Result<RemoteService> find_azure_service(std::string_view location, const char* scheme,
                                         std::span<const StorageOption> options);
// `url`: all of it.
Result<RemoteService> find_web_service(const std::string& url, std::span<const StorageOption> options);

// By the URL's scheme: http, https, s3, gs, gcs, az, abfs, abfss. kUnsupported for others.
Result<RemoteService> find_remote_service(std::string_view url, std::span<const StorageOption> options);

// Of a cloud's service. Waits for credentials, as make_bucket_store() of parts.
Result<std::shared_ptr<ByteStore>> make_bucket_store(RemoteService service);

// A URL that may not be valid, as it may be printed: without names, passwords and queries.
std::string shown_url(std::string_view url);

}  // namespace headrace::http
