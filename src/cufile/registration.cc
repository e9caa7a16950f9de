// cuFileHandleRegister, cuFileBufRegister and their opposites.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "cufile/driver.h"
#include "cufile/io_call.h"

namespace headrace::cufile {
namespace {

using Kind = device::MemoryPlace::Kind;

CUfileOpError register_file(Driver& driver, CUfileHandle_t* handle, const CUfileDescr_t* descriptor) {
  // The driver opens even if the arguments are invalid.
  if (const CUfileOpError code = driver.ensure_open(); code != CU_FILE_SUCCESS) return code;
  if (handle == nullptr || descriptor == nullptr) return CU_FILE_INVALID_VALUE;
  // A user-space file system is reached only through its own RDMA transport, which this library does not have.
  if (descriptor->type != CU_FILE_HANDLE_TYPE_OPAQUE_FD) return CU_FILE_IO_NOT_SUPPORTED;
  const int fd = descriptor->handle.fd;
  struct stat st;
  const int flags = fd < 0 ? -1 : ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fstat(fd, &st) != 0) return CU_FILE_INVALID_VALUE;
  if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) return CU_FILE_INVALID_FILE_TYPE;
  if ((flags & (O_APPEND | O_PATH)) != 0) return CU_FILE_INVALID_FILE_OPEN_FLAG;
  OpenFile file;
  file.descriptor = fd;
  file.session = driver.session();
  if (file.session == nullptr) return CU_FILE_DRIVER_CLOSING;  // another thread has just closed the driver
  file.file = std::make_shared<os::FileHandle>();
  if (const Status status = os::FileHandle::adopt(fd, *file.file); !status.ok()) {
    driver.log.write(Severity::kError, status.to_string());
    return status.code() == Code::kResourceExhausted ? CU_FILE_GETNEWFD_FAILED : CU_FILE_INVALID_VALUE;
  }
  return driver.files.add(std::move(file), *handle);
}

CUfileOpError register_buffer(Driver& driver, const void* base, std::size_t bytes, int& gpu) {
  if (const CUfileOpError code = driver.ensure_open(); code != CU_FILE_SUCCESS) return code;
  if (base == nullptr || bytes == 0) return CU_FILE_INVALID_VALUE;
  RegisteredBuffer buffer{bytes, device::locate_memory(base)};
  gpu = gpu_of(buffer.place);
  if (bytes > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(base)) {
    return buffer.place.kind == Kind::kDevice ? CU_FILE_CUDA_POINTER_RANGE_ERROR : CU_FILE_INVALID_VALUE;
  }
  if (buffer.place.kind == Kind::kDevice) {
    Target target;
    // The same base may be registered already, with another length.
    if (RegisteredBuffer other; driver.buffers.find(base, other)) return CU_FILE_MEMORY_ALREADY_REGISTERED;
    if (!resolve(driver, base, bytes, 0, target).ok()) return CU_FILE_CUDA_POINTER_RANGE_ERROR;
  }
  return driver.buffers.add(base, buffer);
}

CUfileOpError deregister_buffer(Driver& driver, const void* base) {
  if (base == nullptr) return CU_FILE_INVALID_VALUE;
  if (driver.uses() == 0) return CU_FILE_DRIVER_CLOSING;
  RegisteredBuffer buffer;
  if (!driver.buffers.remove(base, buffer)) return CU_FILE_MEMORY_NOT_REGISTERED;
  driver.statistics.registered(gpu_of(buffer.place), -static_cast<std::int64_t>(buffer.bytes), true);
  return CU_FILE_SUCCESS;
}

}  // namespace
}  // namespace headrace::cufile

using namespace headrace::cufile;

CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr) {
  return guarded([&] {
    Driver& driver = Driver::get();
    const CUfileOpError code = register_file(driver, fh, descr);
    driver.statistics.count(Op::kHandleRegister, code == CU_FILE_SUCCESS);
    return code;
  });
}

void cuFileHandleDeregister(CUfileHandle_t fh) {
  (void)guarded([&] {
    Driver& driver = Driver::get();
    const bool closed = driver.files.close(fh);
    if (closed) driver.queues->files_closed();
    if (fh != nullptr) driver.statistics.count(Op::kHandleDeregister, closed);
    return CU_FILE_SUCCESS;
  });
}

CUfileError_t cuFileBufRegister(const void* bufPtr_base, size_t length, int /*flags*/) {
  return guarded([&] {
    Driver& driver = Driver::get();
    int gpu = kHostMemory;
    const CUfileOpError code = register_buffer(driver, bufPtr_base, length, gpu);
    driver.statistics.count(Op::kBufferRegister, code == CU_FILE_SUCCESS);
    driver.statistics.registered(gpu, static_cast<std::int64_t>(length), code == CU_FILE_SUCCESS);
    return code;
  });
}

CUfileError_t cuFileBufDeregister(const void* bufPtr_base) {
  return guarded([&] {
    Driver& driver = Driver::get();
    const CUfileOpError code = deregister_buffer(driver, bufPtr_base);
    driver.statistics.count(Op::kBufferDeregister, code == CU_FILE_SUCCESS);
    return code;
  });
}
