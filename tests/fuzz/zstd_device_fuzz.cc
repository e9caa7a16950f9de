// The zstd decoder's device code, run on the CPU, against the CPU's codec, which is libzstd: same verdict, same bytes,
// nothing touched outside.
//
// Inputs are seeds of the codec. The stream goes through the device code twice, flush right and flush left between
// guard pages, as the second of three in a batch whose others must stay exact.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <zstd.h>

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/support/codec_seed.h"
#include "tests/support/guard_buffer.h"
#include "tests/support/zstd_on_cpu.h"

namespace {

using namespace headrace;
using test::CodecSeed;
using test::Flush;
using test::GuardArena;
using test::ZstdOnCpu;

constexpr std::size_t kMaxStream = 1 << 16;

std::unique_ptr<codec::Codec> make_zstd() {
  codec::Context context;
  context.zarr_format = 2;
  auto made = codec::make_codec("zstd", test::codec_seed_config("zstd", 0), context);
  FUZZ_CHECK(made.ok());
  return std::move(*made);
}

// A stream that is always good, to lie on either side.
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
  if (seed.stream.size() > kMaxStream) return 0;
  static const std::unique_ptr<codec::Codec> codec = make_zstd();
  static const std::unique_ptr<codec::Scratch> scratch = codec->make_scratch();
  static std::vector<std::byte> plain(300);
  static const std::vector<std::byte> good = neighbour(plain);
  static GuardArena in(kMaxStream), out(CodecSeed::kMaxCapacity), want(CodecSeed::kMaxCapacity);
  static ZstdOnCpu gpu;

  codec::Stream stream{.src = seed.stream.data(),
                       .src_bytes = seed.stream.size(),
                       .dst = want.take(seed.capacity, Flush::kRight, 0),
                       .dst_capacity = seed.capacity,
                       .exact = seed.exact};
  Status status;
  codec->decode({&stream, 1}, {&status, 1}, scratch.get());

  for (const Flush flush : {Flush::kRight, Flush::kLeft}) {
    std::byte* const src = in.take(seed.stream.size(), flush, 0);
    std::copy(seed.stream.begin(), seed.stream.end(), src);
    std::byte* const dst = out.take(seed.capacity, flush, flush == Flush::kLeft ? 0 : 0xFF);
    std::vector<std::byte> first(plain.size()), last(plain.size());
    ZstdOnCpu::Item items[3] = {
        {good, first, {}, 0}, {{src, seed.stream.size()}, {dst, seed.capacity}, {}, 0}, {good, last, {}, 0}};
    gpu.blocks = 1 + static_cast<unsigned>(size % 3);
    gpu.walks = flush == Flush::kRight ? 1 : size % 2 == 0 ? 4 : 8;
    gpu.by_windows = size % 4 < 2;
    gpu.most_bytes = size % 5 == 0 ? 0 : ~std::uint64_t{0};
    gpu.last_blocks.clear();
    gpu.decode(items, seed.exact);
    FUZZ_CHECK(in.intact());
    FUZZ_CHECK(out.intact());
    FUZZ_CHECK(items[0].outcome.ok() && first == plain);
    FUZZ_CHECK(items[2].outcome.ok() && last == plain);
    const device::DecodeOutcome outcome = items[1].outcome;
    if (outcome.host_only()) continue;
    FUZZ_CHECK(status.code() != Code::kUnsupported);
    FUZZ_CHECK(outcome.ok() == status.ok());
    if (!outcome.ok()) continue;
    FUZZ_CHECK(items[1].produced == stream.dst_bytes);
    FUZZ_CHECK(std::equal(stream.dst, stream.dst + stream.dst_bytes, dst));
  }
  return 0;
}
