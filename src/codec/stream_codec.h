// CheckedCoder: checks common to all coders. StreamCodec: base of every bytes -> bytes codec.
//
// decode() enforces what holds for all formats: an empty stream is corrupt, the decoded size is the one that metadata
// promises, and an exception from a library becomes the stream's status.
#pragma once

#include "codec/codec.h"

namespace headrace::codec {

class CheckedCoder : public StreamCoder {
 public:
  Status decode(EncodedStream& stream, Scratch* scratch) const final;

 protected:
  // Decodes one non-empty stream and sets stream.dst_bytes. Must not access bytes outside the two ranges.
  virtual Status decode_stream(EncodedStream& stream, Scratch* scratch) const = 0;
};

// A codec that is its own coder.
class StreamCodec : public BytesToBytes, public CheckedCoder {
 public:
  std::string_view name() const noexcept override = 0;
  const StreamCoder* coder() const noexcept override { return this; }
};

// Build failures without throwing; printf-like, cut at 255 characters.
[[gnu::format(printf, 1, 2)]] Status corrupt(const char* format, ...) noexcept;
[[gnu::format(printf, 1, 2)]] Status unsupported(const char* format, ...) noexcept;

// The failure for a stream whose size differs from what metadata promises. If fewer bytes than dst_capacity are
// allowed, also reports the needed capacity in the stream.
Status wrong_size(std::string_view codec, std::uint64_t got_bytes, EncodedStream& stream) noexcept;
// OK if a stream may decode to this many bytes in total.
inline Status check_size(std::string_view codec, std::uint64_t bytes, EncodedStream& stream) noexcept {
  const std::size_t most = stream.prefix_of != 0 ? stream.prefix_of : stream.dst_capacity;
  const bool enough = stream.prefix_of == 0 || bytes >= stream.dst_capacity;
  const bool holds = enough && (stream.exact ? bytes == most : bytes <= most);
  return holds ? Status() : wrong_size(codec, bytes, stream);
}
// For decoders that only detect that dst_capacity is too small: any larger capacity may suffice.
inline void needs_more_room(EncodedStream& stream) noexcept {
  if (!stream.exact) stream.needed_bytes = stream.dst_capacity + 1;
}

}  // namespace headrace::codec
