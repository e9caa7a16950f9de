// Turns a plan's task descriptions into addresses. Every box is checked against its source and its destination before a
// byte is moved.
//
// Threads: any. Allocates only error messages.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <optional>
#include <span>

#include "device/box.h"
#include "transfer/plan/plan.h"

namespace headrace::transfer {

// kInternal: the box reaches outside the chunk's `bytes` decoded bytes that begin at byte `skipped`.
Status check_source(const TaskDetail& detail, const device::ElementOp& op, std::uint64_t bytes,
                    std::int64_t skipped = 0);
// Sets the source of the detail's box to `decoded`, which is the decoded chunk from byte `skipped` on. kInternal where
// check_source() or check_target() fails.
Status take_from(TaskDetail& detail, const device::ElementOp& op, std::span<const std::byte> decoded,
                 std::int64_t skipped);
// kInternal: the box reaches outside the tensor.
Status check_target(const TaskDetail& detail, const device::ElementOp& op);

// The run of the tensor that receives all `bytes` of a decoded chunk; nullopt: it would reach beyond the tensor.
std::optional<std::span<std::byte>> whole_target(const TaskDetail& detail, std::uint64_t bytes);

// For a raw chunk: the bytes from the first to the last that the task's boxes take.
struct RawSpan {
  std::uint64_t first = 0, bytes = 0;
};
RawSpan raw_span(const TaskDetail& detail, std::uint32_t element_bytes);

// REQUIRES: the wave contains the task.
const TaskGroup& group_of(const WaveTasks& wave, std::uint32_t task);

}  // namespace headrace::transfer
