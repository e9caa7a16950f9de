// Selection: which part of an array to read.
//
// One item per dimension, each for itself ("orthogonal", as zarr's oindex): slices and integers as NumPy's basic
// indexing has them, lists of indices, boolean masks, ranges of blocks. Or a list of points: one element each, with one
// list of coordinates per dimension (as zarr's vindex). Whatever is selected, each chunk is read and decoded once.
//
// Threads: values; functions from any thread.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace headrace {

struct SelectionItem {
  enum class Kind : std::uint8_t { kSlice, kIndex, kEllipsis, kList, kMask, kBlocks, kPoints } kind = Kind::kSlice;
  // kIndex: start, negative counts from the end; the dimension disappears from the result.
  // kSlice: start:stop:step with NumPy's rules for missing and negative bounds; step > 0.
  // kBlocks: the same bounds, in blocks of the array's chunk grid (a shard where the array is sharded); step == 1. Only
  //   an array knows its grid: Array::resolve() and reads take such items, resolve_selection() does not.
  std::optional<std::int64_t> start, stop;
  std::int64_t step = 1;
  // kList: these indices in this order, any number of times each; negative ones count from the end.
  // kMask: where the mask is true, ascending.
  // kPoints: this dimension's coordinate of each point, as kList has them; or one, which all points share.
  std::vector<std::int64_t> indices = {};
  std::uint64_t mask_length = 0;  // kMask: must be the dimension's extent
};

// Missing trailing items select everything; empty selects the whole array. If one item is kPoints, all are, one for
// each dimension, and the result has one dimension: the points in the order given.
using Selection = std::vector<SelectionItem>;

// Items and selections that are lists. Throw std::bad_alloc.
HEADRACE_API SelectionItem index_list(std::vector<std::int64_t> indices);
HEADRACE_API SelectionItem mask(const std::vector<bool>& where);
HEADRACE_API SelectionItem block(std::int64_t number);  // one block; negative counts from the end
HEADRACE_API SelectionItem block_range(std::optional<std::int64_t> start, std::optional<std::int64_t> stop);
// coordinates[i]: of dimension i.
HEADRACE_API Selection points(std::vector<std::vector<std::int64_t>> coordinates);
// The elements where a mask of the array's shape (C order, not 0 is true) is true, in C order.
// kInvalidArgument: the mask has another number of elements than the shape, or the shape no dimensions.
HEADRACE_API Result<Selection> mask_points(std::span<const std::uint8_t> where, std::span<const std::uint64_t> shape);

// "0:10, :, ::2, 5, ..." with optional brackets around the whole. An item in brackets of its own is a list, of integers
// or of the words true and false: ":, [1, 5, 7]". A list that is the only item needs a comma or both pairs of brackets,
// "[[1, 5, 7]]", as in Python. kInvalidArgument naming the item that is wrong.
HEADRACE_API Result<Selection> parse_selection(std::string_view text);
// One list or integer per dimension: "[1, 5, 7], [0, 0, 2], 3".
HEADRACE_API Result<Selection> parse_points(std::string_view text);
// Block numbers and ranges of them, one item per dimension: "0, 1:3, :".
HEADRACE_API Result<Selection> parse_blocks(std::string_view text);

// What a selection means for one shape.
struct ResolvedSelection {
  struct Dim {
    std::uint64_t start = 0, count = 0, step = 1;  // elements
    bool dropped = false;                          // selected by an integer
    // Set: these `count` indices instead, each inside the dimension. `start` and `step` say nothing then.
    std::shared_ptr<const std::vector<std::uint64_t>> list = nullptr;
  };
  std::vector<Dim> dims;             // one per array dimension
  std::vector<std::uint64_t> shape;  // of the result: dropped dimensions left out
  // The dims' lists, all of one length, hold the coordinates of points; `shape` is that length.
  bool points = false;
};
// kInvalidArgument: too many items, more than one ellipsis, an index out of range, step < 1, a mask of another length,
// lists of points of different lengths or not one for each dimension, blocks. Throws std::bad_alloc.
HEADRACE_API Result<ResolvedSelection> resolve_selection(const Selection& selection,
                                                         std::span<const std::uint64_t> shape);

}  // namespace headrace
