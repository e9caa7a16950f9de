// numcodecs' shuffle: byte 0 of every element, then byte 1, and so on. The size does not change.
#include <algorithm>
#include <cstring>
#include <string>

#include "codec/config_reader.h"
#include "codec/shuffle.h"
#include "codec/stream_codec.h"
#include "codec/unshuffle.h"

namespace headrace::codec {
namespace {

constexpr std::size_t kMaxDeviceItemBytes = 255;  // limit of shuffle_device.cuh

class ShuffleEncoder final : public Encoder {
 public:
  explicit ShuffleEncoder(std::size_t item_bytes) : item_bytes_(item_bytes) {}

  std::size_t bound_bytes(std::size_t plain_bytes) const override { return plain_bytes; }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    if (item_bytes_ > 1 && plain.size() % item_bytes_ != 0) {
      return Status(Code::kInvalidArgument, Layer::kCodec,
                    "shuffle: " + std::to_string(plain.size()) + " bytes are not a multiple of the element size " +
                        std::to_string(item_bytes_));
    }
    shuffle(plain.data(), std::max<std::size_t>(item_bytes_, 1), plain.size(), out.data());
    return plain.size();
  }

 private:
  std::size_t item_bytes_;
};

class ShuffleCodec final : public StreamCodec {
 public:
  explicit ShuffleCodec(std::size_t item_bytes) : item_bytes_(item_bytes) {}
  std::string_view name() const noexcept override { return "shuffle"; }

  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override { return {decoded_bytes, true}; }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new ShuffleEncoder(item_bytes_));
  }
  bool describe_for_device(device::DecodeStage& stage) const override {
    if (item_bytes_ > kMaxDeviceItemBytes) return false;
    stage.codec = name();
    stage.parameters[0] = item_bytes_;
    return true;
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    HEADRACE_TRY(check_size("shuffle", stream.src_bytes, stream));
    if (item_bytes_ <= 1) {  // numcodecs accepts 0 and 1 and leaves the bytes unchanged
      std::memcpy(stream.dst, stream.src, stream.src_bytes);
    } else if (stream.src_bytes % item_bytes_ != 0) {  // numcodecs neither writes nor reads these
      return corrupt("shuffle: %zu bytes are not a multiple of the element size %zu", stream.src_bytes, item_bytes_);
    } else {
      unshuffle(stream.src, item_bytes_, stream.src_bytes, stream.dst);
    }
    stream.dst_bytes = stream.src_bytes;
    return {};
  }

 private:
  std::size_t item_bytes_;
};

}  // namespace

Result<Codec> make_shuffle(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  const std::int64_t item_bytes = reader.integer("elementsize", Need::kOptional, 0, INT32_MAX, 4);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<ShuffleCodec>(static_cast<std::size_t>(item_bytes)));
}

}  // namespace headrace::codec
