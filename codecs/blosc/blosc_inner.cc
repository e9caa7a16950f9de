#include "blosc_inner.h"

#include <cstring>

namespace headrace::codec {
namespace {

std::size_t byte_at(const std::byte* at) { return std::to_integer<std::size_t>(*at); }

// Copies forward within the output, so that a distance shorter than the length repeats the bytes. REQUIRES: 0 <
// distance <= bytes written so far; length <= room, the bytes left in the output.
inline void copy_match(std::byte* out, std::size_t distance, std::size_t length, std::size_t room) noexcept {
  if (distance == 1) {
    std::memset(out, std::to_integer<int>(*(out - 1)), length);
    return;
  }
  if (length > 64) {
    // Doubles the copied range each time, so that no copy depends on the bytes of the one just before.
    const std::byte* const from = out - distance;
    for (; length > distance; distance *= 2) {
      std::memcpy(out, from, distance);
      out += distance;
      length -= distance;
    }
    std::memcpy(out, from, length);
    return;
  }
  // Vectors may overrun the match while the output has room; the excess is overwritten later.
  if (distance >= 16 && room - length >= 16) {
    const std::byte* from = out - distance;
    for (std::size_t i = 0; i < length; i += 16) std::memcpy(out + i, from + i, 16);
    return;
  }
  std::size_t i = 0;
  if (room - length >= 8) {
    // A pattern of period `distance` also has every multiple of it as a period. From a multiple of at least 8 on, whole
    // words can be copied.
    std::size_t period = distance;
    while (period < 8) period += distance;
    for (; i < period - distance && i < length; ++i) out[i] = *(out + i - distance);
    for (; i < length; i += 8) std::memcpy(out + i, out + i - period, 8);
    return;
  }
  for (; i < length; ++i) out[i] = *(out + i - distance);
}

// The same for literals from the input. REQUIRES: length <= room, length <= left.
inline void copy_literals(std::byte* out, const std::byte* in, std::size_t length, std::size_t room,
                          std::size_t left) noexcept {
  if (length <= 32 && room >= 32 && left >= 32) {
    std::memcpy(out, in, 32);
  } else {
    std::memcpy(out, in, length);
  }
}

}  // namespace

// A control byte below 32 announces that many literals plus one. Otherwise its top three bits are the length and its
// low five the high bits of the distance. A length of 7 continues in bytes until one is not 255. If both parts of the
// distance have their maximum, 16 more bits follow. The first control byte always announces literals, and a stream ends
// in literals.
bool decode_blosclz(const std::byte* src, std::size_t src_bytes, std::byte* dst, std::size_t dst_bytes) noexcept {
  constexpr std::size_t kMaxNear = 8191;
  if (src_bytes == 0) return false;
  const std::byte* in = src;
  const std::byte* const end = src + src_bytes;
  std::byte* out = dst;
  std::byte* const out_end = dst + dst_bytes;
  std::size_t control = byte_at(in++) & 31;
  for (;;) {
    const auto room = static_cast<std::size_t>(out_end - out);
    if (control < 32) {
      const std::size_t length = control + 1;
      const auto left = static_cast<std::size_t>(end - in);
      if (length > room || length > left) return false;
      copy_literals(out, in, length, room, left);
      out += length;
      in += length;
      if (in == end) return out == out_end;
    } else {
      std::size_t length = (control >> 5) - 1;
      const std::size_t high = (control & 31) << 8;
      if (length == 6) {
        std::size_t more = 255;
        while (more == 255) {
          if (in == end || length > room) return false;
          more = byte_at(in++);
          length += more;
        }
      }
      length += 3;
      if (in == end) return false;
      const std::size_t low = byte_at(in++);
      std::size_t distance = high + low + 1;
      if (low == 255 && high == 31 << 8) {
        if (end - in < 2) return false;
        distance = (byte_at(in) << 8) + byte_at(in + 1) + kMaxNear + 1;
        in += 2;
      }
      if (length > room || distance > static_cast<std::size_t>(out - dst) || in == end) return false;
      copy_match(out, distance, length, room);
      out += length;
    }
    control = byte_at(in++);
  }
}

bool decode_snappy(const std::byte* src, std::size_t src_bytes, std::byte* dst, std::size_t dst_bytes) noexcept {
  const std::byte* in = src;
  const std::byte* const end = src + src_bytes;
  std::uint64_t declared = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (in == end || shift > 28) return false;
    const std::uint64_t byte = byte_at(in++);
    declared |= (byte & 127) << shift;
    if (byte < 128) break;
  }
  if (declared != dst_bytes) return false;
  std::byte* out = dst;
  std::byte* const out_end = dst + dst_bytes;
  while (in != end) {
    const std::size_t tag = byte_at(in++);
    const auto room = static_cast<std::size_t>(out_end - out);
    const auto left = static_cast<std::size_t>(end - in);
    std::size_t length = (tag >> 2) + 1, extra = 0, distance = 0;
    switch (tag & 3) {
      case 0: {
        if (length > 60) {  // 1 to 4 bytes of length follow
          extra = length - 60;
          if (extra > left) return false;
          length = 0;
          for (std::size_t i = 0; i < extra; ++i) length |= byte_at(in + i) << (8 * i);
          ++length;
          in += extra;
        }
        if (length > room || length > left - extra) return false;
        copy_literals(out, in, length, room, left - extra);
        out += length;
        in += length;
        continue;
      }
      case 1:
        if (left < 1) return false;
        length = (tag >> 2 & 7) + 4;
        distance = (tag >> 5) << 8 | byte_at(in);
        in += 1;
        break;
      case 2:
        if (left < 2) return false;
        distance = byte_at(in) | byte_at(in + 1) << 8;
        in += 2;
        break;
      default:
        if (left < 4) return false;
        for (std::size_t i = 0; i < 4; ++i) distance |= byte_at(in + i) << (8 * i);
        in += 4;
    }
    if (length > room || distance == 0 || distance > static_cast<std::size_t>(out - dst)) return false;
    copy_match(out, distance, length, room);
    out += length;
  }
  return out == out_end;
}

}  // namespace headrace::codec
