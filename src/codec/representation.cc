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
  if (other_axes_) {
    Layout behind;
    behind.axis_order = open_.stored_order;
    HEADRACE_TRY(codec.resolve_layout(dtype_, shape_, behind));
    open_.stored_order = std::move(behind.axis_order);
    layout_.byte_swapped = behind.byte_swapped;
  } else {
    HEADRACE_TRY(codec.resolve_layout(dtype_, shape_, layout_));
  }
  ++codec_count_;
  if (codec.kind() != Kind::kArrayToArray) return {};
  if (codec.has_decode_stage()) {
    dtype_ = codec.encoded_type(dtype_);
    values_changed_ = true;
  }
  if (!codec.keeps_axes() || (codec.has_decode_stage() && !codec.elementwise())) start_other_axes();
  return {};
}

void Representation::start_other_axes() {
  closed_ = reorders();
  other_axes_ = true;
  open_ = {codec_count_, shape_, c_order(shape_.size()), dtype_.item_bytes};
}

std::vector<Reorder> Representation::reorders() const {
  std::vector<Reorder> out = closed_;
  if (other_axes_ && open_.stored_order != c_order(open_.stored_order.size())) out.push_back(open_);
  return out;
}

}  // namespace headrace::codec
