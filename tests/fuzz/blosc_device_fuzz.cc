// Blosc's device code, run on the CPU, against the CPU's codec: same verdict, same bytes, nothing touched outside.
//
// Inputs are seeds of the codec. The container goes through the device code twice, flush right and flush left between
// guard pages, as the second of three in a batch whose others must stay exact.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "codec/encoder.h"
#include "tests/fuzz/device_decode_check.h"
#include "tests/support/blosc_on_cpu.h"

namespace {

using namespace headrace;
using test::BloscOnCpu;
using test::CodecSeed;
using test::Flush;

std::unique_ptr<codec::Codec> make_blosc(unsigned choice) {
  codec::Context context;
  context.zarr_format = 2;
  auto made = codec::make_codec("blosc", test::codec_seed_config("blosc", choice), context);
  FUZZ_CHECK(made.ok());
  return std::move(*made);
}

// A container that is always good, to lie on either side.
std::vector<std::byte> neighbour(std::span<std::byte> plain, bool zstd) {
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>(i / 3);
  auto encoder = make_blosc(8 * 3 + 2 + (zstd ? 1 : 0))->make_encoder();
  FUZZ_CHECK(encoder.ok());
  std::vector<std::byte> out((*encoder)->bound_bytes(plain.size()));
  const auto bytes = (*encoder)->encode(plain, out);
  FUZZ_CHECK(bytes.ok());
  out.resize(*bytes);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  CodecSeed seed;
  if (!test::parse_codec_seed({reinterpret_cast<const std::byte*>(data), size}, seed)) return 0;
  if (seed.stream.size() > test::kMaxDeviceSeed) return 0;
  static const std::unique_ptr<codec::Codec> codec = make_blosc(0);
  static std::vector<std::byte> plain(300);
  static const std::vector<std::byte> good_lz4 = neighbour(plain, false), good_zstd = neighbour(plain, true);
  static BloscOnCpu gpu;
  // As for an array whose configuration names what the container says it holds.
  gpu.zstd = seed.stream.size() > 2 && std::to_integer<unsigned>(seed.stream[2]) >> 5 == 4;
  const std::vector<std::byte>& good = gpu.zstd ? good_zstd : good_lz4;

  const auto decode = [&](std::span<BloscOnCpu::Item> items, Flush) {
    gpu.blocks = 1 + static_cast<unsigned>(size % 4);
    gpu.decode(items, seed.exact);
    FUZZ_CHECK(gpu.within_limits);
  };
  test::check_device_decode<BloscOnCpu>(seed, *codec, good, plain, decode);
  return 0;
}
