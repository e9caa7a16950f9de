// Selection: which part of an array to read, one item per dimension, as NumPy's basic indexing has it.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace headrace {

struct SelectionItem {
  enum class Kind : std::uint8_t { kSlice, kIndex, kEllipsis } kind = Kind::kSlice;
  // kIndex: start, negative counts from the end; the dimension disappears from the result.
  // kSlice: start:stop:step with NumPy's rules for missing and negative bounds; step > 0.
  std::optional<std::int64_t> start, stop;
  std::int64_t step = 1;
};

using Selection =
    std::vector<SelectionItem>;  // missing trailing items select everything; empty selects the whole array

// "0:10, :, ::2, 5, ..." with optional surrounding brackets. kInvalidArgument naming the item that is wrong.
HEADRACE_API Result<Selection> parse_selection(std::string_view text);

// What a selection means for one shape.
struct ResolvedSelection {
  struct Dim {
    std::uint64_t start = 0, count = 0, step = 1;  // elements
    bool dropped = false;                          // selected by an integer
  };
  std::vector<Dim> dims;             // one per array dimension
  std::vector<std::uint64_t> shape;  // of the result: dropped dimensions left out
};
// kInvalidArgument: too many items, more than one ellipsis, index out of range, step < 1.
HEADRACE_API Result<ResolvedSelection> resolve_selection(const Selection& selection,
                                                         std::span<const std::uint64_t> shape);

}  // namespace headrace
