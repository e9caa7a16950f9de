// Strict JSON for metadata documents.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace headrace::base {

using Json = nlohmann::json;

struct JsonLimits {
  std::size_t max_bytes = std::size_t{256} << 20;
  int max_depth = 64;
  std::size_t max_values_bytes = std::size_t{128} << 20;  // what the document's values take in memory, estimated
};

// RFC 8259 text, UTF-8, one document. Fails with kCorrupt naming line and column: any syntax error, a byte order mark,
// a key given twice in one object, nesting beyond the limit, a number that fits no 64-bit integer or finite double.
// kResourceExhausted: values that would take more memory than the limit, refused as they are met.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace headrace::base
