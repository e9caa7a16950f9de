// Writes a test's objects as a reference file.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "support/http_server.h"
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

// Alternates between ranges of two files, whole files and inline values. `base`: the URL of the folder with the files.
// Returns the reference file and the files by name.
inline Objects reference_objects(const std::string& base, const Objects& objects) {
  Objects files;
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
      files[whole] = bytes;
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
  const std::string json = "{\"version\":1,\"templates\":{\"d\":" + reference_text(base) + "},\"refs\":{" + refs + "}}";
  files["data0"] = std::move(data[0]);
  files["data1"] = std::move(data[1]);
  const auto text = std::as_bytes(std::span(json));
  files["refs.json"].assign(text.begin(), text.end());
  return files;
}
inline std::string fill_reference(const std::string& dir, const Objects& objects) {
  for (const auto& [name, bytes] : reference_objects("file://" + dir, objects)) {
    if (!support::write_file(dir + "/" + name, bytes)) return {};
  }
  return "reference://" + dir + "/refs.json";
}
inline std::string fill_reference_s3(const std::string&, const Objects& objects) {
  Objects below;
  for (auto& [name, bytes] : reference_objects("s3://bucket/a/b", objects)) below["a/b/" + name] = std::move(bytes);
  ::setenv("AWS_ENDPOINT_URL", serve_objects("reference_s3", below, ObjectStyle::kS3).c_str(), 1);
  ::setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "of-a-test", 1);
  return "reference://s3://bucket/a/b/refs.json";
}

inline std::span<const StoreUnderTest> reference_store_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"reference", false, false, &fill_reference},
                                               {"reference_s3", false, false, &fill_reference_s3, true}};
  return kStores;
}

}  // namespace headrace::testing
