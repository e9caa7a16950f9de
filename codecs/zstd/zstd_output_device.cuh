// Adapts the zstd decoder's blocks to the output stage of codecs/lz77. Device code without a CUDA header.
#pragma once

#include "codecs/lz77/lz77_device.cuh"
#include "zstd_sequences_device.cuh"

namespace headrace::codec::gpu::zstd {

// The blocks of a round.
struct Output {
  Job job;
  std::uint32_t round;

  __device__ std::uint32_t stream_count() const { return job.stream_count(); }
  __device__ lz77::Part part(std::uint32_t i) const { return part_of(job, round, i); }
  __device__ Byte* output(std::uint32_t i) const { return job.streams[i].dst; }
  __device__ lz77::OutputRun piece(std::uint32_t x) const {
    const Block& block = job.blocks[x];
    const Byte* const src = job.streams[block.stream].src;
    lz77::OutputRun piece;
    piece.out = block.out;
    piece.bytes = block.decoded_bytes;
    if (block.kind != BlockKind::kCompressed) {
      piece.content = src + block.at;
      piece.one = block.kind == BlockKind::kRle;
      return piece;
    }
    piece.content = block.literals == LiteralsKind::kHuffman ? job.literals_of(block) : src + block.literals_at;
    piece.one = block.literals == LiteralsKind::kRle;
    piece.count = block.sequences;
    piece.sequences = job.slots_of(block);
    piece.checkpoints = job.checkpoints_of(block);
    return piece;
  }
};

}  // namespace headrace::codec::gpu::zstd
