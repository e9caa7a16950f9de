// What a test does in a process of its own.
#pragma once

#include <functional>

namespace headrace::support {

// Exit status of a forked child that runs `body` for at most so many seconds; a signal that ended it is negative.
// A child that waits for AddressSanitizer's own allocator is ended and forked anew: GCC 12's runtime does not take its
// locks before a fork, so one that another thread held is held in the child for ever.
int in_child(const std::function<int()>& body, unsigned seconds = 30);

}  // namespace headrace::support
