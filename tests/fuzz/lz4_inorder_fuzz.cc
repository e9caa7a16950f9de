// The GPU's in-order LZ4 decoder, run on the CPU and compared with liblz4: same verdict, same bytes, no access outside
// the buffers. Input: lz4_fuzz_input.h; two bits of the choices select the number of lanes.
// clang-format off: gives the device code its keywords
#include "tests/support/lz4_inorder_check.h"
// clang-format on

#include "tests/fuzz/fuzz_check.h"
#include "tests/fuzz/lz4_fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  constexpr std::size_t kMax = 1 << 16;
  const auto input = test::lz4_fuzz_input(data, size, kMax, kMax - 1);
  if (!input) return 0;
  static test::InorderBeside beside(kMax);
  FUZZ_CHECK(beside.check(input->block, input->plain_bytes, 4u << (input->choices & 3), input->flush()) == nullptr);
  return 0;
}
