// Turns: who decodes the waves of one read: the device, the CPU, or both in turns where a policy finds out who is
// faster.
//
// Threads: every call from any thread; begin() and end() of one wave by one at a time.
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

  // Before a wave, whose form is known, is filled: its kind, and how many tasks it may have. mapped_bytes: of files,
  // that the device can take out of the page cache by now.
  void begin(Wave& wave, std::uint64_t mapped_bytes) const;
  // It is free again. `given_up`: how long it took tells nothing.
  void end(Wave& wave, bool given_up) const;

 private:
  CpuWork cpu_work(const Wave& wave) const;

  const WaveKind kind_;
  const Sizes sizes_;
  const std::shared_ptr<PlacementPolicy> policy_;  // null: kind_ for ever
};

}  // namespace headrace::transfer
