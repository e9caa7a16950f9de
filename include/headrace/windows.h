// Windows: samples cut out of an array by windows of fixed size, in xbatcher's vocabulary.
//
// Along each dimension of input_dims and batch_dims, windows begin at 0, stride, 2 * stride, ... where stride is the
// window's size less its overlap. A sample is one window of their Cartesian product: the dimensions of batch_dims that
// are not in input_dims come first, then input_dims, each in the order given, the last one fastest. Dimensions in
// neither are taken whole. With concat_input_dims a sample has several windows (see there). Nothing is tabulated but
// input_starts: without it, making Windows and asking for a sample take time and memory in the number of dimensions.
//
// Threads: immutable values; copies share what they hold. Every call from any thread.
// Fails:   kInvalidArgument naming the parameter and the dimension. Functions that allocate throw std::bad_alloc.
#pragma once

#include <headrace/export.h>
#include <headrace/loader_schema.h>
#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

// What happens where windows do not end at the end of a dimension.
enum class Boundary : std::uint8_t {
  kDrop,     // no window reaches over the end: elements may be left over. xbatcher's only way
  kPartial,  // the last windows are cut off at the end: a sample may be smaller, an output of it empty
  kPad,      // the last windows are of full size; what lies beyond the end is padding
  kWrap,     // the dimension is a circle, such as longitude: a window begins at each multiple of the stride
};
// kPartial and kPad have as few windows as reach the last element (where strides leave gaps: and begin before the end).

// A part of each window that is handed out under a name of its own, such as what a model is given and what it shall
// say.
struct WindowOutput {
  std::string name;
  // Of this dimension of input_dims, the elements at offset, offset + step, ... of the window, `count` of them. Of all
  // others, whatever the window has. Empty: the whole window.
  std::string dim = {};
  std::uint64_t offset = 0, count = 1, step = 1;
};

struct WindowOptions {
  ByDim<std::uint64_t> input_dims = {};     // elements of a window; at most the dimension's
  ByDim<std::uint64_t> input_overlap = {};  // elements that neighbours share; less than the window's. Missing: 0
  ByDim<std::uint64_t> input_stride = {};   // instead of an overlap; may be larger than the window
  // Instead of both: where each window begins, ascending, none twice. A table: it has a window's number of entries.
  // What reaches over the end is the boundary's business; with kDrop none does.
  ByDim<std::vector<std::uint64_t>> input_starts = {};
  ByDim<std::uint64_t> batch_dims = {};  // windows of dimensions that a model does not see. input_overlap applies
  // A sample has all windows that have the same windows of batch_dims; without batch_dims there is one sample. Where a
  // dimension is in both, a sample has the windows that begin in its batch_dims elements: ceil(batch / stride) of them
  // (the last sample may have fewer), and windows after the last full batch are left out. Then boundary must be kDrop.
  // False: batch_dims of a dimension that is in both says nothing, as in xbatcher, which warns.
  bool concat_input_dims = false;
  Boundary boundary = Boundary::kDrop;
  ByDim<Boundary> boundary_of = {};        // where a dimension's is another
  std::vector<WindowOutput> outputs = {};  // empty: one, the whole window
};

// The elements that are taken of one dimension, in this order; all are inside it.
struct DimSlice {
  std::uint64_t begin = 0, count = 0, step = 1;        // begin, begin + step, ...; `count` may be 0
  std::uint64_t wrapped_begin = 0, wrapped_count = 0;  // kWrap: and then these, in the same steps
  std::uint64_t padding = 0;                           // kPad: and then so many that are in no array
  bool flipped = false;                                // in reverse order (Crops)
  std::uint64_t size() const noexcept { return count + wrapped_count + padding; }
  bool operator==(const DimSlice&) const = default;
};

class HEADRACE_API Windows {
 public:
  // `dims`: the array's dimensions and their sizes, in the array's order; at most 32, none of size 0.
  // Also fails: more than 2^63 samples.
  static Result<Windows> create(const ByDim<std::uint64_t>& dims, const WindowOptions& options);

  std::uint64_t sample_count() const noexcept;
  // Samples along each dimension that has windows, in their order; the product is sample_count(). Order's grid.
  std::vector<std::uint64_t> sample_grid() const;
  // How many neighbours along each dimension of sample_grid() begin in one chunk, rounded down, at least 1.
  // chunk_shape: elements, one for each dimension of the array. Fails: another number of dimensions, a size of 0.
  Result<std::vector<std::uint64_t>> samples_per_chunk(std::span<const std::uint64_t> chunk_shape) const;

  // 1 without concat_input_dims. Samples have as many or, the last ones along a dimension that is in both dicts, fewer.
  std::uint64_t window_count(std::uint64_t sample) const noexcept;
  std::uint64_t window_count() const noexcept;  // of the first sample
  std::size_t dim_count() const noexcept;       // of the array
  std::size_t output_count() const noexcept;    // at least 1

  // What output `output` of window `window` of sample `sample` takes, one slice for each dimension of the array.
  // Allocates nothing unless it fails. Fails: a number out of range, or out.size() is not dim_count().
  Status slices(std::uint64_t sample, std::uint64_t window, std::size_t output, std::span<DimSlice> out) const noexcept;

  // The same with fewer samples: those of windows [first, first + count) along `dim`. Fails: `dim` has no windows, or a
  // sample has several of them along it; the range is empty or not inside.
  Result<Windows> restrict(std::string_view dim, std::uint64_t first, std::uint64_t count) const;

  LoaderSchema schema() const;

  class Impl;

 private:
  friend struct Access;
  explicit Windows(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace headrace
