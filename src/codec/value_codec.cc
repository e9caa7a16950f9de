#include "codec/value_codec.h"

#include <string>

#include "base/json.h"

namespace headrace::codec {
namespace {

struct NumberRow {
  char kind;  // NumPy's kind character
  const char* name;
};
constexpr NumberRow kNumbers[] = {
    {'b', "bool"},   {'i', "int8"},   {'i', "int16"},  {'i', "int32"},   {'i', "int64"},   {'u', "uint8"},
    {'u', "uint16"}, {'u', "uint32"}, {'u', "uint64"}, {'f', "float16"}, {'f', "float32"}, {'f', "float64"},
};

constexpr std::size_t kNumberCount = std::size(kNumbers);
static_assert(kNumberCount == static_cast<std::size_t>(Number::kFloat64) + 1);

}  // namespace

std::optional<Element> parse_numpy_type(std::string_view text) {
  Element out;
  for (std::size_t i = 0; i < kNumberCount; ++i) {
    out.number = static_cast<Number>(i);
    if (text == kNumbers[i].name) return out;
  }
  if (!text.empty() && std::string_view("<>|=").find(text[0]) != std::string_view::npos) {
    out.big_endian = text[0] == '>';
    text.remove_prefix(1);
  }
  for (std::size_t i = 0; i < kNumberCount; ++i) {
    out.number = static_cast<Number>(i);
    const char digits[] = {kNumbers[i].kind, static_cast<char>('0' + width_bytes(out.number))};
    if (text == std::string_view(digits, 2) || (text == "?" && out.number == Number::kBool)) {
      if (width_bytes(out.number) == 1) out.big_endian = false;
      return out;
    }
  }
  return std::nullopt;
}

std::optional<Number> number_of(const DataType& dtype) {
  for (std::size_t i = 0; i < kNumberCount; ++i) {
    if (dtype.name == kNumbers[i].name) return static_cast<Number>(i);
  }
  return std::nullopt;
}

DataType type_of(Number number) { return numeric_type(kNumbers[static_cast<std::size_t>(number)].name); }

std::optional<Element> entering_type(const CodecArgs& context) {
  if (context.zarr_format == 2 || context.dtype == nullptr) return std::nullopt;
  const std::optional<Number> number = number_of(*context.dtype);
  if (!number) return std::nullopt;
  return Element{*number, false};
}

Status read_numpy_type(ConfigReader& reader, const CodecArgs& context, const char* key, Need need,
                       std::optional<Element> fallback, Element& out) {
  const base::Json* value = reader.any(key, fallback ? Need::kOptional : need);
  if (value == nullptr || (value->is_null() && fallback)) {
    if (fallback) out = *fallback;
    return {};
  }
  if (!value->is_string()) {
    reader.refuse(key, "is not a NumPy type string");
    return {};
  }
  const auto& text = value->get_ref<const std::string&>();
  const std::optional<Element> element = parse_numpy_type(text);
  if (element) {
    out = *element;
    if (context.zarr_format != 2) out.big_endian = false;
    return {};
  }
  const std::string_view kinds = "cmMSUVOa";
  const std::size_t kind = text.find_first_not_of("<>|=");
  if (text.starts_with("complex") || text.starts_with("datetime") || text.starts_with("timedelta") ||
      (kind <= 1 && kinds.find(text[kind]) != std::string_view::npos)) {
    return unsupported("codec '%s': elements of type '%s'", std::string(context.name.substr(0, 40)).c_str(),
                       text.substr(0, 40).c_str());
  }
  reader.refuse(key, "is not a NumPy type string");
  return {};
}

Status ValueCodec::enter(Representation& elements) const {
  const DataType& dtype = elements.dtype();
  if (dtype.item_bytes != width_bytes(decoded_.number)) {
    return corrupt("codec '%s' decodes to %s, but the array passes it elements of type '%s'",
                   std::string(name()).c_str(), kNumbers[static_cast<std::size_t>(decoded_.number)].name,
                   dtype.name.substr(0, 60).c_str());
  }
  elements.change_values(type_of(stored_.number), elementwise());
  return {};
}

EncodedSize ValueCodec::encoded_size(std::uint64_t decoded_bytes) const {
  const std::uint64_t from = width_bytes(decoded_.number), to = width_bytes(stored_.number);
  const bool whole = decoded_bytes % from == 0;
  const std::uint64_t count = decoded_bytes / from + (whole ? 0 : 1);
  return {count > ~std::uint64_t{0} / to ? ~std::uint64_t{0} : count * to, whole};
}

Status ValueCodec::count_elements(EncodedStream& stream, std::size_t& count) const {
  const std::size_t from = width_bytes(stored_.number), to = width_bytes(decoded_.number);
  if (stream.src_bytes % from != 0) {
    return corrupt("%s: %zu bytes are not a multiple of the element size %zu", std::string(name()).c_str(),
                   stream.src_bytes, from);
  }
  count = stream.src_bytes / from;
  const bool holds = stream.exact ? stream.dst_capacity % to == 0 && count == stream.dst_capacity / to
                                  : count <= stream.dst_capacity / to;
  if (!holds) return wrong_size(name(), static_cast<std::uint64_t>(count) * to, stream);
  return {};
}

}  // namespace headrace::codec
