#include "verify_block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "offset_generator.h"
#include "sha256.h"

namespace headrace::bench {
namespace {

constexpr std::uint64_t kMagic = 0x5946495245565248;  // "HRVERIFY"

struct Header {
  std::uint64_t magic = kMagic, offset = 0, seed = 0, sequence = 0;
  std::uint32_t length = 0, checksum = 0;
};
static_assert(sizeof(Header) == kVerifyHeaderBytes);

// The last byte identifies the checksum, so that a block with another checksum is not mistaken for a damaged one.
std::uint64_t magic_of(VerifySum sum) {
  constexpr std::pair<VerifySum, char> kLetters[] = {
      {VerifySum::kXxhash, 'X'}, {VerifySum::kMd5, 'M'},   {VerifySum::kSha256, 'S'}, {VerifySum::kCrc7, '7'},
      {VerifySum::kCrc16, '1'},  {VerifySum::kCrc32, '3'}, {VerifySum::kCrc64, '6'},  {VerifySum::kMeta, 'H'}};
  char letter = 'Y';
  for (const auto& [of, its] : kLetters) letter = of == sum ? its : letter;
  return (kMagic & ~(std::uint64_t{0xFF} << 56)) | static_cast<std::uint64_t>(letter) << 56;
}

void fill_payload(std::span<std::byte> payload, const Header& header, const VerifyFormat& format) {
  if (!format.pattern.empty()) return fill_with_pattern(payload, format.pattern, header.offset);
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

// Checksum of the whole block, with the checksum field as zero and the digest after the header left out.
struct Checksum {
  std::uint32_t short_sum = 0;
  std::array<std::byte, 64> digest{};
  bool operator==(const Checksum&) const = default;
};

Checksum checksum_of(Header header, std::span<const std::byte> payload, VerifySum sum) {
  header.checksum = 0;
  const auto head = std::as_bytes(std::span(&header, 1));
  Checksum out;
  const auto keep = [&out](const auto& digest) { std::memcpy(out.digest.data(), digest.data(), digest.size()); };
  switch (sum) {
    case VerifySum::kCrc7:
      out.short_sum = crc7(payload, crc7(head));
      break;
    case VerifySum::kCrc16:
      out.short_sum = crc16(payload, crc16(head));
      break;
    case VerifySum::kCrc32:
      out.short_sum = crc32(payload, crc32(head));
      break;
    case VerifySum::kCrc64:
      keep(std::bit_cast<std::array<std::byte, 8>>(crc64(payload, crc64(head))));
      break;
    case VerifySum::kXxhash: {
      const std::uint32_t both[2] = {xxh32(head), xxh32(payload)};
      out.short_sum = xxh32(std::as_bytes(std::span(both)));
      break;
    }
    case VerifySum::kMd5:
      keep(md5(head, payload));
      break;
    case VerifySum::kSha256: {
      cli::Sha256 hash;
      hash.update(head);
      hash.update(payload);
      keep(hash.digest());
      break;
    }
    case VerifySum::kMeta:
      out.short_sum = crc32c(head);
      break;
    default:
      out.short_sum = crc32c(payload, crc32c(head));
  }
  return out;
}

bool is_intact(const Header& header, std::span<const std::byte> block, VerifySum sum) {
  if (header.magic != magic_of(sum) || header.length != block.size()) return false;
  Checksum found;
  found.short_sum = header.checksum;
  const std::size_t digest = digest_bytes(sum);
  std::memcpy(found.digest.data(), block.data() + kVerifyHeaderBytes, digest);
  return found == checksum_of(header, block.subspan(kVerifyHeaderBytes + digest), sum);
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

void fill_verify_block(std::span<std::byte> block, std::uint64_t offset, const VerifyFormat& format,
                       std::uint64_t sequence) {
  if (format.sum == VerifySum::kPattern) return fill_with_pattern(block, format.pattern, offset);
  Header header;
  header.magic = magic_of(format.sum);
  header.offset = offset;
  header.seed = format.seed;
  header.sequence = sequence;
  header.length = static_cast<std::uint32_t>(block.size());
  const std::size_t digest = digest_bytes(format.sum);
  const std::span<std::byte> payload = block.subspan(kVerifyHeaderBytes + digest);
  fill_payload(payload, header, format);
  const Checksum sum = checksum_of(header, payload, format.sum);
  header.checksum = sum.short_sum;
  std::memcpy(block.data(), &header, sizeof(header));
  std::memcpy(block.data() + kVerifyHeaderBytes, sum.digest.data(), digest);
}

std::optional<std::uint64_t> verify_block_sequence(std::span<const std::byte> header, std::uint64_t offset,
                                                   const VerifyFormat& format) {
  if (header.size() < kVerifyHeaderBytes || format.sum == VerifySum::kPattern) return std::nullopt;
  const Header found = read_header(header);
  if (found.magic != magic_of(format.sum) || found.offset != offset || found.seed != format.seed) return std::nullopt;
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

std::optional<VerifyFault> VerifyChecker::compare_pattern(std::span<const std::byte> block, std::uint64_t offset) {
  const bool made = model_.size() == block.size() && format_.pattern.offset_at.empty();
  model_.resize(block.size());
  if (!made) fill_with_pattern(model_, format_.pattern, offset);
  if (std::memcmp(block.data(), model_.data(), block.size()) == 0) return std::nullopt;
  return compare(block, offset, 0, 0);
}

std::optional<VerifyFault> VerifyChecker::check(std::span<const std::byte> block, std::uint64_t offset,
                                                std::uint64_t sequence) {
  if (format_.sum == VerifySum::kPattern) return compare_pattern(block, offset);
  const Header found = read_header(block);
  const std::uint64_t expected = sequence != 0 ? sequence : newest_ != 0 ? newest_ : found.sequence;
  if (!is_intact(found, block, format_.sum)) return compare(block, offset, expected, found.sequence);
  VerifyFault fault;
  fault.offset_bytes = offset;
  fault.expected = place_text(offset, format_.seed, expected);
  fault.found = place_text(found.offset, found.seed, found.sequence);
  if (found.offset != offset || found.seed != format_.seed) {
    fault.kind = FaultKind::kMisplaced;
    return fault;
  }
  if (sequence == 0 && found.sequence > newest_) {
    const bool older_before = newest_ != 0;
    fault.kind = FaultKind::kStale;
    fault.expected = place_text(newest_offset_, format_.seed, found.sequence);
    fault.found = place_text(newest_offset_, format_.seed, newest_);
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

// The expected block can be regenerated. Since the header's sequence itself may be damaged, compares with the more
// likely of two sequences.
VerifyFault VerifyChecker::compare(std::span<const std::byte> block, std::uint64_t offset, std::uint64_t expected,
                                   std::uint64_t sequence) {
  VerifyFault fault;
  model_.resize(block.size());
  std::size_t least = block.size() + 1, first = 0;
  std::byte wanted{};
  for (const std::uint64_t candidate : {expected, sequence}) {
    fill_verify_block(model_, offset, format_, candidate);
    std::size_t differing = 0, first_here = 0;
    for (std::size_t i = block.size(); i-- > 0;) {
      if (block[i] != model_[i]) {
        ++differing;
        first_here = i;
      }
    }
    if (differing < least) {
      least = differing;
      first = first_here;
      wanted = model_[first_here];
    }
  }
  fault.offset_bytes = offset;
  if (least > block.size() / 2) {
    const bool zeros = std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
    const bool other_sum = block.size() >= kVerifyHeaderBytes && (read_header(block).magic << 8) == (kMagic << 8);
    fault.kind = FaultKind::kForeign;
    fault.expected = format_.sum == VerifySum::kPattern
                         ? "the pattern"
                         : "the block of offset " + std::to_string(offset) + ", seed " + std::to_string(format_.seed);
    fault.found = zeros       ? "only zeros"
                  : other_sum ? (read_header(block).magic == magic_of(format_.sum) ? "a damaged header"
                                                                                   : "a header of another verify=SUM")
                              : "no verify header";
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
