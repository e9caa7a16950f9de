// The GPU's in-order LZ4 decoder, run on the CPU, beside liblz4: same verdict, same bytes, nothing touched outside.
//
// Input: two bytes of output size, one of choices (how many lanes, which side is flush with unmapped memory), the
// block. Every second input is decoded to the size that liblz4 finds in it, so that mutations of good blocks stay
// accepted.
// clang-format off: gives the device code its keywords
#include "tests/support/lz4_inorder_check.h"
// clang-format on

#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  constexpr std::size_t kHeader = 3, kMost = 1 << 16;
  if (size < kHeader || size > kMost) return 0;
  const std::span<const std::byte> block(reinterpret_cast<const std::byte*>(data) + kHeader, size - kHeader);
  std::size_t plain_bytes = data[0] | static_cast<std::size_t>(data[1]) << 8;
  const unsigned choices = data[2];
  static std::byte room[kMost];
  if ((choices & 8) != 0) {
    const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()), reinterpret_cast<char*>(room),
                                        static_cast<int>(block.size()), kMost - 1);
    if (got >= 0) plain_bytes = static_cast<std::size_t>(got);
  }
  static test::InorderBeside beside(kMost);
  const char* const difference = beside.check(block, plain_bytes, 4u << (choices & 3),
                                              (choices & 4) != 0 ? test::Flush::kLeft : test::Flush::kRight);
  FUZZ_CHECK(difference == nullptr);
  return 0;
}
