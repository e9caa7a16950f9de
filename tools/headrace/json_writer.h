// JsonWriter: one JSON document, built front to back.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::cli {

// Length of the valid UTF-8 sequence that `text` (not empty) begins with, 0 if there is none.
std::size_t utf8_length(std::string_view text);

class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);  // bytes that are not UTF-8 become U+FFFD
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  template <class T>
  requires std::same_as<T, bool> JsonWriter& value(T truth) { return token(truth ? "true" : "false"); }
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter& value(T number) { return token(std::to_string(number)); }
  JsonWriter& value(double number);  // null where not finite
  JsonWriter& value(const std::vector<std::uint64_t>& numbers);
  JsonWriter& null() { return token("null"); }
  JsonWriter& raw(std::string_view json) { return token(json); }  // REQUIRES: a JSON value

  template <class T>
  JsonWriter& member(std::string_view name, const T& what) {
    return key(name).value(what);
  }

  // The document, ending with a newline.
  std::string text() const { return text_ + "\n"; }

 private:
  JsonWriter& token(std::string_view token);
  void separate();

  std::string text_;
  bool need_comma_ = false;
};

}  // namespace headrace::cli
