// LoaderState: a few integers with which a loader resumes exactly where another one stopped, on any number of ranks.
//
//   Result<LoaderState> state = LoaderState::from_json(text);      // what to_json() wrote
//   HEADRACE_TRY(state->check(schema, order.positions()));         // made by a loader like this one?
//   Split::create(options, order.positions(), state->at.consumed)  // the rest of epoch state->at.epoch
//
// Threads: a plain value.
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
  LoaderSchema schema;  // of the samples (Windows, Crops) and their order

  // One line: {"consumed":640,"epoch":3,"schema":{"dims":"00f3...",...},"seed":42,"version":1}
  std::string to_json() const;
  // Parses to_json()'s output. The text may be untrusted. kCorrupt, naming the problem: not JSON; a field that is
  // missing, unknown, duplicated or of the wrong type; more than 64 digests. kUnsupported: another version.
  // kResourceExhausted: over 64 KiB.
  static Result<LoaderState> from_json(std::string_view text);

  // kInvalidArgument if a parameter differs (all are named), or if more was consumed than an epoch has.
  Status check(const LoaderSchema& loader, std::uint64_t positions) const;
  bool operator==(const LoaderState& other) const noexcept = default;
};

}  // namespace headrace
