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
  ++codec_count_;
  if (const ArrayToArray* array = codec.array_to_array()) return array->enter(*this);
  if (const ArrayToBytes* array = codec.array_to_bytes()) return array->enter(*this);
  return {};
}

void Representation::move_axes(const std::vector<std::uint8_t>& order) {
  std::vector<std::uint8_t>& axes = other_axes_ ? open_.stored_order : layout_.axis_order;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint8_t> moved;
  for (const std::uint8_t axis : order) {
    shape.push_back(shape_[axis]);
    moved.push_back(axes[axis]);
  }
  shape_ = std::move(shape);
  axes = std::move(moved);
}

void Representation::change_axes(std::vector<std::uint64_t> shape) {
  closed_ = reorders();
  other_axes_ = true;
  shape_ = std::move(shape);
  open_ = {codec_count_, shape_, c_order(shape_.size()), dtype_.item_bytes};
}

void Representation::change_values(DataType stored, bool elementwise) {
  dtype_ = std::move(stored);
  values_changed_ = true;
  if (!elementwise) change_axes(shape_);
}

std::vector<Reorder> Representation::reorders() const {
  std::vector<Reorder> out = closed_;
  if (other_axes_ && open_.stored_order != c_order(open_.stored_order.size())) out.push_back(open_);
  return out;
}

}  // namespace headrace::codec
