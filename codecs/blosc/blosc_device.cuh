// Device code for Blosc1 containers: everything around the inner decoders.
//
// A batch takes five steps. The host reads no stored bytes and waits for nothing:
//   parse     one thread per container: the header; how many blocks, streams and tiles it has
//   scan      where each container's share of the lists begins
//   streams   one thread per block: its start and the sizes of its splits become Lz4Streams
//   seal      one thread per stream: drops streams of containers found bad meanwhile; fills the lists of zstd and
//             deflate streams
//             (for few containers, one thread block does all of this)
//   (inner    enqueue_lz4 for lz4; blosc_inner_device.cuh for blosclz and snappy; or enqueue_zstd; or enqueue_deflate)
//   epilogue  one thread block per tile: un-shuffles, and copies what is stored unencoded; one launch per UnshuffleWay,
//             which ends at once if no container uses it
// Filtered containers are decoded into scratch and un-shuffled into dst; others are decoded directly into dst. The
// epilogue reads splits that did not compress from the container itself.
//
// Accepts and refuses the same containers as blosc_header.cc and blosc_codec.cc, except that these are left to the CPU
// (kHostOnly):
//   inner zstd and zlib, unless the array's configuration names that codec; then all other inner codecs
//   other inner codecs and inner formats, and Blosc2, which the CPU refuses as unsupported
//   containers with more streams than Allowance: 32 plus one per 512 decoded bytes; zstd: 8 plus one per 8 KiB;
//     zlib: 16 plus one per 4 KiB
//   containers whose streams overlap
#pragma once

#include <cstdint>

#include "codecs/deflate/deflate_device.cuh"
#include "codecs/lz4/lz4_device.cuh"
#include "codecs/lz77/lz77_scan_device.cuh"
#include "codecs/shuffle/shuffle_device.cuh"
#include "codecs/zstd/zstd_device.cuh"
#include "device/gpu_stage.h"

namespace headrace::codec::gpu::blosc {

using device::DecodeReason;
using shuffle::Byte;
using shuffle::Filter;
using shuffle::lower_outcome;
using shuffle::outcome_word;
using shuffle::U64;

constexpr unsigned kHeaderBytes = 16, kWordBytes = 4;
constexpr unsigned kMaxSplits = 16, kMinSplitItems = 128;
constexpr unsigned kMaxBlockBytes = (0x7fffffffu - 255 * 4) / 3;
constexpr unsigned kInnerBlosclz = 0, kInnerLz4 = 1, kInnerSnappy = 2, kInnerZlib = 3, kInnerZstd = 4;

// What remains to be done with a stream, besides its entry in the list for enqueue_lz4.
enum class Tag : std::uint8_t {
  kDecoded,  // nothing: enqueue_lz4 decodes it, or its container is bad
  kInPlace,  // src is the decoded bytes
  kBlosclz,
  kSnappy,
  kZstd,
  kZlib,
};

// The inner codec in the array's configuration: the device decodes streams of it, and of no other.
enum class Named : std::uint8_t { kOthers, kZstd, kZlib };

// A parsed container.
struct Container {
  const Byte* src;
  Byte* dst;
  std::uint32_t src_bytes, decoded_bytes;
  std::uint32_t block_bytes, block_count;  // a stored container is one block of one split
  std::uint32_t tiles_per_block;
  std::uint16_t item_bytes;
  std::uint8_t splits;  // of a full block; a short last one is not split
  std::uint8_t inner;
  Filter filter;
  shuffle::UnshuffleWay path;
  std::uint32_t stored;
};

// Shares of the lists: counts after parse, offsets after scan.
struct alignas(16) Shares {
  std::uint32_t streams, blocks, tiles, scratch;  // scratch in units of 16 bytes

  __device__ Shares& operator+=(const Shares& other) {
    streams += other.streams;
    blocks += other.blocks;
    tiles += other.tiles;
    scratch += other.scratch;
    return *this;
  }
};

// Upper bound on a container's streams.
struct Allowance {
  std::uint32_t base = 32;
  std::uint32_t bytes_per_stream = 512;
  __host__ __device__ U64 of(U64 decoded_bytes) const { return base + decoded_bytes / bytes_per_stream; }
};
// These need more memory per stream. No known writer splits blocks of zstd; those of zlib are split like lz4's.
inline constexpr Allowance kZstdAllowance{8, 8192}, kZlibAllowance{16, 4096};
__host__ __device__ constexpr Allowance allowance_for(Named named) {
  return named == Named::kZstd ? kZstdAllowance : named == Named::kZlib ? kZlibAllowance : Allowance{};
}

struct Job {
  device::gpu::Chunk* chunks = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned count = 0;
  bool exact = true;
  Named named = Named::kOthers;
  unsigned stage = 0;
  Allowance allowance;
  // In scratch; one entry per container:
  Container* containers = nullptr;
  Shares* shares = nullptr;
  U64* encoded_bytes = nullptr;  // sum over all its streams
  // One entry per stream:
  Lz4Stream* streams = nullptr;
  Tag* tags = nullptr;
  ZstdStream* zstd_streams = nullptr;        // if zstd is named
  DeflateStream* deflate_streams = nullptr;  // if zlib is named
  Shares* totals = nullptr;                  // one
  std::uint32_t* others = nullptr;           // one, zeroed before: streams that are neither lz4 nor in place
  std::uint32_t* paths = nullptr;            // one, zeroed before: a bit for each UnshuffleWay that a container uses
  std::uint32_t* ticket = nullptr;           // one, zeroed before: for the inner decoder
  Byte* decoded = nullptr;
};

__device__ inline std::uint32_t u32_at(const Byte* at) {
  return at[0] | static_cast<std::uint32_t>(at[1]) << 8 | static_cast<std::uint32_t>(at[2]) << 16 |
         static_cast<std::uint32_t>(at[3]) << 24;
}

// ---- parse ----

struct Verdict {
  DecodeReason reason = DecodeReason::kNone;
  unsigned at = 0;
};

// Fills in all but tiles_per_block. Applies the rules of parse_blosc_header(), in the same order.
__device__ inline Verdict parse_header(const device::gpu::Chunk& chunk, Named named, Container& out) {
  if (chunk.src_bytes < kHeaderBytes) return {DecodeReason::kTruncated, 0};
  const Byte* h = chunk.src;
  const unsigned version = h[0], inner_version = h[1], flags = h[2], inner = flags >> 5;
  const std::uint32_t container_bytes = u32_at(h + 12);
  out.src = chunk.src;
  out.dst = chunk.dst;
  out.item_bytes = h[3];
  out.decoded_bytes = u32_at(h + 4);
  out.block_bytes = u32_at(h + 8);
  out.src_bytes = container_bytes;
  out.inner = static_cast<std::uint8_t>(inner);
  if (version > 2 && version <= 5) return {DecodeReason::kHostOnly, 0};
  if (version != 2) return {DecodeReason::kHeader, 0};
  if (container_bytes != chunk.src_bytes) return {DecodeReason::kTruncated, 12};
  if ((flags & 0x08) != 0 || (flags & 0x05) == 0x05) return {DecodeReason::kHeader, 2};
  if (out.item_bytes == 0) return {DecodeReason::kHeader, 3};
  if (container_bytes > 0x7fffffffu || out.decoded_bytes > 0x7fffffffu - kHeaderBytes) {
    return {DecodeReason::kHeader, 4};
  }
  out.stored = (flags & 0x02) != 0;
  out.filter = (flags & 0x04) != 0                         ? Filter::kBits
               : (flags & 0x01) != 0 && out.item_bytes > 1 ? Filter::kBytes
                                                           : Filter::kNone;
  out.splits = 1;
  out.block_count = 0;
  if (out.decoded_bytes == 0) {
    return {container_bytes == kHeaderBytes ? DecodeReason::kNone : DecodeReason::kTrailing, kHeaderBytes};
  }
  if (out.block_bytes == 0 || out.block_bytes > out.decoded_bytes || out.block_bytes > kMaxBlockBytes) {
    return {DecodeReason::kHeader, 8};
  }
  if (out.stored) {
    if (container_bytes != out.decoded_bytes + kHeaderBytes) return {DecodeReason::kHeader, 12};
    out.block_bytes = out.decoded_bytes;
    out.block_count = 1;
    out.filter = Filter::kNone;
    out.item_bytes = 1;
    return {};
  }
  if (inner > kInnerZstd || inner_version != 1) return {DecodeReason::kHostOnly, 1};
  out.block_count = (out.decoded_bytes - 1) / out.block_bytes + 1;
  if (out.block_count > (container_bytes - kHeaderBytes) / kWordBytes) return {DecodeReason::kTruncated, kHeaderBytes};
  const bool decoded_here = named == Named::kZstd   ? inner == kInnerZstd
                            : named == Named::kZlib ? inner == kInnerZlib
                                                    : inner <= kInnerSnappy;
  if (!decoded_here) return {DecodeReason::kHostOnly, 2};
  if ((flags & 0x10) == 0 && out.item_bytes <= kMaxSplits && out.block_bytes / out.item_bytes >= kMinSplitItems) {
    out.splits = static_cast<std::uint8_t>(out.item_bytes);
    if (out.block_bytes % out.splits != 0) return {DecodeReason::kHeader, 8};  // block 0 is full
  }
  return {};
}

__device__ inline void parse_body(const Job& job) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < job.count; i += gridDim.x * blockDim.x) {
    device::gpu::Chunk& chunk = job.chunks[i];
    Shares shares{0, 0, 0, 0};
    Container container{};
    job.encoded_bytes[i] = 0;
    if (job.outcomes[i] == shuffle::kFine) {
      Verdict verdict = parse_header(chunk, job.named, container);
      const bool fits =
          job.exact ? container.decoded_bytes == chunk.dst_bytes : container.decoded_bytes <= chunk.dst_bytes;
      if (verdict.reason == DecodeReason::kNone && !fits) verdict = {DecodeReason::kWrongSize, 4};
      const U64 whole_blocks = container.splits > 1 ? container.decoded_bytes / container.block_bytes : 0;
      const U64 streams = container.block_count + whole_blocks * (container.splits - 1u);
      if (verdict.reason == DecodeReason::kNone && streams > job.allowance.of(container.decoded_bytes)) {
        verdict = {DecodeReason::kHostOnly, 8};
      }
      if (verdict.reason != DecodeReason::kNone) {
        lower_outcome(job.outcomes, i, outcome_word(job.stage, verdict.at, verdict.reason));
        container.block_count = 0;
      } else {
        chunk.dst_bytes = container.decoded_bytes;
        if (container.block_count != 0) {
          const unsigned tile = shuffle::tile_bytes(container.item_bytes);
          container.tiles_per_block = (container.block_bytes - 1) / tile + 1;
          container.path =
              shuffle::path_of(container.filter, container.item_bytes, container.dst, container.block_bytes);
          const std::uint32_t bit = 1u << static_cast<unsigned>(container.path);
          if ((*const_cast<volatile std::uint32_t*>(job.paths) & bit) == 0) atomicOr(job.paths, bit);
          shares.streams = static_cast<std::uint32_t>(streams);
          shares.blocks = container.block_count;
          shares.tiles = container.block_count * container.tiles_per_block;
          shares.scratch = container.filter == Filter::kNone ? 0 : (container.decoded_bytes - 1) / 16 + 1;
        }
      }
    }
    job.containers[i] = container;
    job.shares[i] = shares;
  }
}

// ---- scan ----

// Runs in one thread block; `shared` has an entry for each thread.
__device__ inline void scan_body(const Job& job, Shares* shared) {
  const Shares all = lz77::scan_by_block(
      job.count, shared, [&job](std::uint32_t i) { return job.shares[i]; },
      [&job](std::uint32_t i, const Shares& before) { job.shares[i] = before; });
  if (threadIdx.x == 0) *job.totals = all;
}

// The container whose share of `kMember` contains x: the last one that begins at or before it. Searches from `low` on.
// REQUIRES: x < the total; x is not before container `low`.
template <std::uint32_t Shares::*kMember>
__device__ inline unsigned find(const Shares* shares, unsigned count, std::uint32_t x, unsigned low = 0) {
  unsigned high = low + 2 < count ? low + 2 : count;  // usually the next one
  if (high < count && shares[high].*kMember <= x) {
    low = high;
    high = count;
  }
  while (high - low > 1) {
    const unsigned middle = low + (high - low) / 2;
    if (shares[middle].*kMember <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// ---- streams ----

// Block `b` of container `i`, and its first stream.
struct Place {
  std::uint32_t stream, bytes, splits;
};
__device__ inline Place place_of(const Container& c, const Shares& shares, std::uint32_t b) {
  const std::uint32_t first = b * c.block_bytes;
  const bool whole = c.decoded_bytes - first >= c.block_bytes;
  return {shares.streams + b * c.splits, whole ? c.block_bytes : c.decoded_bytes - first, whole ? c.splits : 1u};
}

__device__ inline Verdict list_block(const Job& job, unsigned i, const Container& c, const Shares& shares,
                                     std::uint32_t b) {
  const Place place = place_of(c, shares, b);
  const std::uint32_t split_bytes = place.bytes / place.splits;
  Byte* const dst =
      (c.filter == Filter::kNone ? c.dst : job.decoded + U64{shares.scratch} * 16) + U64{b} * c.block_bytes;
  Verdict verdict;
  std::uint32_t at = 0;
  if (!c.stored) {
    const unsigned entry = kHeaderBytes + kWordBytes * b;
    at = u32_at(c.src + entry);
    if (at < kHeaderBytes + kWordBytes * c.block_count || at > c.src_bytes || c.src_bytes - at < kWordBytes) {
      verdict = {DecodeReason::kHeader, entry};
    }
  }
  U64 encoded_sum = 0;
  for (std::uint32_t j = 0; j < place.splits; ++j) {
    Lz4Stream stream{c.src, dst + j * split_bytes, 0, 0, i, Lz4Kind::kNone};
    Tag tag = Tag::kDecoded;
    if (verdict.reason == DecodeReason::kNone && c.stored) {
      stream.src = c.src + kHeaderBytes;
      tag = Tag::kInPlace;
    } else if (verdict.reason == DecodeReason::kNone) {
      std::uint32_t encoded = 0;
      if (c.src_bytes - at < kWordBytes) {
        verdict = {DecodeReason::kTruncated, at};
      } else {
        encoded = u32_at(c.src + at);
        if (encoded == 0 || encoded > c.src_bytes - at - kWordBytes) verdict = {DecodeReason::kTruncated, at};
      }
      if (verdict.reason == DecodeReason::kNone) {
        at += kWordBytes;
        stream.src = c.src + at;
        at += encoded;
        encoded_sum += encoded;
        if (encoded == split_bytes) {
          tag = Tag::kInPlace;
        } else {
          stream.src_bytes = encoded;
          stream.dst_bytes = split_bytes;
          stream.kind = c.inner == kInnerLz4 ? Lz4Kind::kBlock : Lz4Kind::kNone;
          tag = c.inner == kInnerLz4       ? Tag::kDecoded
                : c.inner == kInnerZstd    ? Tag::kZstd
                : c.inner == kInnerZlib    ? Tag::kZlib
                : c.inner == kInnerBlosclz ? Tag::kBlosclz
                                           : Tag::kSnappy;
        }
      }
    }
    job.streams[place.stream + j] = stream;
    job.tags[place.stream + j] = tag;
    if (tag == Tag::kBlosclz || tag == Tag::kSnappy) atomicAdd(job.others, 1u);
  }
  // Blocks that share bytes could make the streams' total size exceed the limits given to the inner decoders.
  if (encoded_sum > c.src_bytes || atomicAdd(&job.encoded_bytes[i], encoded_sum) + encoded_sum > c.src_bytes) {
    if (verdict.reason == DecodeReason::kNone) verdict = {DecodeReason::kHostOnly, 8};
  }
  return verdict;
}

__device__ inline void streams_body(const Job& job) {
  const std::uint32_t total = job.totals->blocks;
  for (std::uint32_t x = blockIdx.x * blockDim.x + threadIdx.x; x < total; x += gridDim.x * blockDim.x) {
    const unsigned i = find<&Shares::blocks>(job.shares, job.count, x);
    const Container container = job.containers[i];
    const Shares shares = job.shares[i];
    const Verdict verdict = list_block(job, i, container, shares, x - shares.blocks);
    if (verdict.reason != DecodeReason::kNone) {
      lower_outcome(job.outcomes, i, outcome_word(job.stage, verdict.at, verdict.reason));
    }
  }
}

__device__ inline void seal_body(const Job& job) {
  const std::uint32_t total = job.totals->streams;
  for (std::uint32_t x = blockIdx.x * blockDim.x + threadIdx.x; x < total; x += gridDim.x * blockDim.x) {
    Lz4Stream& stream = job.streams[x];
    if (job.outcomes[stream.chunk] != shuffle::kFine) {
      stream.src_bytes = stream.dst_bytes = 0;
      stream.kind = Lz4Kind::kNone;
      job.tags[x] = Tag::kDecoded;
    }
    if (job.named == Named::kOthers) continue;
    const bool decoded = job.tags[x] == (job.named == Named::kZstd ? Tag::kZstd : Tag::kZlib);
    const std::uint64_t src_bytes = decoded ? stream.src_bytes : 0, dst_bytes = decoded ? stream.dst_bytes : 0;
    if (job.named == Named::kZstd) {
      job.zstd_streams[x] = {stream.src, stream.dst,   src_bytes,
                             dst_bytes,  stream.chunk, decoded ? ZstdKind::kFrames : ZstdKind::kNone};
    } else {
      job.deflate_streams[x] = {stream.src, stream.dst,   src_bytes,
                                dst_bytes,  stream.chunk, decoded ? DeflateKind::kZlib : DeflateKind::kNone};
    }
  }
}

// ---- epilogue ----

// Shared state of a thread block for the Blosc block it works on.
template <shuffle::UnshuffleWay kPath>
struct EpilogueShared {
  const Byte* planes[kMaxSplits];
  bool skip[kMaxSplits];
  unsigned tile[shuffle::kSharedWords<kPath>];
};

// Processes the tiles of the containers that take this path.
template <shuffle::UnshuffleWay kPath>
__device__ inline void epilogue_body(const Job& job, EpilogueShared<kPath>& shared) {
  if ((*job.paths >> static_cast<unsigned>(kPath) & 1) == 0) return;
  const shuffle::Share share = shuffle::share_of(job.totals->tiles, blockIdx.x, gridDim.x);
  unsigned i = 0;
  std::uint32_t end = 0;  // end of container i's tiles
  Container c{};
  Shares shares{};
  bool fine = false;
  for (U64 t = share.first; t < share.last; ++t) {
    const auto x = static_cast<std::uint32_t>(t);
    if (x >= end) {
      i = find<&Shares::tiles>(job.shares, job.count, x, i);
      c = job.containers[i];
      shares = job.shares[i];
      end = shares.tiles + c.block_count * c.tiles_per_block;
      fine = job.outcomes[i] == shuffle::kFine && c.path == kPath;
    }
    if (!fine) {
      t = end - 1;
      continue;
    }
    const std::uint32_t b = (x - shares.tiles) / c.tiles_per_block;
    const std::uint32_t tile = x - shares.tiles - b * c.tiles_per_block;
    const Place place = place_of(c, shares, b);
    __syncthreads();  // the previous block is done
    if (threadIdx.x < place.splits) {
      const Lz4Stream stream = job.streams[place.stream + threadIdx.x];
      const bool in_place = job.tags[place.stream + threadIdx.x] == Tag::kInPlace;
      shared.planes[threadIdx.x] = in_place ? stream.src : stream.dst;
      shared.skip[threadIdx.x] = !in_place && c.filter == Filter::kNone;
    }
    __syncthreads();
    shuffle::Block block;
    block.dst = c.dst + U64{b} * c.block_bytes;
    block.bytes = place.bytes;
    block.width = c.item_bytes;
    block.filter = c.filter;
    if (place.splits > 1) {
      block.planes = shared.planes;
      block.skip = shared.skip;
    } else {
      block.src = shared.planes[0];
      if (shared.skip[0]) continue;
    }
    shuffle::unfilter_tile<kPath>(block, tile, shared.tile, threadIdx.x, blockDim.x);
  }
}

// ---- memory ----

// Offsets of the arrays in the stage's scratch, derived from the limits alone.
struct Layout {
  std::uint64_t containers = 0, shares = 0, encoded_bytes = 0, totals = 0, streams = 0, tags = 0, entropy_streams = 0,
                decoded = 0, inner = 0;
  std::uint64_t stream_count = 0;  // upper bound

  static constexpr std::uint64_t kTotalsBytes = sizeof(Shares) + 3 * sizeof(std::uint32_t);

  Layout(const device::gpu::Limits& limits, const Allowance& allowance, Named named) {
    const std::uint64_t chunks = limits.chunks;
    stream_count = chunks * allowance.base + limits.dst_bytes / allowance.bytes_per_stream;
    std::uint64_t end = 0;
    const auto take = [&end](std::uint64_t bytes) {
      const std::uint64_t at = end;
      end += (bytes + 255) / 256 * 256;
      return at;
    };
    containers = take(chunks * sizeof(Container));
    shares = take(chunks * sizeof(Shares));
    encoded_bytes = take(chunks * sizeof(U64));
    totals = take(kTotalsBytes);
    streams = take(stream_count * sizeof(Lz4Stream));
    tags = take(stream_count * sizeof(Tag));
    if (named == Named::kZstd) entropy_streams = take(stream_count * sizeof(ZstdStream));
    if (named == Named::kZlib) entropy_streams = take(stream_count * sizeof(DeflateStream));
    decoded = take(limits.dst_bytes + 16 * chunks);
    inner = end;
  }
  void fill_in(Job& job, std::byte* scratch) const {
    job.containers = reinterpret_cast<Container*>(scratch + containers);
    job.shares = reinterpret_cast<Shares*>(scratch + shares);
    job.encoded_bytes = reinterpret_cast<U64*>(scratch + encoded_bytes);
    job.totals = reinterpret_cast<Shares*>(scratch + totals);
    job.others = reinterpret_cast<std::uint32_t*>(scratch + totals + sizeof(Shares));
    job.paths = job.others + 1;
    job.ticket = job.others + 2;
    job.streams = reinterpret_cast<Lz4Stream*>(scratch + streams);
    job.tags = reinterpret_cast<Tag*>(scratch + tags);
    if (job.named == Named::kZstd) job.zstd_streams = reinterpret_cast<ZstdStream*>(scratch + entropy_streams);
    if (job.named == Named::kZlib) job.deflate_streams = reinterpret_cast<DeflateStream*>(scratch + entropy_streams);
    job.decoded = reinterpret_cast<Byte*>(scratch + decoded);
  }
};

}  // namespace headrace::codec::gpu::blosc
