// The DEFLATE decoder's device code, run on the CPU, against the CPU's codec (libdeflate): same verdict, same bytes, no
// access outside the buffers. One target for gzip, one for zlib.
//
// Inputs are seeds of the codec. The device code decodes the stream twice, flush right and flush left between guard
// pages. The stream is the second of three in a batch; the others must stay exact.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <libdeflate.h>

#include <string_view>
#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "tests/fuzz/device_decode_check.h"
#include "tests/support/deflate_on_cpu.h"

namespace {

using namespace headrace;
using codec::gpu::DeflateKind;
using test::CodecSeed;
using test::DeflateOnCpu;
using test::Flush;

constexpr std::string_view kCodec = HEADRACE_FUZZ_CODEC;
constexpr DeflateKind kKind = kCodec == "gzip" ? DeflateKind::kGzip : DeflateKind::kZlib;

codec::Codec make_codec() {
  codec::CodecArgs context;
  context.zarr_format = 2;
  auto made = codec::make_codec(kCodec, test::codec_seed_config(kCodec, 0), context);
  FUZZ_CHECK(made.ok());
  return std::move(*made);
}

// A valid stream for the other items of the batch.
std::vector<std::byte> neighbour(std::span<std::byte> plain) {
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>(i * i / 7);
  std::vector<std::byte> out(plain.size() + 100);
  libdeflate_compressor* const compressor = libdeflate_alloc_compressor(6);
  const auto compress = kKind == DeflateKind::kGzip ? libdeflate_gzip_compress : libdeflate_zlib_compress;
  out.resize(compress(compressor, plain.data(), plain.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  CodecSeed seed;
  if (!test::parse_codec_seed({reinterpret_cast<const std::byte*>(data), size}, seed)) return 0;
  if (seed.stream.size() > test::kMaxDeviceSeed) return 0;
  static const codec::Codec codec = make_codec();
  static std::vector<std::byte> plain(300);
  static const std::vector<std::byte> good = neighbour(plain);
  static DeflateOnCpu gpu;

  const auto decode = [&](std::span<DeflateOnCpu::Item> items, Flush flush) {
    using Way = DeflateOnCpu::Way;
    gpu.kind = kKind;
    gpu.blocks = 1 + static_cast<unsigned>(size % 3);
    gpu.search = flush == Flush::kRight;
    gpu.way = flush == Flush::kLeft ? Way::kInOrder : size % 2 == 0 ? Way::kTiles : Way::kWindows;
    gpu.most_bytes = size % 5 == 0 ? 0 : ~std::uint64_t{0};
    gpu.allowance.blocks_per_segment = size % 7 == 0 ? 3 : 512;
    gpu.decode(items, seed.exact);
  };
  test::check_device_decode<DeflateOnCpu>(seed, *codec.coder(), good, plain, decode);
  return 0;
}
