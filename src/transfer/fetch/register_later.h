// RegisterLater: decides when to register a slab with an engine.
//
// Registering pins every page, which takes 12 to 48 ms for 64 MiB and is wasted in a process that reads only a few
// bytes. Without it, each read pins its own pages. So the slab is registered once as many bytes have been read into it
// as it holds; the total cost is then at most about twice the cheaper alternative's. An engine that cannot register
// late registers before its first submit.
//
// Threads: the thread that uses the engine.
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
  // Call before each submit. `slab`: empty until it exists.
  void before_submit(io::Engine& engine, std::span<std::byte> slab) {
    const bool first = !started_;
    started_ = true;
    if (done_ || slab.empty()) return;
    if (engine.info().registers_late ? read_bytes_ < slab.size() : !first) return;
    done_ = true;  // once even if it fails, since it is an optimisation
    trace::Span span(trace::Stage::kRegister, slab.size());
    try {
      (void)engine.register_buffers({&slab, 1});
    } catch (const std::bad_alloc&) {
    }
  }

 private:
  std::uint64_t read_bytes_ = 0;
  bool started_ = false, done_ = false;
};

}  // namespace headrace::transfer
