// Patience: what a thread does between two looks at whether another processor is done.
//
// It spins at first, since waking takes tens of microseconds. A wait that lasts gives the CPU to others: naps of a
// sixteenth of the time waited so far make its end late by a few per cent.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/clock.h"

namespace headrace::base {

class Patience {
 public:
  static constexpr std::uint64_t kSpinNs = 1'000'000;

  void pause() const {
    const std::uint64_t waited = now_ns() - begun_;
    if (waited < kSpinNs) {
      for (int i = 0; i < 16; ++i) relax();
    } else {
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min<std::uint64_t>(waited / 16, 1'000'000)));
    }
  }

 private:
  const std::uint64_t begun_ = now_ns();
};

}  // namespace headrace::base
