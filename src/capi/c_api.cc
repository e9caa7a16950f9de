// The C API, as handles around the C++ objects. No exception crosses the boundary.
#include <headrace/array.h>
#include <headrace/cancel.h>
#include <headrace/context.h>
#include <headrace/device.h>
#include <headrace/group.h>
#include <headrace/headrace.h>
#include <headrace/selection.h>
#include <headrace/status.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/checked.h"
#include "capi/c_call.h"

using headrace::Code;
using headrace::Layer;
using headrace::Result;
using headrace::Status;
using headrace::capi::field_end;
using headrace::capi::guarded;
using headrace::capi::invalid;
using headrace::capi::out_is_null;
using headrace::capi::out_of_memory_error;
using headrace::capi::require;
using headrace::capi::take_options;

struct hr_buffer {
  headrace::Buffer value;
};
struct hr_completion {
  headrace::Completion value;
};
struct hr_variable {
  headrace::VariableResult value;
};
struct hr_cancel {
  headrace::Cancel value;
};
struct hr_stored_chunks {
  headrace::StoredChunks value;
  std::uint32_t rank;
};
struct hr_names {
  std::vector<std::string> value;
};

namespace {

static_assert(static_cast<int>(Code::kOk) == HR_OK && static_cast<int>(Code::kInvalidArgument) == HR_INVALID_ARGUMENT &&
              static_cast<int>(Code::kNotFound) == HR_NOT_FOUND && static_cast<int>(Code::kCorrupt) == HR_CORRUPT &&
              static_cast<int>(Code::kShort) == HR_SHORT && static_cast<int>(Code::kIo) == HR_IO &&
              static_cast<int>(Code::kAgainExhausted) == HR_AGAIN_EXHAUSTED &&
              static_cast<int>(Code::kTimeout) == HR_TIMEOUT && static_cast<int>(Code::kCancelled) == HR_CANCELLED &&
              static_cast<int>(Code::kResourceExhausted) == HR_RESOURCE_EXHAUSTED &&
              static_cast<int>(Code::kUnsupported) == HR_UNSUPPORTED &&
              static_cast<int>(Code::kPermission) == HR_PERMISSION &&
              static_cast<int>(Code::kDeviceLost) == HR_DEVICE_LOST && static_cast<int>(Code::kForked) == HR_FORKED &&
              static_cast<int>(Code::kInternal) == HR_INTERNAL);

// CMake's version, "0.1.0", must match the headers'.
#define HEADRACE_TEXT_(number) #number
#define HEADRACE_TEXT(number) HEADRACE_TEXT_(number)
static_assert(std::string_view(HEADRACE_PROJECT_VERSION) ==
                  HEADRACE_TEXT(HEADRACE_VERSION_MAJOR) "." HEADRACE_TEXT(HEADRACE_VERSION_MINOR) "." HEADRACE_TEXT(
                      HEADRACE_VERSION_PATCH),
              "headrace/version.h is of another version than CMakeLists.txt");

constexpr std::size_t kContextEnds[] = {
    field_end<const char*>(offsetof(hr_context_options, engine)),
    field_end<std::uint32_t>(offsetof(hr_context_options, reserved)),
    field_end<std::uint64_t>(offsetof(hr_context_options, host_budget_bytes)),
    field_end<std::uint64_t>(offsetof(hr_context_options, device_budget_bytes)),
    field_end<std::uint64_t>(offsetof(hr_context_options, stored_budget_bytes)),
};
constexpr std::size_t kOpenEnds[] = {
    field_end<const char*>(offsetof(hr_open_options, lenient)),
};
constexpr std::size_t kReadEnds[] = {
    field_end<std::uint64_t>(offsetof(hr_read_options, data_bytes)),
    field_end<const std::int64_t*>(offsetof(hr_read_options, strides_bytes)),
    field_end<void*>(offsetof(hr_read_options, native_stream)),
    field_end<std::uint32_t>(offsetof(hr_read_options, verify)),
    field_end<const char*>(offsetof(hr_read_options, dtype)),
    field_end<double>(offsetof(hr_read_options, scale)),
    field_end<double>(offsetof(hr_read_options, offset)),
    field_end<std::int32_t>(offsetof(hr_read_options, damage_as_nan)),
    field_end<const char*>(offsetof(hr_read_options, blocks)),
    field_end<const hr_cancel*>(offsetof(hr_read_options, cancel)),
};

constexpr std::size_t kVariableEnds[] = {
    field_end<const char*>(offsetof(hr_variable_options, selection)),
    field_end<std::uint64_t>(offsetof(hr_variable_options, max_bytes)),
    field_end<const hr_cancel*>(offsetof(hr_variable_options, cancel)),
};

Status take_open_options(const hr_open_options* given, headrace::OpenOptions& out) {
  hr_open_options known = HR_OPEN_OPTIONS_INIT;
  if (given != nullptr) HEADRACE_TRY(take_options(given, kOpenEnds, known));
  if (known.lenient != nullptr) out.lenient = known.lenient;
  return {};
}

struct PreparedRead {
  headrace::Selection selection;
  headrace::TensorView tensor;
  headrace::ReadOptions options;
};

Status prepare(const hr_array* array, const hr_device* device, const hr_read_options* given, PreparedRead& out) {
  HEADRACE_TRY(require(array, "array"));
  HEADRACE_TRY(require(device, "device"));
  HEADRACE_TRY(require(given, "options"));
  hr_read_options options = HR_READ_OPTIONS_INIT;
  HEADRACE_TRY(take_options(given, kReadEnds, options));

  const headrace::ArrayInfo& info = array->value.info();
  const auto given_text = [](const char* text) { return text != nullptr && text[0] != '\0'; };
  const bool selection = given_text(options.selection), blocks = given_text(options.blocks);
  if (selection + blocks + (options.points != nullptr) > 1) {
    return invalid("only one of options.selection, options.points and options.blocks may be given");
  }
  if (selection) {
    HEADRACE_TRY_ASSIGN(out.selection, headrace::parse_selection(options.selection));
  }
  if (blocks) {
    HEADRACE_TRY_ASSIGN(out.selection, headrace::parse_blocks(options.blocks));
  }
  if (options.points != nullptr) {
    const std::size_t rank = info.shape.size();
    if (rank == 0) return invalid("options.points needs an array with at least one dimension");
    if (options.point_count > (std::uint64_t{1} << 48)) return invalid("options.point_count is above 2^48");
    std::vector<std::vector<std::int64_t>> coordinates(rank);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      coordinates[axis].resize(static_cast<std::size_t>(options.point_count));
      for (std::size_t i = 0; i < coordinates[axis].size(); ++i) {
        coordinates[axis][i] = options.points[i * rank + axis];
      }
    }
    out.selection = headrace::points(std::move(coordinates));
  }
  if (info.dtype.is_variable_length()) {
    return Status(Code::kUnsupported, Layer::kApi,
                  "elements of type '" + info.dtype.name +
                      "' have variable length, which a tensor cannot hold: use hr_array_read_variable");
  }
  HEADRACE_TRY_ASSIGN(headrace::ResolvedSelection resolved, array->value.resolve(out.selection));

  if (options.dtype != nullptr) out.options.dtype = options.dtype;
  if (options.scale != 0) out.options.scale = options.scale;
  out.options.offset = options.offset;
  out.options.fill_as_nan = options.fill_as_nan != 0;
  out.options.damage_as_nan = options.damage_as_nan != 0;
  HEADRACE_TRY_ASSIGN(const headrace::DataType dtype, headrace::result_dtype(info.dtype, out.options));

  std::optional<std::uint64_t> bytes = dtype.item_bytes;
  bool empty = false;
  for (std::uint64_t count : resolved.shape) {
    if (count == 0) empty = true;
    if (bytes) bytes = headrace::base::checked_mul(*bytes, count);
  }
  if (empty) bytes = 0;
  if (!bytes) return invalid("the selection's size does not fit 64 bits");
  if (!empty) HEADRACE_TRY(require(options.data, "options.data"));
  if (options.strides_bytes == nullptr && options.data_bytes < *bytes) {
    return invalid("the selection decodes to " + std::to_string(*bytes) + " bytes, and options.data_bytes is " +
                   std::to_string(options.data_bytes));
  }
  auto* const data = static_cast<std::byte*>(options.data);
  std::vector<std::int64_t> strides;
  std::uint64_t before = 0;  // bytes of memory before `data`, due to negative strides
  for (std::size_t i = 0; options.strides_bytes != nullptr && i < resolved.shape.size(); ++i) {
    const std::int64_t stride = options.strides_bytes[i];
    strides.push_back(stride);
    if (stride >= 0 || empty) continue;
    const auto reach = headrace::base::checked_mul(resolved.shape[i] - 1, -static_cast<std::uint64_t>(stride));
    const auto sum = reach ? headrace::base::checked_add(before, *reach) : std::nullopt;
    if (!sum || *sum > options.data_bytes) {
      return invalid("options.strides_bytes reach further before options.data than options.data_bytes, " +
                     std::to_string(options.data_bytes) + " bytes");
    }
    before = *sum;
  }
  out.tensor = headrace::TensorView({data - before, static_cast<std::size_t>(options.data_bytes)}, dtype,
                                    std::move(resolved.shape), std::move(strides), static_cast<std::size_t>(before));
  out.options.native_stream = options.native_stream;
  if (options.cancel != nullptr) out.options.cancel = options.cancel->value;
  if (options.placement > HR_PLACEMENT_GPU) return invalid("options.placement is not one of HR_PLACEMENT_...");
  out.options.placement = options.placement == HR_PLACEMENT_GPU   ? headrace::Placement::kGpu
                          : options.placement == HR_PLACEMENT_CPU ? headrace::Placement::kCpu
                                                                  : headrace::Placement::kAuto;
  if (options.verify > HR_VERIFY_WHOLE) return invalid("options.verify is not one of HR_VERIFY_...");
  out.options.verify = options.verify == HR_VERIFY_WHOLE ? headrace::Verify::kWhole : headrace::Verify::kAsRead;
  return {};
}

}  // namespace

extern "C" {

hr_code hr_error_code(const hr_error* error) { return error == nullptr ? HR_OK : error->code; }

const char* hr_error_message(const hr_error* error) { return error == nullptr ? "" : error->message.c_str(); }

void hr_error_free(hr_error* error) {
  if (error != nullptr && error != out_of_memory_error()) delete error;
}

hr_code hr_context_create(const hr_context_options* options, hr_context** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    hr_context_options known = HR_CONTEXT_OPTIONS_INIT;
    if (options != nullptr) HEADRACE_TRY(take_options(options, kContextEnds, known));
    if (known.reserved != 0) return invalid("options.reserved is not zero");
    headrace::ContextOptions native;
    if (known.engine != nullptr) native.engine = known.engine;
    native.threads = known.threads;
    if (known.host_budget_bytes != 0) native.host_budget_bytes = known.host_budget_bytes;
    if (known.device_budget_bytes != 0) native.device_budget_bytes = known.device_budget_bytes;
    if (known.stored_budget_bytes != 0) native.stored_budget_bytes = known.stored_budget_bytes;
    HEADRACE_TRY_ASSIGN(headrace::Context context, headrace::Context::create(native));
    *out = new hr_context{std::move(context)};
    return {};
  });
}

void hr_context_free(hr_context* context) { delete context; }

hr_code hr_store_open(hr_context* context, const char* url, hr_store** out, hr_error** error) {
  return hr_store_open_with(context, url, nullptr, 0, out, error);
}

hr_code hr_store_open_with(hr_context* context, const char* url, const hr_storage_option* options, size_t count,
                           hr_store** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(context, "context"));
    HEADRACE_TRY(require(url, "url"));
    if (count != 0) HEADRACE_TRY(require(options, "options"));
    std::vector<headrace::StorageOption> given;
    for (size_t i = 0; i < count; ++i) {
      HEADRACE_TRY(require(options[i].name, "options->name"));
      HEADRACE_TRY(require(options[i].value, "options->value"));
      given.push_back({options[i].name, options[i].value});
    }
    HEADRACE_TRY_ASSIGN(headrace::Store store, headrace::Store::open(context->value, url, given));
    *out = new hr_store{std::move(store)};
    return {};
  });
}

void hr_store_free(hr_store* store) { delete store; }

hr_code hr_array_open(hr_store* store, const char* path, hr_array** out, hr_error** error) {
  return hr_array_open_with(store, path, nullptr, out, error);
}

hr_code hr_array_open_with(hr_store* store, const char* path, const hr_open_options* options, hr_array** out,
                           hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(store, "store"));
    headrace::OpenOptions native;
    HEADRACE_TRY(take_open_options(options, native));
    HEADRACE_TRY_ASSIGN(headrace::Array array,
                        headrace::Array::open(store->value, path == nullptr ? "" : path, native));
    *out = new hr_array{std::move(array)};
    return {};
  });
}

hr_code hr_open(hr_store* store, const char* path, const hr_open_options* options, hr_node* node, hr_array** array,
                hr_error** error) {
  if (array != nullptr) *array = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(node, "node"));
    HEADRACE_TRY(require(array, "array"));
    HEADRACE_TRY(require(store, "store"));
    headrace::OpenOptions native;
    HEADRACE_TRY(take_open_options(options, native));
    HEADRACE_TRY_ASSIGN(auto opened, headrace::open(store->value, path == nullptr ? "" : path, native));
    auto* const found = std::get_if<headrace::Array>(&opened);
    if (found != nullptr) *array = new hr_array{std::move(*found)};
    *node = found != nullptr ? HR_NODE_ARRAY : HR_NODE_GROUP;
    return {};
  });
}

const char* hr_array_lenient_use(const hr_array* array, uint32_t index) {
  if (array == nullptr || index >= array->value.info().lenient_uses.size()) return nullptr;
  return array->value.info().lenient_uses[index].c_str();
}

void hr_array_free(hr_array* array) { delete array; }

uint32_t hr_array_rank(const hr_array* array) {
  return array == nullptr ? 0 : static_cast<uint32_t>(array->value.info().shape.size());
}

const uint64_t* hr_array_shape(const hr_array* array) {
  return array == nullptr ? nullptr : array->value.info().shape.data();
}

const uint64_t* hr_array_chunk_shape(const hr_array* array) {
  return array == nullptr ? nullptr : array->value.info().chunk_shape.data();
}

uint32_t hr_array_item_bytes(const hr_array* array) {
  return array == nullptr ? 0 : array->value.info().dtype.item_bytes;
}

const char* hr_array_dtype(const hr_array* array) {
  return array == nullptr ? "" : array->value.info().dtype.name.c_str();
}

hr_code hr_array_stored_chunks(hr_array* array, hr_stored_chunks** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(array, "array"));
    HEADRACE_TRY_ASSIGN(headrace::StoredChunks chunks, array->value.stored_chunks());
    *out = new hr_stored_chunks{std::move(chunks), hr_array_rank(array)};
    return {};
  });
}

uint64_t hr_stored_chunks_count(const hr_stored_chunks* chunks) { return chunks == nullptr ? 0 : chunks->value.count; }

uint32_t hr_stored_chunks_rank(const hr_stored_chunks* chunks) { return chunks == nullptr ? 0 : chunks->rank; }

const uint64_t* hr_stored_chunks_indices(const hr_stored_chunks* chunks) {
  return chunks == nullptr || chunks->value.indices.empty() ? nullptr : chunks->value.indices.data();
}

void hr_stored_chunks_free(hr_stored_chunks* chunks) { delete chunks; }

hr_code hr_device_names(hr_names** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY_ASSIGN(std::vector<std::string> names, headrace::device_names());
    *out = new hr_names{std::move(names)};
    return {};
  });
}

uint32_t hr_names_count(const hr_names* names) {
  return names == nullptr ? 0 : static_cast<uint32_t>(names->value.size());
}

const char* hr_names_get(const hr_names* names, uint32_t index) {
  return index < hr_names_count(names) ? names->value[index].c_str() : nullptr;
}

void hr_names_free(hr_names* names) { delete names; }

hr_code hr_cancel_create(hr_cancel** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    *out = new hr_cancel;
    return {};
  });
}

void hr_cancel_ask(const hr_cancel* cancel) {
  if (cancel != nullptr) cancel->value.ask();
}

int hr_cancel_asked(const hr_cancel* cancel) { return cancel != nullptr && cancel->value.asked() ? 1 : 0; }

void hr_cancel_free(hr_cancel* cancel) { delete cancel; }

hr_code hr_device_open(const char* name, hr_device** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(name, "name"));
    HEADRACE_TRY_ASSIGN(headrace::Device device, headrace::Device::open(name));
    *out = new hr_device{std::move(device)};
    return {};
  });
}

void hr_device_free(hr_device* device) { delete device; }

const char* hr_device_name(const hr_device* device) { return device == nullptr ? "" : device->value.name().c_str(); }

const char* hr_device_note(const hr_device* device) { return device == nullptr ? "" : device->value.note().c_str(); }

hr_code hr_buffer_allocate(hr_device* device, size_t bytes, hr_buffer** out, hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(device, "device"));
    HEADRACE_TRY_ASSIGN(headrace::Buffer buffer, headrace::Buffer::allocate(device->value, bytes));
    *out = new hr_buffer{std::move(buffer)};
    return {};
  });
}

void hr_buffer_free(hr_buffer* buffer) { delete buffer; }

void* hr_buffer_data(const hr_buffer* buffer) { return buffer == nullptr ? nullptr : buffer->value.data(); }

hr_code hr_buffer_copy_to_host(const hr_buffer* buffer, size_t offset_bytes, void* dst, size_t bytes,
                               hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(buffer, "buffer"));
    if (bytes != 0) HEADRACE_TRY(require(dst, "dst"));
    const std::size_t size = buffer->value.size_bytes();
    if (offset_bytes > size || bytes > size - offset_bytes) {
      return invalid("copy of " + std::to_string(bytes) + " bytes at " + std::to_string(offset_bytes) +
                     " from a buffer of " + std::to_string(size));
    }
    if (bytes == 0) return {};
    return buffer->value.copy_to_host(offset_bytes, static_cast<std::byte*>(dst), bytes);
  });
}

hr_code hr_array_read(hr_array* array, hr_device* device, const hr_read_options* options, hr_error** error) {
  return guarded(error, [&]() -> Status {
    PreparedRead read;
    HEADRACE_TRY(prepare(array, device, options, read));
    return array->value.read(read.selection, read.tensor, device->value, read.options);
  });
}

hr_code hr_array_read_async(hr_array* array, hr_device* device, const hr_read_options* options, hr_completion** out,
                            hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    PreparedRead read;
    HEADRACE_TRY(prepare(array, device, options, read));
    // Allocate the handle first: once the read runs, the caller must get something to wait on.
    void* room = ::operator new(sizeof(hr_completion));
    Result<headrace::Completion> started = Status(Code::kInternal, Layer::kApi, "the read was not started");
    try {
      started = array->value.read_async(read.selection, read.tensor, device->value, read.options);
    } catch (...) {
      ::operator delete(room);
      throw;
    }
    if (!started.ok()) {
      ::operator delete(room);
      return std::move(started).status();
    }
    *out = new (room) hr_completion{std::move(started).value()};
    return {};
  });
}

int hr_completion_done(const hr_completion* completion) {
  return completion == nullptr || completion->value.done() ? 1 : 0;
}

hr_code hr_completion_wait(hr_completion* completion, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(completion, "completion"));
    return completion->value.wait();
  });
}

void hr_completion_cancel(hr_completion* completion) {
  if (completion != nullptr) completion->value.cancel();
}

void hr_completion_free(hr_completion* completion) { delete completion; }

hr_code hr_array_read_variable(hr_array* array, const hr_variable_options* options, hr_variable** out,
                               hr_error** error) {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(array, "array"));
    hr_variable_options known = HR_VARIABLE_OPTIONS_INIT;
    if (options != nullptr) HEADRACE_TRY(take_options(options, kVariableEnds, known));
    headrace::Selection selection;
    if (known.selection != nullptr && known.selection[0] != '\0') {
      HEADRACE_TRY_ASSIGN(selection, headrace::parse_selection(known.selection));
    }
    headrace::VariableReadOptions native;
    if (known.max_bytes != 0) native.max_bytes = known.max_bytes;
    if (known.cancel != nullptr) native.cancel = known.cancel->value;
    HEADRACE_TRY_ASSIGN(headrace::VariableResult result, array->value.read_variable(selection, native));
    *out = new hr_variable{std::move(result)};
    return {};
  });
}

uint32_t hr_variable_rank(const hr_variable* variable) {
  return variable == nullptr ? 0 : static_cast<uint32_t>(variable->value.shape().size());
}

const uint64_t* hr_variable_shape(const hr_variable* variable) {
  return variable == nullptr ? nullptr : variable->value.shape().data();
}

uint64_t hr_variable_count(const hr_variable* variable) { return variable == nullptr ? 0 : variable->value.size(); }

const int64_t* hr_variable_offsets(const hr_variable* variable) {
  return variable == nullptr ? nullptr : variable->value.offsets().data();
}

const void* hr_variable_data(const hr_variable* variable) {
  return variable == nullptr ? nullptr : variable->value.data().data();
}

int hr_variable_is_utf8(const hr_variable* variable) {
  return variable != nullptr && variable->value.is_utf8() ? 1 : 0;
}

void hr_variable_free(hr_variable* variable) { delete variable; }

const char* hr_version(void) { return HEADRACE_PROJECT_VERSION; }

}  // extern "C"
