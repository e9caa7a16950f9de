#include "codec/chain_encoder.h"

#include <algorithm>
#include <string>

namespace headrace::codec {

Result<ChainEncoder> ChainEncoder::make(const Chain& chain) {
  if (chain.swaps_fields()) {
    return Status(Code::kUnsupported, Layer::kCodec, "writing structured elements that are not little-endian");
  }
  if (chain.reorders()) {
    return Status(Code::kUnsupported, Layer::kCodec,
                  "writing axes that are transposed after 'reshape', 'delta' or 'packbits'");
  }
  ChainEncoder encoder(chain);
  std::size_t bytes = static_cast<std::size_t>(chain.decoded_bytes());
  for (std::size_t i = chain.stage_count(); i-- > 0;) {
    HEADRACE_TRY_ASSIGN(std::unique_ptr<Encoder> stage, chain.coder(i).make_encoder());
    bytes = stage->bound_bytes(bytes);
    std::size_t& room = encoder.buffer_bytes_[encoder.encoders_.size() % 2];
    room = std::max(room, bytes);
    encoder.encoders_.push_back(std::move(stage));
  }
  for (int i = 0; i < 2; ++i) {
    if (encoder.buffer_bytes_[i] == 0) continue;
    encoder.buffers_[i] = std::make_unique_for_overwrite<std::byte[]>(encoder.buffer_bytes_[i]);
  }
  return encoder;
}

Result<std::span<const std::byte>> ChainEncoder::encode(std::span<const std::byte> elements) {
  if (elements.size() != chain_->decoded_bytes()) {
    return Status(Code::kInvalidArgument, Layer::kCodec,
                  "a chunk has " + std::to_string(chain_->decoded_bytes()) + " bytes of elements, not " +
                      std::to_string(elements.size()));
  }
  for (std::size_t i = 0; i < encoders_.size(); ++i) {
    const std::span<std::byte> out(buffers_[i % 2].get(), buffer_bytes_[i % 2]);
    HEADRACE_TRY_ASSIGN(const std::size_t bytes, encoders_[i]->encode(elements, out));
    elements = out.first(bytes);
  }
  return elements;
}

}  // namespace headrace::codec
