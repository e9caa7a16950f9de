#include <headrace/loader_state.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

#include "base/json.h"
#include "loader/sampling/sampling_parts.h"

namespace headrace {

using loader::in_quotes;
using loader::refuse;

namespace {

constexpr std::size_t kMaxTextBytes = 64 << 10, kDigestDigits = 16;

Status corrupt(std::string message) {
  return Status(Code::kCorrupt, Layer::kApi, "loader state: " + std::move(message));
}

std::string to_hex(std::uint64_t value) {
  std::string digits(kDigestDigits, '0');
  for (std::size_t i = kDigestDigits; i-- > 0; value >>= 4) digits[i] = "0123456789abcdef"[value & 15];
  return digits;
}

Result<std::uint64_t> integer_at(const base::Json& document, const char* name) {
  const auto field = document.find(name);
  if (field == document.end()) return corrupt("the field " + in_quotes(name) + " is missing");
  if (!field->is_number_unsigned())
    return corrupt("the field " + in_quotes(name) + " must be an integer from 0 to 2^64 - 1");
  return field->get<std::uint64_t>();
}

Result<LoaderSchema> schema_at(const base::Json& document) {
  const auto field = document.find("schema");
  if (field == document.end()) return corrupt("the field 'schema' is missing");
  if (!field->is_object()) return corrupt("the field 'schema' is not an object");
  if (field->size() > loader::kMaxDigests) return corrupt("the field 'schema' has more than 64 digests");
  LoaderSchema schema;
  for (const auto& [name, value] : field->items()) {
    if (name.size() > loader::kMaxDigestNameBytes)
      return corrupt("schema: " + in_quotes(name) + ": a name above 64 bytes");
    if (!value.is_string()) return corrupt("schema: " + in_quotes(name) + ": the digest is not a string");
    const auto& text = value.get_ref<const std::string&>();
    std::uint64_t digest = 0;
    // from_chars accepts capitals too, but to_json() writes none.
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
    if (error != std::errc() || text != to_hex(digest)) {
      return corrupt("schema: " + in_quotes(name) + ": the digest is not 16 digits 0-9a-f");
    }
    schema.set(name, digest);
  }
  return schema;
}

}  // namespace

std::string LoaderState::to_json() const {
  base::Json digests = base::Json::object();
  for (const auto& [name, digest] : schema.digests()) digests[name] = to_hex(digest);
  const base::Json document = {
      {"version", kVersion}, {"seed", seed}, {"epoch", at.epoch}, {"consumed", at.consumed}, {"schema", digests}};
  return document.dump(-1, ' ', true, base::Json::error_handler_t::replace);
}

Result<LoaderState> LoaderState::from_json(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return Status(Code::kResourceExhausted, Layer::kApi,
                  "loader state: " + std::to_string(text.size()) + " bytes of text, at most 65536");
  }
  HEADRACE_TRY_ASSIGN(
      const base::Json document,
      base::parse_json(text, {.max_bytes = kMaxTextBytes, .max_depth = 4, .max_values_bytes = 1 << 20}));
  if (!document.is_object()) return corrupt("no JSON object");
  // The version comes first: another one may have other fields.
  HEADRACE_TRY_ASSIGN(const std::uint64_t version, integer_at(document, "version"));
  if (version != kVersion) {
    return Status(Code::kUnsupported, Layer::kApi,
                  "loader state: version " + std::to_string(version) + "; this headrace reads version 1");
  }
  constexpr std::array<std::string_view, 5> kFields = {"version", "seed", "epoch", "consumed", "schema"};
  for (const auto& [name, value] : document.items()) {
    bool known = false;
    for (const std::string_view field : kFields) known = known || field == name;
    if (!known) return corrupt("there is no field " + in_quotes(name));
  }
  LoaderState state;
  HEADRACE_TRY_ASSIGN(state.seed, integer_at(document, "seed"));
  HEADRACE_TRY_ASSIGN(state.at.epoch, integer_at(document, "epoch"));
  HEADRACE_TRY_ASSIGN(state.at.consumed, integer_at(document, "consumed"));
  HEADRACE_TRY_ASSIGN(state.schema, schema_at(document));
  return state;
}

Status LoaderState::check(const LoaderSchema& loader, std::uint64_t positions) const {
  const std::vector<std::string> differences = schema.differences(loader);
  if (!differences.empty()) {
    std::string names;
    for (const std::string& name : differences) names += (names.empty() ? "" : ", ") + in_quotes(name);
    return refuse("the loader state does not match this loader's samples or order; different: " + names);
  }
  if (at.consumed >= positions) {
    return refuse("the loader state has consumed " + std::to_string(at.consumed) + " positions of an epoch that has " +
                  std::to_string(positions));
  }
  return {};
}

}  // namespace headrace
