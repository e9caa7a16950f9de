// Schemas, and states for programs without a loader.
#include <headrace/loader_state.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "capi/c_call.h"
#include "capi/c_samples.h"

using headrace::LoaderSchema;
using headrace::LoaderState;
using headrace::Result;
using headrace::Status;
using headrace::capi::give_line;
using headrace::capi::guarded;
using headrace::capi::invalid;
using headrace::capi::out_is_null;
using headrace::capi::require;

namespace {

// Runs `make`, which returns a Result<LoaderSchema>.
template <class Make>
hr_code make_schema(hr_schema** out, hr_error** error, Make&& make) noexcept {
  if (out == nullptr) return out_is_null(error);
  *out = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY_ASSIGN(LoaderSchema schema, make());
    *out = std::make_unique<hr_schema>(hr_schema{std::move(schema)}).release();
    return {};
  });
}

Result<LoaderState> take_state(const char* text) {
  HEADRACE_TRY(require(text, "state"));
  Result<LoaderState> state = LoaderState::from_json(text);
  if (state.ok()) {
    for (const auto& [name, digest] : state->schema.digests()) {
      if (name.find('\0') == std::string::npos) continue;
      return Status(headrace::Code::kCorrupt, headrace::Layer::kApi,
                    "the argument 'state': a name of its schema has a zero byte in it");
    }
    return state;
  }
  const Status& status = state.status();
  return Status(status.code(), status.layer(), "the argument 'state': " + status.message()).with_cause(status.cause());
}

// The map's own string, which stays valid as long as the schema.
const char* name_in(const LoaderSchema& schema, const std::string& name) noexcept {
  const auto found = schema.digests().find(name);
  return found == schema.digests().end() ? nullptr : found->first.c_str();
}

}  // namespace

hr_code hr_schema_create(hr_schema** out, hr_error** error) {
  return make_schema(out, error, []() -> Result<LoaderSchema> { return LoaderSchema(); });
}

hr_code hr_windows_schema(const hr_windows* windows, hr_schema** out, hr_error** error) {
  return make_schema(out, error, [&]() -> Result<LoaderSchema> {
    HEADRACE_TRY(require(windows, "windows"));
    return std::visit([](const auto& samples) { return samples.schema(); }, windows->value);
  });
}

hr_code hr_order_schema(const hr_order* order, hr_schema** out, hr_error** error) {
  return make_schema(out, error, [&]() -> Result<LoaderSchema> {
    HEADRACE_TRY(require(order, "order"));
    return order->value.schema();
  });
}

hr_code hr_schema_set(hr_schema* schema, const char* name, uint64_t digest, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(schema, "schema"));
    HEADRACE_TRY(require(name, "name"));
    schema->value.set(name, digest);
    return {};
  });
}

hr_code hr_schema_add(hr_schema* schema, const hr_schema* other, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(schema, "schema"));
    HEADRACE_TRY(require(other, "other"));
    schema->value.add(other->value);
    return {};
  });
}

size_t hr_schema_count(const hr_schema* schema) { return schema == nullptr ? 0 : schema->value.digests().size(); }

hr_code hr_schema_digest(const hr_schema* schema, size_t index, const char** name, uint64_t* digest, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(schema, "schema"));
    const auto& digests = schema->value.digests();
    if (index >= digests.size()) {
      return invalid("the argument 'index' is " + std::to_string(index) + ", and the schema has " +
                     std::to_string(digests.size()) + " digests");
    }
    const auto at = std::next(digests.begin(), static_cast<std::ptrdiff_t>(index));
    if (name != nullptr) *name = at->first.c_str();
    if (digest != nullptr) *digest = at->second;
    return {};
  });
}

hr_code hr_schema_differences(const hr_schema* schema, const hr_schema* other, const char** names, size_t count,
                              size_t* needed, hr_error** error) {
  if (needed != nullptr) *needed = 0;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(schema, "schema"));
    HEADRACE_TRY(require(other, "other"));
    const std::vector<std::string> differences = schema->value.differences(other->value);
    if (needed != nullptr) *needed = differences.size();
    if (names == nullptr) return {};
    if (count < differences.size()) {
      return invalid("the argument 'count' is " + std::to_string(count) + ", and " +
                     std::to_string(differences.size()) + " names differ: pass room for one pointer per name");
    }
    std::transform(differences.begin(), differences.end(), names, [&](const std::string& name) {
      const char* const here = name_in(schema->value, name);
      return here != nullptr ? here : name_in(other->value, name);
    });
    return {};
  });
}

void hr_schema_free(hr_schema* schema) { delete schema; }

hr_code hr_state_read(const char* state, uint64_t* seed, uint64_t* epoch, uint64_t* consumed, hr_schema** schema,
                      hr_error** error) {
  if (schema != nullptr) *schema = nullptr;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY_ASSIGN(LoaderState native, take_state(state));
    if (schema != nullptr) *schema = std::make_unique<hr_schema>(hr_schema{std::move(native.schema)}).release();
    if (seed != nullptr) *seed = native.seed;
    if (epoch != nullptr) *epoch = native.at.epoch;
    if (consumed != nullptr) *consumed = native.at.consumed;
    return {};
  });
}

hr_code hr_state_check(const char* state, const hr_schema* schema, uint64_t positions, hr_error** error) {
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(schema, "schema"));
    HEADRACE_TRY_ASSIGN(const LoaderState native, take_state(state));
    return native.check(schema->value, positions);
  });
}

hr_code hr_state_write(const hr_schema* schema, uint64_t seed, uint64_t epoch, uint64_t consumed, char* text,
                       size_t bytes, size_t* needed, hr_error** error) {
  if (needed != nullptr) *needed = 0;
  return guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(schema, "schema"));
    LoaderState native;
    native.seed = seed;
    native.at = {epoch, consumed};
    native.schema = schema->value;
    const std::string line = native.to_json();
    // Verifies that the state can be read back.
    const Result<LoaderState> again = LoaderState::from_json(line);
    if (!again.ok()) return invalid("a state cannot hold the argument 'schema': " + again.status().message());
    if (*again != native) return invalid("a state cannot hold the argument 'schema': a name is not UTF-8");
    return give_line(line, text, bytes, needed);
  });
}
