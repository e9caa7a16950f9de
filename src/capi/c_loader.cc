// Loaders and their batches.
#include <headrace/loader.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "capi/c_call.h"
#include "capi/c_samples.h"

using headrace::Code;
using headrace::Layer;
using headrace::LoaderArray;
using headrace::LoaderTensor;
using headrace::Status;
using headrace::capi::field_end;
using headrace::capi::give_line;
using headrace::capi::give_struct;
using headrace::capi::guarded;
using headrace::capi::invalid;
using headrace::capi::out_is_null;
using headrace::capi::require;
using headrace::capi::require_choice;
using headrace::capi::require_list;
using headrace::capi::take_options;
using headrace::capi::take_split;

namespace {

// Shared by all batches of a loader; they outlive it.
struct Described {
  std::string device;
  std::vector<LoaderTensor> tensors;
  std::vector<std::vector<std::int64_t>> strides_bytes;
  std::vector<std::uint64_t> bytes;
};

}  // namespace

struct hr_loader {
  headrace::Loader value;
  std::shared_ptr<const Described> described;
};
struct hr_batch {
  std::optional<headrace::LoaderBatch> value;  // set once the caller has the handle
  std::shared_ptr<const Described> described;
  bool released = false;
};

namespace {

constexpr std::size_t kArrayEnds[] = {field_end<std::size_t>(offsetof(hr_loader_array, scale_by_count))};
constexpr std::size_t kLoaderEnds[] = {field_end<std::uint64_t>(offsetof(hr_loader_options, host_cache_bytes))};
constexpr std::size_t kTensorEnds[] = {field_end<std::uint64_t>(offsetof(hr_tensor, data_bytes))};
constexpr std::size_t kTimesEnds[] = {field_end<std::uint64_t>(offsetof(hr_batch_times, batches))};
constexpr std::size_t kTotalsEnds[] = {field_end<std::uint64_t>(offsetof(hr_loader_totals, straight_bytes))};
static_assert(kArrayEnds[0] == sizeof(hr_loader_array) && kLoaderEnds[0] == sizeof(hr_loader_options) &&
              kTensorEnds[0] == sizeof(hr_tensor) && kTimesEnds[0] == sizeof(hr_batch_times) &&
              kTotalsEnds[0] == sizeof(hr_loader_totals));

Status take_bytes(const void* bytes, std::size_t count, const std::string& name, std::vector<std::byte>& out) {
  HEADRACE_TRY(require_list(bytes, count, name.c_str()));
  if (bytes != nullptr && count == 0) {
    return invalid(name + "_bytes is 0: give the bytes of one element, or null for none");
  }
  const auto* const first = static_cast<const std::byte*>(bytes);
  out.assign(first, first + count);
  return {};
}

Status take_read(const hr_loader_array& from, const std::string& where, headrace::ReadOptions& out) {
  if (from.dtype != nullptr) out.dtype = from.dtype;
  if (from.scale != 0) out.scale = from.scale;
  out.offset = from.offset;
  out.fill_as_nan = from.fill_as_nan != 0;
  out.damage_as_nan = from.damage_as_nan != 0;
  HEADRACE_TRY(require_choice(from.placement, HR_PLACEMENT_GPU, where + "placement", "HR_PLACEMENT_"));
  out.placement = from.placement == HR_PLACEMENT_GPU   ? headrace::Placement::kGpu
                  : from.placement == HR_PLACEMENT_CPU ? headrace::Placement::kCpu
                                                       : headrace::Placement::kAuto;
  HEADRACE_TRY(require_choice(from.verify, HR_VERIFY_WHOLE, where + "verify", "HR_VERIFY_"));
  out.verify = from.verify == HR_VERIFY_WHOLE ? headrace::Verify::kWhole : headrace::Verify::kAsRead;
  return take_bytes(from.missing, from.missing_bytes, where + "missing", out.missing);
}

Status take_array(const hr_loader_array* given, std::size_t number, std::vector<LoaderArray>& out) {
  const std::string argument = "arrays[" + std::to_string(number) + "]", where = argument + "->";
  HEADRACE_TRY(require(given, argument.c_str()));
  hr_loader_array from = HR_LOADER_ARRAY_INIT;
  HEADRACE_TRY(take_options(given, kArrayEnds, from));
  HEADRACE_TRY(require(from.name, (where + "name").c_str()));
  HEADRACE_TRY(require(from.array, (where + "array").c_str()));
  HEADRACE_TRY(require(from.samples, (where + "samples").c_str()));
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.StringChecker): require() has ensured a name
  LoaderArray array{.name = from.name, .array = from.array->value, .samples = from.samples->value};
  HEADRACE_TRY(take_read(from, where, array.read));
  HEADRACE_TRY(take_bytes(from.padding, from.padding_bytes, where + "padding", array.padding));
  if (from.stack != nullptr) array.stack = from.stack;
  HEADRACE_TRY(require_list(from.positions, from.positions_count, (where + "positions").c_str()));
  for (std::size_t i = 0; i < from.positions_count; ++i) {
    const hr_dim_positions& one = from.positions[i];
    HEADRACE_TRY(require_list(one.positions, one.count, (where + "positions->positions").c_str()));
    array.positions.emplace_back(one.dim, std::vector<std::int64_t>(one.positions, one.positions + one.count));
  }
  HEADRACE_TRY(require_list(from.scale_by_dims, from.scale_by_dims_count, (where + "scale_by_dims").c_str()));
  HEADRACE_TRY(require_list(from.scale_by_scale, from.scale_by_count, (where + "scale_by_scale").c_str()));
  HEADRACE_TRY(require_list(from.scale_by_offset, from.scale_by_count, (where + "scale_by_offset").c_str()));
  if (from.scale_by_dims_count == 0 && from.scale_by_count != 0) {
    return invalid(where + "scale_by_count is " + std::to_string(from.scale_by_count) +
                   ", but scale_by_dims is empty: name the dimensions that the scales apply to");
  }
  array.scale_by.dims.assign(from.scale_by_dims, from.scale_by_dims + from.scale_by_dims_count);
  array.scale_by.scale.assign(from.scale_by_scale, from.scale_by_scale + from.scale_by_count);
  array.scale_by.offset.assign(from.scale_by_offset, from.scale_by_offset + from.scale_by_count);
  out.push_back(std::move(array));
  return {};
}

Status take_loader_options(const hr_loader_options& from, headrace::LoaderOptions& out) {
  if (from.order != nullptr) out.order = from.order->value;
  out.seed = from.seed;
  out.epochs = from.epochs;
  HEADRACE_TRY(take_split(from, out.split));
  out.read_together = from.read_together;
  if (from.read_ahead != 0) out.read_ahead = from.read_ahead;
  if (from.memory_bytes != 0) out.memory_bytes = from.memory_bytes;
  out.cache_bytes = from.cache_bytes;
  out.leave_free_bytes = from.leave_free_bytes;
  out.host_cache_bytes = from.host_cache_bytes;
  HEADRACE_TRY(require_choice(from.cache_form, HR_CACHE_ENCODED, "options->cache_form", "HR_CACHE_"));
  out.cache_form = from.cache_form == HR_CACHE_ENCODED ? headrace::CacheForm::kEncoded : headrace::CacheForm::kDecoded;
  HEADRACE_TRY(require_choice(from.on_damage, HR_DAMAGE_SKIP, "options->on_damage", "HR_DAMAGE_"));
  out.on_damage = from.on_damage == HR_DAMAGE_SKIP ? headrace::OnDamage::kSkip : headrace::OnDamage::kFail;
  out.channels_last = from.channels_last != 0;
  if (from.reserved != 0) return invalid("options->reserved is not zero");
  if (from.state != nullptr) {
    HEADRACE_TRY_ASSIGN(out.state, headrace::LoaderState::from_json(from.state));
  }
  return {};
}

std::shared_ptr<const Described> describe(const headrace::Loader& loader, const headrace::Device& device) {
  auto made = std::make_shared<Described>();
  made->device = device.name();
  made->tensors = loader.tensors();
  for (const LoaderTensor& tensor : made->tensors) {
    std::vector<std::int64_t>& strides = made->strides_bytes.emplace_back(tensor.shape.size());
    std::uint64_t bytes = tensor.dtype.item_bytes;  // below 2^62, or the loader would not exist
    for (std::size_t d = tensor.shape.size(); d-- > 0; bytes *= tensor.shape[d]) {
      strides[d] = static_cast<std::int64_t>(bytes);
    }
    made->bytes.push_back(bytes);
  }
  return made;
}

Status no_tensor(const Described& described, std::size_t index) {
  return invalid("there is no tensor " + std::to_string(index) + ": a batch has " +
                 std::to_string(described.tensors.size()));
}

Status given_back() { return invalid("the batch was released: use its tensors before releasing it"); }

Status give_tensor(const Described& described, std::size_t index, void* data, hr_tensor* out) {
  const LoaderTensor& tensor = described.tensors[index];
  const hr_tensor made = {sizeof(hr_tensor),
                          tensor.array.c_str(),
                          tensor.output.c_str(),
                          tensor.dtype.name.c_str(),
                          described.device.c_str(),
                          tensor.dtype.item_bytes,
                          static_cast<std::uint32_t>(tensor.shape.size()),
                          tensor.shape.data(),
                          described.strides_bytes[index].data(),
                          data,
                          described.bytes[index]};
  return give_struct(made, kTensorEnds, out);
}

hr_code give_state(const hr_loader* loader, const std::uint64_t* epoch, char* text, std::size_t bytes,
                   std::size_t* needed, hr_error** error) noexcept {
  if (needed != nullptr) *needed = 0;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(loader, "loader"));
    headrace::LoaderState state = loader->value.state();
    if (epoch != nullptr) state.at = {*epoch, 0};
    return give_line(state.to_json(), text, bytes, needed);
  });
}

}  // namespace

hr_code hr_loader_create(hr_device* device, const hr_loader_array* const* arrays, size_t count,
                         const hr_loader_options* options, hr_loader** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(device, "device"));
    HEADRACE_TRY(require_list(arrays, count, "arrays"));
    std::vector<LoaderArray> native_arrays;
    for (size_t i = 0; i < count; ++i) HEADRACE_TRY(take_array(arrays[i], i, native_arrays));
    hr_loader_options known = HR_LOADER_OPTIONS_INIT;
    if (options != nullptr) HEADRACE_TRY(take_options(options, kLoaderEnds, known));
    headrace::LoaderOptions native;
    HEADRACE_TRY(take_loader_options(known, native));
    HEADRACE_TRY_ASSIGN(headrace::Loader loader,
                        headrace::Loader::create(device->value, std::move(native_arrays), native));
    auto described = describe(loader, device->value);
    *out = new hr_loader{std::move(loader), std::move(described)};
    return {};
  });
}

void hr_loader_free(hr_loader* loader) { delete loader; }

hr_code hr_loader_next(hr_loader* loader, hr_batch** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(loader, "loader"));
    auto handle = std::make_unique<hr_batch>();  // allocated first: a batch without a handle would be lost
    HEADRACE_TRY_ASSIGN(handle->value, loader->value.next());
    if (!handle->value) return {};
    handle->described = loader->described;
    *out = handle.release();
    return {};
  });
}

hr_code hr_loader_restart_at(hr_loader* loader, const char* state, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(loader, "loader"));
    HEADRACE_TRY(require(state, "state"));
    HEADRACE_TRY_ASSIGN(const headrace::LoaderState at, headrace::LoaderState::from_json(state));
    return loader->value.restart_at(at);
  });
}

int hr_loader_wait_for(hr_loader* loader, uint64_t timeout_ns) {
  if (loader == nullptr) return 1;
  constexpr std::uint64_t kMax = std::uint64_t{1} << 61;  // 73 years: added to the clock it still fits 63 bits
  const std::chrono::nanoseconds timeout(static_cast<std::int64_t>(std::min(timeout_ns, kMax)));
  bool ready = false;
  guarded(nullptr, [&]() -> Status {
    ready = loader->value.wait_for(timeout);
    return {};
  });
  return ready ? 1 : 0;
}

void hr_loader_cancel(hr_loader* loader) {
  if (loader != nullptr) loader->value.cancel();
}

void hr_loader_release_cache(hr_loader* loader) {
  if (loader != nullptr) loader->value.release_cache();
}

uint64_t hr_loader_sample_count(const hr_loader* loader) {
  return loader == nullptr ? 0 : loader->value.sample_count();
}

uint64_t hr_loader_batches(const hr_loader* loader) { return loader == nullptr ? 0 : loader->value.batches(); }

uint64_t hr_loader_batches_left(const hr_loader* loader) {
  return loader == nullptr ? 0 : loader->value.batches_left();
}

hr_code hr_loader_position(const hr_loader* loader, uint64_t* epoch, uint64_t* consumed, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(loader, "loader"));
    const headrace::LoaderPosition at = loader->value.state().at;
    if (epoch != nullptr) *epoch = at.epoch;
    if (consumed != nullptr) *consumed = at.consumed;
    return {};
  });
}

hr_code hr_loader_state(const hr_loader* loader, char* text, size_t bytes, size_t* needed, hr_error** error) {
  return give_state(loader, nullptr, text, bytes, needed, error);
}

hr_code hr_loader_state_of_epoch(const hr_loader* loader, uint64_t epoch, char* text, size_t bytes, size_t* needed,
                                 hr_error** error) {
  return give_state(loader, &epoch, text, bytes, needed, error);
}

hr_code hr_loader_schema(const hr_loader* loader, hr_schema** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(loader, "loader"));
    *out = std::make_unique<hr_schema>(hr_schema{loader->value.schema()}).release();
    return {};
  });
}

size_t hr_loader_tensor_count(const hr_loader* loader) {
  return loader == nullptr ? 0 : loader->described->tensors.size();
}

hr_code hr_loader_tensor(const hr_loader* loader, size_t index, hr_tensor* out, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(loader, "loader"));
    HEADRACE_TRY(require(out, "out"));
    if (index >= loader->described->tensors.size()) return no_tensor(*loader->described, index);
    return give_tensor(*loader->described, index, nullptr, out);
  });
}

hr_code hr_loader_tensor_index(const hr_loader* loader, const char* array, const char* output, size_t* index,
                               hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(loader, "loader"));
    HEADRACE_TRY(require(array, "array"));
    HEADRACE_TRY(require(index, "index"));
    const std::string_view of_array = array, of_output = output == nullptr ? "" : output;
    const auto name = [](std::string_view first, std::string_view second) {
      std::string text = "'" + std::string(first) + "'";
      return second.empty() ? text : text + " '" + std::string(second) + "'";
    };
    std::string there;
    const std::vector<LoaderTensor>& tensors = loader->described->tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].array == of_array && tensors[i].output == of_output) {
        *index = i;
        return {};
      }
      there += (there.empty() ? "" : ", ") + name(tensors[i].array, tensors[i].output);
    }
    return Status(Code::kNotFound, Layer::kApi,
                  "the loader has no tensor " + name(of_array, of_output) + "; it has " + there);
  });
}

hr_code hr_batch_tensor(const hr_batch* batch, size_t index, hr_tensor* out, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(batch, "batch"));
    HEADRACE_TRY(require(out, "out"));
    if (index >= batch->described->tensors.size()) return no_tensor(*batch->described, index);
    if (batch->released) return given_back();
    const headrace::TensorView view = batch->value->tensor(index);
    return give_tensor(*batch->described, index, view.memory.data() + view.first_byte, out);
  });
}

hr_code hr_batch_copy_to_host(const hr_batch* batch, size_t index, size_t offset_bytes, void* dst, size_t bytes,
                              hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(batch, "batch"));
    if (index >= batch->described->tensors.size()) return no_tensor(*batch->described, index);
    if (batch->released) return given_back();
    HEADRACE_TRY(require_list(dst, bytes, "dst"));
    return batch->value->copy_to_host(index, offset_bytes, static_cast<std::byte*>(dst), bytes);
  });
}

const uint64_t* hr_batch_samples(const hr_batch* batch) {
  return batch == nullptr ? nullptr : batch->value->samples().data();
}

uint64_t hr_batch_size(const hr_batch* batch) { return batch == nullptr ? 0 : batch->value->samples().size(); }

uint64_t hr_batch_valid(const hr_batch* batch) { return batch == nullptr ? 0 : batch->value->valid(); }

uint64_t hr_batch_epoch(const hr_batch* batch) { return batch == nullptr ? 0 : batch->value->epoch(); }

uint64_t hr_batch_number(const hr_batch* batch) { return batch == nullptr ? 0 : batch->value->number(); }

hr_code hr_batch_release(hr_batch* batch, void* const* native_streams, size_t count, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(batch, "batch"));
    HEADRACE_TRY(require_list(native_streams, count, "native_streams"));
    batch->released = true;
    return batch->value->release({native_streams, count});
  });
}

void hr_batch_free(hr_batch* batch) { delete batch; }

hr_code hr_batch_timing(const hr_batch* batch, hr_batch_times* out, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(batch, "batch"));
    HEADRACE_TRY(require(out, "out"));
    const headrace::LoaderTiming timing = batch->value->timing();
    const hr_batch_times made = {sizeof(hr_batch_times), timing.planned_ns, timing.begun_ns,     timing.ready_ns,
                                 timing.asked_ns,        timing.given_ns,   timing.read_seconds, timing.decode_seconds,
                                 timing.place_seconds,   timing.chunks,     timing.kept_chunks,  timing.read_bytes,
                                 timing.decoded_bytes,   timing.batches};
    return give_struct(made, kTimesEnds, out);
  });
}

hr_code hr_loader_stats(const hr_loader* loader, hr_loader_totals* out, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(loader, "loader"));
    HEADRACE_TRY(require(out, "out"));
    const headrace::LoaderStats& stats = loader->value.stats();
    const headrace::Stats& reads = stats.reads;
    hr_loader_totals made = HR_LOADER_TOTALS_INIT;
    made.batches = stats.batches;
    made.skipped = stats.skipped;
    made.wait_seconds = stats.wait_seconds;
    made.chunks = reads.chunks;
    made.missing_chunks = reads.missing_chunks;
    made.damaged_chunks = reads.damaged_chunks;
    made.kept_chunks = reads.kept_chunks;
    made.gpu_chunks = reads.gpu_chunks;
    made.cpu_chunks = reads.cpu_chunks;
    made.kept_encoded_chunks = reads.kept_encoded_chunks;
    made.requests = reads.requests;
    made.stored_bytes = reads.stored_bytes;
    made.read_bytes = reads.read_bytes;
    made.bus_bytes = reads.bus_bytes;
    made.decoded_bytes = reads.decoded_bytes;
    made.direct_bytes = reads.direct_bytes;
    made.engine_bytes = reads.engine_bytes;
    made.buffered_bytes = reads.buffered_bytes;
    made.memory_bytes = reads.memory_bytes;
    made.mapped_bytes = reads.mapped_bytes;
    made.store_bytes = reads.store_bytes;
    made.packed_bytes = reads.packed_bytes;
    made.plan_seconds = reads.plan_seconds;
    made.open_seconds = reads.open_seconds;
    made.read_seconds = reads.read_seconds;
    made.decode_seconds = reads.decode_seconds;
    made.assemble_seconds = reads.assemble_seconds;
    made.copy_seconds = reads.copy_seconds;
    made.wall_seconds = reads.wall_seconds;
    made.path = reads.path.c_str();
    made.kept_bytes = stats.kept_bytes;
    made.cache_released = stats.cache_released ? 1 : 0;
    made.cache_bytes = reads.cache_bytes;
    made.host_kept_bytes = stats.host_kept_bytes;
    made.straight_bytes = reads.straight_bytes;
    return give_struct(made, kTotalsEnds, out);
  });
}
