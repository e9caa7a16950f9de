// Writes a test's objects as a reference file.
#pragma once

#include <algorithm>
#include <cstdio>

#include "support/stores_under_test.h"
#include "support/temp_dir.h"

namespace headrace::testing {

inline std::string reference_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Alternates between ranges of two files, whole files and inline values.
inline std::string fill_reference(const std::string& dir, const Objects& objects) {
  store::Bytes data[2];
  std::string refs;
  int number = 0;
  for (const auto& [key, bytes] : objects) {
    refs += (refs.empty() ? "" : ",\n") + reference_text(key) + ":";
    const bool text =
        bytes.size() < 2000 && std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b < std::byte{0x80}; });
    const std::string whole = std::to_string(number) + ".bin";
    if (text && number % 2 == 0) {
      refs += reference_text(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    } else if (number % 5 == 1) {
      if (!support::write_file(dir + "/" + whole, bytes)) return {};
      refs += "[\"" + whole + "\"]";
    } else {
      store::Bytes& file = data[number % 2];
      file.resize(file.size() + static_cast<std::size_t>(number % 7), std::byte{0xA5});
      refs += "[" + reference_text(number % 2 == 0 ? "{{d}}/data0" : "data1") + "," + std::to_string(file.size()) +
              "," + std::to_string(bytes.size()) + "]";
      file.insert(file.end(), bytes.begin(), bytes.end());
    }
    ++number;
  }
  const std::string json =
      "{\"version\":1,\"templates\":{\"d\":" + reference_text("file://" + dir) + "},\"refs\":{" + refs + "}}";
  const std::string path = dir + "/refs.json";
  if (!support::write_file(dir + "/data0", data[0]) || !support::write_file(dir + "/data1", data[1])) return {};
  return support::write_file(path, std::as_bytes(std::span(json))) ? "reference://" + path : "";
}

inline std::span<const StoreUnderTest> reference_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"reference", false, false, &fill_reference}};
  return kStores;
}

}  // namespace headrace::testing
