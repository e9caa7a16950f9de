// Parsing JSON within a MemoryBudget.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/memory_budget.h"

namespace headrace::base {

// parse_json() with what the values take, estimated, taken from `charge`; kResourceExhausted also where its budget has
// too little left.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits, Charge& charge);

// What parsing so many bytes of text takes at most, whatever they are: copies of the text and its values.
std::uint64_t most_parse_bytes(std::uint64_t text_bytes, const JsonLimits& limits = {}) noexcept;

}  // namespace headrace::base
