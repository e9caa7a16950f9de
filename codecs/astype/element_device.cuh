// Filters that decode each element by itself, on the GPU: astype, cast_value, quantize and the two scales.
//
// Included by element_stage.cu, and by tests that run it on the CPU. What is done to an element is src/codec's
// ElementOp, the same code on both processors. An element that cannot be decoded is left to the CPU, whose message
// names it.
#pragma once

#include <cstdint>

#include "codec/element_op.h"
#include "device/gpu_outcome.h"
#include "device/gpu_stage.h"

namespace headrace::codec::gpu {

constexpr unsigned kElementThreads = 256;
constexpr std::uint64_t kElementTile = 16 * kElementThreads;  // elements of a thread block

struct ElementJob {
  ElementOp op;
  bool exact = true;
  std::uint64_t capacity_bytes = 0;
  std::uint32_t chunks = 0;
  std::uint64_t tiles = 1;  // of the largest chunk
  device::gpu::Chunk* list = nullptr;
  std::uint64_t* outcomes = nullptr;
  unsigned stage = 0;
};

namespace elements {

__device__ inline void lower(std::uint64_t* outcome, std::uint64_t word) {
#if defined(__CUDA_ARCH__)
  atomicMin(reinterpret_cast<unsigned long long*>(outcome), static_cast<unsigned long long>(word));
#else
  if (word < *outcome) *outcome = word;
#endif
}

// How many elements a stream has, by the rules of ValueCodec. kNone if they are right.
__device__ inline device::DecodeReason count(std::uint64_t src_bytes, unsigned from, unsigned to,
                                             std::uint64_t capacity_bytes, bool exact, std::uint64_t& elements) {
  elements = src_bytes / from;
  if (src_bytes == 0) return device::DecodeReason::kTruncated;
  if (src_bytes % from != 0) return device::DecodeReason::kWrongSize;
  const bool holds =
      exact ? capacity_bytes % to == 0 && elements == capacity_bytes / to : elements <= capacity_bytes / to;
  return holds ? device::DecodeReason::kNone : device::DecodeReason::kWrongSize;
}

template <class Word>
__device__ inline Word swapped(Word word, bool swap) {
  if (!swap) return word;
  Word out = 0;
  for (unsigned i = 0; i < sizeof(Word); ++i) {
    out =
        static_cast<Word>(static_cast<std::uint64_t>(out) << 8 | (static_cast<std::uint64_t>(word) >> (8 * i) & 0xFF));
  }
  return out;
}

// `aligned`: the address is a multiple of the element's width.
__device__ inline std::uint64_t load(const unsigned char* at, Element element, bool aligned) {
  if (aligned) {
    switch (width_bytes(element.number)) {
      case 2:
        return swapped(*reinterpret_cast<const std::uint16_t*>(at), element.big_endian);
      case 4:
        return swapped(*reinterpret_cast<const std::uint32_t*>(at), element.big_endian);
      case 8:
        return swapped(*reinterpret_cast<const std::uint64_t*>(at), element.big_endian);
      default:
        return *at;
    }
  }
  return numbers::load_bits(at, element);
}
__device__ inline void store(unsigned char* at, Element element, bool aligned, std::uint64_t bits) {
  if (aligned) {
    switch (width_bytes(element.number)) {
      case 2:
        *reinterpret_cast<std::uint16_t*>(at) = swapped(static_cast<std::uint16_t>(bits), element.big_endian);
        return;
      case 4:
        *reinterpret_cast<std::uint32_t*>(at) = swapped(static_cast<std::uint32_t>(bits), element.big_endian);
        return;
      case 8:
        *reinterpret_cast<std::uint64_t*>(at) = swapped(bits, element.big_endian);
        return;
      default:
        *at = static_cast<unsigned char>(bits);
        return;
    }
  }
  numbers::store_bits(at, element, bits);
}
__device__ inline bool is_aligned(const void* at, unsigned width) {
  return reinterpret_cast<std::uintptr_t>(at) % width == 0;
}

}  // namespace elements

__device__ inline void elements_body(const ElementJob& job) {
  const unsigned from = width_bytes(job.op.stored.number), to = width_bytes(job.op.decoded.number);
  const std::uint64_t total = job.chunks * job.tiles;
  for (std::uint64_t item = blockIdx.x; item < total; item += gridDim.x) {
    const std::uint64_t chunk = item / job.tiles, tile = item % job.tiles;
    if (job.outcomes[chunk] != device::DecodeOutcome::kOk) continue;
    device::gpu::Chunk& stream = job.list[chunk];
    std::uint64_t count = 0;
    const device::DecodeReason reason =
        elements::count(stream.src_bytes, from, to, job.capacity_bytes, job.exact, count);
    if (reason != device::DecodeReason::kNone) {
      if (tile == 0 && threadIdx.x == 0) {
        elements::lower(&job.outcomes[chunk], device::gpu::pack_outcome(job.stage, 0, reason));
      }
      continue;
    }
    if (tile == 0 && threadIdx.x == 0) stream.dst_bytes = count * to;
    const bool load_words = elements::is_aligned(stream.src, from), store_words = elements::is_aligned(stream.dst, to);
    const std::uint64_t end = (tile + 1) * kElementTile < count ? (tile + 1) * kElementTile : count;
    for (std::uint64_t i = tile * kElementTile + threadIdx.x; i < end; i += kElementThreads) {
      const std::uint64_t bits = elements::load(stream.src + i * from, job.op.stored, load_words);
      std::uint64_t value = 0;
      if (apply(job.op, bits, value)) {
        elements::store(stream.dst + i * to, job.op.decoded, store_words, value);
      } else {
        elements::lower(&job.outcomes[chunk],
                        device::gpu::pack_outcome(job.stage, i * from, device::DecodeReason::kHostOnly));
      }
    }
  }
}

}  // namespace headrace::codec::gpu
