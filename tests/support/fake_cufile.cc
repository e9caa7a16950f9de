// A libcufile.so.0 that a test controls. It does plain reads and writes, into memory that the CPU can address.
#include "support/fake_cufile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#define CUFILE_WITHOUT_CUDA_H
#pragma GCC visibility push(default)
#include <cufile/cufile.h>
extern "C" headrace::support::FakeCufile& headrace_fake_cufile();
#pragma GCC visibility pop

namespace {

std::mutex mutex;
std::map<int, int> handles;  // by descriptor: how often it was registered
std::map<const void*, size_t> buffers;

CUfileError_t answer(int code) { return {static_cast<CUfileOpError>(code), static_cast<CUresult>(0)}; }

// Reopens the file buffered, so that any alignment works whatever flags the descriptor has.
int open_buffered(int fd, int flags) {
  return ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), flags | O_CLOEXEC);
}

int descriptor_of(CUfileHandle_t handle) { return static_cast<int>(reinterpret_cast<std::intptr_t>(handle)) - 1; }

// Counts down, whichever threads read.
bool counts(std::atomic<int>& left) {
  int now = left;
  while (now > 0 && !left.compare_exchange_weak(now, now - 1)) {
  }
  return now > 0;
}

bool fails_now(headrace::support::FakeCufile& control, int fd) {
  struct stat about {};
  if (control.one_file_in > 1 && ::fstat(fd, &about) == 0 &&
      about.st_ino % static_cast<unsigned>(control.one_file_in) != 0) {
    return false;
  }
  if (counts(control.reads_to_pass)) return false;
  return control.reads_to_fail < 0 || counts(control.reads_to_fail);
}

}  // namespace

headrace::support::FakeCufile& headrace_fake_cufile() {
  static headrace::support::FakeCufile control;
  return control;
}

CUfileError_t cuFileDriverOpen() {
  ++headrace_fake_cufile().opens;
  return answer(headrace_fake_cufile().open_error);
}

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* properties) {
  *properties = {};
  properties->nvfs.major_version = headrace_fake_cufile().nvfs_version;
  properties->nvfs.dstatusflags = headrace_fake_cufile().file_systems;
  return answer(0);
}

CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t, bool* value) {
  *value = headrace_fake_cufile().forced;
  return answer(0);
}

CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle, CUfileDescr_t* descriptor) {
  auto& control = headrace_fake_cufile();
  if (control.handle_error != 0) return answer(control.handle_error);
  const int fd = descriptor->handle.fd;
  std::lock_guard lock(mutex);
  if (++handles[fd] > 1) {
    ++control.misuses;
    return answer(CU_FILE_HANDLE_ALREADY_REGISTERED);
  }
  ++control.handles;
  ++control.handles_made;
  *handle = reinterpret_cast<CUfileHandle_t>(static_cast<std::intptr_t>(fd) + 1);
  return answer(0);
}

void cuFileHandleDeregister(CUfileHandle_t handle) {
  std::lock_guard lock(mutex);
  if (handles.erase(descriptor_of(handle)) == 0) {
    ++headrace_fake_cufile().misuses;
  } else {
    --headrace_fake_cufile().handles;
  }
}

CUfileError_t cuFileBufRegister(const void* base, size_t length, int) {
  auto& control = headrace_fake_cufile();
  std::lock_guard lock(mutex);
  if (control.buffers >= control.buffers_allowed) return answer(CU_FILE_INVALID_MAPPING_SIZE);
  if (!buffers.emplace(base, length).second) return answer(CU_FILE_MEMORY_ALREADY_REGISTERED);
  ++control.buffers;
  return answer(0);
}

CUfileError_t cuFileBufDeregister(const void* base) {
  std::lock_guard lock(mutex);
  if (buffers.erase(base) == 0) {
    ++headrace_fake_cufile().misuses;
    return answer(CU_FILE_MEMORY_NOT_REGISTERED);
  }
  --headrace_fake_cufile().buffers;
  return answer(0);
}

ssize_t cuFileRead(CUfileHandle_t handle, void* base, size_t size, off_t file_offset, off_t buffer_offset) {
  auto& control = headrace_fake_cufile();
  ++control.reads;
  {
    std::lock_guard lock(mutex);
    if (!handles.contains(descriptor_of(handle))) ++control.misuses;
    if (const auto buffer = buffers.find(base); buffer != buffers.end()) {
      ++control.registered_reads;
      if (static_cast<size_t>(buffer_offset) + size > buffer->second) ++control.misuses;
    }
  }
  if (control.delay_us > 0) ::usleep(static_cast<useconds_t>(control.delay_us));
  if (control.read_result != 1 && fails_now(control, descriptor_of(handle))) {
    errno = control.read_errno;
    return control.read_result;
  }
  if (control.halves && size > 1) size /= 2;
  if (control.most_bytes > 0) size = std::min(size, static_cast<size_t>(control.most_bytes));
  const int fd = open_buffered(descriptor_of(handle), O_RDONLY);
  const ssize_t moved = ::pread(fd, static_cast<char*>(base) + buffer_offset, size, file_offset);
  ::close(fd);
  return moved;
}

ssize_t cuFileWrite(CUfileHandle_t handle, const void* base, size_t size, off_t file_offset, off_t buffer_offset) {
  ++headrace_fake_cufile().writes;
  const int fd = open_buffered(descriptor_of(handle), O_WRONLY);
  const ssize_t moved = ::pwrite(fd, static_cast<const char*>(base) + buffer_offset, size, file_offset);
  ::close(fd);
  return moved;
}
