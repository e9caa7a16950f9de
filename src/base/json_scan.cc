#include "base/json_scan.h"

#include <cmath>
#include <cstdlib>
#include <span>

#include "base/utf8.h"

namespace headrace::base {
namespace {

// An object with more keys than this keeps them in a hash set.
constexpr std::size_t kManyKeys = 24;
// Bytes per key in the set, and additionally for its text if it has escapes.
constexpr std::size_t kSetBytes = 64, kDecodedBytes = 48;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// REQUIRES: four hexadecimal digits.
std::uint32_t hex4(std::string_view text) noexcept {
  std::uint32_t value = 0;
  for (char c : text.substr(0, 4)) value = value << 4 | static_cast<std::uint32_t>(hex_digit(c));
  return value;
}

// Decodes the text between the quotes of a string that has been scanned.
std::string decode(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
      continue;
    }
    const char c = raw[++i];
    switch (c) {
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        std::uint32_t point = hex4(raw.substr(i + 1));
        i += 4;
        if (point >= 0xD800 && point < 0xDC00) {  // the scanner has validated the other half
          point = 0x10000 + ((point - 0xD800) << 10) + (hex4(raw.substr(i + 3)) - 0xDC00);
          i += 6;
        }
        append_utf8(point, out);
        break;
      }
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

JsonScanner::JsonScanner(std::string_view text, bool non_finite, const JsonLimits& limits, Charge* charge)
    : text_(text), non_finite_(non_finite), limits_(limits), charge_(charge) {
  if (text.size() > limits.max_bytes) {
    failure_ = Status(Code::kResourceExhausted, Layer::kBase,
                      "JSON document of " + std::to_string(text.size()) + " bytes is above the limit of " +
                          std::to_string(limits.max_bytes));
  } else if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    failure_ = Status(Code::kCorrupt, Layer::kBase, "JSON document starts with a byte order mark");
  }
}

bool JsonScanner::fail(std::string_view what) {
  std::size_t line = 1, column = 1;
  for (std::size_t i = 0; i < at_ && i < text_.size(); ++i) {
    ++column;
    if (text_[i] == '\n') {
      ++line;
      column = 1;
    }
  }
  failure_ = Status(Code::kCorrupt, Layer::kBase,
                    "not valid JSON: " + std::string(what) + " at line " + std::to_string(line) + ", column " +
                        std::to_string(column));
  return false;
}

void JsonScanner::skip_space() noexcept {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
    ++at_;
  }
}

bool JsonScanner::open(bool is_object) {
  if (levels_.size() >= static_cast<std::size_t>(limits_.max_depth)) {
    return fail("nested deeper than " + std::to_string(limits_.max_depth) + " levels");
  }
  ++at_;
  Level level;
  level.first_key = keys_.size();
  level.first_decoded = decoded_.size();
  level.is_object = is_object;
  levels_.push_back(std::move(level));
  return true;
}

void JsonScanner::close() {
  ++at_;
  if (const std::size_t charged = levels_.back().charged_bytes; charged != 0 && charge_ != nullptr) {
    charge_->shrink_to(charge_->bytes() - charged);
  }
  keys_.resize(levels_.back().first_key);
  decoded_.resize(levels_.back().first_decoded);
  levels_.pop_back();
}

bool JsonScanner::has_element(bool& more) {
  Level& level = levels_.back();
  skip_space();
  const char end = level.is_object ? '}' : ']';
  if (next_is(end)) {
    close();
    more = false;
    return true;
  }
  if (!level.empty) {
    if (!next_is(',')) return fail(level.is_object ? "',' or '}' is missing" : "',' or ']' is missing");
    ++at_;
    skip_space();
  }
  level.empty = false;
  more = true;
  return true;
}

bool JsonScanner::scan_utf8() {
  const std::size_t length = utf8_character_bytes(std::as_bytes(std::span(text_.substr(at_))));
  if (length == 0) return fail("a string is not UTF-8");
  at_ += length;
  return true;
}

bool JsonScanner::scan_escape() {
  const auto four_digits = [this](std::size_t at) {
    if (at + 4 > text_.size()) return false;
    for (std::size_t i = at; i < at + 4; ++i) {
      if (hex_digit(text_[i]) < 0) return false;
    }
    return true;
  };
  ++at_;  // the backslash
  if (at_ == text_.size()) return fail("a string has no end");
  const char c = text_[at_];
  if (std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos) {
    ++at_;
    return true;
  }
  if (c != 'u') return fail("unknown escape in a string");
  if (!four_digits(at_ + 1)) return fail("'\\u' needs four hexadecimal digits");
  const std::uint32_t point = hex4(text_.substr(at_ + 1));
  at_ += 5;
  if (point < 0xD800 || point > 0xDFFF) return true;
  if (point > 0xDBFF || text_.substr(at_, 2) != "\\u" || !four_digits(at_ + 2)) {
    return fail("half of a surrogate pair in a string");
  }
  const std::uint32_t second = hex4(text_.substr(at_ + 2));
  if (second < 0xDC00 || second > 0xDFFF) return fail("half of a surrogate pair in a string");
  at_ += 6;
  return true;
}

// Scans from the opening quote to just past the closing one.
bool JsonScanner::scan_string() {
  ++at_;
  for (;;) {
    // Fast path: most bytes are plain.
    while (at_ < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\') break;
      ++at_;
    }
    if (at_ == text_.size()) return fail("a string has no end");
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c == '"') {
      ++at_;
      return true;
    }
    if (c == '\\') {
      if (!scan_escape()) return false;
    } else if (c < 0x20) {
      return fail("control character in a string");
    } else if (!scan_utf8()) {
      return false;
    }
  }
}

bool JsonScanner::scan_word(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) return fail("unexpected text");
  at_ += word.size();
  return true;
}

bool JsonScanner::scan_number() {
  const std::size_t start = at_;
  if (next_is('-')) ++at_;
  if (non_finite_ && next_is('I')) return scan_word("Infinity");
  const auto digits = [this] {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > first;
  };
  if (next_is('0')) {
    ++at_;
  } else if (!digits()) {
    return fail("unexpected text");
  }
  bool exponent = false;
  if (next_is('.')) {
    ++at_;
    if (!digits()) return fail("a number has no digit after its point");
  }
  if (next_is('e') || next_is('E')) {
    exponent = true;
    ++at_;
    if (next_is('+') || next_is('-')) ++at_;
    if (!digits()) return fail("a number has no digit in its exponent");
  }
  if (exponent || at_ - start > 300) {
    const std::string number(text_.substr(start, at_ - start));
    if (!std::isfinite(std::strtod(number.c_str(), nullptr))) return fail("a number is too large");
  }
  return true;
}

bool JsonScanner::scan_scalar_or_open() {
  skip_space();
  if (at_ == text_.size()) return fail("unexpected end");
  switch (text_[at_]) {
    case '{':
      return open(true);
    case '[':
      return open(false);
    case '"':
      return scan_string();
    case 't':
      return scan_word("true");
    case 'f':
      return scan_word("false");
    case 'n':
      return scan_word("null");
    case 'N':
      if (non_finite_) return scan_word("NaN");
      return fail("unexpected text");
    case 'I':
      if (non_finite_) return scan_word("Infinity");
      return fail("unexpected text");
    default:
      return scan_number();
  }
}

bool JsonScanner::scan_key(std::string_view& key) {
  if (!next_is('"')) return fail("a key must be a string");
  const std::size_t start = at_;
  if (!scan_string()) return false;
  key = text_.substr(start + 1, at_ - start - 2);
  if (key.find('\\') != std::string_view::npos) key = decoded_.emplace_back(decode(key));
  Level& level = levels_.back();
  bool twice = false;
  if (level.many_keys) {
    const std::size_t bytes = kSetBytes + (key.data() == text_.data() + start + 1 ? 0 : kDecodedBytes + key.size());
    if (charge_ != nullptr) failure_ = charge_->take(bytes, "the keys of a large JSON object");
    if (!failure_.ok()) return false;
    level.charged_bytes += bytes;
    twice = !level.many_keys->insert(key).second;
  } else {
    for (std::size_t i = level.first_key; i < keys_.size() && !twice; ++i) twice = keys_[i] == key;
    keys_.push_back(key);
    if (keys_.size() - level.first_key > kManyKeys) {
      level.many_keys =
          std::make_unique<std::unordered_set<std::string_view>>(keys_.begin() + level.first_key, keys_.end());
    }
  }
  if (twice) return fail("a key appears twice");
  skip_space();
  if (!next_is(':')) return fail("':' is missing");
  ++at_;
  return true;
}

Result<bool> JsonScanner::enter_object() {
  HEADRACE_TRY(failure_);
  skip_space();
  if (!next_is('{')) return false;
  if (!open(true)) return failure_;
  return true;
}

Result<bool> JsonScanner::next_key(std::string_view& key) {
  HEADRACE_TRY(failure_);
  bool more = false;
  if (!has_element(more)) return failure_;
  if (more && !scan_key(key)) return failure_;
  return more;
}

Result<std::string_view> JsonScanner::skip_value() {
  HEADRACE_TRY(failure_);
  skip_space();
  const std::size_t start = at_, depth = levels_.size();
  if (!scan_scalar_or_open()) return failure_;
  while (levels_.size() > depth) {
    const bool in_object = levels_.back().is_object;
    bool more = false;
    if (!has_element(more)) return failure_;
    if (!more) continue;
    std::string_view key;
    if ((in_object && !scan_key(key)) || !scan_scalar_or_open()) return failure_;
  }
  return text_.substr(start, at_ - start);
}

Status JsonScanner::finish() {
  HEADRACE_TRY(failure_);
  skip_space();
  if (at_ != text_.size()) fail("text after the document");
  return failure_;
}

}  // namespace headrace::base
