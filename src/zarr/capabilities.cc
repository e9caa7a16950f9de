#include <headrace/capabilities.h>

#include <array>
#include <new>
#include <string_view>

#include "codec/codec.h"
#include "device/device.h"
#include "io/engine.h"
#include "store/store.h"
#include "zarr/metadata/metadata.h"

namespace headrace {
namespace {

using base::Json;

// "a b c"
std::vector<std::string> split(std::string_view names) {
  std::vector<std::string> out;
  while (!names.empty()) {
    const std::size_t end = names.find(' ');
    if (end != 0) out.emplace_back(names.substr(0, end));
    names = end == std::string_view::npos ? std::string_view() : names.substr(end + 1);
  }
  return out;
}

// Asks the codec whether it decodes on a GPU. Making a codec needs a configuration and a type that it accepts.
CodecCapability describe(const codec::CodecRow& row) {
  CodecCapability out;
  out.name = row.name;
  out.v3_names = split(row.v3_names);
  out.v2_ids = split(row.v2_ids);
  for (const char* type : {"float32", "int32", "bool"}) {
    const DataType dtype = numeric_type(type);
    auto codec = row.make(Json::parse(row.config), {&dtype, 3});
    if (!codec.ok() || codec->coder() == nullptr) continue;
    out.cpu = true;
    out.gpu = out.gpu || codec->has_device_code();
  }
  return out;
}

struct TypeRow {
  const char *name, *v3, *v2, *note;
};
constexpr const char* kStoredByte = "one byte an element, as stored";
constexpr std::array<TypeRow, 47> kTypes = {{
    {"bool", "\"bool\"", "\"|b1\"", ""},
    {"int8", "\"int8\"", "\"|i1\"", ""},
    {"int16", "\"int16\"", "\"<i2\"", ""},
    {"int32", "\"int32\"", "\"<i4\"", ""},
    {"int64", "\"int64\"", "\"<i8\"", ""},
    {"uint8", "\"uint8\"", "\"|u1\"", ""},
    {"uint16", "\"uint16\"", "\"<u2\"", ""},
    {"uint32", "\"uint32\"", "\"<u4\"", ""},
    {"uint64", "\"uint64\"", "\"<u8\"", ""},
    {"float16", "\"float16\"", "\"<f2\"", ""},
    {"float32", "\"float32\"", "\"<f4\"", ""},
    {"float64", "\"float64\"", "\"<f8\"", ""},
    {"bfloat16", "\"bfloat16\"", "", ""},
    {"complex64", "\"complex64\"", "\"<c8\"", ""},
    {"complex128", "\"complex128\"", "\"<c16\"", ""},
    {"datetime64", R"({"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 1}})", "\"<M8[ns]\"",
     "int64; unit kept"},
    {"timedelta64", R"({"name": "numpy.timedelta64", "configuration": {"unit": "s", "scale_factor": 10}})",
     "\"<m8[10s]\"", "int64; unit kept"},
    {"fixed-length bytes", R"({"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}})", "\"|S5\"", ""},
    {"fixed-length UTF-32", R"({"name": "fixed_length_utf32", "configuration": {"length_bytes": 16}})", "\"<U4\"", ""},
    {"raw bytes", R"({"name": "raw_bytes", "configuration": {"length_bytes": 3}})", "\"|V3\"", ""},
    {"raw bits", "\"r24\"", "", ""},
    {"structured",
     R"({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "float32"}]}})",
     R"([["a", "<i4"], ["b", ">f4"]])", "packed; nested, v2 with sub-arrays"},
    {"int2", "\"int2\"", "", kStoredByte},
    {"int4", "\"int4\"", "", kStoredByte},
    {"uint2", "\"uint2\"", "", kStoredByte},
    {"uint4", "\"uint4\"", "", kStoredByte},
    {"float4_e2m1fn", "\"float4_e2m1fn\"", "", kStoredByte},
    {"float6_e2m3fn", "\"float6_e2m3fn\"", "", kStoredByte},
    {"float6_e3m2fn", "\"float6_e3m2fn\"", "", kStoredByte},
    {"float8_e3m4", "\"float8_e3m4\"", "", kStoredByte},
    {"float8_e4m3", "\"float8_e4m3\"", "", kStoredByte},
    {"float8_e4m3b11fnuz", "\"float8_e4m3b11fnuz\"", "", kStoredByte},
    {"float8_e4m3fn", "\"float8_e4m3fn\"", "", kStoredByte},
    {"float8_e4m3fnuz", "\"float8_e4m3fnuz\"", "", kStoredByte},
    {"float8_e5m2", "\"float8_e5m2\"", "", kStoredByte},
    {"float8_e5m2fnuz", "\"float8_e5m2fnuz\"", "", kStoredByte},
    {"float8_e8m0fnu", "\"float8_e8m0fnu\"", "", kStoredByte},
    {"complex_float16", "\"complex_float16\"", "", "real and imaginary part, as stored, little-endian"},
    {"complex_bfloat16", "\"complex_bfloat16\"", "", "real and imaginary part, as stored, little-endian"},
    {"complex_float8_e3m4", "\"complex_float8_e3m4\"", "", "real and imaginary part, as stored"},
    {"complex_float8_e4m3", "\"complex_float8_e4m3\"", "", "real and imaginary part, as stored"},
    {"complex_float8_e4m3b11fnuz", "\"complex_float8_e4m3b11fnuz\"", "", "real and imaginary part, as stored"},
    {"complex_float8_e4m3fnuz", "\"complex_float8_e4m3fnuz\"", "", "real and imaginary part, as stored"},
    {"complex_float8_e5m2", "\"complex_float8_e5m2\"", "", "real and imaginary part, as stored"},
    {"complex_float8_e5m2fnuz", "\"complex_float8_e5m2fnuz\"", "", "real and imaginary part, as stored"},
    {"string", "\"string\"", "\"|O\"", "variable length, host only"},
    {"bytes", "\"variable_length_bytes\"", "", "variable length, host only"},
}};

// Omits rows whose examples this build's parsers refuse.
std::vector<TypeCapability> describe_types() {
  std::vector<TypeCapability> out;
  for (const TypeRow& row : kTypes) {
    TypeCapability type;
    type.name = row.name;
    type.note = row.note;
    if (*row.v3 != '\0') {
      if (auto parsed = zarr::parse_v3_dtype(Json::parse(row.v3)); parsed.ok()) {
        type.v3 = row.v3;
        type.item_bytes = parsed->item_bytes;
      }
    }
    if (*row.v2 != '\0') {
      bool big_endian = false;
      if (auto parsed = zarr::parse_v2_dtype(Json::parse(row.v2), big_endian); parsed.ok()) {
        type.v2 = row.v2;
        if (type.v3.empty()) type.item_bytes = parsed->item_bytes;
      }
    }
    if (!type.v3.empty() || !type.v2.empty()) out.push_back(std::move(type));
  }
  return out;
}

}  // namespace

Result<Capabilities> capabilities() {
  try {
    Capabilities out;
    for (const auto& row : io::engines()) out.engines.emplace_back(row.name);
    for (const auto& row : device::devices()) out.devices.emplace_back(row.kind);
    for (const auto& row : store::stores()) out.stores.emplace_back(row.scheme);
    for (const auto& row : codec::codecs()) out.codecs.push_back(describe(row));
    out.data_types = describe_types();
    return out;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace
