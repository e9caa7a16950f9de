// reshape: other axes for the same elements in the same C order. [registered codec "reshape"]
//
// Decodes nothing, since no element moves: the elements keep the layout in which they entered. Only axes that a later
// codec permutes cost a pass (Representation).
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/representation.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

// How the configuration defines one axis of the output.
struct Axis {
  enum class Kind : std::uint8_t { kSize, kInputs, kRest };
  Kind kind = Kind::kSize;
  std::uint64_t size = 0;
  std::vector<std::uint64_t> inputs;  // input axes whose product it is
};

constexpr std::size_t kMaxRank = 32;

using Shape = std::vector<std::uint64_t>;

// Product of shape[begin..end); nullopt on overflow.
std::optional<std::uint64_t> product(const Shape& shape, std::size_t begin, std::size_t end) {
  std::uint64_t out = 1;
  for (std::size_t i = begin; i < end; ++i) {
    if (shape[i] == 0) return 0;
  }
  for (std::size_t i = begin; i < end; ++i) {
    const auto next = base::checked_mul(out, shape[i]);
    if (!next) return std::nullopt;
    out = *next;
  }
  return out;
}

class ReshapeCodec final : public ArrayToArray {
 public:
  explicit ReshapeCodec(std::vector<Axis> axes) : axes_(std::move(axes)) {}
  std::string_view name() const noexcept override { return "reshape"; }

  Status enter(Representation& elements) const override {
    const Shape& shape = elements.shape();
    Shape out(axes_.size(), 1);
    std::optional<std::size_t> rest;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].kind == Axis::Kind::kRest) rest = i;
      if (axes_[i].kind == Axis::Kind::kSize) out[i] = axes_[i].size;
      for (const std::uint64_t input : axes_[i].inputs) {
        if (input >= shape.size()) {
          return corrupt("codec 'reshape': shape[%zu] names axis %llu, but the array has %zu axes", i,
                         static_cast<unsigned long long>(input), shape.size());
        }
      }
      if (axes_[i].inputs.empty()) continue;
      const auto size = product(shape, axes_[i].inputs.front(), axes_[i].inputs.back() + 1);
      if (!size) return corrupt("codec 'reshape': shape[%zu] is larger than 2^64", i);
      // Axes omitted in between must have a single element, which is checked below.
      out[i] = *size;
    }
    const auto before = product(shape, 0, shape.size());
    auto after = product(out, 0, out.size());
    if (before && after && rest) {
      if (*after == 0 || *before % *after != 0) {
        return corrupt("codec 'reshape': no value for shape[%zu] yields %llu elements", *rest,
                       static_cast<unsigned long long>(*before));
      }
      out[*rest] = *before / *after;
      after = before;
    }
    if (!before || !after || *before != *after) {
      return corrupt("codec 'reshape': its shape has %llu elements, but the chunk has %llu",
                     static_cast<unsigned long long>(after.value_or(0)),
                     static_cast<unsigned long long>(before.value_or(0)));
    }
    for (std::size_t i = 0; i < axes_.size(); ++i) HEADRACE_TRY(check_inputs(i, shape, out));
    elements.change_axes(std::move(out));
    return {};
  }

 private:
  // An axis that names input axes must be at their position: with as many elements before it and after it.
  Status check_inputs(std::size_t i, const Shape& in, const Shape& out) const {
    const Axis& axis = axes_[i];
    if (axis.inputs.empty()) return {};
    std::uint64_t size = 1;
    for (const std::uint64_t input : axis.inputs) size *= in[input];
    if (size != out[i] || product(out, 0, i) != product(in, 0, axis.inputs.front()) ||
        product(out, i + 1, out.size()) != product(in, axis.inputs.back() + 1, in.size())) {
      return corrupt("codec 'reshape': shape[%zu] names axes that are not at its position in the element order", i);
    }
    return {};
  }

  std::vector<Axis> axes_;
};

// Returns an empty axis, and refuses it, if the value has none of the specified forms.
Axis read_axis(const base::Json& value, ConfigReader& reader) {
  Axis axis;
  if (value.is_array()) {
    axis.kind = Axis::Kind::kInputs;
    for (const base::Json& input : value) {
      // A negative number converts to one above every rank.
      if (!input.is_number_integer() || input.get<std::uint64_t>() >= kMaxRank) {
        reader.refuse("shape", "names an axis number that is negative or above the maximum rank");
        return axis;
      }
      axis.inputs.push_back(input.get<std::uint64_t>());
    }
  } else if (value.is_number_integer() && value.get<std::int64_t>() == -1 && !value.is_number_unsigned()) {
    axis.kind = Axis::Kind::kRest;
  } else if (value.is_number_unsigned() && value.get<std::uint64_t>() > 0) {
    axis.size = value.get<std::uint64_t>();
  } else {
    reader.refuse("shape", "holds something that is neither a positive integer, -1 nor a list of axes");
  }
  return axis;
}

}  // namespace

Result<Codec> make_reshape(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  std::vector<Axis> axes;
  const base::Json* value = reader.any("shape", Need::kRequired);
  if (value != nullptr && !value->is_array()) reader.refuse("shape", "is not an array");
  if (value != nullptr && value->is_array()) {
    if (value->size() > kMaxRank) return unsupported("codec 'reshape' to %zu axes, more than 32", value->size());
    std::optional<std::uint64_t> last_input;
    bool has_rest = false;
    for (const base::Json& item : *value) {
      axes.push_back(read_axis(item, reader));
      const Axis& axis = axes.back();
      if (axis.kind == Axis::Kind::kRest && std::exchange(has_rest, true)) reader.refuse("shape", "has -1 twice");
      for (const std::uint64_t input : axis.inputs) {
        if (last_input && input <= *last_input) reader.refuse("shape", "names axes that are not in increasing order");
        last_input = input;
      }
    }
  }
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<ReshapeCodec>(std::move(axes)));
}

}  // namespace headrace::codec
