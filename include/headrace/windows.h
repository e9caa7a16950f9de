// Windows: samples cut from an array by windows of fixed size, in xbatcher's vocabulary.
//
// Along each dimension of input_dims and batch_dims, windows begin at 0, stride, 2 * stride, ..., where stride is the
// window's size minus its overlap. A sample is one window of the Cartesian product of the dimensions: first those of
// batch_dims that are not in input_dims, then input_dims, each in the order given, the last one fastest. Other
// dimensions are taken whole. With concat_input_dims a sample has several windows (see there). Only input_starts is
// kept as a table; without it, creating a Windows and computing a sample cost time and memory in the number of
// dimensions only.
//
// Threads: immutable values; copies share their data. Every call from any thread.
// Fails:   kInvalidArgument names the parameter and the dimension. Functions that allocate throw std::bad_alloc.
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

// What happens if windows do not end exactly at the end of a dimension.
enum class Boundary : std::uint8_t {
  kDrop,     // no window extends past the end; elements may be left over. xbatcher's only behaviour
  kPartial,  // the last windows are cut off at the end: samples may be smaller, and outputs empty
  kPad,      // the last windows have full size; elements past the end are padding
  kWrap,     // the dimension is circular, such as longitude; a window begins at every multiple of the stride
};
// kPartial and kPad have just enough windows to reach the last element (with gaps: that begin before the end).

// A part of each window, delivered under its own name, such as a model's input or target.
struct WindowOutput {
  std::string name;
  // In dimension `dim` of input_dims: elements offset, offset + step, ... of the window, `count` of them. In all other
  // dimensions: those of the window. Empty: the whole window.
  std::string dim = {};
  std::uint64_t offset = 0, count = 1, step = 1;
};

struct WindowOptions {
  ByDim<std::uint64_t> input_dims = {};     // window size in elements; at most the dimension's size
  ByDim<std::uint64_t> input_overlap = {};  // elements shared by neighbours; less than the window's size; default 0
  ByDim<std::uint64_t> input_stride = {};   // alternative to an overlap; may exceed the window's size
  // Alternative to both: where each window begins, strictly ascending; stored as a table with one entry per window.
  // `boundary` decides about windows that extend past the end; with kDrop there must be none.
  ByDim<std::vector<std::uint64_t>> input_starts = {};
  ByDim<std::uint64_t> batch_dims = {};  // windows of dimensions that a model does not see. input_overlap applies
  // Makes one sample of all windows with the same windows of batch_dims; without batch_dims there is one sample. If a
  // dimension is in both, a sample has the windows that begin in its batch_dims elements: ceil(batch / stride) of them
  // (the last sample may have fewer), and windows after the last full batch are left out; boundary must then be kDrop.
  // False: batch_dims has no effect on a dimension that is in both, as in xbatcher, which warns.
  bool concat_input_dims = false;
  Boundary boundary = Boundary::kDrop;
  ByDim<Boundary> boundary_of = {};        // overrides `boundary` per dimension
  std::vector<WindowOutput> outputs = {};  // empty: one output, the whole window
};

// The elements taken from one dimension, in this order. All lie inside it.
struct DimSlice {
  std::uint64_t begin = 0, count = 0, step = 1;        // begin, begin + step, ...; `count` may be 0
  std::uint64_t wrapped_begin = 0, wrapped_count = 0;  // kWrap: followed by these, with the same step
  std::uint64_t padding = 0;                           // kPad: followed by this many elements that are in no array
  bool flipped = false;                                // the elements are in reverse order (Crops)
  std::uint64_t size() const noexcept { return count + wrapped_count + padding; }
  bool operator==(const DimSlice&) const = default;
};

class HEADRACE_API Windows {
 public:
  // `dims`: names and sizes of the array's dimensions, in the array's order; at most 32, none of size 0. Also fails for
  // more than 2^63 samples.
  static Result<Windows> create(const ByDim<std::uint64_t>& dims, const WindowOptions& options);

  std::uint64_t sample_count() const noexcept;
  // Number of samples along each dimension that has windows, in their order. The product is sample_count(). The grid
  // for Order.
  std::vector<std::uint64_t> sample_grid() const;
  // How many neighbours along each dimension of sample_grid() begin in one chunk, rounded down, at least 1.
  // chunk_shape: elements, one per dimension of the array. Fails: a wrong number of dimensions, or a size of 0.
  Result<std::vector<std::uint64_t>> samples_per_chunk(std::span<const std::uint64_t> chunk_shape) const;

  // 1 without concat_input_dims. Otherwise all samples have the same number, except that the last ones along a
  // dimension in both input_dims and batch_dims may have fewer.
  std::uint64_t window_count(std::uint64_t sample) const noexcept;
  std::uint64_t window_count() const noexcept;  // of the first sample
  std::size_t dim_count() const noexcept;       // of the array
  std::size_t output_count() const noexcept;    // at least 1

  // The elements that output `output` of window `window` of sample `sample` takes: one slice per dimension of the
  // array. Allocates nothing unless it fails. Fails: a number out of range, or out.size() is not dim_count().
  Status slices(std::uint64_t sample, std::uint64_t window, std::size_t output, std::span<DimSlice> out) const noexcept;

  // The same with fewer samples: those of windows [first, first + count) along `dim`. Fails: `dim` has no windows, or
  // several per sample; the range is empty or out of bounds.
  Result<Windows> restrict(std::string_view dim, std::uint64_t first, std::uint64_t count) const;

  LoaderSchema schema() const;

  class Impl;

 private:
  friend struct Access;
  explicit Windows(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace headrace
