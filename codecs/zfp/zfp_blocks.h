// Decodes the blocks of a zfp stream one by one.
//
// libzfp reads words from its buffer without asking where that ends. A block takes a bounded number of bits whatever
// they are, so a buffer with that many more behind the stream, and a look at the position after each block, keep it
// within the buffer: a stream that is cut off is seen after at most one block.
#pragma once

#include <zfp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/codec.h"

namespace headrace::codec {

// As libzfp has them: int32, int64, float, double. Others are made from these.
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

// Fastest axis first, 1 beyond the rank, which is 1 to 4.
struct ZfpShape {
  std::array<std::uint64_t, 4> extent = {1, 1, 1, 1};
  unsigned rank = 1;
};

// Parameters of a stream that may be decoded: no block takes more bits than the padding has.
bool zfp_parameters_bounded(const zfp_stream& zfp) noexcept;

// The most bytes that a stream of such blocks has, with a header, if none is padded to more than `least_block_bits`.
std::uint64_t zfp_most_bytes(const ZfpShape& shape, ZfpNumber number, std::uint64_t least_block_bits) noexcept;

struct ZfpScratch final : Scratch {
  ZfpScratch();
  ~ZfpScratch() override;
  ZfpScratch(const ZfpScratch&) = delete;
  ZfpScratch& operator=(const ZfpScratch&) = delete;

  // Copies the stream to where it is padded and has `zfp` read it from its beginning.
  void load(std::span<const std::byte> stream);

  zfp_stream* zfp = nullptr;
  zfp_field* field = nullptr;

 private:
  std::vector<std::uint64_t> words_;
  bitstream* bits_ = nullptr;
};

// From where `scratch.zfp` stands to the end, which has to be that of the `stream_bytes` bytes; out holds the elements
// in C order.
Status decode_zfp_blocks(ZfpScratch& scratch, std::size_t stream_bytes, ZfpNumber number, const ZfpShape& shape,
                         std::byte* out);

}  // namespace headrace::codec
