// UTF-8 as the Unicode standard defines it (table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace headrace::base {

inline constexpr std::size_t kValidUtf8 = ~std::size_t{0};

// Length in bytes of the character at the start of `text`; 0 if there is no valid one.
inline std::size_t utf8_character_bytes(std::span<const std::byte> text) noexcept {
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(text[i]); };
  if (text.empty()) return 0;
  const std::uint32_t lead = at(0);
  if (lead < 0x80) return 1;
  // The second byte's range depends on the first.
  std::size_t length = 0;
  std::uint32_t low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (text.size() < length || at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

// Index of the first byte that does not start a valid character; kValidUtf8 if there is none.
inline std::size_t find_invalid_utf8(std::span<const std::byte> text) noexcept {
  const std::size_t size = text.size();
  std::size_t i = 0;
  while (i < size) {
    if (size - i >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i, 8);
      if ((word & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    const std::size_t length = utf8_character_bytes(text.subspan(i));
    if (length == 0) return i;
    i += length;
  }
  return kValidUtf8;
}

// REQUIRES: point <= 0x10FFFF.
inline void append_utf8(std::uint32_t point, std::string& out) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | point >> 6);
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

}  // namespace headrace::base
