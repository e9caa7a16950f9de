// Raw LZ4 blocks decoded on the GPU, for every codec that contains them: numcodecs' lz4 and Blosc.
//
// A batch is a list of streams in device memory, built there or on the host. The host needs to know only an upper bound
// on the number of streams. Three decoders share the work. Small streams: one thread block each, in shared memory. Few,
// large streams: by tiles, the whole device on each stream. The rest: in order, a warp or a part of one per stream.
//
// Safety: all stream bytes are untrusted. A damaged stream lowers its chunk's outcome and writes nothing outside its
// dst.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/gpu_stage.h"

namespace headrace::device::gpu {
class Launcher;
}

namespace headrace::codec::gpu {

enum class Lz4Kind : std::uint32_t {
  kBlock,   // an LZ4 block that decodes to exactly dst_bytes
  kBegun,   // a partly decoded block: the in-order decoder continues it
  kStored,  // src_bytes == dst_bytes, to be copied
  kNone,    // nothing to do
};

struct Lz4Stream {
  const unsigned char* src;
  unsigned char* dst;
  std::uint32_t src_bytes, dst_bytes;
  std::uint32_t chunk;  // index into outcomes; a chunk that is already bad is skipped
  Lz4Kind kind;
  std::uint32_t src_done = 0, dst_done = 0;  // of kBegun: position of the next token, and bytes already in dst
};
static_assert(sizeof(Lz4Stream) == 40);

struct Lz4Limits {
  std::uint32_t streams = 0;                   // upper bound
  std::uint32_t min_streams = 0;               // lower bound that the host knows
  std::uint64_t src_bytes = 0, dst_bytes = 0;  // upper bounds, of all streams together
  std::uint64_t largest_src_bytes = 0, largest_dst_bytes = 0;
  std::uint64_t min_dst_bytes = 0;  // lower bound per stream that the host knows
};

struct Lz4Job {
  Lz4Stream* streams = nullptr;          // device memory, any alignment of src and dst; kinds are modified
  const std::uint32_t* count = nullptr;  // device memory; at most limits.streams
  std::uint32_t* ticket = nullptr;       // device memory, zeroed: used by enqueue_lz4_small()
  Lz4Limits limits;
  std::uint64_t* outcomes = nullptr;  // device memory, by chunk
  unsigned stage = 0;
  std::byte* scratch = nullptr;  // device memory, aligned to 256 bytes
  std::uint64_t scratch_bytes = 0;
  int multiprocessors = 1;
  device::gpu::Branch branch;  // where large streams are decoded concurrently with small ones
};

// Decodes in order, without scratch. The device, which knows the number of streams, decides how many lanes of a warp
// work on a stream (8, 16 or 32), unless `lanes` is given.
int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::NativeStream stream, unsigned lanes) noexcept;
int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::NativeStream stream) noexcept;
int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::Launcher& launch, unsigned lanes = 0) noexcept;

// Decodes streams of at most kLz4Small decoded bytes, one thread block each, if the batch has at most kLz4SmallFew of
// them per multiprocessor; with few streams, one cluster of blocks each, on devices that have clusters. Streams that
// are decoded become kNone; those with anything unusual become kBegun. Needs no scratch. Does nothing if the device
// lacks the shared memory. `all`: set if only few streams remain, such as damaged ones.
inline constexpr std::uint32_t kLz4Small = 256u << 10, kLz4SmallFew = 8;
int enqueue_lz4_small(const Lz4Job& job, device::gpu::NativeStream stream, bool& all) noexcept;

// Queues the launches. Returns a cudaError_t.
int enqueue_lz4(const Lz4Job& job, device::gpu::NativeStream stream) noexcept;

}  // namespace headrace::codec::gpu
