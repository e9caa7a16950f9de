// A fill value becomes exactly the bytes of one decoded element, in every spelling that its format permits and in no
// other.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/json.h"
#include "zarr/metadata/metadata.h"
#include "zarr/metadata/number_bits.h"

namespace headrace::zarr {
namespace {

using base::Json;

std::string hex(const std::vector<std::byte>& bytes) {
  std::string out;
  for (std::byte b : bytes) {
    out += "0123456789abcdef"[std::to_integer<int>(b) >> 4];
    out += "0123456789abcdef"[std::to_integer<int>(b) & 15];
  }
  return out;
}

DataType v3_type(const char* text) {
  auto type = parse_v3_dtype(Json::parse(text));
  EXPECT_TRUE(type.ok()) << text << type.status().to_string();
  return type.ok() ? *type : DataType();
}

DataType v2_type(const char* text) {
  bool big = false;
  auto type = parse_v2_dtype(Json::parse(text), big);
  EXPECT_TRUE(type.ok()) << text << type.status().to_string();
  return type.ok() ? *type : DataType();
}

struct Row {
  const char* type;
  const char* value;
  const char* bytes;  // hex; null: refused as corrupt
};

void check(const Row& row, const Result<std::vector<std::byte>>& fill) {
  if (row.bytes == nullptr) {
    EXPECT_EQ(fill.status().code(), Code::kCorrupt) << row.type << " " << row.value;
    EXPECT_NE(fill.status().to_string().find("fill_value"), std::string::npos) << fill.status().to_string();
  } else {
    ASSERT_TRUE(fill.ok()) << row.type << " " << row.value << ": " << fill.status().to_string();
    EXPECT_EQ(hex(*fill), row.bytes) << row.type << " " << row.value;
  }
}

void check_v3(std::initializer_list<Row> rows) {
  for (const Row& row : rows) check(row, parse_v3_fill(Json::parse(row.value), v3_type(row.type)));
}

void check_v2(std::initializer_list<Row> rows) {
  for (const Row& row : rows) check(row, parse_v2_fill(Json::parse(row.value), v2_type(row.type)));
}

TEST(V3Fill, Bool) {
  check_v3({{"\"bool\"", "true", "01"},
            {"\"bool\"", "false", "00"},
            {"\"bool\"", "0", nullptr},
            {"\"bool\"", "1", nullptr},
            {"\"bool\"", "\"true\"", nullptr},
            {"\"bool\"", "null", nullptr}});
}

TEST(V3Fill, IntegersAreExactAndInRange) {
  check_v3({{"\"int8\"", "-128", "80"},
            {"\"int8\"", "127", "7f"},
            {"\"int8\"", "128", nullptr},
            {"\"int8\"", "-129", nullptr},
            {"\"uint8\"", "255", "ff"},
            {"\"uint8\"", "256", nullptr},
            {"\"uint8\"", "-1", nullptr},
            {"\"int16\"", "-32768", "0080"},
            {"\"uint16\"", "65536", nullptr},
            {"\"uint32\"", "4294967295", "ffffffff"},
            {"\"int64\"", "-9223372036854775808", "0000000000000080"},
            {"\"int64\"", "9223372036854775807", "ffffffffffffff7f"},
            {"\"int64\"", "9223372036854775808", nullptr},
            {"\"int64\"", "-9223372036854775809", nullptr},
            {"\"uint64\"", "9007199254740993", "0100000000002000"},
            {"\"uint64\"", "18446744073709551615", "ffffffffffffffff"},
            {"\"uint64\"", "18446744073709551616", nullptr}});
}

TEST(V3Fill, IntegersHaveNoFractionExponentOrOtherForm) {
  for (const char* value : {"1.0", "1e3", "true", "\"1\"", "\"0x10\"", "[1]", "{}", "null", "\"NaN\""}) {
    check_v3({{"\"int32\"", value, nullptr}});
  }
}

TEST(V3Fill, FloatsByNumberAndByName) {
  check_v3({{"\"float32\"", "1", "0000803f"},
            {"\"float32\"", "-0.0", "00000080"},
            {"\"float32\"", "0.1", "cdcccc3d"},
            {"\"float32\"", "16777217", "0000804b"},
            {"\"float32\"", "\"NaN\"", "0000c07f"},
            {"\"float32\"", "\"Infinity\"", "0000807f"},
            {"\"float32\"", "\"-Infinity\"", "000080ff"},
            {"\"float64\"", "\"NaN\"", "000000000000f87f"},
            {"\"float64\"", "\"-Infinity\"", "000000000000f0ff"},
            {"\"float64\"", "0.1", "9a9999999999b93f"},
            {"\"float64\"", "9007199254740993", "0000000000004043"},
            {"\"float64\"", "-9007199254740995", "02000000000040c3"},
            {"\"float64\"", "18446744073709551615", "000000000000f043"},
            {"\"float16\"", "\"NaN\"", "007e"},
            {"\"float16\"", "0.1", "662e"},
            {"\"bfloat16\"", "\"NaN\"", "c07f"},
            {"\"bfloat16\"", "1.0", "803f"}});
}

TEST(V3Fill, FloatsByHexadecimalBits) {
  check_v3({{"\"float32\"", "\"0x7fc00001\"", "0100c07f"},
            {"\"float32\"", "\"0xFFC00000\"", "0000c0ff"},
            {"\"float16\"", "\"0x8001\"", "0180"},
            {"\"float64\"", "\"0x7ff8000000000001\"", "010000000000f87f"},
            {"\"float32\"", "\"0x7fc0\"", nullptr},
            {"\"float16\"", "\"0x00007e00\"", nullptr},
            {"\"float32\"", "\"0x\"", nullptr},
            {"\"float32\"", "\"0xZZZZZZZZ\"", nullptr},
            {"\"float32\"", "\"0X7fc00000\"", nullptr}});
}

TEST(V3Fill, FloatsRefuseOtherForms) {
  for (const char* value : {"\"nan\"", "\"inf\"", "\"1.0\"", "\"\"", "true", "null", "[1.0]", "{}"}) {
    check_v3({{"\"float32\"", value, nullptr}});
  }
}

TEST(V3Fill, ComplexIsAPair) {
  check_v3({{"\"complex64\"", "[1, \"NaN\"]", "0000803f0000c07f"},
            {"\"complex64\"", "[\"0x7fc00001\", -0.0]", "0100c07f00000080"},
            {"\"complex128\"", "[0, 1]", "0000000000000000000000000000f03f"},
            {"\"complex64\"", "[1.0]", nullptr},
            {"\"complex64\"", "[1, 2, 3]", nullptr},
            {"\"complex64\"", "1.0", nullptr},
            {"\"complex64\"", "\"1+2j\"", nullptr},
            {"\"complex64\"", "[1, \"2\"]", nullptr}});
}

// The encodings of the registry's pages and of ml_dtypes.
TEST(V3Fill, SmallTypes) {
  struct SmallRow {
    const char *type, *value;
    std::vector<int> bytes;  // empty: refused
  };
  for (const SmallRow& row : {
           SmallRow{"int4", "-8", {0xf8}},
           SmallRow{"int4", "7", {7}},
           SmallRow{"int4", "8", {}},
           SmallRow{"int4", "-9", {}},
           SmallRow{"int4", "1.0", {}},
           SmallRow{"int4", "18446744073709551608", {}},
           SmallRow{"int2", "-2", {0xfe}},
           SmallRow{"int2", "2", {}},
           SmallRow{"uint2", "3", {3}},
           SmallRow{"uint2", "-1", {}},
           SmallRow{"uint4", "15", {15}},
           SmallRow{"uint4", "true", {}},
           SmallRow{"float8_e4m3", "\"NaN\"", {0x7c}},
           SmallRow{"float8_e4m3", "\"-Infinity\"", {0xf8}},
           SmallRow{"float8_e4m3", "1", {0x38}},
           SmallRow{"float8_e4m3", "-0.0", {0x80}},
           SmallRow{"float8_e4m3", "240", {0x77}},
           SmallRow{"float8_e4m3", "248", {}},
           SmallRow{"float8_e4m3fn", "448", {0x7e}},
           SmallRow{"float8_e4m3fn", "\"NaN\"", {0x7f}},
           SmallRow{"float8_e4m3fn", "\"Infinity\"", {}},
           SmallRow{"float8_e4m3fn", "1.0625", {0x38}},  // halfway between 1 and 1.125: rounded to even
           SmallRow{"float8_e4m3fn", "1.1875", {0x3a}},
           SmallRow{"float8_e4m3fn", "0.001953125", {0x01}},
           SmallRow{"float8_e4m3fnuz", "\"NaN\"", {0x80}},
           SmallRow{"float8_e4m3fnuz", "1", {0x40}},
           SmallRow{"float8_e4m3fnuz", "-0.0", {0}},
           SmallRow{"float8_e4m3b11fnuz", "1", {0x58}},
           SmallRow{"float8_e5m2", "\"NaN\"", {0x7e}},
           SmallRow{"float8_e5m2", "57344", {0x7b}},
           SmallRow{"float8_e5m2fnuz", "1", {0x40}},
           SmallRow{"float8_e3m4", "1", {0x30}},
           SmallRow{"float8_e3m4", "\"Infinity\"", {0x70}},
           SmallRow{"float8_e8m0fnu", "1", {0x7f}},
           SmallRow{"float8_e8m0fnu", "\"NaN\"", {0xff}},
           SmallRow{"float6_e2m3fn", "7.5", {0x1f}},
           SmallRow{"float6_e3m2fn", "-28", {0x3f}},
           SmallRow{"float6_e3m2fn", "\"NaN\"", {}},
           SmallRow{"float4_e2m1fn", "-6", {0x0f}},
           SmallRow{"float4_e2m1fn", "\"0x07\"", {7}},
           SmallRow{"float4_e2m1fn", "\"0x10\"", {}},
           SmallRow{"float8_e5m2", "\"0x7B\"", {0x7b}},
           SmallRow{"float8_e5m2", "\"0x007b\"", {}},
           SmallRow{"float8_e5m2", "\"word\"", {}},
           SmallRow{"float8_e5m2", "null", {}},
           SmallRow{"complex_float16", "[1, \"NaN\"]", {0x00, 0x3c, 0x00, 0x7e}},
           SmallRow{"complex_bfloat16", "[1, -2]", {0x80, 0x3f, 0x00, 0xc0}},
           SmallRow{"complex_float8_e4m3fn", "[1, 448]", {0x38, 0x7e}},
           SmallRow{"complex_float16", "1", {}},
       }) {
    auto type = parse_v3_dtype(Json(row.type));
    ASSERT_TRUE(type.ok()) << row.type;
    auto fill = parse_v3_fill(Json::parse(row.value), *type);
    EXPECT_EQ(fill.ok(), !row.bytes.empty()) << row.type << " " << row.value;
    if (!fill.ok()) {
      EXPECT_EQ(fill.status().code(), Code::kCorrupt);
      continue;
    }
    std::vector<int> bytes;
    for (std::byte b : *fill) bytes.push_back(static_cast<int>(b));
    EXPECT_EQ(bytes, row.bytes) << row.type << " " << row.value;
  }
}

TEST(V3Fill, RawBits) {
  check_v3({{"\"r16\"", "[1, 255]", "01ff"},
            {"\"r16\"", "\"AQI=\"", "0102"},
            {"\"r16\"", "[1, 256]", nullptr},
            {"\"r16\"", "[1]", nullptr},
            {"\"r16\"", "[1, -1]", nullptr},
            {"\"r16\"", "[1, 1.0]", nullptr},
            {"\"r16\"", "0", nullptr},
            {"\"r16\"", "\"AQ==\"", nullptr},
            {"\"r16\"", "\"AQID\"", nullptr}});
}

TEST(V3Fill, TimesAreIntegersOrNaT) {
  const char* type = R"({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}})";
  check_v3({{type, "1", "0100000000000000"},
            {type, "\"NaT\"", "0000000000000080"},
            {type, "-9223372036854775808", "0000000000000080"},
            {type, "1.0", nullptr},
            {type, "\"NaN\"", nullptr},
            {type, "\"2000-01-01\"", nullptr},
            {type, "null", nullptr}});
}

TEST(V3Fill, FixedLengthStrings) {
  const char* utf32 = R"({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}})";
  check_v3({{utf32, "\"\"", "0000000000000000"},
            {utf32, "\"a\"", "6100000000000000"},
            {utf32, "\"\u00e4\U0001f30a\"", "e40000000af30100"},
            {utf32, "\"abc\"", nullptr},
            {utf32, "0", nullptr}});
  const char* bytes = R"({"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}})";
  check_v3({{bytes, "\"\"", "000000"},
            {bytes, "\"YWI=\"", "616200"},
            {bytes, "\"YWJj\"", "616263"},
            {bytes, "\"YWJjZA==\"", nullptr},
            {bytes, "\"abc\"", nullptr},
            {bytes, "\"YW!j\"", nullptr},
            {bytes, "\"Y===\"", nullptr},
            {bytes, "\"YQ=a\"", nullptr},
            {bytes, "5", nullptr}});
}

TEST(V3Fill, StructsByObjectOrBase64) {
  const char* type = R"({"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int16"},
    {"name": "in", "data_type": {"name": "struct", "configuration": {"fields": [{"name": "b", "data_type": "bool"}]}}}]}})";
  check_v3({{type, R"({"a": -2, "in": {"b": true}})", "feff01"},
            {type, "\"/v8B\"", "feff01"},
            {type, R"({"a": -2})", nullptr},
            {type, R"({"a": -2, "in": {"b": 1}})", nullptr},
            {type, R"({"a": -2, "in": {"b": true}, "c": 1})", nullptr},
            {type, "\"/v8=\"", nullptr},
            {type, "[1, 2]", nullptr},
            {type, "0", nullptr},
            {type, "null", nullptr}});
}

TEST(V3Fill, Base64OfStructFollowsTheStoredByteOrder) {
  const std::string text = R"({"zarr_format": 3, "node_type": "array", "shape": [1], "data_type":
    {"name": "structured", "configuration": {"fields": [["a", "int16"], ["b", "uint8"]]}},
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "chunk_key_encoding": "default",
    "fill_value": "AAEC", "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]})";
  auto array = parse_v3_array(text);
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  EXPECT_EQ(hex(array->fill), "010002");
}

TEST(V2Fill, NullIsEmptyForEveryType) {
  for (const char* type :
       {"\"<f4\"", "\"|b1\"", "\"|S3\"", "\"<U3\"", "\"|V3\"", "\"<M8[s]\"", "\"<c8\"", R"([["a", "<f4"]])"}) {
    check_v2({{type, "null", ""}});
  }
}

TEST(V2Fill, NumbersAreLittleEndianWhateverTheStoredOrder) {
  check_v2({{"\">i4\"", "1", "01000000"},
            {"\"<i4\"", "1", "01000000"},
            {"\">f2\"", "-2.5", "00c1"},
            {"\">f8\"", "\"NaN\"", "000000000000f87f"},
            {"\"<f4\"", "0", "00000000"},
            {"\"<f4\"", "\"-Infinity\"", "000080ff"},
            {"\"<c8\"", "[1.5, \"NaN\"]", "0000c03f0000c07f"},
            {"\"|b1\"", "true", "01"},
            {"\"|b1\"", "0", "00"},
            {"\"|b1\"", "1", "01"},
            {"\"<M8[ns]\"", "12345", "3930000000000000"},
            {"\"<m8[s]\"", "\"NaT\"", "0000000000000080"},
            {"\"<u8\"", "18446744073709551615", "ffffffffffffffff"}});
}

TEST(V2Fill, RefusesValuesOutsideTheType) {
  check_v2({{"\"|u1\"", "300", nullptr},
            {"\"|u1\"", "-1", nullptr},
            {"\"<u4\"", "[1]", nullptr},
            {"\"<i4\"", "1.0", nullptr},
            {"\"<i4\"", "true", nullptr},
            {"\"|b1\"", "\"yes\"", nullptr},
            {"\"|b1\"", "2", nullptr},
            {"\"|b1\"", "1.0", nullptr},
            {"\"<f4\"", "[1.0]", nullptr},
            {"\"<f4\"", "\"0x7fc00000\"", nullptr},
            {"\"<f4\"", "true", nullptr},
            {"\"|S4\"", "12", nullptr},
            {"\"<U4\"", "12", nullptr},
            {"\"<c8\"", "0", nullptr}});
}

TEST(V2Fill, StringsAndStructs) {
  check_v2({{"\"|S3\"", "\"\"", "000000"},
            {"\"|S3\"", "\"YWI=\"", "616200"},
            {"\"|S3\"", "\"abc\"", nullptr},
            {"\">U2\"", "\"a\"", "6100000000000000"},
            {"\">U2\"", "\"abc\"", nullptr},
            {"\"|V3\"", "\"AQID\"", "010203"},
            {"\"|V3\"", "\"AQI=\"", nullptr},
            {"\"|V3\"", "0", "000000"},
            {R"([["a", "<i4"], ["b", "<f8"]])", "\"AQAAAAAAAAAAAPA/\"", "01000000000000000000f03f"},
            {R"([["a", "<i4"], ["b", "|S2"]])", "0", "000000000000"},
            {R"([["a", "<i4"]])", "1", nullptr}});
}

TEST(V2Fill, Base64OfStructIsAsStored) {
  check_v2({{R"([["a", ">i2"], ["b", "<i2"], ["c", "|u1"]])", "\"AAECAAM=\"", "0100020003"}});
}

// Reference: the compiler's own rounding to float, and an exhaustive search for the nearest half float.
TEST(NumberBits, Float32RoundsAsTheProcessorDoes) {
  std::uint64_t state = 1;
  for (int i = 0; i < 200000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    // Exponents around the whole range of float, with mantissas that are often at a tie.
    const std::uint64_t exponent = 1023 - 160 + (state >> 40) % 300;
    std::uint64_t mantissa = state >> 12;
    if ((state & 3) == 0) mantissa &= ~((std::uint64_t{1} << 28) - 1);
    const double value =
        std::bit_cast<double>((state & 1) << 63 | exponent << 52 | (mantissa & ((std::uint64_t{1} << 52) - 1)));
    if (std::fabs(value) > 3.5e38) {
      EXPECT_EQ(float_bits(value, kFloat32), infinity_bits(value < 0, kFloat32));
      continue;
    }
    ASSERT_EQ(float_bits(value, kFloat32), std::bit_cast<std::uint32_t>(static_cast<float>(value))) << value;
    ASSERT_EQ(float_bits(value, kFloat64), std::bit_cast<std::uint64_t>(value));
  }
}

TEST(NumberBits, HalvesRoundTripAndTiesGoToEven) {
  const auto value_of = [](std::uint32_t bits) {
    const int exponent = static_cast<int>(bits >> 10);
    return exponent == 0 ? std::ldexp(bits, -24) : std::ldexp(1024 + (bits & 1023), exponent - 25);
  };
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    ASSERT_EQ(float_bits(value_of(bits), kFloat16), bits);
    ASSERT_EQ(float_bits(-value_of(bits), kFloat16), bits | 0x8000);
    const double next = bits == 0x7bff ? 65536 : value_of(bits + 1);
    const double tie = (value_of(bits) + next) / 2;
    ASSERT_EQ(float_bits(tie, kFloat16), bits + (bits & 1));
    ASSERT_EQ(float_bits(std::nextafter(tie, 0), kFloat16), bits);
    ASSERT_EQ(float_bits(std::nextafter(tie, 1e9), kFloat16), bits + 1);
  }
  EXPECT_EQ(float_bits(5e-324, kFloat16), 0u);
  EXPECT_EQ(float_bits(5e-324, kFloat64), 1u);
  EXPECT_EQ(float_bits(1e300, kFloat16), 0x7c00u);
}

TEST(NumberBits, IntegersRoundOnce) {
  // Via double, the last 1 would be lost and the rest would be a tie.
  EXPECT_EQ(float_bits_of_integer((std::uint64_t{1} << 60) + (std::uint64_t{1} << 36) + 1, false, kFloat32),
            0x5d800001u);
  EXPECT_EQ(float_bits_of_integer((std::uint64_t{1} << 60) + (std::uint64_t{1} << 36), false, kFloat32), 0x5d800000u);
  EXPECT_EQ(float_bits_of_integer(65520, true, kFloat16), 0xfc00u);
  EXPECT_EQ(float_bits_of_integer(65519, false, kFloat16), 0x7bffu);
}

}  // namespace
}  // namespace headrace::zarr
