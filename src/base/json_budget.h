// Parsing JSON within a MemoryBudget.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/memory_budget.h"

namespace headrace::base {

// parse_json() with the estimated memory of the values taken from `charge`. kResourceExhausted also if its budget does
// not have enough left.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits, Charge& charge);

// Upper bound on the memory for parsing this many bytes of any text: copies of the text plus its values.
std::uint64_t max_parse_bytes(std::uint64_t text_bytes, const JsonLimits& limits = {}) noexcept;

}  // namespace headrace::base
