// HandleTable: the cuFile handles of this process's descriptors, shared by all engines, since a descriptor has one.
//
// A descriptor has its handle from the first transfer on until no request of any engine needs it: whoever closes it has
// all completions then, so that no handle is left for a number that another file has got.
//
// Threads: every call from any thread. One lock: two threads that register one descriptor would be a misuse.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "cufile_library.h"

namespace headrace::io::gds {

class HandleTable {
 public:
  // The process's own: a forked child has another.
  static HandleTable& of_process();

  // Room for so many requests at a time more, or no longer. Throws std::bad_alloc.
  void add_room(unsigned requests);
  void end_room(unsigned requests) noexcept;

  // One request more, or less, needs the descriptor. REQUIRES: room.
  void hold(int fd) noexcept;
  void let_go(int fd, const CufileLibrary& library) noexcept;

  struct Answer {
    CUfileHandle_t handle = nullptr;
    int access = 0;         // O_RDONLY, O_WRONLY or O_RDWR
    int system_error = 0;   // why there is none: what the system says of the descriptor,
    int library_error = 0;  // or cuFile
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
