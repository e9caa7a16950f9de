// transpose: permutes the axes. Decodes nothing; it updates the axis order by which the assemble step reads the chunk.
#include "base/json.h"
#include "codec/config_reader.h"
#include "codec/representation.h"

namespace headrace::codec {
namespace {

class TransposeCodec final : public ArrayToArray {
 public:
  explicit TransposeCodec(std::vector<std::uint8_t> order) : order_(std::move(order)) {}
  std::string_view name() const noexcept override { return "transpose"; }

  Status enter(Representation& elements) const override {
    if (order_.size() != elements.shape().size()) {
      return Status(Code::kCorrupt, Layer::kCodec,
                    "codec 'transpose': configuration key 'order' has " + std::to_string(order_.size()) +
                        " entries, the array has " + std::to_string(elements.shape().size()) + " axes");
    }
    elements.move_axes(order_);
    return {};
  }

 private:
  std::vector<std::uint8_t> order_;
};

constexpr std::size_t kMaxRank = 255;  // Layout stores an axis in a byte

}  // namespace

Result<Codec> make_transpose(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  std::vector<std::uint8_t> order;
  if (const base::Json* value = reader.any("order", Need::kRequired); value != nullptr) {
    // "C" and "F" were removed from the specification before it was final.
    if (!value->is_array()) {
      reader.refuse("order", "is not an array of axes");
    } else if (value->size() > kMaxRank) {
      reader.refuse("order", "has more than 255 entries");
    } else {
      std::vector<bool> seen(value->size());
      for (const base::Json& axis : *value) {
        // A negative number converts to one above every rank.
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
  return Codec(std::make_unique<TransposeCodec>(std::move(order)));
}

}  // namespace headrace::codec
