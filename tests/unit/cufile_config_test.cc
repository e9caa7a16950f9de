// libcufile.so.0, configuration: file, environment and the program's own settings, in this order, and reading them
// back.
#include "cufile/cufile_config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "support/cufile_file.h"
#include "support/temp_dir.h"

namespace headrace::cufile {
namespace {

using support::close_driver;
using support::TempDir;

constexpr const char* kVariables[] = {"CUFILE_ENV_PATH_JSON",     "CUFILE_FORCE_COMPAT_MODE",
                                      "CUFILE_ALLOW_COMPAT_MODE", "CUFILE_LOGGING_LEVEL",
                                      "CUFILE_LOGFILE_PATH",      "CUFILE_NVTX",
                                      "HEADRACE_CUFILE_PATH",     "HEADRACE_CUFILE_ENGINE",
                                      "HEADRACE_CUFILE_THREADS",  "HEADRACE_CUFILE_STAGING_MIB"};

class CufileConfig : public ::testing::Test {
 protected:
  void SetUp() override {
    close_driver();
    EXPECT_EQ(cuFileExportPCIeTopology("/dev/null").err, CU_FILE_SUCCESS);  // discards a loaded configuration
    for (const char* name : kVariables) ::unsetenv(name);
    ::setenv("CUFILE_ENV_PATH_JSON", (dir_ / "none.json").c_str(), 1);
  }
  void TearDown() override {
    close_driver();
    for (const char* name : kVariables) ::unsetenv(name);
    // Consumes settings that a test staged and no driver used.
    EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
    close_driver();
  }
  void write_config(const std::string& text) {
    std::ofstream(dir_ / "cufile.json") << text;
    ::setenv("CUFILE_ENV_PATH_JSON", (dir_ / "cufile.json").c_str(), 1);
  }
  static std::size_t size_of(CUFileSizeTConfigParameter_t parameter) {
    std::size_t value = ~std::size_t{0};
    EXPECT_EQ(cuFileGetParameterSizeT(parameter, &value).err, CU_FILE_SUCCESS);
    return value;
  }
  static bool flag(CUFileBoolConfigParameter_t parameter) {
    bool value = false;
    EXPECT_EQ(cuFileGetParameterBool(parameter, &value).err, CU_FILE_SUCCESS);
    return value;
  }
  TempDir dir_;
};

constexpr const char* kText = R"({
  // A comment, as the shipped file has them.
  "logging": {"dir": "/nowhere", "level": "WARN"},
  "profile": {"nvtx": true, "cufile_stats": 2}, /* and another */
  "execution": {"max_io_threads": 9, "max_io_queue_depth": 77, "parallel_io": false,
                "min_io_threshold_size_kb": 4096, "max_request_parallelism": 3},
  "properties": {"max_direct_io_size_kb": 8192, "max_device_cache_size_kb": 4096, "per_buffer_cache_size_kb": 512,
                 "max_device_pinned_mem_size_kb": 65536, "io_batchsize": 64, "use_poll_mode": 1,
                 "poll_mode_max_size_kb": 16, "allow_compat_mode": "false", "use_pci_p2pdma": true,
                 "posix_pool_slab_size_kb": [8, 64], "posix_pool_slab_count": [3, 4],
                 "gpu_bounce_buffer_slab_config": {"slab_size_kb": [16], "slab_count": [2]},
                 "io_priority": "high", "rdma_dev_addr_list": ["10.0.0.1"]},
  "denylist": {"drivers": [], "mounts": ["/x"]},
  "unknown": {"deep": [{"a": 1}]},
  "headrace": {"path": "buffered", "threads": 3, "staging_mib": 8, "engine": "threads"}
})";

TEST(CufileConfigText, EveryKeyIsTaken) {
  Config config;
  ASSERT_TRUE(parse_config(kText, config).ok());
  const std::size_t sizes[kSizes] = {2, 77, 9, 4096, 3, 8192, 4096, 512, 65536, 64, 16, 5};
  for (std::size_t i = 0; i < kSizes; ++i) EXPECT_EQ(config.sizes[i], sizes[i]) << kSizeParameters[i].key;
  EXPECT_TRUE(config.bools[CUFILE_PARAM_PROPERTIES_USE_POLL_MODE]);
  EXPECT_FALSE(config.bools[CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE]);
  EXPECT_FALSE(config.bools[CUFILE_PARAM_EXECUTION_PARALLEL_IO]);
  EXPECT_TRUE(config.bools[CUFILE_PARAM_PROFILE_NVTX]);
  EXPECT_TRUE(config.bools[CUFILE_PARAM_USE_PCIP2PDMA]);
  EXPECT_EQ(config.strings[CUFILE_PARAM_LOGGING_LEVEL], "WARN");
  EXPECT_EQ(config.strings[CUFILE_PARAM_LOG_DIR], "/nowhere");
  EXPECT_EQ(config.posix_slabs.sizes_kb, (std::vector<std::size_t>{8, 64}));
  EXPECT_EQ(config.posix_slabs.counts, (std::vector<std::size_t>{3, 4}));
  EXPECT_EQ(config.gpu_slabs.sizes_kb, (std::vector<std::size_t>{16}));
  EXPECT_EQ(config.path, Path::kBuffered);
  EXPECT_EQ(config.threads, 3u);
  EXPECT_EQ(config.staging_mib, 8u);
  EXPECT_EQ(config.engine, "threads");
}

TEST(CufileConfigText, ValuesOfAnotherKindAreIgnored) {
  Config config;
  ASSERT_TRUE(parse_config(R"({"properties": {"io_batchsize": "many", "use_poll_mode": 7, "posix_pool_slab_size_kb": 4,
                                              "max_direct_io_size_kb": -5, "per_buffer_cache_size_kb": 1.5},
                               "execution": 3, "logging": {"level": 3}, "headrace": {"path": "sideways"}})",
                           config)
                  .ok());
  const Config defaults;
  EXPECT_EQ(config.sizes, defaults.sizes);
  EXPECT_EQ(config.bools, defaults.bools);
  EXPECT_EQ(config.strings, defaults.strings);
  EXPECT_EQ(config.path, Path::kAuto);
  ASSERT_TRUE(parse_config(R"({"properties": {"use_compat_mode": false}})", config).ok());
  EXPECT_FALSE(config.bools[CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE]);
}

TEST(CufileConfigText, InvalidJsonIsReported) {
  for (const char* text : {"", "{", "[]", "3", "{\"a\": }", "{\"properties\": {\"io_batchsize\": 1}", "\xff\xfe"}) {
    Config config;
    EXPECT_EQ(parse_config(text, config).code(), Code::kCorrupt) << text;
  }
  Config config;
  EXPECT_EQ(parse_config(std::string((1 << 20) + 1, ' '), config).code(), Code::kResourceExhausted);
}

TEST_F(CufileConfig, LaterSourcesWin) {
  write_config(R"({"properties": {"force_compat_mode": false, "io_batchsize": 50, "allow_compat_mode": false}})");
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE), 50u);
  EXPECT_FALSE(flag(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
  ::setenv("CUFILE_ALLOW_COMPAT_MODE", "TRUE", 1);
  ::setenv("CUFILE_FORCE_COMPAT_MODE", "1", 1);
  EXPECT_TRUE(flag(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
  EXPECT_TRUE(flag(CUFILE_PARAM_FORCE_COMPAT_MODE));
  ASSERT_EQ(cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, false).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 20).err, CU_FILE_SUCCESS);
  EXPECT_FALSE(flag(CUFILE_PARAM_FORCE_COMPAT_MODE));
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE), 20u);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE), 20u);
  CUfileDrvProps_t properties{};
  ASSERT_EQ(cuFileDriverGetProperties(&properties).err, CU_FILE_SUCCESS);
  EXPECT_EQ(properties.max_batch_io_size, 50u);
  close_driver();
  // Settings are used once.
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE), 50u);
}

TEST_F(CufileConfig, DefaultsAndProperties) {
  EXPECT_EQ(size_of(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH), 128u);
  EXPECT_EQ(size_of(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 0u);
  EXPECT_EQ(size_of(CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB), 8192u);
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB), 33554432u);
  CUfileDrvProps_t properties{};
  EXPECT_EQ(cuFileDriverGetProperties(nullptr).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileDriverGetProperties(&properties).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 0);
  EXPECT_EQ(properties.nvfs.major_version, 0u);
  EXPECT_EQ(properties.nvfs.minor_version, 0u);
  EXPECT_EQ(properties.nvfs.dstatusflags, 0u);
  EXPECT_EQ(properties.nvfs.dcontrolflags, 2u);
  EXPECT_EQ(properties.fflags, 15u);
  EXPECT_EQ(properties.max_device_cache_size, 131072u);
  EXPECT_EQ(properties.per_buffer_cache_size, 1024u);
  EXPECT_EQ(properties.max_batch_io_size, 128u);
  EXPECT_EQ(properties.max_batch_io_timeout_msecs, 5u);
  // The call above loaded the configuration.
  EXPECT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 20).err, CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(cuFileSetParameterBool(CUFILE_PARAM_PROFILE_NVTX, true).err, CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, "/").err, CU_FILE_DRIVER_ALREADY_OPEN);
}

TEST_F(CufileConfig, Limits) {
  EXPECT_EQ(cuFileDriverSetPollMode(true, 8).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetPollMode(true, 7).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  for (auto* set : {&cuFileDriverSetMaxDirectIOSize, &cuFileDriverSetMaxCacheSize, &cuFileDriverSetMaxPinnedMemSize}) {
    EXPECT_EQ(set(1024).err, CU_FILE_SUCCESS);
    EXPECT_EQ(set(134217728).err, CU_FILE_SUCCESS);
    EXPECT_EQ(set(0).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
    EXPECT_EQ(set(1023).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
    EXPECT_EQ(set(std::size_t{1} << 40).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  }
  CUfileDrvProps_t properties{};
  ASSERT_EQ(cuFileDriverGetProperties(&properties).err, CU_FILE_SUCCESS);
  EXPECT_EQ(properties.nvfs.max_direct_io_size, 134217728u);
  EXPECT_EQ(properties.nvfs.poll_thresh_size, 8u);
  EXPECT_EQ(properties.nvfs.dcontrolflags, 3u);
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(CufileConfig, ParametersReadBackExactlyUntilTheDriverOpens) {
  ASSERT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS, 999999).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, 1).err, CU_FILE_SUCCESS);
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS), 999999u);
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 1u);
  ASSERT_EQ(cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "WARN").err, CU_FILE_SUCCESS);
  char text[16] = "";
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text, 4).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text, 5).err, CU_FILE_SUCCESS);
  EXPECT_STREQ(text, "WARN");
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOG_DIR, text, 16).err, CU_FILE_SUCCESS);
  EXPECT_STREQ(text, "");
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_ENV_LOGFILE_PATH, text, 16).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileSetParameterString(CUFILE_PARAM_ENV_LOGFILE_PATH, "").err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_ENV_LOGFILE_PATH, text, 16).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS), 5u);
  EXPECT_EQ(size_of(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 1024u);
}

TEST_F(CufileConfig, ParametersThatDoNotExist) {
  std::size_t size = 0, least = 0, most = 0;
  bool on = false;
  char text[8];
  for (const int parameter : {-1, 12, 99, INT32_MAX}) {
    EXPECT_EQ(cuFileGetParameterSizeT(static_cast<CUFileSizeTConfigParameter_t>(parameter), &size).err,
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(cuFileSetParameterSizeT(static_cast<CUFileSizeTConfigParameter_t>(parameter), 1).err,
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(cuFileGetParameterBool(static_cast<CUFileBoolConfigParameter_t>(parameter), &on).err,
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(cuFileSetParameterBool(static_cast<CUFileBoolConfigParameter_t>(parameter), on).err,
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(cuFileGetParameterString(static_cast<CUFileStringConfigParameter_t>(parameter), text, 8).err,
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(cuFileSetParameterString(static_cast<CUFileStringConfigParameter_t>(parameter), "x").err,
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(cuFileGetParameterMinMaxValue(static_cast<CUFileSizeTConfigParameter_t>(parameter), &least, &most).err,
              CU_FILE_INVALID_VALUE);
  }
  EXPECT_EQ(cuFileGetParameterSizeT(CUFILE_PARAM_PROFILE_STATS, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterBool(CUFILE_PARAM_PROFILE_NVTX, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROFILE_STATS, &least, &most).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, nullptr, &most).err,
            CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &least, &most).err, CU_FILE_SUCCESS);
  EXPECT_EQ(least, 1u);
  EXPECT_EQ(most, 256u);
  ASSERT_EQ(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, &least, &most).err,
            CU_FILE_SUCCESS);
  EXPECT_EQ(least, 64u);
  EXPECT_EQ(most, 16384u);
}

TEST_F(CufileConfig, SlabArraysKeepTheirLength) {
  std::size_t sizes[4] = {}, counts[4] = {};
  ASSERT_EQ(cuFileGetParameterPosixPoolSlabArray(sizes, counts, 3).err, CU_FILE_SUCCESS);
  EXPECT_EQ(sizes[2], 16384u);
  EXPECT_EQ(counts[0], 128u);
  EXPECT_EQ(cuFileGetParameterPosixPoolSlabArray(sizes, counts, 4).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterGpuBounceBufferSlabArray(sizes, counts, 4).err, CU_FILE_INVALID_VALUE);
  const std::size_t odd[3] = {16, 5, 64}, some[3] = {1, 0, 3};
  EXPECT_EQ(cuFileSetParameterGpuBounceBufferSlabArray(nullptr, some, 3).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileSetParameterGpuBounceBufferSlabArray(odd, nullptr, 3).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileSetParameterGpuBounceBufferSlabArray(odd, some, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileSetParameterGpuBounceBufferSlabArray(odd, some, -1).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileSetParameterGpuBounceBufferSlabArray(odd, some, 3).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetParameterPosixPoolSlabArray(odd, some, 2).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileGetParameterPosixPoolSlabArray(sizes, counts, 2).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileSetParameterGpuBounceBufferSlabArray(odd, some, 3).err, CU_FILE_DRIVER_ALREADY_OPEN);
  close_driver();
  ASSERT_EQ(cuFileGetParameterGpuBounceBufferSlabArray(sizes, counts, 3).err, CU_FILE_SUCCESS);
  EXPECT_EQ(sizes[1], 5u);
  EXPECT_EQ(counts[2], 3u);
}

TEST_F(CufileConfig, PeerToPeerFlagsAndTopology) {
  auto flags = static_cast<CUfileP2PFlags_t>(-7);
  EXPECT_EQ(cuFileDriverGetP2PFlags(CU_FILE_NVME_SUPPORTED, &flags).err, CU_FILE_SUCCESS);
  EXPECT_EQ(static_cast<int>(flags), 0);
  EXPECT_EQ(cuFileDriverGetP2PFlags(CU_FILE_NVME_SUPPORTED, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileDriverGetP2PFlags(CU_FILE_MAX_TARGET_TYPES, &flags).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileDriverSetP2PFlags(CU_FILE_NVME_SUPPORTED, CU_FILE_P2P_FLAG_PCI_P2PDMA).err, CU_FILE_SUCCESS);
  for (const int bad : {2, 4, 8, 3, 15, 16, -1}) {
    EXPECT_EQ(cuFileDriverSetP2PFlags(CU_FILE_NVME_SUPPORTED, static_cast<CUfileP2PFlags_t>(bad)).err,
              CU_FILE_INVALID_VALUE);
  }
  EXPECT_EQ(cuFileDriverSetP2PFlags(CU_FILE_NVME_SUPPORTED, static_cast<CUfileP2PFlags_t>(0)).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverGetP2PFlags(CU_FILE_NVME_SUPPORTED, &flags).err, CU_FILE_SUCCESS);
  EXPECT_EQ(static_cast<int>(flags), 1);
  EXPECT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8).err, CU_FILE_DRIVER_ALREADY_OPEN);
  for (const char* bad : {"", "/nonexistent-directory/topology.json", "/"}) {
    EXPECT_EQ(cuFileExportPCIeTopology(bad).err, CU_FILE_INVALID_VALUE);
  }
  EXPECT_EQ(cuFileExportPCIeTopology(nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileExportPCIeTopology((dir_ / "topology.json").c_str()).err, CU_FILE_SUCCESS);
  std::ifstream in(dir_ / "topology.json");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text.rfind("// Topology file for cuFile.", 0), 0u);
  EXPECT_EQ(text.substr(text.size() - 4), "null");
  EXPECT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverGetP2PFlags(CU_FILE_NVME_SUPPORTED, &flags).err, CU_FILE_SUCCESS);
  EXPECT_EQ(static_cast<int>(flags), 0);
  std::size_t kb = 1;
  EXPECT_EQ(cuFileGetBARSizeInKB(99, &kb).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetBARSizeInKB(-1, &kb).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetBARSizeInKB(0, nullptr).err, CU_FILE_INVALID_VALUE);
}

TEST_F(CufileConfig, ABrokenFileIsReportedAndAMissingOneIsNot) {
  write_config("{ this is not JSON");
  ::setenv("CUFILE_LOGFILE_PATH", (dir_ / "log").c_str(), 1);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_DRIVER_INVALID_PROPS);
  EXPECT_EQ(cuFileUseCount(), 0);
  ::setenv("CUFILE_ENV_PATH_JSON", "$PWD/local_cufile.json", 1);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  close_driver();
  ::setenv("CUFILE_ENV_PATH_JSON", "/", 1);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
}

TEST_F(CufileConfig, AFileThatOthersCanWriteIsNotUsed) {
  write_config(R"({"execution": {"max_io_queue_depth": 17}})");
  const std::string file = dir_ / "cufile.json", folder = dir_.path();
  EXPECT_EQ(size_of(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH), 17u);
  const auto refused = [&](const std::string& path, mode_t mode, mode_t before) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(cuFileExportPCIeTopology("/dev/null").err, CU_FILE_SUCCESS);  // discards a loaded configuration
    EXPECT_EQ(size_of(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH), 128u) << path;
    const std::string log = dir_ / "log";
    ::setenv("CUFILE_LOGFILE_PATH", log.c_str(), 1);
    ::setenv("CUFILE_LOGGING_LEVEL", "WARN", 1);
    EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
    close_driver();
    std::ifstream in(log);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    EXPECT_NE(text.find(path + " may be written by everybody"), std::string::npos) << text;
    std::filesystem::remove(log);
    ASSERT_EQ(::chmod(path.c_str(), before), 0);
  };
  refused(file, 0666, 0644);
  refused(folder, 0777, 0700);
  refused(folder, 01777, 0700);
  EXPECT_EQ(size_of(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH), 17u);
}

TEST_F(CufileConfig, ARelativeNameIsOfTheWorkingDirectory) {
  write_config(R"({"execution": {"max_io_queue_depth": 17}})");
  char before[4096];
  ASSERT_NE(::getcwd(before, sizeof before), nullptr);
  ASSERT_EQ(::chdir(dir_.path().c_str()), 0);
  ::setenv("CUFILE_ENV_PATH_JSON", "cufile.json", 1);
  EXPECT_EQ(size_of(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH), 17u);
  ASSERT_EQ(::chdir(before), 0);
}

TEST_F(CufileConfig, TheLogIsWrittenOnlyToTheConfiguredPlace) {
  const std::string here = dir_ / "here";
  ASSERT_EQ(::mkdir(here.c_str(), 0755), 0);
  char before[4096];
  ASSERT_NE(::getcwd(before, sizeof before), nullptr);
  ASSERT_EQ(::chdir(here.c_str()), 0);
  write_config(R"({"execution": {"max_io_queue_depth": 0}})");
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  close_driver();
  for (const char* refused : {"/proc/cufile.log", "/nonexistent/x.log"}) {
    ::setenv("CUFILE_LOGFILE_PATH", refused, 1);
    ::setenv("CUFILE_LOGGING_LEVEL", "TRACE", 1);
    EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
    close_driver();
  }
  EXPECT_TRUE(std::filesystem::is_empty(here));
  ::setenv("CUFILE_LOGFILE_PATH", (dir_ / "log").c_str(), 1);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  close_driver();
  std::ifstream in(dir_ / "log");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(text.find("max_io_queue_depth is 0"), std::string::npos) << text;
  ASSERT_EQ(::chdir(before), 0);
}

TEST_F(CufileConfig, Statistics) {
  ASSERT_TRUE(support::write_file(dir_ / "data", support::pattern(100000)));
  CUfileStatsLevel1_t one{};
  CUfileStatsLevel2_t two{};
  static CUfileStatsLevel3_t three{};
  for (const int level : {4, -1}) EXPECT_EQ(cuFileSetStatsLevel(level).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetStatsLevel(nullptr).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileSetStatsLevel(0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileGetStatsL1(&one).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileSetStatsLevel(1).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileGetStatsL2(&two).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetStatsL1(nullptr).err, CU_FILE_INVALID_VALUE);
  ASSERT_EQ(cuFileSetStatsLevel(3).err, CU_FILE_SUCCESS);
  int level = 0;
  EXPECT_EQ(cuFileGetStatsLevel(&level).err, CU_FILE_SUCCESS);
  EXPECT_EQ(level, 3);
  ASSERT_EQ(cuFileStatsReset().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileStatsStart().err, CU_FILE_SUCCESS);
  support::CufileFile file(dir_ / "data", O_RDWR);
  std::vector<std::byte> memory(100000);
  EXPECT_EQ(cuFileRead(file.handle(), memory.data(), 5000, 0, 0), 5000);
  EXPECT_EQ(cuFileRead(file.handle(), memory.data(), 70000, 0, 0), 70000);
  EXPECT_EQ(cuFileWrite(file.handle(), memory.data(), 3000, 0, 0), 3000);
  EXPECT_EQ(cuFileRead(nullptr, memory.data(), 3000, 0, 0), -1);
  ASSERT_EQ(cuFileStatsStop().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(file.handle(), memory.data(), 5000, 0, 0), 5000);  // not counted
  ASSERT_EQ(cuFileGetStatsL3(&three).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileGetStatsL2(&two).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileGetStatsL1(&one).err, CU_FILE_SUCCESS);
  EXPECT_EQ(one.read_ops.ok, 2u);
  EXPECT_EQ(one.read_ops.err, 1u);
  EXPECT_EQ(one.write_ops.ok, 1u);
  EXPECT_EQ(one.hdl_register_ops.ok, 1u);
  EXPECT_EQ(one.read_bytes, 75000u);
  EXPECT_EQ(one.write_bytes, 3000u);
  EXPECT_GT(one.read_bw_bytes_per_sec, 0u);
  EXPECT_EQ(two.read_size_kb_hist[3], 1u);  // up to 8 KB
  EXPECT_EQ(two.read_size_kb_hist[7], 1u);  // up to 128 KB
  EXPECT_EQ(two.write_size_kb_hist[2], 1u);
  EXPECT_EQ(three.detailed.basic.read_bytes, 75000u);
  EXPECT_EQ(three.num_gpus, 0u);
  ASSERT_EQ(cuFileStatsReset().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileGetStatsL1(&one).err, CU_FILE_SUCCESS);
  EXPECT_EQ(one.read_bytes, 0u);
  ASSERT_EQ(cuFileSetStatsLevel(0).err, CU_FILE_SUCCESS);
}

}  // namespace
}  // namespace headrace::cufile
