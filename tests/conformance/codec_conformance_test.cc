// What holds for every codec in the table, whatever its format. Streams come from the codec's fuzz seeds.
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
  // With the least configuration the name takes; `choice` as in CodecSeed.
  static Result<std::unique_ptr<codec::Codec>> make_by(const codec::CodecRow& row, const std::string& name, int format,
                                                       unsigned choice = 0) {
    codec::Context context;
    context.zarr_format = format;
    static const DataType kType = numeric_type("float32");
    if (format == 3) context.dtype = &kType;
    base::Json config = format == 2 ? codec_seed_config(row.name, choice) : codec_v3_config(row.name);
    if (name == "numcodecs.zfpy") config = base::Json::object();  // unlike "zfp", whose row it is
    if (name == "blosc" && format == 3) config = {{"cname", "lz4"}, {"clevel", 5}, {"shuffle", "noshuffle"}};
    return codec::make_codec(name, config, context);
  }
  static std::unique_ptr<codec::Codec> any(const codec::CodecRow& row) {
    const std::vector<std::string> names = words(row.v3_names);
    auto made = names.empty() ? make_by(row, words(row.v2_ids).front(), 2) : make_by(row, names.front(), 3);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? std::move(made).value() : nullptr;
  }
  // As it decodes streams: filters are bytes -> bytes codecs in v2 only.
  static std::unique_ptr<codec::Codec> streaming(const codec::CodecRow& row) {
    const std::vector<std::string> ids = words(row.v2_ids);
    if (ids.empty()) return any(row);
    auto made = make_by(row, ids.front(), 2);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? std::move(made).value() : nullptr;
  }

 protected:
  static std::vector<CodecSeedFile> samples() { return codec_seeds(GetParam().name); }
};

TEST_P(CodecConformance, NamesResolveAndKindIsOneAndTheSame) {
  std::vector<std::pair<std::string, int>> names;
  for (const std::string& name : words(GetParam().v3_names)) names.emplace_back(name, 3);
  for (const std::string& name : words(GetParam().v2_ids)) names.emplace_back(name, 2);
  ASSERT_FALSE(names.empty());
  const codec::Kind kind = any(GetParam())->kind();
  for (const auto& [name, format] : names) {
    const auto made = make_by(GetParam(), name, format);
    ASSERT_TRUE(made.ok()) << name << ": " << made.status().to_string();
    // Folders have no '-' in their names.
    std::string own((*made)->name());
    std::replace(own.begin(), own.end(), '-', '_');
    EXPECT_EQ(own, GetParam().name);
    // v2 has no array codecs but those of objects: what changes values there is a filter of bytes.
    const bool of_bytes = format == 2 && !(*made)->variable_length();
    EXPECT_EQ((*made)->kind(), of_bytes ? codec::Kind::kBytesToBytes : kind);
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

TEST_P(CodecConformance, WrongKindOfWorkIsAnInternalError) {
  const auto codec = streaming(GetParam());
  if (codec->kind() == codec::Kind::kBytesToBytes) {
    std::vector<std::uint64_t> shape = {2, 2};
    codec::Layout layout;
    EXPECT_EQ(codec->resolve_layout(numeric_type("int8"), shape, layout).code(), Code::kInternal);
  } else {
    codec::Stream stream;
    Status status;
    codec->decode({&stream, 1}, {&status, 1}, nullptr);
    EXPECT_EQ(status.code(), codec->has_decode_stage() ? Code::kCorrupt : Code::kInternal) << status.to_string();
  }
}

class CodecStage : public CodecConformance {};

TEST_P(CodecStage, NoStreamsAndEmptyStreams) {
  const auto codec = streaming(GetParam());
  const auto scratch = codec->make_scratch();
  codec->decode({}, {}, scratch.get());
  codec->decode({}, {}, nullptr);
  std::byte room[64] = {};
  for (const std::size_t capacity : {0, 64}) {
    for (const bool exact : {true, false}) {
      codec::Stream stream{
          .src = room, .src_bytes = 0, .dst = room, .dst_capacity = capacity, .dst_bytes = 1, .exact = exact};
      Status status;
      codec->decode({&stream, 1}, {&status, 1}, scratch.get());
      EXPECT_EQ(status.code(), Code::kCorrupt);
      EXPECT_EQ(stream.dst_bytes, 0u);
    }
  }
}

TEST_P(CodecStage, EncodedSizesAreBounded) {
  const auto codec = any(GetParam());
  const bool changes_width = codec->kind() != codec::Kind::kBytesToBytes;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{1} << 40}) {
    EXPECT_TRUE(changes_width || codec->max_encoded_bytes(bytes) >= bytes);
    std::uint64_t encoded = 0;
    const bool fixed = codec->fixed_size(bytes, encoded);
    EXPECT_TRUE(!fixed || encoded == codec->max_encoded_bytes(bytes));
  }
}

class BytesCodec : public CodecConformance {};

// Each valid seed in a batch with each other one damaged: one bad stream leaves the others exact.
TEST_P(BytesCodec, OneBadStreamLeavesTheOthersExact) {
  unsigned valid = 0;
  for (const CodecSeedFile& sample : samples()) {
    const auto made = make_by(GetParam(), words(GetParam().v2_ids).front(), 2, sample.seed.choice);
    ASSERT_TRUE(made.ok());
    const codec::Codec& codec = **made;
    const Decoded alone = Decoder(codec)(sample.seed.stream, sample.seed.capacity, sample.seed.exact);
    // Seeds are named for what becomes of them.
    const bool expected = sample.path.filename().string().starts_with("ok");
    EXPECT_EQ(alone.status.ok(), expected) << sample.path << ": " << alone.status.to_string();
    if (!alone.status.ok()) continue;
    ++valid;
    const Bytes cut(sample.seed.stream.begin(), sample.seed.stream.end() - 1);
    for (const bool warm : {true, false}) {
      constexpr std::size_t kBatch = 5;
      for (std::size_t bad = 0; bad < kBatch; ++bad) {
        std::vector<Bytes> out(kBatch, Bytes(sample.seed.capacity));
        std::vector<codec::Stream> streams(kBatch);
        std::vector<Status> statuses(kBatch);
        for (std::size_t i = 0; i < kBatch; ++i) {
          streams[i] = {.src = i == bad ? cut.data() : sample.seed.stream.data(),
                        .src_bytes = sample.seed.stream.size() - (i == bad ? 1 : 0),
                        .dst = out[i].data(),
                        .dst_capacity = out[i].size(),
                        .dst_bytes = 0,
                        .exact = sample.seed.exact};
        }
        const auto scratch = warm ? codec.make_scratch() : nullptr;
        codec.decode(streams, statuses, scratch.get());
        for (std::size_t i = 0; i < kBatch; ++i) {
          ASSERT_EQ(statuses[i].ok(), i != bad) << sample.path << ": " << statuses[i].to_string();
          if (i == bad) continue;
          ASSERT_EQ(streams[i].dst_bytes, alone.bytes.size());
          ASSERT_TRUE(std::equal(alone.bytes.begin(), alone.bytes.end(), out[i].begin()));
        }
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

// Where a test has nothing to say about a row, there is no case for it.
std::vector<codec::CodecRow> rows(bool (*wanted)(const codec::Codec&)) {
  std::vector<codec::CodecRow> out;
  for (const codec::CodecRow& row : codec::codecs()) {
    const auto codec = CodecConformance::streaming(row);
    if (codec != nullptr && wanted(*codec)) out.push_back(row);
  }
  return out;
}

constexpr auto kName = [](const auto& about) { return std::string(about.param.name); };
INSTANTIATE_TEST_SUITE_P(Table, CodecConformance, ::testing::ValuesIn(codec::codecs()), kName);
INSTANTIATE_TEST_SUITE_P(Table, CodecStage,
                         ::testing::ValuesIn(rows([](const codec::Codec& codec) { return codec.has_decode_stage(); })),
                         kName);
INSTANTIATE_TEST_SUITE_P(Table, BytesCodec, ::testing::ValuesIn(rows([](const codec::Codec& codec) {
                           return codec.kind() == codec::Kind::kBytesToBytes;
                         })),
                         kName);

}  // namespace
}  // namespace headrace::test
