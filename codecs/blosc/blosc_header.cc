#include "blosc_header.h"

#include <climits>

#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

constexpr unsigned kVersion = 2;       // of the container
constexpr unsigned kInnerVersion = 1;  // of the inner codec's format; the same for all five
constexpr unsigned kFlagShuffle = 0x01, kFlagStored = 0x02, kFlagBitShuffle = 0x04, kFlagReserved = 0x08,
                   kFlagNoSplit = 0x10;
constexpr unsigned kInnerShift = 5;
constexpr std::uint32_t kMaxBlockBytes = (INT_MAX - 255 * 4) / 3;  // BLOSC_MAX_BLOCKSIZE
constexpr std::uint32_t kStartBytes = 4;

}  // namespace

Status parse_blosc_header(std::span<const std::byte> container, BloscHeader& header) noexcept {
  return parse_blosc_table(container, container.size(), header);
}

Status parse_blosc_table(std::span<const std::byte> container, std::uint64_t bytes, BloscHeader& header) noexcept {
  if (container.size() < BloscHeader::kBytes) {
    return corrupt("blosc: container of %zu bytes is shorter than its header", container.size());
  }
  const unsigned version = std::to_integer<unsigned>(container[0]);
  const unsigned inner_version = std::to_integer<unsigned>(container[1]);
  const unsigned flags = std::to_integer<unsigned>(container[2]);
  header.item_bytes = std::to_integer<unsigned>(container[3]);
  header.decoded_bytes = blosc_u32(&container[4]);
  header.block_bytes = blosc_u32(&container[8]);
  const std::uint32_t container_bytes = blosc_u32(&container[12]);

  if (version > kVersion && version <= 5)
    return unsupported("blosc: container format %u is Blosc2, which is not supported", version);
  if (version != kVersion) return corrupt("blosc: container format %u, expected %u", version, kVersion);
  if (container_bytes != bytes) {
    return corrupt("blosc: header gives %u bytes, the container has %llu", container_bytes,
                   static_cast<unsigned long long>(bytes));
  }
  if ((flags & kFlagReserved) != 0) return corrupt("blosc: reserved flag is set (flags 0x%02x)", flags);
  if ((flags & kFlagShuffle) != 0 && (flags & kFlagBitShuffle) != 0) {
    return corrupt("blosc: both shuffles are set (flags 0x%02x)", flags);
  }
  if (header.item_bytes == 0) return corrupt("blosc: type size is 0");
  if (container_bytes > INT_MAX || header.decoded_bytes > INT_MAX - BloscHeader::kBytes) {
    return corrupt("blosc: sizes exceed the format's limits: %u bytes, %u decoded", container_bytes,
                   header.decoded_bytes);
  }
  header.stored = (flags & kFlagStored) != 0;
  header.may_split = (flags & kFlagNoSplit) == 0;
  header.filter = (flags & kFlagBitShuffle) != 0                         ? BloscHeader::Filter::kBitShuffle
                  : (flags & kFlagShuffle) != 0 && header.item_bytes > 1 ? BloscHeader::Filter::kShuffle
                                                                         : BloscHeader::Filter::kNone;
  header.block_count = 0;
  if (header.decoded_bytes == 0) {
    if (container_bytes != BloscHeader::kBytes) {
      return corrupt("blosc: %zu bytes follow the header of an empty container", container_bytes - BloscHeader::kBytes);
    }
    return {};
  }
  if (header.block_bytes == 0 || header.block_bytes > header.decoded_bytes || header.block_bytes > kMaxBlockBytes) {
    return corrupt("blosc: invalid block size %u for %u decoded bytes", header.block_bytes, header.decoded_bytes);
  }
  if (header.stored) {
    if (container_bytes != header.decoded_bytes + BloscHeader::kBytes) {
      return corrupt("blosc: stored container of %u bytes for %u decoded bytes", container_bytes, header.decoded_bytes);
    }
    return {};
  }
  const unsigned inner = flags >> kInnerShift;
  if (inner > static_cast<unsigned>(BloscHeader::Inner::kZstd))
    return unsupported("blosc: unsupported inner codec %u", inner);
  if (inner_version != kInnerVersion)
    return unsupported("blosc: unsupported format %u of inner codec %u", inner_version, inner);
  header.inner = static_cast<BloscHeader::Inner>(inner);
  header.block_count = (header.decoded_bytes - 1) / header.block_bytes + 1;
  const std::uint32_t body = container_bytes - static_cast<std::uint32_t>(BloscHeader::kBytes);
  if (header.block_count > body / kStartBytes) {
    return corrupt("blosc: container of %u bytes is too small for %u block starts", container_bytes,
                   header.block_count);
  }
  // Starts need not be in rising order: threads write blocks as they finish. Blocks may share bytes, which is harmless
  // here.
  const std::uint32_t first = static_cast<std::uint32_t>(BloscHeader::kBytes) + kStartBytes * header.block_count;
  if (container.size() < first) {
    return corrupt("blosc: %zu bytes are too few for a table of %u block starts", container.size(), header.block_count);
  }
  for (std::uint32_t i = 0; i < header.block_count; ++i) {
    const std::uint32_t start = blosc_u32(&container[BloscHeader::kBytes + kStartBytes * std::size_t{i}]);
    if (start < first || start > container_bytes || container_bytes - start < kStartBytes) {
      return corrupt("blosc: block %u starts at byte %u, outside the container of %u bytes", i, start, container_bytes);
    }
  }
  return {};
}

}  // namespace headrace::codec
