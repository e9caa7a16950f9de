// Streams of sequences and literals, as decoders pass them to codecs/lz77, and their expected output.
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "codecs/lz77/lz77_device.cuh"

namespace headrace::test {

// A stream's pieces and its expected output.
struct Lz77Stream {
  using Byte = codec::gpu::lz77::Byte;
  using Random = std::mt19937_64;

  struct PieceData {
    std::vector<Byte> content;
    std::vector<std::uint64_t> sequences;
    std::vector<codec::gpu::lz77::Checkpoint> checkpoints;
    std::uint32_t out, bytes;
  };
  std::vector<PieceData> pieces;
  std::vector<Byte> expected, output;

  // Most matches reach back at most `reach` bytes. One in `long_one_in` matches or literal runs is long.
  void make(Random& random, std::uint32_t bytes, std::uint32_t reach, std::uint32_t long_one_in = 20,
            bool long_literals = false) {
    const auto below = [&random](std::uint64_t limit) { return static_cast<std::uint32_t>(random() % limit); };
    while (expected.size() < bytes) {
      PieceData piece;
      piece.out = static_cast<std::uint32_t>(expected.size());
      const std::uint32_t count = below(8) == 0 ? 0 : below(200);
      const auto literals = [&](std::uint32_t number) {
        for (std::uint32_t i = 0; i < number; ++i) {
          piece.content.push_back(static_cast<Byte>(random()));
          expected.push_back(piece.content.back());
        }
      };
      codec::gpu::lz77::Checkpoint upto{0, 0};
      for (std::uint32_t i = 0; i < count; ++i) {
        if (i % codec::gpu::lz77::kGroup == 0) piece.checkpoints.push_back(upto);
        const std::uint32_t run = expected.empty()                           ? 1
                                  : long_literals && below(long_one_in) == 0 ? below(3000)
                                  : below(4) != 0                            ? 0
                                                                             : below(20);
        literals(run);
        const std::uint32_t match = 3 + below(below(long_one_in) == 0 ? 2000 : 12);
        const auto size = static_cast<std::uint32_t>(expected.size());
        const std::uint32_t most = below(10) == 0 ? size : std::min(size, reach);
        const std::uint32_t offset = 1 + below(most);
        for (std::uint32_t k = 0; k < match; ++k) expected.push_back(expected[expected.size() - offset]);
        piece.sequences.push_back(codec::gpu::lz77::pack_sequence(run, match, offset));
        upto.literals += run;
        upto.matches += match;
      }
      if (count != 0) piece.checkpoints.push_back(upto);
      literals(below(100));
      piece.content.resize((piece.content.size() + 3) / 4 * 4);  // decoders may read whole words
      piece.bytes = static_cast<std::uint32_t>(expected.size()) - piece.out;
      if (piece.bytes != 0) pieces.push_back(std::move(piece));
    }
    output.assign(expected.size(), Byte{0xEE});
  }
};

struct Lz77Source {
  std::vector<Lz77Stream>* streams;

  std::uint32_t stream_count() const { return static_cast<std::uint32_t>(streams->size()); }
  codec::gpu::lz77::Part part(std::uint32_t i) const {
    std::uint32_t from = 0;
    for (std::uint32_t k = 0; k < i; ++k) from += static_cast<std::uint32_t>((*streams)[k].pieces.size());
    return {from, from + static_cast<std::uint32_t>((*streams)[i].pieces.size())};
  }
  codec::gpu::lz77::Byte* output(std::uint32_t i) const { return (*streams)[i].output.data(); }
  codec::gpu::lz77::OutputRun piece(std::uint32_t x) const {
    std::size_t i = 0;
    for (; x >= (*streams)[i].pieces.size(); ++i) x -= static_cast<std::uint32_t>((*streams)[i].pieces.size());
    const Lz77Stream::PieceData& data = (*streams)[i].pieces[x];
    codec::gpu::lz77::OutputRun piece;
    piece.content = data.content.data();
    piece.sequences = data.sequences.data();
    piece.checkpoints = data.checkpoints.data();
    piece.out = data.out;
    piece.bytes = data.bytes;
    piece.count = static_cast<std::uint32_t>(data.sequences.size());
    return piece;
  }
};

}  // namespace headrace::test
