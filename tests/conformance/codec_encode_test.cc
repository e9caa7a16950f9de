// For every codec in the table, its decoder restores what its encoder wrote byte for byte, whatever the size, the
// content and earlier calls, and the encoded size stays within the bound.
#include <lz4.h>

#include <algorithm>
#include <climits>
#include <string>
#include <vector>

#include "base/json.h"
#include "codec/encoder.h"
#include "tests/support/codec_seed.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

struct Case {
  std::string codec;  // row of the table
  std::string name, config;
  int format = 3;
  std::size_t item_bytes = 1;  // sizes are multiples of it
};

const std::vector<Case> kChosen = {
    {"zstd", "zstd", R"({"level":3,"checksum":false})"},
    {"zstd", "zstd", R"({"level":-5,"checksum":true})"},
    {"zstd", "zstd", "{}", 2},
    {"zstd", "zstd", R"({"level":99})", 2},
    {"gzip", "gzip", R"({"level":0})"},
    {"gzip", "gzip", R"({"level":5})"},
    {"gzip", "gzip", "{}", 2},
    {"gzip", "gzip", R"({"level":-1})", 2},
    {"zlib", "zlib", R"({"level":1})", 2},
    {"zlib", "zlib", R"({"level":9})", 2},
    {"bz2", "bz2", "{}", 2},
    {"bz2", "numcodecs.bz2", R"({"level":9})"},
    {"lzma", "lzma", R"({"preset":0})", 2},
    {"lzma", "numcodecs.lzma", R"({"format":1,"check":10,"preset":1,"filters":null})"},
    {"lzma", "lzma", R"({"filters":[{"id":3,"dist":4},{"id":33,"preset":0}],"check":0})", 2},
    {"lzma", "lzma", R"({"format":2,"preset":0})", 2},
    {"lzma", "lzma", R"({"format":3,"filters":[{"id":4},{"id":33,"preset":0,"dict_size":4096}]})", 2},
    {"lzma", "lzma", R"({"format":3,"filters":[{"id":4611686018427387905,"preset":0}]})", 2},
    {"base64", "base64", "{}", 2},
    {"jenkins_lookup3", "jenkins_lookup3", R"({"initval":7,"prefix":[1,2,3]})", 2},
    {"lz4", "lz4", R"({"acceleration":1})", 2},
    {"lz4", "numcodecs.lz4", R"({"acceleration":50})"},
    {"crc32c", "crc32c", "{}"},
    {"crc32c", "numcodecs.crc32c", R"({"location":"start"})"},
    {"crc32", "crc32", "{}", 2},
    {"crc32", "numcodecs.crc32", R"({"location":"end"})"},
    {"adler32", "adler32", "{}", 2},
    {"adler32", "numcodecs.adler32", R"({"location":"end"})"},
    {"fletcher32", "fletcher32", "{}", 2},
    {"delta", "delta", R"({"dtype":"|u1"})", 2},
    {"delta", "delta", R"({"dtype":"<i2","astype":">i2"})", 2, 2},
    {"delta", "delta", R"({"dtype":">u4"})", 2, 4},
    {"delta", "numcodecs.delta", R"({"dtype":"int64"})", 3, 8},
    {"packbits", "packbits", "{}", 2},
    {"packbits", "numcodecs.packbits", "{}"},
    {"shuffle", "shuffle", R"({"elementsize":0})", 2},
    {"shuffle", "shuffle", R"({"elementsize":2})", 2, 2},
    {"shuffle", "shuffle", R"({"elementsize":3})", 2, 3},
    {"shuffle", "shuffle", R"({"elementsize":4})", 2, 4},
    {"shuffle", "shuffle", R"({"elementsize":8})", 2, 8},
    {"shuffle", "shuffle", R"({"elementsize":300})", 2, 300},
    {"blosc", "blosc", R"({"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0})"},
    {"blosc", "blosc", R"({"cname":"lz4","clevel":9,"shuffle":"noshuffle","typesize":4,"blocksize":0})"},
    {"blosc", "blosc", R"({"cname":"zstd","clevel":2,"shuffle":"shuffle","typesize":4,"blocksize":0})"},
    {"blosc", "blosc", R"({"cname":"zstd","clevel":1,"shuffle":"noshuffle","typesize":1,"blocksize":0})"},
    {"blosc", "blosc", R"({"cname":"zstd","clevel":3,"shuffle":"shuffle","typesize":7,"blocksize":1000})"},
    {"blosc", "blosc", R"({"cname":"lz4","clevel":1,"shuffle":"shuffle","typesize":16,"blocksize":4096})"},
    {"blosc", "blosc", R"({"cname":"lz4","clevel":1,"shuffle":"shuffle","typesize":17,"blocksize":400})"},
    {"blosc", "blosc", R"({"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":1000,"blocksize":0})"},
    {"blosc", "blosc", R"({"cname":"lz4","clevel":0,"shuffle":"shuffle","typesize":4,"blocksize":0})"},
    {"blosc", "blosc", "{}", 2},
    {"blosc", "blosc", R"({"cname":"zstd","clevel":1,"shuffle":-1,"typesize":255,"blocksize":512})", 2},
};

// The cases above, and one for each other codec in the table that can encode.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> out = kChosen;
    for (const codec::CodecRow& row : codec::codecs()) {
      if (std::any_of(out.begin(), out.end(), [&](const Case& test) { return test.codec == row.name; })) continue;
      const int format = *row.v2_ids != '\0' ? 2 : 3;
      const std::string_view names = format == 2 ? row.v2_ids : row.v3_names;
      const std::string name(names.substr(0, names.find(' ')));
      const std::string config = format == 2 ? codec_seed_config(row.name, 0).dump() : row.config;
      const auto made = try_make(name, config, format);
      const codec::StreamCoder* const coder = made.ok() ? made->coder() : nullptr;
      if (coder != nullptr && coder->make_encoder().ok()) out.push_back({row.name, name, config, format});
    }
    return out;
  }();
  return all;
}

// Content that the codec can represent: bools for packbits.
Bytes content_of(const Case& test, std::size_t bytes, Content content, unsigned seed = 1) {
  Bytes plain = sample(bytes, content, seed);
  if (test.codec == "packbits") {
    for (std::byte& byte : plain) byte &= std::byte{1};
  }
  return plain;
}

std::unique_ptr<codec::Encoder> encoder_of(const codec::StreamCoder& codec) {
  auto made = codec.make_encoder();
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? std::move(made).value() : nullptr;
}

// Encodes into a buffer of exactly the bound's size, with a guard page behind it.
Bytes encode(codec::Encoder& encoder, const Bytes& plain) {
  const GuardBuffer in(plain, Flush::kRight), out(encoder.bound_bytes(plain.size()), Flush::kRight);
  const auto bytes = encoder.encode(in.span(), out.span());
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  EXPECT_TRUE(out.intact());
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), in.data()));
  if (!bytes.ok()) return {};
  EXPECT_LE(*bytes, out.size());
  return {out.data(), out.data() + *bytes};
}

TEST(CodecEncode, EveryCodecReadsWhatItWrote) {
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.name + " " + test.config);
    const auto codec = make(test.name, test.config, test.format);
    ASSERT_NE(codec, nullptr);
    const auto encoder = encoder_of(*codec);
    ASSERT_NE(encoder, nullptr);
    Decoder decode(*codec);
    for (const std::size_t items : {1, 2, 3, 5, 31, 127, 128, 129, 1000, 4097, 70'001}) {
      for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
        const Bytes plain = content_of(test, items * test.item_bytes, content, unsigned(items));
        const Bytes encoded = encode(*encoder, plain);
        EXPECT_LE(encoded.size(), codec->encoded_size(plain.size()).most);
        const Decoded got = decode(encoded, plain.size());
        ASSERT_TRUE(got.status.ok()) << plain.size() << " bytes: " << got.status.to_string();
        ASSERT_TRUE(got.bytes == plain) << plain.size() << " bytes";
      }
    }
  }
}

TEST(CodecEncode, BytesDependOnTheInputOnly) {
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.name + " " + test.config);
    const auto codec = make(test.name, test.config, test.format);
    const auto used = encoder_of(*codec);
    const Bytes plain = sample(3000 * test.item_bytes, Content::kSmooth);
    for (const Content content : {Content::kRandom, Content::kText}) {
      encode(*used, sample(7777 * test.item_bytes, content));
      EXPECT_TRUE(encode(*used, plain) == encode(*encoder_of(*codec), plain));
    }
  }
}

// Positive control: the encoders do compress.
TEST(CodecEncode, CompressorsCompress) {
  for (const Case& test : cases()) {
    const auto codec = make(test.name, test.config, test.format);
    const Bytes plain = sample(3000 * test.item_bytes * 16, Content::kZeros);
    const std::size_t bytes = encode(*encoder_of(*codec), plain).size();
    const codec::EncodedSize size = codec->encoded_size(plain.size());
    const bool stores = test.config.find(R"("level":0)") != std::string::npos ||
                        test.config.find(R"("clevel":0)") != std::string::npos ||
                        (size.exact && size.most >= plain.size());
    EXPECT_EQ(bytes < plain.size() / 2, !stores) << test.name << " " << test.config << ": " << bytes;
  }
}

TEST(CodecEncode, WhatCannotBeWrittenIsNamed) {
  for (const char* config : {R"({"cname":"zlib","clevel":5,"shuffle":"noshuffle"})",
                             R"({"cname":"blosclz","clevel":5,"shuffle":"noshuffle"})"}) {
    const auto made = make("blosc", config)->make_encoder();
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), Code::kUnsupported);
    EXPECT_NE(made.status().message().find("lz4 and zstd"), std::string::npos) << made.status().message();
  }
  const auto bits = make("blosc", R"({"cname":"lz4","clevel":5,"shuffle":"bitshuffle","typesize":4})")->make_encoder();
  ASSERT_FALSE(bits.ok());
  EXPECT_NE(bits.status().message().find("bitshuffle"), std::string::npos) << bits.status().message();
  for (const char* config : {R"({"dtype":"<f4"})", R"({"dtype":"<i4","astype":"<i2"})"}) {
    const auto delta = make("delta", config, 2)->make_encoder();
    ASSERT_FALSE(delta.ok());
    EXPECT_EQ(delta.status().code(), Code::kUnsupported);
    EXPECT_NE(delta.status().message().find("'delta'"), std::string::npos) << delta.status().message();
  }
  const auto astype = make("astype", R"({"encode_dtype":"<i2","decode_dtype":"<i4"})", 2)->make_encoder();
  ASSERT_FALSE(astype.ok());
  EXPECT_EQ(astype.status().code(), Code::kUnsupported);
  EXPECT_NE(astype.status().message().find("'astype'"), std::string::npos);
}

TEST(CodecEncode, InputBeyondTheFormatIsRefusedBeforeItIsRead) {
  std::byte one{};
  const std::span<const std::byte> vast(&one, std::size_t{LZ4_MAX_INPUT_SIZE} + 1), int_max(&one, INT_MAX);
  const auto lz4 = encoder_of(*make("numcodecs.lz4"))->encode(vast, {});
  EXPECT_EQ(lz4.status().code(), Code::kInvalidArgument);
  EXPECT_NE(lz4.status().message().find(std::to_string(vast.size())), std::string::npos);
  const auto blosc = encoder_of(*make("blosc", "{}", 2))->encode(int_max, {});
  EXPECT_EQ(blosc.status().code(), Code::kInvalidArgument);
  const auto ragged = encoder_of(*make("numcodecs.shuffle"))->encode({&one, 3}, {});
  EXPECT_EQ(ragged.status().code(), Code::kInvalidArgument);
  EXPECT_NE(ragged.status().message().find("element size 4"), std::string::npos);
}

}  // namespace
}  // namespace headrace::test
