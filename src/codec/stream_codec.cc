#include "codec/stream_codec.h"

#include <cstdarg>
#include <cstdio>
#include <new>

namespace headrace::codec {
namespace {

Status formatted(Code code, const char* format, std::va_list arguments) noexcept {
  char text[256];
  std::vsnprintf(text, sizeof text, format, arguments);
  try {
    return Status(code, Layer::kCodec, text);
  } catch (...) {
    return Status::out_of_memory();
  }
}

}  // namespace

Status corrupt(const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  Status status = formatted(Code::kCorrupt, format, arguments);
  va_end(arguments);
  return status;
}

Status unsupported(const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  Status status = formatted(Code::kUnsupported, format, arguments);
  va_end(arguments);
  return status;
}

Status wrong_size(std::string_view codec, std::uint64_t got_bytes, EncodedStream& stream) noexcept {
  if (stream.prefix_of != 0) {
    return corrupt("%.*s: stream decodes to %llu bytes, expected %s%zu and at least %zu",
                   static_cast<int>(codec.size()), codec.data(), static_cast<unsigned long long>(got_bytes),
                   stream.exact ? "" : "at most ", stream.prefix_of, stream.dst_capacity);
  }
  if (!stream.exact && got_bytes > stream.dst_capacity) stream.needed_bytes = got_bytes;
  return corrupt("%.*s: stream decodes to %llu bytes, expected %s%zu", static_cast<int>(codec.size()), codec.data(),
                 static_cast<unsigned long long>(got_bytes), stream.exact ? "" : "at most ", stream.dst_capacity);
}

Status CheckedCoder::decode(EncodedStream& stream, Scratch* scratch) const {
  std::unique_ptr<Scratch> own;  // for callers without a scratch: correct, but it allocates
  stream.dst_bytes = stream.needed_bytes = 0;
  Status status;
  try {
    if (scratch == nullptr) {
      own = make_scratch();
      scratch = own.get();
    }
    const bool part = stream.prefix_of != 0;
    if (part && (prefix(stream.prefix_of) != Prefix::kEndsEarly || stream.dst_capacity > stream.prefix_of)) {
      status =
          Status(Code::kInternal, Layer::kCodec, "partial decoding was requested of a stream that does not support it");
    } else if (stream.src_bytes == 0) {
      status = corrupt("%.*s: stream is empty", static_cast<int>(name().size()), name().data());
    } else {
      status = decode_stream(stream, scratch);
    }
  } catch (...) {
    status = Status::out_of_memory();
  }
  if (status.ok() && stream.prefix_of == 0) status = check_size(name(), stream.dst_bytes, stream);
  if (status.ok() && stream.prefix_of != 0 && stream.dst_bytes != stream.dst_capacity) {
    status = wrong_size(name(), stream.dst_bytes, stream);
  }
  if (!status.ok()) stream.dst_bytes = 0;
  return status;
}

}  // namespace headrace::codec
