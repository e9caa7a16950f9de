#include "cuda_error.h"

#include <string>

namespace headrace::device::cuda {

bool is_sticky(cudaError_t error) noexcept {
  switch (error) {
    case cudaErrorCudartUnloading:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorExternalDevice:
#if CUDART_VERSION >= 12080
    case cudaErrorContained:
#endif
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

Status Health::check(cudaError_t error, std::string_view what) const {
  if (error == cudaSuccess) return {};
  if (is_sticky(error)) {
    cudaError_t none = cudaSuccess;
    cause_.compare_exchange_strong(none, error, std::memory_order_relaxed);
    return lost();
  }
  (void)cudaGetLastError();  // clears this call's own error, which must not surface in the caller's checks
  Code code = Code::kInternal;
  switch (error) {
    case cudaErrorMemoryAllocation:
    case cudaErrorLaunchOutOfResources:
      code = Code::kResourceExhausted;
      break;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidDevice:
      code = Code::kInvalidArgument;
      break;
    case cudaErrorNotSupported:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      code = Code::kUnsupported;
      break;
    case cudaErrorNotPermitted:
    case cudaErrorOperatingSystem:
      code = Code::kPermission;
      break;
    default:
      break;
  }
  return Status(code, Layer::kDevice, std::string(what) + " failed")
      .with_cause(std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error));
}

Status Health::lost() const {
  const cudaError_t error = cause_.load(std::memory_order_relaxed);
  return Status(Code::kDeviceLost, Layer::kDevice,
                "the GPU's context is unusable after an earlier error; this process must end to use it again")
      .with_cause(std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error));
}

}  // namespace headrace::device::cuda
