/* cufile.h: the C interface of libcufile.so.0, written for headrace from the documented facts of that interface.
 *
 * Programs built with this header run with headrace's library and with NVIDIA's (version 1.15; later additions are
 * marked). C99 and C++. As programs expect of a file of this name, it includes <cuda.h> if the compiler finds one. If
 * not, or if CUFILE_WITHOUT_CUDA_H is defined, it declares the two types it needs from <cuda.h>, with the same layout.
 * Sizes and offsets are bytes unless a name says KB (1,024 bytes).
 *
 * Threads: every call from any thread.
 * Errors:  CUfileError_t; cu_err is meaningful only if err is CU_FILE_CUDA_DRIVER_ERROR. Reads and writes return the
 *          bytes moved, -1 with errno for a system error, or a negated CUfileOpError. */
#ifndef HEADRACE_CUFILE_CUFILE_H
#define HEADRACE_CUFILE_CUFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#if !defined(CUFILE_WITHOUT_CUDA_H) && !defined(__cuda_cuda_h__) && defined(__has_include)
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#endif
#ifndef CUDA_VERSION
typedef int CUresult; /* an enum in cuda.h, of the same size */
typedef struct CUstream_st* CUstream;
#endif

struct sockaddr;
struct timespec;

/* The interface may pass any int, so C++ must not assume that the enumerators are the only values. */
#ifdef __cplusplus
#define CUFILE_ENUM_ : int
extern "C" {
#else
#define CUFILE_ENUM_
#endif

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

#define CUFILEOP_BASE_ERR 5000

/* There is no 5021 and no 5032. */
typedef enum CUfileOpError CUFILE_ENUM_ {
  CU_FILE_SUCCESS = 0,
  CU_FILE_DRIVER_NOT_INITIALIZED = 5001,
  CU_FILE_DRIVER_INVALID_PROPS = 5002,
  CU_FILE_DRIVER_UNSUPPORTED_LIMIT = 5003,
  CU_FILE_DRIVER_VERSION_MISMATCH = 5004,
  CU_FILE_DRIVER_VERSION_READ_ERROR = 5005,
  CU_FILE_DRIVER_CLOSING = 5006,
  CU_FILE_PLATFORM_NOT_SUPPORTED = 5007,
  CU_FILE_IO_NOT_SUPPORTED = 5008,
  CU_FILE_DEVICE_NOT_SUPPORTED = 5009,
  CU_FILE_NVFS_DRIVER_ERROR = 5010,
  CU_FILE_CUDA_DRIVER_ERROR = 5011,
  CU_FILE_CUDA_POINTER_INVALID = 5012,
  CU_FILE_CUDA_MEMORY_TYPE_INVALID = 5013,
  CU_FILE_CUDA_POINTER_RANGE_ERROR = 5014,
  CU_FILE_CUDA_CONTEXT_MISMATCH = 5015,
  CU_FILE_INVALID_MAPPING_SIZE = 5016,
  CU_FILE_INVALID_MAPPING_RANGE = 5017,
  CU_FILE_INVALID_FILE_TYPE = 5018,
  CU_FILE_INVALID_FILE_OPEN_FLAG = 5019,
  CU_FILE_DIO_NOT_SET = 5020,
  CU_FILE_INVALID_VALUE = 5022,
  CU_FILE_MEMORY_ALREADY_REGISTERED = 5023,
  CU_FILE_MEMORY_NOT_REGISTERED = 5024,
  CU_FILE_PERMISSION_DENIED = 5025,
  CU_FILE_DRIVER_ALREADY_OPEN = 5026,
  CU_FILE_HANDLE_NOT_REGISTERED = 5027,
  CU_FILE_HANDLE_ALREADY_REGISTERED = 5028,
  CU_FILE_DEVICE_NOT_FOUND = 5029,
  CU_FILE_INTERNAL_ERROR = 5030,
  CU_FILE_GETNEWFD_FAILED = 5031,
  CU_FILE_NVFS_SETUP_ERROR = 5033,
  CU_FILE_IO_DISABLED = 5034,
  CU_FILE_BATCH_SUBMIT_FAILED = 5035,
  CU_FILE_GPU_MEMORY_PINNING_FAILED = 5036,
  CU_FILE_BATCH_FULL = 5037,
  CU_FILE_ASYNC_NOT_SUPPORTED = 5038,
  CU_FILE_INTERNAL_BATCH_SETUP_ERROR = 5039,
  CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR = 5040,
  CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR = 5041,
  CU_FILE_INTERNAL_BATCH_CANCEL_ERROR = 5042,
  CU_FILE_NOMEM_ERROR = 5043,
  CU_FILE_IO_ERROR = 5044,
  CU_FILE_INTERNAL_BUF_REGISTER_ERROR = 5045,
  CU_FILE_HASH_OPR_ERROR = 5046,
  CU_FILE_INVALID_CONTEXT_ERROR = 5047,
  CU_FILE_NVFS_INTERNAL_DRIVER_ERROR = 5048,
  CU_FILE_BATCH_NOCOMPAT_ERROR = 5049,
  CU_FILE_IO_MAX_ERROR = 5050
} CUfileOpError;

typedef struct CUfileError {
  CUfileOpError err;
  CUresult cu_err;
} CUfileError_t;

/* Returns static text, never null. Defined in the header, so a program prints the text it was compiled with. */
static inline const char* cufileop_status_error(CUfileOpError status) {
  switch (status) {
    case CU_FILE_SUCCESS:
      return "success";
    case CU_FILE_DRIVER_NOT_INITIALIZED:
      return "the cuFile driver is not open";
    case CU_FILE_DRIVER_INVALID_PROPS:
      return "invalid property in the configuration";
    case CU_FILE_DRIVER_UNSUPPORTED_LIMIT:
      return "property value out of range";
    case CU_FILE_DRIVER_VERSION_MISMATCH:
      return "driver version mismatch";
    case CU_FILE_DRIVER_VERSION_READ_ERROR:
      return "the driver version cannot be read";
    case CU_FILE_DRIVER_CLOSING:
      return "the cuFile driver is shutting down";
    case CU_FILE_PLATFORM_NOT_SUPPORTED:
      return "not supported on this platform";
    case CU_FILE_IO_NOT_SUPPORTED:
      return "I/O is not supported on this file";
    case CU_FILE_DEVICE_NOT_SUPPORTED:
      return "the GPU is not supported";
    case CU_FILE_NVFS_DRIVER_ERROR:
      return "kernel driver ioctl error";
    case CU_FILE_CUDA_DRIVER_ERROR:
      return "CUDA driver API error";
    case CU_FILE_CUDA_POINTER_INVALID:
      return "invalid device pointer";
    case CU_FILE_CUDA_MEMORY_TYPE_INVALID:
      return "invalid memory type of a pointer";
    case CU_FILE_CUDA_POINTER_RANGE_ERROR:
      return "the range exceeds the allocated address range";
    case CU_FILE_CUDA_CONTEXT_MISMATCH:
      return "CUDA context mismatch";
    case CU_FILE_INVALID_MAPPING_SIZE:
      return "the access is beyond the maximum pinned size";
    case CU_FILE_INVALID_MAPPING_RANGE:
      return "the access is beyond the registered size";
    case CU_FILE_INVALID_FILE_TYPE:
      return "unsupported file type";
    case CU_FILE_INVALID_FILE_OPEN_FLAG:
      return "unsupported file open flags";
    case CU_FILE_DIO_NOT_SET:
      return "O_DIRECT is not set on the file descriptor";
    case CU_FILE_INVALID_VALUE:
      return "invalid argument";
    case CU_FILE_MEMORY_ALREADY_REGISTERED:
      return "the memory is already registered";
    case CU_FILE_MEMORY_NOT_REGISTERED:
      return "the memory is not registered";
    case CU_FILE_PERMISSION_DENIED:
      return "permission denied";
    case CU_FILE_DRIVER_ALREADY_OPEN:
      return "the cuFile driver is already open";
    case CU_FILE_HANDLE_NOT_REGISTERED:
      return "the file handle is not registered";
    case CU_FILE_HANDLE_ALREADY_REGISTERED:
      return "the file descriptor is already registered";
    case CU_FILE_DEVICE_NOT_FOUND:
      return "GPU not found";
    case CU_FILE_INTERNAL_ERROR:
      return "internal error";
    case CU_FILE_GETNEWFD_FAILED:
      return "a new file descriptor could not be made";
    case CU_FILE_NVFS_SETUP_ERROR:
      return "kernel driver setup error";
    case CU_FILE_IO_DISABLED:
      return "I/O is disabled by the configuration for this file";
    case CU_FILE_BATCH_SUBMIT_FAILED:
      return "a batch could not be submitted";
    case CU_FILE_GPU_MEMORY_PINNING_FAILED:
      return "device memory could not be pinned";
    case CU_FILE_BATCH_FULL:
      return "the batch queue is full";
    case CU_FILE_ASYNC_NOT_SUPPORTED:
      return "stream-ordered I/O is not supported";
    case CU_FILE_INTERNAL_BATCH_SETUP_ERROR:
      return "batch setup failed";
    case CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR:
      return "batch submit failed";
    case CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR:
      return "batch status failed";
    case CU_FILE_INTERNAL_BATCH_CANCEL_ERROR:
      return "batch cancel failed";
    case CU_FILE_NOMEM_ERROR:
      return "out of memory";
    case CU_FILE_IO_ERROR:
      return "I/O error";
    case CU_FILE_INTERNAL_BUF_REGISTER_ERROR:
      return "buffer registration failed";
    case CU_FILE_HASH_OPR_ERROR:
      return "handle table error";
    case CU_FILE_INVALID_CONTEXT_ERROR:
      return "invalid CUDA context";
    case CU_FILE_NVFS_INTERNAL_DRIVER_ERROR:
      return "internal error of the kernel driver";
    case CU_FILE_BATCH_NOCOMPAT_ERROR:
      return "batch I/O needs compatibility mode, which is off";
    case CU_FILE_IO_MAX_ERROR:
      return "largest error number";
  }
  return "unknown cuFile error";
}

/* For a value that a read or write returned, or for CUfileError_t::err. */
#define IS_CUFILE_ERR(error) (((error) < 0 ? -(error) : (error)) > CUFILEOP_BASE_ERR)
#define CUFILE_ERRSTR(error) cufileop_status_error((CUfileOpError)((error) < 0 ? -(error) : (error)))
#define IS_CUDA_ERR(status) ((status).err == CU_FILE_CUDA_DRIVER_ERROR)
#define CU_FILE_CUDA_ERR(status) ((status).cu_err)

/* ---- Driver ------------------------------------------------------------------------------------------------------ */

/* Bit positions in CUfileDrvProps_t::nvfs.dstatusflags; also arguments of the P2P calls. */
typedef enum CUfileDriverStatusFlags CUFILE_ENUM_ {
  CU_FILE_LUSTRE_SUPPORTED = 0,
  CU_FILE_WEKAFS_SUPPORTED = 1,
  CU_FILE_NFS_SUPPORTED = 2,
  CU_FILE_GPFS_SUPPORTED = 3,
  CU_FILE_NVME_SUPPORTED = 4,
  CU_FILE_NVMEOF_SUPPORTED = 5,
  CU_FILE_SCSI_SUPPORTED = 6,
  CU_FILE_SCALEFLUX_CSD_SUPPORTED = 7,
  CU_FILE_NVMESH_SUPPORTED = 8,
  CU_FILE_BEEGFS_SUPPORTED = 9,
  CU_FILE_NVME_P2P_SUPPORTED = 11,
  CU_FILE_SCATEFS_SUPPORTED = 12,
  CU_FILE_VIRTIOFS_SUPPORTED = 13,
  CU_FILE_MAX_TARGET_TYPES = 14
} CUfileDriverStatusFlags_t;

/* Bit positions in nvfs.dcontrolflags. */
typedef enum CUfileDriverControlFlags CUFILE_ENUM_ {
  CU_FILE_USE_POLL_MODE = 0,
  CU_FILE_ALLOW_COMPAT_MODE = 1
} CUfileDriverControlFlags_t;

/* Bit positions in fflags. */
typedef enum CUfileFeatureFlags CUFILE_ENUM_ {
  CU_FILE_DYN_ROUTING_SUPPORTED = 0,
  CU_FILE_BATCH_IO_SUPPORTED = 1,
  CU_FILE_STREAMS_SUPPORTED = 2,
  CU_FILE_PARALLEL_IO_SUPPORTED = 3,
  CU_FILE_P2P_SUPPORTED = 4
} CUfileFeatureFlags_t;

typedef struct CUfileDrvProps {
  struct {
    unsigned int major_version; /* of the nvidia-fs kernel driver; both 0: not loaded */
    unsigned int minor_version;
    size_t poll_thresh_size;   /* KB */
    size_t max_direct_io_size; /* KB */
    unsigned int dstatusflags;
    unsigned int dcontrolflags;
  } nvfs;
  unsigned int fflags;
  unsigned int max_device_cache_size;      /* KB */
  unsigned int per_buffer_cache_size;      /* KB */
  unsigned int max_device_pinned_mem_size; /* KB */
  unsigned int max_batch_io_size;
  unsigned int max_batch_io_timeout_msecs;
} CUfileDrvProps_t;

/* Opens and closes are counted. The last close ends operations in flight and drops all registered handles, buffers,
 * batches and streams. */
CUfileError_t cuFileDriverOpen(void);
CUfileError_t cuFileDriverClose(void);
CUfileError_t cuFileDriverClose_v2(void);
#define cuFileDriverClose cuFileDriverClose_v2
long cuFileUseCount(void);
CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props);
CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_kb);
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_kb);
CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_kb);
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_kb);
/* 1000 * major + 10 * minor. */
CUfileError_t cuFileGetVersion(int* version);

/* ---- Files and buffers ------------------------------------------------------------------------------------------- */

typedef void* CUfileHandle_t;

typedef enum CUfileFileHandleType CUFILE_ENUM_ {
  CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1,
  CU_FILE_HANDLE_TYPE_OPAQUE_WIN32 = 2, /* not supported on Linux */
  CU_FILE_HANDLE_TYPE_USERSPACE_FS = 3
} CUfileFileHandleType;

typedef struct sockaddr sockaddr_t;

typedef struct cufileRDMAInfo {
  int version;
  int desc_len;
  const char* desc_str;
} cufileRDMAInfo_t;

typedef struct CUfileFSOps {
  const char* (*fs_type)(const void* handle);
  int (*getRDMADeviceList)(const void* handle, sockaddr_t** host_addresses);
  int (*getRDMADevicePriority)(const void* handle, char*, size_t, off_t, sockaddr_t* host_address);
  ssize_t (*read)(const void* handle, char*, size_t, off_t, const cufileRDMAInfo_t*);
  ssize_t (*write)(const void* handle, const char*, size_t, off_t, const cufileRDMAInfo_t*);
} CUfileFSOps_t;

typedef struct CUfileDescr_t {
  CUfileFileHandleType type;
  union {
    int fd;
    void* handle;
  } handle;
  const CUfileFSOps_t* fs_ops;
} CUfileDescr_t;

/* One handle per descriptor number; a duplicate or a second open of the same file counts as another. `descr` is not
 * used after the call returns. The caller keeps ownership of the descriptor. */
CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr);
void cuFileHandleDeregister(CUfileHandle_t fh);

#define CU_FILE_RDMA_REGISTER 1
#define CU_FILE_RDMA_RELAXED_ORDERING (1 << 1)

/* Optional for I/O. The caller keeps ownership of the memory. */
CUfileError_t cuFileBufRegister(const void* bufPtr_base, size_t length, int flags);
CUfileError_t cuFileBufDeregister(const void* bufPtr_base);

/* ---- Blocking I/O ------------------------------------------------------------------------------------------------ */

/* Device or host memory of any alignment. Short only at the end of the file; 0 at or past it. */
ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);
ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);

typedef struct CUfileIOVec {
  void* base; /* device or host memory */
  size_t len;
} CUfileIOVec_t;

/* Since 1.19. One contiguous range of the file, scattered to or gathered from `iov` in order; `flags` must be 0. */
ssize_t cuFileReadv(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags);
ssize_t cuFileWritev(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags);

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

typedef void* CUfileBatchHandle_t;

typedef enum CUfileOpcode CUFILE_ENUM_ { CUFILE_READ = 0, CUFILE_WRITE = 1 } CUfileOpcode_t;

typedef enum CUFILEStatus_enum CUFILE_ENUM_ {
  CUFILE_WAITING = 0x01,
  CUFILE_PENDING = 0x02,
  CUFILE_INVALID = 0x04,
  CUFILE_CANCELED = 0x08,
  CUFILE_COMPLETE = 0x10,
  CUFILE_TIMEOUT = 0x20,
  CUFILE_FAILED = 0x40
} CUfileStatus_t;

typedef enum cufileBatchMode CUFILE_ENUM_ { CUFILE_BATCH = 1 } CUfileBatchMode_t;

typedef struct CUfileIOParams {
  CUfileBatchMode_t mode;
  union {
    struct {
      void* devPtr_base;
      off_t file_offset;
      off_t devPtr_offset;
      size_t size;
    } batch;
  } u;
  CUfileHandle_t fh;
  CUfileOpcode_t opcode;
  void* cookie;
} CUfileIOParams_t;

typedef struct CUfileIOEvents {
  void* cookie;
  CUfileStatus_t status;
  size_t ret; /* bytes, or a negative error */
} CUfileIOEvents_t;

/* `nr`: maximum entries in flight or not yet reaped. */
CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch_idp, unsigned nr);
/* Copies the entries. */
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr, CUfileIOParams_t* iocbp, unsigned flags);
/* Waits for at least `min_nr` events or until `timeout` (null: no timeout). `*nr`: capacity in, events out. */
CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                     CUfileIOEvents_t* iocbp, struct timespec* timeout);
CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp);
void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp);

/* ---- I/O in the order of a stream -------------------------------------------------------------------------------- */

#define CU_FILE_STREAM_FIXED_BUF_OFFSET 1
#define CU_FILE_STREAM_FIXED_FILE_OFFSET 2
#define CU_FILE_STREAM_FIXED_FILE_SIZE 4
#define CU_FILE_STREAM_PAGE_ALIGNED_INPUTS 8

/* The arguments behind pointers are read when the stream reaches the operation, so they must live until then; `*size_p`
 * may shrink until then but not grow. `*bytes_read_p` receives bytes, -1, or a negated CUfileOpError. */
CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                              off_t* bufPtr_offset_p, ssize_t* bytes_read_p, CUstream stream);
CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                               off_t* bufPtr_offset_p, ssize_t* bytes_written_p, CUstream stream);
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags);
CUfileError_t cuFileStreamDeregister(CUstream stream);

/* ---- Parameters -------------------------------------------------------------------------------------------------- */

typedef enum CUFileSizeTConfigParameter_t CUFILE_ENUM_ {
  CUFILE_PARAM_PROFILE_STATS = 0,
  CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH = 1,
  CUFILE_PARAM_EXECUTION_MAX_IO_THREADS = 2,
  CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB = 3,
  CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM = 4,
  CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB = 5,
  CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB = 6,
  CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB = 7,
  CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB = 8,
  CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE = 9,
  CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB = 10,
  CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS = 11
} CUFileSizeTConfigParameter_t;

typedef enum CUFileBoolConfigParameter_t CUFILE_ENUM_ {
  CUFILE_PARAM_PROPERTIES_USE_POLL_MODE = 0,
  CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE = 1,
  CUFILE_PARAM_FORCE_COMPAT_MODE = 2,
  CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE = 3,
  CUFILE_PARAM_EXECUTION_PARALLEL_IO = 4,
  CUFILE_PARAM_PROFILE_NVTX = 5,
  CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY = 6,
  CUFILE_PARAM_USE_PCIP2PDMA = 7,
  CUFILE_PARAM_PREFER_IO_URING = 8,
  CUFILE_PARAM_FORCE_ODIRECT_MODE = 9,
  CUFILE_PARAM_SKIP_TOPOLOGY_DETECTION = 10,
  CUFILE_PARAM_STREAM_MEMOPS_BYPASS = 11
} CUFileBoolConfigParameter_t;

typedef enum CUFileStringConfigParameter_t CUFILE_ENUM_ {
  CUFILE_PARAM_LOGGING_LEVEL = 0,
  CUFILE_PARAM_ENV_LOGFILE_PATH = 1,
  CUFILE_PARAM_LOG_DIR = 2
} CUFileStringConfigParameter_t;

typedef enum CUFileArrayConfigParameter_t CUFILE_ENUM_ {
  CUFILE_PARAM_POSIX_POOL_SLAB_SIZE_KB = 0,
  CUFILE_PARAM_POSIX_POOL_SLAB_COUNT = 1
} CUFileArrayConfigParameter_t;

/* Setters work before the driver opens. Getters return the values set before that, and those in use afterwards. */
CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t* value);
CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool* value);
/* `len`: buffer size in bytes including the terminating 0; too small is an error. */
CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char* desc_str, int len);
CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t* min_value, size_t* max_value);
CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value);
CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value);
CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char* desc_str);
CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* size_values, const size_t* count_values, int len);
CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* size_values, size_t* count_values, int len);
CUfileError_t cuFileGetBARSizeInKB(int gpuIndex, size_t* barSize);
/* Since 1.17. */
CUfileError_t cuFileSetParameterGpuBounceBufferSlabArray(const size_t* size_values, const size_t* count_values,
                                                         int len);
CUfileError_t cuFileGetParameterGpuBounceBufferSlabArray(size_t* size_values, size_t* count_values, int len);
CUfileError_t cuFileExportPCIeTopology(const char* filename);

/* Since 1.16. Bit positions. */
typedef enum CUfileP2PFlags CUFILE_ENUM_ {
  CUFILE_P2PDMA = 0,
  CUFILE_NVFS = 1,
  CUFILE_DMABUF = 2,
  CUFILE_C2C = 3,
  CUFILE_NVIDIA_PEERMEM = 4
} CUfileP2PFlags_t;
#define CU_FILE_P2P_FLAG_PCI_P2PDMA ((CUfileP2PFlags_t)(1 << CUFILE_P2PDMA))
#define CU_FILE_P2P_FLAG_NVFS ((CUfileP2PFlags_t)(1 << CUFILE_NVFS))
#define CU_FILE_P2P_FLAG_DMABUF ((CUfileP2PFlags_t)(1 << CUFILE_DMABUF))
#define CU_FILE_P2P_FLAG_C2C ((CUfileP2PFlags_t)(1 << CUFILE_C2C))
CUfileError_t cuFileDriverSetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t p2p_flags);
CUfileError_t cuFileDriverGetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t* p2p_flags);

/* ---- Statistics -------------------------------------------------------------------------------------------------- */

#define CUFILE_GPU_UUID_LEN 16
#define CUFILE_MAX_GPUS 16

typedef struct CUfileOpCounter {
  uint64_t ok;
  uint64_t err;
} CUfileOpCounter_t;

typedef struct CUfileStatsLevel1 {
  CUfileOpCounter_t read_ops;
  CUfileOpCounter_t write_ops;
  CUfileOpCounter_t hdl_register_ops;
  CUfileOpCounter_t hdl_deregister_ops;
  CUfileOpCounter_t buf_register_ops;
  CUfileOpCounter_t buf_deregister_ops;
  uint64_t read_bytes;
  uint64_t write_bytes;
  uint64_t read_bw_bytes_per_sec;
  uint64_t write_bw_bytes_per_sec;
  uint64_t read_lat_avg_us;
  uint64_t write_lat_avg_us;
  uint64_t read_ops_per_sec;
  uint64_t write_ops_per_sec;
  uint64_t read_lat_sum_us;
  uint64_t write_lat_sum_us;
  CUfileOpCounter_t batch_submit_ops;
  CUfileOpCounter_t batch_complete_ops;
  CUfileOpCounter_t batch_setup_ops;
  CUfileOpCounter_t batch_cancel_ops;
  CUfileOpCounter_t batch_destroy_ops;
  CUfileOpCounter_t batch_enqueued_ops;
  CUfileOpCounter_t batch_posix_enqueued_ops;
  CUfileOpCounter_t batch_processed_ops;
  CUfileOpCounter_t batch_posix_processed_ops;
  CUfileOpCounter_t batch_nvfs_submit_ops;
  CUfileOpCounter_t batch_p2p_submit_ops;
  CUfileOpCounter_t batch_aio_submit_ops;
  CUfileOpCounter_t batch_iouring_submit_ops;
  CUfileOpCounter_t batch_mixed_io_submit_ops;
  CUfileOpCounter_t batch_total_submit_ops;
  uint64_t batch_read_bytes;
  uint64_t batch_write_bytes;
  uint64_t batch_read_bw_bytes;
  uint64_t batch_write_bw_bytes;
  uint64_t batch_submit_lat_avg_us;
  uint64_t batch_completion_lat_avg_us;
  uint64_t batch_submit_ops_per_sec;
  uint64_t batch_complete_ops_per_sec;
  uint64_t batch_submit_lat_sum_us;
  uint64_t batch_completion_lat_sum_us;
  uint64_t last_batch_read_bytes;
  uint64_t last_batch_write_bytes;
} CUfileStatsLevel1_t;

typedef struct CUfileStatsLevel2 {
  CUfileStatsLevel1_t basic;
  uint64_t read_size_kb_hist[32]; /* requests by size, in powers of two of a KB */
  uint64_t write_size_kb_hist[32];
} CUfileStatsLevel2_t;

typedef struct CUfilePerGpuStats {
  char uuid[CUFILE_GPU_UUID_LEN];
  uint64_t read_bytes;
  uint64_t read_bw_bytes_per_sec;
  uint64_t read_utilization;
  uint64_t read_duration_us;
  uint64_t n_total_reads;
  uint64_t n_p2p_reads;
  uint64_t n_nvfs_reads;
  uint64_t n_posix_reads;
  uint64_t n_unaligned_reads;
  uint64_t n_dr_reads;
  uint64_t n_sparse_regions;
  uint64_t n_inline_regions;
  uint64_t n_reads_err;
  uint64_t writes_bytes;
  uint64_t write_bw_bytes_per_sec;
  uint64_t write_utilization;
  uint64_t write_duration_us;
  uint64_t n_total_writes;
  uint64_t n_p2p_writes;
  uint64_t n_nvfs_writes;
  uint64_t n_posix_writes;
  uint64_t n_unaligned_writes;
  uint64_t n_dr_writes;
  uint64_t n_writes_err;
  uint64_t n_mmap;
  uint64_t n_mmap_ok;
  uint64_t n_mmap_err;
  uint64_t n_mmap_free;
  uint64_t reg_bytes;
} CUfilePerGpuStats_t;

typedef struct CUfileStatsLevel3 {
  CUfileStatsLevel2_t detailed;
  uint32_t num_gpus;
  CUfilePerGpuStats_t per_gpu_stats[CUFILE_MAX_GPUS];
} CUfileStatsLevel3_t;

/* Level 0 collects nothing; 1 to 3 are the structures above. Collected between start and stop. */
CUfileError_t cuFileSetStatsLevel(int level);
CUfileError_t cuFileGetStatsLevel(int* level);
CUfileError_t cuFileStatsStart(void);
CUfileError_t cuFileStatsStop(void);
CUfileError_t cuFileStatsReset(void);
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats);
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats);
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats);

#ifdef __cplusplus
}
#endif
#undef CUFILE_ENUM_

#endif
