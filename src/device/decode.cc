#include "device/decode.h"

namespace headrace::device {

const char* decode_reason_text(DecodeReason reason) noexcept {
  switch (reason) {
    case DecodeReason::kNone:
      return "nothing is wrong";
    case DecodeReason::kHeader:
      return "the header is damaged";
    case DecodeReason::kTruncated:
      return "the stream ends too early";
    case DecodeReason::kWrongSize:
      return "the decoded size differs from what the metadata promises";
    case DecodeReason::kOffset:
      return "a match reaches back beyond the start of the output";
    case DecodeReason::kLength:
      return "a run exceeds the remaining output";
    case DecodeReason::kTrailing:
      return "extra bytes follow the end of the stream";
    case DecodeReason::kChecksum:
      return "the checksum does not match";
    case DecodeReason::kHostOnly:
      return "the device does not decode this stream";
  }
  return "unknown reason";
}

}  // namespace headrace::device
