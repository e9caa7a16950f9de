// The GPU's decoder of small LZ4 streams, run on the CPU and compared with liblz4: same verdict, same bytes, no access
// outside the buffers. Input: lz4_fuzz_input.h.
// clang-format off: gives the device code its keywords
#include "tests/support/lz4_small_check.h"
// clang-format on

#include "tests/fuzz/fuzz_check.h"
#include "tests/fuzz/lz4_fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  constexpr std::size_t kMax = test::OneWarp::kMax;
  const auto input = test::lz4_fuzz_input(data, size, kMax, kMax);
  if (!input) return 0;
  static test::SmallBeside beside(1 << 16);
  FUZZ_CHECK(beside.check<test::OneWarp>(input->block, input->plain_bytes, input->flush()) == nullptr);
  FUZZ_CHECK(
      (beside.check_clusters<test::ClusterOneWarp, 2>(input->block, input->plain_bytes, input->flush()) == nullptr));
  return 0;
}
