// The GPU's LZ4 tile decoder on the CPU: any block with any promised size, compared with liblz4. Shapes are small, so
// that a few hundred bytes cross many lanes, segments, tiles, sections and slices.
// clang-format off: gives the device code its keywords
#include "tests/support/lz4_tiles_check.h"
// clang-format on

#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace::test;
  if (size < 4) return 0;
  static TilesBeside beside(1 << 20);
  // Input: promised size and shape of the run, then the block.
  std::size_t plain = static_cast<std::size_t>(data[0]) | static_cast<std::size_t>(data[1] & 63) << 8;
  const TilesRun run{1 + data[2] % 40u, data[3] % 2 == 0 ? 0 : 64u * (1u + data[3] / 2 % 16), data[3] < 128};
  const std::span block(reinterpret_cast<const std::byte*>(data) + 4, std::min<std::size_t>(size - 4, 8192));
  // Half of the inputs use the true decoded size, so that mutations get past the first check.
  if ((data[1] & 128) == 0) {
    static std::vector<char> room(1 << 16);
    const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()), room.data(),
                                        static_cast<int>(block.size()), static_cast<int>(room.size()));
    if (got > 0) plain = static_cast<std::size_t>(got);
  }
  if (plain == 0) return 0;  // such a stream is never decoded by tiles
  const char* const difference =
      beside.check<SmallTiles>(block, plain, run, (data[1] & 64) == 0 ? Flush::kLeft : Flush::kRight);
  if (difference != nullptr) std::fprintf(stderr, "%s\n", difference);
  FUZZ_CHECK(difference == nullptr);
  return 0;
}
