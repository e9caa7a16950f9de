// A file registered with libcufile.so.0, for cuFile tests.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "cufile/cufile_api.h"

namespace headrace::support {

class CufileFile {
 public:
  CufileFile(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) return;
    CUfileDescr_t descriptor{};
    descriptor.handle.fd = fd_;
    descriptor.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    error = cuFileHandleRegister(&handle_, &descriptor).err;
  }
  ~CufileFile() {
    deregister();
    if (fd_ >= 0) ::close(fd_);
  }
  CufileFile(const CufileFile&) = delete;
  CufileFile& operator=(const CufileFile&) = delete;
  void deregister() {
    if (handle_ != nullptr) cuFileHandleDeregister(handle_);
    handle_ = nullptr;
  }
  CUfileHandle_t handle() const { return handle_; }
  int fd() const { return fd_; }
  CUfileOpError error = CU_FILE_INTERNAL_ERROR;  // result of the registration

 private:
  int fd_;
  CUfileHandle_t handle_ = nullptr;
};

// Closes the driver whatever its reference count, so that each test starts with a closed driver.
inline void close_driver() {
  while (cuFileUseCount() > 0) (void)cuFileDriverClose();
}

}  // namespace headrace::support
