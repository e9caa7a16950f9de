#include "loader/batch_scaling.h"

#include <algorithm>
#include <memory>
#include <tuple>

namespace headrace::loader {

Status scale_boxes(device::Device& device, device::Stream& stream, std::span<const LoaderArray> arrays,
                   const BatchLayout& layout, std::vector<ScaledBox>& boxes) {
  if (boxes.empty()) return {};
  // A launch has one scale and offset.
  const auto key = [](const ScaledBox& one) { return std::tuple(one.array, one.entry); };
  std::sort(boxes.begin(), boxes.end(), [&](const ScaledBox& a, const ScaledBox& b) { return key(a) < key(b); });
  std::vector<device::Box> same;
  same.reserve(boxes.size());
  for (std::size_t i = 0; i < boxes.size();) {
    const ScaledBox& first = boxes[i];
    same.clear();
    for (; i < boxes.size() && key(boxes[i]) == key(first); ++i) same.push_back(boxes[i].box);
    const ScaleBy& by = arrays[first.array].scale_by;
    const device::NumberType type = number_type_of(layout.dtype_of(first.array));
    device::ElementOp op{.element_bytes = device::number_bytes(type)};
    op.conversion = {
        .from = type, .to = type, .scaled = true, .scale = by.scale[first.entry], .offset = by.offset[first.entry]};
    HEADRACE_TRY(device.assemble(same, op, nullptr, stream));
  }
  HEADRACE_TRY_ASSIGN(const std::unique_ptr<device::Event> done, device.create_event());
  HEADRACE_TRY(device.record(*done, stream));
  return device.synchronize(*done);
}

}  // namespace headrace::loader
