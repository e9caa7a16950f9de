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

struct Piece {
  const Byte* content = nullptr;  // literals, or the bytes as they are
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
  std::uint32_t linked, followed;  // tiles
  std::uint32_t slices;            // by `plan_tiles`
};

inline constexpr std::uint32_t kTileBytes = 8192;
inline constexpr unsigned kFollowedAtOnce = 4;  // open bytes by a lane, so that loads overlap

// By tiles: device memory, and what it is for.
struct TileStream {
  std::uint32_t stream;
  Part part;
  std::uint32_t begin, bytes;  // of its output
};
// A slice has `each` tiles, from tile `first` on, of each of the first `streams`, which are sorted by length.
struct Slice {
  std::uint32_t first, each, streams;
  std::uint32_t before;  // tiles of all slices before
};
struct TileJob {
  TileStream* streams = nullptr;  // the longest first
  Slice* slices = nullptr;
  std::uint32_t* open = nullptr;   // of each tile of a slice: whether it has open bytes
  std::uint32_t* links = nullptr;  // a word for each byte of a slice's tiles
  std::uint32_t in_slice = 1;      // tiles at most, and no less than there are streams
};

// The same from the limits of a batch: so many streams at least and at most, and bytes of output. No memory where there
// are too many streams anyway.
class TileLayout {
 public:
  static constexpr std::uint32_t kMostStreams = 512;
  static constexpr std::uint64_t kAlignment = 256;

  // `most_in_slice` tiles of tile_bytes: for tests.
  TileLayout(std::uint64_t least_streams, std::uint64_t streams, std::uint64_t bytes,
             std::uint32_t tile_bytes = kTileBytes, std::uint32_t most_in_slice = 768) {
    if (least_streams > kMostStreams) return;
    most_streams_ = static_cast<std::uint32_t>(streams < kMostStreams ? streams : kMostStreams);
    // Once or twice what a large GPU has room for at a time.
    const std::uint64_t tiles = bytes / tile_bytes + most_streams_;
    std::uint64_t in_slice = most_in_slice / (bytes < kLarge ? 2 : 1);
    if (in_slice > tiles) in_slice = tiles;
    in_slice_ = static_cast<std::uint32_t>(in_slice > most_streams_ ? in_slice : most_streams_);
    // A slice is more than half full but for those in which half of its streams end.
    const std::uint64_t slices = 4 * tiles / in_slice_ + 12;
    const auto take = [this](std::uint64_t wanted) {
      const std::uint64_t at = bytes_;
      bytes_ += (wanted + kAlignment - 1) / kAlignment * kAlignment;
      return at;
    };
    streams_ = take(most_streams_ * sizeof(TileStream));
    slices_ = take(slices * sizeof(Slice));
    open_ = take(in_slice_ * sizeof(std::uint32_t));
    links_ = take(std::uint64_t{in_slice_} * tile_bytes * sizeof(std::uint32_t));
  }
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t most_streams() const { return most_streams_; }
  // REQUIRES: memory is aligned to kAlignment.
  TileJob job(std::byte* memory) const {
    TileJob out;
    out.streams = reinterpret_cast<TileStream*>(memory + streams_);
    out.slices = reinterpret_cast<Slice*>(memory + slices_);
    out.open = reinterpret_cast<std::uint32_t*>(memory + open_);
    out.links = reinterpret_cast<std::uint32_t*>(memory + links_);
    out.in_slice = in_slice_;
    return out;
  }

 private:
  static constexpr std::uint64_t kLarge = 256 << 20;
  std::uint64_t bytes_ = 0, streams_ = 0, slices_ = 0, open_ = 0, links_ = 0;
  std::uint32_t most_streams_ = 0, in_slice_ = 1;
};

}  // namespace headrace::codec::gpu::lz77
