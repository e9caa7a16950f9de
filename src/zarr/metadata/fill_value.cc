// Fill values of both formats, as the bytes of one decoded element.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <span>

#include "zarr/metadata/metadata.h"
#include "zarr/metadata/metadata_text.h"
#include "zarr/metadata/number_bits.h"
#include "zarr/metadata/small_types.h"

namespace headrace::zarr {
namespace {

using base::Json;
using Bytes = std::vector<std::byte>;

constexpr std::string_view kField = "fill_value";

Status wrong_fill(std::string_view allowed, const Json& value) { return wrong_value(kField, allowed, value); }

void append_little(Bytes& out, std::uint64_t bits, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(bits >> (8 * i) & 0xff));
}

// RFC 4648 with padding; other characters are not allowed.
std::optional<Bytes> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  Bytes out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::uint32_t digit = 0;
    if (c >= 'A' && c <= 'Z') {
      digit = static_cast<std::uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      digit = static_cast<std::uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint32_t>(c - '0') + 52;
    } else if (c == '+') {
      digit = 62;
    } else if (c == '/') {
      digit = 63;
    } else if (c != '=' || i < text.size() - padding) {
      return std::nullopt;
    }
    group = group << 6 | digit;
    if (i % 4 == 3) {
      for (int shift = 16; shift >= 0; shift -= 8) out.push_back(static_cast<std::byte>(group >> shift & 0xff));
      group = 0;
    }
  }
  out.resize(out.size() - padding);
  return out;
}

// Appends the code points of UTF-8 `text` as UTF-32, little-endian. False if it is not UTF-8 or holds more than
// `max_points`.
bool append_utf32(std::string_view text, std::size_t max_points, Bytes& out) {
  std::size_t points = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    std::size_t length = 1;
    std::uint32_t point = lead;
    if (lead >= 0xF0 && lead < 0xF8) {
      length = 4;
      point = lead & 0x07u;
    } else if (lead >= 0xE0 && lead < 0xF0) {
      length = 3;
      point = lead & 0x0Fu;
    } else if (lead >= 0xC0 && lead < 0xE0) {
      length = 2;
      point = lead & 0x1Fu;
    } else if (lead >= 0x80) {
      return false;
    }
    if (length > text.size() - i || ++points > max_points) return false;
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3Fu);
    }
    append_little(out, point, 4);
    i += length;
  }
  return true;
}

// An integer of `bytes` bytes as two's complement. Fails if it is out of range.
Result<std::uint64_t> integer_bits(const Json& value, bool is_signed, std::size_t bytes) {
  const int bits = static_cast<int>(bytes) * 8;
  const std::uint64_t high = std::numeric_limits<std::uint64_t>::max() >> (64 - bits + (is_signed ? 1 : 0));
  const std::int64_t low = is_signed ? std::numeric_limits<std::int64_t>::min() >> (64 - bits) : 0;
  std::string range =
      "an integer from " + std::to_string(low) + " to " + std::to_string(high) + " without fraction or exponent";
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number <= high) return number;
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (number >= low && (number < 0 || static_cast<std::uint64_t>(number) <= high)) {
      return static_cast<std::uint64_t>(number);
    }
  }
  return wrong_fill(range, value);
}

std::optional<std::uint64_t> hex_bits(std::string_view text, int bytes) {
  if (text.size() != static_cast<std::size_t>(2 + 2 * bytes) || text.substr(0, 2) != "0x") return std::nullopt;
  std::uint64_t bits = 0;
  for (char c : text.substr(2)) {
    std::uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint64_t>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<std::uint64_t>(c - 'A') + 10;
    } else {
      return std::nullopt;
    }
    bits = bits << 4 | digit;
  }
  return bits;
}

// The JSON parser has already rounded a decimal fraction to double; all known readers do the same.
Result<std::uint64_t> fill_float_bits(const Json& value, FloatFormat format, bool hex) {
  if (value.is_number_float()) return float_bits(value.get<double>(), format);
  if (value.is_number_unsigned()) return float_bits_of_integer(value.get<std::uint64_t>(), false, format);
  if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    const auto magnitude = number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
    return float_bits_of_integer(magnitude, number < 0, format);
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "NaN") return nan_bits(format);
    if (text == "Infinity" || text == "-Infinity") return infinity_bits(text[0] == '-', format);
    if (hex) {
      if (auto bits = hex_bits(text, format.bytes())) return *bits;
    }
  }
  std::string allowed = "a number, \"NaN\", \"Infinity\" or \"-Infinity\"";
  if (hex) allowed += ", or \"0x\" and " + std::to_string(2 * format.bytes()) + " hexadecimal digits";
  return wrong_fill(allowed, value);
}

FloatFormat float_format(TypeKind kind, std::uint32_t bytes) {
  if (kind == TypeKind::kBfloat16) return kBfloat16;
  return bytes == 2 ? kFloat16 : bytes == 4 ? kFloat32 : kFloat64;
}

// Values that both formats write alike: integers, floats, complex pairs, times.
Result<Bytes> number_fill(const Json& value, const DataType& dtype, bool v3) {
  Bytes out;
  switch (dtype.kind) {
    case TypeKind::kInt:
    case TypeKind::kUint: {
      HEADRACE_TRY_ASSIGN(const std::uint64_t bits,
                          integer_bits(value, dtype.kind == TypeKind::kInt, dtype.item_bytes));
      append_little(out, bits, dtype.item_bytes);
      return out;
    }
    case TypeKind::kFloat:
    case TypeKind::kBfloat16: {
      HEADRACE_TRY_ASSIGN(const std::uint64_t bits,
                          fill_float_bits(value, float_format(dtype.kind, dtype.item_bytes), v3));
      append_little(out, bits, dtype.item_bytes);
      return out;
    }
    case TypeKind::kComplex: {
      if (!value.is_array() || value.size() != 2) return wrong_fill("a list of real and imaginary part", value);
      for (const Json& part : value) {
        HEADRACE_TRY_ASSIGN(const std::uint64_t bits,
                            fill_float_bits(part, float_format(TypeKind::kFloat, dtype.item_bytes / 2), v3));
        append_little(out, bits, dtype.item_bytes / 2);
      }
      return out;
    }
    default: {  // kDatetime, kTimedelta
      if (value.is_string() && value.get_ref<const std::string&>() == "NaT") {
        append_little(out, std::uint64_t{1} << 63, 8);
        return out;
      }
      if (value.is_string()) return wrong_fill("an integer or \"NaT\"", value);
      HEADRACE_TRY_ASSIGN(const std::uint64_t bits, integer_bits(value, true, 8));
      append_little(out, bits, 8);
      return out;
    }
  }
}

// Base64 of `item_bytes` bytes. If `may_be_short`, fewer are allowed and padded with zeros.
Result<Bytes> base64_fill(const Json& value, std::uint32_t item_bytes, bool may_be_short, std::string_view allowed) {
  if (!value.is_string()) return wrong_fill(allowed, value);
  const auto& text = value.get_ref<const std::string&>();
  auto bytes = decode_base64(text);
  if (!bytes) return wrong_fill(allowed, value);
  if (bytes->size() > item_bytes || (bytes->size() < item_bytes && !may_be_short)) {
    return corrupt("fill_value has " + std::to_string(bytes->size()) + " bytes, but an element has " +
                   std::to_string(item_bytes));
  }
  bytes->resize(item_bytes);
  return std::move(*bytes);
}

Result<Bytes> unicode_fill(const Json& value, std::uint32_t item_bytes) {
  const std::string allowed = "a string of at most " + std::to_string(item_bytes / 4) + " code points";
  if (!value.is_string()) return wrong_fill(allowed, value);
  Bytes out;
  if (!append_utf32(value.get_ref<const std::string&>(), item_bytes / 4, out)) return wrong_fill(allowed, value);
  out.resize(item_bytes);
  return out;
}

Result<Bytes> byte_list_fill(const Json& value, std::uint32_t item_bytes) {
  if (value.size() != item_bytes) {
    return wrong_fill("a list of " + std::to_string(item_bytes) + " bytes, one per byte of an element", value);
  }
  Bytes out;
  out.reserve(item_bytes);
  for (const Json& item : value) {
    HEADRACE_TRY_ASSIGN(const std::uint64_t byte, read_integer(item, 0, 255, "each byte of fill_value"));
    out.push_back(static_cast<std::byte>(byte));
  }
  return out;
}

// An object with a value for every field.
Result<Bytes> object_fill(const Json& value, const DataType& dtype) {
  std::vector<std::string_view> names;
  Bytes out;
  for (const DataType::Field& field : dtype.fields) {
    names.push_back(field.name);
    HEADRACE_TRY_ASSIGN(const Json* item, required_member(value, field.name, kField));
    HEADRACE_TRY_ASSIGN(const Bytes bytes, parse_v3_fill(*item, field.type));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  if (value.size() != dtype.fields.size()) HEADRACE_TRY(refuse_other_members(value, names, kField));
  return out;
}

Result<Bytes> text_fill(const Json& value, std::string_view allowed) {
  if (!value.is_string()) return wrong_fill(allowed, value);
  const auto& text = value.get_ref<const std::string&>();  // valid UTF-8: the JSON parser checks it
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return Bytes(bytes.begin(), bytes.end());
}

// Base64 of any number of bytes, or a list of their values ("data-types/bytes").
Result<Bytes> variable_bytes_fill(const Json& value, bool may_be_list, std::string_view allowed) {
  if (may_be_list && value.is_array()) return byte_list_fill(value, static_cast<std::uint32_t>(value.size()));
  if (!value.is_string()) return wrong_fill(allowed, value);
  auto bytes = decode_base64(value.get_ref<const std::string&>());
  if (!bytes) return wrong_fill(allowed, value);
  return std::move(*bytes);
}

// Applies the size limit of a fixed-size element.
Result<Bytes> bounded(Result<Bytes> fill) {
  if (fill.ok() && fill->size() > kMaxItemBytes) return element_too_large(kField);
  return fill;
}

}  // namespace

Result<Bytes> parse_v2_fill(const Json& value, const DataType& dtype) {
  if (value.is_null()) return Bytes();
  const bool is_zero = value.is_number_integer() && value.get<std::int64_t>() == 0;
  switch (dtype.kind) {
    case TypeKind::kBool: {
      const bool is_one = value.is_number_integer() && value.get<std::int64_t>() == 1;
      if (!value.is_boolean() && !is_zero && !is_one) return wrong_fill("true, false, 0 or 1", value);
      return Bytes{static_cast<std::byte>(is_one || (value.is_boolean() && value.get<bool>()) ? 1 : 0)};
    }
    case TypeKind::kBytes:
      return base64_fill(value, dtype.item_bytes, true, "base64 text or null");
    case TypeKind::kUnicode:
      return unicode_fill(value, dtype.item_bytes);
    case TypeKind::kString:
      // zarr-python 2 writes 0 by default, and numcodecs encodes a 0 among strings as an empty one.
      if (is_zero) return Bytes();
      return bounded(text_fill(value, "a string, 0 or null"));
    case TypeKind::kVariableBytes:
      if (is_zero) return Bytes();
      return bounded(variable_bytes_fill(value, false, "base64 text, 0 or null"));
    case TypeKind::kRaw:
    case TypeKind::kStruct: {
      // Old writers use the number 0 for "all bytes zero".
      if (is_zero) return Bytes(dtype.item_bytes);
      auto bytes = base64_fill(value, dtype.item_bytes, false, "base64 text, 0 or null");
      if (bytes.ok()) swap_element(dtype.stored_swap_runs, *bytes);
      return bytes;
    }
    default:
      return number_fill(value, dtype, false);
  }
}

Result<Bytes> parse_v3_fill(const Json& value, const DataType& dtype) {
  switch (dtype.kind) {
    case TypeKind::kBool:
      if (!value.is_boolean()) return wrong_fill("true or false", value);
      return Bytes{static_cast<std::byte>(value.get<bool>() ? 1 : 0)};
    case TypeKind::kBytes:
      return base64_fill(value, dtype.item_bytes, true, "base64 text");
    case TypeKind::kUnicode:
      return unicode_fill(value, dtype.item_bytes);
    case TypeKind::kString:
      return bounded(text_fill(value, "a string"));
    case TypeKind::kVariableBytes:
      return bounded(variable_bytes_fill(value, true, "a list of bytes or base64 text"));
    case TypeKind::kRaw:
      if (is_small_type(dtype.name)) return small_type_fill(value, dtype.name);
      if (value.is_array()) return byte_list_fill(value, dtype.item_bytes);
      return base64_fill(value, dtype.item_bytes, false, "a list of bytes or base64 text");
    case TypeKind::kStruct:
      if (value.is_object()) return object_fill(value, dtype);
      return base64_fill(value, dtype.item_bytes, false, "an object with a value for every field, or base64 text");
    default:
      return number_fill(value, dtype, true);
  }
}

}  // namespace headrace::zarr
