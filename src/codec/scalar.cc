#include "codec/scalar.h"

#include <string>

#include "base/json.h"
#include "codec/element_filter.h"

namespace headrace::codec {
namespace {

std::optional<std::uint64_t> parse_hex(const std::string& text, Number type) {
  const std::size_t digits = 2 * width_bytes(type);
  if (text.size() != 2 + digits || !text.starts_with("0x")) return std::nullopt;
  std::uint64_t bits = 0;
  for (const char c : std::string_view(text).substr(2)) {
    const std::size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 4 | (digit < 16 ? digit : digit - 6);
  }
  return bits;
}

}  // namespace

std::optional<std::uint64_t> parse_scalar(const base::Json& value, Number type) {
  if (!is_float(type)) {
    if (!value.is_number_integer()) return std::nullopt;
    const std::uint64_t bits =
        value.is_number_unsigned() ? value.get<std::uint64_t>() : static_cast<std::uint64_t>(value.get<std::int64_t>());
    const bool is_signed = !value.is_number_unsigned();
    if (numbers::below(bits, is_signed, type) || numbers::above(bits, is_signed, type)) return std::nullopt;
    return numbers::low_bits(bits, type);
  }
  if (value.is_number_float()) {
    return numbers::convert(numbers::bits_of(value.get<double>()), Number::kFloat64, type);
  }
  if (value.is_number_unsigned()) return numbers::convert(value.get<std::uint64_t>(), Number::kUint64, type);
  if (value.is_number_integer()) {
    return numbers::convert(static_cast<std::uint64_t>(value.get<std::int64_t>()), Number::kInt64, type);
  }
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  if (text == "NaN") return numbers::quiet(numbers::infinity(type), type);
  if (text == "Infinity" || text == "+Infinity") return numbers::infinity(type);
  if (text == "-Infinity") return numbers::sign_bit(type) | numbers::infinity(type);
  return parse_hex(text, type);
}

}  // namespace headrace::codec
