// Steps of the zstd decoder that read headers and build lists: frames, scan, parse, sources, place, list.
// Device code without a CUDA header.
#pragma once

#include "codecs/lz77/lz77_rounds_device.cuh"
#include "zstd_chains_device.cuh"
#include "zstd_tables_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr std::uint32_t kFrameMagic = 0xFD2FB528, kSkippableMagic = 0x184D2A50;

struct FrameHeader {
  DecodeReason reason = DecodeReason::kNone;
  std::uint32_t bytes = 0;
  std::uint64_t window = 0;
  std::uint64_t content = ~std::uint64_t{0};  // all ones: unknown
  bool checksum = false;
};

// Parses a frame header (RFC 8878, 3.1.1.1). The magic number is not checked.
__device__ inline FrameHeader read_frame_header(const Byte* at, std::uint64_t left) {
  constexpr unsigned kMinWindowLog = 10, kMaxWindowLog = 31;  // the maximum is libzstd's
  FrameHeader out;
  if (left < 5) return out.reason = DecodeReason::kTruncated, out;
  const unsigned descriptor = at[4], dictionary_flag = descriptor & 3, content_flag = descriptor >> 6;
  const bool single = (descriptor >> 5 & 1) != 0;
  const unsigned dictionary_bytes = dictionary_flag == 3 ? 4 : dictionary_flag;
  const unsigned content_bytes = content_flag == 0 ? (single ? 1 : 0) : 1u << content_flag;
  out.bytes = 5 + (single ? 0 : 1) + dictionary_bytes + content_bytes;
  out.checksum = (descriptor >> 2 & 1) != 0;
  if (left < out.bytes) return out.reason = DecodeReason::kTruncated, out;
  if ((descriptor & 8) != 0) return out.reason = DecodeReason::kHeader, out;  // reserved bit
  const Byte* field = at + 5;
  if (!single) {
    const unsigned log = (*field >> 3) + kMinWindowLog;
    if (log > kMaxWindowLog) return out.reason = DecodeReason::kHeader, out;
    out.window = (std::uint64_t{1} << log) + (std::uint64_t{1} << (log - 3)) * (*field & 7);
    ++field;
  }
  std::uint32_t dictionary = 0;
  for (unsigned i = 0; i < dictionary_bytes; ++i) dictionary |= static_cast<std::uint32_t>(*field++) << (8 * i);
  if (content_bytes != 0) {
    out.content = 0;
    for (unsigned i = 0; i < content_bytes; ++i) out.content |= static_cast<std::uint64_t>(*field++) << (8 * i);
    if (content_bytes == 2) out.content += 256;
  }
  if (single) out.window = out.content;
  if (dictionary != 0) out.reason = DecodeReason::kHostOnly;
  // libzstd treats a content size of all ones as unknown.
  if (content_bytes == 8 && out.content == ~std::uint64_t{0}) out.reason = DecodeReason::kHostOnly;
  return out;
}

struct Verdict {
  DecodeReason reason = DecodeReason::kNone;
  std::uint64_t at = 0;
};

// ---- scan ----

// The first stream at or after `low` whose chunk number is at least `chunk`.
__device__ inline std::uint32_t first_of_chunk(const Job& job, std::uint32_t low, std::uint32_t count,
                                               std::uint32_t chunk) {
  std::uint32_t high = count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (job.streams[middle].chunk < chunk) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Decides whether stream i is walked by its chunk's index, and finds its share of that index. `all`: entries of the
// batch.
__device__ inline void choose_index(const Job& job, std::uint32_t i, std::uint32_t count, std::uint64_t all) {
  StreamState& state = job.states[i];
  const std::uint32_t chunk = job.streams[i].chunk, given = job.index.given[chunk];
  state.index = IndexUse::kNot;
  state.entry = 0;
  if (given == device::kIndexNone) return;
  const std::uint32_t first = i == 0 || job.streams[i - 1].chunk != chunk ? i : first_of_chunk(job, 0, i, chunk);
  const std::uint32_t next =
      i + 1 == count || job.streams[i + 1].chunk != chunk ? i + 1 : first_of_chunk(job, i + 1, count, chunk + 1);
  const std::uint64_t before = job.states[first].entries_before;
  const std::uint64_t bytes = ((next == count ? all : job.states[next].entries_before) - before) * sizeof(IndexEntry);
  std::uint32_t made = device::kIndexUseless;
  state.entry = static_cast<std::uint32_t>(state.entries_before - before);
  if (bytes > job.index.stride || bytes == 0) {
  } else if (given == device::kIndexCollect) {
    state.index = IndexUse::kCollect;
    made = static_cast<std::uint32_t>(bytes);
  } else if (given == bytes && job.index.any_given) {
    state.index = IndexUse::kWalk;
    made = device::kIndexNothing;
  } else {
    made = device::kIndexBad;
  }
  atomicMax(&job.index.made[chunk], made);
}

__device__ inline void scan_blocks_body(const Job& job, std::uint32_t* shared) {
  list_links(job);
  const std::uint32_t all = lz77::scan_streams<&StreamState::count, &StreamState::first>(job, shared);
  if (threadIdx.x == 0) job.totals->blocks = all;
}
__device__ inline void scan_units_body(const Job& job, std::uint64_t* shared) {
  lz77::scan_streams<&StreamState::units, &StreamState::units_before>(job, shared);
  __syncthreads();
  lz77::scan_rounds(job, shared);
  if (!job.has_index()) return;
  __syncthreads();
  const std::uint64_t entries = lz77::scan_streams<&StreamState::entries, &StreamState::entries_before>(job, shared);
  __syncthreads();
  const std::uint32_t count = job.stream_count();
  for (std::uint32_t i = threadIdx.x; i < count; i += blockDim.x) choose_index(job, i, count, entries);
}

// ---- frames ----

// Lists the blocks of all frames of a stream. The number of skippable frames is limited to the number of allowed
// blocks, which bounds the time per stream. Blocks in skipped chains are listed later.
__device__ inline Verdict walk_frames(const ZstdStream& stream, bool single_frame, ChainCursor& chains, RawBlock* raw,
                                      std::uint32_t raw_first, std::uint32_t most, std::uint32_t& count,
                                      std::uint32_t& frames, FrameHeader& header) {
  const std::uint64_t end = stream.src_bytes;
  if (end == 0) return {DecodeReason::kTruncated, 0};
  if (end > kMaxStreamBytes || stream.dst_bytes > kMaxStreamBytes) return {DecodeReason::kHostOnly, 0};
  std::uint32_t skipped = 0;
  for (std::uint64_t at = 0; at < end;) {
    const Byte* const frame = stream.src + at;
    const std::uint32_t magic = end - at >= 4 ? u32_at(frame) : 0;
    if (single_frame && at != 0) return {DecodeReason::kTrailing, at};
    if ((magic & 0xFFFFFFF0) == kSkippableMagic && !single_frame) {
      if (end - at < 8) return {DecodeReason::kTruncated, at};
      const std::uint64_t bytes = std::uint64_t{u32_at(frame + 4)} + 8;
      if (bytes > end - at) return {DecodeReason::kTruncated, at};
      if (skipped++ == most) return {DecodeReason::kHostOnly, at};
      at += bytes;
      continue;
    }
    if (magic != kFrameMagic) return {at == 0 ? DecodeReason::kHeader : DecodeReason::kTrailing, at};
    header = read_frame_header(frame, end - at);
    ++frames;
    if (header.reason != DecodeReason::kNone) return {header.reason, at};
    if (header.content != ~std::uint64_t{0} && header.content > stream.dst_bytes) {
      return {DecodeReason::kWrongSize, at};
    }
    const auto frame_at = static_cast<std::uint32_t>(at);
    at += header.bytes;
    for (bool last = false; !last;) {
      if (HeaderChain* const chain = chains.begins_at(at); chain != nullptr && chain->count <= most - count) {
        chain->raw_at = raw_first + count;
        chain->frame_at = frame_at;
        count += chain->count;
        at = chain->next;
        continue;
      }
      if (end - at < kBlockHeaderBytes) return {DecodeReason::kTruncated, at};
      const BlockHeader block(stream.src + at);
      if (block.type == 3) return {DecodeReason::kHeader, at};
      if (block.content_bytes > end - at - kBlockHeaderBytes) return {DecodeReason::kTruncated, at};
      if (count == most) return {DecodeReason::kHostOnly, at};
      raw[raw_first + count++] = {static_cast<std::uint32_t>(at), frame_at};
      at += kBlockHeaderBytes + block.content_bytes;
      last = block.last;
    }
    if (!header.checksum) continue;
    if (end - at < kChecksumBytes) return {DecodeReason::kTruncated, at};
    at += kChecksumBytes;
  }
  return {};
}

// How many blocks must be decoded to get a stream's first `enough` bytes, from the content size that its only frame
// declares. No block decodes to more than `most` bytes, so the first k blocks fall short of k * most by at most what
// all blocks together fall short.
__device__ inline std::uint32_t blocks_enough(const FrameHeader& frame, std::uint32_t blocks, std::uint64_t enough) {
  if (frame.content == ~std::uint64_t{0} || enough >= frame.content) return blocks;
  const std::uint64_t most = frame.window < kMaxBlockBytes ? frame.window : kMaxBlockBytes;
  const std::uint64_t all = blocks * most;
  if (most == 0 || all < frame.content) return blocks;
  const std::uint64_t needed = (enough + (all - frame.content) + most - 1) / most;
  return needed < blocks ? static_cast<std::uint32_t>(needed) : blocks;
}

__device__ inline void list_frames(const Job& job, std::uint32_t i, StreamState& state, std::uint32_t most) {
  ZstdStream& stream = job.streams[i];
  std::uint32_t blocks = 0, frames = 0;
  FrameHeader header{};  // of the last frame
  ChainCursor chains(job, i);
  Verdict verdict =
      walk_frames(stream, job.single_frame, chains, job.raw, state.raw_first, most, blocks, frames, header);
  if (verdict.reason == DecodeReason::kNone && blocks == 0) {  // only skippable frames
    if (job.exact && stream.dst_bytes != 0) verdict = {DecodeReason::kWrongSize, stream.src_bytes};
    stream.dst_bytes = 0;
  }
  if (verdict.reason != DecodeReason::kNone) {
    give_up(job, stream.chunk, verdict.at, verdict.reason);
  } else {
    // A decode index covers all blocks, so streams with one are not cut. Neither are those whose declared size is
    // wrong: decoding all their blocks finds the error.
    const bool cut =
        stream.enough != 0 && frames == 1 && !job.has_index() && (!job.exact || header.content == stream.dst_bytes);
    state.count = cut ? blocks_enough(header, blocks, stream.enough) : blocks;
    if (state.count == blocks) stream.enough = 0;
  }
}

// Each stream has its own share of the RawBlocks, as large as its Allowance; the order of the shares is arbitrary.
__device__ inline void frames_body(const Job& job) {
  const std::uint32_t count = job.stream_count();
  const unsigned lane = lane_id();
  const std::uint32_t own = blockIdx.x * blockDim.x + threadIdx.x;
  for (std::uint32_t base = own - lane; base < count; base += gridDim.x * blockDim.x) {
    const std::uint32_t i = base + lane;
    const bool there = i < count && job.streams[i].kind != ZstdKind::kNone && fine(job, job.streams[i].chunk);
    const std::uint32_t most = there ? job.allowance.of(job.streams[i].dst_bytes) : 0;
    const std::uint32_t upto = sum_upto(most, lane);
    std::uint32_t before = 0;
    if (lane == 31) before = atomicAdd(&job.totals->raw, upto);
    before = __shfl_sync(kAllLanes, before, 31);
    if (i < count) {
      StreamState& state = job.states[i];
      state.raw_first = before + upto - most;
      state.count = 0;
      state.out = state.frame_out = 0;
      for (std::uint32_t& repeat : state.repeats) repeat = 0;  // unused: a stream's first block begins a frame
      if (there) list_frames(job, i, state, most);
    }
    __syncwarp();
  }
}

// The stream of block `x`. REQUIRES: x < totals->blocks.
__device__ inline std::uint32_t stream_of(const Job& job, std::uint32_t x) {
  std::uint32_t low = 0, high = job.stream_count();
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (job.states[middle].first <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// ---- parse ----

// Parses the literals section's header (3.1.1.3.1.1). Moves `at` past the section.
__device__ inline Verdict parse_literals(const Byte* src, std::uint32_t& at, std::uint32_t end, std::uint32_t block_max,
                                         Block& block) {
  const std::uint32_t begin = at, left = end - at;
  const unsigned type = src[at] & 3, format = src[at] >> 2 & 3;
  block.own_tree = false;
  if (type < 2) {
    const unsigned header = (format & 1) == 0 ? 1 : format == 1 ? 2 : 3;
    if (left < header) return {DecodeReason::kTruncated, begin};
    block.literal_bytes = header == 1 ? src[at] >> 3 : header == 2 ? u16_at(src + at) >> 4 : u24_at(src + at) >> 4;
    block.literals = type == 0 ? LiteralsKind::kRaw : LiteralsKind::kRle;
    block.literals_at = at + header;
    if (block.literal_bytes > kMaxBlockBytes) return {DecodeReason::kLength, begin};
    const std::uint32_t content = type == 0 ? block.literal_bytes : 1;
    if (content > left - header) return {DecodeReason::kTruncated, begin};
    at += header + content;
  } else {
    const unsigned header = format < 2 ? 3 : format + 2, bits = format < 2 ? 10 : format == 2 ? 14 : 18;
    if (left < header) return {DecodeReason::kTruncated, begin};
    std::uint64_t word = 0;
    for (unsigned i = 0; i < header; ++i) word |= static_cast<std::uint64_t>(src[at + i]) << (8 * i);
    const std::uint32_t mask = (1u << bits) - 1;
    block.literals = LiteralsKind::kHuffman;
    block.literal_streams = format == 0 ? 1 : 4;
    block.literal_bytes = static_cast<std::uint32_t>(word >> 4) & mask;
    std::uint32_t encoded = static_cast<std::uint32_t>(word >> (4 + bits)) & mask;
    if (block.literal_bytes > kMaxBlockBytes) return {DecodeReason::kLength, begin};
    if (encoded > left - header) return {DecodeReason::kTruncated, begin};
    at += header;
    if (encoded == 0) return {DecodeReason::kTruncated, begin};
    if (type == 2) {
      const unsigned first = src[at];
      const std::uint32_t tree = first < 128 ? 1 + first : 1 + (first - 127 + 1) / 2;
      if (tree >= encoded) return {DecodeReason::kTruncated, at};
      block.own_tree = true;
      block.tree_at = at;
      at += tree;
      encoded -= tree;
    }
    if (block.literal_streams == 4 && encoded < 10) return {DecodeReason::kTruncated, at};
    // Versions of libzstd disagree about fewer than 6 literals in four streams, and about 0 literals.
    if (block.literal_bytes < (block.literal_streams == 4 ? 6u : 1u)) return {DecodeReason::kHostOnly, 0};
    block.literals_at = at;
    block.huffman_bytes = encoded;
    at += encoded;
  }
  // libzstd before 1.5.6 enforces no maximum but 128 KiB.
  if (block.literal_bytes > block_max) return {DecodeReason::kHostOnly, 0};
  return {};
}

// Parses the sequences section's header (3.1.1.3.2.1).
__device__ inline Verdict parse_sequences(const Byte* src, std::uint32_t at, std::uint32_t end, Block& block) {
  if (at == end) return {DecodeReason::kTruncated, at};
  const std::uint32_t first = src[at];
  block.sequences = 0;
  if (first == 0) {
    if (at + 1 != end) return {DecodeReason::kTrailing, at + 1};
    return {};
  }
  const std::uint32_t bytes = first < 128 ? 1 : first < 255 ? 2 : 3;
  if (end - at < bytes + 1) return {DecodeReason::kTruncated, at};
  const std::uint32_t sequences = bytes == 1   ? first
                                  : bytes == 2 ? ((first - 128) << 8) + src[at + 1]
                                               : u16_at(src + at + 1) + 0x7F00;
  at += bytes;
  const unsigned modes = src[at++];
  // Zero sequences in the long form, reserved bits, or more sequences than fit a block: older versions accept these.
  if (sequences == 0 || (modes & 3) != 0 || sequences > kMaxSequences) return {DecodeReason::kHostOnly, 0};
  for (unsigned table = 0; table < kTables; ++table) {
    const auto mode = static_cast<TableMode>(modes >> (6 - 2 * table) & 3);
    block.modes[table] = mode;
    block.table_at[table] = at;
    if (mode == TableMode::kRle) {
      if (at == end) return {DecodeReason::kTruncated, at};
      if (src[at] > last_symbol(table)) return {DecodeReason::kHeader, at};
      ++at;
    } else if (mode == TableMode::kFse) {
      const Description description =
          read_description(src + at, end - at, last_symbol(table), max_log(table), [](unsigned, std::int32_t) {});
      if (description.reason != DecodeReason::kNone) return {description.reason, at};
      at += description.bytes;
    }
  }
  if (at == end) return {DecodeReason::kTruncated, at};
  if (src[end - 1] == 0) return {DecodeReason::kHeader, end - 1};
  block.sequences = sequences;
  block.bits_at = at;
  block.bits_bytes = end - at;
  return {};
}

__device__ inline Verdict parse_block(const ZstdStream& stream, const RawBlock& raw, Block& block) {
  const FrameHeader frame = read_frame_header(stream.src + raw.frame_at, stream.src_bytes - raw.frame_at);
  const BlockHeader header(stream.src + raw.at);
  block.at = raw.at + kBlockHeaderBytes;
  block.bytes = header.content_bytes;
  block.window = static_cast<std::uint32_t>(frame.window < kMaxStreamBytes ? frame.window : kMaxStreamBytes);
  block.frame_bytes =
      frame.content == ~std::uint64_t{0} ? kNone : static_cast<std::uint32_t>(frame.content);  // fits dst
  block.first = raw.at == raw.frame_at + frame.bytes;
  block.last = header.last;
  block.checksum = frame.checksum;
  const auto block_max = static_cast<std::uint32_t>(frame.window < kMaxBlockBytes ? frame.window : kMaxBlockBytes);
  if (header.type != 2) {
    block.kind = header.type == 0 ? BlockKind::kRaw : BlockKind::kRle;
    block.decoded_bytes = header.size;
    // libzstd accepts blocks that exceed the format's maximum.
    if (header.size > block_max) return {DecodeReason::kHostOnly, 0};
    return {};
  }
  block.kind = BlockKind::kCompressed;
  if (header.size > kMaxBlockBytes) return {DecodeReason::kHeader, raw.at};
  if (header.size < 2) return {DecodeReason::kTruncated, raw.at};
  // Older versions refuse sizes of 2 bytes and of 128 KiB; newer ones refuse sizes above the window.
  const bool disputed = header.size == 2 || header.size > block_max || header.size == kMaxBlockBytes;
  std::uint32_t at = block.at;
  const std::uint32_t end = at + header.size;
  Verdict verdict = parse_literals(stream.src, at, end, block_max, block);
  if (verdict.reason == DecodeReason::kNone) verdict = parse_sequences(stream.src, at, end, block);
  if (verdict.reason == DecodeReason::kNone && disputed) verdict = {DecodeReason::kHostOnly, 0};
  return verdict;
}

__device__ inline void parse_body(const Job& job) {
  const std::uint32_t count = job.totals->blocks, threads = gridDim.x * blockDim.x;
  // With enough warps, each block gets one to itself: headers differ, so lanes of a shared warp would diverge.
  const unsigned apart = count <= threads / 32 ? 32 : 1;
  const std::uint32_t own = blockIdx.x * blockDim.x + threadIdx.x;
  if (own % apart != 0) return;
  for (std::uint32_t x = own / apart; x < count; x += threads / apart) {
    const std::uint32_t i = stream_of(job, x);
    const StreamState& state = job.states[i];
    Block block{};
    block.stream = i;
    const Verdict verdict = parse_block(job.streams[i], job.raw[state.raw_first + (x - state.first)], block);
    if (verdict.reason != DecodeReason::kNone) {
      give_up(job, job.streams[i].chunk, verdict.at, verdict.reason);
    } else if (block.last && block.checksum) {
      atomicAdd(&job.totals->checksums, 1u);
    }
    job.blocks[x] = block;
  }
}

// ---- sources ----

// For each lane: the last lane at or before it, within its frame, whose block defines this table; otherwise the
// definition from before these 32 blocks, unless a frame begins among them.
__device__ inline std::uint32_t last_holder(unsigned own, unsigned firsts, std::uint32_t before, std::uint32_t base,
                                            unsigned lane) {
  const unsigned upto = lanes_below(lane) | 1u << lane;
  const unsigned frame = firsts & upto;
  const unsigned from = frame == 0 ? kAllLanes : kAllLanes << top_bit(frame);
  const unsigned holders = own & upto & from;
  if (holders != 0) return base + top_bit(holders);
  return frame != 0 ? kNone : before;
}

__device__ inline void sources_body(const Job& job) {
  const std::uint32_t count = job.stream_count();
  const unsigned lane = lane_id(), warps = blockDim.x / 32;
  for (std::uint32_t i = blockIdx.x * warps + threadIdx.x / 32; i < count; i += gridDim.x * warps) {
    StreamState& state = job.states[i];
    const std::uint32_t blocks = state.count;
    const ZstdStream& stream = job.streams[i];
    const bool good = blocks != 0 && fine_for_warp(job, stream.chunk);
    std::uint64_t units = 0, least = 0;  // units its blocks need; lower bound on what they decode to
    std::uint32_t entries = 0;
    std::uint32_t tree = kNone, tables[kTables] = {kNone, kNone, kNone};
    // Prefetch: loads the next 32 blocks before these are processed.
    const auto number = [&](std::uint32_t base) { return state.first + (base + lane < blocks ? base + lane : 0); };
    Block ahead{};
    if (good) ahead = job.blocks[number(0)];
    for (std::uint32_t base = 0; good && base < blocks; base += 32) {
      const bool mine = base + lane < blocks;
      Block& written = job.blocks[number(base)];
      const Block block = ahead;
      ahead = job.blocks[number(base + 32)];
      const bool compressed = mine && block.kind == BlockKind::kCompressed;
      const bool huffman = compressed && block.literals == LiteralsKind::kHuffman;
      const std::uint32_t sequences = compressed ? block.sequences : 0;
      const unsigned firsts = __ballot_sync(kAllLanes, mine && block.first);
      const std::uint32_t tree_here =
          last_holder(__ballot_sync(kAllLanes, huffman && block.own_tree), firsts, tree, state.first + base, lane);
      tree = __shfl_sync(kAllLanes, tree_here, 31);
      bool missing = huffman && tree_here == kNone;
      if (huffman) written.tree_block = tree_here;
      for (unsigned k = 0; k < kTables; ++k) {
        const bool own = sequences != 0 && block.modes[k] != TableMode::kRepeat;
        const std::uint32_t here =
            last_holder(__ballot_sync(kAllLanes, own), firsts, tables[k], state.first + base, lane);
        tables[k] = __shfl_sync(kAllLanes, here, 31);
        if (sequences != 0) {
          written.table_block[k] = here;
          missing = missing || here == kNone;
        }
      }
      if (missing) give_up(job, stream.chunk, block.at, DecodeReason::kHeader);
      std::uint32_t own_units = 0, own_least = mine ? block.decoded_bytes : 0;
      if (compressed) {
        own_units =
            (huffman ? literal_units(block.literal_bytes) : 0) + slot_units(sequences) + checkpoint_units(sequences);
        own_least = block.literal_bytes + 3 * sequences;
      }
      const std::uint32_t upto = sum_upto(own_units, lane);
      if (mine) written.units_before = static_cast<std::uint32_t>(units) + upto - own_units;
      units += __shfl_sync(kAllLanes, upto, 31);
      least += __shfl_sync(kAllLanes, sum_upto(own_least, lane), 31);
      if (job.has_index()) {
        const std::uint32_t own_entries = index_entries(sequences), entries_upto = sum_upto(own_entries, lane);
        if (mine) written.entry = entries + entries_upto - own_entries;
        entries += __shfl_sync(kAllLanes, entries_upto, 31);
      }
      __syncwarp();
    }
    if (lane == 0) {
      if (good && least > stream.dst_bytes) {
        give_up(job, stream.chunk, stream.src_bytes, DecodeReason::kLength);
        units = 0;
        entries = 0;
      }
      state.units = units;
      state.entries = entries;
    }
    __syncwarp();
  }
}

// ---- place, list ----

// Zeroes the rest of the last word of a block's literals, since they are read by words.
__device__ inline void pad_literals(const Job& job, const Block& block) {
  *reinterpret_cast<std::uint32_t*>(job.literals_of(block) + block.literal_bytes / 4 * 4) = 0;
}

// Blocks of bad chunks are dropped.
__device__ inline void place_body(const Job& job) {
  const std::uint32_t count = job.totals->blocks;
  for (std::uint32_t x = blockIdx.x * blockDim.x + threadIdx.x; x < count; x += gridDim.x * blockDim.x) {
    Block& block = job.blocks[x];
    const StreamState& state = job.states[block.stream];
    const lz77::RoundPlace at = lz77::find_place(job, block.stream, x);
    block.round = at.round;
    block.place = at.place;
    atomicAdd(&job.round[at.round].blocks, 1u);
    if (fine(job, job.streams[block.stream].chunk)) {
      if (block.literals == LiteralsKind::kHuffman && block.literal_bytes % 4 != 0) pad_literals(job, block);
      if (job.has_index()) {
        block.index = state.index;
        block.entry += state.entry;
      }
      continue;
    }
    block.kind = BlockKind::kRaw;
    block.literals = LiteralsKind::kRaw;
    block.sequences = block.literal_bytes = block.decoded_bytes = 0;
  }
}

// Number of blocks in the rounds before r, whose lists come first.
__device__ inline std::uint32_t blocks_before_round(const Job& job, std::uint32_t r) {
  std::uint32_t blocks = 0;
  for (std::uint32_t k = 0; k < r; ++k) blocks += job.round[k].blocks;
  return blocks;
}

__device__ inline void list_body(const Job& job) {
  const std::uint32_t count = job.totals->blocks, own = blockIdx.x * blockDim.x + threadIdx.x;
  if (own < job.rounds.count) job.round[own].first = blocks_before_round(job, own);
  for (std::uint32_t x = own; x < count; x += gridDim.x * blockDim.x) {
    const Block& block = job.blocks[x];
    if (block.kind != BlockKind::kCompressed) continue;
    Round& round = job.round[block.round];
    const std::uint32_t first = blocks_before_round(job, block.round);
    if (block.literals == LiteralsKind::kHuffman) job.trees[first + atomicAdd(&round.literals, 1u)] = x;
    if (job.index.any_given && block.sequences != 0 && block.index != IndexUse::kWalk) atomicAdd(&round.rest, 1u);
    if (block.sequences >= kManySequences) {
      job.walks[first + atomicAdd(&round.many, 1u)] = x;
    } else if (block.sequences != 0) {
      job.walks[first + round.blocks - 1 - atomicAdd(&round.few, 1u)] = x;
    }
  }
}

// Entry t of a round's blocks with sequences, or kNone.
__device__ inline std::uint32_t walk_of(const Job& job, const Round& round, std::uint32_t t) {
  if (t < round.many) return job.walks[round.first + t];
  t -= round.many;
  return t < round.few ? job.walks[round.first + round.blocks - 1 - t] : kNone;
}

}  // namespace headrace::codec::gpu::zstd
