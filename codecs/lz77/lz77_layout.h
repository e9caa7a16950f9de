// Sequences of literals and matches: the interface between decoders of entropy-coded LZ77 formats and the steps that
// write the output. Needs no CUDA header.
//
// Terms: a stream's output consists of consecutive pieces. A piece is raw bytes, one byte repeated, or sequences over
// literals. A sequence is a run of literals followed by a match. The literals that remain follow a piece's last match.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::codec::gpu::lz77 {

using Byte = unsigned char;

inline constexpr std::uint32_t kGroup = 32;  // sequences per checkpoint
inline constexpr std::uint32_t kShortestMatch = 3;

// Fields of a packed sequence, from the lowest bit: literal length (17 bits), match length minus kShortestMatch (17),
// offset (30).
inline constexpr unsigned kLengthBits = 17, kOffsetBits = 30;
inline constexpr std::uint32_t kLengthMask = (1u << kLengthBits) - 1;

// Literals consumed and match bytes produced by the sequences of a piece before number 32 * i. Their sum is where the
// group's output begins, relative to the piece's. The last checkpoint, after all groups, covers all sequences.
struct Checkpoint {
  std::uint32_t literals, matches;
};

__host__ __device__ constexpr std::uint32_t groups_of(std::uint32_t sequences) {
  return (sequences + kGroup - 1) / kGroup;
}
__host__ __device__ constexpr std::uint32_t checkpoints_of(std::uint32_t sequences) {
  return sequences == 0 ? 0 : groups_of(sequences) + 1;
}

struct OutputRun {
  // Literals, or the raw bytes. Literals of sequences are read as aligned four-byte words, so every word that contains
  // a literal must be readable as a whole.
  const Byte* content = nullptr;
  const std::uint64_t* sequences = nullptr;
  const Checkpoint* checkpoints = nullptr;
  std::uint32_t out = 0;    // where it begins in the stream's output
  std::uint32_t bytes = 0;  // size of its output
  std::uint32_t count = 0;  // of sequences
  bool one = false;         // content is a single byte, which every literal equals
};

// The range [from, to) of the list: a stream's pieces that are ready to be written.
struct Part {
  std::uint32_t from, to;
};

// How streams are written: by a warp each, in order; by a thread block each, window by window (a large window if there
// are hardly more streams than multiprocessors); or by thread blocks that share all streams, tile by tile. Each value
// is the maximum number of streams for that way; the first way in member order that fits is used. More than
// max_by_windows streams are written in order.
struct Choice {
  std::uint32_t max_by_tiles = 0, max_by_large_windows = 0, max_by_windows = 0;
};

// Progress of one batch of pieces. Zeroed before the launch.
struct Progress {
  std::uint32_t ticket;            // by windows: streams; by tiles: steps
  std::uint32_t stretches, steps;  // written by `plan_tiles`
};

inline constexpr std::uint32_t kTileBytes = 8192;
// Loads that a lane keeps in flight: bytes for making cells (more need more registers than tiles leave), open bytes
// that it follows, and hops between checks for new ones.
inline constexpr unsigned kMadeAtOnceInWindows = 4, kMadeAtOnceInTiles = 1, kFollowedAtOnce = 4, kHopsAtOnce = 2;

// Order of tiles, explained in lz77_steps_device.cuh. Links take kSliceTiles * kRing tiles of words, which must stay in
// the L2. The number of steps between a slice and the first slice that waits for it should be about the number of
// thread blocks.
struct TileOrder {
  static constexpr std::uint32_t kSliceTiles = 96;  // fewer if that would leave less than kMinSlices
  static constexpr std::uint32_t kMinSlices = 4;
  static constexpr std::uint32_t kOpen = 5, kBehind = 3, kAhead = 2;
  static constexpr std::uint32_t kRing = 2 * kOpen + kBehind - 2;
};

// By tiles: a stream as the tiles see it.
struct TileStream {
  std::uint32_t stream;
  Part part;
  std::uint32_t begin, bytes;  // of its output
};
// Consecutive slices of the same shape: each has `each` tiles of each of the first `streams`, which are sorted by
// length. Some of these streams may have ended.
struct Stretch {
  std::uint32_t step, slice;  // global number of the first one
  std::uint32_t tile;         // number of the first tile in each stream
  std::uint32_t slices, each, streams;
};
struct TileJob {
  TileStream* streams = nullptr;  // the longest first
  Stretch* stretches = nullptr;
  std::uint32_t* left = nullptr;   // per slice: tiles still to be linked, and tiles still to be followed
  std::uint32_t* open = nullptr;   // per tile of the ring: whether it has open bytes
  std::uint32_t* links = nullptr;  // a word for each byte of the ring's tiles
  std::uint32_t in_slice = 1;      // upper bound on tiles per slice; at least the number of streams
  std::uint32_t steps = 0;         // upper bound
};

// Sizes and offsets of a TileJob, from a batch's limits: minimum and maximum number of streams, and output bytes. Takes
// no memory if there are always too many streams.
class TileLayout {
 public:
  static constexpr std::uint32_t kMaxStreams = TileOrder::kSliceTiles;
  static constexpr std::uint32_t kMaxStretches = 8;  // each has at most half as many streams as the one before
  static_assert(kMaxStreams >> kMaxStretches == 0);
  static constexpr std::uint64_t kAlignment = 256;

  // `max_in_slice` tiles of tile_bytes: for tests.
  TileLayout(std::uint64_t min_streams, std::uint64_t streams, std::uint64_t bytes,
             std::uint32_t tile_bytes = kTileBytes, std::uint32_t max_in_slice = TileOrder::kSliceTiles) {
    if (min_streams > kMaxStreams) return;
    max_streams_ = static_cast<std::uint32_t>(streams < kMaxStreams ? streams : kMaxStreams);
    const std::uint64_t tiles = bytes / tile_bytes + max_streams_;
    // Few tiles are also divided into slices, so that the first can be followed while the last are linked.
    std::uint64_t in_slice = tiles / TileOrder::kMinSlices + 1;
    if (in_slice > max_in_slice) in_slice = max_in_slice;
    in_slice_ = static_cast<std::uint32_t>(in_slice > max_streams_ ? in_slice : max_streams_);
    // Except in the last slice of a stretch, more than half of a slice's tiles belong to streams that have not ended.
    const std::uint64_t slices = 4 * tiles / in_slice_ + kMaxStretches;
    std::uint64_t ring = (max_streams_ > 1 ? 2 : 1) * tiles + in_slice_;
    if (ring > in_slice_ * TileOrder::kRing) ring = in_slice_ * TileOrder::kRing;
    steps_ = static_cast<std::uint32_t>(2 * slices * in_slice_);
    const auto take = [this](std::uint64_t wanted) {
      const std::uint64_t at = bytes_;
      bytes_ += (wanted + kAlignment - 1) / kAlignment * kAlignment;
      return at;
    };
    streams_ = take(max_streams_ * sizeof(TileStream));
    stretches_ = take(kMaxStretches * sizeof(Stretch));
    left_ = take(2 * slices * sizeof(std::uint32_t));
    open_ = take(ring * sizeof(std::uint32_t));
    links_ = take(ring * tile_bytes * sizeof(std::uint32_t));
  }
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t max_streams() const { return max_streams_; }
  // REQUIRES: memory is aligned to kAlignment.
  TileJob job(std::byte* memory) const {
    TileJob out;
    out.streams = reinterpret_cast<TileStream*>(memory + streams_);
    out.stretches = reinterpret_cast<Stretch*>(memory + stretches_);
    out.left = reinterpret_cast<std::uint32_t*>(memory + left_);
    out.open = reinterpret_cast<std::uint32_t*>(memory + open_);
    out.links = reinterpret_cast<std::uint32_t*>(memory + links_);
    out.in_slice = in_slice_;
    out.steps = steps_;
    return out;
  }

 private:
  std::uint64_t bytes_ = 0, streams_ = 0, stretches_ = 0, left_ = 0, open_ = 0, links_ = 0;
  std::uint32_t max_streams_ = 0, in_slice_ = 1, steps_ = 0;
};

}  // namespace headrace::codec::gpu::lz77
