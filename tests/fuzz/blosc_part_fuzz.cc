// Parts of Blosc containers: the container cut out for a range of decoded bytes must decode to those bytes of the
// whole, twice the same between unmapped pages. If the whole is damaged, the part either fails or avoids the damage,
// and then c-blosc decodes it to the same bytes.
//
// The first four bytes of an input choose the range. The rest is the container, whose size fields are corrected so that
// mutations get past the first check.
#include <blosc.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "codecs/blosc/blosc_header.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/support/codec_seed.h"
#include "tests/support/guard_buffer.h"

namespace {

using namespace headrace;
using codec::BloscHeader;
using test::CodecSeed;
using test::Flush;
using test::GuardArena;

constexpr std::size_t kMaxContainer = 1 << 17;

std::uint32_t half_at(std::span<const std::byte> input, std::size_t at) {
  return std::to_integer<std::uint32_t>(input[at]) | std::to_integer<std::uint32_t>(input[at + 1]) << 8;
}

// Decodes `container` into a buffer of exactly `bytes`; null if that fails.
const std::byte* decode(const codec::StreamCoder& codec, std::span<const std::byte> container, std::size_t bytes,
                        GuardArena& in, GuardArena& out, Flush flush, unsigned char fill) {
  static const auto scratch = codec.make_scratch();
  std::byte* const src = in.take(container.size(), flush, 0);
  std::copy(container.begin(), container.end(), src);
  codec::EncodedStream stream{
      .src = src, .src_bytes = container.size(), .dst = out.take(bytes, flush, fill), .dst_capacity = bytes};
  const Status status = codec.decode(stream, scratch.get());
  FUZZ_CHECK(in.intact() && out.intact());
  FUZZ_CHECK(std::equal(container.begin(), container.end(), src));
  if (status.ok()) {
    FUZZ_CHECK(stream.dst_bytes == bytes);
    return stream.dst;
  }
  FUZZ_CHECK(status.code() == Code::kCorrupt || status.code() == Code::kUnsupported);
  return nullptr;
}

// End of the block's streams, in a valid container.
std::uint64_t end_of_block(const BloscHeader& header, std::span<const std::byte> container, std::uint32_t index) {
  const std::uint32_t bytes = std::min(header.block_bytes, header.decoded_bytes - index * header.block_bytes);
  std::uint64_t at = codec::blosc_u32(&container[BloscHeader::kBytes + std::size_t{4} * index]);
  for (std::uint32_t i = 0; i < header.splits(bytes); ++i) at += 4 + codec::blosc_u32(&container[at]);
  return at;
}

// Whether a wanted block of a valid container extends into the block that follows the wanted ones. No writer makes such
// containers, and a part ends where the next block starts. Does not look at where the part ends, which may be too
// early.
bool overlaps(std::span<const std::byte> container, const codec::StreamPart& part) {
  BloscHeader header;
  FUZZ_CHECK(codec::parse_blosc_header(container, header).ok());
  if (header.stored) return false;
  const auto first = static_cast<std::uint32_t>(part.decoded_begin / header.block_bytes);
  const auto last = static_cast<std::uint32_t>((part.decoded_begin + part.decoded_bytes - 1) / header.block_bytes);
  const auto start = [&](std::uint32_t i) {
    return codec::blosc_u32(&container[BloscHeader::kBytes + std::size_t{4} * i]);
  };
  std::uint64_t highest = 0, end = 0, next = container.size();
  for (std::uint32_t i = first; i <= last; ++i) {
    highest = std::max<std::uint64_t>(highest, start(i));
    end = std::max(end, end_of_block(header, container, i));
  }
  for (std::uint32_t i = 0; i < header.block_count; ++i) {
    if (start(i) > highest) next = std::min<std::uint64_t>(next, start(i));
  }
  return end > next;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  if (size < CodecSeed::kHeaderBytes + BloscHeader::kBytes || size > kMaxContainer) return 0;
  std::vector<std::byte> container(input.begin() + CodecSeed::kHeaderBytes, input.end());
  const auto container_bytes = static_cast<std::uint32_t>(container.size());
  std::memcpy(&container[12], &container_bytes, 4);
  const std::uint32_t decoded_bytes = codec::blosc_u32(&container[4]) % CodecSeed::kMaxCapacity;
  std::memcpy(&container[4], &decoded_bytes, 4);
  const std::uint64_t begin = std::uint64_t{decoded_bytes} * half_at(input, 0) >> 16;
  // Squaring a number below 1 makes most ranges short.
  const std::uint64_t share = std::uint64_t{half_at(input, 2)} * half_at(input, 2) >> 16;
  const std::uint64_t end = begin + 1 + (((decoded_bytes - begin) * share) >> 16);

  static const auto made = codec::make_codec("numcodecs.blosc", base::Json::object(), {});
  FUZZ_CHECK(made.ok());
  const codec::StreamCoder& codec = *made->coder();
  std::byte head[codec::kMaxPartTableBytes];
  codec::StreamPart part;
  const auto table = std::span(container).first(std::min(container.size(), codec.part_table_bytes()));
  if (!codec.cut(table, container.size(), begin, end, head, part)) return 0;
  FUZZ_CHECK(end <= decoded_bytes);
  FUZZ_CHECK(part.head_bytes <= sizeof head && part.head_bytes <= part.begin);
  FUZZ_CHECK(part.begin <= container.size() && part.bytes <= container.size() - part.begin);
  FUZZ_CHECK(part.decoded_begin <= begin && part.decoded_begin + part.decoded_bytes >= end);
  FUZZ_CHECK(part.decoded_begin + part.decoded_bytes <= decoded_bytes);
  std::vector<std::byte> of_part(head, head + part.head_bytes);
  const auto rest = std::span(container).subspan(part.begin, part.bytes);
  of_part.insert(of_part.end(), rest.begin(), rest.end());

  static GuardArena in(kMaxContainer + sizeof head), out_whole(CodecSeed::kMaxCapacity),
      out_right(CodecSeed::kMaxCapacity), out_left(CodecSeed::kMaxCapacity);
  const std::byte* const whole = decode(codec, container, decoded_bytes, in, out_whole, Flush::kRight, 0x55);
  const std::byte* const right = decode(codec, of_part, part.decoded_bytes, in, out_right, Flush::kRight, 0x00);
  const std::byte* const left = decode(codec, of_part, part.decoded_bytes, in, out_left, Flush::kLeft, 0xFF);
  FUZZ_CHECK((right == nullptr) == (left == nullptr));
  if (right == nullptr) {
    FUZZ_CHECK(whole == nullptr || overlaps(container, part));
    return 0;
  }
  FUZZ_CHECK(std::equal(right, right + part.decoded_bytes, left));
  if (whole != nullptr) {
    FUZZ_CHECK(std::equal(right, right + part.decoded_bytes, whole + part.decoded_begin));
    return 0;
  }
  std::vector<std::byte> reference(part.decoded_bytes);
  const int got = blosc_decompress_ctx(of_part.data(), reference.data(), reference.size(), 1);
  // zlib refuses incomplete codes that libdeflate accepts; a checksum proves the bytes right.
  BloscHeader header;
  FUZZ_CHECK(codec::parse_blosc_header(of_part, header).ok());
  if (got < 0 && !header.stored && header.inner == BloscHeader::Inner::kZlib) return 0;
  FUZZ_CHECK(got >= 0 && static_cast<std::size_t>(got) == reference.size());
  FUZZ_CHECK(std::equal(reference.begin(), reference.end(), right));
  return 0;
}
