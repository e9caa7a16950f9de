// BucketStore: objects below a prefix of a bucket (AWS and Google) or container (Azure), as a ByteStore. What differs
// between services is a BucketDialect. The store also implements base::ReadShaper.
//
// Threads: a dialect is called from several threads.
// Owns:    its dialect, the credentials, and the thread that refreshes them.
// Fails:   opening waits for credentials, and fails with the reason why there are none.
#pragma once

#include <headrace/byte_store.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/credentials.h"
#include "http/range_client.h"
#include "http/xml_reader.h"

namespace headrace::http {

class BucketDialect {
 public:
  virtual ~BucketDialect() = default;
  virtual std::string url() const = 0;  // the bucket's: "s3://bucket"
  virtual ServiceKind kind() const noexcept = 0;
  virtual Url place(std::string_view key) const = 0;  // "": the bucket itself
  // Adds the query that lists one page of the names directly below `prefix`; `token`: from the page before, or empty.
  virtual void fetch_page(Url& url, std::string_view prefix, std::string_view token) const = 0;
  virtual bool parse_page(std::string_view text, ObjectPage& page) const = 0;
  // Adds the headers that authenticate the request; `now`: seconds since 1970, by the server's clock.
  virtual void authorize(const Url& url, std::int64_t now, const Credentials& who,
                         std::vector<std::string>& headers) = 0;
  virtual void learn_region(std::string_view) {}
  virtual bool has_suffix_ranges() const noexcept { return true; }
};

// `obtain` null: requests are anonymous. Setting `stop` cancels the fetches that `obtain` makes.
Result<std::shared_ptr<ByteStore>> make_bucket_store(std::unique_ptr<BucketDialect> dialect, std::string prefix,
                                                     const ClientOptions& options, ObtainCredentials obtain,
                                                     std::shared_ptr<std::atomic<bool>> stop);

// "bucket/some/prefix", split. Errors are kInvalidArgument with the scheme in the message.
struct BucketLocation {
  std::string bucket, prefix;
};
Result<BucketLocation> parse_bucket_location(std::string_view location, const char* scheme);

}  // namespace headrace::http
