#include "http/bucket_store.h"

#include <time.h>

#include <new>
#include <set>

#include "base/fork.h"
#include "http/credential_keeper.h"

namespace headrace::http {
namespace {

constexpr std::uint64_t kMaxPageBytes = 16 << 20;  // 5,000 names of 1,024 bytes, each escaped threefold
constexpr std::size_t kMaxNames = 10'000'000;

class BucketStore final : public ByteStore, public base::ReadShaper, private RangeService {
 public:
  BucketStore(std::unique_ptr<BucketDialect> dialect, std::string prefix, const ClientOptions& options,
              std::unique_ptr<Transport> transport, Credentials first, ObtainCredentials obtain,
              std::shared_ptr<std::atomic<bool>> stop)
      : dialect_(std::move(dialect)),
        prefix_(std::move(prefix)),
        client_(*this, options, std::move(transport)),
        keeper_(std::move(first), std::move(obtain), std::move(stop),
                [this](const Status& status) { client_.resume(status); }) {}

  std::string url() const override { return dialect_->url() + (prefix_.empty() ? "" : "/" + prefix_); }
  Status start(std::span<RangeRead* const> reads) override { return client_.start(reads); }
  void cancel(std::span<RangeRead* const> reads) noexcept override { client_.cancel(reads); }
  base::ReadShape read_shape(bool steady) const noexcept override { return client_.read_shape(steady); }

  Result<std::vector<ListedName>> list(std::string_view prefix) override {
    std::string below = prefix_;
    if (!prefix.empty()) below += (below.empty() ? "" : "/") + std::string(prefix);
    if (!below.empty()) below += '/';
    std::vector<ListedName> names;
    std::set<std::string> tokens;
    bool any = false;
    for (std::string token;;) {
      const auto place = [&] {
        Url url = dialect_->place("");
        dialect_->fetch_page(url, below, token);
        return url;
      };
      HEADRACE_TRY_ASSIGN(const std::string text, client_.get_whole(place, kMaxPageBytes));
      ObjectPage page;
      if (!dialect_->parse_page(text, page)) return wrong("the store's listing cannot be parsed");
      for (ObjectPage::Name& name : page.names) {
        if (!name.key.starts_with(below))
          return wrong("the store's listing contains a name outside the requested prefix");
        any = true;
        name.key.erase(0, below.size());
        if (name.is_prefix && name.key.ends_with('/')) name.key.pop_back();
        if (name.key.empty()) continue;  // a marker object of the directory itself
        names.push_back({std::move(name.key), name.is_prefix});
        if (names.size() > kMaxNames) return wrong("the store lists too many names");
      }
      if (!page.truncated) break;
      if (page.next_token.empty() || !tokens.insert(page.next_token).second) {
        return wrong("the store's listing is truncated but has no continuation");
      }
      token = std::move(page.next_token);
    }
    if (!any && !prefix.empty()) return Status(Code::kNotFound, Layer::kStore, "no such directory");
    return names;
  }

 private:
  static Status wrong(const char* what) { return Status(Code::kIo, Layer::kStore, what); }

  ServiceKind kind() const noexcept override { return dialect_->kind(); }
  bool has_suffix_ranges() const noexcept override { return dialect_->has_suffix_ranges(); }
  Url place(std::string_view key) const override {
    return dialect_->place(prefix_.empty() ? std::string(key) : prefix_ + "/" + std::string(key));
  }
  Result<bool> prepared() override { return keeper_->ready(static_cast<std::int64_t>(::time(nullptr))); }
  std::uint64_t authorize(const Url& url, std::int64_t now, std::vector<std::string>& headers) override {
    const CredentialKeeper::Held held = keeper_->take();
    dialect_->authorize(url, now, *held.credentials, headers);
    return held.generation;
  }
  bool renew(std::uint64_t generation) override { return keeper_->renew(generation); }
  void learn_region(std::string_view region) override { dialect_->learn_region(region); }

  const std::unique_ptr<BucketDialect> dialect_;
  const std::string prefix_;
  RangeClient client_;
  base::ProcessOwn<CredentialKeeper> keeper_;  // last member: destroyed first, so it cannot resume client_ later
};

}  // namespace

Result<std::shared_ptr<ByteStore>> make_bucket_store(std::unique_ptr<BucketDialect> dialect, std::string prefix,
                                                     const ClientOptions& options, ObtainCredentials obtain,
                                                     std::shared_ptr<std::atomic<bool>> stop) {
  try {
    Credentials first;
    if (obtain) {
      HEADRACE_TRY_ASSIGN(first, obtain());
    }
    HEADRACE_TRY_ASSIGN(auto transport, make_transport(options.transport));
    return std::shared_ptr<ByteStore>(std::make_shared<BucketStore>(std::move(dialect), std::move(prefix), options,
                                                                    std::move(transport), std::move(first),
                                                                    std::move(obtain), std::move(stop)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<BucketLocation> parse_bucket_location(std::string_view location, const char* scheme) {
  const std::size_t slash = location.find('/');
  BucketLocation found{std::string(location.substr(0, slash)),
                       std::string(slash == std::string_view::npos ? std::string_view() : location.substr(slash + 1))};
  while (found.prefix.ends_with('/')) found.prefix.pop_back();
  // A query suggests a signature or options, which would appear in messages as part of a name.
  if (location.find('?') != std::string_view::npos) {
    return Status(Code::kInvalidArgument, Layer::kStore,
                  std::string(scheme) + "://bucket/prefix takes no query: give storage options");
  }
  return found;
}

}  // namespace headrace::http
