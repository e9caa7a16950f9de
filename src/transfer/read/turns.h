// Turns: decides who decodes the waves of one read: the device, the CPU, or both in turns while a policy measures which
// is faster.
//
// Threads: every call from any thread; begin() and end() of one wave by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transfer/placement/placement.h"
#include "transfer/read/wave.h"

namespace headrace::transfer {

class Turns {
 public:
  struct Sizes {
    std::size_t workers = 1;
    std::uint64_t chunks = 0;  // of the read
  };

  // All waves are of one kind.
  Turns(WaveKind kind, const Sizes& sizes) noexcept : kind_(kind), sizes_(sizes) {}
  Turns(std::shared_ptr<PlacementPolicy> policy, const Sizes& sizes) noexcept
      : kind_(WaveKind::kGpu), sizes_(sizes), policy_(std::move(policy)) {}

  // Call before filling a wave whose form is known: sets its kind and its task limit. mapped_bytes: file bytes that the
  // device can currently copy from the page cache.
  void begin(Wave& wave, std::uint64_t mapped_bytes) const;
  // The wave is free again. `abandoned`: its duration is not a measurement.
  void end(Wave& wave, bool abandoned) const;

 private:
  CpuWork cpu_work(const Wave& wave) const;

  const WaveKind kind_;
  const Sizes sizes_;
  const std::shared_ptr<PlacementPolicy> policy_;  // null: always kind_
};

}  // namespace headrace::transfer
