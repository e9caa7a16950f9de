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
  return codec::make_codec("scale_offset", *json, context).status();
}

TEST(ScaleOffsetCodec, Configuration) {
  EXPECT_TRUE(with_type("{}", "float32").ok());
  EXPECT_TRUE(with_type(R"({"scale":"0x3f000000","offset":"-Infinity"})", "float32").ok());
  for (const char* config : {R"({"scale":0})", R"({"scale":1.5})", R"({"offset":300})", R"({"offset":-1})",
                             R"({"scale":"1"})", R"({"offset":null})", R"({"dtype":"uint8"})"}) {
    EXPECT_EQ(with_type(config, "uint8").code(), Code::kCorrupt) << config;
  }
  EXPECT_EQ(with_type(R"({"scale":"0x3f0000000"})", "float32").code(), Code::kCorrupt);
  for (const char* type : {"bool", "complex64", "bfloat16"}) {
    EXPECT_EQ(with_type("{}", type).code(), Code::kUnsupported) << type;
  }
}

}  // namespace
}  // namespace headrace::test
