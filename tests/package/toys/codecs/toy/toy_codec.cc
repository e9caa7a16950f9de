// toy: every byte exclusive-or a constant, {"key": 90}. A minimal bytes -> bytes codec.
#include <algorithm>

#include "codec/config_reader.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

void apply(std::byte key, const std::byte* from, std::size_t bytes, std::byte* to) {
  std::transform(from, from + bytes, to, [key](std::byte byte) { return byte ^ key; });
}

// Optional: without an encoder, arrays can still be read, and tests only have the seeds.
class ToyEncoder final : public Encoder {
 public:
  explicit ToyEncoder(std::byte key) : key_(key) {}
  std::size_t bound_bytes(std::size_t plain_bytes) const override { return plain_bytes; }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    apply(key_, plain.data(), plain.size(), out.data());
    return plain.size();
  }

 private:
  std::byte key_;
};

class ToyCodec final : public StreamCodec {
 public:
  explicit ToyCodec(std::byte key) : key_(key) {}
  std::string_view name() const noexcept override { return "toy"; }  // the folder's name
  // Decides the size of buffers; a longer stream is refused before it is read.
  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override { return {decoded_bytes, true}; }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new ToyEncoder(key_));
  }

 protected:
  // The stream is not empty. Its content is untrusted: check before writing, and never write past dst_capacity.
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    HEADRACE_TRY(check_size("toy", stream.src_bytes, stream));
    apply(key_, stream.src, stream.src_bytes, stream.dst);
    stream.dst_bytes = stream.src_bytes;
    return {};
  }

 private:
  std::byte key_;
};

}  // namespace

Result<Codec> make_toy(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  const std::int64_t key = reader.integer("key", Need::kRequired, 0, 255);
  HEADRACE_TRY(reader.finish());  // fails for the first missing, wrong or unknown key
  return Codec(std::make_unique<ToyCodec>(static_cast<std::byte>(key)));
}

}  // namespace headrace::codec
