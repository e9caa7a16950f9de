#include "verify_block.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "offset_generator.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace headrace::bench {
namespace {

constexpr std::uint64_t kMagic = 0x5946495245565248;  // "HRVERIFY"

struct Header {
  std::uint64_t magic = kMagic, offset = 0, seed = 0, sequence = 0;
  std::uint32_t length = 0, checksum = 0;
};
static_assert(sizeof(Header) == kVerifyHeaderBytes);

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

std::uint32_t crc_portable(std::uint32_t crc, const std::byte* data, std::size_t bytes) noexcept {
  for (; bytes > 0; ++data, --bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<std::uint32_t>(*data)) & 0xFF];
  }
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc_instruction(std::uint32_t crc, const std::byte* data,
                                                                std::size_t bytes) noexcept {
  std::uint64_t wide = crc;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  return crc_portable(static_cast<std::uint32_t>(wide), data, bytes);
}
#endif

void fill_pattern(std::span<std::byte> payload, const Header& header) {
  std::uint64_t state = mix64(header.seed ^ mix64(header.offset ^ mix64(header.sequence)));
  for (std::size_t at = 0; at < payload.size(); at += 8) {
    state += 0x9e3779b97f4a7c15u;
    const std::uint64_t word = (state ^ (state >> 29)) * 0xbf58476d1ce4e5b9u;
    std::memcpy(payload.data() + at, &word, std::min<std::size_t>(8, payload.size() - at));
  }
}

Header read_header(std::span<const std::byte> block) {
  Header header;
  std::memcpy(&header, block.data(), sizeof(header));
  return header;
}

// Over the whole block, the checksum itself counting as zero.
std::uint32_t checksum_of(Header header, std::span<const std::byte> payload) {
  header.checksum = 0;
  return crc32c(payload, crc32c(std::as_bytes(std::span(&header, 1))));
}

std::string place_text(std::uint64_t offset, std::uint64_t seed, std::uint64_t sequence) {
  return "offset " + std::to_string(offset) + ", seed " + std::to_string(seed) + ", sequence " +
         std::to_string(sequence);
}

std::string byte_text(std::byte value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto number = std::to_integer<unsigned>(value);
  return std::string("0x") + kDigits[number >> 4] + kDigits[number & 15];
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) noexcept {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("sse4.2") != 0;
  if (fast) return ~crc_instruction(~crc, bytes.data(), bytes.size());
#endif
  return ~crc_portable(~crc, bytes.data(), bytes.size());
}

void fill_verify_block(std::span<std::byte> block, std::uint64_t offset, std::uint64_t seed, std::uint64_t sequence) {
  Header header;
  header.offset = offset;
  header.seed = seed;
  header.sequence = sequence;
  header.length = static_cast<std::uint32_t>(block.size());
  const std::span<std::byte> payload = block.subspan(kVerifyHeaderBytes);
  fill_pattern(payload, header);
  header.checksum = checksum_of(header, payload);
  std::memcpy(block.data(), &header, sizeof(header));
}

std::optional<std::uint64_t> verify_block_sequence(std::span<const std::byte> header, std::uint64_t offset,
                                                   std::uint64_t seed) {
  if (header.size() < kVerifyHeaderBytes) return std::nullopt;
  const Header found = read_header(header);
  if (found.magic != kMagic || found.offset != offset || found.seed != seed) return std::nullopt;
  return found.sequence;
}

std::string_view fault_kind_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::kFlipped:
      return "flipped byte";
    case FaultKind::kMisplaced:
      return "misplaced block";
    case FaultKind::kStale:
      return "stale block";
    case FaultKind::kForeign:
      return "foreign block";
  }
  return "";
}

std::optional<VerifyFault> VerifyChecker::check(std::span<const std::byte> block, std::uint64_t offset,
                                                std::uint64_t sequence) {
  const Header found = read_header(block);
  const std::uint64_t expected = sequence != 0 ? sequence : newest_ != 0 ? newest_ : found.sequence;
  VerifyFault fault;
  fault.offset_bytes = offset;
  fault.expected = place_text(offset, seed_, expected);
  fault.found = place_text(found.offset, found.seed, found.sequence);
  const bool intact = found.magic == kMagic && found.length == block.size() &&
                      checksum_of(found, block.subspan(kVerifyHeaderBytes)) == found.checksum;
  if (intact) {
    if (found.offset != offset || found.seed != seed_) {
      fault.kind = FaultKind::kMisplaced;
      return fault;
    }
    if (sequence == 0 && found.sequence > newest_) {
      const bool older_before = newest_ != 0;
      fault.kind = FaultKind::kStale;
      fault.expected = place_text(newest_offset_, seed_, found.sequence);
      fault.found = place_text(newest_offset_, seed_, newest_);
      fault.offset_bytes = newest_offset_;
      newest_ = found.sequence;
      newest_offset_ = offset;
      if (older_before) return fault;
      return std::nullopt;
    }
    if (found.sequence == expected) return std::nullopt;
    fault.kind = FaultKind::kStale;
    return fault;
  }
  // Whatever the block should be can be made again: the header's own sequence may be the damage, so the likelier of the
  // two is compared with.
  std::vector<std::byte> model(block.size());
  std::size_t least = block.size() + 1, first = 0;
  std::byte wanted{};
  for (const std::uint64_t candidate : {expected, found.sequence}) {
    fill_verify_block(model, offset, seed_, candidate);
    std::size_t differing = 0, first_here = 0;
    for (std::size_t i = block.size(); i-- > 0;) {
      if (block[i] != model[i]) {
        ++differing;
        first_here = i;
      }
    }
    if (differing < least) {
      least = differing;
      first = first_here;
      wanted = model[first_here];
    }
  }
  if (least > block.size() / 2) {
    const bool zeros = std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
    fault.kind = FaultKind::kForeign;
    fault.expected = "the block of offset " + std::to_string(offset) + ", seed " + std::to_string(seed_);
    fault.found = zeros ? "only zeros" : found.magic == kMagic ? "a damaged header" : "no verify header";
    return fault;
  }
  fault.kind = FaultKind::kFlipped;
  fault.offset_bytes = offset + first;
  fault.expected = byte_text(wanted);
  fault.found =
      byte_text(block[first]) + (least == 1 ? "" : ", and " + std::to_string(least - 1) + " more bytes differ");
  return fault;
}

}  // namespace headrace::bench
