// The hash equals its author's own values, and follows the bytes.
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

Bytes with_hash(std::string_view text, std::uint32_t hash) {
  Bytes out = to_bytes(text);
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(hash >> (8 * i)));
  return out;
}

// From lookup3.c's driver5(); the value for the single word is numcodecs'.
TEST(JenkinsLookup3Codec, KnownValues) {
  const std::string_view text = "Four score and seven years ago";
  const auto plain = make("jenkins_lookup3", R"({"initval":0,"prefix":null})", 2);
  EXPECT_EQ(Decoder(*plain)(with_hash(text, 0x17770551), text.size()).bytes, to_bytes(text));
  EXPECT_EQ(Decoder(*plain)(with_hash("jenkins", 202276345), 7).bytes, to_bytes("jenkins"));
  EXPECT_TRUE(Decoder(*plain)(with_hash("", 0xDEADBEEF), 0).status.ok());
  const auto seeded = make("numcodecs.jenkins_lookup3", R"({"initval":1})");
  EXPECT_EQ(Decoder(*seeded)(with_hash(text, 0xCD628161), text.size()).bytes, to_bytes(text));
  const auto extreme = make("jenkins_lookup3", R"({"initval":3735928559})", 2);
  EXPECT_TRUE(Decoder(*extreme)(with_hash("", 0xBD5B7DDE), 0).status.ok());
}

// A prefix is hashed as if it preceded the bytes, wherever it ends within the twelve-byte blocks.
TEST(JenkinsLookup3Codec, PrefixIsHashedAndNotStored) {
  const std::string_view text = "Four score and seven years ago";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    std::string prefix;
    for (const char c : text.substr(0, cut)) prefix += (prefix.empty() ? "" : ",") + std::to_string(int(c));
    const auto codec = make("jenkins_lookup3", R"({"prefix":[)" + prefix + "]}", 2);
    const std::string_view rest = text.substr(cut);
    EXPECT_EQ(Decoder(*codec)(with_hash(rest, 0x17770551), rest.size()).bytes, to_bytes(rest)) << cut;
  }
}

TEST(JenkinsLookup3Codec, DamagedStreams) {
  const auto codec = make("jenkins_lookup3", "{}", 2);
  damage(*codec, with_hash("Four score and seven years ago", 0x17770551), 30, true);
  const Decoded got = Decoder(*codec)(with_hash("jenkins", 202276346), 7);
  EXPECT_NE(got.status.message().find("checksum mismatch: stored 0x0c0e7dfa"), std::string::npos)
      << got.status.message();
}

TEST(JenkinsLookup3Codec, Configuration) {
  EXPECT_TRUE(try_make("jenkins_lookup3", R"({"initval":4294967295})", 2).ok());
  expect_refused("jenkins_lookup3", R"({"initval":4294967296})", "initval", 2);
  expect_refused("numcodecs.jenkins_lookup3", R"({"initval":-1})", "initval");
  for (const char* prefix : {"\"ab\"", "[256]", "[-1]", "[1.5]", "3", "{}"}) {
    expect_refused("jenkins_lookup3", std::string(R"({"prefix":)") + prefix + "}", "prefix", 2);
  }
  expect_refused("numcodecs.jenkins_lookup3", R"({"location":"start"})", "location");
  EXPECT_EQ(try_make("jenkins_lookup3", "{}").status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace headrace::test
