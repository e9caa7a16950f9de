#include "reference_template.h"

#include <algorithm>
#include <optional>

namespace headrace::store {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }

// An integer expression: sums of products of numbers, names and parentheses, with Python's // and %.
class Expression {
 public:
  Expression(std::string_view text, const TemplateNames& names) : text_(text), names_(names) {}

  Status evaluate(std::int64_t& value) {
    HEADRACE_TRY(sum(value, 0));
    skip_blanks();
    if (at_ != text_.size()) return unsupported();
    return {};
  }

 private:
  static constexpr int kMaxDepth = 32;

  Status unsupported() const {
    return Status(Code::kUnsupported, Layer::kStore,
                  "reference file: '{{" + std::string(text_.substr(0, 100)) +
                      "}}' needs more than names and whole-number arithmetic");
  }
  Status overflow() const {
    return Status(Code::kCorrupt, Layer::kStore,
                  "reference file: '{{" + std::string(text_.substr(0, 100)) + "}}' does not fit 64 bits");
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool accept(std::string_view sign) {
    skip_blanks();
    if (text_.substr(at_, sign.size()) != sign) return false;
    at_ += sign.size();
    return true;
  }

  Status sum(std::int64_t& value, int depth) {
    HEADRACE_TRY(product(value, depth));
    for (;;) {
      std::int64_t other = 0;
      if (accept("+")) {
        HEADRACE_TRY(product(other, depth));
        if (__builtin_add_overflow(value, other, &value)) return overflow();
      } else if (accept("-")) {
        HEADRACE_TRY(product(other, depth));
        if (__builtin_sub_overflow(value, other, &value)) return overflow();
      } else {
        return {};
      }
    }
  }

  Status product(std::int64_t& value, int depth) {
    HEADRACE_TRY(factor(value, depth));
    for (;;) {
      std::int64_t other = 0;
      if (accept("//")) {
        HEADRACE_TRY(factor(other, depth));
        HEADRACE_TRY(divide(value, other, value, other));
      } else if (accept("%")) {
        HEADRACE_TRY(factor(other, depth));
        std::int64_t quotient = 0;
        HEADRACE_TRY(divide(value, other, quotient, value));
      } else if (text_.substr(at_, 2) != "**" && accept("*")) {
        if (text_.substr(at_, 1) == "*") return unsupported();
        HEADRACE_TRY(factor(other, depth));
        if (__builtin_mul_overflow(value, other, &value)) return overflow();
      } else {
        return {};
      }
    }
  }

  // Rounds towards minus infinity, as Python does.
  Status divide(std::int64_t a, std::int64_t b, std::int64_t& quotient, std::int64_t& rest) const {
    if (b == 0 || (b == -1 && a == INT64_MIN)) return overflow();
    std::int64_t q = a / b, r = a % b;
    if (r != 0 && (r < 0) != (b < 0)) {
      --q;
      r += b;
    }
    quotient = q;
    rest = r;
    return {};
  }

  Status factor(std::int64_t& value, int depth) {
    if (depth > kMaxDepth) return unsupported();
    if (accept("-")) {
      HEADRACE_TRY(factor(value, depth + 1));
      return __builtin_sub_overflow(std::int64_t{0}, value, &value) ? overflow() : Status();
    }
    if (accept("(")) {
      HEADRACE_TRY(sum(value, depth + 1));
      return accept(")") ? Status() : unsupported();
    }
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return unsupported();
    if (std::all_of(word.begin(), word.end(), is_digit)) {
      value = 0;
      for (const char c : word) {
        if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
            __builtin_add_overflow(value, std::int64_t{c - '0'}, &value)) {
          return overflow();
        }
      }
      return {};
    }
    for (const auto& [name, number] : names_.numbers) {
      if (name == word) {
        value = number;
        return {};
      }
    }
    return unsupported();
  }

  const std::string_view text_;
  const TemplateNames& names_;
  std::size_t at_ = 0;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

Status expand_template(std::string_view text, const TemplateNames& names, std::size_t most_bytes, std::string& out) {
  const auto append = [&](std::string_view part) {
    if (out.size() <= most_bytes) out += part.substr(0, most_bytes + 1 - out.size());
  };
  for (std::size_t at = 0;;) {
    const std::size_t open = text.find("{{", at);
    append(text.substr(at, open == std::string_view::npos ? open : open - at));
    if (open == std::string_view::npos) return {};
    const std::size_t close = text.find("}}", open + 2);
    if (close == std::string_view::npos) {
      return Status(Code::kCorrupt, Layer::kStore,
                    "reference file: '{{' without '}}' in '" + std::string(text.substr(0, 100)) + "'");
    }
    const std::string_view inside = trimmed(text.substr(open + 2, close - open - 2));
    at = close + 2;
    const bool plain =
        !inside.empty() && !is_digit(inside.front()) && std::all_of(inside.begin(), inside.end(), is_name);
    if (plain) {
      if (const auto found = names.texts.find(std::string(inside)); found != names.texts.end()) {
        append(found->second);
        continue;
      }
      const bool number = std::any_of(names.numbers.begin(), names.numbers.end(),
                                      [&](const auto& item) { return item.first == inside; });
      if (!number) {
        return Status(Code::kCorrupt, Layer::kStore,
                      "reference file: no template is named '" + std::string(inside.substr(0, 100)) + "'");
      }
    }
    std::int64_t value = 0;
    HEADRACE_TRY(Expression(inside, names).evaluate(value));
    append(std::to_string(value));
  }
}

}  // namespace headrace::store
