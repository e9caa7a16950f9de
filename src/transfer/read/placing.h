// From what a plan says of a task to addresses: every box is compared with both of its ends before a byte moves.
//
// Threads: any. Nothing here is allocated but the text of an error.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <optional>
#include <span>

#include "device/box.h"
#include "transfer/plan/plan.h"

namespace headrace::transfer {

// kInternal: the box wants other bytes of its decoded chunk than the `bytes` from byte `skipped` on.
Status check_source(const TaskDetail& detail, const device::ElementOp& op, std::uint64_t bytes,
                    std::int64_t skipped = 0);
// The detail's box takes its elements from `decoded`, which is the decoded chunk from byte `skipped` on. kInternal as
// both checks have it.
Status take_from(TaskDetail& detail, const device::ElementOp& op, std::span<const std::byte> decoded,
                 std::int64_t skipped);
// kInternal: the box goes elsewhere than the tensor.
Status check_target(const TaskDetail& detail, const device::ElementOp& op);

// The run of the tensor that all `bytes` of a decoded chunk become; nothing: it reaches beyond.
std::optional<std::span<std::byte>> whole_target(const TaskDetail& detail, std::uint64_t bytes);

// Of a chunk whose stored bytes are its elements, those from the first to the last that the task's boxes take.
struct RawSpan {
  std::uint64_t first = 0, bytes = 0;
};
RawSpan raw_span(const TaskDetail& detail, std::uint32_t element_bytes);

// REQUIRES: the wave has the task.
const TaskGroup& group_of(const WaveTasks& wave, std::uint32_t task);

}  // namespace headrace::transfer
