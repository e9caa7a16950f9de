#include <headrace/windows.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "loader/sampling/sampling_parts.h"
#include "loader/sampling/windows_impl.h"

namespace headrace {

using loader::find_dim;
using loader::in_quotes;
using loader::refuse;

namespace {

constexpr std::uint64_t kMaxExtent = (std::uint64_t{1} << 63) - 1;
constexpr std::size_t kMaxDims = 32;

std::string along(std::string_view parameter, std::string_view dim) {
  return std::string(parameter) + ": dimension " + in_quotes(dim) + ": ";
}

template <class T>
Status check_names(std::string_view parameter, const ByDim<T>& by_dim, const ByDim<std::uint64_t>& dims) {
  for (auto at = by_dim.begin(); at != by_dim.end(); ++at) {
    if (find_dim(dims, at->first) == nullptr) {
      std::string has;
      for (const auto& [name, size] : dims) has += (has.empty() ? "" : ", ") + in_quotes(name);
      return refuse(std::string(parameter) + ": there is no dimension " + in_quotes(at->first) + "; the array has " +
                    (has.empty() ? "none" : has));
    }
    if (std::any_of(by_dim.begin(), at, [&](const auto& other) { return other.first == at->first; })) {
      return refuse(along(parameter, at->first) + "given twice");
    }
  }
  return {};
}

// Checks that each parameter names only dimensions that may have it.
Status check_parameters(const ByDim<std::uint64_t>& dims, const WindowOptions& options) {
  if (dims.size() > kMaxDims) {
    return refuse("dims: " + std::to_string(dims.size()) + " dimensions, at most " + std::to_string(kMaxDims) +
                  " can have windows");
  }
  HEADRACE_TRY(check_names("dims", dims, dims));
  for (const auto& [name, size] : dims) {
    if (size == 0) return refuse(along("dims", name) + "has no elements");
    if (size > kMaxExtent) return refuse(along("dims", name) + "has more than 2^63 - 1 elements");
  }
  HEADRACE_TRY(check_names("input_dims", options.input_dims, dims));
  HEADRACE_TRY(check_names("input_overlap", options.input_overlap, dims));
  HEADRACE_TRY(check_names("input_stride", options.input_stride, dims));
  HEADRACE_TRY(check_names("input_starts", options.input_starts, dims));
  HEADRACE_TRY(check_names("batch_dims", options.batch_dims, dims));
  HEADRACE_TRY(check_names("boundary_of", options.boundary_of, dims));
  const auto check_has_windows = [&](std::string_view parameter, std::string_view name) -> Status {
    if (find_dim(options.input_dims, name) != nullptr || find_dim(options.batch_dims, name) != nullptr) return {};
    return refuse(along(parameter, name) + "it has no windows: neither input_dims nor batch_dims has it");
  };
  for (const auto& [name, overlap] : options.input_overlap) {
    HEADRACE_TRY(check_has_windows("input_overlap", name));
    if (find_dim(options.input_stride, name) != nullptr) {
      return refuse(along("input_stride", name) + "input_overlap is also set; give only one of them");
    }
  }
  for (const auto& [name, stride] : options.input_stride) HEADRACE_TRY(check_has_windows("input_stride", name));
  for (const auto& [name, starts] : options.input_starts) {
    HEADRACE_TRY(check_has_windows("input_starts", name));
    if (find_dim(options.input_overlap, name) != nullptr || find_dim(options.input_stride, name) != nullptr) {
      return refuse(along("input_starts", name) + "input_overlap or input_stride is also set; give only one of them");
    }
  }
  for (const auto& [name, boundary] : options.boundary_of) HEADRACE_TRY(check_has_windows("boundary_of", name));
  return {};
}

std::uint64_t count_windows(const Windows::Impl::Axis& axis) {
  const std::uint64_t beyond_first = axis.extent - axis.window;
  switch (axis.boundary) {
    case Boundary::kDrop:
      return beyond_first / axis.stride + 1;
    case Boundary::kWrap:
      return base::ceil_div(axis.extent, axis.stride);
    default: {
      const std::uint64_t later = base::ceil_div(beyond_first, axis.stride);
      // If the stride is larger than the window, the last window may begin beyond the end.
      const auto last = base::checked_mul(later, axis.stride);
      return !last || *last >= axis.extent ? later : later + 1;
    }
  }
}

Status take_starts(Windows::Impl::Axis& axis, const std::vector<std::uint64_t>& starts) {
  if (starts.empty()) return refuse(along("input_starts", axis.name) + "no window at all");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (i > 0 && starts[i] <= starts[i - 1]) {
      return refuse(along("input_starts", axis.name) + "starts must ascend: " + std::to_string(starts[i]) +
                    " follows " + std::to_string(starts[i - 1]));
    }
  }
  // With kDrop, no window may reach beyond the end; otherwise each must have an element inside.
  const std::uint64_t last = axis.boundary == Boundary::kDrop ? axis.extent - axis.window : axis.extent - 1;
  if (starts.back() > last) {
    return refuse(along("input_starts", axis.name) + "a window of " + std::to_string(axis.window) + " elements at " +
                  std::to_string(starts.back()) + ", but it has " + std::to_string(axis.extent));
  }
  axis.starts = starts;
  // The mean distance of neighbours, for callers that group samples by chunks.
  if (starts.size() > 1) axis.stride = std::max<std::uint64_t>(1, (starts.back() - starts[0]) / (starts.size() - 1));
  axis.windows = axis.samples = starts.size();
  return {};
}

// Makes the windows along one dimension. `parameter`: the option that gives the window's size.
Status make_axis(Windows::Impl::Axis& axis, const WindowOptions& options, std::string_view parameter,
                 std::uint64_t window) {
  if (window == 0) return refuse(along(parameter, axis.name) + "a window of 0 elements");
  if (window > axis.extent) {
    return refuse(along(parameter, axis.name) + "a window of " + std::to_string(window) + " elements, but it has " +
                  std::to_string(axis.extent));
  }
  axis.window = axis.stride = window;
  if (const std::uint64_t* overlap = find_dim(options.input_overlap, axis.name)) {
    if (*overlap >= window) {
      return refuse(along("input_overlap", axis.name) + std::to_string(*overlap) +
                    " elements, but a window has no more than " + std::to_string(window));
    }
    axis.stride = window - *overlap;
  }
  if (const std::uint64_t* stride = find_dim(options.input_stride, axis.name)) {
    if (*stride == 0) return refuse(along("input_stride", axis.name) + "a stride of 0");
    if (*stride > kMaxExtent) return refuse(along("input_stride", axis.name) + "a stride above 2^63 - 1");
    axis.stride = *stride;
  }
  const Boundary* boundary = find_dim(options.boundary_of, axis.name);
  axis.boundary = boundary != nullptr ? *boundary : options.boundary;
  if (axis.boundary > Boundary::kWrap) return refuse(along("boundary", axis.name) + "not a value of Boundary");
  if (const auto* starts = find_dim(options.input_starts, axis.name)) return take_starts(axis, *starts);
  axis.windows = axis.samples = count_windows(axis);
  return {};
}

// Puts several windows into one sample, as concat_input_dims requires.
Status group_windows(Windows::Impl& impl, const WindowOptions& options) {
  const auto in_both = [&](std::string_view name) {
    return find_dim(options.input_dims, name) != nullptr && find_dim(options.batch_dims, name) != nullptr;
  };
  const bool any_in_both = std::any_of(options.batch_dims.begin(), options.batch_dims.end(),
                                       [&](const auto& dim) { return in_both(dim.first); });
  for (const std::size_t at : impl.sliced) {
    Windows::Impl::Axis& axis = impl.axes[at];
    if (axis.boundary == Boundary::kPartial) {
      return refuse(along("boundary", axis.name) +
                    "kPartial makes windows of several sizes, which concat_input_dims "
                    "cannot put into one sample");
    }
    const std::uint64_t* batch = find_dim(options.batch_dims, axis.name);
    if (in_both(axis.name)) {
      if (!axis.starts.empty()) {
        return refuse(along("input_starts", axis.name) +
                      "input_dims and batch_dims both have it, which needs a stride");
      }
      if (axis.boundary != Boundary::kDrop) {
        return refuse(along("boundary", axis.name) + "only kDrop where input_dims and batch_dims both have it");
      }
      if (*batch == 0) return refuse(along("batch_dims", axis.name) + "a batch of 0 elements");
      if (*batch > axis.extent) {
        return refuse(along("batch_dims", axis.name) + "a batch of " + std::to_string(*batch) +
                      " elements, but it has " + std::to_string(axis.extent));
      }
      axis.per_sample = base::ceil_div(*batch, axis.stride);
      // If windows are longer than batches, the last batches may have no window of their own.
      axis.samples = std::min(axis.extent / *batch, base::ceil_div(axis.windows, axis.per_sample));
    } else if (batch != nullptr) {
      if (any_in_both && axis.boundary == Boundary::kDrop) axis.samples = std::min(axis.windows, axis.extent / *batch);
    } else {
      axis.per_sample = axis.windows;
      axis.samples = 1;
    }
  }
  return {};
}

Status add_output(Windows::Impl& impl, const WindowOptions& options, const WindowOutput& wanted) {
  const std::string where = "outputs: " + in_quotes(wanted.name) + ": ";
  for (const auto& other : impl.outputs) {
    if (other.name == wanted.name) return refuse(where + "given twice");
  }
  Windows::Impl::Output& output = impl.outputs.emplace_back();
  output.name = wanted.name;
  output.offset = wanted.offset;
  output.count = wanted.count;
  output.step = wanted.step;
  if (wanted.dim.empty()) return {};
  const std::uint64_t* window = find_dim(options.input_dims, wanted.dim);
  if (window == nullptr) return refuse(where + "input_dims has no dimension " + in_quotes(wanted.dim));
  if (wanted.count == 0 || wanted.step == 0) return refuse(where + "a count or step of 0");
  const auto span = base::checked_mul(wanted.count - 1, wanted.step);
  const auto last = span ? base::checked_add(*span, wanted.offset) : std::nullopt;
  if (!last || *last >= *window) {
    return refuse(where + "takes " + std::to_string(wanted.count) + " elements in steps of " +
                  std::to_string(wanted.step) + " from " + std::to_string(wanted.offset) +
                  " on, beyond the window of " + std::to_string(*window) + " along " + in_quotes(wanted.dim));
  }
  for (std::size_t at = 0; at < impl.axes.size(); ++at) {
    if (impl.axes[at].name == wanted.dim) output.axis = at;
  }
  return {};
}

Status finish_counts(Windows::Impl& impl) {
  std::optional<std::uint64_t> samples = 1, windows = 1;
  for (const std::size_t at : impl.sliced) {
    if (samples) samples = base::checked_mul(*samples, impl.axes[at].samples);
    // A dimension with one sample has all its windows in it; others count those of the first sample.
    if (windows) windows = base::checked_mul(*windows, impl.axes[at].windows_of(0));
  }
  if (!samples || *samples > loader::kMaxSamples) return refuse("input_dims and batch_dims: more than 2^63 samples");
  if (!windows || *windows > loader::kMaxSamples)
    return refuse("concat_input_dims: more than 2^63 windows in a sample");
  impl.sample_count = *samples;
  impl.window_count = *windows;
  return {};
}

}  // namespace

Result<Windows> Windows::create(const ByDim<std::uint64_t>& dims, const WindowOptions& options) {
  HEADRACE_TRY(check_parameters(dims, options));
  auto impl = std::make_shared<Impl>();
  for (const auto& [name, extent] : dims) {
    Impl::Axis& axis = impl->axes.emplace_back();
    axis.name = name;
    axis.extent = axis.window = axis.stride = extent;
  }
  const auto add_windows = [&](std::string_view parameter, std::string_view name, std::uint64_t window) -> Status {
    const auto at = static_cast<std::size_t>(
        std::find_if(dims.begin(), dims.end(), [&](const auto& dim) { return dim.first == name; }) - dims.begin());
    impl->sliced.push_back(at);
    return make_axis(impl->axes[at], options, parameter, window);
  };
  for (const auto& [name, window] : options.batch_dims) {
    if (find_dim(options.input_dims, name) == nullptr) HEADRACE_TRY(add_windows("batch_dims", name, window));
  }
  for (const auto& [name, window] : options.input_dims) HEADRACE_TRY(add_windows("input_dims", name, window));
  if (options.concat_input_dims) HEADRACE_TRY(group_windows(*impl, options));
  HEADRACE_TRY(finish_counts(*impl));
  for (const WindowOutput& output : options.outputs) HEADRACE_TRY(add_output(*impl, options, output));
  if (impl->outputs.empty()) impl->outputs.emplace_back();
  return Windows(std::move(impl));
}

std::uint64_t Windows::sample_count() const noexcept { return impl_->sample_count; }
std::uint64_t Windows::window_count() const noexcept { return impl_->window_count; }
std::size_t Windows::dim_count() const noexcept { return impl_->axes.size(); }
std::size_t Windows::output_count() const noexcept { return impl_->outputs.size(); }

std::vector<std::uint64_t> Windows::sample_grid() const {
  std::vector<std::uint64_t> grid;
  for (const std::size_t at : impl_->sliced) grid.push_back(impl_->axes[at].samples);
  return grid;
}

Result<std::vector<std::uint64_t>> Windows::samples_per_chunk(std::span<const std::uint64_t> chunk_shape) const {
  if (chunk_shape.size() != impl_->axes.size()) {
    return refuse("chunk_shape: " + std::to_string(chunk_shape.size()) + " dimensions, but the array has " +
                  std::to_string(impl_->axes.size()));
  }
  std::vector<std::uint64_t> group;
  for (const std::size_t at : impl_->sliced) {
    const Impl::Axis& axis = impl_->axes[at];
    if (chunk_shape[at] == 0) return refuse(along("chunk_shape", axis.name) + "chunks of 0 elements");
    const std::uint64_t windows = chunk_shape[at] / axis.stride;
    group.push_back(std::clamp<std::uint64_t>(windows / axis.per_sample, 1, axis.samples));
  }
  return group;
}

std::uint64_t Windows::window_count(std::uint64_t sample) const noexcept {
  std::uint64_t count = 1;
  for (std::size_t i = impl_->sliced.size(); i-- > 0;) {
    const Impl::Axis& axis = impl_->axes[impl_->sliced[i]];
    count *= axis.windows_of(sample % axis.samples);
    sample /= axis.samples;
  }
  return count;
}

DimSlice Windows::Impl::slice(const Axis& axis, std::uint64_t window, const Output* output) noexcept {
  DimSlice slice;
  slice.begin = axis.begin_of(window);
  std::uint64_t count = axis.window;
  if (output != nullptr) {
    slice.begin += output->offset;
    count = output->count;
    slice.step = output->step;
  }
  // All values stay below two extents, so nothing here overflows 64 bits.
  slice.count = slice.begin < axis.extent ? std::min(count, (axis.extent - 1 - slice.begin) / slice.step + 1) : 0;
  const std::uint64_t beyond = count - slice.count;
  if (axis.boundary == Boundary::kPad) slice.padding = beyond;
  if (axis.boundary == Boundary::kWrap && beyond > 0) {
    slice.wrapped_begin = slice.begin + slice.count * slice.step - axis.extent;
    slice.wrapped_count = beyond;
  }
  if (slice.count == 0) slice.begin = 0;
  return slice;
}

Status Windows::slices(std::uint64_t sample, std::uint64_t window, std::size_t output,
                       std::span<DimSlice> out) const noexcept try {
  const Impl& impl = *impl_;
  if (sample >= impl.sample_count) {
    return refuse("sample " + std::to_string(sample) + " of " + std::to_string(impl.sample_count));
  }
  if (output >= impl.outputs.size()) {
    return refuse("output " + std::to_string(output) + " of " + std::to_string(impl.outputs.size()));
  }
  if (out.size() != impl.axes.size()) {
    return refuse("out: room for " + std::to_string(out.size()) + " slices, but the array has " +
                  std::to_string(impl.axes.size()) + " dimensions");
  }
  if (window >= impl.window_count || (window > 0 && window >= window_count(sample))) {
    return refuse("window " + std::to_string(window) + " of sample " + std::to_string(sample) + ", which has " +
                  std::to_string(window_count(sample)));
  }
  const Impl::Output& wanted = impl.outputs[output];
  for (std::size_t at = 0; at < impl.axes.size(); ++at) out[at] = {0, impl.axes[at].extent};
  for (std::size_t i = impl.sliced.size(); i-- > 0;) {
    const std::size_t at = impl.sliced[i];
    const Impl::Axis& axis = impl.axes[at];
    const std::uint64_t of_axis = sample % axis.samples, windows = axis.windows_of(of_axis);
    sample /= axis.samples;
    out[at] = Impl::slice(axis, of_axis * axis.per_sample + window % windows, wanted.axis == at ? &wanted : nullptr);
    window /= windows;
  }
  return {};
} catch (...) {
  return Status::out_of_memory();
}

Result<Windows> Windows::restrict(std::string_view dim, std::uint64_t first, std::uint64_t count) const {
  auto impl = std::make_shared<Impl>(*impl_);
  for (const std::size_t at : impl->sliced) {
    Impl::Axis& axis = impl->axes[at];
    if (axis.name != dim) continue;
    if (axis.per_sample != 1) return refuse(along("dim", dim) + "samples have several windows along it");
    if (count == 0 || first >= axis.samples || count > axis.samples - first) {
      return refuse(along("dim", dim) + "windows " + std::to_string(first) + " to " + std::to_string(first) + " + " +
                    std::to_string(count) + " of " + std::to_string(axis.samples));
    }
    axis.first += first;
    axis.windows = axis.samples = count;
    HEADRACE_TRY(finish_counts(*impl));
    return Windows(std::move(impl));
  }
  return refuse("dim: there are no windows along a dimension " + in_quotes(dim));
}

LoaderSchema Windows::schema() const {
  using loader::Digest;
  Digest dims, windows, strides, per_sample, boundary, range, outputs;
  for (const Impl::Axis& axis : impl_->axes) dims.add(axis.name).add(axis.extent);
  for (const std::size_t at : impl_->sliced) {
    const Impl::Axis& axis = impl_->axes[at];
    windows.add(at).add(axis.window);
    strides.add(axis.stride);
    per_sample.add(axis.per_sample);
    boundary.add(static_cast<std::uint64_t>(axis.boundary));
    range.add(axis.first).add(axis.samples);
    for (const std::uint64_t start : axis.starts) range.add(start);
  }
  for (const Impl::Output& output : impl_->outputs) {
    outputs.add(output.name).add(output.axis).add(output.offset).add(output.count).add(output.step);
  }
  LoaderSchema schema;
  schema.set("dims", dims.value());
  schema.set("windows", windows.value());
  schema.set("stride", strides.value());
  schema.set("concat_input_dims", per_sample.value());
  schema.set("boundary", boundary.value());
  schema.set("range", range.value());
  schema.set("outputs", outputs.value());
  return schema;
}

}  // namespace headrace
