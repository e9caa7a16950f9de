// Controls the fake libcufile.so.0 (fake_cufile.cc) and reads its counters.
#pragma once

#include <atomic>

namespace headrace::support {

struct FakeCufile {
  // Inputs
  std::atomic<unsigned> nvfs_version{0};  // major version; 0: compatibility mode
  std::atomic<unsigned> file_systems{0};  // dstatusflags
  std::atomic<bool> forced{false};        // compatibility mode is forced by the configuration
  std::atomic<int> open_error{0};         // result of cuFileDriverOpen
  std::atomic<int> handle_error{0};       // result of cuFileHandleRegister
  std::atomic<int> buffers_allowed{1000};
  std::atomic<long> read_result{1};    // result of cuFileRead, unless 1
  std::atomic<int> read_errno{0};      // used with a read_result of -1
  std::atomic<int> reads_to_pass{0};   // number of reads that succeed before any fails
  std::atomic<int> reads_to_fail{-1};  // number of reads from then on that fail; -1: all
  std::atomic<bool> halves{false};     // each read moves half of the requested bytes
  std::atomic<long> most_bytes{0};     // each read moves at most so many; 0: any number
  std::atomic<int> one_file_in{1};     // only reads of one file in so many fail, by inode
  std::atomic<int> delay_us{0};        // of each read
  // Outputs
  std::atomic<int> opens{0}, handles{0}, handles_made{0}, buffers{0}, reads{0}, writes{0};
  std::atomic<int> misuses{0};           // a descriptor with two handles, an invalid handle, memory outside its buffer
  std::atomic<int> registered_reads{0};  // into registered memory
};

inline constexpr const char* kFakeCufileControl = "headrace_fake_cufile";
using FakeCufileControl = FakeCufile& (*)();

}  // namespace headrace::support
