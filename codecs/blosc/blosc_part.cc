#include "blosc_part.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "blosc_header.h"

namespace headrace::codec {
namespace {

constexpr std::size_t kStartBytes = 4;
constexpr std::size_t kMaxBlocks = (kBloscPartTableBytes - BloscHeader::kBytes) / kStartBytes;
constexpr std::size_t kDecodedBytesAt = 4, kBlockBytesAt = 8, kContainerBytesAt = 12;

void put_u32(std::byte* at, std::uint64_t value) noexcept {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

// Cuts a stored container, whose decoded bytes follow the header.
bool cut_stored(const BloscHeader& header, std::uint64_t begin, std::uint64_t end, std::span<std::byte> head,
                StreamPart& part) noexcept {
  part = {BloscHeader::kBytes, BloscHeader::kBytes + begin, end - begin, begin, end - begin};
  put_u32(&head[kDecodedBytesAt], part.decoded_bytes);
  put_u32(&head[kBlockBytesAt], std::min<std::uint64_t>(header.block_bytes, part.decoded_bytes));
  put_u32(&head[kContainerBytesAt], part.head_bytes + part.bytes);
  return true;
}

}  // namespace

bool cut_blosc(std::span<const std::byte> table, std::uint64_t stream_bytes, std::uint64_t begin, std::uint64_t end,
               std::span<std::byte> head, StreamPart& part) noexcept {
  BloscHeader header;
  if (head.size() < BloscHeader::kBytes || !parse_blosc_table(table, stream_bytes, header).ok()) return false;
  if (begin >= end || end > header.decoded_bytes) return false;
  std::memcpy(head.data(), table.data(), BloscHeader::kBytes);
  if (header.stored) return cut_stored(header, begin, end, head, part);
  const std::uint32_t count = header.block_count;
  if (count < 2 || count > kMaxBlocks) return false;
  std::uint32_t first = static_cast<std::uint32_t>(begin / header.block_bytes);
  const std::uint32_t last = static_cast<std::uint32_t>((end - 1) / header.block_bytes);
  // A short block alone would be a container with one full block, which may be split; so the part includes the block
  // before.
  if (first == last && last + 1 == count && header.decoded_bytes % header.block_bytes != 0) --first;
  const std::uint32_t blocks = last - first + 1;
  part.head_bytes = BloscHeader::kBytes + kStartBytes * blocks;
  if (head.size() < part.head_bytes) return false;

  // A block ends at the next start in container order, which may differ from the chunk's order.
  std::array<std::uint32_t, kMaxBlocks> starts;
  for (std::uint32_t i = 0; i < count; ++i) starts[i] = blosc_u32(&table[BloscHeader::kBytes + kStartBytes * i]);
  std::uint32_t from = starts[first], highest = starts[first];
  for (std::uint32_t i = first; i <= last; ++i) {
    from = std::min(from, starts[i]);
    highest = std::max(highest, starts[i]);
  }
  std::uint64_t to = stream_bytes;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (starts[i] > highest) to = std::min<std::uint64_t>(to, starts[i]);
  }
  for (std::uint32_t i = 0; i < blocks; ++i) {
    put_u32(&head[BloscHeader::kBytes + kStartBytes * i], part.head_bytes + (starts[first + i] - from));
  }
  part.begin = from;
  part.bytes = to - from;
  part.decoded_begin = std::uint64_t{first} * header.block_bytes;
  part.decoded_bytes =
      std::min<std::uint64_t>(header.decoded_bytes, std::uint64_t{last + 1} * header.block_bytes) - part.decoded_begin;
  put_u32(&head[kDecodedBytesAt], part.decoded_bytes);
  put_u32(&head[kContainerBytesAt], part.head_bytes + part.bytes);
  return true;
}

}  // namespace headrace::codec
