#include "codec/representation.h"

#include <numeric>
#include <string>
#include <utility>

namespace headrace::codec {
namespace {

std::vector<std::uint8_t> c_order(std::size_t rank) {
  std::vector<std::uint8_t> order(rank);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  return order;
}

}  // namespace

Representation::Representation(const DataType& dtype, std::vector<std::uint64_t> shape, Layout layout)
    : dtype_(dtype), shape_(std::move(shape)), layout_(std::move(layout)) {
  if (layout_.axis_order.empty()) layout_.axis_order = c_order(shape_.size());
}

Status Representation::enter(const Codec& codec) {
  if (order_fixed_) {
    // Values depend on their neighbours as they came in; axes that move afterwards would have to move back in between.
    Layout behind;
    behind.axis_order = c_order(shape_.size());
    HEADRACE_TRY(codec.resolve_layout(dtype_, shape_, behind));
    if (behind.axis_order != c_order(behind.axis_order.size())) {
      return Status(Code::kUnsupported, Layer::kCodec,
                    "codec '" + std::string(codec.name()) +
                        "' behind one that encodes elements by their neighbours (delta, packbits)");
    }
    layout_.byte_swapped = behind.byte_swapped;
  } else {
    HEADRACE_TRY(codec.resolve_layout(dtype_, shape_, layout_));
  }
  if (codec.kind() == Kind::kArrayToArray && codec.has_decode_stage()) {
    dtype_ = codec.encoded_type(dtype_);
    values_changed_ = true;
    order_fixed_ = order_fixed_ || !codec.elementwise();
  }
  return {};
}

}  // namespace headrace::codec
