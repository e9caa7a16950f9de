/* cufile.h in a C99 program without cuda.h: it compiles, and its inline function and macros work. */
#define CUFILE_WITHOUT_CUDA_H
#include <cufile/cufile.h>

const char* cufile_header_text(int error);
int cufile_header_checks(void);

const char* cufile_header_text(int error) { return CUFILE_ERRSTR(error); }

int cufile_header_checks(void) {
  CUfileError_t status = {CU_FILE_CUDA_DRIVER_ERROR, (CUresult)2};
  CUfileDescr_t descriptor = {CU_FILE_HANDLE_TYPE_OPAQUE_FD, {3}, NULL};
  return IS_CUDA_ERR(status) && CU_FILE_CUDA_ERR(status) == 2 && IS_CUFILE_ERR(-5011) && IS_CUFILE_ERR(5001) &&
         !IS_CUFILE_ERR(-1) && !IS_CUFILE_ERR(4096 - 4096) && descriptor.handle.fd == 3;
}
