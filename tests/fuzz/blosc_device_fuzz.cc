// Blosc's device code, run on the CPU, against the CPU's codec: same verdict, same bytes, nothing touched outside.
//
// Inputs are seeds of the codec. The container goes through the device code twice, flush right and flush left between
// guard pages, as the second of three in a batch whose others must stay exact.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "codec/encoder.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/support/blosc_on_cpu.h"
#include "tests/support/codec_seed.h"
#include "tests/support/guard_buffer.h"

namespace {

using namespace headrace;
using test::BloscOnCpu;
using test::CodecSeed;
using test::Flush;
using test::GuardArena;

constexpr std::size_t kMaxStream = 1 << 16;

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
  if (seed.stream.size() > kMaxStream) return 0;
  static const std::unique_ptr<codec::Codec> codec = make_blosc(0);
  static const std::unique_ptr<codec::Scratch> scratch = codec->make_scratch();
  static std::vector<std::byte> plain(300);
  static const std::vector<std::byte> good_lz4 = neighbour(plain, false), good_zstd = neighbour(plain, true);
  static GuardArena in(kMaxStream), out(CodecSeed::kMaxCapacity), want(CodecSeed::kMaxCapacity);
  static BloscOnCpu gpu;
  // As for an array whose configuration names what the container says it holds.
  gpu.zstd = seed.stream.size() > 2 && std::to_integer<unsigned>(seed.stream[2]) >> 5 == 4;
  const std::vector<std::byte>& good = gpu.zstd ? good_zstd : good_lz4;

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
    BloscOnCpu::Item items[3] = {
        {good, first, {}, 0}, {{src, seed.stream.size()}, {dst, seed.capacity}, {}, 0}, {good, last, {}, 0}};
    gpu.blocks = 1 + static_cast<unsigned>(size % 4);
    gpu.decode(items, seed.exact);
    FUZZ_CHECK(gpu.within_limits);
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
