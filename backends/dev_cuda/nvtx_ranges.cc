#include "nvtx_ranges.h"

// NVTX is part of the CUDA toolkit, but a separate package in some distributions; without it there are no ranges.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace headrace::device::cuda {
namespace {

struct Domain {
  nvtxDomainHandle_t handle = nvtxDomainCreateA("headrace");
  std::array<nvtxStringHandle_t, trace::kStageCount> names{};

  Domain() {
    for (std::size_t i = 0; i < names.size(); ++i) {
      names[i] = nvtxDomainRegisterStringA(handle, trace::stage_name(static_cast<trace::Stage>(i)));
    }
  }
};

const Domain& domain() {
  static const Domain instance;
  return instance;
}

void begin(trace::Stage stage, std::uint64_t bytes) noexcept {
  const Domain& ours = domain();
  nvtxEventAttributes_t about{};
  about.version = NVTX_VERSION;
  about.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  about.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  about.message.registered = ours.names[static_cast<std::size_t>(stage)];
  about.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  about.payload.ullValue = bytes;
  nvtxDomainRangePushEx(ours.handle, &about);
}

void end() noexcept { nvtxDomainRangePop(domain().handle); }

}  // namespace

const trace::RangeSink* nvtx_ranges() noexcept {
  // Profilers set this variable for the processes they start; NVTX loads the library that it names.
  const char* injected = secure_getenv("NVTX_INJECTION64_PATH");
  if (injected == nullptr || injected[0] == '\0') return nullptr;
  static const trace::RangeSink sink{&begin, &end};
  return &sink;
}

}  // namespace headrace::device::cuda
#else
const headrace::trace::RangeSink* headrace::device::cuda::nvtx_ranges() noexcept { return nullptr; }
#endif
