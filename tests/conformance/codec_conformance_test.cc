// The contract of every codec in the table, whatever its format. Streams come from the codec's fuzz seeds.
#include <algorithm>
#include <tuple>

#include "base/json.h"
#include "tests/support/codec_seed_files.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

std::vector<std::string> words(const char* text) {
  std::vector<std::string> out;
  std::string word;
  for (const char* c = text;; ++c) {
    if (*c != ' ' && *c != '\0') {
      word += *c;
      continue;
    }
    if (!word.empty()) out.push_back(std::move(word));
    word.clear();
    if (*c == '\0') return out;
  }
}

class CodecConformance : public ::testing::TestWithParam<codec::CodecRow> {
 public:
  // Makes the codec with the smallest configuration that the name accepts; `choice` as in CodecSeed.
  static Result<codec::Codec> make_by(const codec::CodecRow& row, const std::string& name, int format,
                                      unsigned choice = 0) {
    codec::CodecArgs context;
    context.zarr_format = format;
    static const DataType kType = numeric_type("float32");
    if (format == 3) context.dtype = &kType;
    base::Json config = format == 2 ? codec_seed_config(row.name, choice) : base::Json::parse(row.config);
    if (name == "numcodecs.zfpy") config = base::Json::object();   // unlike "zfp", its row
    if (name == "numcodecs.blosc") config = base::Json::object();  // likewise
    return codec::make_codec(name, config, context);
  }
  static MadeCodec any(const codec::CodecRow& row) {
    const std::vector<std::string> names = words(row.v3_names);
    auto made = names.empty() ? make_by(row, words(row.v2_ids).front(), 2) : make_by(row, names.front(), 3);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? MadeCodec(std::move(made).value()) : MadeCodec();
  }
  // Made so that it decodes streams: filters are bytes -> bytes codecs in v2 only.
  static MadeCodec streaming(const codec::CodecRow& row) {
    const std::vector<std::string> ids = words(row.v2_ids);
    if (ids.empty()) return any(row);
    auto made = make_by(row, ids.front(), 2);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? MadeCodec(std::move(made).value()) : MadeCodec();
  }

 protected:
  static std::vector<CodecSeedFile> samples() { return codec_seeds(GetParam().name); }
};

TEST_P(CodecConformance, NamesResolveAndKindIsOneAndTheSame) {
  std::vector<std::pair<std::string, int>> names;
  for (const std::string& name : words(GetParam().v3_names)) names.emplace_back(name, 3);
  for (const std::string& name : words(GetParam().v2_ids)) names.emplace_back(name, 2);
  ASSERT_FALSE(names.empty());
  const codec::Kind kind = any(GetParam()).codec().kind();
  for (const auto& [name, format] : names) {
    const auto made = make_by(GetParam(), name, format);
    ASSERT_TRUE(made.ok()) << name << ": " << made.status().to_string();
    // Folder names contain no '-'.
    std::string own(made->name());
    EXPECT_TRUE(made->coder() == nullptr || made->coder()->name() == made->name());
    std::replace(own.begin(), own.end(), '-', '_');
    EXPECT_EQ(own, GetParam().name);
    // The only array codecs in v2 are those of objects; a codec that changes values there is a bytes -> bytes filter.
    const codec::ArrayToBytes* const array = made->array_to_bytes();
    const bool of_bytes = format == 2 && (array == nullptr || !array->variable_length());
    EXPECT_EQ(made->kind(), of_bytes ? codec::Kind::kBytesToBytes : kind);
  }
  EXPECT_TRUE(!words(GetParam().v2_ids).empty() || kind != codec::Kind::kBytesToBytes);
}

TEST_P(CodecConformance, ConfigurationIsStrict) {
  for (const std::string& name : words(GetParam().v3_names)) {
    expect_refused(name, R"({"no such key":1})", "codec '" + name + "'");
    for (const char* text : {"null", "[]", "3", "\"x\""}) expect_refused(name, text, "not an object");
  }
  for (const std::string& name : words(GetParam().v2_ids)) {
    base::Json config = codec_seed_config(GetParam().name, 0);
    config["no such key"] = 1;
    EXPECT_TRUE(try_make(name, config.dump(), 2).ok()) << "v2 objects carry more than we read";
    expect_refused(name, "[]", "not an object", 2);
  }
}

class Coder : public CodecConformance {};

TEST_P(Coder, EmptyStreamsAreCorrupt) {
  const auto codec = streaming(GetParam());
  const auto scratch = codec->make_scratch();
  std::byte room[64] = {};
  for (const std::size_t capacity : {0, 64}) {
    for (const bool exact : {true, false}) {
      codec::EncodedStream stream{
          .src = room, .src_bytes = 0, .dst = room, .dst_capacity = capacity, .dst_bytes = 1, .exact = exact};
      for (codec::Scratch* const own : {scratch.get(), static_cast<codec::Scratch*>(nullptr)}) {
        EXPECT_EQ(codec->decode(stream, own).code(), Code::kCorrupt);
        EXPECT_EQ(stream.dst_bytes, 0u);
      }
    }
  }
}

TEST_P(Coder, EncodedSizesAreBounded) {
  const auto codec = any(GetParam());
  if (codec == nullptr || codec.codec().kind() != codec::Kind::kBytesToBytes) return;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{1} << 40}) {
    EXPECT_GE(codec->encoded_size(bytes).most, bytes);
  }
}

class BytesCodec : public CodecConformance {};

// Decodes each valid seed before and after a damaged one: a bad stream must not spoil the scratch for later streams.
TEST_P(BytesCodec, ABadStreamLeavesTheOthersExact) {
  unsigned valid = 0;
  for (const CodecSeedFile& sample : samples()) {
    const auto made = make_by(GetParam(), words(GetParam().v2_ids).front(), 2, sample.seed.choice);
    ASSERT_TRUE(made.ok());
    const codec::StreamCoder& codec = *made->coder();
    const Decoded alone = Decoder(codec)(sample.seed.stream, sample.seed.capacity, sample.seed.exact);
    // The names of seeds say whether they are valid.
    const bool expected = sample.path.filename().string().starts_with("ok");
    EXPECT_EQ(alone.status.ok(), expected) << sample.path << ": " << alone.status.to_string();
    if (!alone.status.ok()) continue;
    ++valid;
    const Bytes cut(sample.seed.stream.begin(), sample.seed.stream.end() - 1);
    for (const bool warm : {true, false}) {
      const auto scratch = warm ? codec.make_scratch() : nullptr;
      for (const bool bad : {false, true, false, true, true, false}) {
        Bytes out(sample.seed.capacity);
        codec::EncodedStream stream{.src = bad ? cut.data() : sample.seed.stream.data(),
                                    .src_bytes = sample.seed.stream.size() - (bad ? 1 : 0),
                                    .dst = out.data(),
                                    .dst_capacity = out.size(),
                                    .dst_bytes = 0,
                                    .exact = sample.seed.exact};
        const Status status = codec.decode(stream, scratch.get());
        ASSERT_EQ(status.ok(), !bad) << sample.path << ": " << status.to_string();
        if (bad) continue;
        ASSERT_EQ(stream.dst_bytes, alone.bytes.size());
        ASSERT_TRUE(std::equal(alone.bytes.begin(), alone.bytes.end(), out.begin()));
      }
    }
  }
  EXPECT_GE(valid, 2u) << "the seeds of this codec hold too few valid streams to say anything";
}

TEST(CodecTable, UnknownNamesAreUnsupportedAndNamed) {
  for (const int format : {2, 3}) {
    for (const char* name : {"", "nosuch", "zst", "zstd ", "numcodecs", "blosc numcodecs.blosc"}) {
      const auto made = try_make(name, "{}", format);
      ASSERT_FALSE(made.ok()) << name;
      EXPECT_EQ(made.status().code(), Code::kUnsupported);
      EXPECT_NE(made.status().message().find(std::string("'") + name + "'"), std::string::npos);
    }
  }
}

TEST(CodecTable, KnownCodecsThatAreAbsentSayWhy) {
  for (const auto& [name, format, why] : {std::tuple{"pcodec", 2, "no maintained library"},
                                          {"numcodecs.pcodec", 3, "no maintained library"},
                                          {"n5_default", 3, "N5"},
                                          {"conditional", 3, "not implemented"},
                                          {"pickle", 2, "Python objects"}}) {
    const auto made = try_make(name, "{}", format);
    ASSERT_FALSE(made.ok()) << name;
    EXPECT_EQ(made.status().code(), Code::kUnsupported);
    EXPECT_NE(made.status().message().find(why), std::string::npos) << made.status().message();
  }
}

TEST(CodecTable, NamesAreUnique) {
  std::vector<std::string> v3, v2, own;
  for (const codec::CodecRow& row : codec::codecs()) {
    own.emplace_back(row.name);
    for (std::string& word : words(row.v3_names)) v3.push_back(std::move(word));
    for (std::string& word : words(row.v2_ids)) v2.push_back(std::move(word));
  }
  for (auto* list : {&own, &v3, &v2}) {
    std::sort(list->begin(), list->end());
    EXPECT_EQ(std::adjacent_find(list->begin(), list->end()), list->end());
  }
}

// Rows that a test does not apply to get no case.
std::vector<codec::CodecRow> rows_with_coder(bool of_bytes_only) {
  std::vector<codec::CodecRow> out;
  for (const codec::CodecRow& row : codec::codecs()) {
    const MadeCodec codec = CodecConformance::streaming(row);
    if (codec == nullptr) continue;
    if (!of_bytes_only || codec.codec().kind() == codec::Kind::kBytesToBytes) out.push_back(row);
  }
  return out;
}

constexpr auto kName = [](const auto& about) { return std::string(about.param.name); };
INSTANTIATE_TEST_SUITE_P(Table, CodecConformance, ::testing::ValuesIn(codec::codecs()), kName);
INSTANTIATE_TEST_SUITE_P(Table, Coder, ::testing::ValuesIn(rows_with_coder(false)), kName);
INSTANTIATE_TEST_SUITE_P(Table, BytesCodec, ::testing::ValuesIn(rows_with_coder(true)), kName);

}  // namespace
}  // namespace headrace::test
