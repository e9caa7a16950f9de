// LoaderState: a few integers from which a loader goes on exactly where another one stopped, on any number of ranks.
//
//   Result<LoaderState> state = LoaderState::from_json(text);      // what to_json() wrote
//   HEADRACE_TRY(state->check(schema, order.positions()));         // made by a loader like this one?
//   Split::create(options, order.positions(), state->at.consumed)  // the rest of epoch state->at.epoch
//
// Threads: a value.
// Fails:   functions that allocate throw std::bad_alloc.
#pragma once

#include <headrace/export.h>
#include <headrace/loader_schema.h>
#include <headrace/split.h>
#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace {

struct HEADRACE_API LoaderState {
  static constexpr std::uint64_t kVersion = 1;

  std::uint64_t seed = 0;
  LoaderPosition at;    // Split::after()
  LoaderSchema schema;  // of the samples (Windows, Crops) and of their order

  // One line: {"consumed":640,"epoch":3,"schema":{"dims":"00f3...",...},"seed":42,"version":1}
  std::string to_json() const;
  // The opposite. The text may come from anywhere. kCorrupt naming what is wrong: no JSON, a field that is missing,
  // unknown, given twice or of another type, more than 64 digests. kUnsupported: another version. kResourceExhausted:
  // more than 64 KiB.
  static Result<LoaderState> from_json(std::string_view text);

  // kInvalidArgument naming every parameter that differs; or if more has been consumed than an epoch has.
  Status check(const LoaderSchema& loader, std::uint64_t positions) const;
  bool operator==(const LoaderState& other) const noexcept = default;
};

}  // namespace headrace
