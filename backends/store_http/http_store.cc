// "http://host/path" and "https://...": objects of an HTTP server below a path. The URL's query (a signed token) is
// appended to each request's URL, and never shown in messages.
//
// Such servers have no reliable listings, so hierarchies need consolidated metadata; arrays need nothing.
#include <memory>
#include <new>
#include <string>

#include "base/fork.h"
#include "http/range_client.h"
#include "http/remote_service.h"
#include "store/range_store.h"

namespace headrace::store {
namespace {

class HttpObjects final : public ByteStore, public base::ReadShaper, private http::RangeService {
 public:
  HttpObjects(http::Url base, std::vector<std::string> headers, const http::ClientOptions& options,
              std::unique_ptr<http::Transport> transport)
      : base_(std::move(base)), headers_(std::move(headers)), client_(*this, options, std::move(transport)) {}

  std::string url() const override { return base_.without_secrets(); }
  Status start(std::span<RangeRead* const> reads) override { return client_.start(reads); }
  void cancel(std::span<RangeRead* const> reads) noexcept override { client_.cancel(reads); }
  base::ReadShape read_shape(bool steady) const noexcept override { return client_.read_shape(steady); }
  Result<std::vector<ListedName>> list(std::string_view) override {
    return Status(Code::kUnsupported, Layer::kStore, "an HTTP server does not list its objects")
        .with_cause("arrays are opened by their path; groups need consolidated metadata");
  }

 private:
  http::ServiceKind kind() const noexcept override { return http::ServiceKind::kHttp; }
  http::Url place(std::string_view key) const override {
    http::Url url = base_;
    url.path += '/';
    http::append_escaped(url.path, key, true);
    return url;
  }
  std::uint64_t authorize(const http::Url&, std::int64_t, std::vector<std::string>& headers) override {
    headers.insert(headers.end(), headers_.begin(), headers_.end());
    return 0;
  }
  void learn_region(std::string_view) override {}

  http::Url base_;
  const std::vector<std::string> headers_;  // may hold secrets
  http::RangeClient client_;
};

Result<std::shared_ptr<Store>> open(const std::string& text, const StoreOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(http::RemoteService service, http::find_web_service(text, options.storage));
    HEADRACE_TRY_ASSIGN(auto transport, http::make_transport(service.client.transport));
    const std::string identity = service.identity();
    return make_remote_store(std::make_shared<HttpObjects>(std::move(service.base), std::move(service.headers),
                                                           service.client, std::move(transport)),
                             identity, options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace

Result<std::shared_ptr<Store>> open_http_store(std::string_view location, const StoreOptions& options) {
  return open("http://" + std::string(location), options);
}

Result<std::shared_ptr<Store>> open_https_store(std::string_view location, const StoreOptions& options) {
  return open("https://" + std::string(location), options);
}

}  // namespace headrace::store
