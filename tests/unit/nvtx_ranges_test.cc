// Under a profiler, each stage is an NVTX range in the domain headrace with its bytes as payload; without one, no NVTX
// function is called. This program acts as the profiler and supplies its own functions to NVTX.
#include "backends/dev_cuda/nvtx_ranges.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/trace.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#define NVTX_NO_IMPL  // types only: the calls are in nvtx_ranges.cc
#include <nvtx3/nvToolsExt.h>

namespace {

std::vector<std::string> g_calls;

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(const_cast<char*>(name));
}
nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(const_cast<char*>(text));
}
int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* about) {
  g_calls.push_back(std::string(reinterpret_cast<const char*>(domain)) + " " +
                    reinterpret_cast<const char*>(about->message.registered) + " " +
                    (about->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 ? std::to_string(about->payload.ullValue)
                                                                            : "no payload"));
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  g_calls.push_back("end");
  return 0;
}

int NVTX_API attach(NvtxGetExportTableFunc_t export_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&create_domain);
  *table[NVTX_CBID_CORE2_DomainRegisterStringA] = reinterpret_cast<NvtxFunctionPointer>(&register_string);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

}  // namespace

// NVTX looks for a statically linked profiler here.
extern "C" {
__attribute__((visibility("default"))) NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = &attach;
}
#define HEADRACE_HAVE_NVTX 1
#else
#define HEADRACE_HAVE_NVTX 0
namespace {
std::vector<std::string> g_calls;
}
#endif

namespace headrace::trace {
namespace {

TEST(NvtxRanges, OnlyUnderAProfilerAndWithTheirBytes) {
  if (!HEADRACE_HAVE_NVTX) GTEST_SKIP() << "the headers of NVTX are not installed";
  ::unsetenv("NVTX_INJECTION64_PATH");
  ASSERT_EQ(device::cuda::nvtx_ranges(), nullptr);
  ::setenv("NVTX_INJECTION64_PATH", "/a/profiler.so", 1);
  const RangeSink* sink = device::cuda::nvtx_ranges();
  ASSERT_NE(sink, nullptr);
  ::unsetenv("NVTX_INJECTION64_PATH");  // so that NVTX finds the linked one
  set_range_sink(sink);
  {
    Span outer(Stage::kRead, std::uint64_t{1} << 40);
    Timer inner(Stage::kDecode, 123);
    (void)inner.stop();
  }
  EXPECT_EQ(g_calls, (std::vector<std::string>{"headrace read 1099511627776", "headrace decode 123", "end", "end"}));
}

}  // namespace
}  // namespace headrace::trace
