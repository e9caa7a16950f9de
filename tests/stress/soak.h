// Reads of larger arrays by several threads on several devices, for as long as one likes, while pages are dropped from
// the cache, reads cancelled and stores written anew. Every element is compared.
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
  std::uint64_t most_findings = 10;
  RigOptions rig;
  RecordOptions record;
};

// Prints findings as they come, and a JSON object in the end. 0: nothing was found; 1.
int run_soak(const SoakOptions& options);

}  // namespace headrace::stress
