// CufileDriver: libcufile's driver, opened once in a process and left open, and what it says of itself.
//
// It is not closed: at the end of a program the CUDA driver that it needs may be gone before it.
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
  std::string version;  // of the library, "1.15"; empty where it does not tell
  // Why it copies through host memory; empty where it moves bytes between disk and GPU directly.
  std::string why_compatible;
  std::string describe() const;
};

// `only_direct`: fails, without opening it, where the kernel has no driver for it, and where it is in compatibility
// mode.
Result<const CufileDriver*> cufile_driver(bool only_direct);

// Why a driver with these properties copies through host memory. `forced`: its configuration says so.
std::string why_compatible(const CUfileDrvProps_t& properties, bool forced);

}  // namespace headrace::io::gds
