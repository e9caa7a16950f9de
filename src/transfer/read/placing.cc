#include "transfer/read/placing.h"

#include <algorithm>
#include <iterator>

#include "base/part.h"

namespace headrace::transfer {

Status check_source(const TaskDetail& detail, const device::ElementOp& op, std::uint64_t bytes, std::int64_t skipped) {
  const std::int64_t at = detail.source_offset - skipped;
  if (device::fits(detail.box, &device::BoxDim::src_stride_bytes, at, op.element_bytes, bytes)) return {};
  return Status(Code::kInternal, Layer::kTransfer, "a box reaches beyond its decoded chunk");
}

Status take_from(TaskDetail& detail, const device::ElementOp& op, std::span<const std::byte> decoded,
                 std::int64_t skipped) {
  HEADRACE_TRY(check_source(detail, op, decoded.size(), skipped));
  HEADRACE_TRY(check_target(detail, op));
  detail.box.src = decoded.data() + (detail.source_offset - skipped);
  return {};
}

Status check_target(const TaskDetail& detail, const device::ElementOp& op) {
  const std::int64_t at = detail.box.dst - detail.tensor.data();
  if (device::fits(detail.box, &device::BoxDim::dst_stride_bytes, at, op.result_bytes(), detail.tensor.size())) {
    return {};
  }
  return Status(Code::kInternal, Layer::kTransfer, "a box reaches beyond the tensor");
}

std::optional<std::span<std::byte>> whole_target(const TaskDetail& detail, std::uint64_t bytes) {
  return base::part(detail.tensor, static_cast<std::uint64_t>(detail.box.dst - detail.tensor.data()), bytes);
}

RawSpan raw_span(const TaskDetail& detail, std::uint32_t element_bytes) {
  if (detail.several) return {detail.span_begin, detail.span_end - detail.span_begin};
  const device::Box& box = detail.box;
  const auto first = static_cast<std::uint64_t>(detail.source_offset);
  std::uint64_t last = first;
  for (int i = 0; i < box.rank; ++i) {
    const device::BoxDim& dim = box.dim[static_cast<std::size_t>(i)];
    if (dim.extent == 0) return {first, 0};
    last += (dim.extent - 1) * static_cast<std::uint64_t>(dim.src_stride_bytes);
  }
  return {first, last + element_bytes - first};
}

const TaskGroup& group_of(const WaveTasks& wave, std::uint32_t task) {
  const auto after =
      std::upper_bound(wave.groups.begin(), wave.groups.end(), task,
                       [](std::uint32_t index, const TaskGroup& group) { return index < group.first_task; });
  return *std::prev(after);
}

}  // namespace headrace::transfer
