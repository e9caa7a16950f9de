// Writes DEFLATE streams bit by bit, valid or invalid, for tests.
#pragma once

#include <libdeflate.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/codec_testing.h"

namespace headrace::test {

// Code words by symbol, from their lengths (RFC 1951, 3.2.2). The lengths need not form a valid code.
class PrefixCode {
 public:
  explicit PrefixCode(std::vector<unsigned> lengths) : lengths_(std::move(lengths)), words_(lengths_.size()) {
    unsigned word = 0;
    for (unsigned length = 1; length <= 15; ++length) {
      word <<= 1;
      for (std::size_t i = 0; i < lengths_.size(); ++i) {
        if (lengths_[i] == length) words_[i] = word++;
      }
    }
  }
  const std::vector<unsigned>& lengths() const { return lengths_; }
  unsigned length(std::size_t symbol) const { return lengths_.at(symbol); }
  unsigned word(std::size_t symbol) const { return words_.at(symbol); }

  static PrefixCode fixed_literals() {
    std::vector<unsigned> lengths(288, 8);
    for (std::size_t i = 144; i < 256; ++i) lengths[i] = 9;
    for (std::size_t i = 256; i < 280; ++i) lengths[i] = 7;
    return PrefixCode(lengths);
  }
  static PrefixCode fixed_distances() { return PrefixCode(std::vector<unsigned>(32, 5)); }

 private:
  std::vector<unsigned> lengths_, words_;
};

class DeflateWriter {
 public:
  DeflateWriter& bits(std::uint64_t value, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      if (used_ == 0) bytes_.push_back(std::byte{0});
      bytes_.back() |= static_cast<std::byte>((i < 64 ? value >> i & 1 : 0) << used_);
      used_ = (used_ + 1) % 8;
    }
    return *this;
  }
  DeflateWriter& header(bool last, unsigned type) { return bits(last ? 1 : 0, 1).bits(type, 2); }
  DeflateWriter& word(const PrefixCode& code, std::size_t symbol) {
    for (unsigned i = code.length(symbol); i-- > 0;) bits(code.word(symbol) >> i & 1, 1);
    return *this;
  }
  std::size_t bit_count() const { return bytes_.size() * 8 - (used_ == 0 ? 0 : 8 - used_); }
  const Bytes& bytes() const { return bytes_; }

  DeflateWriter& stored(bool last, const Bytes& content, unsigned padding = 0) {
    header(last, 0);
    if (used_ != 0) bits(padding, 8 - used_);
    bits(content.size(), 16).bits(~content.size(), 16);
    bytes_.insert(bytes_.end(), content.begin(), content.end());
    return *this;
  }

  // Describes a dynamic block with given symbols of the precode: a symbol and the value of its extra bits.
  struct Length {
    unsigned symbol, extra = 0;
  };
  static PrefixCode default_precode() {
    std::vector<unsigned> lengths(19, 4);
    for (std::size_t i = 13; i < 19; ++i) lengths[i] = 5;
    return PrefixCode(lengths);
  }
  DeflateWriter& description(bool last, unsigned literals, unsigned distances, const std::vector<Length>& lengths,
                             const PrefixCode& precode = default_precode()) {
    static constexpr unsigned kOrder[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    header(last, 2).bits(literals - 257, 5).bits(distances - 1, 5).bits(15, 4);
    for (const unsigned symbol : kOrder) bits(precode.length(symbol), 3);
    for (const Length& each : lengths) {
      word(precode, each.symbol);
      if (each.symbol >= 16) bits(each.extra, each.symbol == 16 ? 2 : each.symbol == 17 ? 3 : 7);
    }
    return *this;
  }
  DeflateWriter& description(bool last, const PrefixCode& literals, const PrefixCode& distances) {
    std::vector<Length> lengths;
    for (const unsigned each : literals.lengths()) lengths.push_back({each});
    for (const unsigned each : distances.lengths()) lengths.push_back({each});
    return description(last, static_cast<unsigned>(literals.lengths().size()),
                       static_cast<unsigned>(distances.lengths().size()), lengths);
  }

  DeflateWriter& match(const PrefixCode& literals, const PrefixCode& distances, unsigned length, unsigned distance) {
    const Value l = length_value(length), d = distance_value(distance);
    return word(literals, l.symbol).bits(l.extra, l.extra_bits).word(distances, d.symbol).bits(d.extra, d.extra_bits);
  }
  DeflateWriter& text(const PrefixCode& literals, const Bytes& content) {
    for (const std::byte each : content) word(literals, std::to_integer<unsigned>(each));
    return *this;
  }
  DeflateWriter& end(const PrefixCode& literals) { return word(literals, 256); }

  struct Value {
    unsigned symbol, extra, extra_bits;
  };
  static Value length_value(unsigned length) {
    if (length == 258) return {285, 0, 0};
    for (unsigned code = 28; code-- > 0;) {
      const unsigned bits = code < 8 ? 0 : code / 4 - 1, base = code < 8 ? 3 + code : 3 + ((4 + code % 4) << bits);
      if (length >= base) return {257 + code, length - base, bits};
    }
    return {257, 0, 0};
  }
  static Value distance_value(unsigned distance) {
    for (unsigned symbol = 30; symbol-- > 0;) {
      const unsigned bits = symbol < 4 ? 0 : symbol / 2 - 1;
      const unsigned base = symbol < 4 ? 1 + symbol : 1 + ((2 + symbol % 2) << bits);
      if (distance >= base) return {symbol, distance - base, bits};
    }
    return {0, 0, 0};
  }

 private:
  Bytes bytes_;
  unsigned used_ = 0;  // bits used in the last byte
};

// What the stream decodes to, or nothing if it is invalid.
inline Bytes inflated(const Bytes& raw, std::size_t most = 4 << 20) {
  Bytes out(most);
  libdeflate_decompressor* const inflater = libdeflate_alloc_decompressor();
  std::size_t bytes = 0;
  const auto result = libdeflate_deflate_decompress(inflater, raw.data(), raw.size(), out.data(), out.size(), &bytes);
  libdeflate_free_decompressor(inflater);
  out.resize(result == LIBDEFLATE_SUCCESS ? bytes : 0);
  return out;
}
inline Bytes in_zlib(const Bytes& raw, const Bytes& plain) {
  Bytes out = {std::byte{0x78}, std::byte{0x9C}};
  out.insert(out.end(), raw.begin(), raw.end());
  const std::uint32_t sum = libdeflate_adler32(1, plain.data(), plain.size());
  for (unsigned i = 4; i-- > 0;) out.push_back(static_cast<std::byte>(sum >> (8 * i)));
  return out;
}
inline Bytes in_gzip(const Bytes& raw, const Bytes& plain) {
  Bytes out(10);
  out[0] = std::byte{0x1F};
  out[1] = std::byte{0x8B};
  out[2] = std::byte{8};
  out.insert(out.end(), raw.begin(), raw.end());
  const std::uint32_t crc = libdeflate_crc32(0, plain.data(), plain.size());
  for (unsigned i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(crc >> (8 * i)));
  for (unsigned i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(plain.size() >> (8 * i)));
  return out;
}

}  // namespace headrace::test
