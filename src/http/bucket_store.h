// BucketStore: objects below a prefix of a bucket (AWS and Google) or container (Azure), as a ByteStore. What services
// do each in their own way is a BucketDialect.
//
// Threads: a dialect's calls come from several threads.
// It is a base::ReadShaper as well.
// Owns:    its dialect, who asks, and the thread that finds that out anew.
// Fails:   opening waits for credentials, and fails with why there are none.
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
  virtual std::string url() const = 0;  // of the bucket: "s3://bucket"
  virtual ServiceKind kind() const noexcept = 0;
  virtual Url place(std::string_view key) const = 0;  // "": of the bucket itself
  // The query that asks for one page of the names directly below `prefix`; `token`: of the page before, or empty.
  virtual void ask_page(Url& url, std::string_view prefix, std::string_view token) const = 0;
  virtual bool parse_page(std::string_view text, ObjectPage& page) const = 0;
  // Adds to the header lines what tells who asks; `now`: seconds since 1970, by the server's clock.
  virtual void authorize(const Url& url, std::int64_t now, const Credentials& who,
                         std::vector<std::string>& headers) = 0;
  virtual void learn_region(std::string_view) {}
  virtual bool has_suffix_ranges() const noexcept { return true; }
};

// `obtain` null: nobody. Its fetches end when `stop` is set.
Result<std::shared_ptr<ByteStore>> make_bucket_store(std::unique_ptr<BucketDialect> dialect, std::string prefix,
                                                     const ClientOptions& options, ObtainCredentials obtain,
                                                     std::shared_ptr<std::atomic<bool>> stop);

// "bucket/some/prefix", taken apart. kInvalidArgument, with the scheme in its message.
struct BucketLocation {
  std::string bucket, prefix;
};
Result<BucketLocation> parse_bucket_location(std::string_view location, const char* scheme);

}  // namespace headrace::http
