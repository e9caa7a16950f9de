#include "block_sizes.h"

#include <algorithm>
#include <numeric>

#include "bench_units.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kMaxParts = 64;

Result<std::uint64_t> parse_block(std::string_view text) {
  HEADRACE_TRY_ASSIGN(const std::uint64_t bytes, parse_size(text));
  if (bytes == 0) return invalid("a block has at least 1 byte");
  return bytes;
}

}  // namespace

Result<BlockSizes> BlockSizes::parse_size_or_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  HEADRACE_TRY_ASSIGN(const std::uint64_t smallest, parse_block(text.substr(0, dash)));
  BlockSizes sizes(smallest);
  if (dash == std::string_view::npos) return sizes;
  HEADRACE_TRY_ASSIGN(sizes.largest_, parse_block(text.substr(dash + 1)));
  if (sizes.largest_ < smallest) {
    return invalid("'" + std::string(text) + "' is a range that ends before it begins");
  }
  return sizes;
}

Result<BlockSizes> BlockSizes::parse_split(std::string_view text) {
  std::vector<Part> parts;
  unsigned given = 0, open = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    const std::size_t slash = part.find('/');
    const std::string_view share = slash == std::string_view::npos ? "" : part.substr(slash + 1);
    Part next;
    HEADRACE_TRY_ASSIGN(next.bytes, parse_block(part.substr(0, slash)));
    if (share.empty()) {
      next.up_to = UINT32_MAX;  // divides the rest
      ++open;
    } else {
      HEADRACE_TRY_ASSIGN(const std::uint64_t percent, parse_number(share));
      if (percent > 100 || (given += static_cast<unsigned>(percent)) > 100) {
        return invalid("the shares of '" + std::string(text.substr(0, 80)) + "' are more than 100 %");
      }
      next.up_to = static_cast<unsigned>(percent);
    }
    if (parts.size() == kMaxParts) return invalid("more than 64 sizes");
    parts.push_back(next);
    at = end + 1;
  }
  if (open == 0 && given != 100) {
    return invalid("the shares of '" + std::string(text.substr(0, 80)) + "' add up to " + std::to_string(given) +
                   " %, not 100");
  }
  unsigned left = 100 - given, sum = 0;
  for (Part& part : parts) {
    if (part.up_to == UINT32_MAX) {
      part.up_to = left / open;
      left -= part.up_to;
      --open;
    }
    part.up_to = sum += part.up_to;
  }
  std::erase_if(parts,
                [before = 0u](const Part& part) mutable { return part.up_to == std::exchange(before, part.up_to); });
  BlockSizes sizes(parts.front().bytes);
  for (const Part& part : parts) {
    sizes.smallest_ = std::min(sizes.smallest_, part.bytes);
    sizes.largest_ = std::max(sizes.largest_, part.bytes);
  }
  sizes.parts_ = std::move(parts);
  return sizes;
}

std::uint64_t BlockSizes::divisor(bool unaligned) const noexcept {
  if (parts_.empty()) return unaligned && !fixed() ? 1 : smallest_;
  std::uint64_t common = 0;
  for (const Part& part : parts_) common = std::gcd(common, part.bytes);
  return common;
}

std::uint64_t BlockSizes::pick(std::uint64_t random, bool unaligned) const noexcept {
  if (fixed()) return smallest_;
  if (!parts_.empty()) {
    const auto share = static_cast<unsigned>(static_cast<unsigned __int128>(random) * 100 >> 64);
    for (const Part& part : parts_) {
      if (share < part.up_to) return part.bytes;
    }
    return parts_.back().bytes;
  }
  const std::uint64_t step = unaligned ? 1 : smallest_, choices = (largest_ - smallest_) / step + 1;
  return smallest_ + static_cast<std::uint64_t>(static_cast<unsigned __int128>(random) * choices >> 64) * step;
}

std::string BlockSizes::text() const {
  return fixed() ? size_text(smallest_) : size_text(smallest_) + "-" + size_text(largest_);
}

}  // namespace headrace::bench
