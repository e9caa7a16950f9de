// LoadOnly: loads kernels ahead of their first launch.
#pragma once

namespace headrace::device::gpu {

// While it exists, Launchers of this thread load the kernels they are given and queue nothing. Otherwise a kernel's
// first launch waits for the load, a tenth of a millisecond to several each.
class LoadOnly {
 public:
  LoadOnly() noexcept { active() = true; }
  ~LoadOnly() { active() = false; }
  LoadOnly(const LoadOnly&) = delete;
  LoadOnly& operator=(const LoadOnly&) = delete;
  static bool& active() noexcept {
    thread_local bool active = false;
    return active;
  }
};

}  // namespace headrace::device::gpu
