#include "text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace headrace::cli {
namespace {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  // 0: invalid UTF-8
};

// The first code point of a non-empty text (RFC 3629).
CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xC2 && lead < 0xE0   ? 2
                            : lead >= 0xE0 && lead < 0xF0 ? 3
                            : lead >= 0xF0 && lead < 0xF5 ? 4
                                                          : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  char32_t value = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[bytes] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return {};
  return {value, bytes};
}

bool is_harmless(char32_t c) {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return false;                           // C0, DEL, C1
  if (c == 0x061C || c == 0x200E || c == 0x200F) return false;                     // direction marks
  if ((c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069)) return false;  // overrides, isolates
  return c != 0x2028 && c != 0x2029;                                               // line and paragraph separators
}

// Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours; no letter moves
// twice.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

constexpr std::size_t kLongestWord = 40;

}  // namespace

std::size_t utf8_length(std::string_view text) { return first_code_point(text).bytes; }

std::string comma_list(std::span<const std::string> words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.value == '\n' && point.bytes == 1) {
      out += ' ';
    } else if (point.bytes == 0 || !is_harmless(point.value)) {
      out += '?';
    } else {
      out += text.substr(0, point.bytes);
    }
    text.remove_prefix(std::max<std::size_t>(point.bytes, 1));
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::size_t terminal_columns(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

NearestWord::NearestWord(std::string_view word) : word_(word), least_(std::max<std::size_t>(1, word.size() / 3) + 1) {}

void NearestWord::consider(std::string_view candidate) {
  if (word_.size() > kLongestWord || candidate.size() > kLongestWord) return;
  if (const std::size_t distance = edit_distance(word_, candidate); distance < least_) {
    least_ = distance;
    best_ = candidate;
  }
}

std::string NearestWord::question(std::string_view dashes) const {
  return best_.empty() ? "" : ", did you mean '" + std::string(dashes) + best_ + "'?";
}

}  // namespace headrace::cli
