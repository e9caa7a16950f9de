// The JSON that the tool writes is nlohmann's; members keep the order in which they were given.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace headrace::cli {

using Json = nlohmann::ordered_json;

// In one line, without a newline. Bytes that are not UTF-8 become U+FFFD, numbers that are not finite null.
inline std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

inline void print_json(const Json& json, FILE* to = stdout) { std::fputs((json_text(json) + "\n").c_str(), to); }

// Null for what is not known.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
inline Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace headrace::cli
