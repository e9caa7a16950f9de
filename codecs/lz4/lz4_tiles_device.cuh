// The LZ stage by tiles: turns sequences (literals, then a match) into bytes, with the whole device working on each
// stream.
//
// The output is cut into tiles that fit into shared memory. For each byte of a tile, a block writes either the byte or
// a link to the byte that it copies, follows links until only bytes are left, and writes the tile. A block processes
// several adjacent tiles in order, a section, and reads earlier tiles of the section directly. A byte from before the
// section is known if it lies before the slice of tiles or the stream. Otherwise its copy stays open: a 16-bit link
// says how far before the section's start its source is. follow_open_bytes() follows links from section to section;
// join_sections() merges pairs of sections until there is one. A slice is the same share of every stream. Slices are
// processed one after the other, so scratch is needed only for one, and everything before a slice is known. If there
// are enough streams for all blocks, each stream is taken as a whole and nothing is open.
//
// Sequences come from a class like Lz4Sequences, whose put() calls TileWriter::put() for all sequences that touch a
// tile, with offsets that stay inside the stream. Each produces at least 4 bytes, except the stream's last. The code
// here reads no compressed bytes except literals. Streams whose outcome is bad are skipped. Included by lz4_tiles.cu,
// and by tests that run it on the CPU.
#pragma once

#include "lz4_links_device.cuh"
#include "lz4_walk_device.cuh"

namespace headrace::codec::gpu::tiles {

// A tile inside one match whose first copy is already written.
template <class Shared>
__device__ inline void repeat_tile(const TileStream& s, U32 position, U32 bytes, const TileHead& head) {
  const U32 t = threadIdx.x, step = Shared::kThreads % head.offset;
  U32 phase = (position + t - head.match_at) % head.offset;
  for (U32 i = t; i < bytes; i += Shared::kThreads) {
    s.dst[position + i] = s.dst[head.match_at - head.offset + phase];
    phase += step;
    if (phase >= head.offset) phase -= head.offset;
  }
}

// A tile inside one match that began before the section: every byte is open, and copies a byte just before the section.
template <class Shared>
__device__ inline void repeat_open_tile(const TileArrays& a, const Section& section, U32 tile, U32 position,
                                        const TileHead& head) {
  const U32 t = threadIdx.x, step = Shared::kThreads * 4 % head.offset;
  U32 phase = (position + t * 4 - section.start) % head.offset;
  for (U32 i = t * 4; i < Shared::kTile; i += Shared::kThreads * 4) {
    U64 links = 0;
    U32 now = phase;
    HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
      links |= static_cast<U64>(head.offset - 1 - now) << (16 * k);
      if (++now == head.offset) now = 0;
    }
    store_cells(&a.links[tile * Shared::kTile + i], links);
    phase += step;
    if (phase >= head.offset) phase -= head.offset;
  }
}

// Follows the links of a tile and writes its bytes; records open ones. Returns whether any of this thread's is open.
//
// Each thread processes groups of four bytes in ascending order, so most links lead to a cell that already has its
// byte. This affects only time: a cell that is replaced by the target of its link means the same. After a few steps,
// each thread stores its progress, which shortens long chains for all. A link always leads to a smaller number, so
// every chain ends, whatever the input.
template <class Shared>
__device__ inline bool resolve_tile(Shared& shared, const TileArrays& a, const TileStream& s, const Section& section,
                                    U32 tile, U32 position, U32 bytes) {
  constexpr U32 kHops = 4;
  constexpr U32 kGroup = Shared::kThreads * 4, kGroups = (Shared::kTile + kGroup - 1) / kGroup;
  const U32 t = threadIdx.x;
  const bool aligned = (reinterpret_cast<std::uintptr_t>(s.dst) + position) % 4 == 0;
  bool open_here = false;
  for (U32 group = 0; group < kGroups; ++group) {
    if (group != 0) __syncthreads();
    const U32 i = group * kGroup + t * 4;
    U32 open = 0;
    if (i < bytes) {
      const auto cells = load_cells<U64>(&shared.cell[i]);
      U32 from[4], value[4];
      bool linked = false;
      HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
        from[k] = i + k;
        value[k] = static_cast<U32>(cells >> (16 * k)) & 0xffff;
        linked |= value[k] < from[k];
      }
      if (linked) {
        U32 hops = 0;
        do {
          linked = false;
          // Lanes that are done repeat their load: cheaper than a branch.
          HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
            from[k] = value[k] < from[k] ? value[k] : from[k];
            value[k] = shared.cell[from[k]];
            linked |= value[k] < from[k];
          }
          if (++hops % kHops != 0 && linked) continue;
          U64 left = 0;
          HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
            const U32 now = value[k] == kOpen && from[k] != i + k ? from[k] : value[k];
            left |= static_cast<U64>(now) << (16 * k);
          }
          store_cells(&shared.cell[i], left);
        } while (linked);
      }
      if (!section.closed) {
        HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
          if (value[k] == kOpen && i + k < bytes) open |= 1u << k;
        }
        if (open != 0) {  // all four get a link, so that they can be read at once
          U64 links = 0;
          HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
            if ((open >> k & 1) != 0) links |= static_cast<U64>(a.links[tile * Shared::kTile + from[k]]) << (16 * k);
          }
          store_cells(&a.links[tile * Shared::kTile + i], links);
        }
      }
      U8* const to = s.dst + position + i;
      if (open == 0 && aligned && i + 4 <= bytes) {
        *reinterpret_cast<U32*>(to) =
            (value[0] & 255) | (value[1] & 255) << 8 | (value[2] & 255) << 16 | value[3] << 24;
      } else {
        HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
          if ((open >> k & 1) == 0 && i + k < bytes) to[k] = static_cast<U8>(value[k]);
        }
      }
    }
    if (!section.closed) {
      store_open(a.masks, tile * Shared::kTile + i, open, i < Shared::kTile);
      open_here |= open != 0;
    }
  }
  return open_here;
}

// `tile` is its slot, `position` its beginning in the stream. Returns false if the stream is bad.
template <class Shared, class Sequences>
__device__ inline bool decode_tile(Shared& shared, const TileArrays& a, const TileStream& s, const Sequences& sequences,
                                   Section& section, U32 tile, U32 position, U32* open_count) {
  const U32 t = threadIdx.x;
  const U32 left = s.dst_bytes - position, bytes = left < Shared::kTile ? left : Shared::kTile;
  const TileWriter<Shared> writer{shared, a, s, section, tile, position, bytes};
  const bool inside = shared.carry_end >= position + bytes;  // inside a sequence that was seen before
  if (t == 0) {
    if (!section.closed) a.sections[tile] = kNoPosition;
    shared.piece_count = shared.long_count = shared.sequences = 0;
    shared.head = {s.stored != 0 ? bytes : 0, bytes, s.begin + position, 0, 0};
    if (inside) {
      const TileSequence carry = shared.carry;
      writer.put(carry.out, carry.literals, carry.literals_at, carry.match, carry.offset);
    }
  }
  __syncthreads();
  if (s.stored == 0 && !inside && !sequences.put(writer)) return false;
  if (shared.sequences == 0) {
    const TileHead head = shared.head;
    const bool literals = head.literals >= bytes;
    if (literals ||
        (head.literals == 0 && head.offset != 0 && (section.closed || head.match_at <= section.slice_start))) {
      if (literals) {
        constexpr U32 kShare = Shared::kTile / (Shared::kThreads / 32);
        const U32 at = t / 32 * kShare;
        if (at < bytes) {
          inorder::copy_plain(s.dst + position + at, s.base + head.literals_at + at,
                              bytes - at < kShare ? bytes - at : kShare, t % 32);
        }
      } else {
        repeat_tile<Shared>(s, position, bytes, head);
      }
      if (!section.closed) {
        for (U32 w = t; w < Shared::kWords; w += Shared::kThreads) a.masks[tile * Shared::kWords + w] = 0;
      }
      __syncthreads();
      return true;
    }
  }
  bool open_here = false;
  if (shared.sequences == 0 && !section.closed && shared.head.literals == 0 && shared.head.offset != 0 &&
      shared.head.match_at <= section.start) {
    repeat_open_tile<Shared>(a, section, tile, position, shared.head);
    for (U32 w = t; w < Shared::kWords; w += Shared::kThreads) {
      const U32 in = bytes > w * 32 ? bytes - w * 32 : 0;
      a.masks[tile * Shared::kWords + w] = in >= 32 ? 0xffffffffu : (1u << in) - 1;
    }
    open_here = true;
  } else {
    writer.write_pieces();
    __syncthreads();
    open_here = resolve_tile(shared, a, s, section, tile, position, bytes);
  }
  const U32 open_threads = static_cast<U32>(__syncthreads_count(open_here ? 1 : 0));
  if (open_threads != 0) {
    section.open_until = position + Shared::kTile;
    if (t == 0) {
      atomicAdd(open_count, open_threads);
      a.sections[tile] = section_word(section.block, (position - section.start) / Shared::kTile);
    }
  }
  return true;
}

// Sets the stream that the block works on from here. Returns whether it is bad.
template <class Shared>
__device__ inline bool take_stream(Shared& shared, const TileStream* streams, U32 index,
                                   const std::uint64_t* outcomes) {
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.stream = streams[index];
    shared.carry_end = 0;
    // Read by one thread, since other blocks may lower it meanwhile.
    shared.bad = is_bad(outcomes, shared.stream.chunk) ? 1 : 0;
  }
  __syncthreads();
  return shared.bad != 0;
}

// Each block takes the next stream when it is free.
template <class Shared, class Sequences>
__device__ inline void decode_streams(Shared& shared, TilePlan& plan, const TileStream* streams, const TileArrays& a,
                                      const Sequences& sequences, const std::uint64_t* outcomes) {
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) shared.taken = atomicAdd(&plan.next, 1u);
    __syncthreads();
    const U32 index = shared.taken;
    if (index >= plan.streams) return;
    if (take_stream(shared, streams, index, outcomes)) continue;
    Section section;
    const U32 tiles = shared.stream.tiles;
    for (U32 i = 0; i < tiles; ++i) {
      if (!decode_tile(shared, a, shared.stream, sequences, section, i, i * Shared::kTile, nullptr)) break;
    }
  }
}

// Each block takes a section: adjacent slots, as dealt by bound_sections().
template <class Shared, class Sequences>
__device__ inline void decode_tiles(Shared& shared, TilePlan& plan, const TileStream* streams, const TileArrays& a,
                                    const Sequences& sequences, const std::uint64_t* outcomes) {
  if (a.slice >= plan.slices) return;
  if (plan.whole != 0) return decode_streams(shared, plan, streams, a, sequences, outcomes);
  const U32* const bounds = a.bounds + a.slice * (kMaxTileBlocks + 1) + blockIdx.x;
  const U32 first = bounds[0], last = bounds[1];
  const TileStream& s = shared.stream;
  U32 index = kNoPosition;
  bool bad = false;
  Section section;
  for (U32 slot = first; slot < last; ++slot) {
    if (index == kNoPosition || slot >= s.first_slot + s.share) {
      index = a.slot_stream[slot];
      bad = take_stream(shared, streams, index, outcomes);
      section = Section{};
      section.slice_start = a.slice * s.share * Shared::kTile;
      section.start = section.slice_start + (slot - s.first_slot) * Shared::kTile;
      section.closed = slot == s.first_slot;
      section.block = blockIdx.x;
    }
    const U32 tile = a.slice * s.share + slot - s.first_slot;
    if (bad || section.closed || tile >= s.tiles) {
      if (threadIdx.x == 0) a.sections[slot] = kNoPosition;
      for (U32 w = threadIdx.x; w < Shared::kWords; w += Shared::kThreads) a.masks[slot * Shared::kWords + w] = 0;
    }
    if (bad || tile >= s.tiles) continue;
    bad = !decode_tile(shared, a, s, sequences, section, slot, tile * Shared::kTile, &a.open_threads[a.slice]);
  }
}

// For at most this many slots, links are followed to the end, which is cheaper than many launches.
inline constexpr U32 kFewSlots = 80;

template <U32 tile_threads>
__device__ inline bool many_open(const TilePlan& plan, const TileArrays& a) {
  return a.open_threads[a.slice] > plan.slots * (tile_threads / 2);
}

// Follows the links of open bytes from section to section. `join`: join_sections() comes next, so only a few steps are
// taken. That is enough if few bytes are open, and pointless if most are, because chains are then long. `masks_left`
// gets those that are still open.
template <U32 tile_bytes, U32 tile_threads>
__device__ inline void follow_open_bytes(TilePlan& plan, const TileStream* streams, const TileArrays& a, bool join,
                                         const std::uint64_t* outcomes) {
  constexpr U32 kPieces = (tile_bytes + 127) / 128;
  if (a.slice >= plan.slices || plan.whole != 0) return;
  const bool all = !join || plan.slots <= kFewSlots;
  if (!all && many_open<tile_threads>(plan, a)) return;
  if (threadIdx.x == 0 && blockIdx.x == 0) plan.followed = a.slice + 1;
  const U32 lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
  const U32 pieces = plan.slots * kPieces, hops = all ? plan.slots : 8;
  for (U32 piece = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; piece < pieces; piece += warps) {
    const U32 slot = piece / kPieces, place = piece % kPieces * 128 + lane * 4, byte = slot * tile_bytes + place;
    const U32 section = a.sections[slot];
    const TileStream& s = streams[a.slot_stream[slot]];
    U32 open = section != kNoPosition && place < tile_bytes ? a.masks[byte / 32] >> (byte % 32) & 15 : 0;
    if (__any_sync(kAllLanes, open != 0)) {
      if (is_bad(outcomes, s.chunk)) open = 0;
      const U32 slice_start = a.slice * s.share * tile_bytes;
      const U32 shift = s.first_slot * tile_bytes - slice_start;  // position + shift: byte of the slice
      const auto source = [&](U32 slot_of_it, U32 word, U32 link) {
        return (slot_of_it - section_before(word)) * tile_bytes - shift - 1 - link;
      };
      U8* const dst = s.dst;
      U32 at[4], left = open;
      if (open != 0) {
        const U64 packed = load_cells<U64>(&a.links[byte]);
        HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
          at[k] = source(slot, section, static_cast<U32>(packed >> (16 * k)) & 0xffff);
        }
      }
      for (U32 hop = 0; hop < hops && left != 0; ++hop) {
        U32 there[4];
        HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
          there[k] = (left >> k & 1) != 0 && at[k] >= slice_start ? a.masks[(at[k] + shift) / 32] : 0;
        }
        HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
          if ((left >> k & 1) == 0) continue;
          const U32 there_byte = at[k] + shift, there_slot = there_byte / tile_bytes;
          if ((there[k] >> (there_byte % 32) & 1) == 0) {
            left &= ~(1u << k);
          } else {
            at[k] = source(there_slot, a.sections[there_slot], a.links[there_byte]);
          }
        }
      }
      U32 value[4];
      HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) { value[k] = ((open & ~left) >> k & 1) != 0 ? dst[at[k]] : 0; }
      HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
        if (((open & ~left) >> k & 1) != 0) dst[byte - shift + k] = static_cast<U8>(value[k]);
      }
      open = left;
      if (__any_sync(kAllLanes, open != 0) && lane == 0) plan.left = a.slice + 1;
    }
    store_open(a.masks_left, byte, open, place < tile_bytes);
  }
}

// For the remaining open bytes: merges sections pairwise, then the results, and so on. At level l, each odd group of
// 2^l blocks' sections is merged into the group before. Links of open bytes are relative to their group's start, so
// they lead into the group before, where the byte is known by now, or open itself and relative to that group's start;
// or they lead further back. So each open byte takes one step per level, and none is open when a single group covers
// the slice. A link never exceeds 16 bits: it was the offset of a match that crossed the group's start.
template <U32 tile_bytes>
__device__ inline void join_sections(const TilePlan& plan, const TileStream* streams, const TileArrays& a, U32 level,
                                     const std::uint64_t* outcomes) {
  constexpr U32 kPieces = (tile_bytes + 127) / 128;  // units of a warp: four bytes per lane
  if (a.slice >= plan.slices || plan.whole != 0) return;
  const bool followed = plan.followed == a.slice + 1;
  if (followed && plan.left != a.slice + 1) return;
  U32* const masks = followed ? a.masks_left : a.masks;
  const U32* const bounds = a.bounds + a.slice * (kMaxTileBlocks + 1);
  const U32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  // With few slots, several blocks share one.
  U32 share = 1;
  while (share < 16 && kPieces % (share * 2) == 0 && plan.slots * share * 2 <= gridDim.x * 4) share *= 2;
  for (U32 task = blockIdx.x; task < plan.slots * share; task += gridDim.x) {
    const U32 slot = task / share;
    const U32 word_of_section = a.sections[slot], block = section_block(word_of_section);
    if (word_of_section == kNoPosition || (block >> level & 1) == 0) continue;
    const TileStream& s = streams[a.slot_stream[slot]];
    const U32 group = block >> level, own = bounds[group << level], other = bounds[(group - 1) << level];
    const U32 first_slot = s.first_slot;
    if (own <= first_slot || is_bad(outcomes, s.chunk)) continue;
    const U32 slice_start = a.slice * s.share * tile_bytes;
    const U32 shift = first_slot * tile_bytes - slice_start;  // position + shift: byte of the slice
    const U32 own_end = own * tile_bytes - shift - 1;
    const U32 start = other <= first_slot ? slice_start : other * tile_bytes - shift;
    U8* const dst = s.dst;
    const bool aligned = (reinterpret_cast<std::uintptr_t>(dst) - shift) % 4 == 0;
    bool open_left = false;
    for (U32 piece = task % share * (kPieces / share) + warp; piece < (task % share + 1) * (kPieces / share);
         piece += warps) {
      const U32 place = piece * 128 + lane * 4, byte = slot * tile_bytes + place;
      U32 open = place < tile_bytes ? masks[byte / 32] >> (byte % 32) & 15 : 0;
      if (!__any_sync(kAllLanes, open != 0)) continue;
      const U32 before = open;
      if (open != 0) {
        const U64 packed = load_cells<U64>(&a.links[byte]);
        U32 at[4], there[4], value[4];
        HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
          at[k] = own_end - (static_cast<U32>(packed >> (16 * k)) & 0xffff);
          there[k] = (open >> k & 1) != 0 && at[k] >= start ? masks[(at[k] + shift) / 32] : 0;
        }
        U64 links = 0;
        HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
          value[k] = 0;
          if ((open >> k & 1) == 0) continue;
          const bool further = at[k] < start && start != slice_start;
          if ((there[k] >> ((at[k] + shift) % 32) & 1) != 0) {
            value[k] = a.links[at[k] + shift];
          } else if (further) {
            value[k] = start - 1 - at[k];
          } else {
            value[k] = dst[at[k]];
            open &= ~(1u << k);
          }
          links |= static_cast<U64>(value[k]) << (16 * k);
        }
        if (open != 0) store_cells(&a.links[byte], links);
        if (before == 15 && open == 0 && aligned) {
          *reinterpret_cast<U32*>(dst + (byte - shift)) = value[0] | value[1] << 8 | value[2] << 16 | value[3] << 24;
        } else {
          HEADRACE_LZ4_UNROLL for (U32 k = 0; k < 4; ++k) {
            if (((before & ~open) >> k & 1) != 0) dst[byte - shift + k] = static_cast<U8>(value[k]);
          }
        }
      }
      open_left |= open != 0;
      if (!__any_sync(kAllLanes, open != before)) continue;
      store_open(masks, byte, open, place < tile_bytes);
    }
    if (share == 1 && __syncthreads_or(open_left ? 1 : 0) == 0 && threadIdx.x == 0) a.sections[slot] = kNoPosition;
  }
}

}  // namespace headrace::codec::gpu::tiles
