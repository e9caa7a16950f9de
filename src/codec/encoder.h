// Encoder: performs the encoding that a bytes -> bytes codec's decode() reverses.
//
// Made by StreamCoder::make_encoder from the codec's configuration (level, filter, checksum). Encoding is
// deterministic: the same bytes always give the same stream, so a store does not depend on which thread
// wrote which chunk.
//
// Threads: one at a time; each thread makes its own.
// Owns:    its working memory, such as a library's context.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <span>

namespace headrace::codec {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Maximum output size of encode() for `plain_bytes`.
  virtual std::size_t bound_bytes(std::size_t plain_bytes) const = 0;

  // Encodes `plain` into `out` and returns the length of the stream. REQUIRES: out.size() >= bound_bytes(plain.size()),
  // no overlap. kInvalidArgument: the format cannot hold these bytes (too many, or not a whole number of elements).
  virtual Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) = 0;
};

}  // namespace headrace::codec
