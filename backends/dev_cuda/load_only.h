// LoadOnly: kernels are loaded before they are launched.
#pragma once

namespace headrace::device::gpu {

// While it exists, Launchers of this thread load the kernels that they are told to launch, and queue nothing: a
// kernel's first launch otherwise waits for that, a tenth of a millisecond to some each.
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
