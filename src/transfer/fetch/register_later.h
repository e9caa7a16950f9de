// RegisterLater: when a slab is registered with an engine.
//
// Registering makes and pins every page, 12 to 48 ms for 64 MiB, which a process that reads a few bytes would wait for
// in vain; not to do it costs each read the pinning of its own pages. So it is done once as many bytes have been read
// into the slab as it has: together that costs at most about twice what the better of the two would have. An engine
// that cannot register late does it before its first submit.
//
// Threads: the one that uses the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "base/trace.h"
#include "io/engine.h"

namespace headrace::transfer {

class RegisterLater {
 public:
  void read(std::uint64_t bytes) noexcept { read_bytes_ += bytes; }
  // Before each submit, from the first one on. `slab`: empty until there is one.
  void before_submit(io::Engine& engine, std::span<std::byte> slab) {
    const bool first = !begun_;
    begun_ = true;
    if (done_ || slab.empty()) return;
    if (engine.info().registers_late ? read_bytes_ < slab.size() : !first) return;
    done_ = true;  // once, also where it fails: an optimisation
    trace::Span span(trace::Stage::kRegister, slab.size());
    try {
      (void)engine.register_buffers({&slab, 1});
    } catch (const std::bad_alloc&) {
    }
  }

 private:
  std::uint64_t read_bytes_ = 0;
  bool begun_ = false, done_ = false;
};

}  // namespace headrace::transfer
