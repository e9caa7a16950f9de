// Strict JSON for metadata documents.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace headrace::base {

using Json = nlohmann::json;

// Of a document of which nothing is built but what is asked for, or of which every part is needed: consolidated
// metadata of 200,000 arrays, the references of an archive.
inline constexpr std::size_t kLargeDocumentBytes = std::size_t{256} << 20;

struct JsonLimits {
  std::size_t max_bytes = std::size_t{64} << 20;  // of text; takes a second to parse
  int max_depth = 64;
  std::size_t max_values_bytes = std::size_t{128} << 20;  // what the document's values take in memory, estimated
};

// RFC 8259 text, UTF-8, one document. Fails with kCorrupt naming line and column: any syntax error, a byte order mark,
// a key given twice in one object, nesting beyond the limit, a number that fits no 64-bit integer or finite double.
// kResourceExhausted: a text above the limit, or values that would take more memory than theirs, refused as they are
// met.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace headrace::base
