// What a test tells the stand-in for NVIDIA's libcufile.so.0 to do, and what it has seen (fake_cufile.cc).
#pragma once

#include <atomic>

namespace headrace::support {

struct FakeCufile {
  // In
  std::atomic<unsigned> nvfs_version{0};  // the major one; 0: compatibility mode
  std::atomic<unsigned> file_systems{0};  // dstatusflags
  std::atomic<bool> forced{false};        // into compatibility mode, by the configuration
  std::atomic<int> open_error{0};         // of cuFileDriverOpen
  std::atomic<int> handle_error{0};       // of cuFileHandleRegister
  std::atomic<int> buffers_allowed{1000};
  std::atomic<long> read_result{1};    // of cuFileRead, where it is not 1
  std::atomic<int> read_errno{0};      // with a read_result of -1
  std::atomic<int> reads_to_fail{-1};  // so many from now on; -1: all
  std::atomic<bool> halves{false};     // each read moves half of what is asked for
  // Out
  std::atomic<int> opens{0}, handles{0}, handles_made{0}, buffers{0}, reads{0}, writes{0};
  std::atomic<int> misuses{0};  // a descriptor with two handles, a handle that is none, memory beyond its buffer
  std::atomic<int> registered_reads{0};  // into registered memory
};

inline constexpr const char* kFakeCufileControl = "headrace_fake_cufile";
using FakeCufileControl = FakeCufile& (*)();

}  // namespace headrace::support
