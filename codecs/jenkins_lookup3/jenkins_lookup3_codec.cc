// jenkins_lookup3 of numcodecs and HDF5: Bob Jenkins's hash "lookup3" (hashlittle), four bytes little-endian, after the
// bytes that it covers. The hash may also cover a prefix that is not stored.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

constexpr std::size_t kChecksumBytes = 4, kBlockBytes = 12;

struct State {
  std::uint32_t a, b, c;

  void add(const std::byte* block) noexcept {
    static_assert(std::endian::native == std::endian::little);
    std::uint32_t words[3];
    std::memcpy(words, block, sizeof words);
    a += words[0];
    b += words[1];
    c += words[2];
  }
  void mix() noexcept {
    const auto step = [](std::uint32_t& x, std::uint32_t& y, std::uint32_t z, int rotate) {
      x -= y;
      x ^= std::rotl(y, rotate);
      y += z;
    };
    step(a, c, b, 4);
    step(b, a, c, 6);
    step(c, b, a, 8);
    step(a, c, b, 16);
    step(b, a, c, 19);
    step(c, b, a, 4);
  }
  void finish() noexcept {
    const auto step = [](std::uint32_t& x, std::uint32_t y, int rotate) {
      x ^= y;
      x -= std::rotl(y, rotate);
    };
    step(c, b, 14);
    step(a, c, 11);
    step(b, a, 25);
    step(c, b, 16);
    step(a, c, 4);
    step(b, a, 14);
    step(c, b, 24);
  }
};

// The hash of `prefix` followed by `data`.
std::uint32_t lookup3(std::span<const std::byte> prefix, std::span<const std::byte> data, std::uint32_t start) {
  const std::size_t total = prefix.size() + data.size();
  const std::uint32_t first = 0xDEADBEEF + static_cast<std::uint32_t>(total) + start;
  State state{first, first, first};
  if (total == 0) return state.c;
  for (std::size_t at = 0;;) {
    const std::size_t count = std::min(kBlockBytes, total - at);
    std::byte block[kBlockBytes] = {};
    const std::byte* from = block;
    if (at >= prefix.size() && count == kBlockBytes) {
      from = data.data() + (at - prefix.size());
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        block[i] = at + i < prefix.size() ? prefix[at + i] : data[at + i - prefix.size()];
      }
    }
    state.add(from);
    at += count;
    if (at == total) break;
    state.mix();
  }
  state.finish();
  return state.c;
}

struct Seed {
  std::uint32_t start = 0;
  std::vector<std::byte> prefix;
};

class JenkinsEncoder final : public Encoder {
 public:
  explicit JenkinsEncoder(Seed seed) : seed_(std::move(seed)) {}
  std::size_t bound_bytes(std::size_t plain_bytes) const override { return plain_bytes + kChecksumBytes; }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    const std::uint32_t checksum = lookup3(seed_.prefix, plain, seed_.start);
    if (!plain.empty()) std::memcpy(out.data(), plain.data(), plain.size());
    std::memcpy(out.data() + plain.size(), &checksum, kChecksumBytes);
    return plain.size() + kChecksumBytes;
  }

 private:
  Seed seed_;
};

class JenkinsCodec final : public StreamCodec {
 public:
  explicit JenkinsCodec(Seed seed) : seed_(std::move(seed)) {}
  std::string_view name() const noexcept override { return "jenkins_lookup3"; }
  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override {
    return {decoded_bytes + kChecksumBytes, true};
  }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new JenkinsEncoder(seed_));
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    if (stream.src_bytes < kChecksumBytes) {
      return corrupt("jenkins_lookup3: %zu bytes are too few to hold a checksum", stream.src_bytes);
    }
    const std::size_t bytes = stream.src_bytes - kChecksumBytes;
    HEADRACE_TRY(check_size(name(), bytes, stream));
    std::uint32_t stored;
    std::memcpy(&stored, stream.src + bytes, kChecksumBytes);
    const std::uint32_t computed = lookup3(seed_.prefix, {stream.src, bytes}, seed_.start);
    if (stored != computed) {
      return corrupt("jenkins_lookup3: checksum mismatch: stored 0x%08x, computed 0x%08x over %zu bytes", stored,
                     computed, bytes);
    }
    if (bytes != 0) std::memcpy(stream.dst, stream.src, bytes);
    stream.dst_bytes = bytes;
    return {};
  }

 private:
  Seed seed_;
};

constexpr std::size_t kMaxPrefixBytes = 65536;

// numcodecs takes Python bytes, which JSON does not have; a byte array is written as a list of numbers.
void read_prefix(ConfigReader& reader, std::vector<std::byte>& prefix) {
  const base::Json* value = reader.any("prefix", Need::kOptional);
  if (value == nullptr || value->is_null()) return;
  if (!value->is_array() || value->size() > kMaxPrefixBytes) {
    reader.refuse("prefix", "is neither null nor a list of at most 65536 bytes");
    return;
  }
  for (const base::Json& item : *value) {
    // A negative number converts to one above every byte.
    if (!item.is_number_integer() || item.get<std::uint64_t>() > 255) {
      reader.refuse("prefix", "holds a value that is not an integer in 0..255");
      return;
    }
    prefix.push_back(static_cast<std::byte>(item.get<std::uint64_t>()));
  }
}

}  // namespace

Result<Codec> make_jenkins_lookup3(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  Seed seed;
  seed.start = static_cast<std::uint32_t>(reader.integer("initval", Need::kOptional, 0, UINT32_MAX));
  read_prefix(reader, seed.prefix);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<JenkinsCodec>(std::move(seed)));
}

}  // namespace headrace::codec
