// Streams of zfpy, with and without header, decode to the same elements as with zfpy; no stream is read past its end.
#include <zfp.h>

#include <random>

#include "base/json.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

// np.arange(6, dtype="<f4").reshape(2, 3) * 1.5, which every mode below preserves; by zfpy 1.0.1.
const Bytes kPlain = from_hex("000000000000c03f00004040000090400000c0400000f040");
constexpr std::string_view kReversible = "7a6670052600001000000088091689990410c92400000000";
constexpr std::string_view kAccuracy = "7a667005260000100000f0ca052d71510a698409001200000000000000000000";
struct Mode {
  const char* config;
  std::string_view hex;
};
constexpr Mode kWithoutHeader[] = {
    {R"({"mode":"fixed_rate","rate":16})", "052d71510a698409001200000000000000000000000000000000000000000000"},
    {R"({"mode":"fixed_accuracy","tolerance":0.1})", "052d71510a6984090012000000000000"},
    {R"({"mode":"fixed_precision","precision":16})", "052d71510a69840900120000000000000000000000000000"},
    {R"({"mode":"reversible"})", "091689990410c924"},
    {R"({"mode":"expert","minbits":256,"maxbits":256,"maxprec":64,"minexp":-1074})",
     "052d71510a698409001200000000000000000000000000000000000000000000"},
};

using Shape = std::vector<std::uint64_t>;

Result<codec::Codec> try_zfp(std::string_view name, std::string_view config, std::string_view type = "float32",
                             const Shape* shape = nullptr) {
  const DataType dtype = numeric_type(type);
  codec::CodecArgs context;
  context.dtype = &dtype;
  context.shape = shape;
  return codec::make_codec(name, *base::parse_json(config), context);
}

MadeCodec zfp_of(std::string_view name, std::string_view config, const Shape& shape,
                 std::string_view type = "float32") {
  auto made = try_zfp(name, config, type, &shape);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? MadeCodec(std::move(made).value()) : MadeCodec();
}

TEST(ZfpCodec, EveryModeWithoutHeader) {
  for (const Mode& mode : kWithoutHeader) {
    const auto codec = zfp_of("zfp", mode.config, {2, 3});
    const Decoded got = Decoder(*codec)(from_hex(mode.hex), kPlain.size());
    EXPECT_TRUE(got.status.ok()) << mode.config << ": " << got.status.to_string();
    EXPECT_EQ(got.bytes, kPlain) << mode.config;
    damage(*codec, from_hex(mode.hex), kPlain.size());
  }
}

TEST(ZfpCodec, HeaderSaysEverything) {
  for (const std::string_view hex : {kReversible, kAccuracy}) {
    const Bytes stream = from_hex(hex);
    for (const auto& codec : {make("zfpy", R"({"mode":4,"tolerance":-1,"rate":-1,"precision":-1})", 2),
                              zfp_of("numcodecs.zfpy", "{}", {2, 3})}) {
      const Decoded got = Decoder(*codec)(stream, kPlain.size());
      EXPECT_TRUE(got.status.ok()) << got.status.to_string();
      EXPECT_EQ(got.bytes, kPlain);
    }
  }
  damage(*make("zfpy", "{}", 2), from_hex(kReversible), kPlain.size());
}

TEST(ZfpCodec, HeaderAgreesWithTheMetadata) {
  const Bytes stream = from_hex(kReversible);
  for (const std::vector<std::uint64_t>& shape : {std::vector<std::uint64_t>{3, 2}, {6}, {1, 2, 3}}) {
    const Decoded got = Decoder(*zfp_of("numcodecs.zfpy", "{}", shape))(stream, kPlain.size());
    EXPECT_NE(got.status.message().find("shape differs"), std::string::npos) << got.status.message();
  }
  const auto ints = try_zfp("numcodecs.zfpy", "{}", "int32");
  EXPECT_NE(Decoder(*ints->coder())(stream, kPlain.size()).status.message().find("type differs"), std::string::npos);
  EXPECT_EQ(Decoder(*make("zfpy", "{}", 2))(stream, 4096).status.code(), Code::kCorrupt);
  EXPECT_EQ(Decoder(*make("zfpy", "{}", 2))(stream, 4096, false).bytes, kPlain);
}

// Random bits as streams: each ends in a status, between guard pages, for every mode and number of axes.
TEST(ZfpCodec, RandomBits) {
  std::mt19937 random(5);
  const std::vector<std::vector<std::uint64_t>> shapes = {{}, {7}, {100}, {5, 9}, {4, 4, 4}, {3, 5, 6}, {5, 2, 3, 6}};
  unsigned whole = 0;
  for (const char* type : {"int8", "uint16", "int32", "uint64", "float32", "float64"}) {
    for (const Mode& mode : kWithoutHeader) {
      for (const auto& shape : shapes) {
        const auto codec = zfp_of("zfp", mode.config, shape, type);
        std::size_t capacity = numeric_type(type).item_bytes;
        for (const std::uint64_t extent : shape) capacity *= extent;
        Decoder decode(*codec);
        for (const std::size_t words : {0, 1, 2, 10, 400}) {
          const Decoded got = decode(sample(8 * words + (words == 10), Content::kRandom, unsigned(random())), capacity);
          whole += got.status.ok();
        }
      }
    }
  }
  EXPECT_LT(whole, 300u);
}

// The premise of decoding block by block: whatever the bits are, a block takes fewer than the padding has.
TEST(ZfpCodec, NoBlockTakesMoreBitsThanThePadding) {
  std::mt19937_64 random(9);
  std::vector<std::uint64_t> words(1 << 12);
  zfp_stream* const zfp = zfp_stream_open(nullptr);
  bitstream* const bits = stream_open(words.data(), words.size() * sizeof words[0]);
  zfp_stream_set_bit_stream(zfp, bits);
  std::uint64_t most = 0;
  for (int round = 0; round < 4000; ++round) {
    // From all zeros to all ones: both extremes make long runs.
    const int density = round % 9;
    for (std::uint64_t& word : words) {
      word = density == 0 ? 0 : density == 8 ? ~std::uint64_t{0} : random();
      if (density < 4) word &= random();
      if (density > 4) word |= random();
    }
    if (round % 3 == 0) zfp_stream_set_reversible(zfp);
    if (round % 3 == 1) zfp_stream_set_accuracy(zfp, 0);
    if (round % 3 == 2) zfp_stream_set_params(zfp, 0, ~0u, ZFP_MAX_PREC, -100'000);
    const auto run = [&](auto decode, auto number) {
      decltype(number) block[256];
      zfp_stream_rewind(zfp);
      decode(zfp, block);
      most = std::max<std::uint64_t>(most, stream_rtell(bits));
    };
    run(&zfp_decode_block_int32_1, std::int32_t{});
    run(&zfp_decode_block_int64_4, std::int64_t{});
    run(&zfp_decode_block_float_2, float{});
    run(&zfp_decode_block_double_3, double{});
    run(&zfp_decode_block_double_4, double{});
    run(&zfp_decode_block_int32_4, std::int32_t{});
  }
  EXPECT_GT(most, 8192u);  // the rounds do produce long blocks
  EXPECT_LE(most, std::uint64_t{ZFP_MAX_BITS} + 64);
  stream_close(bits);
  zfp_stream_close(zfp);
}

// Blocks are full-size however few of their elements are used.
TEST(ZfpCodec, MostBytesOfAStream) {
  const auto flat = zfp_of("zfp", R"({"mode":"fixed_rate","rate":32})", {1, 1'000, 1'000});
  EXPECT_GE(flat->encoded_size(4'000'000).most, 250u * 250 * 64 * 4);
  EXPECT_LE(flat->encoded_size(4'000'000).most, 6u * 4'000'000);
  const auto line = zfp_of("zfp", R"({"mode":"reversible"})", {1, 1, 1, 1'000'000});
  EXPECT_EQ(line->encoded_size(4'000'000).most, 16u * 4'000'000 + 65536);
  EXPECT_EQ(make("zfpy", "{}", 2)->encoded_size(1000).most, 4u * 1000 + 65536);
}

TEST(ZfpCodec, MoreThanFourAxesAreUnsupported) {
  std::vector<std::uint64_t> shape(5, 2);
  codec::Layout layout;
  const auto codec = zfp_of("zfp", R"({"mode":"reversible"})", shape);
  EXPECT_EQ(enter(codec.codec(), numeric_type("float32"), shape, layout).code(), Code::kUnsupported);
}

TEST(ZfpCodec, Configuration) {
  expect_refused("zfp", "{}", "mode");
  expect_refused("zfp", R"({"mode":4})", "mode");
  expect_refused("zfp", R"({"mode":"lossless"})", "mode");
  expect_refused("zfp", R"({"mode":"reversible","rate":3})", "rate");
  expect_refused("zfp", R"({"mode":"fixed_rate"})", "rate");
  expect_refused("zfp", R"({"mode":"fixed_rate","rate":-1})", "rate");
  expect_refused("zfp", R"({"mode":"fixed_rate","rate":1e9})", "rate");
  expect_refused("zfp", R"({"mode":"fixed_accuracy","tolerance":"0.1"})", "tolerance");
  expect_refused("zfp", R"({"mode":"fixed_precision","precision":-1})", "precision");
  expect_refused("zfp", R"({"mode":"expert","minbits":1,"maxbits":2,"maxprec":3})", "minexp");
  expect_refused("zfp", R"({"mode":"expert","minbits":3,"maxbits":2,"maxprec":3,"minexp":0})", "minbits");
  expect_refused("zfp", R"({"mode":"expert","minbits":4294967295,"maxbits":4294967295,"maxprec":3,"minexp":0})",
                 "minbits");
  expect_refused("numcodecs.zfpy", R"({"write_header":true})", "write_header");
  for (const char* type : {"float16", "complex64", "bool"}) {
    EXPECT_EQ(try_zfp("zfp", R"({"mode":"reversible"})", type).status().code(), Code::kUnsupported) << type;
  }
}

}  // namespace
}  // namespace headrace::test
