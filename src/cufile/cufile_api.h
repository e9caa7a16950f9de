// The public C interface as the implementation includes it: exported, and without CUDA's headers.
#pragma once

#define CUFILE_WITHOUT_CUDA_H
#pragma GCC visibility push(default)
#include <cufile/cufile.h>
#pragma GCC visibility pop

#include <new>

namespace headrace::cufile {

inline constexpr int kVersion = 1150;  // the cuFile version whose structure sizes and return codes are reproduced

inline CUfileError_t answer(CUfileOpError code) noexcept { return {code, static_cast<CUresult>(0)}; }

// Lets no exception cross the C interface.
template <class Function>
CUfileError_t guarded(Function function) noexcept {
  try {
    return answer(function());
  } catch (const std::bad_alloc&) {
    return answer(CU_FILE_NOMEM_ERROR);
  } catch (...) {
    return answer(CU_FILE_INTERNAL_ERROR);
  }
}

}  // namespace headrace::cufile
