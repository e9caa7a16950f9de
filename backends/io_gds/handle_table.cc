#include "handle_table.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/fault.h"
#include "base/fork.h"

namespace headrace::io::gds {

HandleTable& HandleTable::of_process() {
  static base::PerProcess<HandleTable> table;
  return table.get();
}

void HandleTable::add_room(unsigned requests) {
  std::lock_guard lock(mutex_);
  files_.reserve(room_ + requests);
  room_ += requests;
}

void HandleTable::end_room(unsigned requests) noexcept {
  std::lock_guard lock(mutex_);
  room_ -= requests;
}

HandleTable::File* HandleTable::entry(int fd) noexcept {
  const auto found = std::find_if(files_.begin(), files_.end(), [&](const File& file) { return file.fd == fd; });
  return found != files_.end() ? &*found : nullptr;
}

void HandleTable::hold(int fd) noexcept {
  std::lock_guard lock(mutex_);
  if (File* file = entry(fd); file != nullptr) {
    ++file->requests;
  } else {
    files_.push_back({fd, 1, nullptr, 0});
  }
}

void HandleTable::release(int fd, const CufileLibrary& library) noexcept {
  std::lock_guard lock(mutex_);
  File* file = entry(fd);
  if (file == nullptr || --file->requests > 0) return;
  if (file->handle != nullptr) library.deregister_handle(file->handle);
  *file = files_.back();
  files_.pop_back();
}

HandleTable::Answer HandleTable::find(int fd, const CufileLibrary& library) noexcept {
  Answer out;
  std::lock_guard lock(mutex_);
  File* file = entry(fd);
  if (file == nullptr) {
    out.system_error = EBADF;
    return out;
  }
  if (file->handle == nullptr) {
    const int flags = ::fcntl(fd, F_GETFL);
    const auto asked = HEADRACE_FAULT("io_gds.fcntl", flags < 0 ? -errno : 0);
    if (asked < 0) {
      out.system_error = static_cast<int>(-asked);
      return out;
    }
    file->access = out.access = flags & O_ACCMODE;
    CUfileDescr_t descriptor{};
    descriptor.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    descriptor.handle.fd = fd;
    CUfileHandle_t made = nullptr;
    const CUfileError_t status = library.register_handle(&made, &descriptor);
    if (status.err != CU_FILE_SUCCESS || made == nullptr) {
      out.library_error = status.err != CU_FILE_SUCCESS ? status.err : CU_FILE_INTERNAL_ERROR;
      return out;
    }
    file->handle = made;
  }
  out.handle = file->handle;
  out.access = file->access;
  return out;
}

}  // namespace headrace::io::gds
