// Several threads read larger arrays on several devices for any length of time, while pages are dropped from the cache,
// reads cancelled and stores rewritten. Every element is compared.
#pragma once

#include <string>

#include "rig.h"
#include "workers.h"

namespace headrace::stress {

struct SoakOptions {
  std::uint64_t seed = 1;
  double seconds = 60;
  unsigned threads = 8;
  unsigned arrays = 12;
  std::uint64_t max_findings = 10;
  RigOptions rig;
  RecordOptions record;
};

// Prints findings as they occur and a JSON object at the end. Returns 0 if nothing was found, else 1.
int run_soak(const SoakOptions& options);

}  // namespace headrace::stress
