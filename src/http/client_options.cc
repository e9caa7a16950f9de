#include "http/client_options.h"

#include <cstdlib>

#include "http/answer_head.h"

namespace headrace::http {
namespace {

// `value` in units of `unit`, where the variable is set.
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

}  // namespace

Result<ClientOptions> client_options_from_environment() {
  constexpr std::uint64_t kSecond = 1'000'000'000, kDay = 86400;
  ClientOptions options;
  HEADRACE_TRY(take("HEADRACE_HTTP_CONNECTIONS", 1, 1024, 1, options.transport.connections));
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
  return options;
}

}  // namespace headrace::http
