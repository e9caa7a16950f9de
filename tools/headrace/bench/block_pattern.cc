#include "block_pattern.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace headrace::bench {
namespace {

constexpr std::size_t kMaxPatternBytes = 512;

Status wrong(std::string_view text) {
  return {Code::kInvalidArgument, Layer::kApi,
          "'" + std::string(text.substr(0, 80)) + "' is not a pattern such as 0xdeadbeef, 170, \"text\" or %o"};
}

// Removes one part from the front of `text`; false if it is malformed.
bool take_part(std::string_view& text, BlockPattern& out) {
  const auto take_digits = [&](const char* digits) {
    const std::string_view found = text.substr(0, std::min(text.find_first_not_of(digits), text.size()));
    text.remove_prefix(found.size());
    return found;
  };
  if (text.substr(0, 2) == "%o") {
    text.remove_prefix(2);
    out.offset_at.push_back(out.bytes.size());
    out.bytes.append(8, '\0');
    return true;
  }
  if (text.front() == '"') {
    const std::size_t end = text.find('"', 1);
    if (end == std::string_view::npos || end == 1) return false;
    out.bytes += text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    return true;
  }
  if (text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X") {
    text.remove_prefix(2);
    std::string digits(take_digits("0123456789abcdefABCDEF"));
    if (digits.empty()) return false;
    if (digits.size() % 2 == 1) digits.insert(0, 1, '0');
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      unsigned byte = 0;
      std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
      out.bytes.push_back(static_cast<char>(byte));
    }
    return true;
  }
  const std::string_view digits = take_digits("0123456789");
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc()) return false;
  do {
    out.bytes.push_back(static_cast<char>(number & 0xFF));
    number >>= 8;
  } while (number != 0);
  return true;
}

}  // namespace

Result<BlockPattern> parse_pattern(std::string_view text) {
  const std::string_view whole = text;
  BlockPattern out;
  if (text.empty()) return wrong(whole);
  while (!text.empty()) {
    if (!take_part(text, out)) return wrong(whole);
    if (out.bytes.size() > kMaxPatternBytes) {
      return Status(Code::kInvalidArgument, Layer::kApi, "a pattern has at most 512 bytes");
    }
  }
  return out;
}

void fill_with_pattern(std::span<std::byte> block, const BlockPattern& pattern, std::uint64_t offset) {
  const std::size_t period = pattern.bytes.size();
  const std::size_t first = std::min(period, block.size());
  std::memcpy(block.data(), pattern.bytes.data(), first);
  for (const std::size_t at : pattern.offset_at) {
    for (std::size_t i = 0; i < 8 && at + i < first; ++i) {
      block[at + i] = static_cast<std::byte>(offset >> (8 * i) & 0xFF);
    }
  }
  // Doubles the filled part, so that long blocks need few copies.
  for (std::size_t done = first; done < block.size();) {
    const std::size_t next = std::min(done, block.size() - done);
    std::memcpy(block.data() + done, block.data(), next);
    done += next;
  }
}

}  // namespace headrace::bench
