// CheckedCoder: what coders have in common, and StreamCodec: what every bytes -> bytes codec has.
//
// decode() checks what holds for all formats: an empty stream is corrupt, the decoded size is the one metadata
// promises, and whatever a library throws ends as the stream's status.
#pragma once

#include "codec/codec.h"

namespace headrace::codec {

class CheckedCoder : public StreamCoder {
 public:
  Status decode(EncodedStream& stream, Scratch* scratch) const final;

 protected:
  // Decodes one stream that is not empty and sets stream.dst_bytes. Never touches bytes outside the two ranges.
  virtual Status decode_stream(EncodedStream& stream, Scratch* scratch) const = 0;
};

// Its own coder.
class StreamCodec : public BytesToBytes, public CheckedCoder {
 public:
  std::string_view name() const noexcept override = 0;
  const StreamCoder* coder() const noexcept override { return this; }
};

// Failures built without throwing; printf-like, cut at 255 characters.
[[gnu::format(printf, 1, 2)]] Status corrupt(const char* format, ...) noexcept;
[[gnu::format(printf, 1, 2)]] Status unsupported(const char* format, ...) noexcept;

// What a decoder reports when a stream holds or promises another size than metadata gives. Where fewer bytes than
// dst_capacity are allowed, tells the caller that it takes more.
Status wrong_size(std::string_view codec, std::uint64_t got_bytes, EncodedStream& stream) noexcept;
// OK where a stream may decode to so many bytes altogether.
inline Status check_size(std::string_view codec, std::uint64_t bytes, EncodedStream& stream) noexcept {
  const std::size_t most = stream.prefix_of != 0 ? stream.prefix_of : stream.dst_capacity;
  const bool enough = stream.prefix_of == 0 || bytes >= stream.dst_capacity;
  const bool holds = enough && (stream.exact ? bytes == most : bytes <= most);
  return holds ? Status() : wrong_size(codec, bytes, stream);
}
// For decoders that only find out that dst_capacity is too little: any more may do.
inline void needs_more_room(EncodedStream& stream) noexcept {
  if (!stream.exact) stream.needed_bytes = stream.dst_capacity + 1;
}

}  // namespace headrace::codec
