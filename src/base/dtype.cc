#include <headrace/dtype.h>

namespace headrace {

std::uint32_t DataType::uniform_swap_width() const noexcept {
  std::uint32_t width = 0;
  for (const SwapRun& run : swap_runs) {
    if (width != 0 && run.width_bytes != width) return 0;
    width = run.width_bytes;
  }
  return width == 0 ? 1 : width;
}

bool same_elements(const DataType& a, const DataType& b) noexcept {
  if (a.kind != b.kind || a.item_bytes != b.item_bytes || a.name != b.name || a.unit != b.unit ||
      a.fields.size() != b.fields.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    const DataType::Field &x = a.fields[i], &y = b.fields[i];
    if (x.name != y.name || x.shape != y.shape || x.offset_bytes != y.offset_bytes || !same_elements(x.type, y.type)) {
      return false;
    }
  }
  return true;
}

DataType numeric_type(std::string_view v3_name) {
  struct Row {
    std::string_view name;
    TypeKind kind;
    std::uint32_t item_bytes, swap_width;
  };
  static constexpr Row kRows[] = {
      {"bool", TypeKind::kBool, 1, 1},           {"int8", TypeKind::kInt, 1, 1},
      {"int16", TypeKind::kInt, 2, 2},           {"int32", TypeKind::kInt, 4, 4},
      {"int64", TypeKind::kInt, 8, 8},           {"uint8", TypeKind::kUint, 1, 1},
      {"uint16", TypeKind::kUint, 2, 2},         {"uint32", TypeKind::kUint, 4, 4},
      {"uint64", TypeKind::kUint, 8, 8},         {"float16", TypeKind::kFloat, 2, 2},
      {"float32", TypeKind::kFloat, 4, 4},       {"float64", TypeKind::kFloat, 8, 8},
      {"bfloat16", TypeKind::kBfloat16, 2, 2},   {"complex64", TypeKind::kComplex, 8, 4},
      {"complex128", TypeKind::kComplex, 16, 8},
  };
  DataType type;
  for (const Row& row : kRows) {
    if (row.name != v3_name) continue;
    type.kind = row.kind;
    type.item_bytes = row.item_bytes;
    type.name = row.name;
    type.swap_runs = {{row.swap_width, row.item_bytes / row.swap_width}};
    return type;
  }
  return type;
}

}  // namespace headrace
