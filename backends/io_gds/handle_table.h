// HandleTable: the cuFile handles of this process's descriptors, shared by all engines, since a descriptor can have
// only one.
//
// A descriptor's handle exists from its first transfer until no request of any engine needs it. Whoever closes the
// descriptor has received all completions by then, so no handle is left for a number that is reused for another file.
//
// Threads: every call from any thread. One lock, since two threads must not register the same descriptor at once.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "cufile_library.h"

namespace headrace::io::gds {

class HandleTable {
 public:
  // This process's table; a forked child gets another.
  static HandleTable& of_process();

  // Adds or removes room for this many concurrent requests. Throws std::bad_alloc.
  void add_room(unsigned requests);
  void end_room(unsigned requests) noexcept;

  // One request more, or less, uses the descriptor. REQUIRES: room.
  void hold(int fd) noexcept;
  void release(int fd, const CufileLibrary& library) noexcept;

  struct Answer {
    CUfileHandle_t handle = nullptr;
    int access = 0;         // O_RDONLY, O_WRONLY or O_RDWR
    int system_error = 0;   // why there is no handle: the system's error for the descriptor,
    int library_error = 0;  // or cuFile's
  };
  // REQUIRES: held.
  Answer find(int fd, const CufileLibrary& library) noexcept;

 private:
  struct File {
    int fd = -1;
    unsigned requests = 0;
    CUfileHandle_t handle = nullptr;
    int access = 0;
  };
  File* entry(int fd) noexcept;

  std::mutex mutex_;
  std::vector<File> files_;  // guarded by mutex_
  std::size_t room_ = 0;     // guarded by mutex_
};

}  // namespace headrace::io::gds
