// Samples, their orders, and their division among ranks.
#include "capi/c_samples.h"

#include <memory>
#include <span>

using headrace::Boundary;
using headrace::ByDim;
using headrace::Crops;
using headrace::Order;
using headrace::RankBatch;
using headrace::Result;
using headrace::Split;
using headrace::Status;
using headrace::Windows;
using headrace::capi::field_end;
using headrace::capi::guarded;
using headrace::capi::invalid;
using headrace::capi::out_is_null;
using headrace::capi::require;
using headrace::capi::require_choice;
using headrace::capi::require_list;
using headrace::capi::take_options;
using headrace::capi::take_split;

namespace {

static_assert(static_cast<int>(Boundary::kDrop) == HR_BOUNDARY_DROP &&
              static_cast<int>(Boundary::kPartial) == HR_BOUNDARY_PARTIAL &&
              static_cast<int>(Boundary::kPad) == HR_BOUNDARY_PAD &&
              static_cast<int>(Boundary::kWrap) == HR_BOUNDARY_WRAP);

constexpr std::size_t kWindowEnds[] = {field_end<std::size_t>(offsetof(hr_window_options, outputs_count))};
constexpr std::size_t kCropEnds[] = {field_end<std::size_t>(offsetof(hr_crop_options, flip_count))};
constexpr std::size_t kSplitEnds[] = {field_end<std::uint64_t>(offsetof(hr_split_options, batch_size))};
static_assert(kWindowEnds[0] == sizeof(hr_window_options) && kCropEnds[0] == sizeof(hr_crop_options) &&
              kSplitEnds[0] == sizeof(hr_split_options));

Status nameless(const char* list, std::size_t i, const char* field) {
  return invalid(std::string(list) + "[" + std::to_string(i) + "]." + field +
                 " is null: name a dimension of the array");
}

Status take_by_dim(const hr_dim_value* list, std::size_t count, const char* name, ByDim<std::uint64_t>& out) {
  HEADRACE_TRY(require_list(list, count, name));
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i].dim == nullptr) return nameless(name, i, "dim");
    out.emplace_back(list[i].dim, list[i].value);
  }
  return {};
}

Status take_names(const char* const* list, std::size_t count, const char* name, std::vector<std::string>& out) {
  HEADRACE_TRY(require_list(list, count, name));
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i] == nullptr) return invalid(std::string(name) + "[" + std::to_string(i) + "] is null: name a dimension");
    out.emplace_back(list[i]);
  }
  return {};
}

Status take_outputs(const hr_window_output* list, std::size_t count, std::vector<headrace::WindowOutput>& out) {
  HEADRACE_TRY(require_list(list, count, "options->outputs"));
  for (std::size_t i = 0; i < count; ++i) {
    headrace::WindowOutput& output = out.emplace_back();
    if (list[i].name != nullptr) output.name = list[i].name;
    if (list[i].dim != nullptr) output.dim = list[i].dim;
    output.offset = list[i].offset;
    if (list[i].count != 0) output.count = list[i].count;
    if (list[i].step != 0) output.step = list[i].step;
  }
  return {};
}

Status take_window_options(const hr_window_options& from, headrace::WindowOptions& out) {
  HEADRACE_TRY(take_by_dim(from.input_dims, from.input_dims_count, "options->input_dims", out.input_dims));
  HEADRACE_TRY(take_by_dim(from.input_overlap, from.input_overlap_count, "options->input_overlap", out.input_overlap));
  HEADRACE_TRY(take_by_dim(from.input_stride, from.input_stride_count, "options->input_stride", out.input_stride));
  HEADRACE_TRY(require_list(from.input_starts, from.input_starts_count, "options->input_starts"));
  for (std::size_t i = 0; i < from.input_starts_count; ++i) {
    const hr_dim_starts& one = from.input_starts[i];
    if (one.dim == nullptr) return nameless("options->input_starts", i, "dim");
    HEADRACE_TRY(require_list(one.starts, one.count, "options->input_starts->starts"));
    out.input_starts.emplace_back(one.dim, std::vector<std::uint64_t>(one.starts, one.starts + one.count));
  }
  HEADRACE_TRY(take_by_dim(from.batch_dims, from.batch_dims_count, "options->batch_dims", out.batch_dims));
  out.concat_input_dims = from.concat_input_dims != 0;
  HEADRACE_TRY(require_choice(from.boundary, HR_BOUNDARY_WRAP, "options->boundary", "HR_BOUNDARY_"));
  out.boundary = static_cast<Boundary>(from.boundary);
  ByDim<std::uint64_t> boundaries;
  HEADRACE_TRY(take_by_dim(from.boundary_of, from.boundary_of_count, "options->boundary_of", boundaries));
  for (const auto& [dim, value] : boundaries) {
    HEADRACE_TRY(
        require_choice(value, HR_BOUNDARY_WRAP, "options->boundary_of: dimension '" + dim + "'", "HR_BOUNDARY_"));
    out.boundary_of.emplace_back(dim, static_cast<Boundary>(value));
  }
  return take_outputs(from.outputs, from.outputs_count, out.outputs);
}

const Windows& frames_of(const hr_windows& windows) noexcept {
  const auto* const own = std::get_if<Windows>(&windows.value);
  return own != nullptr ? *own : std::get_if<Crops>(&windows.value)->frames();
}

std::uint64_t sample_count_of(const hr_windows& windows) noexcept {
  const auto* const own = std::get_if<Windows>(&windows.value);
  return own != nullptr ? own->sample_count() : std::get_if<Crops>(&windows.value)->sample_count();
}

// Operations that only windows support. `how` names the operation: "restrict".
Status require_no_crops(const hr_windows& windows, const char* how) {
  if (std::holds_alternative<Windows>(windows.value)) return {};
  return invalid(std::string("the argument 'windows' contains crops: ") + how + " their frames, then crop the result");
}

// Runs `make`, which returns a Result<Order>.
template <class Make>
hr_code make_order(hr_order** out, hr_error** error, Make&& make) noexcept {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY_ASSIGN(Order order, make());
    *out = std::make_unique<hr_order>(hr_order{std::move(order)}).release();
    return {};
  });
}

}  // namespace

hr_code hr_windows_create(const hr_dim_value* dims, size_t dims_count, const hr_window_options* options,
                          hr_windows** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    ByDim<std::uint64_t> sizes;
    HEADRACE_TRY(take_by_dim(dims, dims_count, "dims", sizes));
    hr_window_options known = HR_WINDOW_OPTIONS_INIT;
    if (options != nullptr) HEADRACE_TRY(take_options(options, kWindowEnds, known));
    headrace::WindowOptions native;
    HEADRACE_TRY(take_window_options(known, native));
    HEADRACE_TRY_ASSIGN(Windows windows, Windows::create(sizes, native));
    *out = new hr_windows{std::move(windows)};
    return {};
  });
}

hr_code hr_windows_crop(const hr_windows* frames, const hr_crop_options* options, hr_windows** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(frames, "frames"));
    HEADRACE_TRY(require(options, "options"));
    const auto* const windows = std::get_if<Windows>(&frames->value);
    if (windows == nullptr)
      return invalid("the argument 'frames' contains crops, which cannot be cropped again: pass windows");
    hr_crop_options known = HR_CROP_OPTIONS_INIT;
    HEADRACE_TRY(take_options(options, kCropEnds, known));
    headrace::CropOptions native;
    HEADRACE_TRY(take_by_dim(known.dims, known.dims_count, "options->dims", native.size));
    if (known.per_frame != 0) native.per_frame = known.per_frame;
    HEADRACE_TRY(take_names(known.wrap, known.wrap_count, "options->wrap", native.wrap));
    HEADRACE_TRY(take_names(known.flip, known.flip_count, "options->flip", native.flip));
    HEADRACE_TRY_ASSIGN(Crops crops, Crops::create(*windows, native));
    *out = new hr_windows{std::move(crops)};
    return {};
  });
}

hr_code hr_windows_restrict(const hr_windows* windows, const char* dim, uint64_t first, uint64_t count,
                            hr_windows** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(windows, "windows"));
    HEADRACE_TRY(require(dim, "dim"));
    HEADRACE_TRY(require_no_crops(*windows, "restrict"));
    HEADRACE_TRY_ASSIGN(Windows fewer, frames_of(*windows).restrict(dim, first, count));
    *out = new hr_windows{std::move(fewer)};
    return {};
  });
}

hr_code hr_windows_divide(const hr_windows* windows, const char* dim, const double* weights, size_t count,
                          int drop_leaking, hr_windows** out, uint64_t* leaking, uint64_t* dropped, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  for (size_t i = 0; i < count; ++i) out[i] = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(windows, "windows"));
    HEADRACE_TRY(require(dim, "dim"));
    HEADRACE_TRY(require_list(weights, count, "weights"));
    HEADRACE_TRY(require_no_crops(*windows, "divide"));
    HEADRACE_TRY_ASSIGN(headrace::WindowParts parts,
                        headrace::divide_windows(frames_of(*windows), dim,
                                                 std::vector<double>(weights, weights + count), drop_leaking != 0));
    std::vector<std::unique_ptr<hr_windows>> made;
    for (Windows& part : parts.parts) made.push_back(std::make_unique<hr_windows>(hr_windows{std::move(part)}));
    for (size_t i = 0; i < count; ++i) {  // nothing can fail from here on
      out[i] = made[i].release();
      if (leaking != nullptr) leaking[i] = parts.leaking[i];
      if (dropped != nullptr) dropped[i] = parts.dropped[i];
    }
    return {};
  });
}

uint64_t hr_windows_sample_count(const hr_windows* windows) {
  return windows == nullptr ? 0 : sample_count_of(*windows);
}

uint64_t hr_windows_window_count(const hr_windows* windows, uint64_t sample) {
  if (windows == nullptr || sample >= sample_count_of(*windows)) return 0;
  const Windows& frames = frames_of(*windows);
  return frames.window_count(sample / (sample_count_of(*windows) / frames.sample_count()));
}

size_t hr_windows_dim_count(const hr_windows* windows) {
  return windows == nullptr ? 0 : frames_of(*windows).dim_count();
}

size_t hr_windows_output_count(const hr_windows* windows) {
  return windows == nullptr ? 0 : frames_of(*windows).output_count();
}

hr_code hr_windows_slices(const hr_windows* windows, uint64_t seed, uint64_t epoch, uint64_t sample, uint64_t window,
                          size_t output, hr_dim_slice* out, size_t count, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(windows, "windows"));
    HEADRACE_TRY(require_list(out, count, "out"));
    const std::size_t dims = frames_of(*windows).dim_count();
    if (count != dims) {
      return invalid("the argument 'count' is " + std::to_string(count) + ", and the windows have " +
                     std::to_string(dims) + " dimensions: pass room for one slice per dimension");
    }
    std::vector<headrace::DimSlice> slices(dims);
    const auto* const own = std::get_if<Windows>(&windows->value);
    HEADRACE_TRY(own != nullptr ? own->slices(sample, window, output, slices)
                                : std::get<Crops>(windows->value).slices(seed, epoch, sample, window, output, slices));
    for (std::size_t i = 0; i < dims; ++i) {
      const headrace::DimSlice& slice = slices[i];
      out[i] = {slice.begin,   slice.count,           slice.step, slice.wrapped_begin, slice.wrapped_count,
                slice.padding, slice.flipped ? 1 : 0, 0};
    }
    return {};
  });
}

void hr_windows_free(hr_windows* windows) { delete windows; }

hr_code hr_order_sequential(uint64_t samples, hr_order** out, hr_error** error) {
  return make_order(out, error, [&] { return Order::sequential(samples); });
}

hr_code hr_order_full_shuffle(uint64_t samples, hr_order** out, hr_error** error) {
  return make_order(out, error, [&] { return Order::full_shuffle(samples); });
}

hr_code hr_order_block_shuffle(const hr_windows* windows, const hr_array* array, uint64_t groups_in_buffer,
                               hr_order** out, hr_error** error) {
  return hr_order_partitioned_block_shuffle(windows, array, groups_in_buffer, 1, 1, out, error);
}

hr_code hr_order_partitioned_block_shuffle(const hr_windows* windows, const hr_array* array, uint64_t groups_in_buffer,
                                           uint64_t partitions, uint64_t partition_run, hr_order** out,
                                           hr_error** error) {
  return make_order(out, error, [&]() -> Result<Order> {
    HEADRACE_TRY(require(windows, "windows"));
    HEADRACE_TRY(require(array, "array"));
    const Windows& frames = frames_of(*windows);
    headrace::BlockShuffle block;
    HEADRACE_TRY_ASSIGN(block.group, frames.samples_per_chunk(array->value.info().chunk_shape));
    if (const auto* const crops = std::get_if<Crops>(&windows->value)) {
      block.grid = crops->sample_grid();
      block.group.push_back(block.grid.back());  // the crops of a frame share its chunks
    } else {
      block.grid = frames.sample_grid();
    }
    if (groups_in_buffer != 0) block.groups_in_buffer = groups_in_buffer;
    block.partitions = partitions;
    block.partition_run = partition_run;
    return Order::block_shuffle(block);
  });
}

hr_code hr_order_list(const uint64_t* ids, size_t count, uint64_t samples, int shuffle, hr_order** out,
                      hr_error** error) {
  return make_order(out, error, [&]() -> Result<Order> {
    HEADRACE_TRY(require_list(ids, count, "ids"));
    return Order::list(std::vector<std::uint64_t>(ids, ids + count), samples, shuffle != 0);
  });
}

hr_code hr_order_weighted(const double* weights, size_t count, uint64_t draws, uint64_t table_bytes, hr_order** out,
                          hr_error** error) {
  return make_order(out, error, [&]() -> Result<Order> {
    HEADRACE_TRY(require_list(weights, count, "weights"));
    headrace::WeightOptions options;
    options.draws = draws;
    if (table_bytes != 0) options.table_bytes = table_bytes;
    return Order::weighted(std::vector<double>(weights, weights + count), options);
  });
}

uint64_t hr_order_positions(const hr_order* order) { return order == nullptr ? 0 : order->value.positions(); }

uint64_t hr_order_samples(const hr_order* order) { return order == nullptr ? 0 : order->value.samples(); }

uint64_t hr_order_buffer_positions(const hr_order* order) {
  return order == nullptr ? 0 : order->value.buffer_positions();
}

hr_code hr_order_epoch(const hr_order* order, uint64_t seed, uint64_t epoch, uint64_t first, size_t count,
                       uint64_t* samples, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(order, "order"));
    HEADRACE_TRY(require_list(samples, count, "samples"));
    const std::uint64_t positions = order->value.positions();
    if (first > positions || count > positions - first) {
      return invalid("positions " + std::to_string(first) + " and the " + std::to_string(count) +
                     " from there on exceed the " + std::to_string(positions) + " positions of an epoch");
    }
    const headrace::EpochOrder of_epoch = order->value.epoch(seed, epoch);
    for (std::size_t i = 0; i < count; ++i) samples[i] = of_epoch.sample(first + i);
    return {};
  });
}

void hr_order_free(hr_order* order) { delete order; }

hr_code hr_split_create(const hr_split_options* options, uint64_t positions, uint64_t consumed, hr_split** out,
                        hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    hr_split_options known = HR_SPLIT_OPTIONS_INIT;
    if (options != nullptr) HEADRACE_TRY(take_options(options, kSplitEnds, known));
    headrace::SplitOptions native;
    HEADRACE_TRY(take_split(known, native));
    HEADRACE_TRY_ASSIGN(Split split, Split::create(native, positions, consumed));
    *out = new hr_split{split};
    return {};
  });
}

uint64_t hr_split_batches(const hr_split* split) { return split == nullptr ? 0 : split->value.batches(); }

uint64_t hr_split_global_batch_size(const hr_split* split) {
  return split == nullptr ? 0 : split->value.global_batch_size();
}

hr_code hr_split_batch(const hr_split* split, uint64_t index, uint64_t* positions, size_t count, uint64_t* valid,
                       hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(split, "split"));
    HEADRACE_TRY(require_list(positions, count, "positions"));
    const std::uint64_t batches = split->value.batches();
    if (index >= batches) {
      return invalid("batch " + std::to_string(index) + " is not one of the " + std::to_string(batches) +
                     " batches left in the epoch");
    }
    const RankBatch batch = split->value.batch(index);
    if (count != batch.size) {
      return invalid("the argument 'count' is " + std::to_string(count) + ", and a batch has " +
                     std::to_string(batch.size) + " places: pass room for one position per place");
    }
    for (std::size_t place = 0; place < count; ++place) positions[place] = batch.position(place);
    if (valid != nullptr) *valid = batch.valid;
    return {};
  });
}

hr_code hr_split_after(const hr_split* split, uint64_t done, uint64_t epoch, uint64_t* after_epoch, uint64_t* consumed,
                       hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(split, "split"));
    const std::uint64_t batches = split->value.batches();
    if (done > batches) {
      return invalid("the argument 'done' is " + std::to_string(done) + ", but only " + std::to_string(batches) +
                     " batches are left in the epoch");
    }
    const headrace::LoaderPosition at = split->value.after(done, epoch);
    if (after_epoch != nullptr) *after_epoch = at.epoch;
    if (consumed != nullptr) *consumed = at.consumed;
    return {};
  });
}

hr_code hr_split_share(const hr_split* split, uint64_t extent, uint64_t align, uint64_t* begin, uint64_t* count,
                       hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(split, "split"));
    HEADRACE_TRY(require(begin, "begin"));
    HEADRACE_TRY(require(count, "count"));
    HEADRACE_TRY_ASSIGN(const Split::Share share, split->value.share(extent, align == 0 ? 1 : align));
    *begin = share.begin;
    *count = share.count;
    return {};
  });
}

void hr_split_free(hr_split* split) { delete split; }
