#include "cufile_driver.h"

#include <atomic>

#include "base/fork.h"
#include "os/proc_text.h"

namespace headrace::io::gds {
namespace {

constexpr std::uint64_t kNobody = ~std::uint64_t{0};
std::atomic<std::uint64_t> opened_by{kNobody};  // fork generation of the process that opens the driver

Result<CufileDriver> open_driver(CufileLibrary library) {
  // Only one of a parent and its forked child can use cuFile: the child's copies of cuFile and CUDA do not work.
  std::uint64_t opener = kNobody;
  if (!opened_by.compare_exchange_strong(opener, base::fork_generation()) && opener != base::fork_generation()) {
    return Status(Code::kForked, Layer::kIo,
                  "cuFile was opened before this process was forked, and does not work in a child: use another engine, "
                  "or start workers by spawn or forkserver");
  }
  CufileDriver driver;
  driver.library = std::move(library);
  const CUfileError_t opened = driver.library.driver_open();
  if (opened.err != CU_FILE_SUCCESS) {
    return Status(Code::kUnsupported, Layer::kIo,
                  driver.library.path + ": cuFileDriverOpen failed with " + std::to_string(opened.err) + " (" +
                      CUFILE_ERRSTR(opened.err) + "): cuFile's log says more");
  }
  CUfileDrvProps_t properties{};
  if (driver.library.get_properties(&properties).err != CU_FILE_SUCCESS) {
    driver.why_compatible = "it does not report its properties";
  } else {
    bool forced = false;
    if (driver.library.get_bool != nullptr &&
        driver.library.get_bool(CUFILE_PARAM_FORCE_COMPAT_MODE, &forced).err != CU_FILE_SUCCESS) {
      forced = false;
    }
    driver.why_compatible = why_compatible(properties, forced);
  }
  int version = 0;
  if (driver.library.get_version != nullptr && driver.library.get_version(&version).err == CU_FILE_SUCCESS) {
    driver.version = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }
  return driver;
}

struct Library {
  Result<CufileLibrary> loaded = load_cufile_library();
};
base::PerProcess<Library> library;

struct Driver {
  Result<CufileDriver> opened = open_driver(*library.get().loaded);
};
base::PerProcess<Driver> driver;

}  // namespace

Result<const CufileDriver*> cufile_driver(bool only_direct) {
  const Result<CufileLibrary>& loaded = library.get().loaded;
  if (!loaded.ok()) return loaded.status();
  // Opening is slow and starts threads, so skip it where it is known to be useless.
  if (only_direct && !loaded->named && !os::read_first_line("/proc/driver/nvidia-fs/version")) {
    return Status(Code::kUnsupported, Layer::kIo, "the kernel has no nvidia-fs driver, so cuFile would copy");
  }
  const Result<CufileDriver>& opened = driver.get().opened;
  if (!opened.ok()) return opened.status();
  if (only_direct && !opened->why_compatible.empty()) {
    return Status(Code::kUnsupported, Layer::kIo, "cuFile is in compatibility mode: " + opened->why_compatible);
  }
  return &*opened;
}

std::string why_compatible(const CUfileDrvProps_t& properties, bool forced) {
  if (forced) return "its configuration forces it";
  if (properties.nvfs.major_version == 0 && properties.nvfs.minor_version == 0) {
    return "the kernel has no nvidia-fs driver";
  }
  if (properties.nvfs.dstatusflags == 0) return "nvidia-fs supports no file system or disk here";
  return {};
}

std::string CufileDriver::describe() const {
  return "cuFile " + (version.empty() ? std::string("of unknown version") : version) + " in " + library.path +
         (why_compatible.empty() ? ", direct to the GPU"
                                 : ", compatibility mode (bytes are copied through host memory): " + why_compatible);
}

}  // namespace headrace::io::gds
