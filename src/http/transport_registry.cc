#include <array>

#include "http/transport.h"

// clang-format off: needs what is declared above
#include "builtin_http.inc"
// clang-format on

namespace headrace::http {

Result<std::unique_ptr<Transport>> make_transport(const TransportOptions& options) {
  static constexpr auto kRows = std::to_array<TransportRow>({HEADRACE_BUILTIN_ROWS{nullptr, nullptr}});
  if (kRows[0].make == nullptr) {
    return Status(Code::kUnsupported, Layer::kStore,
                  "this build cannot speak HTTP: libcurl's headers were missing where it was built");
  }
  return kRows[0].make(options);
}

}  // namespace headrace::http
