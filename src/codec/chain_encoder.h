// ChainEncoder: encodes a chunk's elements to its stored bytes, the reverse of Chain::decode.
//
// Threads: one at a time; each thread makes its own.
// Owns:    the encoders and the buffers between them, sized once.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "codec/chain.h"
#include "codec/encoder.h"

namespace headrace::codec {

class ChainEncoder {
 public:
  // `chain` must outlive the encoder. kUnsupported, naming the codec, if one of them cannot encode.
  static Result<ChainEncoder> make(const Chain& chain);

  // Returns the stored bytes of the chunk that decodes to `elements`, which are in the chain's layout and byte order,
  // as decode() produces them. The result is valid until the next call and may be `elements` itself. REQUIRES:
  // elements.size() is chain.decoded_bytes().
  Result<std::span<const std::byte>> encode(std::span<const std::byte> elements);

 private:
  explicit ChainEncoder(const Chain& chain) : chain_(&chain) {}

  const Chain* chain_;
  std::vector<std::unique_ptr<Encoder>> encoders_;  // encoding order
  std::unique_ptr<std::byte[]> buffers_[2];
  std::size_t buffer_bytes_[2] = {0, 0};
};

}  // namespace headrace::codec
