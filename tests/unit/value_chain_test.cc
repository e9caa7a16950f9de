// Codecs that change values, in chains of v3 metadata: types, byte order and axes are tracked through them.
#include "base/json.h"
#include "codec/chain.h"
#include "tests/support/codec_testing.h"
#include "zarr/shard/chain_builder.h"

namespace headrace::test {
namespace {

Result<codec::Chain> build(std::string_view codecs, const DataType& dtype, const std::vector<std::uint64_t>& shape) {
  auto json = base::parse_json(codecs);
  EXPECT_TRUE(json.ok()) << json.status().to_string();
  std::vector<zarr::CodecSpec> specs;
  for (const base::Json& item : *json) {
    auto spec = zarr::parse_extension(item, "codec");
    EXPECT_TRUE(spec.ok());
    specs.push_back(std::move(*spec));
  }
  zarr::ChunkCodecs about;
  about.dtype = &dtype;
  return zarr::build_chain(specs, shape, about);
}

template <class T>
Bytes bytes_of(std::vector<T> values, bool reversed = false) {
  Bytes out(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  for (std::size_t i = 0; reversed && i < out.size(); i += sizeof(T)) std::reverse(&out[i], &out[i] + sizeof(T));
  return out;
}

Decoded decode(const codec::Chain& chain, const Bytes& stored) {
  Bytes temporary[2] = {Bytes(chain.temporary_bytes()), Bytes(chain.temporary_bytes())};
  auto workspace = chain.make_workspace();
  for (int i = 0; i < 2; ++i) workspace.temporary[i] = temporary[i];
  Decoded out;
  out.bytes.resize(chain.decoded_bytes());
  out.status = chain.decode(stored, out.bytes, workspace);
  return out;
}

constexpr const char* kLittle = R"({"name":"bytes","configuration":{"endian":"little"}})";
constexpr const char* kBig = R"({"name":"bytes","configuration":{"endian":"big"}})";

std::string list(std::initializer_list<std::string> codecs) {
  std::string out;
  for (const std::string& codec : codecs) out += (out.empty() ? "[" : ",") + codec;
  return out + "]";
}

const std::string kScale =
    R"({"name":"numcodecs.fixedscaleoffset","configuration":{"offset":1000,"scale":10,"dtype":"<f4","astype":"<i2"}})";
const std::string kDelta = R"({"name":"numcodecs.delta","configuration":{"dtype":"<i2"}})";
const std::string kTranspose = R"({"name":"transpose","configuration":{"order":[1,0]}})";

TEST(ValueChain, TheStoredTypeIsNotTheArrays) {
  for (const bool big : {false, true}) {
    auto chain =
        build(list({kScale, kDelta, big ? kBig : kLittle, R"({"name":"crc32c"})"}), numeric_type("float32"), {4});
    ASSERT_TRUE(chain.ok()) << chain.status().to_string();
    EXPECT_EQ(chain->decoded_bytes(), 16u);
    EXPECT_TRUE(chain->encoded_exact());
    EXPECT_EQ(chain->max_encoded_bytes(), 12u);
    EXPECT_FALSE(chain->raw());
    EXPECT_FALSE(chain->layout().byte_swapped) << "the codec that reads big-endian elements writes others";
    const auto crc = make("crc32c")->make_encoder();
    Bytes stored(12);
    ASSERT_TRUE((*crc)->encode(bytes_of<std::int16_t>({5, 10, -20, 0}, big), stored).ok());
    const Decoded got = decode(*chain, stored);
    ASSERT_TRUE(got.status.ok()) << got.status.to_string();
    EXPECT_EQ(got.bytes, bytes_of<float>({1000.5f, 1001.5f, 999.5f, 999.5f}));
  }
}

TEST(ValueChain, AxesMayMoveBeforeAnythingAndAfterElementwiseCodecs) {
  for (const std::string& codecs : {list({kTranspose, kScale, kLittle}), list({kScale, kTranspose, kLittle})}) {
    auto chain = build(codecs, numeric_type("float32"), {2, 3});
    ASSERT_TRUE(chain.ok()) << chain.status().to_string();
    EXPECT_EQ(chain->layout().axis_order, (std::vector<std::uint8_t>{1, 0}));
    EXPECT_EQ(chain->strides_bytes(), (std::vector<std::int64_t>{4, 8})) << "in decoded elements";
  }
  const auto before = build(list({kTranspose, kDelta, kLittle}), numeric_type("int16"), {2, 3});
  ASSERT_TRUE(before.ok()) << before.status().to_string();
  EXPECT_FALSE(before->reorders()) << "axes that moved before delta are the layout's";
  EXPECT_EQ(before->strides_bytes(), (std::vector<std::int64_t>{2, 4}));
  const auto same = build(list({kDelta, R"({"name":"transpose","configuration":{"order":[0,1]}})", kLittle}),
                          numeric_type("int16"), {2, 3});
  ASSERT_TRUE(same.ok()) << same.status().to_string();
  EXPECT_FALSE(same->reorders()) << "axes that stay where they are cost nothing";
}

// Delta sums along the array's original axis order, so stored elements must first be put back into that order.
TEST(ValueChain, AxesAreTransposedAfterDeltaByASeparateStage) {
  for (const bool big : {false, true}) {
    auto chain = build(list({kDelta, kTranspose, big ? kBig : kLittle}), numeric_type("int16"), {2, 3});
    ASSERT_TRUE(chain.ok()) << chain.status().to_string();
    EXPECT_TRUE(chain->reorders());
    EXPECT_FALSE(chain->raw());
    EXPECT_EQ(chain->strides_bytes(), (std::vector<std::int64_t>{6, 2})) << "the stage leaves the array's own order";
    const Decoded got = decode(*chain, bytes_of<std::int16_t>({10, 0, 5, 12, -20, 93}, big));
    ASSERT_TRUE(got.status.ok()) << got.status.to_string();
    EXPECT_EQ(got.bytes, bytes_of<std::int16_t>({10, 15, -5, -5, 7, 100}));
  }
}

TEST(ValueChain, PackbitsChangesTheShape) {
  const std::string pack = R"({"name":"numcodecs.packbits"})";
  auto chain = build(list({pack, R"({"name":"bytes"})"}), numeric_type("bool"), {3, 5});
  ASSERT_TRUE(chain.ok()) << chain.status().to_string();
  EXPECT_EQ(chain->max_encoded_bytes(), 3u);
  EXPECT_TRUE(build(list({pack, R"({"name":"transpose","configuration":{"order":[0]}})", R"({"name":"bytes"})"}),
                    numeric_type("bool"), {3, 5})
                  .ok());
  EXPECT_EQ(build(list({pack, R"({"name":"bytes"})"}), numeric_type("int8"), {3}).status().code(), Code::kCorrupt);
}

TEST(ValueChain, BitroundCostsNothing) {
  auto chain =
      build(list({R"({"name":"bitround","configuration":{"keepbits":3}})", kBig}), numeric_type("float32"), {3});
  ASSERT_TRUE(chain.ok()) << chain.status().to_string();
  EXPECT_TRUE(chain->raw());
  EXPECT_TRUE(chain->layout().byte_swapped);
}

TEST(ValueChain, TypesMustFit) {
  const auto wrong = build(list({kScale, kLittle}), numeric_type("float64"), {4});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.status().code(), Code::kCorrupt);
  EXPECT_NE(wrong.status().message().find("float64"), std::string::npos) << wrong.status().message();
  // After fixedscaleoffset the elements are int16.
  EXPECT_EQ(build(list({kScale, R"({"name":"numcodecs.delta","configuration":{"dtype":"<f4"}})", kLittle}),
                  numeric_type("float32"), {4})
                .status()
                .code(),
            Code::kCorrupt);
  // A one-byte type needs no "endian".
  EXPECT_TRUE(build(list({R"({"name":"cast_value","configuration":{"data_type":"uint8"}})", R"({"name":"bytes"})"}),
                    numeric_type("float32"), {4})
                  .ok());
  const auto shard = build(
      list(
          {kScale,
           R"({"name":"sharding_indexed","configuration":{"chunk_shape":[2],"codecs":["bytes"],"index_codecs":["bytes"]}})"}),
      numeric_type("float32"), {4});
  EXPECT_EQ(shard.status().code(), Code::kUnsupported) << shard.status().to_string();
}

// The example of the registered extension: uint16 minus 1000 as uint8.
TEST(ValueChain, ScaleOffsetThenCastValue) {
  auto chain = build(list({R"({"name":"scale_offset","configuration":{"offset":1000}})",
                           R"({"name":"cast_value","configuration":{"data_type":"uint8"}})", R"("bytes")"}),
                     numeric_type("uint16"), {4});
  ASSERT_TRUE(chain.ok()) << chain.status().to_string();
  const Decoded got = decode(*chain, bytes_of<std::uint8_t>({0, 1, 200, 255}));
  ASSERT_TRUE(got.status.ok()) << got.status.to_string();
  EXPECT_EQ(got.bytes, bytes_of<std::uint16_t>({1000, 1001, 1200, 1255}));
}

template <class From, class To>
Decoded one(std::string_view codec, const char* type, std::vector<From> stored) {
  const std::string codecs = list({std::string(codec), kLittle});
  auto chain = build(codecs, numeric_type(type), {stored.size()});
  EXPECT_TRUE(chain.ok()) << chain.status().to_string();
  return chain.ok() ? decode(*chain, bytes_of(stored)) : Decoded{chain.status(), {}};
}

std::string cast(std::string_view rest) {
  return R"({"name":"cast_value","configuration":{"data_type":)" + std::string(rest) + "}}";
}

TEST(ValueChain, CastValueRoundsAndKeepsToTheRange) {
  const std::vector<float> halves = {0.5f, 1.5f, -0.5f, -1.5f, 2.25f, -2.75f};
  const auto rounded = [&](const char* mode) {
    return one<float, std::int8_t>(cast(R"("float32","rounding":")" + std::string(mode) + "\""), "int8", halves).bytes;
  };
  EXPECT_EQ(rounded("nearest-even"), bytes_of<std::int8_t>({0, 2, 0, -2, 2, -3}));
  EXPECT_EQ(rounded("towards-zero"), bytes_of<std::int8_t>({0, 1, 0, -1, 2, -2}));
  EXPECT_EQ(rounded("towards-positive"), bytes_of<std::int8_t>({1, 2, 0, -1, 3, -2}));
  EXPECT_EQ(rounded("towards-negative"), bytes_of<std::int8_t>({0, 1, -1, -2, 2, -3}));
  EXPECT_EQ(rounded("nearest-away"), bytes_of<std::int8_t>({1, 2, -1, -2, 2, -3}));

  const std::vector<std::int16_t> wide = {127, 128, -128, -129, 255, 256};
  EXPECT_EQ((one<std::int16_t, std::int8_t>(cast(R"("int16")"), "int8", wide).status.code()), Code::kCorrupt);
  EXPECT_EQ((one<std::int16_t, std::int8_t>(cast(R"("int16","out_of_range":"clamp")"), "int8", wide).bytes),
            bytes_of<std::int8_t>({127, 127, -128, -128, 127, 127}));
  EXPECT_EQ((one<std::int16_t, std::int8_t>(cast(R"("int16","out_of_range":"wrap")"), "int8", wide).bytes),
            bytes_of<std::int8_t>({127, -128, -128, 127, -1, 0}));
  EXPECT_EQ((one<std::int16_t, std::uint8_t>(cast(R"("int16","out_of_range":"clamp")"), "uint8", wide).bytes),
            bytes_of<std::uint8_t>({127, 128, 0, 0, 255, 255}));

  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ((one<float, std::int16_t>(cast(R"("float32","out_of_range":"clamp")"), "int16", {inf, -inf, 4e9f}).bytes),
            bytes_of<std::int16_t>({32767, -32768, 32767}));
  EXPECT_EQ((one<float, std::int16_t>(cast(R"("float32","out_of_range":"clamp")"), "int16", {nan}).status.code()),
            Code::kCorrupt);
  EXPECT_EQ((one<double, float>(cast(R"("float64")"), "float32", {1e300}).status.code()), Code::kCorrupt);
  EXPECT_EQ((one<double, float>(cast(R"("float64","out_of_range":"clamp")"), "float32", {1e300, -1e300, 0.1}).bytes),
            bytes_of<float>({inf, -inf, 0.1f}));
  EXPECT_EQ((one<std::uint64_t, float>(cast(R"("uint64")"), "float32", {~std::uint64_t{0}, 16777217}).bytes),
            bytes_of<float>({0x1p64f, 16777216.0f}));
  // A decoded value that does not fit may wrap if the stored type is an integer.
  EXPECT_EQ((one<std::uint64_t, std::int32_t>(cast(R"("uint64","out_of_range":"wrap")"), "int32",
                                              {0xFFFFFFFF, std::uint64_t{1} << 63})
                 .bytes),
            bytes_of<std::int32_t>({-1, 0}));
}

TEST(ValueChain, CastValueLooksUpScalars) {
  const Decoded got = one<std::uint8_t, float>(
      cast(R"("uint8","scalar_map":{"decode":[[255,"NaN"],[254,"Infinity"],[255,7]],"encode":[["NaN",255]]})"),
      "float32", {1, 255, 254});
  ASSERT_TRUE(got.status.ok()) << got.status.to_string();
  const Bytes expected = bytes_of<std::uint32_t>({0x3F800000, 0x7FC00000, 0x7F800000});
  EXPECT_EQ(got.bytes, expected);
}

TEST(ValueChain, ScaleOffsetIsExactInIntegers) {
  const std::string codec = R"({"name":"scale_offset","configuration":{"offset":-3,"scale":2}})";
  EXPECT_EQ((one<std::int8_t, std::int8_t>(codec, "int8", {4, -128, 0}).bytes), bytes_of<std::int8_t>({-1, -67, -3}));
  EXPECT_EQ((one<std::int8_t, std::int8_t>(codec, "int8", {5}).status.code()), Code::kCorrupt) << "no integer";
  const std::string far = R"({"name":"scale_offset","configuration":{"offset":100}})";
  EXPECT_EQ((one<std::int8_t, std::int8_t>(far, "int8", {28}).status.code()), Code::kCorrupt) << "does not fit";
  EXPECT_EQ((one<float, float>(R"({"name":"scale_offset","configuration":{"offset":5,"scale":0.1}})", "float32", {0.7f})
                 .bytes),
            bytes_of<float>({0.7f / 0.1f + 5.0f}));
  EXPECT_EQ((one<float, float>(R"({"name":"scale_offset"})", "float32", {0.7f}).bytes), bytes_of<float>({0.7f}));
}

}  // namespace
}  // namespace headrace::test
