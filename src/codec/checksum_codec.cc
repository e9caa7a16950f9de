#include "codec/checksum_codec.h"

#include <cstring>

#include "base/json.h"
#include "codec/config_reader.h"

namespace headrace::codec {
namespace {

constexpr std::size_t kChecksumBytes = 4;

class ChecksumEncoder final : public Encoder {
 public:
  ChecksumEncoder(ChecksumFunction checksum, bool at_start) : checksum_(checksum), at_start_(at_start) {}

  std::size_t bound_bytes(std::size_t plain_bytes) const override { return plain_bytes + kChecksumBytes; }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    const std::uint32_t checksum = checksum_(plain.data(), plain.size());
    if (!plain.empty()) std::memcpy(out.data() + (at_start_ ? kChecksumBytes : 0), plain.data(), plain.size());
    std::byte* const word = out.data() + (at_start_ ? 0 : plain.size());
    for (std::size_t i = 0; i < kChecksumBytes; ++i) word[i] = static_cast<std::byte>(checksum >> (8 * i));
    return plain.size() + kChecksumBytes;
  }

 private:
  ChecksumFunction checksum_;
  bool at_start_;
};

class ChecksumCodec final : public StreamCodec {
 public:
  ChecksumCodec(std::string_view name, ChecksumKind kind, ChecksumFunction checksum, bool at_start)
      : name_(name), kind_(kind), checksum_(checksum), at_start_(at_start) {}
  std::string_view name() const noexcept override { return name_; }

  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override {
    return {decoded_bytes + kChecksumBytes, true};
  }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new ChecksumEncoder(checksum_, at_start_));
  }
  bool describe_for_device(device::DecodeStage& stage) const override {
    stage.codec = name_;
    stage.parameters[0] = static_cast<std::uint64_t>(kind_);
    stage.parameters[1] = at_start_ ? 1 : 0;
    return true;
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    const auto length = static_cast<int>(name_.size());
    if (stream.src_bytes < kChecksumBytes) {
      return corrupt("%.*s: %zu bytes are too few to hold a checksum", length, name_.data(), stream.src_bytes);
    }
    const std::size_t bytes = stream.src_bytes - kChecksumBytes;
    HEADRACE_TRY(check_size(name_, bytes, stream));
    const std::byte* data = stream.src + (at_start_ ? kChecksumBytes : 0);
    const std::byte* checksum = at_start_ ? stream.src : stream.src + bytes;
    std::uint32_t stored = 0;
    for (std::size_t i = 0; i < kChecksumBytes; ++i) stored |= std::to_integer<std::uint32_t>(checksum[i]) << (8 * i);
    const std::uint32_t computed = checksum_(data, bytes);
    if (stored != computed) {
      return corrupt("%.*s: checksum mismatch: stored 0x%08x, computed 0x%08x over %zu bytes", length, name_.data(),
                     stored, computed, bytes);
    }
    if (bytes != 0) std::memcpy(stream.dst, data, bytes);
    stream.dst_bytes = bytes;
    return {};
  }

 private:
  std::string_view name_;
  ChecksumKind kind_;
  ChecksumFunction checksum_;
  bool at_start_;
};

}  // namespace

Codec make_checksum_codec(std::string_view name, ChecksumKind kind, ChecksumFunction checksum, bool at_start) {
  return Codec(std::make_unique<ChecksumCodec>(name, kind, checksum, at_start));
}

Result<Codec> make_checksum_codec(std::string_view name, ChecksumKind kind, ChecksumFunction checksum,
                                  const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  // null means the default, as in numcodecs.
  const base::Json* value = reader.any("location", Need::kOptional);
  int location = 0;
  if (value != nullptr && !value->is_null()) location = reader.choice("location", Need::kOptional, {"start", "end"});
  HEADRACE_TRY(reader.finish());
  return make_checksum_codec(name, kind, checksum, location == 0);
}

}  // namespace headrace::codec
