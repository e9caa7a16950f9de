#include "http/service_probe.h"

#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>

#include "base/clock.h"

namespace headrace::http {
namespace {

constexpr std::size_t kMaxProbedErrorBytes = 16 << 10;
constexpr std::size_t kMaxProbedPageBytes = 4 << 20;  // 1,000 names of 1,024 bytes, escaped
constexpr std::uint32_t kMaxProbedRedirects = 5;

double seconds_of(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

class ProbedExchange final : public Exchange {
 public:
  ProbedExchange(const Url& at, std::vector<std::string> lines, std::uint64_t time_ns, std::size_t max_bytes,
                 std::size_t keep)
      : max_bytes_(max_bytes), keep_(keep) {
    url = at.to_string();
    headers = std::move(lines);
    headers.push_back("Accept-Encoding: identity");
    total_ns = time_ns;
    facts = &answer_.facts;
    started_ = base::now_ns();
  }
  virtual ~ProbedExchange() = default;

  bool on_line(std::string_view line) noexcept override {
    try {
      if (answer_.first_byte_seconds == 0) answer_.first_byte_seconds = seconds_of(base::now_ns() - started_);
      if (line.starts_with("HTTP/"))
        answer_.http_version = line.substr(5, std::min<std::size_t>(line.find(' '), 8) - 5);
      if (!answer_.head.is_complete()) answer_.head.line(line);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  bool on_body(std::span<const std::byte> bytes) noexcept override {
    try {
      const std::size_t room = keep_ - std::min(keep_, answer_.body.size());
      answer_.body.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
      answer_.body_bytes += bytes.size();
      return answer_.body_bytes <= max_bytes_;  // a server without range support sends the whole object
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  void on_end(ExchangeEnd how, std::string_view detail) noexcept override {
    std::lock_guard lock(mutex_);
    answer_.end = how;
    answer_.seconds = seconds_of(base::now_ns() - started_);
    try {
      detail_ = detail;
    } catch (const std::bad_alloc&) {
      detail_.clear();
    }
    done_ = true;
    done_signal_.notify_one();
  }

  ServiceAnswer wait() {
    std::unique_lock lock(mutex_);
    done_signal_.wait(lock, [&] { return done_; });
    answer_.http_status = answer_.head.status;
    if (!answer_.head.is_complete()) answer_.status = status_of(answer_.end, detail_);
    return std::move(answer_);
  }

 private:
  const std::size_t max_bytes_, keep_;
  std::uint64_t started_ = 0;
  ServiceAnswer answer_;
  std::string detail_;
  std::mutex mutex_;
  std::condition_variable done_signal_;
  bool done_ = false;  // guarded by mutex_
};

class Probe final : public ServiceProbe {
 public:
  Probe(RemoteService service, Credentials credentials, std::unique_ptr<Transport> transport, std::uint64_t total_ns)
      : service_(std::move(service)),
        credentials_(std::move(credentials)),
        total_ns_(total_ns),
        transport_(std::move(transport)) {}

  ServiceAnswer probe_range(std::string_view key, const RequestedRange& requested, std::size_t keep) override {
    std::vector<std::string> lines;
    std::string range = "Range: bytes=";
    if (!requested.from_end) range += std::to_string(requested.first);
    range += "-" + std::to_string(requested.from_end ? requested.count : requested.first + requested.count - 1);
    lines.push_back(std::move(range));
    if (!requested.etag.empty()) lines.push_back("If-Match: " + std::string(requested.etag));
    ServiceAnswer answer = ask([&] { return place(key); }, lines, requested,
                               std::max<std::uint64_t>(requested.count, 1 << 16), std::max(keep, kMaxProbedErrorBytes));
    if (answer.http_status != 200 && answer.http_status != 206) return answer;
    if (answer.end != ExchangeEnd::kComplete && answer.end != ExchangeEnd::kStopped) {
      answer.status = status_of(answer.end, {});
      return answer;
    }
    const auto plan = plan_body(answer.head, requested);
    if (!plan.ok()) {
      answer.status = plan.status();
      return answer;
    }
    answer.object_bytes = plan->object_bytes;
    if (plan->exact && answer.body_bytes != plan->bytes) {
      answer.status = Status(Code::kShort, Layer::kStore, "the response's length differs from what it announced");
    }
    return answer;
  }

  ServiceAnswer probe_names(std::string_view prefix, ObjectPage& page) override {
    ServiceAnswer answer;
    if (service_.dialect == nullptr) {
      answer.status = Status(Code::kUnsupported, Layer::kStore, "a web server does not list its objects");
      return answer;
    }
    std::string below = service_.prefix;
    if (!prefix.empty()) below += (below.empty() ? "" : "/") + std::string(prefix);
    if (!below.empty()) below += '/';
    const auto at = [&] {
      Url url = service_.dialect->place("");
      service_.dialect->fetch_page(url, below, "");
      return url;
    };
    answer = ask(at, {}, {}, kMaxProbedPageBytes, kMaxProbedPageBytes);
    if (answer.http_status != 200) {
      if (answer.status.ok()) answer.status = wrong("the store sent an unexpected response to a listing");
      return answer;
    }
    answer.status = {};
    if (answer.end != ExchangeEnd::kComplete) {
      answer.status =
          answer.end == ExchangeEnd::kStopped ? wrong("the store's listing is too long") : status_of(answer.end, {});
    } else if (!service_.dialect->parse_page(answer.body, page)) {
      answer.status = wrong("the store's listing cannot be parsed");
    }
    if (!answer.status.ok()) page = {};
    for (ObjectPage::Name& name : page.names) {
      if (!name.key.starts_with(below)) {
        answer.status = wrong("the store's listing contains a name outside the requested prefix");
        page = {};
        break;
      }
      name.key.erase(0, below.size());
      if (name.is_prefix && name.key.ends_with('/')) name.key.pop_back();
    }
    return answer;
  }

  const RemoteService& service() const noexcept override { return service_; }
  const Credentials& credentials() const noexcept override { return credentials_; }
  std::string origin() const override { return place("").origin(); }
  std::string learnt_region() const override { return learnt_region_; }

 private:
  static Status wrong(const char* what) { return Status(Code::kIo, Layer::kStore, what); }

  Url place(std::string_view key) const {
    if (service_.dialect != nullptr) {
      std::string whole = service_.prefix;
      if (!key.empty()) whole += (whole.empty() ? "" : "/") + std::string(key);
      return service_.dialect->place(whole);
    }
    Url url = service_.base;
    if (!key.empty()) {
      url.path += '/';
      append_escaped(url.path, key, true);
    }
    if (url.path.empty()) url.path = "/";
    return url;
  }

  template <class Place>
  ServiceAnswer ask(const Place& where, const std::vector<std::string>& lines, const RequestedRange& requested,
                    std::size_t max_bytes, std::size_t keep) {
    const std::uint64_t until = base::now_ns() + total_ns_;
    Url home = where(), at = home;
    bool region_learned = false, clock_corrected = false;
    for (std::uint32_t redirects = 0;;) {
      const std::uint64_t now = base::now_ns();
      std::vector<std::string> headers = lines;
      if (at.origin() == home.origin()) authorize(at, headers);
      ProbedExchange exchange(at, std::move(headers), until > now ? until - now : 1, max_bytes, keep);
      Exchange* const one[] = {&exchange};
      ServiceAnswer answer;
      answer.status = transport_->start(one);
      if (!answer.status.ok()) return answer;
      answer = exchange.wait();
      answer.redirects = redirects;
      if (const auto date = parse_http_date(answer.head.date)) {
        answer.clock_ahead_seconds = static_cast<double>(*date - static_cast<std::int64_t>(::time(nullptr)));
      }
      if (!answer.head.is_complete() || answer.http_status == 200 || answer.http_status == 206) return answer;
      const ServiceKind kind = service_.dialect != nullptr ? service_.dialect->kind() : ServiceKind::kHttp;
      Verdict verdict =
          judge(answer.head, requested, kind, std::string_view(answer.body).substr(0, kMaxProbedErrorBytes));
      answer.status = verdict.status;
      answer.next = verdict.next;
      answer.object_bytes = verdict.object_bytes;
      if (kind != ServiceKind::kHttp) answer.store_code = parse_s3_error(answer.body).code;
      switch (verdict.next) {
        case Verdict::Next::kRedirect: {
          if (++redirects > kMaxProbedRedirects) {
            answer.status = wrong("the server redirects too often");
            return answer;
          }
          auto next = resolve_redirect(at, answer.head.location);
          if (!next.ok()) {
            answer.status = std::move(next).status();
            return answer;
          }
          at = *std::move(next);
          continue;
        }
        case Verdict::Next::kRegion:
          if (region_learned || service_.dialect == nullptr) return answer;
          region_learned = true;
          learnt_region_ = verdict.region;
          service_.dialect->learn_region(verdict.region);
          home = at = where();
          continue;
        case Verdict::Next::kClock: {
          const auto date = parse_http_date(answer.head.date);
          if (clock_corrected || !date) return answer;
          clock_corrected = true;
          clock_ahead_ = *date - static_cast<std::int64_t>(::time(nullptr));
          continue;
        }
        default:
          return answer;
      }
    }
  }

  void authorize(const Url& at, std::vector<std::string>& headers) {
    if (service_.dialect == nullptr) {
      headers.insert(headers.end(), service_.headers.begin(), service_.headers.end());
    } else {
      service_.dialect->authorize(at, static_cast<std::int64_t>(::time(nullptr)) + clock_ahead_, credentials_, headers);
    }
  }

  RemoteService service_;
  const Credentials credentials_;
  const std::uint64_t total_ns_;
  std::int64_t clock_ahead_ = 0;
  std::string learnt_region_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace

Result<std::unique_ptr<ServiceProbe>> ServiceProbe::make(RemoteService service, std::uint64_t total_ns) {
  Credentials credentials;
  if (service.obtain) {
    HEADRACE_TRY_ASSIGN(credentials, service.obtain());
  } else {
    credentials.source = service.source;
  }
  TransportOptions options = service.client.transport;
  options.connections = 1;
  options.connect_ns = std::min(options.connect_ns, total_ns);
  options.idle_ns = std::min(options.idle_ns, total_ns);
  HEADRACE_TRY_ASSIGN(auto transport, make_transport(options));
  return std::unique_ptr<ServiceProbe>(
      std::make_unique<Probe>(std::move(service), std::move(credentials), std::move(transport), total_ns));
}

}  // namespace headrace::http
