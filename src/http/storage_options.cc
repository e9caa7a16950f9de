#include "http/storage_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/checked.h"

namespace headrace::http {
namespace {

enum class Kind : std::uint8_t { kText, kFlag, kSeconds, kCount, kBytes, kAge };

constexpr unsigned kH = 1, kS = 2, kG = 4, kA = 8, kAll = 15;
constexpr std::size_t kMaxOptionBytes = 32 << 10;

struct NameRow {  // NOLINT(clang-analyzer-optin.performance.Padding): fields in table order
  const char* name;
  StorageName means;
  unsigned services;
  Kind kind = Kind::kText;
};

// Messages suggest the first name of each meaning.
constexpr NameRow kNames[] = {
    {"anon", StorageName::kAnonymous, kS | kG | kA, Kind::kFlag},
    {"skip_signature", StorageName::kAnonymous, kS | kG | kA, Kind::kFlag},
    {"aws_skip_signature", StorageName::kAnonymous, kS, Kind::kFlag},
    {"google_skip_signature", StorageName::kAnonymous, kG, Kind::kFlag},
    {"azure_skip_signature", StorageName::kAnonymous, kA, Kind::kFlag},
    {"key", StorageName::kKeyId, kS | kG},
    {"access_key_id", StorageName::kKeyId, kS | kG},
    {"aws_access_key_id", StorageName::kKeyId, kS},
    {"client_kwargs.aws_access_key_id", StorageName::kKeyId, kS},
    {"secret", StorageName::kSecret, kS | kG},
    {"secret_access_key", StorageName::kSecret, kS | kG},
    {"aws_secret_access_key", StorageName::kSecret, kS},
    {"client_kwargs.aws_secret_access_key", StorageName::kSecret, kS},
    {"token", StorageName::kSessionToken, kS},
    {"session_token", StorageName::kSessionToken, kS},
    {"aws_token", StorageName::kSessionToken, kS},
    {"aws_session_token", StorageName::kSessionToken, kS},
    {"client_kwargs.aws_session_token", StorageName::kSessionToken, kS},
    {"token", StorageName::kBearer, kG},
    {"bearer_token", StorageName::kBearer, kG | kA},
    {"azure_storage_token", StorageName::kBearer, kA},
    {"token", StorageName::kBearer, kA},
    {"profile", StorageName::kProfile, kS},
    {"role_arn", StorageName::kRole, kS},
    {"aws_role_arn", StorageName::kRole, kS},
    {"role_session_name", StorageName::kRoleSession, kS},
    {"aws_role_session_name", StorageName::kRoleSession, kS},
    {"web_identity_token_file", StorageName::kWebIdentityFile, kS},
    {"aws_web_identity_token_file", StorageName::kWebIdentityFile, kS},
    {"endpoint_url_sts", StorageName::kStsEndpoint, kS},
    {"aws_endpoint_url_sts", StorageName::kStsEndpoint, kS},
    {"endpoint_url", StorageName::kEndpoint, kS | kG | kA},
    {"endpoint", StorageName::kEndpoint, kS | kG | kA},
    {"client_kwargs.endpoint_url", StorageName::kEndpoint, kS},
    {"aws_endpoint", StorageName::kEndpoint, kS},
    {"aws_endpoint_url", StorageName::kEndpoint, kS},
    {"aws_endpoint_url_s3", StorageName::kEndpoint, kS},
    {"base_url", StorageName::kEndpoint, kG},
    {"google_base_url", StorageName::kEndpoint, kG},
    {"azure_storage_endpoint", StorageName::kEndpoint, kA},
    {"azure_endpoint", StorageName::kEndpoint, kA},
    {"account_host", StorageName::kEndpoint, kA},
    {"region", StorageName::kRegion, kS},
    {"region_name", StorageName::kRegion, kS},
    {"client_kwargs.region_name", StorageName::kRegion, kS},
    {"default_region", StorageName::kRegion, kS},
    {"aws_region", StorageName::kRegion, kS},
    {"aws_default_region", StorageName::kRegion, kS},
    {"addressing_style", StorageName::kAddressing, kS},
    {"config_kwargs.s3.addressing_style", StorageName::kAddressing, kS},
    {"virtual_hosted_style_request", StorageName::kVirtualHosted, kS, Kind::kFlag},
    {"aws_virtual_hosted_style_request", StorageName::kVirtualHosted, kS, Kind::kFlag},
    {"requester_pays", StorageName::kRequesterPays, kS, Kind::kFlag},
    {"request_payer", StorageName::kRequesterPays, kS, Kind::kFlag},
    {"aws_request_payer", StorageName::kRequesterPays, kS, Kind::kFlag},
    {"account_name", StorageName::kAccount, kA},
    {"azure_storage_account_name", StorageName::kAccount, kA},
    {"account_key", StorageName::kAccountKey, kA},
    {"access_key", StorageName::kAccountKey, kA},
    {"azure_storage_account_key", StorageName::kAccountKey, kA},
    {"azure_storage_access_key", StorageName::kAccountKey, kA},
    {"sas_token", StorageName::kSas, kA},
    {"sas_key", StorageName::kSas, kA},
    {"azure_storage_sas_token", StorageName::kSas, kA},
    {"azure_storage_sas_key", StorageName::kSas, kA},
    {"verify", StorageName::kCertificates, kAll},
    {"client_kwargs.verify", StorageName::kCertificates, kS},
    {"use_ssl", StorageName::kTls, kS, Kind::kFlag},
    {"client_kwargs.use_ssl", StorageName::kTls, kS, Kind::kFlag},
    {"allow_http", StorageName::kAllowHttp, kAll, Kind::kFlag},
    {"aws_allow_http", StorageName::kAllowHttp, kS, Kind::kFlag},
    {"client_options.allow_http", StorageName::kAllowHttp, kAll, Kind::kFlag},
    {"connect_timeout", StorageName::kConnectSeconds, kAll, Kind::kSeconds},
    {"config_kwargs.connect_timeout", StorageName::kConnectSeconds, kS, Kind::kSeconds},
    {"client_options.connect_timeout", StorageName::kConnectSeconds, kAll, Kind::kSeconds},
    {"read_timeout", StorageName::kIdleSeconds, kAll, Kind::kSeconds},
    {"config_kwargs.read_timeout", StorageName::kIdleSeconds, kS, Kind::kSeconds},
    {"client_options.read_timeout", StorageName::kIdleSeconds, kAll, Kind::kSeconds},
    {"timeout", StorageName::kTotalSeconds, kAll, Kind::kSeconds},
    {"client_options.timeout", StorageName::kTotalSeconds, kAll, Kind::kSeconds},
    {"max_pool_connections", StorageName::kConnections, kAll, Kind::kCount},
    {"config_kwargs.max_pool_connections", StorageName::kConnections, kS, Kind::kCount},
    {"retries", StorageName::kRetries, kAll, Kind::kCount},
    {"max_retries", StorageName::kRetries, kAll, Kind::kCount},
    {"retry_config.max_retries", StorageName::kRetries, kAll, Kind::kCount},
    {"proxy_url", StorageName::kProxy, kAll},
    {"client_options.proxy_url", StorageName::kProxy, kAll},
    {"config_kwargs.proxies.https", StorageName::kProxy, kS},
    {"config_kwargs.proxies.http", StorageName::kProxy, kS},
    {"client_kwargs.proxy", StorageName::kProxy, kH},
    {"max_gap", StorageName::kMaxGap, kAll, Kind::kBytes},
    {"coalesce", StorageName::kMaxGap, kAll, Kind::kBytes},
    {"max_block", StorageName::kMaxBlock, kAll, Kind::kBytes},
    {"part_size", StorageName::kPartBytes, kAll, Kind::kBytes},
    {"hedge", StorageName::kHedge, kAll, Kind::kFlag},
    {"missing_max_age", StorageName::kMissingAge, kAll, Kind::kAge},
    {"cache_dir", StorageName::kCacheDirectory, kAll},
    {"cache_bytes", StorageName::kCacheBytes, kAll},
    {"cache_trust", StorageName::kCacheTrust, kAll},
    {"cache_policy", StorageName::kCachePolicy, kAll},
    {"cache_max_age", StorageName::kCacheAge, kAll},
    {"asynchronous", StorageName::kIgnored, kAll},
    {"skip_instance_cache", StorageName::kIgnored, kAll},
    {"use_listings_cache", StorageName::kIgnored, kAll},
    {"listings_expiry_time", StorageName::kIgnored, kAll},
    {"max_paths", StorageName::kIgnored, kAll},
    {"batch_size", StorageName::kIgnored, kAll},
    {"block_size", StorageName::kIgnored, kAll},
    {"default_block_size", StorageName::kIgnored, kAll},
    {"default_cache_type", StorageName::kIgnored, kAll},
    {"default_fill_cache", StorageName::kIgnored, kAll},
    {"cache_type", StorageName::kIgnored, kAll},
    {"cache_regions", StorageName::kIgnored, kS},
    {"max_concurrency", StorageName::kIgnored, kAll},
    {"fixed_upload_size", StorageName::kIgnored, kS},
    {"simple_links", StorageName::kIgnored, kH},
    {"same_scheme", StorageName::kIgnored, kH},
    {"size_policy", StorageName::kIgnored, kH},
    {"project", StorageName::kIgnored, kG},
    {"access", StorageName::kIgnored, kG},
    {"consistency", StorageName::kIgnored, kG},
};
constexpr const char* kHeaderPrefixes[] = {"headers.", "client_kwargs.headers.", "client_options.default_headers."};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// A name as messages show it. Unusual names are hidden: the user may have put a secret value in the name's place.
std::string shown(std::string_view name) {
  const bool plain = !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  });
  return plain ? "'" + std::string(name) + "'" : "with an invalid name";
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t best = std::min({row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      corner = row[j];
      row[j] = best;
    }
  }
  return row.back();
}

Status unknown(std::string_view given, std::string_view name, unsigned service) {
  constexpr std::size_t kNear = 3, kMaxCompared = 64;
  const char* nearest = nullptr;
  std::size_t best = kNear + 1;
  std::string all;
  StorageName last = StorageName::kIgnored;
  for (const NameRow& row : kNames) {
    if ((row.services & service) == 0 || row.means == StorageName::kIgnored) continue;
    const std::size_t far = name.size() <= kMaxCompared ? distance(name, row.name) : best;
    if (far < best && far < name.size()) {
      best = far;
      nearest = row.name;
    }
    if (row.means != last) all += std::string(all.empty() ? "" : ", ") + row.name;
    last = row.means;
  }
  if (service == kH) all += ", headers";
  if (nearest != nullptr)
    return refuse_option("no storage option " + shown(given) + ": '" + nearest + "' is the nearest");
  return refuse_option("no storage option " + shown(given) + "; there are " + all);
}

std::optional<std::uint64_t> seconds_of(std::string_view text) {
  if (text.ends_with('s')) text.remove_suffix(1);
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr double kMax = 86400;
  if (error != std::errc() || end != text.data() + text.size() || !(seconds > 0) || seconds > kMax) {
    return std::nullopt;
  }
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(seconds * 1e9), 1'000'000);
}

std::optional<std::uint64_t> age_of(std::string_view text) {
  return text == "0" ? std::optional<std::uint64_t>(0) : seconds_of(text);
}

std::optional<std::uint64_t> count_of(std::string_view text) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return count;
}

// "1048576", or "1M" with K, M or G of 1,024 each.
std::optional<std::uint64_t> bytes_of(std::string_view text) {
  constexpr std::string_view kUnits = "KMG";
  std::uint64_t unit = 1;
  if (!text.empty()) {
    const char last =
        text.back() >= 'a' && text.back() <= 'z' ? static_cast<char>(text.back() - 'a' + 'A') : text.back();
    if (const std::size_t power = kUnits.find(last); power != std::string_view::npos) {
      unit = std::uint64_t{1024} << (10 * power);
      text.remove_suffix(1);
    }
  }
  const auto count = count_of(text);
  return count ? base::checked_mul(*count, unit) : std::nullopt;
}

// A parser, and the description of valid values for messages.
struct NumberKind {
  std::optional<std::uint64_t> (*parse)(std::string_view text);
  const char* what;
};
NumberKind number_kind(Kind kind) {
  if (kind == Kind::kSeconds) return {seconds_of, "a time in seconds, at most a day"};
  if (kind == Kind::kAge) return {age_of, "a time in seconds, at most a day, or 0"};
  if (kind == Kind::kBytes) return {bytes_of, "a number of bytes, such as 1048576, or 1M with K, M or G of 1,024"};
  return {count_of, "a number"};
}

}  // namespace

bool is_printable(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

bool is_yes(std::string_view text) {
  const std::string word = lower(text);
  return word == "yes" || word == "true" || word == "1" || word == "on";
}

Result<StorageOptions> StorageOptions::parse(std::span<const StorageOption> options, StorageService service) {
  StorageOptions out;
  for (const StorageOption& option : options) HEADRACE_TRY(out.take(option, service));
  return out;
}

Status StorageOptions::take(const StorageOption& option, StorageService service) {
  const std::string name = lower(option.name);
  const auto bits = static_cast<unsigned>(service);
  if (option.value.size() > kMaxOptionBytes ||
      option.value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
    return refuse_option("the storage option " + shown(option.name) + " is too long, or contains a line break");
  }
  if (service == StorageService::kHttp) {
    for (const std::string_view prefix : kHeaderPrefixes) {
      if (name.starts_with(prefix)) return take_header(option.name.substr(prefix.size()), option.value);
    }
  }
  const auto* const row = std::find_if(std::begin(kNames), std::end(kNames), [&](const NameRow& known) {
    return (known.services & bits) != 0 && name == known.name;
  });
  if (row == std::end(kNames)) return unknown(option.name, name, bits);
  if (row->means == StorageName::kIgnored || option.value.empty()) return {};
  Value value{option.value, row->name, 0};
  if (row->kind == Kind::kFlag) {
    const std::string word = lower(option.value);
    const bool no = word == "no" || word == "false" || word == "0" || word == "off";
    if (!no && !is_yes(word))
      return refuse_option(std::string("the storage option '") + row->name + "' must be true or false");
    value.number = no ? 0 : 1;
    value.text = no ? "false" : "true";
  } else if (row->kind != Kind::kText) {
    const NumberKind kind = number_kind(row->kind);
    const auto number = kind.parse(option.value);
    if (!number) return refuse_option(std::string("the storage option '") + row->name + "' must be " + kind.what);
    value.number = *number;
    value.text = std::to_string(*number);
  }
  const auto [held, fresh] = values_.try_emplace(row->means, value);
  if (!fresh && held->second.text != value.text) {
    return refuse_option("the storage options '" + held->second.option_name + "' and '" + value.option_name +
                         "' mean the same and have different values");
  }
  return {};
}

Status StorageOptions::take_header(std::string_view name, std::string_view value) {
  const bool token = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
  const bool plain = std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= 0x20 || c == '\t' || static_cast<unsigned char>(c) >= 0x80) && c != 0x7f;
  });
  if (!token || !plain) return refuse_option("a header in the storage options contains invalid characters");
  const std::string low = lower(name);
  for (const char* ours : {"host", "range", "if-match", "if-range", "accept-encoding", "content-length", "connection",
                           "transfer-encoding", "te", "upgrade", "expect"}) {
    if (low == ours)
      return refuse_option("the header '" + low + "' in the storage options must not be given: headrace sets it");
  }
  // libcurl treats a line without a value as a header to suppress.
  if (value.empty()) return {};
  headers_.push_back(std::string(name) + ": " + std::string(value));
  return {};
}

const std::string& StorageOptions::text(StorageName name) const noexcept {
  static const std::string kNone;
  const auto found = values_.find(name);
  return found == values_.end() ? kNone : found->second.text;
}

std::optional<bool> StorageOptions::flag(StorageName name) const noexcept {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second.number != 0;
}

std::optional<std::uint64_t> StorageOptions::number(StorageName name) const noexcept {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second.number;
}

}  // namespace headrace::http
