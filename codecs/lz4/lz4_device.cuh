// Raw LZ4 blocks decoded on the GPU, for every codec that contains them: numcodecs' lz4 and Blosc.
//
// A batch is a list of streams in device memory, made there or on the host. The number of streams need not be known on
// the host, only a bound. Three decoders share the work: small streams, a thread block each, in shared memory; by
// tiles, all of the device for each stream, where there are few and large ones; in order, a warp a stream or less, what
// is left.
//
// Safety: every stream's bytes are hostile. A bad one lowers its chunk's outcome and writes nothing outside its dst.
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
  kBegun,   // one that was decoded in part: the decoder in order goes on from there
  kStored,  // src_bytes == dst_bytes, to be copied
  kNone,    // nothing to do
};

struct Lz4Stream {
  const unsigned char* src;
  unsigned char* dst;
  std::uint32_t src_bytes, dst_bytes;
  std::uint32_t chunk;  // index into outcomes; a chunk that is bad already is left alone
  Lz4Kind kind;
  std::uint32_t src_done = 0, dst_done = 0;  // of kBegun: where its next token is, and how much is in dst
};
static_assert(sizeof(Lz4Stream) == 40);

struct Lz4Limits {
  std::uint32_t streams = 0;                   // at most
  std::uint32_t least_streams = 0;             // at least, as far as the host knows
  std::uint64_t src_bytes = 0, dst_bytes = 0;  // of all streams together, at most
  std::uint64_t largest_src_bytes = 0, largest_dst_bytes = 0;
  std::uint64_t least_dst_bytes = 0;  // of one, as far as the host knows
};

struct Lz4Job {
  Lz4Stream* streams = nullptr;          // device memory, any alignment of src and dst; kinds are written to
  const std::uint32_t* count = nullptr;  // device memory; at most limits.streams
  std::uint32_t* ticket = nullptr;       // device memory, 0: of enqueue_lz4_small()
  Lz4Limits limits;
  std::uint64_t* outcomes = nullptr;  // device memory, by chunk
  unsigned stage = 0;
  std::byte* scratch = nullptr;  // device memory, aligned to 256 bytes
  std::uint64_t scratch_bytes = 0;
  int multiprocessors = 1;
  device::gpu::Branch branch;  // where large streams are decoded beside small ones
};

// In order, without scratch. How many lanes of a warp walk a stream (8, 16 or 32) is decided on the device, where the
// number of streams is known, unless `lanes` says it.
int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::NativeStream stream, unsigned lanes) noexcept;
int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::NativeStream stream) noexcept;
int enqueue_lz4_inorder(const Lz4Job& job, device::gpu::Launcher& launch, unsigned lanes = 0) noexcept;

// Streams of at most kLz4Small decoded bytes, each by a thread block, if the batch has no more than kLz4SmallFew a
// multiprocessor; of few, each by a cluster of blocks, where the device has clusters. Those that are decoded become
// kNone, those that are not plainly right kBegun. Without scratch. Does nothing where a block of the device cannot have
// the shared memory. `all`: only few streams are left, such as damaged ones.
inline constexpr std::uint32_t kLz4Small = 256u << 10, kLz4SmallFew = 8;
int enqueue_lz4_small(const Lz4Job& job, device::gpu::NativeStream stream, bool& all) noexcept;

// Queues the launches; a cudaError_t.
int enqueue_lz4(const Lz4Job& job, device::gpu::NativeStream stream) noexcept;

}  // namespace headrace::codec::gpu
