// Adapts the DEFLATE decoder's pieces to the output stage of codecs/lz77. Device code without a CUDA header.
#pragma once

#include "codecs/lz77/lz77_device.cuh"
#include "deflate_job_device.cuh"

namespace headrace::codec::gpu::deflate {

// The pieces of a round. Streams that need no units consist of stored blocks only: `sums` writes these.
struct Output {
  Job job;
  std::uint32_t round;

  __device__ std::uint32_t stream_count() const { return job.stream_count(); }
  __device__ lz77::Part part(std::uint32_t i) const {
    const StreamState& state = job.states[i];
    if (state.pieces == 0 || state.units == 0) return {0, 0};
    const lz77::Part part = lz77::part_of_round(job.rounds, i, round);
    if (part.from == part.to || !fine_for_warp(job, job.streams[i].chunk)) return {0, 0};
    return part;
  }
  __device__ Byte* output(std::uint32_t i) const { return job.streams[i].dst; }
  __device__ lz77::OutputRun piece(std::uint32_t x) const {
    const OutputRun& from = job.pieces[x];
    lz77::OutputRun piece;
    piece.out = from.out;
    piece.bytes = from.bytes;
    if (from.stored) {
      piece.content = job.streams[from.stream].src + from.at;
      return piece;
    }
    piece.content = job.literals_of(from);
    piece.count = from.sequences;
    piece.sequences = job.slots_of(from);
    piece.checkpoints = job.checkpoints_of(from);
    return piece;
  }
};

}  // namespace headrace::codec::gpu::deflate
