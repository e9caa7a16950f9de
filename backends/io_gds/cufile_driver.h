// CufileDriver: libcufile's driver, opened once per process and left open, and what it reports about itself.
//
// It is never closed: at program exit the CUDA driver that it needs may already be gone.
//
// Threads: every call from any thread.
// Fails:   as load_cufile_library(); kForked in a child of the process that opened it; kUnsupported: it does not open.
#pragma once

#include <headrace/status.h>

#include <string>

#include "cufile_library.h"

namespace headrace::io::gds {

struct CufileDriver {
  CufileLibrary library;
  std::string version;  // of the library, such as "1.15"; empty if unknown
  // Why it copies through host memory; empty if it transfers directly between disk and GPU.
  std::string why_compatible;
  std::string describe() const;
};

// `only_direct`: fails if the driver is in compatibility mode, and, without opening it, if the kernel lacks nvidia-fs.
Result<const CufileDriver*> cufile_driver(bool only_direct);

// Why a driver with these properties copies through host memory. `forced`: its configuration demands it.
std::string why_compatible(const CUfileDrvProps_t& properties, bool forced);

}  // namespace headrace::io::gds
