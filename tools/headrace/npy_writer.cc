#include "npy_writer.h"

#include <algorithm>
#include <cstdio>

namespace headrace::cli {
namespace {

// A Python string literal.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\x%02x", static_cast<unsigned char>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string tuple(std::span<const std::uint64_t> shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + (shape.size() == 1 ? ",)" : ")");
}

std::string number(char order, char code, std::uint32_t count) {
  return std::string("'") + order + code + std::to_string(count) + "'";
}

std::string time_type(char code, const std::string& unit) {
  const std::string brackets = unit.empty() || unit == "generic" ? "" : "[" + unit + "]";
  return std::string("'<") + code + "8" + brackets + "'";
}

}  // namespace

std::string npy_descr(const DataType& dtype) {
  const std::uint32_t bytes = dtype.item_bytes;
  const char order = bytes == 1 ? '|' : '<';
  switch (dtype.kind) {
    case TypeKind::kBool:
      return "'|b1'";
    case TypeKind::kInt:
      return number(order, 'i', bytes);
    case TypeKind::kUint:
      return number(order, 'u', bytes);
    case TypeKind::kFloat:
      return number('<', 'f', bytes);
    case TypeKind::kBfloat16:
      return "'|V2'";
    case TypeKind::kComplex:
      return number('<', 'c', bytes);
    case TypeKind::kDatetime:
      return time_type('M', dtype.unit);
    case TypeKind::kTimedelta:
      return time_type('m', dtype.unit);
    case TypeKind::kBytes:
      return number('|', 'S', bytes);
    case TypeKind::kUnicode:
      return number('<', 'U', bytes / 4);
    case TypeKind::kRaw:
      return number('|', 'V', bytes);
    case TypeKind::kString:
    case TypeKind::kVariableBytes:
      return "'|O'";  // never written, because NumPy would expect pickles
    case TypeKind::kStruct:
      break;
  }
  std::string out = "[";
  for (const DataType::Field& field : dtype.fields) {
    if (out.size() > 1) out += ", ";
    out += "(" + quoted(field.name) + ", " + npy_descr(field.type);
    if (!field.shape.empty()) out += ", " + tuple(field.shape);
    out += ")";
  }
  return out + "]";
}

std::string npy_header(const DataType& dtype, std::span<const std::uint64_t> shape) {
  std::string header = "{'descr': " + npy_descr(dtype) + ", 'fortran_order': False, 'shape': " + tuple(shape) + ", }";
  const bool ascii = std::all_of(header.begin(), header.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
  int version = ascii ? 1 : 3;
  if (version == 1 && header.size() + 64 + 1 > 65535) version = 2;
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t before = 8 + length_bytes;
  header.append(63 - (before + header.size()) % 64, ' ');
  header += '\n';
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (std::size_t i = 0; i < length_bytes; ++i) out += static_cast<char>((header.size() >> (8 * i)) & 0xFF);
  return out + header;
}

}  // namespace headrace::cli
