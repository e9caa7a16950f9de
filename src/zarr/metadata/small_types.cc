#include "zarr/metadata/small_types.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "zarr/metadata/metadata.h"
#include "zarr/metadata/metadata_text.h"

namespace headrace::zarr {
namespace {

using base::Json;

enum class Special : std::uint8_t {
  kIeee,  // infinities and NaN use the highest exponent
  kNone,  // every code is a number
  kFn,    // no infinity; NaN has all bits of exponent and mantissa set
  kFnuz,  // no infinity, no negative zero; the code of -0 is NaN
  kE8m0,  // a power of two, no sign, no zero; NaN has all bits set
};

struct SmallFloat {
  std::string_view name;
  int exponent_bits, mantissa_bits, bias;
  Special special;
  int bits() const { return 1 + exponent_bits + mantissa_bits - (special == Special::kE8m0 ? 1 : 0); }
};
constexpr std::array<SmallFloat, 11> kFloats = {{
    {"float4_e2m1fn", 2, 1, 1, Special::kNone},
    {"float6_e2m3fn", 2, 3, 1, Special::kNone},
    {"float6_e3m2fn", 3, 2, 3, Special::kNone},
    {"float8_e3m4", 3, 4, 3, Special::kIeee},
    {"float8_e4m3", 4, 3, 7, Special::kIeee},
    {"float8_e4m3b11fnuz", 4, 3, 11, Special::kFnuz},
    {"float8_e4m3fn", 4, 3, 7, Special::kFn},
    {"float8_e4m3fnuz", 4, 3, 8, Special::kFnuz},
    {"float8_e5m2", 5, 2, 15, Special::kIeee},
    {"float8_e5m2fnuz", 5, 2, 16, Special::kFnuz},
    {"float8_e8m0fnu", 8, 0, 127, Special::kE8m0},
}};
struct SmallInteger {
  std::string_view name;
  int low, high;
};
constexpr std::array<SmallInteger, 4> kIntegers = {
    {{"int2", -2, 1}, {"int4", -8, 7}, {"uint2", 0, 3}, {"uint4", 0, 15}}};

constexpr std::string_view kComplex = "complex_";

const SmallFloat* find_float(std::string_view name) {
  for (const SmallFloat& row : kFloats) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const SmallInteger* find_integer(std::string_view name) {
  for (const SmallInteger& row : kIntegers) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// The value of a code. May return NaN or infinity.
double value_of(unsigned code, const SmallFloat& format) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (format.special == Special::kE8m0)
    return code == 0xFF ? kNan : std::ldexp(1.0, static_cast<int>(code) - format.bias);
  const unsigned mantissa_mask = (1u << format.mantissa_bits) - 1;
  const unsigned exponent_mask = (1u << format.exponent_bits) - 1;
  const unsigned mantissa = code & mantissa_mask, exponent = code >> format.mantissa_bits & exponent_mask;
  const bool negative = code >> (format.exponent_bits + format.mantissa_bits) != 0;
  if (format.special == Special::kIeee && exponent == exponent_mask) {
    return mantissa != 0 ? kNan : negative ? -HUGE_VAL : HUGE_VAL;
  }
  if (format.special == Special::kFn && exponent == exponent_mask && mantissa == mantissa_mask) return kNan;
  if (format.special == Special::kFnuz && negative && exponent == 0 && mantissa == 0) return kNan;
  const double fraction = std::ldexp(mantissa, -format.mantissa_bits);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - format.bias)
                                         : std::ldexp(1 + fraction, static_cast<int>(exponent) - format.bias);
  return negative ? -magnitude : magnitude;
}

// The nearest code, ties to even. nullopt if the value exceeds the largest number by half a step or more.
std::optional<unsigned> nearest_code(double value, const SmallFloat& format) {
  std::optional<unsigned> best;
  double distance = 0, largest = 0, below_largest = 0;
  for (unsigned code = 0; code < 1u << format.bits(); ++code) {
    const double at = value_of(code, format);
    if (!std::isfinite(at)) continue;
    if (at > largest) {
      below_largest = largest;
      largest = at;
    }
    const double away = std::abs(value - at);
    const bool same_sign = std::signbit(at) == std::signbit(value);
    // Two codes for zero: take the one with the value's sign. Two equally near neighbours: take the even one.
    const bool better =
        !best || away < distance || (away == distance && (at == value_of(*best, format) ? same_sign : (code & 1) == 0));
    if (better) {
      best = code;
      distance = away;
    }
  }
  if (std::abs(value) >= largest + (largest - below_largest) / 2) return std::nullopt;
  return best;
}

std::optional<unsigned> named_code(std::string_view text, const SmallFloat& format) {
  const unsigned sign = 1u << (format.exponent_bits + format.mantissa_bits);
  if (text == "NaN") {
    switch (format.special) {
      case Special::kIeee:  // positive, the top bit of the mantissa set
        return sign - (1u << format.mantissa_bits) + (1u << (format.mantissa_bits - 1));
      case Special::kFn:
        return sign - 1;
      case Special::kFnuz:
        return sign;
      case Special::kE8m0:
        return 0xFF;
      case Special::kNone:
        return std::nullopt;
    }
  }
  if (format.special == Special::kIeee && (text == "Infinity" || text == "-Infinity")) {
    return sign - (1u << format.mantissa_bits) + (text[0] == '-' ? sign : 0);
  }
  if (text.size() != 4 || text.substr(0, 2) != "0x") return std::nullopt;
  unsigned code = 0;
  for (char c : text.substr(2)) {
    const std::size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    code = code << 4 | static_cast<unsigned>(digit < 16 ? digit : digit - 6);
  }
  if (code >= 1u << format.bits()) return std::nullopt;
  return code;
}

Result<std::byte> float_fill(const Json& value, const SmallFloat& format) {
  std::optional<unsigned> code;
  if (value.is_number()) {
    code = nearest_code(value.get<double>(), format);
  } else if (value.is_string()) {
    code = named_code(value.get_ref<const std::string&>(), format);
  }
  if (!code) {
    return wrong_value("fill_value",
                       "a number within the range of " + std::string(format.name) +
                           ", one of its own \"NaN\", \"Infinity\" and \"-Infinity\", or \"0x\" and two digits",
                       value);
  }
  return static_cast<std::byte>(*code);
}

}  // namespace

bool is_small_type(std::string_view name) noexcept {
  if (find_integer(name) != nullptr || find_float(name) != nullptr) return true;
  if (name.substr(0, kComplex.size()) != kComplex) return false;
  const std::string_view part = name.substr(kComplex.size());
  return part == "float16" || part == "bfloat16" || find_float(part) != nullptr;
}

DataType small_type(std::string_view name) {
  DataType type;
  type.kind = TypeKind::kRaw;
  if (!is_small_type(name)) return type;
  type.name = name;
  const bool complex = name.substr(0, kComplex.size()) == kComplex;
  const std::uint32_t width = complex && find_float(name.substr(kComplex.size())) == nullptr ? 2 : 1;
  type.item_bytes = complex ? 2 * width : 1;
  type.swap_runs = {{width, complex ? 2u : 1u}};
  return type;
}

Result<std::vector<std::byte>> small_type_fill(const Json& value, std::string_view name) {
  std::vector<std::byte> out;
  if (const SmallInteger* format = find_integer(name)) {
    if (value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= 15)) {
      const auto number = value.get<std::int64_t>();
      if (number >= format->low && number <= format->high) {
        out.push_back(static_cast<std::byte>(number & 0xFF));  // sign-extended to eight bits
        return out;
      }
    }
    return wrong_value("fill_value",
                       "an integer from " + std::to_string(format->low) + " to " + std::to_string(format->high), value);
  }
  if (const SmallFloat* format = find_float(name)) {
    HEADRACE_TRY_ASSIGN(const std::byte code, float_fill(value, *format));
    out.push_back(code);
    return out;
  }
  const std::string_view part = name.substr(kComplex.size());
  if (!value.is_array() || value.size() != 2)
    return wrong_value("fill_value", "a list of real and imaginary part", value);
  for (const Json& item : value) {
    if (const SmallFloat* format = find_float(part)) {
      HEADRACE_TRY_ASSIGN(const std::byte code, float_fill(item, *format));
      out.push_back(code);
    } else {
      HEADRACE_TRY_ASSIGN(const auto bytes, parse_v3_fill(item, numeric_type(part)));
      out.insert(out.end(), bytes.begin(), bytes.end());
    }
  }
  return out;
}

}  // namespace headrace::zarr
