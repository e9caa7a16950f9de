// DataType: the type of an array element in memory, after decoding.
//
// Decoded elements are packed and little-endian, whatever the store holds. The fields of a structured type follow each
// other without padding.
#pragma once

#include <headrace/export.h>

#include <bit>
#include <complex>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace headrace {

enum class TypeKind : std::uint8_t {
  kBool,  // one byte, 0 or 1
  kInt,
  kUint,
  kFloat,  // IEEE 754 binary16, binary32, binary64
  kBfloat16,
  kComplex,    // real, imaginary
  kDatetime,   // int64 counts of `unit` since 1970-01-01; NaT is the smallest int64
  kTimedelta,  // int64 counts of `unit`
  kBytes,      // fixed-length byte string, zero padded (numpy S)
  kUnicode,    // fixed-length UTF-32 string (numpy U)
  kRaw,        // uninterpreted bytes (v3 r<N>, numpy V)
  kStruct,
  // Elements of varying length. Tensors cannot hold them; use Array::read_variable.
  kString,         // UTF-8
  kVariableBytes,  // byte strings
};

struct HEADRACE_API DataType {
  struct Field;
  // A run of equally wide numbers in an element. Byte order is swapped within each `width_bytes`.
  struct SwapRun {
    std::uint32_t width_bytes = 1;
    std::uint32_t count = 1;
    bool operator==(const SwapRun&) const = default;
  };

  TypeKind kind = TypeKind::kUint;
  std::uint32_t item_bytes = 1;    // > 0; 0 for variable-length elements
  std::string name;                // the Zarr v3 name if it is complete ("float32", "r24", "struct"), else numpy's
                                   // spelling ("|S5", "<U4", "<M8[10us]")
  std::string unit;                // datetime and timedelta: "s", "10ms", "generic"; otherwise empty
  std::vector<Field> fields;       // kStruct only
  std::vector<SwapRun> swap_runs;  // cover item_bytes exactly; all of width 1 if byte order is irrelevant
  // Zarr v2 structured types give each field its own byte order. If any field is big-endian, these runs tell decoding
  // what to do with a stored element: reverse the bytes within each width (runs of width 1 stay as they are). They
  // cover item_bytes exactly. Otherwise empty.
  std::vector<SwapRun> stored_swap_runs;

  // The swap width, if all numbers of the element have the same one; 0 if fields differ. 1 means there is
  // nothing to swap.
  std::uint32_t uniform_swap_width() const noexcept;
  // Whether elements are strings or byte strings of varying length.
  bool is_variable_length() const noexcept { return kind == TypeKind::kString || kind == TypeKind::kVariableBytes; }
};

struct DataType::Field {
  std::string name;
  DataType type;
  std::vector<std::uint64_t> shape;  // sub-array shape, empty for a scalar
  std::uint32_t offset_bytes = 0;
  bool big_endian = false;  // as stored; in v2 each field has its own byte order
};

// Whether elements of both types have the same layout after reading. Names and offsets of fields matter, the stored
// byte order does not.
HEADRACE_API bool same_elements(const DataType& a, const DataType& b) noexcept;

// A numeric type by its v3 name: "bool", "int8".."uint64", "float16".."float64", "bfloat16", "complex64", "complex128".
// The name in the result is empty if there is no such type.
HEADRACE_API DataType numeric_type(std::string_view v3_name);

// The v3 name of a C++ element type: bool, integers, float, double, and std::complex of the latter two. Empty for other
// types, including characters and std::byte.
template <class T>
constexpr std::string_view element_name() noexcept {
  constexpr std::string_view kIntegers[] = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"};
  if constexpr (std::is_same_v<T, bool>) {
    return "bool";
  } else if constexpr (std::is_same_v<T, float>) {
    return "float32";
  } else if constexpr (std::is_same_v<T, double>) {
    return "float64";
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return "complex64";
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return "complex128";
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
                       !std::is_same_v<T, char8_t> && !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>) {
    return sizeof(T) > 8 ? std::string_view()
                         : kIntegers[std::countr_zero(sizeof(T)) + (std::is_unsigned_v<T> ? 4 : 0)];
  } else {
    return {};
  }
}

}  // namespace headrace
