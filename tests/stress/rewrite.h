// The ways in which a file is replaced or rewritten.
#pragma once

#include <string>

#include "dice.h"

namespace headrace::stress {

enum class How : std::uint8_t { kInPlace, kTruncating, kRenamed, kRecreated };
const char* how_name(How how);

void replace_file(const std::string& path, const Bytes& bytes, How how);

}  // namespace headrace::stress
