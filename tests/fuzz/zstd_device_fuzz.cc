// The zstd decoder's device code, run on the CPU, against the CPU's codec (libzstd): same verdict, same bytes, no
// access outside the buffers.
//
// Inputs are seeds of the codec. The device code decodes the stream twice, flush right and flush left between guard
// pages. The stream is the second of three in a batch; the others must stay exact.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <zstd.h>

#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "tests/fuzz/device_decode_check.h"
#include "tests/support/zstd_on_cpu.h"

namespace {

using namespace headrace;
using test::CodecSeed;
using test::Flush;
using test::ZstdOnCpu;

codec::Codec make_zstd() {
  codec::CodecArgs context;
  context.zarr_format = 2;
  auto made = codec::make_codec("zstd", test::codec_seed_config("zstd", 0), context);
  FUZZ_CHECK(made.ok());
  return std::move(*made);
}

// A valid stream for the other items of the batch.
std::vector<std::byte> neighbour(std::span<std::byte> plain) {
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>(i * i / 7);
  std::vector<std::byte> out(ZSTD_compressBound(plain.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 3));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  CodecSeed seed;
  if (!test::parse_codec_seed({reinterpret_cast<const std::byte*>(data), size}, seed)) return 0;
  if (seed.stream.size() > test::kMaxDeviceSeed) return 0;
  static const codec::Codec codec = make_zstd();
  static std::vector<std::byte> plain(300);
  static const std::vector<std::byte> good = neighbour(plain);
  static ZstdOnCpu gpu;

  const auto decode = [&](std::span<ZstdOnCpu::Item> items, Flush flush) {
    gpu.blocks = 1 + static_cast<unsigned>(size % 3);
    gpu.walks = flush == Flush::kRight ? 1 : size % 2 == 0 ? 4 : 8;
    gpu.way = static_cast<ZstdOnCpu::Way>(size % 3);
    gpu.part_bytes = flush == Flush::kRight ? 0 : 8 + static_cast<std::uint32_t>(size / (1 + size % 23));
    gpu.most_bytes = size % 5 == 0 ? 0 : ~std::uint64_t{0};
    gpu.last_blocks.clear();
    gpu.decode(items, seed.exact);
  };
  test::check_device_decode<ZstdOnCpu>(seed, *codec.coder(), good, plain, decode);
  if (seed.capacity != 0)
    test::check_device_beginning<ZstdOnCpu>(seed, *codec.coder(), 1 + size * 31 % seed.capacity, decode);
  return 0;
}
