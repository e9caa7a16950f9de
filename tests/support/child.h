// Runs part of a test in a forked child process.
#pragma once

#include <functional>

namespace headrace::support {

// Returns the exit status of a forked child that runs `body` for at most `seconds`; a terminating signal is returned
// negated.
//
// GCC 12's AddressSanitizer runtime does not take its allocator's locks before a fork, so a lock held by another thread
// stays locked in the child for ever. A child that is stuck on one is killed and forked again.
int in_child(const std::function<int()>& body, unsigned seconds = 30);

}  // namespace headrace::support
