// Prints the README's table of what this build has, from the tables of parts themselves.
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/json.h"
#include "codec/codec.h"
#include "device/device.h"
#include "io/engine.h"
#include "store/store.h"

namespace {

using headrace::base::Json;

std::string code(std::string_view name) { return "`" + std::string(name) + "`"; }

// "a b c" -> "`a`, `b`, `c`"
std::string list(std::string_view names) {
  std::string text;
  while (!names.empty()) {
    const std::size_t end = names.find(' ');
    const std::string_view name = names.substr(0, end);
    if (!name.empty()) text += (text.empty() ? "" : ", ") + code(name);
    names = end == std::string_view::npos ? std::string_view() : names.substr(end + 1);
  }
  return text.empty() ? "-" : text;
}

template <class Rows, class Name>
std::string list_rows(const Rows& rows, Name name) {
  std::string text;
  for (const auto& row : rows) text += (text.empty() ? "" : ", ") + code(name(row));
  return text.empty() ? "none" : text;
}

// Whether a codec decodes on a GPU is asked of the codec, which needs a configuration and a type that it accepts.
const char* processors(const headrace::codec::CodecRow& row) {
  static const std::array<const char*, 11> kConfigurations = {
      "{}",
      R"({"endian": "little"})",
      R"({"order": [0]})",
      R"({"shape": [-1]})",
      R"({"mode": "reversible"})",
      R"({"level": 1, "checksum": false})",
      R"({"elementsize": 4})",
      R"({"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0})",
      R"({"scale": 1, "offset": 0})",
      R"({"data_type": "int16"})",
      R"({"encode_dtype": "<i2"})"};
  bool passes = false;
  for (const char* type : {"float32", "int32"}) {
    const headrace::DataType dtype = headrace::numeric_type(type);
    for (const char* text : kConfigurations) {
      auto codec = row.make(Json::parse(text), {&dtype, 3});
      if (!codec.ok()) continue;
      if ((*codec)->has_decode_stage() && (*codec)->has_device_code()) return "CPU, GPU";
      passes = passes || (*codec)->has_decode_stage();
    }
  }
  return passes ? "CPU" : "no pass of its own";
}

}  // namespace

int main() {
  std::printf("| part | in this version, best first |\n|---|---|\n");
  std::printf("| I/O engines | %s |\n",
              list_rows(headrace::io::engines(), [](const auto& row) { return row.name; }).c_str());
  std::printf("| devices | %s |\n",
              list_rows(headrace::device::devices(), [](const auto& row) { return row.kind; }).c_str());
  std::printf("| stores | %s |\n",
              list_rows(headrace::store::stores(), [](const auto& row) { return row.scheme; }).c_str());
  std::printf("\n| codec | Zarr v3 names | Zarr v2 ids | decoded on |\n|---|---|---|---|\n");
  for (const auto& row : headrace::codec::codecs()) {
    std::printf("| %s | %s | %s | %s |\n", row.name, list(row.v3_names).c_str(), list(row.v2_ids).c_str(),
                processors(row));
  }
}
