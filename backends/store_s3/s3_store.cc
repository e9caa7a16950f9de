// "s3://bucket/prefix": objects of AWS S3, or of a server that speaks its protocol (AWS_ENDPOINT_URL).
#include <time.h>

#include <atomic>
#include <memory>
#include <new>
#include <set>
#include <string>

#include "http/aws_credentials.h"
#include "http/client_options.h"
#include "http/range_client.h"
#include "http/request_signer.h"
#include "http/s3_settings.h"
#include "http/xml_reader.h"
#include "store/range_store.h"

namespace headrace::store {
namespace {

constexpr std::uint64_t kMostPageBytes = 16 << 20;  // 1,000 names of 1,024 bytes, each escaped threefold, and more
constexpr std::size_t kMostNames = 10'000'000;

class BucketObjects final : public ByteStore, private http::RangeService {
 public:
  BucketObjects(http::S3Settings settings, http::AwsKeys keys, std::string bucket, std::string prefix,
                const http::ClientOptions& options, std::unique_ptr<http::Transport> transport)
      : settings_(std::move(settings)),
        bucket_(std::move(bucket)),
        prefix_(std::move(prefix)),
        keys_(std::move(keys)),
        signer_(settings_.region, settings_.requester_pays),
        client_(*this, options, std::move(transport)) {}

  std::string url() const override { return "s3://" + bucket_ + (prefix_.empty() ? "" : "/" + prefix_); }
  Status start(std::span<RangeRead* const> reads) override { return client_.start(reads); }
  void cancel(std::span<RangeRead* const> reads) noexcept override { client_.cancel(reads); }

  Result<std::vector<ListedName>> list(std::string_view prefix) override {
    std::string below = prefix_;
    if (!prefix.empty()) below += (below.empty() ? "" : "/") + std::string(prefix);
    if (!below.empty()) below += '/';
    std::vector<ListedName> names;
    std::set<std::string> tokens;
    bool any = false;
    for (std::string token;;) {
      const auto place = [&] {
        http::Url url = http::place_in_bucket(settings_, signer_.region(), bucket_, "");
        // In the order in which it is signed.
        if (!token.empty()) {
          url.query = "continuation-token=";
          http::append_escaped(url.query, token, false);
          url.query += '&';
        }
        url.query += "delimiter=%2F&encoding-type=url&list-type=2&prefix=";
        http::append_escaped(url.query, below, false);
        return url;
      };
      HEADRACE_TRY_ASSIGN(const std::string text, client_.get_whole(place, kMostPageBytes));
      http::S3Page page;
      if (!http::parse_s3_page(text, page)) return wrong("the store's listing is not one of S3");
      for (http::S3Page::Name& name : page.names) {
        if (!name.key.starts_with(below)) return wrong("the store lists a name that was not asked for");
        any = true;
        name.key.erase(0, below.size());
        if (name.is_prefix && name.key.ends_with('/')) name.key.pop_back();
        // A marker of the directory itself; and what no key can be.
        if (name.key.empty() || !valid_key(name.key)) continue;
        names.push_back({std::move(name.key), name.is_prefix});
        if (names.size() > kMostNames) return wrong("the store lists too many names");
      }
      if (!page.truncated) break;
      if (page.next_token.empty() || !tokens.insert(page.next_token).second) {
        return wrong("the store's listing does not go on where it says that it does");
      }
      token = std::move(page.next_token);
    }
    if (!any && !prefix.empty()) return Status(Code::kNotFound, Layer::kStore, "no such directory");
    return names;
  }

 private:
  static Status wrong(const char* what) { return Status(Code::kIo, Layer::kStore, what); }

  http::ServiceKind kind() const noexcept override { return http::ServiceKind::kS3; }
  http::Url place(std::string_view key) const override {
    if (prefix_.empty()) return http::place_in_bucket(settings_, signer_.region(), bucket_, key);
    return http::place_in_bucket(settings_, signer_.region(), bucket_, prefix_ + "/" + std::string(key));
  }
  void authorize(const http::Url& url, std::int64_t now, std::vector<std::string>& headers) override {
    signer_.sign(url, now, keys_, headers);
  }
  void learn_region(std::string_view region) override { signer_.set_region(std::string(region)); }

  const http::S3Settings settings_;
  const std::string bucket_, prefix_;
  const http::AwsKeys keys_;
  http::RequestSigner signer_;
  http::RangeClient client_;
};

}  // namespace

Result<std::shared_ptr<Store>> open_s3_store(std::string_view location, const StoreOptions& options) {
  try {
    const std::size_t slash = location.find('/');
    std::string bucket(location.substr(0, slash));
    std::string prefix(slash == std::string_view::npos ? std::string_view() : location.substr(slash + 1));
    while (prefix.ends_with('/')) prefix.pop_back();
    if (!http::valid_bucket(bucket)) {
      return Status(Code::kInvalidArgument, Layer::kStore, "the name of the bucket in s3://bucket/prefix is not valid");
    }
    // Whoever writes one means a signature or options, which would stand in messages as part of a name.
    if (prefix.find('?') != std::string::npos) {
      return Status(Code::kInvalidArgument, Layer::kStore, "s3://bucket/prefix takes no query");
    }
    if (!prefix.empty()) HEADRACE_TRY(check_key(prefix));
    HEADRACE_TRY_ASSIGN(const auto given, http::StorageOptions::parse(options.storage, http::StorageService::kS3));
    const http::Surroundings surroundings = http::Surroundings::of_process();
    HEADRACE_TRY_ASSIGN(http::S3Settings settings, http::find_s3_settings(given, surroundings));
    HEADRACE_TRY_ASSIGN(const http::ClientOptions client, http::find_client_options(given));
    http::Credentials who;
    if (!settings.anonymous) {
      const auto fetch = http::make_fetch(client.transport, std::make_shared<std::atomic<bool>>(false));
      const auto now = static_cast<std::int64_t>(::time(nullptr));
      HEADRACE_TRY_ASSIGN(who, http::obtain_aws_credentials(given, surroundings, fetch, now));
    }
    HEADRACE_TRY_ASSIGN(auto transport, http::make_transport(client.transport));
    return std::shared_ptr<Store>(std::make_shared<RangeStore>(std::make_shared<BucketObjects>(
        std::move(settings), std::move(who.keys), std::move(bucket), std::move(prefix), client, std::move(transport))));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
