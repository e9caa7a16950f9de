#include <array>

#include "http/transport.h"

// clang-format off: needs what is declared above
#include "builtin_http.inc"
// clang-format on

namespace headrace::http {

Status status_of(ExchangeEnd end, std::string_view detail) {
  const auto with = [&](Code code, const char* what) { return Status(code, Layer::kStore, what).with_cause(detail); };
  switch (end) {
    case ExchangeEnd::kNoConnection:
      return with(Code::kIo, "no connection to the server");
    case ExchangeEnd::kConnectTimeout:
      return with(Code::kTimeout, "no connection to the server in time");
    case ExchangeEnd::kIdleTimeout:
      return with(Code::kTimeout, "the server sent nothing for too long");
    case ExchangeEnd::kTotalTimeout:
      return with(Code::kTimeout, "the response timed out");
    case ExchangeEnd::kTls:
      return with(Code::kIo, "no secure connection to the server");
    case ExchangeEnd::kProtocol:
      return with(Code::kIo, "the server's answer is not HTTP");
    case ExchangeEnd::kNoMemory:
      return Status::out_of_memory();
    case ExchangeEnd::kCancelled:
      return with(Code::kCancelled, "cancelled");
    case ExchangeEnd::kBroken:
    case ExchangeEnd::kStopped:
    case ExchangeEnd::kComplete:
      break;
  }
  return with(Code::kIo, "the connection broke");
}

Result<std::unique_ptr<Transport>> make_transport(const TransportOptions& options) {
  static constexpr auto kRows = std::to_array<TransportRow>({HEADRACE_BUILTIN_ROWS{nullptr, nullptr}});
  if (kRows[0].make == nullptr) {
    return Status(Code::kUnsupported, Layer::kStore,
                  "this build cannot speak HTTP: libcurl's headers were missing where it was built");
  }
  return kRows[0].make(options);
}

}  // namespace headrace::http
