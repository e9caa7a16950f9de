#include "lzma_filters.h"

#include <initializer_list>
#include <optional>
#include <string>

#include "base/json.h"

namespace headrace::codec {
namespace {

bool is_lzma(lzma_vli id) { return id == LZMA_FILTER_LZMA1 || id == LZMA_FILTER_LZMA2; }
bool is_bcj(lzma_vli id) { return id >= LZMA_FILTER_X86 && id <= LZMA_FILTER_SPARC; }

// The number under `key` of a filter, if present; refuses values outside 0..max.
std::optional<std::uint64_t> number(ConfigReader& reader, const base::Json& item, const char* key,
                                    std::uint64_t max = UINT32_MAX) {
  const auto found = item.find(key);
  if (found == item.end()) return std::nullopt;
  // A negative number converts to one above every maximum.
  if (!found->is_number_integer() || found->get<std::uint64_t>() > max) {
    reader.refuse("filters",
                  std::string("has a filter whose '") + key + "' is not an integer in 0.." + std::to_string(max));
    return std::nullopt;
  }
  return found->get<std::uint64_t>();
}

// Python refuses other keys, so no writer uses them; ignoring one could change the meaning of the bytes.
void refuse_other_keys(ConfigReader& reader, const base::Json& item, std::initializer_list<std::string_view> known) {
  for (const auto& member : item.items()) {
    bool found = member.key() == "id";
    for (const std::string_view key : known) found = found || member.key() == key;
    if (!found) reader.refuse("filters", "has a filter with the unknown key '" + member.key().substr(0, 40) + "'");
  }
}

bool valid_preset(std::uint64_t preset) {
  return (preset & LZMA_PRESET_LEVEL_MASK) <= 9 &&
         (preset & ~std::uint64_t{LZMA_PRESET_LEVEL_MASK | LZMA_PRESET_EXTREME}) == 0;
}

}  // namespace

LzmaFilters::Spec LzmaFilters::read_one(ConfigReader& reader, const base::Json& item) {
  Spec spec;
  spec.id = number(reader, item, "id", LZMA_VLI_MAX).value_or(LZMA_VLI_UNKNOWN);
  if (is_lzma(spec.id)) {
    refuse_other_keys(reader, item, {"preset", "dict_size", "lc", "lp", "pb", "mode", "nice_len", "mf", "depth"});
    const std::uint64_t preset = number(reader, item, "preset").value_or(LZMA_PRESET_DEFAULT);
    if (!valid_preset(preset) || lzma_lzma_preset(&spec.lzma, static_cast<std::uint32_t>(preset))) {
      reader.refuse("filters", "has a filter with the preset " + std::to_string(preset) + ", which does not exist");
    }
    const auto take = [&](const char* key, std::uint32_t& value) {
      value = static_cast<std::uint32_t>(number(reader, item, key).value_or(value));
    };
    take("dict_size", spec.lzma.dict_size);
    take("lc", spec.lzma.lc);
    take("lp", spec.lzma.lp);
    take("pb", spec.lzma.pb);
    take("nice_len", spec.lzma.nice_len);
    take("depth", spec.lzma.depth);
    spec.lzma.mode = static_cast<lzma_mode>(number(reader, item, "mode").value_or(spec.lzma.mode));
    spec.lzma.mf = static_cast<lzma_match_finder>(number(reader, item, "mf").value_or(spec.lzma.mf));
  } else if (spec.id == LZMA_FILTER_DELTA) {
    refuse_other_keys(reader, item, {"dist"});
    spec.delta.type = LZMA_DELTA_TYPE_BYTE;
    spec.delta.dist = static_cast<std::uint32_t>(number(reader, item, "dist").value_or(1));
  } else if (is_bcj(spec.id)) {
    refuse_other_keys(reader, item, {"start_offset"});
    spec.bcj.start_offset = static_cast<std::uint32_t>(number(reader, item, "start_offset").value_or(0));
  } else {
    reader.refuse("filters", "has a filter without an 'id' that Python's lzma module knows");
  }
  return spec;
}

LzmaFilters LzmaFilters::read(ConfigReader& reader) {
  LzmaFilters out;
  const base::Json* list = reader.any("filters", Need::kOptional);
  if (list == nullptr || list->is_null()) return out;
  if (!list->is_array() || list->empty() || list->size() > LZMA_FILTERS_MAX) {
    reader.refuse("filters", "is neither null nor a list of 1 to 4 filters");
    return out;
  }
  for (const base::Json& item : *list) {
    if (!item.is_object()) {
      reader.refuse("filters", "has a filter that is not an object");
      return out;
    }
    out.specs_.push_back(read_one(reader, item));
  }
  return out;
}

LzmaFilters::FilterList LzmaFilters::chain() const noexcept {
  FilterList out;
  std::size_t count = 0;
  for (const Spec& spec : specs_) {
    const void* options = &spec.bcj;
    if (is_lzma(spec.id)) options = &spec.lzma;
    if (spec.id == LZMA_FILTER_DELTA) options = &spec.delta;
    out.filters[count++] = {spec.id, const_cast<void*>(options)};
  }
  out.filters[count] = {LZMA_VLI_UNKNOWN, nullptr};
  return out;
}

Result<LzmaConfig> read_lzma_config(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  LzmaConfig out;
  out.format = static_cast<LzmaFormat>(reader.integer("format", Need::kOptional, 0, 3, 1));
  const std::int64_t check = reader.integer("check", Need::kOptional, -1, LZMA_CHECK_ID_MAX, -1);
  if (check >= 0) out.check = static_cast<lzma_check>(check);
  const base::Json* preset = reader.any("preset", Need::kOptional);
  if (preset != nullptr && !preset->is_null()) {
    const std::int64_t value = reader.integer("preset", Need::kOptional, 0, UINT32_MAX);
    if (!valid_preset(static_cast<std::uint64_t>(value))) reader.refuse("preset", "is not a valid preset");
    out.preset = static_cast<std::uint32_t>(value);
  }
  out.filters = LzmaFilters::read(reader);
  if (out.format == LzmaFormat::kRaw) {
    if (out.filters.empty()) {
      reader.refuse("filters", "is missing, but a raw stream (format 3) needs it");
    } else if (lzma_raw_decoder_memusage(out.filters.chain().filters) == UINT64_MAX) {
      reader.refuse("filters", "is not a valid filter chain of a raw stream; the last filter must be LZMA1 or LZMA2");
    }
  }
  HEADRACE_TRY(reader.finish());
  return out;
}

}  // namespace headrace::codec
