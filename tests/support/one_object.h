// An object of 1,000 bytes, its service, and answers to partial requests.
#pragma once

#include <string>
#include <string_view>

#include "support/http_server.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"

namespace headrace::testing {

inline constexpr std::size_t kSize = 1000;
inline const store::Bytes& object() {
  static const store::Bytes bytes = support::pattern(kSize, 7);
  return bytes;
}
inline std::string_view text_of(std::size_t from, std::size_t count) {
  return std::string_view(reinterpret_cast<const char*>(object().data()), kSize).substr(from, count);
}
inline const ObjectService& honest() {
  static const ObjectService service({{"x", object()}});
  return service;
}

// Answers a request for bytes 5 to 14.
inline void part(HttpWire& wire, const std::string& more, std::string_view body,
                 const std::string& range = "bytes 5-14/1000") {
  wire.reply("206 Partial Content", "Content-Range: " + range + "\r\n" + more, body);
}

}  // namespace headrace::testing
