// CufileLibrary: NVIDIA's libcufile.so.0, found and loaded on demand and never unloaded.
//
// Threads: every call from any thread.
// Fails:   kNotFound: it is missing; kPermission: others can write to it; kUnsupported: it cannot be loaded or lacks a
//          function.
#pragma once

#include <headrace/status.h>

#define CUFILE_WITHOUT_CUDA_H
#include <cufile/cufile.h>

#include <string>

namespace headrace::io::gds {

struct CufileLibrary {
  std::string path;
  bool named = false;  // by HEADRACE_GDS_LIBRARY
  decltype(&cuFileDriverOpen) driver_open = nullptr;
  decltype(&cuFileDriverGetProperties) get_properties = nullptr;
  decltype(&cuFileHandleRegister) register_handle = nullptr;
  decltype(&cuFileHandleDeregister) deregister_handle = nullptr;
  decltype(&cuFileBufRegister) register_buffer = nullptr;
  decltype(&cuFileBufDeregister) deregister_buffer = nullptr;
  decltype(&cuFileRead) read = nullptr;
  decltype(&cuFileWrite) write = nullptr;
  // Null in older versions
  decltype(&cuFileGetVersion) get_version = nullptr;
  decltype(&cuFileGetParameterBool) get_bool = nullptr;
};

// If HEADRACE_GDS_LIBRARY is set, only that file is tried. Otherwise a libcufile that the program has loaded, then the
// directories where NVIDIA's packages install it. headrace's own libcufile.so.0 is used only if named.
Result<CufileLibrary> load_cufile_library();

}  // namespace headrace::io::gds
