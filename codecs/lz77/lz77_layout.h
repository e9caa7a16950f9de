// Sequences of literals and matches, as decoders of entropy-coded LZ77 formats leave them for the steps that write the
// output. No CUDA header is needed here.
//
// Terms: a stream's output is made by pieces, one behind the other; a piece is bytes as they are, one byte repeated, or
// sequences over literals. A sequence is a run of literals and a match behind it; behind a piece's last match come the
// literals that are left.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::codec::gpu::lz77 {

using Byte = unsigned char;

inline constexpr std::uint32_t kGroup = 32;  // sequences a checkpoint
inline constexpr std::uint32_t kShortestMatch = 3;

// A Sequence: literal length (17 bits), match length less kShortestMatch (17), offset (30), from the lowest bit on.
inline constexpr unsigned kLengthBits = 17, kOffsetBits = 30;
inline constexpr std::uint32_t kLengthMask = (1u << kLengthBits) - 1;

// What the sequences of a piece before number 32 * i take and make: literals, and bytes by matches. Their sum is where
// the group's output begins, from the piece's own. The last one, behind all groups, is of all sequences.
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
  // Literals, or the bytes as they are. Literals of sequences are read by aligned words of four bytes: where a word has
  // one of them, all of it may be read.
  const Byte* content = nullptr;
  const std::uint64_t* sequences = nullptr;
  const Checkpoint* checkpoints = nullptr;
  std::uint32_t out = 0;    // where it begins in the stream's output
  std::uint32_t bytes = 0;  // it makes
  std::uint32_t count = 0;  // of sequences
  bool one = false;         // content is one byte, which is all literals
};

// Those of a stream's pieces that are there to be written: [from, to) of the list.
struct Part {
  std::uint32_t from, to;
};

// How streams are written: by a warp each, in order; by a thread block each, window by window, a large one where there
// are hardly more streams than multiprocessors; or by thread blocks that share all streams, tile by tile. So many
// streams at most each way; the order is that of the ways. More than most_by_windows are written in order.
struct Choice {
  std::uint32_t most_by_tiles = 0, most_by_large_windows = 0, most_by_windows = 0;
};

// Zeroed before. Of one batch of pieces.
struct Progress {
  std::uint32_t ticket;            // by windows: streams; by tiles: steps
  std::uint32_t stretches, steps;  // by `plan_tiles`
};

inline constexpr std::uint32_t kTileBytes = 8192;
// By a lane, so that loads overlap: bytes of which it makes cells (more need more registers than tiles leave), open
// bytes that it follows, and how often before it looks for others.
inline constexpr unsigned kMadeAtOnceInWindows = 4, kMadeAtOnceInTiles = 1, kFollowedAtOnce = 4, kHopsAtOnce = 2;

// By tiles: what lz77_steps_device.cuh says. Links take kSliceTiles * kRing tiles of words, which have to stay in the
// L2; between a slice and the first that waits for it should be about as many steps as there are thread blocks.
struct TileOrder {
  static constexpr std::uint32_t kSliceTiles = 96;  // and fewer where there would be less than kLeastSlices
  static constexpr std::uint32_t kLeastSlices = 4;
  static constexpr std::uint32_t kOpen = 5, kBehind = 3, kAhead = 2;
  static constexpr std::uint32_t kRing = 2 * kOpen + kBehind - 2;
};

// By tiles: device memory, and what it is for.
struct TileStream {
  std::uint32_t stream;
  Part part;
  std::uint32_t begin, bytes;  // of its output
};
// So many slices of the same shape: each has `each` tiles of each of the first `streams`, which are sorted by length.
// Some of these may have ended.
struct Stretch {
  std::uint32_t step, slice;  // the first, of all
  std::uint32_t tile;         // the first, of each stream
  std::uint32_t slices, each, streams;
};
struct TileJob {
  TileStream* streams = nullptr;  // the longest first
  Stretch* stretches = nullptr;
  std::uint32_t* left = nullptr;   // of each slice: tiles that are not linked, and that are not followed
  std::uint32_t* open = nullptr;   // of each tile of the ring: whether it has open bytes
  std::uint32_t* links = nullptr;  // a word for each byte of the ring's tiles
  std::uint32_t in_slice = 1;      // tiles at most, and no less than there are streams
  std::uint32_t steps = 0;         // at most
};

// The same from the limits of a batch: so many streams at least and at most, and bytes of output. No memory where there
// are too many streams anyway.
class TileLayout {
 public:
  static constexpr std::uint32_t kMostStreams = TileOrder::kSliceTiles;
  static constexpr std::uint32_t kMostStretches = 8;  // each has no more than half as many streams as the one before
  static_assert(kMostStreams >> kMostStretches == 0);
  static constexpr std::uint64_t kAlignment = 256;

  // `most_in_slice` tiles of tile_bytes: for tests.
  TileLayout(std::uint64_t least_streams, std::uint64_t streams, std::uint64_t bytes,
             std::uint32_t tile_bytes = kTileBytes, std::uint32_t most_in_slice = TileOrder::kSliceTiles) {
    if (least_streams > kMostStreams) return;
    most_streams_ = static_cast<std::uint32_t>(streams < kMostStreams ? streams : kMostStreams);
    const std::uint64_t tiles = bytes / tile_bytes + most_streams_;
    // Few tiles are some slices, too, so that the first are followed while the last are linked.
    std::uint64_t in_slice = tiles / TileOrder::kLeastSlices + 1;
    if (in_slice > most_in_slice) in_slice = most_in_slice;
    in_slice_ = static_cast<std::uint32_t>(in_slice > most_streams_ ? in_slice : most_streams_);
    // More than half of a slice are tiles of a stretch, and more than half of the streams have not ended, but for the
    // last slice of a stretch.
    const std::uint64_t slices = 4 * tiles / in_slice_ + kMostStretches;
    std::uint64_t ring = (most_streams_ > 1 ? 2 : 1) * tiles + in_slice_;
    if (ring > in_slice_ * TileOrder::kRing) ring = in_slice_ * TileOrder::kRing;
    steps_ = static_cast<std::uint32_t>(2 * slices * in_slice_);
    const auto take = [this](std::uint64_t wanted) {
      const std::uint64_t at = bytes_;
      bytes_ += (wanted + kAlignment - 1) / kAlignment * kAlignment;
      return at;
    };
    streams_ = take(most_streams_ * sizeof(TileStream));
    stretches_ = take(kMostStretches * sizeof(Stretch));
    left_ = take(2 * slices * sizeof(std::uint32_t));
    open_ = take(ring * sizeof(std::uint32_t));
    links_ = take(ring * tile_bytes * sizeof(std::uint32_t));
  }
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t most_streams() const { return most_streams_; }
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
  std::uint32_t most_streams_ = 0, in_slice_ = 1, steps_ = 0;
};

}  // namespace headrace::codec::gpu::lz77
