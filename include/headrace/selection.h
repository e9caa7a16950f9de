// Selection: the part of an array to read.
//
// One item per dimension, applied independently ("orthogonal", as zarr's oindex): slices and integers as in NumPy's
// basic indexing, lists of indices, boolean masks, ranges of blocks. Or a list of points: single elements, given by one
// list of coordinates per dimension (as zarr's vindex). Each chunk is read and decoded once for any selection.
//
// Threads: plain values; functions from any thread.
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
  // kIndex: `start`; negative counts from the end. The dimension is dropped from the result.
  // kSlice: start:stop:step with NumPy's rules for missing and negative bounds; step > 0.
  // kBlocks: the same bounds, counted in blocks of the array's chunk grid (shards if the array is sharded); step == 1.
  //   Only an array knows its grid: Array::resolve() and reads accept such items, resolve_selection() does not.
  std::optional<std::int64_t> start, stop;
  std::int64_t step = 1;
  // kList: these indices in this order, with repetitions allowed; negative ones count from the end.
  // kMask: the indices where the mask is true, ascending.
  // kPoints: this dimension's coordinate of each point, with kList's rules; or a single one that all points share.
  std::vector<std::int64_t> indices = {};
  std::uint64_t mask_length = 0;  // kMask: must be the dimension's extent
};

// Missing trailing items select everything; an empty Selection selects the whole array. If one item is kPoints, all
// must be, one per dimension. The result then has one dimension: the points in the order given.
using Selection = std::vector<SelectionItem>;

// Constructors of items and selections. They throw std::bad_alloc.
HEADRACE_API SelectionItem index_list(std::vector<std::int64_t> indices);
HEADRACE_API SelectionItem mask(const std::vector<bool>& where);
HEADRACE_API SelectionItem block(std::int64_t number);  // one block; negative counts from the end
HEADRACE_API SelectionItem block_range(std::optional<std::int64_t> start, std::optional<std::int64_t> stop);
// coordinates[i] holds those of dimension i.
HEADRACE_API Selection points(std::vector<std::vector<std::int64_t>> coordinates);
// The elements where a mask of the array's shape (C order, nonzero is true) is true, in C order. kInvalidArgument: the
// mask and the shape differ in their number of elements, or the shape has no dimensions.
HEADRACE_API Result<Selection> mask_points(std::span<const std::uint8_t> where, std::span<const std::uint64_t> shape);

// Parses "0:10, :, ::2, 5, ...", with optional brackets around the whole. An item in its own brackets is a list of
// integers or of the words true and false: ":, [1, 5, 7]". A list that is the only item needs a comma or both pairs of
// brackets, "[[1, 5, 7]]", as in Python. kInvalidArgument names the wrong item.
HEADRACE_API Result<Selection> parse_selection(std::string_view text);
// Parses one list or integer per dimension: "[1, 5, 7], [0, 0, 2], 3".
HEADRACE_API Result<Selection> parse_points(std::string_view text);
// Parses block numbers and ranges of them, one item per dimension: "0, 1:3, :".
HEADRACE_API Result<Selection> parse_blocks(std::string_view text);

// A selection resolved for one shape.
struct ResolvedSelection {
  struct Dim {
    std::uint64_t start = 0, count = 0, step = 1;  // elements
    bool dropped = false;                          // selected by an integer
    // If set, the `count` indices to select, each inside the dimension; `start` and `step` are then meaningless.
    std::shared_ptr<const std::vector<std::uint64_t>> list = nullptr;
  };
  std::vector<Dim> dims;             // one per array dimension
  std::vector<std::uint64_t> shape;  // of the result, without dropped dimensions
  // The lists of `dims`, all of the same length, are coordinates of points; `shape` is that length.
  bool points = false;
};
// kInvalidArgument: too many items, more than one ellipsis, an index out of range, step < 1, a mask of the wrong
// length, lists of points of different lengths or not one per dimension, blocks. Throws std::bad_alloc.
HEADRACE_API Result<ResolvedSelection> resolve_selection(const Selection& selection,
                                                         std::span<const std::uint64_t> shape);

}  // namespace headrace
