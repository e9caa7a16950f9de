#include "support/part_mutants.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "codecs/blosc/blosc_header.h"

namespace headrace::test {
namespace {

using codec::blosc_u32;
using codec::BloscHeader;

constexpr std::size_t kFlagsAt = 2, kItemBytesAt = 3, kDecodedAt = 4, kBlockAt = 8, kContainerAt = 12;

void put_u32(std::vector<std::byte>& stream, std::size_t at, std::uint32_t value) {
  if (at + 4 > stream.size()) return;
  for (unsigned i = 0; i < 4; ++i) stream[at + i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint32_t get_u32(const std::vector<std::byte>& stream, std::size_t at) {
  return at + 4 <= stream.size() ? blosc_u32(&stream[at]) : 0;
}

// A value near to or far from another, as damage and malice make them.
std::uint32_t changed(Draw& draw, std::uint32_t value, std::uint32_t end) {
  switch (draw.below(8)) {
    case 0:
      return value + 1;
    case 1:
      return value - 1;
    case 2:
      return end;
    case 3:
      return end - 4;
    case 4:
      return 0xFFFFFFFF;
    case 5:
      return 0x7FFFFFFF;
    case 6:
      return value ^ 1u << draw.below(32);
    default:
      return draw.below(end + 16);
  }
}

// Whether one of the blocks of a decoded range of a container that decodes extends into the block that follows them. No
// writer makes such containers, and a part ends where the next block starts. Does not look at the part, which may be
// too short.
bool blocks_overlap(std::span<const std::byte> container, std::uint64_t begin, std::uint64_t end) {
  BloscHeader header;
  if (!codec::parse_blosc_header(container, header).ok() || header.stored) return false;
  const auto start = [&](std::uint64_t block) {
    return blosc_u32(&container[BloscHeader::kBytes + std::size_t{4} * block]);
  };
  const std::uint64_t first = begin / header.block_bytes, last = (end - 1) / header.block_bytes;
  std::uint64_t highest = 0, end_of_blocks = 0, next = container.size();
  for (std::uint64_t i = first; i <= last; ++i) {
    const std::uint32_t decoded_at = static_cast<std::uint32_t>(i) * header.block_bytes;
    std::uint64_t at = start(i);
    highest = std::max(highest, at);
    for (std::uint32_t k = header.splits(std::min(header.block_bytes, header.decoded_bytes - decoded_at)); k > 0; --k) {
      if (at + 4 > container.size()) return true;
      at += 4 + std::uint64_t{blosc_u32(&container[at])};
    }
    end_of_blocks = std::max(end_of_blocks, at);
  }
  for (std::uint32_t i = 0; i < header.block_count; ++i) {
    if (start(i) > highest) next = std::min<std::uint64_t>(next, start(i));
  }
  return end_of_blocks > next;
}

}  // namespace

PartMutants::PartMutants(const CorpusGroup& group) : group_(group) {
  for (const CorpusStream& stream : group.streams) {
    const auto* const from = reinterpret_cast<const unsigned char*>(stream.encoded.data());
    offset_.push_back(bytes_.size());
    length_.push_back(static_cast<std::uint32_t>(stream.encoded.size()));
    bytes_.insert(bytes_.end(), from, from + stream.encoded.size());
    longest_ = std::max(longest_, stream.encoded.size());
  }
}

std::string PartMutants::make(std::uint64_t seed, std::uint64_t index, PartMutant& out) const {
  const MutationSource source{bytes_.data(), offset_.data(), length_.data(),
                              static_cast<std::uint32_t>(length_.size())};
  MutationPlan plan = plan_mutation(source, seed, index);
  Draw draw{mix(seed ^ 0x9A37) ^ mix(index + 0x5EC7)};
  // Half of the mutants are damaged only in what their fields mean: damaged bytes rarely leave a table that can be cut.
  const bool meaning = !plan.untouched && draw.below(2) == 0;
  out.source = plan.base;
  out.untouched = plan.untouched;
  out.stream.resize(meaning ? length_[plan.base] : plan.bytes);
  for (std::uint32_t i = 0; i < out.stream.size(); ++i) {
    out.stream[i] = static_cast<std::byte>(meaning ? bytes_[offset_[plan.base] + i] : mutant_byte(source, plan, i));
  }
  if (meaning) damage_meaning(draw, out.stream);
  // A container with a wrong size of its own is refused at once.
  if (!out.untouched && draw.below(8) != 0)
    put_u32(out.stream, kContainerAt, static_cast<std::uint32_t>(out.stream.size()));
  choose_interval(draw, out);

  std::array<std::byte, codec::kMaxPartTableBytes> head;
  const std::size_t table_bytes = std::min(out.stream.size(), group_.cpu->part_table_bytes());
  out.part = {};
  // A table of its own, so that a sanitizer sees reads beyond it.
  const std::vector<std::byte> table(out.stream.begin(), out.stream.begin() + static_cast<std::ptrdiff_t>(table_bytes));
  out.is_cut = group_.cpu->cut(table, out.stream.size(), out.begin, out.end, head, out.part);
  out.container.clear();
  if (!out.is_cut) return {};
  const codec::StreamPart& part = out.part;
  if (out.begin >= out.end) return "an empty interval was cut";
  if (part.head_bytes > head.size() || part.head_bytes > part.begin) return "the part's head has no room before it";
  if (part.begin > out.stream.size() || part.bytes > out.stream.size() - part.begin)
    return "the part lies outside of its stream";
  if (part.decoded_begin > out.begin || part.decoded_bytes < out.end - part.decoded_begin)
    return "the part does not cover its interval";
  // The header may promise more than the metadata; codec::Chain::cut() then refuses the part.
  const std::uint64_t capacity = group_.stage.capacity_bytes;
  out.is_cut = out.end <= capacity && part.decoded_bytes <= capacity - part.decoded_begin;
  if (!out.is_cut) return {};
  out.container.assign(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(part.head_bytes));
  const auto body = out.stream.begin() + static_cast<std::ptrdiff_t>(part.begin);
  out.container.insert(out.container.end(), body, body + static_cast<std::ptrdiff_t>(part.bytes));
  return {};
}

void PartMutants::damage_meaning(Draw& draw, std::vector<std::byte>& stream) const {
  if (stream.size() < BloscHeader::kBytes) return;
  const auto size = static_cast<std::uint32_t>(stream.size());
  for (std::uint32_t edits = 1 + draw.below(3); edits > 0; --edits) {
    const std::uint32_t decoded = get_u32(stream, kDecodedAt), block = std::max(get_u32(stream, kBlockAt), 1u);
    const std::uint32_t blocks = std::max(1u, std::min((decoded + block - 1) / block, size / 4));
    const std::size_t one = BloscHeader::kBytes + std::size_t{4} * draw.below(blocks);
    const std::size_t other = BloscHeader::kBytes + std::size_t{4} * draw.below(blocks);
    const std::uint32_t start = get_u32(stream, one);
    switch (draw.below(10)) {
      case 0:  // blocks in another order
        put_u32(stream, one, get_u32(stream, other));
        put_u32(stream, other, start);
        break;
      case 1:  // two blocks at one place
        put_u32(stream, one, get_u32(stream, other));
        break;
      case 2:  // a block within another
        put_u32(stream, one, get_u32(stream, other) + draw.below(64));
        break;
      case 3:
        put_u32(stream, one, changed(draw, start, size));
        break;
      case 4:  // into the table
        put_u32(stream, one, draw.below(static_cast<std::uint32_t>(BloscHeader::kBytes) + 4 * blocks));
        break;
      case 5:  // the size of a block's first stream
        put_u32(stream, start, changed(draw, get_u32(stream, start), size));
        break;
      case 6: {  // the block size, and with it the number of blocks
        const std::uint32_t sizes[] = {block * 2, block / 2, block + 1, block - 1, decoded, 1};
        put_u32(stream, kBlockAt, sizes[draw.below(6)]);
        break;
      }
      case 7:  // the decoded size
        put_u32(stream, kDecodedAt, changed(draw, decoded, decoded));
        break;
      case 8:
        stream[kItemBytesAt] = static_cast<std::byte>(draw.below(20));
        break;
      default:
        stream[kFlagsAt] ^= static_cast<std::byte>(1u << draw.below(8));
        break;
    }
  }
}

void PartMutants::choose_interval(Draw& draw, PartMutant& mutant) const {
  const std::uint64_t decoded = std::max<std::uint64_t>(
      mutant.stream.size() >= BloscHeader::kBytes && draw.below(4) != 0 ? get_u32(mutant.stream, kDecodedAt)
                                                                        : group_.stage.capacity_bytes,
      1);
  const std::uint64_t block = std::max<std::uint64_t>(get_u32(mutant.stream, kBlockAt), 1);
  const std::uint64_t at = draw.next() % decoded, in_block = at / block * block;
  mutant.begin = at;
  switch (draw.below(10)) {
    case 0:
      mutant.begin = 0, mutant.end = decoded;
      break;
    case 1:
      mutant.end = at + 1;
      break;
    case 2:
      mutant.begin = in_block, mutant.end = in_block + block;
      break;
    case 3:
      mutant.begin = in_block + block - 1, mutant.end = in_block + block + 1;
      break;
    case 4:
      mutant.begin = decoded - 1, mutant.end = decoded;
      break;
    case 5:
      mutant.begin = decoded - 1 - (decoded - 1) % block, mutant.end = decoded;
      break;
    case 6: {
      const std::uint64_t ends[] = {at, 0, decoded + 1, ~std::uint64_t{0}, at + (std::uint64_t{1} << 32)};
      mutant.end = ends[draw.below(5)];
      if (draw.below(4) == 0) mutant.begin = ~std::uint64_t{0} - draw.below(3);
      break;
    }
    default:
      mutant.end = at + 1 + draw.next() % (decoded - at);
      break;
  }
}

PartMutants::Judge::Judge(const CorpusGroup& group) : group_(group), scratch_(group.cpu->make_scratch()) {}

// False: the CPU refuses it. `out` has the exact size.
bool PartMutants::Judge::decode(std::span<const std::byte> stream, std::vector<std::byte>& out) {
  codec::EncodedStream of{
      .src = stream.data(), .src_bytes = stream.size(), .dst = out.data(), .dst_capacity = out.size()};
  return group_.cpu->decode(of, scratch_.get()).ok() && of.dst_bytes == out.size();
}

std::string PartMutants::Judge::check(const PartMutant& mutant, device::DecodeOutcome outcome,
                                      std::span<const std::byte> bytes) {
  const codec::StreamPart& part = mutant.part;
  part_.resize(static_cast<std::size_t>(part.decoded_bytes));
  whole_.resize(group_.stage.capacity_bytes);
  const bool by_cpu = decode(mutant.container, part_);
  const bool whole = decode(mutant.stream, whole_);
  const auto expected =
      std::span(whole_).subspan(whole ? static_cast<std::size_t>(part.decoded_begin) : 0, whole ? part_.size() : 0);
  ++judged;
  decoded += by_cpu ? 1 : 0;
  of_valid += whole ? 1 : 0;
  if (whole && !by_cpu && !blocks_overlap(mutant.stream, part.decoded_begin, part.decoded_begin + part.decoded_bytes))
    return "the whole decodes, and the CPU refuses the part";
  if (whole && by_cpu && !std::ranges::equal(part_, expected)) return "the part has other bytes than the whole";
  if (outcome.word == 0) return "there is no outcome";
  if (outcome.ok()) {
    if (!by_cpu) return "it was decoded, and the CPU refuses it";
    if (bytes.size() != part_.size() || !std::ranges::equal(bytes, part_)) return "it was decoded to other bytes";
    return {};
  }
  // What the formats leave open, the CPU decides; an offset of 0 is accepted by liblz4 alone.
  const bool left = outcome.host_only() && group_.damaged_may_be_host_only;
  if (by_cpu && !left && outcome.reason() != device::DecodeReason::kOffset) {
    return std::string("it was refused, and the CPU decodes it: ") + decode_reason_text(outcome.reason()) + " at " +
           std::to_string(outcome.position());
  }
  return {};
}

}  // namespace headrace::test
