// Creates or extends the files that a job uses.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string>

namespace headrace::bench {

// Writes incompressible bytes to [from, end) of the file, creating it if it is missing. On failure or interrupt
// (kCancelled), removes a file that it created. Status::key() is the path.
Status lay_out(const std::string& path, std::uint64_t from, std::uint64_t end, std::uint64_t seed, bool sync);

}  // namespace headrace::bench
