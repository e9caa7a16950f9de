// bytes defines the byte order of elements, and requires the setting wherever it matters.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

Status resolve(std::string_view config, const DataType& type, bool& swapped) {
  const auto codec = make("bytes", config);
  std::vector<std::uint64_t> shape = {2, 3};
  codec::Layout layout;
  layout.axis_order = {1, 0};
  const Status status = enter(codec.codec(), type, shape, layout);
  EXPECT_EQ(shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(layout.axis_order, (std::vector<std::uint8_t>{1, 0}));
  swapped = layout.byte_swapped;
  return status;
}

TEST(BytesCodec, Endian) {
  bool swapped = false;
  EXPECT_TRUE(resolve(R"({"endian":"little"})", numeric_type("float32"), swapped).ok());
  EXPECT_FALSE(swapped);
  EXPECT_TRUE(resolve(R"({"endian":"big"})", numeric_type("float32"), swapped).ok());
  EXPECT_TRUE(swapped);
  EXPECT_TRUE(resolve(R"({"endian":"big"})", numeric_type("complex64"), swapped).ok());
  EXPECT_TRUE(swapped);
}

TEST(BytesCodec, EndianIsRequiredWhereItMatters) {
  bool swapped = false;
  for (const char* name : {"int16", "uint32", "float64", "bfloat16", "complex128"}) {
    const Status status = resolve("{}", numeric_type(name), swapped);
    EXPECT_EQ(status.code(), Code::kCorrupt) << name;
    EXPECT_NE(status.message().find("endian"), std::string::npos);
  }
  for (const char* name : {"bool", "int8", "uint8"}) {
    EXPECT_TRUE(resolve("{}", numeric_type(name), swapped).ok());
    EXPECT_TRUE(resolve(R"({"endian":"big"})", numeric_type(name), swapped).ok());
    EXPECT_FALSE(swapped) << "one byte has no order";
  }
  DataType pair;
  pair.kind = TypeKind::kStruct;
  pair.name = "struct";
  pair.item_bytes = 5;
  pair.swap_runs = {{1, 1}, {4, 1}};
  EXPECT_EQ(resolve("{}", pair, swapped).code(), Code::kCorrupt);
  EXPECT_TRUE(resolve(R"({"endian":"big"})", pair, swapped).ok());
  EXPECT_TRUE(swapped);
  pair.swap_runs = {{1, 5}};
  EXPECT_TRUE(resolve("{}", pair, swapped).ok());
}

TEST(BytesCodec, Configuration) {
  expect_refused("bytes", R"({"endian":"native"})", "endian");
  expect_refused("bytes", R"({"endian":null})", "endian");
  expect_refused("bytes", R"({"endian":"little","order":"C"})", "order");
  expect_refused("bytes", "[]", "object");
  EXPECT_EQ(try_make("bytes", "{}", 2).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace headrace::test
