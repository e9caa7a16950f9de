// Writes Zstandard frames by hand (RFC 8878), valid or invalid, with every mode of every part, including those that no
// encoder produces.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/support/codec_testing.h"

namespace headrace::test {

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline Bytes little_endian(std::uint64_t value, std::size_t bytes) {
  Bytes out;
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
  return out;
}

// Bits in reading order: from the lowest bit of the first byte upwards, or from the highest bit of the last byte
// downwards.
class BitList {
 public:
  void add(std::uint64_t value, unsigned bits) {
    if (bits != 0) list_.push_back({value & ((std::uint64_t{1} << bits) - 1), bits});
  }
  Bytes forward() const {
    std::vector<bool> bits;
    for (const auto& [value, count] : list_) {
      for (unsigned i = 0; i < count; ++i) bits.push_back((value >> i & 1) != 0);
    }
    return packed(bits);
  }
  // With the marker bit that says where they begin.
  Bytes backward() const {
    std::vector<bool> bits;
    for (auto entry = list_.rbegin(); entry != list_.rend(); ++entry) {
      for (unsigned i = 0; i < entry->second; ++i) bits.push_back((entry->first >> i & 1) != 0);
    }
    bits.push_back(true);
    return packed(bits);
  }

 private:
  static Bytes packed(const std::vector<bool>& bits) {
    Bytes out((bits.size() + 7) / 8);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      if (bits[i]) out[i / 8] |= std::byte{1} << (i % 8);
    }
    return out;
  }
  std::vector<std::pair<std::uint64_t, unsigned>> list_;
};

// ---- FSE ----

struct FseCounts {
  std::vector<int> counts;  // by symbol; -1: less than one
  unsigned log = 0;         // 0: RLE, only one symbol has a count
};

class FseTable {
 public:
  struct Cell {
    unsigned symbol = 0, bits = 0;
    std::uint32_t base = 0;
  };
  explicit FseTable(const FseCounts& from) : cells(std::size_t{1} << from.log), log(from.log) {
    const std::size_t size = cells.size();
    std::size_t high = size;
    std::vector<std::uint32_t> next(from.counts.size());
    for (std::size_t s = 0; s < from.counts.size(); ++s) {
      next[s] = from.counts[s] < 0 ? 1 : static_cast<std::uint32_t>(from.counts[s]);
      if (from.counts[s] < 0) cells[--high].symbol = static_cast<unsigned>(s);
    }
    std::size_t at = 0;
    for (std::size_t s = 0; s < from.counts.size(); ++s) {
      for (int i = 0; i < from.counts[s]; ++i) {
        cells[at].symbol = static_cast<unsigned>(s);
        do {
          at = (at + size / 2 + size / 8 + 3) % size;
        } while (at >= high);
        if (high == 0) break;
      }
    }
    for (Cell& cell : cells) {
      const std::uint32_t number = next[cell.symbol]++;
      while (number << cell.bits < size) ++cell.bits;
      cell.base = (number << cell.bits) - static_cast<std::uint32_t>(size);
    }
  }
  // A state of `symbol` that leads to `next`, or any state of it.
  std::size_t before(unsigned symbol, std::size_t next) const {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Cell& cell = cells[i];
      if (cell.symbol == symbol && next >= cell.base && next < cell.base + (std::size_t{1} << cell.bits)) return i;
    }
    std::abort();
  }
  std::size_t any(unsigned symbol, unsigned min_bits = 0) const {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].symbol == symbol && cells[i].bits >= min_bits) return i;
    }
    std::abort();
  }
  std::vector<Cell> cells;
  unsigned log;
};

inline Bytes fse_description(const FseCounts& from) {
  BitList bits;
  bits.add(from.log - 5, 4);
  int left = (1 << from.log) + 1, threshold = 1 << from.log;
  unsigned width = from.log + 1;
  for (std::size_t s = 0; left > 1 && s < from.counts.size(); ++s) {
    const int value = from.counts[s] + 1, shorter = 2 * threshold - 1 - left;
    if (value < shorter) {
      bits.add(static_cast<std::uint64_t>(value), width - 1);
    } else {
      bits.add(static_cast<std::uint64_t>(value < threshold ? value : value + shorter), width);
    }
    left -= std::abs(from.counts[s]);
    while (left < threshold && left > 1) {
      threshold /= 2;
      --width;
    }
    if (from.counts[s] != 0) continue;
    std::size_t zeros = 0;
    while (s + 1 < from.counts.size() && from.counts[s + 1] == 0) {
      ++zeros;
      ++s;
    }
    for (; zeros >= 3; zeros -= 3) bits.add(3, 2);
    bits.add(zeros, 2);
  }
  return bits.forward();
}

// Counts for a table of 2^log cells, in which every symbol that occurs has at least one cell. Symbols from `rare_from`
// on have the count "less than one".
inline FseCounts counts_of(const std::vector<unsigned>& symbols, unsigned log, unsigned rare_from = 256) {
  FseCounts out;
  out.log = log;
  for (const unsigned s : symbols) {
    if (out.counts.size() <= s) out.counts.resize(s + 1);
    ++out.counts[s];
  }
  const int size = 1 << log, all = static_cast<int>(symbols.size());
  int used = 0;
  std::size_t most = 0;
  for (std::size_t s = 0; s < out.counts.size(); ++s) {
    int& count = out.counts[s];
    if (count == 0) continue;
    count = s >= rare_from ? -1 : std::max(1, count * (size / 2) / all);
    used += std::abs(count);
    if (count > out.counts[most]) most = s;
  }
  out.counts[most] += size - used;
  return out;
}

// ---- literals ----

// A Huffman code given by its weights, the last of which is implied.
class HuffmanCode {
 public:
  explicit HuffmanCode(std::vector<unsigned> weights) : weights_(std::move(weights)) {
    std::uint32_t sum = 0;
    for (const unsigned w : weights_) sum += w == 0 ? 0 : 1u << (w - 1);
    while (1u << log_ < sum) ++log_;
    std::uint32_t code = 0;
    codes_.resize(weights_.size());
    for (unsigned w = 1; w <= log_; ++w) {
      for (std::size_t s = 0; s < weights_.size(); ++s) {
        if (weights_[s] != w) continue;
        codes_[s] = code >> (w - 1);
        code += 1u << (w - 1);
      }
    }
  }
  Bytes direct_description() const {
    const std::size_t count = weights_.size() - 1;
    Bytes out = little_endian(127 + count, 1);
    for (std::size_t i = 0; i < count; i += 2) {
      const unsigned second = i + 1 < count ? weights_[i + 1] : 0;
      out.push_back(static_cast<std::byte>(weights_[i] << 4 | second));
    }
    return out;
  }
  Bytes coded_description(unsigned log = 6) const {
    const std::vector<unsigned> all(weights_.begin(), weights_.end() - 1);
    const FseCounts counts = counts_of(all, log);
    const FseTable table(counts);
    // No state follows the last two. One of them must require bits that do not exist.
    std::vector<std::size_t> states(all.size());
    for (std::size_t i = all.size(); i-- > 0;) {
      states[i] = i + 1 == all.size()   ? table.any(all[i])
                  : i + 2 == all.size() ? table.any(all[i], 1)
                                        : table.before(all[i], states[i + 2]);
    }
    BitList bits;
    bits.add(states[0], log);
    bits.add(states[1], log);
    for (std::size_t i = 0; i + 2 < all.size(); ++i) {
      const FseTable::Cell& cell = table.cells[states[i]];
      bits.add(states[i + 2] - cell.base, cell.bits);
    }
    const Bytes content = fse_description(counts) + bits.backward();
    return little_endian(content.size(), 1) + content;
  }
  // `missing`: how many bits of the last code word are left out.
  Bytes stream(std::span<const std::byte> literals, unsigned missing = 0) const {
    BitList bits;
    for (std::size_t i = 0; i < literals.size(); ++i) {
      const auto s = std::to_integer<std::size_t>(literals[i]);
      const unsigned less = i + 1 == literals.size() ? missing : 0;
      bits.add(codes_.at(s) >> less, log_ + 1 - weights_[s] - less);
    }
    return bits.backward();
  }
  Bytes streams(const Bytes& literals, unsigned count) const {
    if (count == 1) return stream(literals);
    const std::size_t each = (literals.size() + 3) / 4;
    Bytes table, content;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t from = std::min(k * each, literals.size()), to = std::min(from + each, literals.size());
      const Bytes one = stream(std::span(literals).subspan(from, to - from));
      if (k < 3) table = table + little_endian(one.size(), 2);
      content = content + one;
    }
    return table + content;
  }

 private:
  std::vector<unsigned> weights_;
  std::vector<std::uint32_t> codes_;
  unsigned log_ = 0;
};

// Type 0 raw, 1 RLE.
inline Bytes plain_literals(unsigned type, std::size_t bytes, const Bytes& content) {
  Bytes header = bytes < 32     ? little_endian(type | bytes << 3, 1)
                 : bytes < 4096 ? little_endian(type | 1 << 2 | bytes << 4, 2)
                                : little_endian(type | 3 << 2 | bytes << 4, 3);
  return std::move(header) + content;
}
inline Bytes raw_literals(const Bytes& literals) { return plain_literals(0, literals.size(), literals); }
inline Bytes rle_literals(std::byte byte, std::size_t count) { return plain_literals(1, count, {byte}); }
// Type 2, or 3 without a tree.
inline Bytes huffman_literals(const Bytes& tree, const Bytes& streams, std::size_t literals, unsigned stream_count) {
  const std::uint64_t encoded = tree.size() + streams.size(), type = tree.empty() ? 3 : 2;
  const std::uint64_t most = std::max<std::uint64_t>(encoded, literals);
  const unsigned format = stream_count == 1 ? 0 : most < 1024 ? 1 : most < 16384 ? 2 : 3;
  const unsigned bits = format < 2 ? 10 : format == 2 ? 14 : 18;
  return little_endian(type | format << 2 | literals << 4 | encoded << (4 + bits), format < 2 ? 3 : format + 2) + tree +
         streams;
}

// ---- sequences ----

struct SequenceSpec {
  std::uint32_t literals = 0, match = 3, offset_value = 1;  // 1 to 3 repeat
};

struct CodeValue {
  unsigned code, bits;
  std::uint32_t extra;
};
inline CodeValue code_value(std::span<const std::pair<std::uint32_t, unsigned>> table, std::uint32_t value) {
  std::size_t code = table.size();
  while (table[--code].first > value) continue;
  return {static_cast<unsigned>(code), table[code].second, value - table[code].first};
}
// (base, extra bits) by code: RFC 8878, 3.1.1.3.2.1.1.
inline CodeValue literal_code(std::uint32_t value) {
  static const auto table = [] {
    std::vector<std::pair<std::uint32_t, unsigned>> out;
    for (std::uint32_t i = 0; i < 16; ++i) out.emplace_back(i, 0);
    for (const unsigned bits : {1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}) {
      out.emplace_back(out.back().first + (1u << out.back().second), bits);
    }
    return out;
  }();
  return code_value(table, value);
}
inline CodeValue match_code(std::uint32_t value) {
  static const auto table = [] {
    std::vector<std::pair<std::uint32_t, unsigned>> out;
    for (std::uint32_t i = 3; i < 35; ++i) out.emplace_back(i, 0);
    for (const unsigned bits : {1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}) {
      out.emplace_back(out.back().first + (1u << out.back().second), bits);
    }
    return out;
  }();
  return code_value(table, value);
}
inline CodeValue offset_code(std::uint32_t value) {
  unsigned code = 0;
  while (value >> code > 1) ++code;
  return {code, code, value - (1u << code)};
}

inline const FseCounts kPredefinedCounts[3] = {
    {{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1},
     6},
    {{1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}, 5},
    {{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1},
     6}};

enum : unsigned { kPredefinedMode, kRleMode, kFseMode, kRepeatMode };

// Writes sequences sections one after the other and remembers their tables, in the order literal lengths, offsets,
// match lengths.
class SequenceWriter {
 public:
  unsigned logs[3] = {9, 8, 9};                    // for kFseMode
  unsigned rare_from[3] = {256, 256, 256};         // symbols from here on have the count "less than one"
  std::uint64_t extra_bits = 0, missing_bits = 0;  // errors to introduce: surplus bits, or bits left out
  unsigned reserved = 0;
  bool long_count = false;

  Bytes section(const std::vector<SequenceSpec>& sequences, const std::array<unsigned, 3>& modes) {
    const std::size_t n = sequences.size();
    Bytes out = n == 0 && !long_count    ? little_endian(0, 1)
                : n < 128 && !long_count ? little_endian(n, 1)
                : n < 0x7F00             ? little_endian(128 + (n >> 8), 1) + little_endian(n, 1)
                                         : little_endian(255, 1) + little_endian(n - 0x7F00, 2);
    if (n == 0 && !long_count) return out;
    out = out + little_endian(modes[0] << 6 | modes[1] << 4 | modes[2] << 2 | reserved, 1);
    std::vector<std::array<CodeValue, 3>> codes;
    for (const SequenceSpec& s : sequences) {
      codes.push_back({literal_code(s.literals), offset_code(s.offset_value), match_code(s.match)});
    }
    for (std::size_t k = 0; k < 3; ++k) {
      std::vector<unsigned> symbols;
      for (const auto& each : codes) symbols.push_back(each[k].code);
      if (modes[k] == kPredefinedMode) counts_[k] = kPredefinedCounts[k];
      if (modes[k] == kRleMode) {
        counts_[k] = {std::vector<int>(symbols[0] + 1), 0};
        counts_[k].counts[symbols[0]] = 1;
        out = out + little_endian(symbols[0], 1);
      }
      if (modes[k] == kFseMode) {
        counts_[k] = counts_of(symbols, logs[k], rare_from[k]);
        out = out + fse_description(counts_[k]);
      }
    }
    return out + bits_of(codes);
  }

 private:
  Bytes bits_of(const std::vector<std::array<CodeValue, 3>>& codes) const {
    const std::size_t n = codes.size();
    std::vector<std::array<std::size_t, 3>> states(n);
    std::vector<FseTable> tables;
    for (const FseCounts& counts : counts_) tables.emplace_back(counts);
    for (std::size_t k = 0; k < 3; ++k) {
      for (std::size_t i = n; i-- > 0;) {
        states[i][k] =
            i + 1 == n ? tables[k].any(codes[i][k].code) : tables[k].before(codes[i][k].code, states[i + 1][k]);
      }
    }
    BitList bits;
    if (n != 0) {
      for (std::size_t k = 0; k < 3; ++k) bits.add(states[0][k], tables[k].log);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const bool last = i + 1 == n;
      // Literal lengths are the last extra bits, so they are the ones left out.
      for (const std::size_t k : {1, 2, 0}) {
        const unsigned less = last && k == 0 ? static_cast<unsigned>(missing_bits) : 0;
        bits.add(codes[i][k].extra >> less, codes[i][k].bits - less);
      }
      if (last) break;
      for (const std::size_t k : {0, 2, 1}) {
        const FseTable::Cell& cell = tables[k].cells[states[i][k]];
        bits.add(states[i + 1][k] - cell.base, cell.bits);
      }
    }
    bits.add(0, static_cast<unsigned>(extra_bits));
    return bits.backward();
  }
  FseCounts counts_[3];
};

// ---- frames ----

enum : unsigned { kRawBlock, kRleBlock, kCompressedBlock, kReservedBlock };

class FrameWriter {
 public:
  // A frame without a content size, with a window of at least 1 KiB: 2^log plus `eighths` eighths of it.
  FrameWriter& window(unsigned log, unsigned eighths = 0) {
    head_ = little_endian(0, 1) + little_endian((log - 10) << 3 | eighths, 1);
    return *this;
  }
  // A single segment with its size in 1, 2, 4 or 8 bytes.
  FrameWriter& single(std::uint64_t size, unsigned flag) {
    head_ = little_endian(flag << 6 | 1 << 5, 1) +
            little_endian(flag == 1 ? size - 256 : size, flag == 0 ? 1 : std::size_t{1} << flag);
    return *this;
  }
  FrameWriter& head(Bytes bytes) {
    head_ = std::move(bytes);
    return *this;
  }
  FrameWriter& block(unsigned type, std::size_t size, const Bytes& content) {
    blocks_.push_back({type, size, content});
    return *this;
  }
  FrameWriter& raw(const Bytes& content) { return block(kRawBlock, content.size(), content); }
  FrameWriter& rle(std::byte byte, std::size_t count) { return block(kRleBlock, count, {byte}); }
  FrameWriter& compressed(const Bytes& literals, const Bytes& sequences) {
    const Bytes content = literals + sequences;
    return block(kCompressedBlock, content.size(), content);
  }
  Bytes bytes() const {
    Bytes out = little_endian(0xFD2FB528, 4) + head_;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block& b = blocks_[i];
      out = out + little_endian((i + 1 == blocks_.size() ? 1u : 0) | b.type << 1 | b.size << 3, 3) + b.content;
    }
    return out;
  }

 private:
  struct Block {
    unsigned type;
    std::size_t size;
    Bytes content;
  };
  Bytes head_ = little_endian(0, 1) + little_endian(9 << 3, 1);  // 512 KiB
  std::vector<Block> blocks_;
};

inline Bytes skippable_frame(const Bytes& content, unsigned number = 0) {
  return little_endian(0x184D2A50 + number, 4) + little_endian(content.size(), 4) + content;
}

}  // namespace headrace::test
