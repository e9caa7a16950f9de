#include "zstd_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>

#ifndef __CUDACC__
#define __host__
#define __device__
#endif
#include "zstd_layout.h"

namespace headrace::codec {
namespace {

using gpu::zstd::IndexEntry;
using gpu::zstd::kIndexEvery;
using gpu::zstd::kLiteralLengths;
using gpu::zstd::kMatchLengths;
using gpu::zstd::kOffsets;
using gpu::zstd::kTables;

using Bytes = std::span<const std::uint8_t>;

constexpr unsigned kLastSymbol[kTables] = {35, 31, 52}, kMaxLog[kTables] = {9, 8, 9};
constexpr unsigned kMaxCells = 512;

// Extra bits by code (RFC 8878, 3.1.1.3.2.1.1).
unsigned extra_bits(unsigned table, unsigned code) {
  constexpr std::uint8_t kLiteral[] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  constexpr std::uint8_t kMatch[] = {1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  if (table == kOffsets) return code;
  if (table == kLiteralLengths) return code < 16 ? 0 : kLiteral[code - 16];
  return code < 32 ? 0 : kMatch[code - 32];
}

// The predefined distributions (3.1.1.3.2.2).
constexpr std::array<std::int8_t, 36> kLiteralCounts = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                                        2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
constexpr std::array<std::int8_t, 29> kOffsetCounts = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                                       1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
constexpr std::array<std::int8_t, 53> kMatchCounts = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};

struct Cell {
  std::uint16_t base = 0;
  std::uint8_t bits = 0;   // bits of the next state
  std::uint8_t extra = 0;  // extra bits of the value
};

struct FseTable {
  bool there = false;
  unsigned log = 0;
  std::array<Cell, kMaxCells> cells;

  void set_single(unsigned table, unsigned symbol) {
    there = true;
    log = 0;
    cells[0] = {0, 0, static_cast<std::uint8_t>(extra_bits(table, symbol))};
  }
};

// REQUIRES: the counts fill the table.
void fill_cells(FseTable& out, unsigned table, std::span<const std::int16_t> counts) {
  const unsigned size = 1u << out.log, step = (size >> 1) + (size >> 3) + 3;
  std::array<std::uint8_t, kMaxCells> symbols{};
  std::array<std::uint16_t, 64> next{};
  unsigned high = size;
  for (unsigned symbol = 0; symbol < counts.size(); ++symbol) {
    if (counts[symbol] == -1) symbols[--high] = static_cast<std::uint8_t>(symbol);
    next[symbol] = static_cast<std::uint16_t>(counts[symbol] == -1 ? 1 : counts[symbol]);
  }
  unsigned at = 0;
  for (unsigned symbol = 0; symbol < counts.size(); ++symbol) {
    for (int k = 0; k < counts[symbol]; ++k) {
      symbols[at] = static_cast<std::uint8_t>(symbol);
      do {
        at = (at + step) & (size - 1);
      } while (at >= high);
    }
  }
  for (unsigned cell = 0; cell < size; ++cell) {
    const unsigned symbol = symbols[cell], number = next[symbol]++;
    const unsigned bits = out.log + 1 - static_cast<unsigned>(std::bit_width(number));
    out.cells[cell] = {static_cast<std::uint16_t>((number << bits) - size), static_cast<std::uint8_t>(bits),
                       static_cast<std::uint8_t>(extra_bits(table, symbol))};
  }
  out.there = true;
}

template <std::size_t kCount>
void set_predefined(FseTable& out, unsigned table, unsigned log, const std::array<std::int8_t, kCount>& counts) {
  std::array<std::int16_t, kCount> wide;
  std::copy(counts.begin(), counts.end(), wide.begin());
  out.log = log;
  fill_cells(out, table, wide);
}

Status broken(const char* what) {
  return Status(Code::kCorrupt, Layer::kCodec, std::string("zstd: no decode index: ") + what);
}

// Parses a table's description (4.1.1) at `at` and moves `at` past it.
Status read_table(Bytes src, std::size_t& at, unsigned table, FseTable& out) {
  std::uint64_t used = 0;
  const Bytes from = src.subspan(at);
  const auto peek = [&](unsigned bits) {
    std::uint32_t value = 0;
    for (unsigned i = 0; i < bits; ++i) {
      const std::uint64_t bit = used + i;
      if (bit / 8 < from.size()) value |= static_cast<std::uint32_t>(from[bit / 8] >> (bit % 8) & 1) << i;
    }
    return static_cast<int>(value);
  };
  out.log = static_cast<unsigned>(peek(4)) + 5;
  used = 4;
  if (out.log > kMaxLog[table]) return broken("a table is too large");
  std::array<std::int16_t, 64> counts{};
  int left = (1 << out.log) + 1, threshold = 1 << out.log;
  unsigned width = out.log + 1, symbol = 0;
  while (left > 1 && symbol <= kLastSymbol[table]) {
    const int short_ones = 2 * threshold - 1 - left, word = peek(width);
    int count = word & (threshold - 1);
    if (count < short_ones) {
      used += width - 1;
    } else {
      count = word >= threshold ? word - short_ones : word;
      used += width;
    }
    --count;
    left -= count < 0 ? 1 : count;
    counts[symbol++] = static_cast<std::int16_t>(count);
    while (left < threshold && left > 1) {
      threshold >>= 1;
      --width;
    }
    for (int more = count == 0 ? 3 : 0; more == 3 && symbol <= kLastSymbol[table];) {
      more = peek(2);
      used += 2;
      symbol += static_cast<unsigned>(more);
    }
  }
  if (left != 1 || symbol > kLastSymbol[table] + 1 || (used + 7) / 8 > from.size()) {
    return broken("a table's description is damaged");
  }
  at += static_cast<std::size_t>((used + 7) / 8);
  fill_cells(out, table, {counts.data(), symbol});
  return {};
}

// Reads bits backwards from the end; bits before the first are zeros.
class BackwardBits {
 public:
  // REQUIRES: the last byte is not 0.
  explicit BackwardBits(Bytes bytes)
      : bytes_(bytes),
        left_(static_cast<std::int64_t>(bytes.size()) * 8 - 9 + std::bit_width(unsigned{bytes.back()})) {}
  std::int64_t left() const { return left_; }
  void skip(unsigned bits) { left_ -= bits; }
  std::uint32_t take(unsigned bits) {
    left_ -= bits;
    if (left_ < 0) return 0;
    const auto first = static_cast<std::size_t>(left_ / 8);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 4 && first + k < bytes_.size(); ++k)
      word |= std::uint32_t{bytes_[first + k]} << (8 * k);
    return word >> (left_ % 8) & ((1u << bits) - 1);
  }

 private:
  Bytes bytes_;
  std::int64_t left_;
};

Status walk(Bytes bits_of, std::uint32_t sequences, const std::array<FseTable, kTables>& tables,
            std::vector<std::byte>& out) {
  BackwardBits bits(bits_of);
  unsigned state[kTables];
  for (unsigned table = 0; table < kTables; ++table) state[table] = bits.take(tables[table].log);
  for (std::uint32_t i = 1; i < sequences; ++i) {  // no states are read after the last sequence
    const Cell& literal = tables[kLiteralLengths].cells[state[kLiteralLengths]];
    const Cell& offset = tables[kOffsets].cells[state[kOffsets]];
    const Cell& match = tables[kMatchLengths].cells[state[kMatchLengths]];
    bits.skip(unsigned{literal.extra} + offset.extra + match.extra);
    state[kLiteralLengths] = literal.base + bits.take(literal.bits);
    state[kMatchLengths] = match.base + bits.take(match.bits);
    state[kOffsets] = offset.base + bits.take(offset.bits);
    if (bits.left() < 0) return broken("the sequences' bit stream is truncated");
    if (i % kIndexEvery != 0) continue;
    const IndexEntry entry{static_cast<std::uint32_t>(bits.left()), state[kLiteralLengths] |
                                                                        state[kOffsets] << IndexEntry::kOffset |
                                                                        state[kMatchLengths] << IndexEntry::kMatch};
    static_assert(std::endian::native == std::endian::little);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&entry);
    out.insert(out.end(), bytes, bytes + sizeof(entry));
  }
  return {};
}

// Sets `at` to the end of the literals section (3.1.1.3.1.1).
Status skip_literals(Bytes block, std::size_t& at) {
  const unsigned type = block[0] & 3, format = block[0] >> 2 & 3;
  const std::size_t header = type < 2 ? ((format & 1) == 0 ? 1 : format == 1 ? 2 : 3) : (format < 2 ? 3 : format + 2u);
  if (block.size() < header) return broken("a block is truncated in its header");
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < header; ++i) word |= std::uint64_t{block[i]} << (8 * i);
  std::uint64_t content = 1;
  if (type == 0) content = header == 1 ? word >> 3 : word >> 4;
  if (type >= 2) {
    const unsigned bits = format < 2 ? 10 : format == 2 ? 14 : 18;
    content = word >> (4 + bits) & ((1u << bits) - 1);
  }
  if (content > block.size() - header) return broken("a block is truncated in its literals");
  at = header + static_cast<std::size_t>(content);
  return {};
}

Status index_block(Bytes block, std::array<FseTable, kTables>& tables, std::vector<std::byte>& out) {
  if (block.empty()) return broken("an empty block");
  std::size_t at = 0;
  HEADRACE_TRY(skip_literals(block, at));
  const auto left = [&] { return block.size() - at; };
  if (left() == 0) return broken("a block has no sequences section");
  std::uint32_t sequences = block[at];
  if (sequences == 0) return {};
  const std::size_t bytes = sequences < 128 ? 1 : sequences < 255 ? 2 : 3;
  if (left() < bytes + 2) return broken("a block is truncated in its sequences");
  if (bytes == 2) sequences = ((sequences - 128) << 8) + block[at + 1];
  if (bytes == 3) sequences = block[at + 1] + (std::uint32_t{block[at + 2]} << 8) + 0x7F00;
  at += bytes;
  const unsigned modes = block[at++];
  if (sequences == 0 || sequences > gpu::zstd::kMaxSequences || (modes & 3) != 0)
    return broken("invalid number of sequences, or reserved bits set");
  for (unsigned table = 0; table < kTables; ++table) {
    switch (modes >> (6 - 2 * table) & 3) {
      case 0:
        if (table == kLiteralLengths) set_predefined(tables[table], table, 6, kLiteralCounts);
        if (table == kOffsets) set_predefined(tables[table], table, 5, kOffsetCounts);
        if (table == kMatchLengths) set_predefined(tables[table], table, 6, kMatchCounts);
        break;
      case 1:
        if (left() == 0 || block[at] > kLastSymbol[table]) return broken("invalid symbol of an RLE table");
        tables[table].set_single(table, block[at++]);
        break;
      case 2:
        HEADRACE_TRY(read_table(block, at, table, tables[table]));
        break;
      default:
        if (!tables[table].there) return broken("a table is repeated before any was defined");
    }
  }
  if (left() == 0 || block.back() == 0) return broken("the sequences' bit stream is empty or ends in a zero byte");
  return walk(block.subspan(at), sequences, tables, out);
}

}  // namespace

Result<std::vector<std::byte>> make_zstd_index(std::span<const std::byte> frames) {
  const Bytes src(reinterpret_cast<const std::uint8_t*>(frames.data()), frames.size());
  std::vector<std::byte> out;
  const auto tables = std::make_unique<std::array<FseTable, kTables>>();
  const auto u32 = [&](std::size_t at) {
    return std::uint32_t{src[at]} | std::uint32_t{src[at + 1]} << 8 | std::uint32_t{src[at + 2]} << 16 |
           std::uint32_t{src[at + 3]} << 24;
  };
  for (std::size_t at = 0; at < src.size();) {
    if (src.size() - at < 5) return broken("a frame is truncated in its header");
    if ((u32(at) & 0xFFFFFFF0) == 0x184D2A50) {
      if (src.size() - at < 8 || src.size() - at - 8 < u32(at + 4)) return broken("a skippable frame is truncated");
      at += 8 + std::size_t{u32(at + 4)};
      continue;
    }
    if (u32(at) != 0xFD2FB528) return broken("no frame magic");
    const unsigned descriptor = src[at + 4], dictionary = descriptor & 3, size_flag = descriptor >> 6;
    const bool single = (descriptor >> 5 & 1) != 0;
    const std::size_t header = 5 + (single ? 0 : 1) + (dictionary == 3 ? 4 : dictionary) +
                               (size_flag == 0 ? (single ? 1 : 0) : std::size_t{1} << size_flag);
    if (src.size() - at < header) return broken("a frame is truncated in its header");
    at += header;
    for (FseTable& table : *tables) table.there = false;
    for (bool last = false; !last;) {
      if (src.size() - at < 3) return broken("a frame is truncated in a block's header");
      const std::uint32_t word = src[at] | std::uint32_t{src[at + 1]} << 8 | std::uint32_t{src[at + 2]} << 16;
      at += 3;
      last = (word & 1) != 0;
      const unsigned type = word >> 1 & 3;
      const std::size_t bytes = type == 1 ? 1 : word >> 3;
      if (type == 3 || bytes > src.size() - at) return broken("reserved block type, or a block larger than the stream");
      if (type == 2) HEADRACE_TRY(index_block(src.subspan(at, bytes), *tables, out));
      at += bytes;
    }
    if ((descriptor >> 2 & 1) != 0) {
      if (src.size() - at < 4) return broken("a frame is truncated in its checksum");
      at += 4;
    }
  }
  return out;
}

}  // namespace headrace::codec
