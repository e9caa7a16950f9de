// Tells whether this process is a fork()ed child of the one in which a handle was made.
#pragma once

#include <cstdint>

namespace headrace::base {

// Changes in the child of every fork(); one atomic load.
std::uint64_t fork_generation() noexcept;

}  // namespace headrace::base
