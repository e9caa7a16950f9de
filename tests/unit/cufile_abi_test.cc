// cufile.h: every size, offset and value of the interface equals that of version 1.15, written out here independently.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string_view>

#include "cufile/cufile_api.h"

extern "C" const char* cufile_header_text(int error);
extern "C" int cufile_header_checks(void);

namespace {

struct Value {
  const char* name;
  long is, should_be;
};

#define VALUE(name, number) \
  Value { #name, static_cast < long>(name), number }
#define OFFSET(type, field, number) \
  Value { #type "." #field, static_cast < long>(offsetof(type, field)), number }
#define SIZE(type, number) \
  Value { #type, static_cast < long>(sizeof(type)), number }

void check(std::initializer_list<Value> values) {
  for (const Value& value : values) EXPECT_EQ(value.is, value.should_be) << value.name;
}

TEST(CufileAbi, Sizes) {
  check({SIZE(CUfileHandle_t, 8),         SIZE(CUfileBatchHandle_t, 8),
         SIZE(CUfileError_t, 8),          SIZE(CUfileDescr_t, 24),
         SIZE(CUfileDrvProps_t, 56),      SIZE(CUfileIOParams_t, 64),
         SIZE(CUfileIOEvents_t, 24),      SIZE(CUfileFSOps_t, 40),
         SIZE(cufileRDMAInfo_t, 16),      SIZE(CUfileOpCounter_t, 16),
         SIZE(CUfileStatsLevel1_t, 512),  SIZE(CUfileStatsLevel2_t, 1024),
         SIZE(CUfileStatsLevel3_t, 5000), SIZE(CUfilePerGpuStats_t, 248),
         SIZE(CUfileOpError, 4),          SIZE(CUfileOpcode_t, 4),
         SIZE(CUfileStatus_t, 4),         SIZE(CUresult, 4),
         SIZE(CUfileIOVec_t, 16),         SIZE(CUstream, 8),
         SIZE(CUfileBatchMode_t, 4),      SIZE(CUfileFileHandleType, 4)});
}

TEST(CufileAbi, Offsets) {
  check({OFFSET(CUfileError_t, err, 0),
         OFFSET(CUfileError_t, cu_err, 4),
         OFFSET(CUfileDescr_t, type, 0),
         OFFSET(CUfileDescr_t, handle.fd, 8),
         OFFSET(CUfileDescr_t, handle.handle, 8),
         OFFSET(CUfileDescr_t, fs_ops, 16),
         OFFSET(CUfileDrvProps_t, nvfs.major_version, 0),
         OFFSET(CUfileDrvProps_t, nvfs.minor_version, 4),
         OFFSET(CUfileDrvProps_t, nvfs.poll_thresh_size, 8),
         OFFSET(CUfileDrvProps_t, nvfs.max_direct_io_size, 16),
         OFFSET(CUfileDrvProps_t, nvfs.dstatusflags, 24),
         OFFSET(CUfileDrvProps_t, nvfs.dcontrolflags, 28),
         OFFSET(CUfileDrvProps_t, fflags, 32),
         OFFSET(CUfileDrvProps_t, max_device_cache_size, 36),
         OFFSET(CUfileDrvProps_t, per_buffer_cache_size, 40),
         OFFSET(CUfileDrvProps_t, max_device_pinned_mem_size, 44),
         OFFSET(CUfileDrvProps_t, max_batch_io_size, 48),
         OFFSET(CUfileDrvProps_t, max_batch_io_timeout_msecs, 52),
         OFFSET(CUfileIOParams_t, mode, 0),
         OFFSET(CUfileIOParams_t, u.batch.devPtr_base, 8),
         OFFSET(CUfileIOParams_t, u.batch.file_offset, 16),
         OFFSET(CUfileIOParams_t, u.batch.devPtr_offset, 24),
         OFFSET(CUfileIOParams_t, u.batch.size, 32),
         OFFSET(CUfileIOParams_t, fh, 40),
         OFFSET(CUfileIOParams_t, opcode, 48),
         OFFSET(CUfileIOParams_t, cookie, 56),
         OFFSET(CUfileIOEvents_t, cookie, 0),
         OFFSET(CUfileIOEvents_t, status, 8),
         OFFSET(CUfileIOEvents_t, ret, 16),
         OFFSET(cufileRDMAInfo_t, version, 0),
         OFFSET(cufileRDMAInfo_t, desc_len, 4),
         OFFSET(cufileRDMAInfo_t, desc_str, 8),
         OFFSET(CUfileFSOps_t, fs_type, 0),
         OFFSET(CUfileFSOps_t, getRDMADeviceList, 8),
         OFFSET(CUfileFSOps_t, getRDMADevicePriority, 16),
         OFFSET(CUfileFSOps_t, read, 24),
         OFFSET(CUfileFSOps_t, write, 32),
         OFFSET(CUfileIOVec_t, base, 0),
         OFFSET(CUfileIOVec_t, len, 8)});
}

TEST(CufileAbi, Statistics) {
  using L1 = CUfileStatsLevel1_t;
  using Gpu = CUfilePerGpuStats_t;
  check({OFFSET(L1, read_ops, 0),
         OFFSET(L1, write_ops, 16),
         OFFSET(L1, hdl_register_ops, 32),
         OFFSET(L1, hdl_deregister_ops, 48),
         OFFSET(L1, buf_register_ops, 64),
         OFFSET(L1, buf_deregister_ops, 80),
         OFFSET(L1, read_bytes, 96),
         OFFSET(L1, write_bytes, 104),
         OFFSET(L1, read_bw_bytes_per_sec, 112),
         OFFSET(L1, write_bw_bytes_per_sec, 120),
         OFFSET(L1, read_lat_avg_us, 128),
         OFFSET(L1, write_lat_avg_us, 136),
         OFFSET(L1, read_ops_per_sec, 144),
         OFFSET(L1, write_ops_per_sec, 152),
         OFFSET(L1, read_lat_sum_us, 160),
         OFFSET(L1, write_lat_sum_us, 168),
         OFFSET(L1, batch_submit_ops, 176),
         OFFSET(L1, batch_complete_ops, 192),
         OFFSET(L1, batch_setup_ops, 208),
         OFFSET(L1, batch_cancel_ops, 224),
         OFFSET(L1, batch_destroy_ops, 240),
         OFFSET(L1, batch_enqueued_ops, 256),
         OFFSET(L1, batch_posix_enqueued_ops, 272),
         OFFSET(L1, batch_processed_ops, 288),
         OFFSET(L1, batch_posix_processed_ops, 304),
         OFFSET(L1, batch_nvfs_submit_ops, 320),
         OFFSET(L1, batch_p2p_submit_ops, 336),
         OFFSET(L1, batch_aio_submit_ops, 352),
         OFFSET(L1, batch_iouring_submit_ops, 368),
         OFFSET(L1, batch_mixed_io_submit_ops, 384),
         OFFSET(L1, batch_total_submit_ops, 400),
         OFFSET(L1, batch_read_bytes, 416),
         OFFSET(L1, batch_write_bytes, 424),
         OFFSET(L1, batch_read_bw_bytes, 432),
         OFFSET(L1, batch_write_bw_bytes, 440),
         OFFSET(L1, batch_submit_lat_avg_us, 448),
         OFFSET(L1, batch_completion_lat_avg_us, 456),
         OFFSET(L1, batch_submit_ops_per_sec, 464),
         OFFSET(L1, batch_complete_ops_per_sec, 472),
         OFFSET(L1, batch_submit_lat_sum_us, 480),
         OFFSET(L1, batch_completion_lat_sum_us, 488),
         OFFSET(L1, last_batch_read_bytes, 496),
         OFFSET(L1, last_batch_write_bytes, 504),
         OFFSET(CUfileStatsLevel2_t, basic, 0),
         OFFSET(CUfileStatsLevel2_t, read_size_kb_hist, 512),
         OFFSET(CUfileStatsLevel2_t, write_size_kb_hist, 768),
         OFFSET(CUfileStatsLevel3_t, detailed, 0),
         OFFSET(CUfileStatsLevel3_t, num_gpus, 1024),
         OFFSET(CUfileStatsLevel3_t, per_gpu_stats, 1032)});
  check({OFFSET(Gpu, uuid, 0),
         OFFSET(Gpu, read_bytes, 16),
         OFFSET(Gpu, read_bw_bytes_per_sec, 24),
         OFFSET(Gpu, read_utilization, 32),
         OFFSET(Gpu, read_duration_us, 40),
         OFFSET(Gpu, n_total_reads, 48),
         OFFSET(Gpu, n_p2p_reads, 56),
         OFFSET(Gpu, n_nvfs_reads, 64),
         OFFSET(Gpu, n_posix_reads, 72),
         OFFSET(Gpu, n_unaligned_reads, 80),
         OFFSET(Gpu, n_dr_reads, 88),
         OFFSET(Gpu, n_sparse_regions, 96),
         OFFSET(Gpu, n_inline_regions, 104),
         OFFSET(Gpu, n_reads_err, 112),
         OFFSET(Gpu, writes_bytes, 120),
         OFFSET(Gpu, write_bw_bytes_per_sec, 128),
         OFFSET(Gpu, write_utilization, 136),
         OFFSET(Gpu, write_duration_us, 144),
         OFFSET(Gpu, n_total_writes, 152),
         OFFSET(Gpu, n_p2p_writes, 160),
         OFFSET(Gpu, n_nvfs_writes, 168),
         OFFSET(Gpu, n_posix_writes, 176),
         OFFSET(Gpu, n_unaligned_writes, 184),
         OFFSET(Gpu, n_dr_writes, 192),
         OFFSET(Gpu, n_writes_err, 200),
         OFFSET(Gpu, n_mmap, 208),
         OFFSET(Gpu, n_mmap_ok, 216),
         OFFSET(Gpu, n_mmap_err, 224),
         OFFSET(Gpu, n_mmap_free, 232),
         OFFSET(Gpu, reg_bytes, 240)});
}

TEST(CufileAbi, Errors) {
  check({VALUE(CU_FILE_SUCCESS, 0),
         VALUE(CUFILEOP_BASE_ERR, 5000),
         VALUE(CU_FILE_DRIVER_NOT_INITIALIZED, 5001),
         VALUE(CU_FILE_DRIVER_INVALID_PROPS, 5002),
         VALUE(CU_FILE_DRIVER_UNSUPPORTED_LIMIT, 5003),
         VALUE(CU_FILE_DRIVER_VERSION_MISMATCH, 5004),
         VALUE(CU_FILE_DRIVER_VERSION_READ_ERROR, 5005),
         VALUE(CU_FILE_DRIVER_CLOSING, 5006),
         VALUE(CU_FILE_PLATFORM_NOT_SUPPORTED, 5007),
         VALUE(CU_FILE_IO_NOT_SUPPORTED, 5008),
         VALUE(CU_FILE_DEVICE_NOT_SUPPORTED, 5009),
         VALUE(CU_FILE_NVFS_DRIVER_ERROR, 5010),
         VALUE(CU_FILE_CUDA_DRIVER_ERROR, 5011),
         VALUE(CU_FILE_CUDA_POINTER_INVALID, 5012),
         VALUE(CU_FILE_CUDA_MEMORY_TYPE_INVALID, 5013),
         VALUE(CU_FILE_CUDA_POINTER_RANGE_ERROR, 5014),
         VALUE(CU_FILE_CUDA_CONTEXT_MISMATCH, 5015),
         VALUE(CU_FILE_INVALID_MAPPING_SIZE, 5016),
         VALUE(CU_FILE_INVALID_MAPPING_RANGE, 5017),
         VALUE(CU_FILE_INVALID_FILE_TYPE, 5018),
         VALUE(CU_FILE_INVALID_FILE_OPEN_FLAG, 5019),
         VALUE(CU_FILE_DIO_NOT_SET, 5020),
         VALUE(CU_FILE_INVALID_VALUE, 5022),
         VALUE(CU_FILE_MEMORY_ALREADY_REGISTERED, 5023),
         VALUE(CU_FILE_MEMORY_NOT_REGISTERED, 5024),
         VALUE(CU_FILE_PERMISSION_DENIED, 5025),
         VALUE(CU_FILE_DRIVER_ALREADY_OPEN, 5026),
         VALUE(CU_FILE_HANDLE_NOT_REGISTERED, 5027),
         VALUE(CU_FILE_HANDLE_ALREADY_REGISTERED, 5028),
         VALUE(CU_FILE_DEVICE_NOT_FOUND, 5029),
         VALUE(CU_FILE_INTERNAL_ERROR, 5030),
         VALUE(CU_FILE_GETNEWFD_FAILED, 5031),
         VALUE(CU_FILE_NVFS_SETUP_ERROR, 5033),
         VALUE(CU_FILE_IO_DISABLED, 5034),
         VALUE(CU_FILE_BATCH_SUBMIT_FAILED, 5035),
         VALUE(CU_FILE_GPU_MEMORY_PINNING_FAILED, 5036),
         VALUE(CU_FILE_BATCH_FULL, 5037),
         VALUE(CU_FILE_ASYNC_NOT_SUPPORTED, 5038),
         VALUE(CU_FILE_INTERNAL_BATCH_SETUP_ERROR, 5039),
         VALUE(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, 5040),
         VALUE(CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR, 5041),
         VALUE(CU_FILE_INTERNAL_BATCH_CANCEL_ERROR, 5042),
         VALUE(CU_FILE_NOMEM_ERROR, 5043),
         VALUE(CU_FILE_IO_ERROR, 5044),
         VALUE(CU_FILE_INTERNAL_BUF_REGISTER_ERROR, 5045),
         VALUE(CU_FILE_HASH_OPR_ERROR, 5046),
         VALUE(CU_FILE_INVALID_CONTEXT_ERROR, 5047),
         VALUE(CU_FILE_NVFS_INTERNAL_DRIVER_ERROR, 5048),
         VALUE(CU_FILE_BATCH_NOCOMPAT_ERROR, 5049),
         VALUE(CU_FILE_IO_MAX_ERROR, 5050)});
}

TEST(CufileAbi, FlagsAndKinds) {
  check({VALUE(CU_FILE_LUSTRE_SUPPORTED, 0),
         VALUE(CU_FILE_WEKAFS_SUPPORTED, 1),
         VALUE(CU_FILE_NFS_SUPPORTED, 2),
         VALUE(CU_FILE_GPFS_SUPPORTED, 3),
         VALUE(CU_FILE_NVME_SUPPORTED, 4),
         VALUE(CU_FILE_NVMEOF_SUPPORTED, 5),
         VALUE(CU_FILE_SCSI_SUPPORTED, 6),
         VALUE(CU_FILE_SCALEFLUX_CSD_SUPPORTED, 7),
         VALUE(CU_FILE_NVMESH_SUPPORTED, 8),
         VALUE(CU_FILE_BEEGFS_SUPPORTED, 9),
         VALUE(CU_FILE_NVME_P2P_SUPPORTED, 11),
         VALUE(CU_FILE_SCATEFS_SUPPORTED, 12),
         VALUE(CU_FILE_VIRTIOFS_SUPPORTED, 13),
         VALUE(CU_FILE_USE_POLL_MODE, 0),
         VALUE(CU_FILE_ALLOW_COMPAT_MODE, 1),
         VALUE(CU_FILE_DYN_ROUTING_SUPPORTED, 0),
         VALUE(CU_FILE_BATCH_IO_SUPPORTED, 1),
         VALUE(CU_FILE_STREAMS_SUPPORTED, 2),
         VALUE(CU_FILE_PARALLEL_IO_SUPPORTED, 3),
         VALUE(CU_FILE_P2P_SUPPORTED, 4),
         VALUE(CU_FILE_HANDLE_TYPE_OPAQUE_FD, 1),
         VALUE(CU_FILE_HANDLE_TYPE_OPAQUE_WIN32, 2),
         VALUE(CU_FILE_HANDLE_TYPE_USERSPACE_FS, 3),
         VALUE(CU_FILE_RDMA_REGISTER, 1),
         VALUE(CU_FILE_RDMA_RELAXED_ORDERING, 2),
         VALUE(CUFILE_READ, 0),
         VALUE(CUFILE_WRITE, 1),
         VALUE(CUFILE_WAITING, 1),
         VALUE(CUFILE_PENDING, 2),
         VALUE(CUFILE_INVALID, 4),
         VALUE(CUFILE_CANCELED, 8),
         VALUE(CUFILE_COMPLETE, 16),
         VALUE(CUFILE_TIMEOUT, 32),
         VALUE(CUFILE_FAILED, 64),
         VALUE(CUFILE_BATCH, 1),
         VALUE(CU_FILE_STREAM_FIXED_BUF_OFFSET, 1),
         VALUE(CU_FILE_STREAM_FIXED_FILE_OFFSET, 2),
         VALUE(CU_FILE_STREAM_FIXED_FILE_SIZE, 4),
         VALUE(CU_FILE_STREAM_PAGE_ALIGNED_INPUTS, 8),
         VALUE(CUFILE_P2PDMA, 0),
         VALUE(CUFILE_NVFS, 1),
         VALUE(CUFILE_DMABUF, 2),
         VALUE(CUFILE_C2C, 3),
         VALUE(CUFILE_NVIDIA_PEERMEM, 4),
         VALUE(CU_FILE_P2P_FLAG_PCI_P2PDMA, 1),
         VALUE(CU_FILE_P2P_FLAG_C2C, 8)});
}

TEST(CufileAbi, Parameters) {
  check({VALUE(CUFILE_PARAM_PROFILE_STATS, 0),
         VALUE(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH, 1),
         VALUE(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 2),
         VALUE(CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB, 3),
         VALUE(CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM, 4),
         VALUE(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, 5),
         VALUE(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, 6),
         VALUE(CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB, 7),
         VALUE(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, 8),
         VALUE(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 9),
         VALUE(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, 10),
         VALUE(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS, 11),
         VALUE(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, 0),
         VALUE(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, 1),
         VALUE(CUFILE_PARAM_FORCE_COMPAT_MODE, 2),
         VALUE(CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE, 3),
         VALUE(CUFILE_PARAM_EXECUTION_PARALLEL_IO, 4),
         VALUE(CUFILE_PARAM_PROFILE_NVTX, 5),
         VALUE(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY, 6),
         VALUE(CUFILE_PARAM_USE_PCIP2PDMA, 7),
         VALUE(CUFILE_PARAM_PREFER_IO_URING, 8),
         VALUE(CUFILE_PARAM_FORCE_ODIRECT_MODE, 9),
         VALUE(CUFILE_PARAM_SKIP_TOPOLOGY_DETECTION, 10),
         VALUE(CUFILE_PARAM_STREAM_MEMOPS_BYPASS, 11),
         VALUE(CUFILE_PARAM_LOGGING_LEVEL, 0),
         VALUE(CUFILE_PARAM_ENV_LOGFILE_PATH, 1),
         VALUE(CUFILE_PARAM_LOG_DIR, 2),
         VALUE(CUFILE_PARAM_POSIX_POOL_SLAB_SIZE_KB, 0),
         VALUE(CUFILE_PARAM_POSIX_POOL_SLAB_COUNT, 1)});
}

TEST(CufileAbi, TextsAndMacrosInC) {
  EXPECT_TRUE(cufile_header_checks());
  for (int error = 5001; error <= 5050; ++error) {
    const std::string_view text = cufile_header_text(-error);
    const bool exists = error != 5021 && error != 5032;
    EXPECT_EQ(text != "unknown cuFile error", exists) << error;
  }
  EXPECT_STREQ(cufile_header_text(0), "success");
  // Programs search for these words.
  EXPECT_STREQ(cufile_header_text(5019), "unsupported file open flags");
}

TEST(CufileAbi, Version) {
  int version = 0;
  EXPECT_EQ(cuFileGetVersion(&version).err, CU_FILE_SUCCESS);
  EXPECT_EQ(version, 1150);
  EXPECT_EQ(cuFileGetVersion(nullptr).err, CU_FILE_INVALID_VALUE);
}

}  // namespace
