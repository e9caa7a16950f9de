// JSON output by nlohmann::json; members keep their insertion order.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace headrace::cli {

using Json = nlohmann::ordered_json;

// On one line, without a newline. Invalid UTF-8 becomes U+FFFD, non-finite numbers become null.
inline std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

inline void print_json(const Json& json, FILE* to = stdout) { std::fputs((json_text(json) + "\n").c_str(), to); }

// Null for an unknown value.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
inline Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace headrace::cli
