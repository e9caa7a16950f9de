// FSE decoding tables for the walk over a block's states. Device code without a CUDA header.
//
// Two forms. With few blocks, each walk must be fast: a wide entry holds in four words all that a step needs, ready for
// use. With many blocks, tables must be small so that many walks run side by side: a narrow entry is one word.
#pragma once

#include "zstd_tables_device.cuh"

namespace headrace::codec::gpu::zstd {

// Where a table begins among a block's entries.
inline constexpr unsigned kTableEntries = 1280;
__host__ __device__ constexpr unsigned table_at(unsigned table) {
  return table == kLiteralLengths ? 0 : table == kMatchLengths ? 512 : 1024;
}
__device__ inline unsigned code_at(unsigned table) {
  return table == kLiteralLengths ? WalkWord::kLiteral : table == kOffsets ? WalkWord::kOffset : WalkWord::kMatch;
}
__device__ inline unsigned extra_of(unsigned table, unsigned code) {
  return table == kLiteralLengths ? literal_extra(code) : table == kOffsets ? code : match_extra(code);
}

// x: bits that a step consumes (low 8) and the codes; the sum of three entries keeps these fields apart. y: byte offset
// of the next states' entries from the first of all; z: how many bits the next state has; w: their mask. State bits are
// pre-multiplied by an entry's size, so an entry's offset is y OR-ed with the masked bits.
struct WideEntry {
  static constexpr unsigned kScale = 4;  // offsets are in bytes
  using Type = uint4;
  // `origin`: of the block's entries; a multiple of a table's bytes.
  __device__ static uint4 make(unsigned table, std::uint32_t code, unsigned extra, unsigned bits, std::uint32_t base,
                               std::uint32_t origin) {
    return make_uint4((bits + extra) | code << code_at(table), origin + ((table_at(table) + base) << kScale), bits,
                      ((1u << bits) - 1) << kScale);
  }
};
// From the lowest bit: extra bits that the step consumes, with room for the sum of three (7); bits of the next state
// (4) and room for the sum (1); the code (6), at the position that WalkWord uses for literals; number of the next
// states' first entry, counted from the first of all (14). A step extracts each field with one instruction.
struct NarrowEntry {
  static constexpr unsigned kScale = 0;  // offsets are in entries
  static constexpr unsigned kBits = 7, kCode = WalkWord::kLiteral, kNext = 18;
  static constexpr std::uint32_t kExtraMask = 127, kBitsMask = 31;
  using Type = std::uint32_t;
  __device__ static std::uint32_t make(unsigned table, std::uint32_t code, unsigned extra, unsigned bits,
                                       std::uint32_t base, std::uint32_t origin) {
    return extra | bits << kBits | code << kCode | (origin + table_at(table) + base) << kNext;
  }
};

using SequenceCounts = TableCounts<64>;

struct ReadTable {
  DecodeReason reason = DecodeReason::kNone;
  unsigned log = 0;
};

// Reads a block's description of a table, by one lane. Reads nothing for mode kRle.
__device__ inline ReadTable read_table(const Byte* src, const Block& source, unsigned table, SequenceCounts& to) {
  const TableMode mode = source.modes[table];
  ReadTable out;
  if (mode == TableMode::kRle) return out;
  CellCounts<64> counts(to);
  if (mode == TableMode::kPredefined) {
    const Predefined fixed = predefined(table);
    for (unsigned symbol = 0; symbol < fixed.symbols; ++symbol) counts(symbol, predefined_count(table, symbol));
    out.log = fixed.log;
  } else {
    const std::uint32_t at = source.table_at[table], end = source.at + source.bytes;
    const Description description = read_description(src + at, end - at, last_symbol(table), max_log(table), counts);
    out = {description.reason, description.log};  // the reason is kNone, as in `parse`
  }
  if (out.reason == DecodeReason::kNone && !counts.finish(out.log)) out.reason = DecodeReason::kHeader;
  return out;
}

// Builds the table's entries, by a warp. `rle`: the only symbol, or kNone.
template <class Entry>
__device__ inline void build_table(unsigned table, SequenceCounts& counts, Byte* cells, unsigned log, std::uint32_t rle,
                                   typename Entry::Type* entries, std::uint32_t origin, unsigned lane) {
  if (rle != kNone) {
    if (lane == 0) entries[0] = Entry::make(table, rle, extra_of(table, rle), 0, 0, origin);
    __syncwarp();
    return;
  }
  deal_cells(counts, cells, log, lane);
  const unsigned extras = extra_of(table, lane) | extra_of(table, lane + 32) << 8;  // of two codes per lane
  number_cells(counts, cells, log, lane,
               [&](std::uint32_t cell, std::uint32_t code, unsigned bits, std::uint32_t base) {
                 const unsigned extra = __shfl_sync(kAllLanes, extras, code) >> (code >> 5) * 8 & 255;
                 entries[cell] = Entry::make(table, code, extra, bits, base, origin);
               });
}

}  // namespace headrace::codec::gpu::zstd
