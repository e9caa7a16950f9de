// Helpers of an array's resolve_selection(): block selections (ranges of chunks) become slices of elements, and
// resolved selections reuse memory.
#pragma once

#include <headrace/selection.h>
#include <headrace/status.h>

#include <cstdint>
#include <span>

namespace headrace::zarr {

// Where the blocks of an array begin along each axis.
class BlockBegin {
 public:
  virtual ~BlockBegin() = default;
  virtual std::uint64_t count(std::size_t axis) const = 0;
  virtual std::uint64_t begin(std::size_t axis, std::uint64_t block) const = 0;  // first element
};

// headrace::resolve_selection() into `out`, reusing the memory of its vectors.
Status resolve_selection_into(const Selection& selection, std::span<const std::uint64_t> shape, ResolvedSelection& out);

bool has_blocks(const Selection& selection) noexcept;
// Items of kind kBlocks become slices; others stay as they are. kInvalidArgument: a block is out of range.
Result<Selection> blocks_to_slices(const Selection& selection, std::span<const std::uint64_t> shape,
                                   const BlockBegin& begin_of);

}  // namespace headrace::zarr
