#include "loader/batch_layout.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/access.h"
#include "base/checked.h"
#include "loader/sampling/sampling_parts.h"
#include "loader/sampling/windows_impl.h"

namespace headrace::loader {
namespace {

constexpr std::uint64_t kAlignBytes = 256;  // of each tensor
constexpr std::uint64_t kMaxScales = 1024;  // per window: each is a box and a part of a launch

std::string text_of(std::span<const std::uint64_t> shape) {
  std::string text;
  for (const std::uint64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "(" + text + ")";
}

Status slices_of(const LoaderArray& array, std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample,
                 std::uint64_t window, std::size_t output, std::span<DimSlice> out) {
  if (const auto* const windows = std::get_if<Windows>(&array.samples)) {
    return windows->slices(sample, window, output, out);
  }
  return std::get<Crops>(array.samples).slices(seed, epoch, sample, window, output, out);
}

std::uint64_t sample_count_of(const LoaderArray& array) noexcept {
  return std::visit([](const auto& samples) { return samples.sample_count(); }, array.samples);
}

// The position table of a dimension; null if it has none.
const std::vector<std::int64_t>* positions_of(const LoaderArray& array, std::size_t dim) noexcept {
  for (const auto& [number, positions] : array.positions) {
    if (number == dim) return &positions;
  }
  return nullptr;
}

// Number of a sample's frame among the windows.
std::uint64_t frame_of(const LoaderArray& array, std::uint64_t sample) noexcept {
  if (!std::holds_alternative<Crops>(array.samples)) return sample;
  return sample / (sample_count_of(array) / windows_of(array).sample_count());
}

// Checks positions. In `sizes`, which holds the windows' dimensions, each dimension with positions gets the array's
// size.
Status take_positions(const LoaderArray& array, std::vector<std::uint64_t>& sizes) {
  const std::vector<std::uint64_t>& shape = array.array.info().shape;
  for (const auto& [dim, positions] : array.positions) {
    const std::string what = "array " + in_quotes(array.name) + ": positions of dimension " + std::to_string(dim);
    if (dim >= shape.size() || dim >= sizes.size()) {
      return refuse(what + ": the array has " + std::to_string(shape.size()) + " dimensions");
    }
    if (positions_of(array, dim) != &positions) return refuse(what + ": given twice");
    if (positions.size() != sizes[dim]) {
      return refuse(what + ": " + std::to_string(positions.size()) + " positions, but its windows have " +
                    std::to_string(sizes[dim]) + " elements");
    }
    for (const std::int64_t position : positions) {
      if (position < -1 || (position >= 0 && static_cast<std::uint64_t>(position) >= shape[dim])) {
        return refuse(what + ": position " + std::to_string(position) + " is out of range for extent " +
                      std::to_string(shape[dim]));
      }
    }
    sizes[dim] = shape[dim];
  }
  return {};
}

Status check_scale_by(const LoaderArray& array) {
  const ScaleBy& by = array.scale_by;
  const std::string what = "array " + in_quotes(array.name) + ": scale_by: ";
  if (by.dims.empty()) return {};
  const std::vector<std::uint64_t>& shape = array.array.info().shape;
  std::uint64_t entries = 1;
  for (std::size_t i = 0; i < by.dims.size(); ++i) {
    if (by.dims[i] >= shape.size() || (i > 0 && by.dims[i] <= by.dims[i - 1])) {
      return refuse(what + "dims are ascending numbers of its " + std::to_string(shape.size()) + " dimensions");
    }
    entries = base::saturating_mul(entries, shape[by.dims[i]]);
  }
  if (by.scale.size() != entries || by.offset.size() != entries) {
    return refuse(what + std::to_string(by.scale.size()) + " scales and " + std::to_string(by.offset.size()) +
                  " offsets; its dimensions have " + std::to_string(entries) + " combinations of indices");
  }
  const auto finite = [](double value) { return std::isfinite(value); };
  if (!std::all_of(by.scale.begin(), by.scale.end(), finite) ||
      !std::all_of(by.offset.begin(), by.offset.end(), finite)) {
    return refuse(what + "a scale or an offset is not finite");
  }
  HEADRACE_TRY_ASSIGN(const DataType dtype, result_dtype(array.array.info().dtype, array.read));
  if (number_type_of(dtype) == device::NumberType::kNone) {
    return Status(
        Code::kUnsupported, Layer::kApi,
        what + "tensors of " + dtype.name + ": choose float32 or float64 (shorter ones would be rounded twice)");
  }
  return {};
}

Status check_launches(const LoaderArray& array, std::span<const std::uint64_t> window_shape) {
  std::uint64_t scales = 1;
  for (const std::size_t dim : array.scale_by.dims) scales = base::saturating_mul(scales, window_shape[dim]);
  if (scales <= kMaxScales) return {};
  return Status(Code::kUnsupported, Layer::kApi,
                "array " + in_quotes(array.name) + ": scale_by: a window has " + std::to_string(scales) +
                    " combinations of indices, which are too many: at most " + std::to_string(kMaxScales));
}

Status check_array(const LoaderArray& array) {
  const ArrayInfo& info = array.array.info();
  const std::string name = "array " + in_quotes(array.name);
  const auto& axes = Access::impl(windows_of(array))->axes;
  std::vector<std::uint64_t> sizes;
  for (const Windows::Impl::Axis& axis : axes) sizes.push_back(axis.extent);
  HEADRACE_TRY(take_positions(array, sizes));
  if (sizes != info.shape) {
    return refuse(name + " has the shape " + text_of(info.shape) + ", but its windows have the shape " +
                  text_of(sizes));
  }
  HEADRACE_TRY(check_scale_by(array));
  if (info.dtype.is_variable_length()) {
    return Status(Code::kUnsupported, Layer::kApi, name + " has elements of variable length");
  }
  const ReadOptions& read = array.read;
  if (read.native_stream != nullptr || read.progress || read.collect_errors || read.cancel) {
    return refuse(name +
                  ": read.native_stream, progress, collect_errors and cancel must not be set: the loader sets them");
  }
  return {};
}

// A part of one dimension of a sample, whose elements lie in even steps.
struct Segment {
  std::uint64_t begin = 0, count = 0, step = 1;  // of the array
  std::uint64_t at = 0;                          // of the sample
  bool padding = false;
  bool backwards = false;  // the sample has them in the opposite order
};

using Segments = std::vector<Segment>;

// For a dimension with positions: splits it into the longest runs of even steps.
void add_runs(const Segment& one, const std::vector<std::int64_t>& positions, Segments& out) {
  const auto of = [&](std::uint64_t i) { return positions[one.begin + i * one.step]; };
  for (std::uint64_t i = 0; i < one.count;) {
    std::uint64_t end = i + 1;
    if (of(i) < 0) {
      while (end < one.count && of(end) < 0) ++end;
      out.push_back({.count = end - i, .at = one.at + i, .padding = true});
    } else {
      // A repeated element makes two runs, because a selection has no step of 0.
      const std::int64_t step = end < one.count && of(end) >= 0 ? of(end) - of(i) : 0;
      while (step != 0 && end < one.count && of(end) >= 0 && of(end) - of(end - 1) == step) ++end;
      const std::int64_t first = step < 0 ? of(end - 1) : of(i);
      out.push_back({.begin = static_cast<std::uint64_t>(first),
                     .count = end - i,
                     .step = step == 0 ? 1 : static_cast<std::uint64_t>(step < 0 ? -step : step),
                     .at = one.at + i,
                     .backwards = step < 0});
    }
    i = end;
  }
}

void segments_of(const DimSlice& slice, const std::vector<std::int64_t>* positions, Segments& out) {
  out.clear();
  const auto add = [&](const Segment& one) {
    if (one.count == 0) return;
    if (positions == nullptr || one.padding) {
      out.push_back(one);
    } else {
      add_runs(one, *positions, out);
    }
  };
  add({.begin = slice.begin, .count = slice.count, .step = slice.step, .at = 0});
  add({.begin = slice.wrapped_begin, .count = slice.wrapped_count, .step = slice.step, .at = slice.count});
  add({.count = slice.padding, .at = slice.count + slice.wrapped_count, .padding = true});
}

// Adds a box for each entry of array.scale_by among elements that have been read. `box` has all these elements;
// `segments` are by dimension of the array.
void add_scaled(const LoaderArray& array, const device::Box& box, std::span<const Segment* const> segments,
                std::vector<ScaledBox>& out) {
  const ScaleBy& by = array.scale_by;
  const std::vector<std::uint64_t>& shape = array.array.info().shape;
  std::array<std::uint64_t, device::kMaxRank> at{};
  for (;;) {
    ScaledBox one{.box = box};
    for (std::size_t i = 0; i < by.dims.size(); ++i) {
      const std::size_t d = by.dims[i];
      const Segment& segment = *segments[d];
      device::BoxDim& dim = one.box.dim[d];
      one.entry = one.entry * shape[d] + segment.begin + at[i] * segment.step;
      one.box.dst += static_cast<std::ptrdiff_t>(at[i]) * dim.dst_stride_bytes;
      dim.extent = 1;
    }
    one.box.src = one.box.dst;
    device::simplify(one.box);
    out.push_back(one);
    std::size_t i = by.dims.size();
    while (i > 0 && ++at[i - 1] == segments[by.dims[i - 1]]->count) at[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace

device::NumberType number_type_of(const DataType& dtype) noexcept {
  if (dtype.name == "float32") return device::NumberType::kFloat32;
  return dtype.name == "float64" ? device::NumberType::kFloat64 : device::NumberType::kNone;
}

const Windows& windows_of(const LoaderArray& array) noexcept {
  const auto* const windows = std::get_if<Windows>(&array.samples);
  return windows != nullptr ? *windows : std::get<Crops>(array.samples).frames();
}

Result<BatchLayout> BatchLayout::create(std::span<const LoaderArray> arrays, std::uint64_t batch_size,
                                        bool channels_last) {
  if (arrays.empty()) return refuse("a loader needs an array");
  BatchLayout layout;
  layout.sample_count_ = sample_count_of(arrays[0]);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const LoaderArray& array = arrays[i];
    const std::string name = "array " + in_quotes(array.name);
    for (std::size_t k = 0; k < i; ++k) {
      if (arrays[k].name == array.name) return refuse("two arrays have the name " + in_quotes(array.name));
    }
    HEADRACE_TRY(check_array(array));
    if (sample_count_of(array) != layout.sample_count_) {
      return refuse(name + " has " + std::to_string(sample_count_of(array)) + " samples, " + in_quotes(arrays[0].name) +
                    " has " + std::to_string(layout.sample_count_));
    }
    HEADRACE_TRY_ASSIGN(const DataType dtype, result_dtype(array.array.info().dtype, array.read));
    if (!array.padding.empty() && array.padding.size() != dtype.item_bytes) {
      return refuse(name + ": padding has " + std::to_string(array.padding.size()) + " bytes, an element " +
                    std::to_string(dtype.item_bytes));
    }
    const std::size_t outputs = windows_of(array).output_count();
    for (std::size_t output = 0; output < outputs; ++output) {
      HEADRACE_TRY_ASSIGN(Place at, layout.place_of(array, i, output));
      HEADRACE_TRY(check_launches(array, at.window_shape));
      HEADRACE_TRY(layout.put(array, at, batch_size));
      layout.places_.push_back(std::move(at));
    }
  }
  HEADRACE_TRY(layout.lay_out(batch_size, channels_last));
  return layout;
}

// The shape of an output. It must be the same in every sample.
Result<BatchLayout::Place> BatchLayout::place_of(const LoaderArray& array, std::size_t number,
                                                 std::size_t output) const {
  const Windows& windows = windows_of(array);
  Place at;
  at.array = number;
  at.output = output;
  at.windows = windows.window_count(frame_of(array, 0));
  std::vector<DimSlice> slices(windows.dim_count());
  const auto shape_of = [&](std::uint64_t sample) -> Result<std::vector<std::uint64_t>> {
    HEADRACE_TRY(slices_of(array, 0, 0, sample, 0, output, slices));
    std::vector<std::uint64_t> shape;
    for (const DimSlice& slice : slices) shape.push_back(slice.size());
    return shape;
  };
  HEADRACE_TRY_ASSIGN(at.window_shape, shape_of(0));
  // The last sample is last along every dimension, so if any sample is smaller, it is.
  const std::uint64_t last = sample_count_ - 1;
  HEADRACE_TRY_ASSIGN(const std::vector<std::uint64_t> last_shape, shape_of(last));
  if (last_shape != at.window_shape || windows.window_count(frame_of(array, last)) != at.windows) {
    return refuse("array " + in_quotes(array.name) + ": its last sample is smaller, " + text_of(last_shape) +
                  " instead of " + text_of(at.window_shape) +
                  "; batches need samples of one shape: boundary drop, pad or wrap");
  }
  return at;
}

// Assigns the output to a tensor, or to a channel of a stack's tensor.
Status BatchLayout::put(const LoaderArray& array, Place& at, std::uint64_t batch_size) {
  HEADRACE_TRY_ASSIGN(const DataType dtype, result_dtype(array.array.info().dtype, array.read));
  const std::string output = Access::impl(windows_of(array))->outputs[at.output].name;
  const std::string& name = array.stack.empty() ? array.name : array.stack;
  at.tensor = tensors_.size();
  for (const Place& other : places_) {
    const LoaderTensor& tensor = tensors_[other.tensor];
    if (tensor.array != name || tensor.output != output) continue;
    if (array.stack.empty() || !forms_[other.tensor].stacked) {
      return refuse(in_quotes(name) + " is the name of an array and of a stack");
    }
    at.tensor = other.tensor;
    ++at.channel;
    if (other.window_shape != at.window_shape || other.windows != at.windows || tensor.dtype.name != dtype.name) {
      return refuse("array " + in_quotes(array.name) + " in stack " + in_quotes(name) + ": its samples are " +
                    text_of(at.window_shape) + " of " + dtype.name + ", those before " + text_of(other.window_shape) +
                    " of " + tensor.dtype.name);
    }
  }
  if (at.tensor == tensors_.size()) {
    tensors_.push_back({name, output, dtype, {batch_size}});
    forms_.push_back({.stacked = !array.stack.empty()});
  }
  forms_[at.tensor].channels = at.channel + 1;
  return {};
}

// Computes the tensors' shapes and strides, once all places and so all channels are known.
Status BatchLayout::lay_out(std::uint64_t batch_size, bool channels_last) {
  for (std::size_t number = 0; number < tensors_.size(); ++number) {
    LoaderTensor& tensor = tensors_[number];
    Form& form = forms_[number];
    const auto of_tensor = [&](const Place& at) { return at.tensor == number; };
    const Place& any = *std::find_if(places_.begin(), places_.end(), of_tensor);
    const bool several = any.windows > 1, last = form.stacked && channels_last, second = form.stacked && !channels_last;
    if (several) tensor.shape.push_back(any.windows);
    if (second) tensor.shape.push_back(form.channels);
    tensor.shape.insert(tensor.shape.end(), any.window_shape.begin(), any.window_shape.end());
    if (last) tensor.shape.push_back(form.channels);

    std::vector<std::uint64_t> strides(tensor.shape.size());
    std::uint64_t bytes = tensor.dtype.item_bytes;
    bool fits = true;
    for (std::size_t d = tensor.shape.size(); d-- > 0;) {
      strides[d] = bytes;
      fits = fits && !__builtin_mul_overflow(bytes, tensor.shape[d], &bytes) && bytes < (std::uint64_t{1} << 62);
    }
    form.first_byte = batch_bytes_;
    fits =
        fits && !__builtin_add_overflow(batch_bytes_, base::align_up<std::uint64_t>(bytes, kAlignBytes), &batch_bytes_);
    if (!fits) {
      return refuse("tensor " + in_quotes(tensor.array) + ": a batch of " + std::to_string(batch_size) +
                    " samples has more than 2^62 bytes");
    }
    const std::size_t first_dim = 1 + std::size_t{several} + std::size_t{second};
    const std::size_t channel_axis = last ? tensor.shape.size() - 1 : first_dim - 1;
    for (Place& at : places_) {
      if (!of_tensor(at)) continue;
      at.sample_bytes = strides[0];
      at.window_bytes = several ? strides[1] : 0;
      at.first_byte = form.first_byte + (form.stacked ? at.channel * strides[channel_axis] : 0);
      for (std::size_t d = 0; d < at.window_shape.size(); ++d)
        at.strides_bytes.push_back(static_cast<std::int64_t>(strides[first_dim + d]));
    }
  }
  return {};
}

const DataType& BatchLayout::dtype_of(std::size_t array) const noexcept {
  const auto of_array = [&](const Place& at) { return at.array == array; };
  return tensors_[std::find_if(places_.begin(), places_.end(), of_array)->tensor].dtype;
}

TensorView BatchLayout::tensor(std::size_t number, std::span<std::byte> memory) const {
  const LoaderTensor& tensor = tensors_[number];
  return {memory, tensor.dtype, tensor.shape, {}, forms_[number].first_byte};
}

Status BatchLayout::add(std::span<const LoaderArray> arrays, std::uint64_t seed, std::uint64_t epoch,
                        std::uint64_t sample, std::uint64_t place, std::span<std::byte> memory, BatchReads& out) const {
  std::array<DimSlice, device::kMaxRank> storage;
  for (const Place& at : places_) {
    const std::span<DimSlice> slices = std::span(storage).first(at.window_shape.size());
    for (std::uint64_t window = 0; window < at.windows; ++window) {
      HEADRACE_TRY(slices_of(arrays[at.array], seed, epoch, sample, window, at.output, slices));
      add_window(arrays[at.array], at, slices, at.first_byte + place * at.sample_bytes + window * at.window_bytes,
                 memory, out);
    }
  }
  return {};
}

void BatchLayout::add_window(const LoaderArray& array, const Place& at, std::span<const DimSlice> slices,
                             std::uint64_t first_byte, std::span<std::byte> memory, BatchReads& out) const {
  const std::size_t rank = slices.size();
  thread_local std::array<Segments, device::kMaxRank> segments;  // reused by the next window
  std::array<const Segment*, device::kMaxRank> chosen{};
  std::array<std::size_t, device::kMaxRank> number{};
  for (std::size_t d = 0; d < rank; ++d) {
    segments_of(slices[d], positions_of(array, d), segments[d]);
    if (segments[d].empty()) return;  // an empty output
  }
  for (;;) {
    bool padding = false;
    std::uint64_t first = first_byte;
    std::array<std::int64_t, device::kMaxRank> strides;
    for (std::size_t d = 0; d < rank; ++d) {
      const Segment& segment = segments[d][number[d]];
      chosen[d] = &segment;
      const std::int64_t stride = at.strides_bytes[d];
      // Where the segment's first element goes, and in which direction the others follow.
      const std::uint64_t place = segment.at + (segment.backwards ? segment.count - 1 : 0);
      const std::uint64_t from = slices[d].flipped ? at.window_shape[d] - 1 - place : place;
      first += from * static_cast<std::uint64_t>(stride);
      strides[d] = slices[d].flipped != segment.backwards ? -stride : stride;
      padding = padding || segment.padding;
    }
    device::Box box;
    if (padding || !array.scale_by.dims.empty()) {
      box.dst = memory.data() + first;
      box.rank = static_cast<int>(rank);
      for (std::size_t d = 0; d < rank; ++d) {
        box.dim[d] = {.extent = chosen[d]->count, .src_stride_bytes = strides[d], .dst_stride_bytes = strides[d]};
      }
    }
    if (padding) {
      device::simplify(box, true);
      out.padding[at.array].push_back(box);
    } else {
      if (!array.scale_by.dims.empty()) add_scaled(array, box, chosen, out.scaled[at.array]);
      ReadPart& part = out.parts[at.array].add();
      part.tensor.memory = memory;
      part.tensor.first_byte = first;
      part.tensor.dtype = tensors_[at.tensor].dtype;
      part.tensor.strides_bytes.assign(strides.data(), strides.data() + rank);
      part.tensor.shape.resize(rank);
      part.selection.resize(rank);
      for (std::size_t d = 0; d < rank; ++d) {
        const Segment& segment = *chosen[d];
        part.tensor.shape[d] = segment.count;
        part.selection[d] = {.start = static_cast<std::int64_t>(segment.begin),
                             .stop = static_cast<std::int64_t>(segment.begin + (segment.count - 1) * segment.step + 1),
                             .step = static_cast<std::int64_t>(segment.step)};
      }
    }
    std::size_t d = rank;
    while (d > 0 && ++number[d - 1] == segments[d - 1].size()) number[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace headrace::loader
