#include "system/remote_probe.h"

#include <time.h>

#include <algorithm>
#include <new>

#include "base/clock.h"
#include "base/json.h"
#include "store/store.h"

namespace headrace::system {
namespace {

using http::ExchangeEnd;
using http::RequestedRange;
using http::ServiceAnswer;
using http::ServiceKind;

constexpr std::uint64_t kRequestNs = 20'000'000'000;  // per request: `headrace doctor` waits for it
constexpr std::size_t kMaxDocumentBytes = std::size_t{8} << 20;
constexpr std::size_t kMaxPages = 24, kMaxSamples = 12, kMaxDepth = 8;
constexpr std::uint32_t kLatencyRequests = 12;
constexpr double kSkewSeconds = 300;
constexpr const char* kNoSuchVersion = "\"headrace-no-such-version\"";

bool is_document(std::string_view key) {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  for (const char* document : {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}) {
    if (name == document) return true;
  }
  return false;
}

bool connected(const ServiceAnswer& answer) { return answer.http_status != 0; }

class RemoteExamination {
 public:
  RemoteExamination(const std::string& url, const RemoteProbeOptions& options) : url_(url), options_(options) {
    report_.url = http::shown_url(url);
  }

  RemoteReport run() {
    examine();
    judge_remote(report_);
    return std::move(report_);
  }

 private:
  void fail(RemoteProblem problem, Status status) {
    report_.problem = problem;
    report_.status = std::move(status);
  }

  void examine() {
    auto service = http::find_remote_service(url_, options_.storage);
    if (!service.ok()) {
      const bool nobody = service.status().code() == Code::kPermission;
      return fail(nobody ? RemoteProblem::kNoCredentials : RemoteProblem::kUrl, std::move(service).status());
    }
    report_.url = service->url();
    report_.region = service->region;
    connections_ = service->client.transport.connections;
    const ServiceKind kind = service->dialect ? service->dialect->kind() : ServiceKind::kHttp;
    report_.service = kind == ServiceKind::kHttp ? "http" : kind == ServiceKind::kS3 ? "s3" : "azure";
    if (!service->prefix.empty()) {
      if (Status bad = store::check_key(service->prefix); !bad.ok()) return fail(RemoteProblem::kUrl, std::move(bad));
    }
    const std::uint64_t begun = base::now_ns();
    auto probe = http::ServiceProbe::make(std::move(service).value(), kRequestNs);
    if (!probe.ok()) {
      // Limitations of this build are not a problem of the credentials.
      const bool build =
          probe.status().code() == Code::kUnsupported || probe.status().code() == Code::kResourceExhausted;
      return fail(build ? RemoteProblem::kOther : RemoteProblem::kNoCredentials, std::move(probe).status());
    }
    probe_ = std::move(probe).value();
    report_.credentials = probe_->credentials().source;
    if (probe_->service().obtain) {
      report_.credentials_seconds = static_cast<double>(base::now_ns() - begun) * 1e-9;
    }
    if (probe_->credentials().expires != http::Credentials::kNever) {
      report_.credentials_expire_seconds =
          static_cast<double>(probe_->credentials().expires - static_cast<std::int64_t>(::time(nullptr)));
    }
    report_.origin = probe_->origin();
    if (!find_sample()) return;
    if (!try_requests()) return;
    if (denied_ && report_.lists != false) {
      report_.warnings.push_back("some requests were denied: " + denied_->message());
    }
    if (options_.measure) measure();
  }

  // Facts from the first answer received.
  void note(const ServiceAnswer& answer) {
    if (noted_ || !connected(answer)) return;
    noted_ = true;
    const http::ConnectionFacts& facts = answer.facts;
    const auto is_word = [](std::string_view text) {
      return text.size() < 12 && std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'z') || c == '.';
             });
    };
    if (is_word(answer.http_version)) report_.http_version = answer.http_version;
    report_.tls_version = facts.tls_version;
    report_.redirects = answer.redirects;
    if (facts.is_new && answer.redirects == 0) {
      report_.name_seconds = facts.name_seconds;
      report_.connect_seconds = std::max(0.0, facts.connect_seconds - facts.name_seconds);
      if (facts.tls_seconds > 0) report_.tls_seconds = std::max(0.0, facts.tls_seconds - facts.connect_seconds);
    }
    report_.clock_ahead_seconds = answer.clock_ahead_seconds;
  }

  ServiceAnswer ask(std::string_view key, const RequestedRange& asked, std::size_t keep = 0) {
    ServiceAnswer answer = probe_->probe_range(key, asked, keep);
    note(answer);
    if (!probe_->learnt_region().empty()) {
      report_.region = probe_->learnt_region();
      report_.region_was_wrong = true;
    }
    return answer;
  }

  // Returns false if no further request makes sense.
  bool is_usable(const ServiceAnswer& answer) {
    const bool absent = answer.status.code() == Code::kNotFound;
    if (answer.status.ok() || absent) return true;
    if (answer.status.code() == Code::kUnsupported) {
      if (!unsupported_) unsupported_ = answer.status;
      return true;
    }
    const RemoteProblem problem = problem_of(answer);
    // An unreadable key, or a bucket that may not be listed, says nothing about other requests.
    if (problem == RemoteProblem::kDenied) {
      if (!denied_) denied_ = answer.status;
      return true;
    }
    fail(problem, answer.status);
    return false;
  }

  void take_sample(std::string_view key, const ServiceAnswer& answer) {
    if (!answer.status.ok() || answer.object_bytes == RangeRead::kUnknown || answer.object_bytes == 0) {
      if (answer.status.ok() && !any_) any_ = std::string(key);
      return;
    }
    samples_.push_back({std::string(key), answer.object_bytes});
  }

  // Tries documents at the URL, the object the URL names, listings, and chunks that the documents describe.
  bool find_sample() {
    constexpr std::uint64_t kSome = 1 << 16;
    std::vector<std::string> chunks;
    for (const char* name : {"zarr.json", ".zmetadata", ".zarray", ".zgroup"}) {
      ServiceAnswer answer = ask(name, {0, kSome, false, {}}, kMaxDocumentBytes);
      if (answer.status.ok() && answer.object_bytes != RangeRead::kUnknown && answer.object_bytes > kSome &&
          answer.object_bytes <= kMaxDocumentBytes) {
        answer = ask(name, {0, answer.object_bytes, false, {}}, kMaxDocumentBytes);
      }
      if (!is_usable(answer)) return false;
      if (!answer.status.ok()) continue;
      const std::size_t first = answer.body.find_first_not_of(" \t\r\n");
      if (first == std::string::npos || answer.body[first] != '{') {
        no_document_ = name;
        continue;
      }
      take_sample(name, answer);
      for (std::string& chunk : first_chunks(name, answer.body)) {
        if (chunks.size() < kMaxSamples) chunks.push_back(std::move(chunk));
      }
      if (!chunks.empty()) break;
    }
    const bool may_be_object = samples_.empty() && no_document_ == nullptr;
    if (may_be_object && (report_.service == "http" || !probe_->service().prefix.empty())) {
      const ServiceAnswer answer = ask("", {0, 1, false, {}});
      if (!is_usable(answer)) return false;
      if (answer.http_status == 200 || answer.http_status == 206) take_sample("", answer);
    }
    if (!list(chunks)) return false;
    for (const std::string& key : chunks) {
      if (samples_.size() >= kMaxSamples) break;
      const ServiceAnswer answer = ask(key, {0, 1, false, {}});
      if (!is_usable(answer)) return false;
      take_sample(key, answer);
    }
    if (samples_.empty() && !any_) {
      if (denied_) {
        fail(RemoteProblem::kDenied, *denied_);
      } else if (unsupported_) {
        fail(RemoteProblem::kOther, *unsupported_);
      } else if (no_document_ != nullptr) {
        fail(RemoteProblem::kOther,
             Status(Code::kIo, Layer::kStore, "the server's answer is not a Zarr document").with_key(no_document_));
      } else {
        fail(RemoteProblem::kNothingThere, Status(Code::kNotFound, Layer::kStore, "no object at or below the URL"));
      }
      return false;
    }
    // Small documents are poor samples.
    std::stable_sort(samples_.begin(), samples_.end(),
                     [](const RemoteObject& a, const RemoteObject& b) { return a.bytes > b.bytes; });
    report_.sample = samples_.empty() ? *any_ : samples_[0].key;
    if (!samples_.empty()) report_.sample_bytes = samples_[0].bytes;
    return true;
  }

  // Descends into the first folders until it has found some objects that are not documents.
  bool list(std::vector<std::string>& chunks) {
    if (report_.service == "http") return true;
    std::vector<std::string> folders = {""};
    for (std::size_t page_count = 0; page_count < kMaxPages && !folders.empty(); ++page_count) {
      const std::string folder = std::move(folders.back());
      folders.pop_back();
      http::ObjectPage page;
      const ServiceAnswer answer = probe_->probe_names(folder, page);
      note(answer);
      if (page_count == 0) report_.lists = answer.status.ok();
      if (!answer.status.ok()) {
        if (page_count == 0 && !answer.status.ok() && samples_.empty()) return is_usable(answer);
        return true;
      }
      std::size_t taken = 0;
      for (auto name = page.names.rbegin(); name != page.names.rend(); ++name) {
        if (name->key.empty() || !store::valid_key(name->key)) continue;
        std::string key = (folder.empty() ? "" : folder + "/") + name->key;
        if (name->is_prefix) {
          if (static_cast<std::size_t>(std::count(key.begin(), key.end(), '/')) < kMaxDepth) {
            folders.push_back(std::move(key));
          }
        } else if (!is_document(key) && taken < 3 && chunks.size() < 2 * kMaxSamples) {
          chunks.push_back(std::move(key));
          ++taken;
        }
      }
    }
    return true;
  }

  bool try_requests() {
    const std::string& key = report_.sample;
    const std::uint64_t bytes = report_.sample_bytes.value_or(0);
    const bool two = bytes >= 2;
    const ServiceAnswer first = ask(key, {two ? 1u : 0u, 1, false, {}});
    if (!is_usable(first)) return false;
    const bool part = first.status.ok() && (first.http_status == 206 || !first.head.content_range.empty());
    // A one-byte object returned whole is indistinguishable from a part.
    report_.ranges = part || (first.status.ok() && first.object_bytes <= 1);
    const std::string etag(http::strong_etag(first.head.etag));
    report_.tells_version = !etag.empty();
    if (!*report_.ranges) {
      Status status = first.status.ok()
                          ? Status(Code::kUnsupported, Layer::kStore, "the server does not support range requests")
                          : first.status;
      fail(RemoteProblem::kNoRanges, std::move(status));
      return false;
    }
    const bool requests_suffix = !probe_->service().dialect || probe_->service().dialect->has_suffix_ranges();
    if (requests_suffix && two) {
      const ServiceAnswer end = ask(key, {0, 1, true, {}});
      report_.suffix_ranges = end.status.ok() && end.http_status != 0 && !end.head.content_range.empty();
    } else if (!requests_suffix) {
      report_.suffix_ranges = false;
    }
    if (!etag.empty()) {
      const ServiceAnswer same = ask(key, {0, 1, false, etag});
      const ServiceAnswer other = ask(key, {0, 1, false, kNoSuchVersion});
      report_.if_match = same.status.ok() && other.http_status == 412;
    }
    return true;
  }

  void measure() {
    std::vector<double> times;
    for (std::uint32_t i = 0; i < kLatencyRequests; ++i) {
      const ServiceAnswer answer = ask(report_.sample, {0, 1, false, {}});
      if (!answer.status.ok()) break;
      const double made = std::max(answer.facts.connect_seconds, answer.facts.tls_seconds);
      times.push_back(answer.facts.is_new ? std::max(0.0, answer.first_byte_seconds - made)
                                          : answer.first_byte_seconds);
      report_.keeps_connections = report_.keeps_connections.value_or(false) || !answer.facts.is_new;
    }
    if (!times.empty()) {
      std::sort(times.begin(), times.end());
      report_.latency_requests = static_cast<std::uint32_t>(times.size());
      report_.first_byte_min_seconds = times.front();
      report_.first_byte_median_seconds = times[times.size() / 2];
    }
    if (samples_.empty()) return;
    // Only the largest objects: much smaller ones would give different rates.
    std::vector<RemoteObject> objects;
    for (const RemoteObject& object : samples_) {
      if (object.bytes >= samples_[0].bytes / 10) objects.push_back(object);
    }
    std::string store_url = url_;
    if (report_.sample.empty()) {
      auto place = split_object_url(url_);
      if (!place.ok()) return;
      store_url = place->store_url;
      objects = {{place->key, objects[0].bytes}};
    }
    const auto rates = measure_ranges(store_url, options_.storage, objects, connections_);
    if (!rates.ok()) {
      report_.warnings.push_back("rates could not be measured: " + rates.status().message() +
                                 (rates.status().cause().empty() ? "" : " (" + rates.status().cause() + ")"));
      return;
    }
    report_.connections = rates->connections;
    report_.range_bytes = rates->range_bytes;
    report_.measured_bytes = rates->bytes;
    if (rates->one > 0) report_.one_connection_bytes_per_second = rates->one;
    if (rates->all > 0) {
      report_.all_connections_bytes_per_second = rates->all;
      report_.cpu_seconds_per_gigabyte = rates->cpu_seconds_per_gigabyte;
    }
    find_bound(*rates, report_);
    if (rates->bytes == 0) report_.warnings.push_back("rates could not be measured: no range arrived in time");
    if (samples_[0].bytes < (1 << 20)) {
      report_.warnings.push_back("the largest object found has " + std::to_string(samples_[0].bytes) +
                                 " bytes, so the rates are for requests that small");
    }
  }

  const std::string url_;
  const RemoteProbeOptions& options_;
  RemoteReport report_;
  std::unique_ptr<http::ServiceProbe> probe_;
  std::uint32_t connections_ = 1;
  bool noted_ = false;
  std::optional<Status> denied_, unsupported_;  // the first of each
  const char* no_document_ = nullptr;           // a name that returned something other than a document
  std::vector<RemoteObject> samples_;
  std::optional<std::string> any_;  // an object that is empty or does not report its size
};

// "0/0/0" for three dimensions.
std::string zeros(std::size_t count, char separator) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : std::string(1, separator)) + "0";
  return text;
}

void add_v3(const base::Json& node, const std::string& path, std::vector<std::string>& out) {
  const auto shape = node.find("shape");
  if (node.value("node_type", "") != "array" || shape == node.end() || !shape->is_array()) return;
  const base::Json encoding = node.value("chunk_key_encoding", base::Json::object());
  if (!encoding.is_object()) return;
  const bool plain = encoding.value("name", "default") == "v2";
  const base::Json configuration = encoding.value("configuration", base::Json::object());
  std::string separator = plain ? "." : "/";
  if (configuration.is_object()) separator = configuration.value("separator", separator);
  if (separator != "." && separator != "/") return;
  std::string key = zeros(shape->size(), separator[0]);
  if (!plain) key = shape->empty() ? "c" : "c" + separator + key;
  if (plain && shape->empty()) key = "0";
  out.push_back(path + key);
}

void add_v2(const base::Json& node, const std::string& path, std::vector<std::string>& out) {
  const auto shape = node.find("shape");
  if (shape == node.end() || !shape->is_array()) return;
  const std::string separator = node.value("dimension_separator", ".");
  if (separator != "." && separator != "/") return;
  out.push_back(path + (shape->empty() ? "0" : zeros(shape->size(), separator[0])));
}

}  // namespace

std::vector<std::string> first_chunks(std::string_view name, std::string_view document) {
  std::vector<std::string> found;
  auto parsed = base::parse_json(document, {.max_bytes = kMaxDocumentBytes});
  if (!parsed.ok() || !parsed->is_object()) return found;
  // A field of the wrong type throws, and is treated as absent.
  const auto add = [&](const base::Json& node, const std::string& path, auto&& one) {
    if (found.size() >= kMaxSamples || !node.is_object()) return;
    try {
      one(node, path, found);
    } catch (const base::Json::exception&) {
      return;
    }
    if (!store::valid_key(found.empty() ? "x" : found.back())) found.pop_back();
  };
  if (name == ".zarray") {
    add(*parsed, "", add_v2);
  } else if (name == "zarr.json") {
    add(*parsed, "", add_v3);
    const auto all = parsed->find("consolidated_metadata");
    if (all == parsed->end() || !all->is_object()) return found;
    const auto nodes = all->find("metadata");
    if (nodes == all->end() || !nodes->is_object()) return found;
    for (const auto& [path, node] : nodes->items()) add(node, path + "/", add_v3);
  } else if (name == ".zmetadata") {
    const auto nodes = parsed->find("metadata");
    if (nodes == parsed->end() || !nodes->is_object()) return found;
    for (const auto& [path, node] : nodes->items()) {
      constexpr std::string_view kDocument = ".zarray";
      if (path.ends_with(kDocument)) add(node, path.substr(0, path.size() - kDocument.size()), add_v2);
    }
  }
  return found;
}

RemoteReport probe_remote(const std::string& url, const RemoteProbeOptions& options) {
  return RemoteExamination(url, options).run();
}

}  // namespace headrace::system
