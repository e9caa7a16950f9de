#include "http/client_options.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "http/answer_head.h"
#include "os/page_buffer.h"

namespace headrace::http {
namespace {

// Sets `value`, given in units of `unit`, if the variable is set.
template <class Number>
Status take(const char* name, std::uint64_t least, std::uint64_t most, std::uint64_t unit, Number& value) {
  const char* const text = ::secure_getenv(name);
  if (text == nullptr || text[0] == '\0') return {};
  const auto number = parse_length(text);
  if (!number || *number < least || *number > most) {
    return Status(Code::kInvalidArgument, Layer::kStore,
                  std::string(name) + " is not a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  value = static_cast<Number>(*number * unit);
  return {};
}

constexpr unsigned kMaxThreads = 16;  // unless the user asks for more
constexpr std::uint64_t kMinBytes = 64 << 10, kMaxBytes = 64 << 20;

// Accepts at least `least` bytes, or 0, which disables the feature.
Status take_size(const StorageOptions& given, StorageName name, const char* called, std::uint64_t least,
                 std::optional<std::uint64_t>& bytes) {
  const auto number = given.number(name);
  if (!number) return {};
  if ((*number < least && *number != 0) || *number > kMaxBytes) {
    return refuse_option(std::string("the storage option '") + called + "' must be 0, or from " +
                         std::to_string(std::max(least, std::uint64_t{1})) + " to " + std::to_string(kMaxBytes) +
                         " bytes");
  }
  bytes = *number;
  return {};
}

Status apply_given(const StorageOptions& given, ClientOptions& options) {
  options.transport.connect_ns = given.number(StorageName::kConnectSeconds).value_or(options.transport.connect_ns);
  options.transport.idle_ns = given.number(StorageName::kIdleSeconds).value_or(options.transport.idle_ns);
  options.total_ns = given.number(StorageName::kTotalSeconds).value_or(options.total_ns);

  if (const auto count = given.number(StorageName::kConnections)) {
    if (*count < 1 || *count > 1024)
      return refuse_option("the storage option 'max_pool_connections' must be from 1 to 1024");
    options.transport.connections = static_cast<std::uint32_t>(*count);
  }
  if (const auto count = given.number(StorageName::kRetries)) {
    if (*count > 99) return refuse_option("the storage option 'retries' must be from 0 to 99");
    options.retry.attempts = static_cast<std::uint32_t>(*count + 1);
  }
  HEADRACE_TRY(take_size(given, StorageName::kMaxGap, "max_gap", 0, options.link.gap_bytes));
  HEADRACE_TRY(take_size(given, StorageName::kMaxBlock, "max_block", kMinBytes, options.link.group_bytes));
  HEADRACE_TRY(take_size(given, StorageName::kPartBytes, "part_size", kMinBytes, options.link.part_bytes));
  options.hedge = given.is_on(StorageName::kHedge);
  options.absent_ns = given.number(StorageName::kMissingAge).value_or(options.absent_ns);
  const std::string& verify = given.text(StorageName::kCertificates);
  if (is_yes(verify)) {
    options.transport.ca_file.clear();
  } else if (verify == "false" || verify == "False" || verify == "0") {
    return refuse_option("the storage option 'verify' must name a certificate file; verification cannot be disabled");
  } else if (!verify.empty()) {
    options.transport.ca_file = verify;
  }
  const std::string& proxy = given.text(StorageName::kProxy);
  if (!proxy.empty()) {
    bool known = false;
    for (const char* scheme : {"http://", "https://", "socks5://", "socks5h://"}) {
      known = known || proxy.starts_with(scheme);
    }
    if (!known || !is_printable(proxy)) {
      return refuse_option("the storage option 'proxy_url' must be an http, https, socks5 or socks5h URL");
    }
    options.transport.proxy = proxy;
  }
  return {};
}

}  // namespace

Result<ClientOptions> find_client_options(const StorageOptions& given) {
  constexpr std::uint64_t kSecond = 1'000'000'000, kDay = 86400;
  ClientOptions options;
  HEADRACE_TRY(take("HEADRACE_HTTP_CONNECTIONS", 1, 1024, 1, options.transport.connections));
  options.transport.threads = std::clamp(os::usable_cpus() / 2, 1u, kMaxThreads);
  HEADRACE_TRY(take("HEADRACE_HTTP_THREADS", 1, 64, 1, options.transport.threads));
  HEADRACE_TRY(take("HEADRACE_HTTP_CONNECT_SECONDS", 1, kDay, kSecond, options.transport.connect_ns));
  HEADRACE_TRY(take("HEADRACE_HTTP_IDLE_SECONDS", 1, kDay, kSecond, options.transport.idle_ns));
  HEADRACE_TRY(take("HEADRACE_HTTP_TOTAL_SECONDS", 1, kDay, kSecond, options.total_ns));
  HEADRACE_TRY(take("HEADRACE_HTTP_ATTEMPTS", 1, 100, 1, options.retry.attempts));
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* const file = ::secure_getenv(name);
    if (file == nullptr || file[0] == '\0') continue;
    options.transport.ca_file = file;
    break;
  }
  HEADRACE_TRY(apply_given(given, options));
  return options;
}

}  // namespace headrace::http
