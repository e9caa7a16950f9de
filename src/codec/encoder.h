// Encoder: does the step that a bytes -> bytes codec's decode() undoes.
//
// Made by Codec::make_encoder from the codec's configuration (level, filter, checksum). The same bytes give the same
// stream, whatever was encoded before, so a store does not depend on which thread wrote which chunk.
//
// Threads: one at a time; every thread makes its own.
// Owns:    its working memory, a library's context.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <span>

namespace headrace::codec {

class Encoder {
 public:
  virtual ~Encoder() = default;

  // Room in bytes that encode() may need for `plain_bytes`.
  virtual std::size_t bound_bytes(std::size_t plain_bytes) const = 0;

  // Encodes `plain` into `out` and gives the length of the stream. REQUIRES: out.size() >= bound_bytes(plain.size()),
  // no overlap. kInvalidArgument: the format cannot hold these bytes (too many, or no whole number of elements).
  virtual Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) = 0;
};

}  // namespace headrace::codec
