// transpose: permutes the axes. Decodes nothing; the assemble step reads the chunk along the order this folds together.
//
// Encoding gives encoded.shape[i] = decoded.shape[order[i]]: axis i of what is stored is axis order[i] of what enters.
// Several transposes compose by indexing: if layout.axis_order says which array axis each axis of the input is, then
// after this codec axis i is array axis layout.axis_order[order[i]].
#include "base/json.h"
#include "codec/config_reader.h"

namespace headrace::codec {
namespace {

class TransposeCodec final : public Codec {
 public:
  explicit TransposeCodec(std::vector<std::uint8_t> order) : order_(std::move(order)) {}
  std::string_view name() const noexcept override { return "transpose"; }
  Kind kind() const noexcept override { return Kind::kArrayToArray; }

  Status resolve_layout(const DataType&, std::vector<std::uint64_t>& shape, Layout& layout) const override {
    if (order_.size() != shape.size()) {
      return Status(Code::kCorrupt, Layer::kCodec,
                    "codec 'transpose': configuration key 'order' has " + std::to_string(order_.size()) +
                        " entries, the array has " + std::to_string(shape.size()) + " axes");
    }
    // An empty order stands for the identity, so that a caller may start from a fresh Layout.
    if (layout.axis_order.empty()) {
      for (std::size_t i = 0; i < order_.size(); ++i) layout.axis_order.push_back(static_cast<std::uint8_t>(i));
    }
    if (layout.axis_order.size() != order_.size()) {
      return Status(Code::kInternal, Layer::kCodec, "transpose: layout and shape differ in rank");
    }
    std::vector<std::uint64_t> encoded_shape;
    std::vector<std::uint8_t> encoded_order;
    for (const std::uint8_t axis : order_) {
      encoded_shape.push_back(shape[axis]);
      encoded_order.push_back(layout.axis_order[axis]);
    }
    shape = std::move(encoded_shape);
    layout.axis_order = std::move(encoded_order);
    return {};
  }

 private:
  std::vector<std::uint8_t> order_;
};

constexpr std::size_t kMaxRank = 255;  // an axis is a byte in Layout

}  // namespace

Result<std::unique_ptr<Codec>> make_transpose(const base::Json& config, const Context& context) {
  ConfigReader reader(config, context);
  std::vector<std::uint8_t> order;
  if (const base::Json* value = reader.any("order", Need::kRequired); value != nullptr) {
    // "C" and "F" were taken out of the specification before it was final.
    if (!value->is_array()) {
      reader.refuse("order", "is not an array of axes");
    } else if (value->size() > kMaxRank) {
      reader.refuse("order", "has more than 255 entries");
    } else {
      std::vector<bool> seen(value->size());
      for (const base::Json& axis : *value) {
        // A negative number reads as one beyond every rank.
        if (!axis.is_number_integer() || axis.get<std::uint64_t>() >= seen.size() || seen[axis.get<std::size_t>()]) {
          reader.refuse("order", "is not a permutation of the axes");
          break;
        }
        order.push_back(static_cast<std::uint8_t>(axis.get<std::uint64_t>()));
        seen[order.back()] = true;
      }
    }
  }
  HEADRACE_TRY(reader.finish());
  return std::unique_ptr<Codec>(new TransposeCodec(std::move(order)));
}

}  // namespace headrace::codec
