// Step of the zstd decoder that searches for blocks before the serial walk reaches them. Device code without a CUDA
// header.
//
// A block's header gives the position of the next one, so finding all blocks of a long stream is a chain of dependent
// loads. Streams are cut into parts. In each part, a thread block searches for the first position whose bytes look like
// a header that leads to three more. The blocks from there to the end of the part are the part's chain. `frames`, which
// walks from the stream's beginning by the same rules, skips a whole chain when it reaches its first block. If it never
// reaches it, the guess was wrong and only the search was wasted. A chain ends before a frame's last block.
#pragma once

#include "zstd_job_device.cuh"

namespace headrace::codec::gpu::zstd {

inline constexpr unsigned kBlockHeaderBytes = 3, kMagicBytes = 4, kChecksumBytes = 4;

// A block's header (3.1.1.2).
struct BlockHeader {
  __device__ explicit BlockHeader(const Byte* at) : BlockHeader(u24_at(at)) {}
  __device__ explicit BlockHeader(std::uint32_t word) {
    last = (word & 1) != 0;
    type = word >> 1 & 3;
    size = word >> 3;
    content_bytes = type == 1 ? 1 : size;
  }
  bool last;
  unsigned type;  // 0 raw, 1 RLE, 2 compressed, 3 reserved
  std::uint32_t size, content_bytes;
};

// Candidate header positions. Candidates that do not fit are ignored.
struct ChainSpace {
  static constexpr std::uint32_t kMax = 4096;
  std::uint32_t places[kMax];
  std::uint32_t count;
  std::uint32_t first;
};

__device__ inline std::uint32_t parts_of(const Job& job, const ZstdStream& stream) {
  return static_cast<std::uint32_t>((stream.src_bytes + job.part_bytes - 1) / job.part_bytes);
}
// Number of stream i's first part; kNone: its parts are not searched.
__device__ inline std::uint32_t first_part(const Job& job, std::uint32_t i) {
  if (job.chains == nullptr) return kNone;
  std::uint64_t before = 0;
  for (std::uint32_t k = 0; k < i; ++k) before += parts_of(job, job.streams[k]);
  return before + parts_of(job, job.streams[i]) <= job.max_parts ? static_cast<std::uint32_t>(before) : kNone;
}
__device__ inline std::uint32_t* links_of(const Job& job, std::uint32_t part) {
  return job.links + std::uint64_t{part} * kMaxLinks;
}

// Whether the bytes at `at` look like a header as encoders write it, followed by three more, or by fewer and the
// stream's end.
__device__ inline bool leads_on(const ZstdStream& stream, std::uint64_t at) {
  constexpr unsigned kHops = 3;
  for (unsigned hop = 0; hop <= kHops; ++hop) {
    if (at + kBlockHeaderBytes > stream.src_bytes) return false;
    const BlockHeader header(stream.src + at);
    if (header.type == 3 || header.size == 0 || header.size > kMaxBlockBytes) return false;
    at += kBlockHeaderBytes + header.content_bytes;
    if (header.last) return at == stream.src_bytes || at + kChecksumBytes == stream.src_bytes;
  }
  return true;
}

// Lists the positions in [from, to) that may be a header. `from` is not the stream's beginning.
__device__ inline void list_places(const ZstdStream& stream, std::uint64_t from, std::uint64_t to, ChainSpace& space) {
  constexpr std::uint32_t kMinBytes = 3;  // minimum size of a block that is searched for
  constexpr unsigned kWords = 4;          // per thread
  const Byte* const end = stream.src + stream.src_bytes;
  const auto off = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(stream.src + from) & 3);
  const Byte* const base = stream.src + from - off;
  for (std::uint64_t w = threadIdx.x * kWords; 4 * w < to - from + off; w += blockDim.x * kWords) {
    std::uint32_t words[kWords + 1];
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k <= kWords; ++k) words[k] = word_before(base + 4 * (w + k), end);
    HEADRACE_ZSTD_UNROLL for (unsigned k = 0; k < 4 * kWords; ++k) {
      const std::uint32_t word = __funnelshift_r(words[k / 4], words[k / 4 + 1], 8 * (k % 4)) & 0xFFFFFF;
      // Raw or compressed, and not the last: both low bits are 0.
      if ((word & 3) != 0 || (word >> 3) - kMinBytes > kMaxBlockBytes - kMinBytes) continue;
      const std::uint64_t at = from + 4 * w + k - off;
      if (4 * w + k < off || at >= to) continue;
      const std::uint32_t place = atomicAdd(&space.count, 1u);
      if (place < ChainSpace::kMax) space.places[place] = static_cast<std::uint32_t>(at);
    }
  }
}

// Follows the blocks from `at` on that begin before `end`.
__device__ inline void follow_chain(const ZstdStream& stream, std::uint64_t at, std::uint64_t end, HeaderChain& chain,
                                    std::uint32_t* links) {
  chain.first = static_cast<std::uint32_t>(at);
  std::uint32_t count = 0;
  while (at < end && count < kMaxLinks && stream.src_bytes - at >= kBlockHeaderBytes) {
    const BlockHeader header(stream.src + at);
    if (header.last || header.type == 3 || header.content_bytes > stream.src_bytes - at - kBlockHeaderBytes) break;
    links[count++] = static_cast<std::uint32_t>(at);
    at += kBlockHeaderBytes + header.content_bytes;
  }
  chain.next = static_cast<std::uint32_t>(at);
  chain.count = count;
}

// One thread block per part, by the first `walkers` thread blocks.
__device__ inline void chains_body(const Job& job, unsigned walkers, ChainSpace& space) {
  const std::uint32_t count = job.stream_count();
  std::uint32_t t = blockIdx.x, before = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const ZstdStream& stream = job.streams[i];
    const std::uint32_t parts = parts_of(job, stream);
    for (; t - before < parts && t < job.max_parts; t += walkers) {
      HeaderChain& chain = job.chains[t];
      const std::uint64_t begin = std::uint64_t{t - before} * job.part_bytes, behind = begin + job.part_bytes;
      const std::uint64_t from = begin > kMagicBytes ? begin : kMagicBytes;
      const std::uint64_t end = behind < stream.src_bytes ? behind : stream.src_bytes;
      // No block of normal size spans the whole interval, so a block header lies within it.
      const std::uint64_t to = from + kMaxBlockBytes + kBlockHeaderBytes;
      __syncthreads();
      if (threadIdx.x == 0) {
        space.first = kNone;
        space.count = 0;
      }
      __syncthreads();
      const bool there = from < end && end <= kMaxStreamBytes && stream.kind != ZstdKind::kNone;
      if (there && fine_for_block(job, stream.chunk)) list_places(stream, from, to < end ? to : end, space);
      __syncthreads();
      const std::uint32_t places = space.count < ChainSpace::kMax ? space.count : ChainSpace::kMax;
      for (std::uint32_t k = threadIdx.x; k < places; k += blockDim.x) {
        if (leads_on(stream, space.places[k])) atomicMin(&space.first, space.places[k]);
      }
      __syncthreads();
      if (threadIdx.x != 0) continue;
      chain = {};
      chain.raw_at = kNone;
      if (space.first != kNone) follow_chain(stream, space.first, end, chain, links_of(job, t));
    }
    before += parts;
  }
}

// Looks up the chain of the part that `frames` is in.
class ChainCursor {
 public:
  __device__ ChainCursor(const Job& job, std::uint32_t i) : job_(job), first_part_(first_part(job, i)) {}
  // The chain that begins at `at`, or null.
  __device__ HeaderChain* begins_at(std::uint64_t at) {
    if (first_part_ == kNone) return nullptr;
    const std::uint32_t part = first_part_ + static_cast<std::uint32_t>(at / job_.part_bytes);
    if (part != part_) {
      part_ = part;
      first_ = job_.chains[part].count != 0 ? job_.chains[part].first : kNone;
    }
    return at == first_ ? &job_.chains[part_] : nullptr;
  }

 private:
  const Job& job_;
  std::uint32_t first_part_, part_ = kNone, first_ = kNone;
};

// Lists the blocks in the chains that `frames` skipped.
__device__ inline void list_links(const Job& job) {
  if (job.chains == nullptr) return;
  const std::uint32_t count = job.stream_count();
  std::uint64_t parts = 0;
  for (std::uint32_t i = 0; i < count; ++i) parts += parts_of(job, job.streams[i]);
  if (parts > job.max_parts) parts = job.max_parts;
  const unsigned lane = lane_id(), warps = blockDim.x / 32;
  for (std::uint32_t t = threadIdx.x / 32; t < parts; t += warps) {
    const HeaderChain chain = job.chains[t];
    if (chain.raw_at == kNone) continue;
    for (std::uint32_t k = lane; k < chain.count; k += 32) {
      job.raw[chain.raw_at + k] = {links_of(job, t)[k], chain.frame_at};
    }
  }
}

}  // namespace headrace::codec::gpu::zstd
