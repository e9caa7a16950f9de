// Tests configurations; tests/unit/value_chain_test.cc tests the computation.
#include "base/json.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

Status with_type(std::string_view config, const char* type) {
  const auto json = base::parse_json(config);
  const DataType dtype = numeric_type(type);
  codec::CodecArgs context;
  context.dtype = &dtype;
  return codec::make_codec("cast_value", *json, context).status();
}

TEST(CastValueCodec, Configuration) {
  EXPECT_TRUE(
      with_type(R"({"data_type":{"name":"int16"},"rounding":"nearest-away","out_of_range":"wrap"})", "int8").ok());
  for (const char* config :
       {"{}", R"({"data_type":3})", R"({"data_type":"int16","rounding":"up"})",
        R"({"data_type":"int16","out_of_range":"error"})", R"({"data_type":"float32","out_of_range":"wrap"})",
        R"({"data_type":"int16","scalar_map":[]})", R"({"data_type":"int16","scalar_map":{"x":[]}})",
        R"({"data_type":"int16","scalar_map":{"decode":[[1]]}})",
        R"({"data_type":"int16","scalar_map":{"decode":[[70000,1]]}})",
        R"({"data_type":"int16","scalar_map":{"decode":[[1,300]]}})", R"({"data_type":"int16","casting":"safe"})"}) {
    EXPECT_EQ(with_type(config, "uint8").code(), Code::kCorrupt) << config;
  }
  for (const char* type : {"bool", "complex64", "bfloat16"}) {
    EXPECT_EQ(with_type(R"({"data_type":"int16"})", type).code(), Code::kUnsupported) << type;
    EXPECT_EQ(with_type(R"({"data_type":")" + std::string(type) + "\"}", "int16").code(), Code::kUnsupported) << type;
  }
  EXPECT_EQ(with_type(R"({"data_type":"float64","rounding":"towards-zero"})", "float32").code(), Code::kUnsupported);
  EXPECT_TRUE(with_type(R"({"data_type":"int16","rounding":"towards-zero"})", "float32").ok()) << "always exact";
}

}  // namespace
}  // namespace headrace::test
