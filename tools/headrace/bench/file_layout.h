// Makes the files that a job reads or writes over.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string>

namespace headrace::bench {

// Writes [from, end) of the file, which is made if it is missing, with bytes that do not compress. On failure, or an
// interrupt (kCancelled), a file that was made is removed. Status::key() is the path.
Status lay_out(const std::string& path, std::uint64_t from, std::uint64_t end, std::uint64_t seed, bool sync);

}  // namespace headrace::bench
