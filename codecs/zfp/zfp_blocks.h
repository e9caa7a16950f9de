// Decodes the blocks of a zfp stream one by one.
//
// libzfp reads words from its buffer without a bounds check. The bits of a block are bounded, whatever they contain.
// Padding the stream with that many bits, and checking the position after each block, keeps libzfp within the buffer: a
// truncated stream is detected after at most one block.
#pragma once

#include <zfp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/codec.h"

namespace headrace::codec {

// libzfp's types are int32, int64, float and double. Others are derived from these.
enum class ZfpNumber : std::uint8_t {
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat,
  kDouble
};

unsigned width_bytes(ZfpNumber number) noexcept;
zfp_type zfp_type_of(ZfpNumber number) noexcept;

// Fastest axis first; extents beyond the rank, which is 1 to 4, are 1.
struct ZfpShape {
  std::array<std::uint64_t, 4> extent = {1, 1, 1, 1};
  unsigned rank = 1;
};

// Whether a stream with these parameters may be decoded: no block may take more bits than the padding has.
bool zfp_parameters_bounded(const zfp_stream& zfp) noexcept;

// Upper bound on the bytes of a stream of such blocks, including a header, if padding extends no block beyond
// `min_block_bits`.
std::uint64_t zfp_most_bytes(const ZfpShape& shape, ZfpNumber number, std::uint64_t min_block_bits) noexcept;

struct ZfpScratch final : Scratch {
  ZfpScratch();
  ~ZfpScratch() override;
  ZfpScratch(const ZfpScratch&) = delete;
  ZfpScratch& operator=(const ZfpScratch&) = delete;

  // Copies the stream into a padded buffer and rewinds `zfp` to its beginning.
  void load(std::span<const std::byte> stream);

  zfp_stream* zfp = nullptr;
  zfp_field* field = nullptr;

 private:
  std::vector<std::uint64_t> words_;
  bitstream* bits_ = nullptr;
};

// Decodes from the position of `scratch.zfp` to the end, which must be that of the `stream_bytes` bytes. `out` receives
// the elements in C order.
Status decode_zfp_blocks(ZfpScratch& scratch, std::size_t stream_bytes, ZfpNumber number, const ZfpShape& shape,
                         std::byte* out);

}  // namespace headrace::codec
