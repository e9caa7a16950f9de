// Strict JSON for metadata documents.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace headrace::base {

using Json = nlohmann::json;

// Limit for documents that are scanned rather than built, or needed in full: consolidated metadata of 200,000 arrays,
// the references of an archive.
inline constexpr std::size_t kLargeDocumentBytes = std::size_t{256} << 20;

struct JsonLimits {
  std::size_t max_bytes = std::size_t{64} << 20;  // of text; parsing that much takes a second
  int max_depth = 64;
  std::size_t max_values_bytes = std::size_t{128} << 20;  // estimated memory of the document's values
};

// Parses one RFC 8259 document in UTF-8. kCorrupt, with line and column: a syntax error, a byte order mark, a duplicate
// key in an object, nesting beyond the limit, or a number that fits neither a 64-bit integer nor a finite double.
// kResourceExhausted: a text above the limit, or values that would exceed their memory limit, which parsing enforces as
// it goes.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace headrace::base
