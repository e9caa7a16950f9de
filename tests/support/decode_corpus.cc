#include "support/decode_corpus.h"

#include <blosc.h>
#include <lz4.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>

#include "base/json.h"
#include "codec/device_stages.h"
#include "support/codec_seed_files.h"

namespace headrace::test {
namespace {

using Bytes = std::vector<std::byte>;

enum class Content { kNoise, kZeros, kSmooth, kText, kOnes, kFar, kWords };
constexpr Content kContents[] = {Content::kNoise, Content::kZeros, Content::kSmooth,
                                 Content::kText,  Content::kOnes,  Content::kFar};

Bytes content(Content kind, std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  Bytes out(bytes);
  std::uint32_t value = 1000;
  for (std::size_t i = 0; i < bytes; ++i) {
    switch (kind) {
      case Content::kNoise:
        out[i] = static_cast<std::byte>(random());
        break;
      case Content::kZeros:
        break;
      case Content::kSmooth:  // 4-byte numbers that rise slowly
        if (i % 4 == 0) value += static_cast<std::uint32_t>(random() % 200);
        out[i] = static_cast<std::byte>(value >> (8 * (i % 4)));
        break;
      case Content::kText:
        out[i] = static_cast<std::byte>("the quick brown fox "[(i + (random() % 50 == 0 ? 7 : 0)) % 20]);
        break;
      case Content::kOnes:  // literals that look like the bytes of a long length
        out[i] = random() % 64 == 0 ? static_cast<std::byte>(random()) : std::byte{255};
        break;
      case Content::kFar:  // matches from as far back as LZ4 can reach, with runs of noise between them
        out[i] = i >= 65535 && i / 700 % 3 != 0 ? out[i - 65535] : static_cast<std::byte>(random());
        break;
      case Content::kWords:  // LZ4 makes a 4-byte match of each word, without literals: no stream has more tokens
        if (i % 4 == 0) value = static_cast<std::uint32_t>(random() % 2048) * 0x9E3779B1u;
        out[i] = static_cast<std::byte>(value >> (8 * (i % 4)));
        break;
    }
  }
  return out;
}

std::shared_ptr<const codec::StreamCoder> make_cpu(const std::string& codec, const base::Json& config) {
  codec::CodecArgs context;
  context.zarr_format = 2;
  const auto row = std::find_if(codec::codecs().begin(), codec::codecs().end(),
                                [&](const codec::CodecRow& r) { return codec == r.name; });
  if (row == codec::codecs().end() || row->v2_ids[0] == 0) return nullptr;
  const std::string ids = row->v2_ids;
  auto made = codec::make_codec(ids.substr(0, ids.find(' ')), config, context);
  if (!made.ok()) return nullptr;
  const auto owner = std::make_shared<const codec::Codec>(std::move(made).value());
  return {owner, owner->coder()};
}

class Builder {
 public:
  explicit Builder(std::vector<CorpusGroup>& groups) : groups_(groups) {}

  // Null if the configuration does not exist or has no device code.
  CorpusGroup* group(const std::string& name, const std::string& codec, const base::Json& config, std::size_t capacity,
                     bool exact, bool may_be_host_only) {
    for (CorpusGroup& group : groups_) {
      if (group.name == name) return &group;
    }
    CorpusGroup made;
    made.cpu = make_cpu(codec, config);
    if (made.cpu == nullptr) return nullptr;
    made.stage.codec = codec;
    made.stage.capacity_bytes = capacity;
    made.stage.exact = exact;
    if (!made.cpu->describe_for_device(made.stage)) return nullptr;
    made.name = name;
    made.codec = codec;
    made.may_be_host_only = may_be_host_only;
    const std::string inner = config.is_object() && config.contains("cname") ? config["cname"] : "";
    made.damaged_may_be_host_only = may_be_host_only || inner == "zstd" || inner == "zlib";
    groups_.push_back(std::move(made));
    return &groups_.back();
  }
  static void add(CorpusGroup* group, std::span<const std::byte> encoded) {
    if (group != nullptr) group->streams.push_back(decode_on_cpu(*group, encoded));
  }

 private:
  std::vector<CorpusGroup>& groups_;
};

void add_seeds(Builder& builder, const std::string& codec, const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) return;
  for (const auto& [path, content, seed] : read_codec_seeds(folder)) {
    if (seed.capacity == 0) continue;
    CorpusGroup* group = builder.group(codec + "/seed/" + path.filename().string(), codec,
                                       codec_seed_config(codec, seed.choice), seed.capacity, seed.exact, true);
    Builder::add(group, seed.stream);
  }
}

// Streams made by the codec's own encoder, for a few of its configurations.
void add_encoded(Builder& builder, const std::string& codec, std::size_t bytes) {
  const bool has_choice = !codec_seed_config(codec, 0).empty();
  for (const unsigned choice : {0u, 1u, 2u, 3u, 4u, 8u, 16u}) {
    if (choice > 0 && (!has_choice || codec == "blosc")) break;
    const base::Json config = codec_seed_config(codec, choice);
    const auto cpu = make_cpu(codec, config);
    if (cpu == nullptr) continue;
    auto encoder = cpu->make_encoder();
    if (!encoder.ok()) continue;
    const std::string name = codec + "/" + std::to_string(bytes) + (choice > 0 ? "/" + std::to_string(choice) : "");
    // Includes the slowest valid content, since a damaged chunk's decoding time is compared with that of valid ones.
    std::vector<Content> kinds(std::begin(kContents), std::end(kContents));
    if (bytes >= 16384) kinds.push_back(Content::kWords);
    for (const Content kind : kinds) {
      const Bytes plain = content(kind, bytes, static_cast<unsigned>(bytes) + choice);
      Bytes encoded((*encoder)->bound_bytes(bytes));
      auto got = (*encoder)->encode(plain, encoded);
      if (!got.ok()) continue;
      encoded.resize(*got);
      Builder::add(builder.group(name, codec, config, bytes, true, codec != "lz4"), encoded);
    }
  }
}

// Containers made by c-blosc, in separate groups: those that a device must decode itself, and those that it may leave
// to the CPU.
void add_blosc(Builder& builder, std::size_t bytes) {
  if (bytes > BLOSC_MAX_BUFFERSIZE) return;
  const std::string name = "blosc/" + std::to_string(bytes);
  unsigned seed = 0;
  for (const char* inner : {"lz4", "lz4hc", "blosclz", "zlib", "zstd"}) {
    const bool device = std::strncmp(inner, "lz4", 3) == 0;
    for (const int filter : {BLOSC_NOSHUFFLE, BLOSC_SHUFFLE, BLOSC_BITSHUFFLE}) {
      for (const std::size_t item : {1u, 2u, 3u, 4u, 8u, 17u}) {
        const Content kind = kContents[++seed % std::size(kContents)];
        if (!device && item != 4) continue;
        const Bytes plain = content(kind, bytes, seed);
        const std::size_t block = seed % 3 == 0 ? 0 : seed % 3 == 1 ? bytes / 3 : 128 * item * (1 + seed % 5);
        Bytes encoded(bytes + BLOSC_MAX_OVERHEAD);
        const int got = blosc_compress_ctx(seed % 7 == 0 ? 9 : 5, filter, item, bytes, plain.data(), encoded.data(),
                                           encoded.size(), inner, block, 1);
        if (got <= 0) continue;
        encoded.resize(static_cast<std::size_t>(got));
        Builder::add(builder.group(device ? name : name + "/cpu", "blosc", base::Json::object(), bytes, true, !device),
                     encoded);
        if (std::strcmp(inner, "zstd") != 0 && std::strcmp(inner, "zlib") != 0) continue;
        // For arrays whose configuration names the compressor. Small blocks make more streams than a device has room
        // for.
        base::Json config = base::Json::object();
        config["cname"] = inner;
        const bool few = block == 0 || bytes / block < 4;
        Builder::add(builder.group(name + "/" + inner + (few ? "" : "/cpu"), "blosc", config, bytes, true, !few),
                     encoded);
      }
    }
  }
}

}  // namespace

Result<std::unique_ptr<device::ChunkDecoder>> make_decoder(const CorpusGroup& group, device::Device& device) {
  device::StandIn* const stand_in = device.stand_in();
  if (stand_in == nullptr) return device.make_decoder({&group.stage, 1});
  std::vector<std::unique_ptr<device::HostStage>> hosts;
  hosts.push_back(codec::make_host_stage(*group.cpu, group.stage.exact));
  return stand_in->make_host_decoder({&group.stage, 1}, std::move(hosts));
}

CorpusStream decode_on_cpu(const CorpusGroup& group, std::span<const std::byte> encoded) {
  CorpusStream out;
  out.encoded.assign(encoded.begin(), encoded.end());
  out.plain.resize(group.stage.capacity_bytes);
  const auto scratch = group.cpu->make_scratch();
  codec::EncodedStream stream{.src = encoded.data(),
                              .src_bytes = encoded.size(),
                              .dst = out.plain.data(),
                              .dst_capacity = out.plain.size(),
                              .dst_bytes = 0,
                              .exact = group.stage.exact};
  const Status status = group.cpu->decode(stream, scratch.get());
  out.valid = status.ok();
  out.plain.resize(out.valid ? stream.dst_bytes : 0);
  return out;
}

std::vector<CorpusGroup> make_decode_corpus(const CorpusOptions& options) {
  const char* const variable = std::getenv("HEADRACE_SOURCE_DIR");
  const std::filesystem::path root = !options.source_dir.empty() ? options.source_dir
                                     : variable != nullptr       ? variable
                                                                 : ".";
  std::vector<CorpusGroup> groups;
  groups.reserve(1000);  // builders hold pointers into it while they add
  Builder builder(groups);
  for (const codec::CodecRow& row : codec::codecs()) {
    if (!options.codec.empty() && options.codec != row.name) continue;
    if (options.seeds) add_seeds(builder, row.name, root / "codecs" / row.name / "seeds");
    for (const std::size_t bytes :
         {1, 16, 64, 100, 250, 512, 1000, 1536, 2048, 3000, 4096, 16384, 70000, 262144, 1048576, 4194304}) {
      if (bytes > options.largest) break;
      add_encoded(builder, row.name, bytes);
      if (std::strcmp(row.name, "blosc") == 0) add_blosc(builder, bytes);
    }
  }
  return groups;
}

}  // namespace headrace::test
