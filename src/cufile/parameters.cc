// Parameters, driver properties and their setters.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "cufile/driver.h"
#include "device/device.h"
#include "os/sys_devices.h"

namespace headrace::cufile {
namespace {

template <class Enum>
bool known(Enum parameter, std::size_t count) noexcept {
  return static_cast<std::size_t>(parameter) < count;
}

// Changes the staged values, unless a configuration is in use.
template <class Function>
CUfileError_t stage(Function function) {
  return guarded([&] {
    return Driver::get().with_config([&](const Config&, StagedConfig* staged) {
      if (staged == nullptr) return CU_FILE_DRIVER_ALREADY_OPEN;
      return function(*staged);
    });
  });
}

constexpr std::size_t kMaxSlabs = 1024;

bool read_slabs(const size_t* sizes, const size_t* counts, int length, SlabArray& out) {
  if (sizes == nullptr || counts == nullptr || length <= 0 || static_cast<std::size_t>(length) > kMaxSlabs)
    return false;
  out.sizes_kb.assign(sizes, sizes + length);
  out.counts.assign(counts, counts + length);
  return true;
}

// Requires arrays of exactly the right length.
CUfileOpError write_slabs(const SlabArray& slabs, size_t* sizes, size_t* counts, int length) {
  if (sizes == nullptr || counts == nullptr || length <= 0) return CU_FILE_INVALID_VALUE;
  if (static_cast<std::size_t>(length) != slabs.sizes_kb.size()) return CU_FILE_INVALID_VALUE;
  std::copy(slabs.sizes_kb.begin(), slabs.sizes_kb.end(), sizes);
  std::copy(slabs.counts.begin(), slabs.counts.end(), counts);
  return CU_FILE_SUCCESS;
}

unsigned clamp_to_unsigned(std::size_t value) noexcept {
  return static_cast<unsigned>(std::min<std::size_t>(value, UINT32_MAX));
}

// Programs set these limits to whatever they need. Nothing depends on them here, so every sensible value is accepted.
constexpr std::size_t kMaxLimitKb = std::size_t{1} << 38;
bool sensible_limit(std::size_t kb) noexcept { return kb != 0 && kb % 4 == 0 && kb <= kMaxLimitKb; }

CUfileError_t set_limit(std::size_t parameter, std::size_t kb) {
  return guarded([&] {
    return Driver::get().with_loaded([&](Config& config, Config&) {
      if (!sensible_limit(kb)) return CU_FILE_DRIVER_UNSUPPORTED_LIMIT;
      config.sizes[parameter] = kb;
      return CU_FILE_SUCCESS;
    });
  });
}

// Fills in the UUIDs of the GPUs for which anything was counted.
void name_gpus(CUfileStatsLevel3_t& stats) {
  const char* const kind = device::kind_in_use();
  if (kind == nullptr) return;
  for (std::uint32_t i = 0; i < stats.num_gpus; ++i) {
    CUfilePerGpuStats_t& gpu = stats.per_gpu_stats[i];
    if (!anything_counted(gpu)) continue;
    const auto device = device::open_device(std::string(kind) + ":" + std::to_string(i));
    if (!device.ok()) continue;
    static_assert(sizeof gpu.uuid == sizeof(*device)->info().uuid);
    std::memcpy(gpu.uuid, (*device)->info().uuid.data(), sizeof gpu.uuid);
  }
}

}  // namespace
}  // namespace headrace::cufile

using namespace headrace::cufile;

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props) {
  return guarded([&] {
    if (props == nullptr) return CU_FILE_INVALID_VALUE;
    return Driver::get().with_loaded([&](Config& config, Config& configured) {
      CUfileDrvProps_t out;
      std::memset(&out, 0, sizeof out);
      // Versions and file systems describe the kernel driver, which is not used: 0.
      out.nvfs.poll_thresh_size = config.sizes[CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB];
      out.nvfs.max_direct_io_size = config.sizes[CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB];
      out.nvfs.dcontrolflags =
          (config.bools[CUFILE_PARAM_PROPERTIES_USE_POLL_MODE] ? 1u << CU_FILE_USE_POLL_MODE : 0u) |
          1u << CU_FILE_ALLOW_COMPAT_MODE;
      out.fflags = 1u << CU_FILE_DYN_ROUTING_SUPPORTED | 1u << CU_FILE_BATCH_IO_SUPPORTED |
                   1u << CU_FILE_STREAMS_SUPPORTED | 1u << CU_FILE_PARALLEL_IO_SUPPORTED;
      out.max_device_cache_size = clamp_to_unsigned(config.sizes[CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB]);
      out.per_buffer_cache_size = clamp_to_unsigned(config.sizes[CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB]);
      out.max_device_pinned_mem_size =
          clamp_to_unsigned(config.sizes[CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB]);
      // From the configuration, regardless of values that the program set, as recorded from cuFile.
      out.max_batch_io_size = clamp_to_unsigned(configured.sizes[CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE]);
      out.max_batch_io_timeout_msecs = clamp_to_unsigned(configured.sizes[CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS]);
      *props = out;
      return CU_FILE_SUCCESS;
    });
  });
}

CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_kb) {
  return guarded([&] {
    return Driver::get().with_loaded([&](Config& config, Config&) {
      if (poll_threshold_kb % 4 != 0 || poll_threshold_kb > kMaxLimitKb) return CU_FILE_DRIVER_UNSUPPORTED_LIMIT;
      config.bools[CUFILE_PARAM_PROPERTIES_USE_POLL_MODE] = poll;
      config.sizes[CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB] = poll_threshold_kb;
      return CU_FILE_SUCCESS;
    });
  });
}

CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t kb) {
  return set_limit(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, kb);
}
CUfileError_t cuFileDriverSetMaxCacheSize(size_t kb) {
  return set_limit(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, kb);
}
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t kb) {
  return set_limit(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, kb);
}

CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t* value) {
  return guarded([&] {
    if (value == nullptr || !known(param, kSizes)) return CU_FILE_INVALID_VALUE;
    return Driver::get().with_config([&](const Config& config, StagedConfig*) {
      *value = config.sizes[param];
      return CU_FILE_SUCCESS;
    });
  });
}

CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool* value) {
  return guarded([&] {
    if (value == nullptr || !known(param, kBools)) return CU_FILE_INVALID_VALUE;
    return Driver::get().with_config([&](const Config& config, StagedConfig*) {
      *value = config.bools[param];
      return CU_FILE_SUCCESS;
    });
  });
}

CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char* desc_str, int len) {
  return guarded([&] {
    if (desc_str == nullptr || len <= 0 || !known(param, kStrings)) return CU_FILE_INVALID_VALUE;
    return Driver::get().with_config([&](const Config& config, StagedConfig*) {
      const std::string& text = config.strings[param];
      // As recorded from cuFile: only the log file is an error if it was not set.
      if (param == CUFILE_PARAM_ENV_LOGFILE_PATH && !config.names_log_file) return CU_FILE_INVALID_VALUE;
      if (text.size() >= static_cast<std::size_t>(len)) return CU_FILE_INVALID_VALUE;
      std::memcpy(desc_str, text.c_str(), text.size() + 1);
      return CU_FILE_SUCCESS;
    });
  });
}

CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t* min_value, size_t* max_value) {
  if (min_value == nullptr || max_value == nullptr || !known(param, kSizes)) return answer(CU_FILE_INVALID_VALUE);
  const SizeParameter& parameter = kSizeParameters[param];
  if (parameter.least > parameter.most) return answer(CU_FILE_INVALID_VALUE);
  *min_value = parameter.least;
  *max_value = parameter.most;
  return answer(CU_FILE_SUCCESS);
}

CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value) {
  return stage([&](StagedConfig& staged) {
    if (!known(param, kSizes)) return CU_FILE_INVALID_VALUE;
    staged.sizes[param] = value;
    return CU_FILE_SUCCESS;
  });
}

CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value) {
  return stage([&](StagedConfig& staged) {
    if (!known(param, kBools)) return CU_FILE_INVALID_VALUE;
    staged.bools[param] = value;
    return CU_FILE_SUCCESS;
  });
}

CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char* desc_str) {
  return stage([&](StagedConfig& staged) {
    if (desc_str == nullptr || !known(param, kStrings)) return CU_FILE_INVALID_VALUE;
    staged.strings[param] = std::string(desc_str);
    return CU_FILE_SUCCESS;
  });
}

CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* size_values, const size_t* count_values, int len) {
  return stage([&](StagedConfig& staged) {
    SlabArray slabs;
    if (!read_slabs(size_values, count_values, len, slabs)) return CU_FILE_INVALID_VALUE;
    staged.posix_slabs = std::move(slabs);
    return CU_FILE_SUCCESS;
  });
}

CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* size_values, size_t* count_values, int len) {
  return guarded([&] {
    return Driver::get().with_config([&](const Config& config, StagedConfig*) {
      return write_slabs(config.posix_slabs, size_values, count_values, len);
    });
  });
}

CUfileError_t cuFileSetParameterGpuBounceBufferSlabArray(const size_t* size_values, const size_t* count_values,
                                                         int len) {
  return stage([&](StagedConfig&) {
    SlabArray slabs;
    if (!read_slabs(size_values, count_values, len, slabs)) return CU_FILE_INVALID_VALUE;
    Driver::get().gpu_slabs = std::move(slabs);
    return CU_FILE_SUCCESS;
  });
}

CUfileError_t cuFileGetParameterGpuBounceBufferSlabArray(size_t* size_values, size_t* count_values, int len) {
  return guarded([&] {
    Driver& driver = Driver::get();
    return driver.with_config(
        [&](const Config&, StagedConfig*) { return write_slabs(driver.gpu_slabs, size_values, count_values, len); });
  });
}

CUfileError_t cuFileGetBARSizeInKB(int gpuIndex, size_t* barSize) {
  return guarded([&] {
    if (barSize == nullptr || gpuIndex < 0) return CU_FILE_INVALID_VALUE;
    for (const auto& row : headrace::device::devices()) {
      if (std::strcmp(row.kind, "cuda") != 0) continue;
      if (const auto count = row.count(); !count.ok() || gpuIndex >= *count) return CU_FILE_INVALID_VALUE;
      const auto device = headrace::device::open_device("cuda:" + std::to_string(gpuIndex));
      if (!device.ok()) return CU_FILE_CUDA_DRIVER_ERROR;
      const auto gpu = headrace::os::pci_device((*device)->info().pci_address);
      *barSize = gpu && gpu->region_bytes.size() > 1 ? gpu->region_bytes[1] / 1024 : 0;
      return CU_FILE_SUCCESS;
    }
    return CU_FILE_INVALID_VALUE;
  });
}

CUfileError_t cuFileDriverSetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t p2p_flags) {
  return guarded([&] {
    Driver& driver = Driver::get();
    return driver.with_loaded([&](Config&, Config&) {
      const auto flags = static_cast<int>(p2p_flags);
      if (!known(status_flag, CU_FILE_MAX_TARGET_TYPES)) return CU_FILE_INVALID_VALUE;
      if (flags != 0 && flags != static_cast<int>(CU_FILE_P2P_FLAG_PCI_P2PDMA)) return CU_FILE_INVALID_VALUE;
      if (flags != 0) driver.p2p_flags[static_cast<int>(status_flag)] = flags;
      return CU_FILE_SUCCESS;
    });
  });
}

CUfileError_t cuFileDriverGetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t* p2p_flags) {
  return guarded([&] {
    Driver& driver = Driver::get();
    return driver.with_loaded([&](Config&, Config&) {
      if (p2p_flags == nullptr || !known(status_flag, CU_FILE_MAX_TARGET_TYPES)) return CU_FILE_INVALID_VALUE;
      const auto found = driver.p2p_flags.find(static_cast<int>(status_flag));
      *p2p_flags = static_cast<CUfileP2PFlags_t>(found == driver.p2p_flags.end() ? 0 : found->second);
      return CU_FILE_SUCCESS;
    });
  });
}

// Nothing is routed by topology here, so there is none to export. Writes a file without a topology.
CUfileError_t cuFileExportPCIeTopology(const char* filename) {
  return guarded([&] {
    constexpr std::string_view kText = "// Topology file for cuFile. headrace routes nothing by topology.\nnull";
    if (filename == nullptr || filename[0] == '\0') return CU_FILE_INVALID_VALUE;
    const int fd = ::open(filename, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return CU_FILE_INVALID_VALUE;
    const bool written = ::write(fd, kText.data(), kText.size()) == static_cast<ssize_t>(kText.size());
    if (::close(fd) != 0 || !written) return CU_FILE_INVALID_VALUE;
    Driver::get().unload();
    return CU_FILE_SUCCESS;
  });
}

CUfileError_t cuFileSetStatsLevel(int level) {
  return guarded([&] { return Driver::get().statistics.set_level(level); });
}
CUfileError_t cuFileGetStatsLevel(int* level) {
  return guarded([&] {
    if (level == nullptr) return CU_FILE_INVALID_VALUE;
    *level = Driver::get().statistics.level();
    return CU_FILE_SUCCESS;
  });
}
CUfileError_t cuFileStatsStart(void) {
  return guarded([] { return Driver::get().statistics.start(); });
}
CUfileError_t cuFileStatsStop(void) {
  return guarded([] { return Driver::get().statistics.stop(); });
}
CUfileError_t cuFileStatsReset(void) {
  return guarded([] { return Driver::get().statistics.reset(); });
}
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats) {
  return guarded([&] { return Driver::get().statistics.get(stats); });
}
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats) {
  return guarded([&] { return Driver::get().statistics.get(stats); });
}
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats) {
  return guarded([&] {
    const CUfileOpError code = Driver::get().statistics.get(stats);
    if (code == CU_FILE_SUCCESS) name_gpus(*stats);
    return code;
  });
}
