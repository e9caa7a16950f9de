// json2: numcodecs' JSON codec of object arrays, for string elements only.
//
// A stream is one JSON list: the elements as nested lists, then the data type's text "|O", then the shape
// (numcodecs.json). Elements that are not strings, such as the 0 or null with which zarr-python 2 pads the chunks at
// the edge of an array, get slots marked kNotText.
#include <cstring>
#include <string>

#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/representation.h"
#include "codec/stream_codec.h"
#include "codec/variable_codec.h"

namespace headrace::codec {
namespace {

using base::Json;

// A parsed document takes about twenty times the size of its text.
constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;

struct Json2Scratch final : Scratch {
  void set_budget(GrowthBudget* budget) override { text.set_budget(budget); }
  GrowingBuffer text;  // concatenated text of the elements
};

class Json2Codec final : public VariableCodec {
 public:
  std::string_view name() const noexcept override { return "json2"; }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<Json2Scratch>(); }

  Status enter(Representation& elements) const override {
    HEADRACE_TRY(VariableCodec::enter(elements));
    const std::vector<std::uint8_t>& order = elements.layout().axis_order;
    for (std::size_t i = 0; i < order.size(); ++i) {
      // numcodecs writes the elements in index order, zarr-python 2 reads them as if in order F.
      if (order[i] != i) {
        return unsupported("codec 'json2' with order F in more than one dimension: its writers and readers disagree");
      }
    }
    return {};
  }

 protected:
  TypeKind element_kind() const noexcept override { return TypeKind::kString; }

  Status decode_elements(std::span<const std::byte> stream, std::byte* slots, std::uint64_t count,
                         Scratch* scratch) const override {
    if (stream.size() > kMaxTextBytes) {
      return unsupported("json2: a chunk has %zu bytes of JSON; the limit is %zu", stream.size(), kMaxTextBytes);
    }
    base::JsonLimits limits;
    limits.max_bytes = kMaxTextBytes;
    auto parsed = base::parse_json({reinterpret_cast<const char*>(stream.data()), stream.size()}, limits);
    if (!parsed.ok()) return corrupt("json2: %s", parsed.status().message().c_str());
    const Json& document = *parsed;
    if (!document.is_array() || document.size() < 2) {
      return corrupt("json2: a stream must be a list that ends with data type and shape");
    }
    const Json& shape = document[document.size() - 1];
    const Json& type = document[document.size() - 2];
    if (!type.is_string() || type.get_ref<const std::string&>() != "|O") {
      return unsupported("json2: unsupported data type; only \"|O\" is supported");
    }
    if (!shape.is_array()) return corrupt("json2: a stream must end with a shape");
    std::uint64_t product = 1;
    for (const Json& extent : shape) {
      if (!extent.is_number_unsigned()) return corrupt("json2: the shape in the stream must hold integers");
      const auto value = extent.get<std::uint64_t>();
      if (value != 0 && product > kMaxVariableBytes / value)
        return corrupt("json2: the shape in the stream is too large");
      product *= value;
    }
    if (product != count) {
      return corrupt("json2: the shape in the stream has %llu elements, but a chunk has %llu",
                     static_cast<unsigned long long>(product), static_cast<unsigned long long>(count));
    }
    Sink sink{slots, static_cast<Json2Scratch*>(scratch)->text};
    HEADRACE_TRY(sink.text.at_least(stream.size()));
    // A list of rank 0 or 1 holds its elements directly.
    const std::size_t items = document.size() - 2;
    if (shape.empty()) {
      if (items != 1) return corrupt("json2: a stream without dimensions must hold one element, not %zu", items);
      sink.add(document[0]);
      return {};
    }
    if (items != shape[0].get<std::uint64_t>()) {
      return corrupt("json2: the stream has %zu items along dimension 0, but its shape says %llu", items,
                     static_cast<unsigned long long>(shape[0].get<std::uint64_t>()));
    }
    for (std::size_t i = 0; i < items; ++i) HEADRACE_TRY(walk(document[i], shape, 1, sink));
    return {};
  }

 private:
  struct Sink {
    std::byte* slots;
    GrowingBuffer& text;
    std::uint64_t index = 0;
    std::size_t used = 0;

    // The total text of all strings is no longer than the document.
    void add(const Json& item) {
      if (!item.is_string()) {
        put_slot(slots, index++, {nullptr, VariableSlot::kNotText});
        return;
      }
      const auto& string = item.get_ref<const std::string&>();
      if (!string.empty()) std::memcpy(text.data() + used, string.data(), string.size());
      put_slot(slots, index++, {text.data() + used, string.size()});
      used += string.size();
    }
  };

  // The parser bounds the depth of recursion.
  static Status walk(const Json& item, const Json& shape, std::size_t dimension, Sink& sink) {
    if (dimension == shape.size()) {
      sink.add(item);
      return {};
    }
    if (!item.is_array() || item.size() != shape[dimension].get<std::uint64_t>()) {
      return corrupt("json2: the lists in the stream do not have its shape along dimension %zu", dimension);
    }
    for (const Json& inner : item) HEADRACE_TRY(walk(inner, shape, dimension + 1, sink));
    return {};
  }
};

}  // namespace

Result<Codec> make_json2(const Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  const Json* encoding = reader.any("encoding", Need::kOptional);
  HEADRACE_TRY(reader.finish());
  if (encoding != nullptr) {
    if (!encoding->is_string()) return corrupt("codec 'json2': configuration key 'encoding' is not a string");
    const auto& name = encoding->get_ref<const std::string&>();
    if (name != "utf-8" && name != "utf8" && name != "ascii") {
      return unsupported("codec 'json2': unsupported encoding; only utf-8 is supported");
    }
  }
  return Codec(std::make_unique<Json2Codec>());
}

}  // namespace headrace::codec
