// Blosc's device code, run on the CPU, against the CPU's codec: same verdict, same bytes, no access outside the
// buffers.
//
// Inputs are seeds of the codec. The device code decodes the container twice, flush right and flush left between guard
// pages. The container is the second of three in a batch; the others must stay exact.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <libdeflate.h>

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

codec::Codec make_blosc(unsigned choice) {
  codec::CodecArgs context;
  context.zarr_format = 2;
  auto made = codec::make_codec("blosc", test::codec_seed_config("blosc", choice), context);
  FUZZ_CHECK(made.ok());
  return std::move(*made);
}

// A valid container for the other items of the batch.
std::vector<std::byte> neighbour(std::span<std::byte> plain, bool zstd) {
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>(i / 3);
  auto encoder = make_blosc(8 * 3 + 2 + (zstd ? 1 : 0)).coder()->make_encoder();
  FUZZ_CHECK(encoder.ok());
  std::vector<std::byte> out((*encoder)->bound_bytes(plain.size()));
  const auto bytes = (*encoder)->encode(plain, out);
  FUZZ_CHECK(bytes.ok());
  out.resize(*bytes);
  return out;
}

// The same with zlib, which the encoder does not write: assembles a container of one block that is not split.
std::vector<std::byte> zlib_neighbour(std::span<const std::byte> plain) {
  std::vector<std::byte> stream(plain.size() + 100);
  libdeflate_compressor* const compressor = libdeflate_alloc_compressor(6);
  stream.resize(libdeflate_zlib_compress(compressor, plain.data(), plain.size(), stream.data(), stream.size()));
  libdeflate_free_compressor(compressor);
  std::vector<std::byte> out;
  const auto put = [&out](std::size_t word) {
    for (unsigned i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(word >> (8 * i)));
  };
  put(2 | 1 << 8 | (3 << 5 | 0x10) << 16 | 1 << 24);
  put(plain.size());
  put(plain.size());
  put(24 + stream.size());
  put(20);
  put(stream.size());
  out.insert(out.end(), stream.begin(), stream.end());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  CodecSeed seed;
  if (!test::parse_codec_seed({reinterpret_cast<const std::byte*>(data), size}, seed)) return 0;
  if (seed.stream.size() > test::kMaxDeviceSeed) return 0;
  static const codec::Codec codec = make_blosc(0);
  static std::vector<std::byte> plain(300);
  static const std::vector<std::byte> good_lz4 = neighbour(plain, false), good_zstd = neighbour(plain, true),
                                      good_zlib = zlib_neighbour(plain);
  static BloscOnCpu gpu;
  // As for an array whose configuration names the container's compressor.
  using codec::gpu::blosc::Named;
  const unsigned inner = seed.stream.size() > 2 ? std::to_integer<unsigned>(seed.stream[2]) >> 5 : 0;
  gpu.named = inner == 4 ? Named::kZstd : inner == 3 ? Named::kZlib : Named::kOthers;
  const std::vector<std::byte>& good = inner == 4 ? good_zstd : inner == 3 ? good_zlib : good_lz4;

  const auto decode = [&](std::span<BloscOnCpu::Item> items, Flush) {
    gpu.blocks = 1 + static_cast<unsigned>(size % 4);
    gpu.decode(items, seed.exact);
    FUZZ_CHECK(gpu.within_limits);
  };
  test::check_device_decode<BloscOnCpu>(seed, *codec.coder(), good, plain, decode);
  return 0;
}
