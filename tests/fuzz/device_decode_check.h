// Helpers shared by the fuzz targets of whole device decoders. Include it after tests/support/cuda_on_cpu.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "codec/codec.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/support/codec_seed.h"
#include "tests/support/guard_buffer.h"
#include "tests/support/temp_dir.h"

namespace headrace::test {

inline constexpr std::size_t kMaxDeviceSeed = 1 << 16;

// Decodes a seed's stream with the device code and with the CPU's codec: same verdict, same bytes, no access outside
// the buffers. The device code decodes it twice, flush right and flush left between guard pages, as the second of three
// in a batch. The others are `good`, which decodes to `plain`, and must stay exact. `Gpu` is ZstdOnCpu or a class like
// it; decode(items, flush) decodes a batch of its items.
template <class Gpu, class Decode>
void check_device_decode(const CodecSeed& seed, const codec::StreamCoder& codec, std::span<const std::byte> good,
                         const std::vector<std::byte>& plain, const Decode& decode) {
  static const std::unique_ptr<codec::Scratch> scratch = codec.make_scratch();
  static GuardArena in(kMaxDeviceSeed), out(CodecSeed::kMaxCapacity), want(CodecSeed::kMaxCapacity);
  codec::EncodedStream stream{.src = seed.stream.data(),
                              .src_bytes = seed.stream.size(),
                              .dst = want.take(seed.capacity, Flush::kRight, 0),
                              .dst_capacity = seed.capacity,
                              .exact = seed.exact};
  const Status status = codec.decode(stream, scratch.get());

  for (const Flush flush : {Flush::kRight, Flush::kLeft}) {
    std::byte* const src = in.take(seed.stream.size(), flush, 0);
    std::copy(seed.stream.begin(), seed.stream.end(), src);
    std::byte* const dst = out.take(seed.capacity, flush, flush == Flush::kLeft ? 0 : 0xFF);
    std::vector<std::byte> first(plain.size()), last(plain.size());
    typename Gpu::Item items[3] = {
        {good, first, {}, 0}, {{src, seed.stream.size()}, {dst, seed.capacity}, {}, 0}, {good, last, {}, 0}};
    decode(std::span(items), flush);
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
    FUZZ_CHECK(support::same_bytes({stream.dst, stream.dst_bytes}, {dst, stream.dst_bytes}));
  }
}

// The same with only the first `enough` bytes wanted. Damage after them need not be detected.
template <class Gpu, class Decode>
void check_device_beginning(const CodecSeed& seed, const codec::StreamCoder& codec, std::size_t enough,
                            const Decode& decode) {
  static const std::unique_ptr<codec::Scratch> scratch = codec.make_scratch();
  static GuardArena in(kMaxDeviceSeed), out(CodecSeed::kMaxCapacity), want(CodecSeed::kMaxCapacity);
  codec::EncodedStream whole{.src = seed.stream.data(),
                             .src_bytes = seed.stream.size(),
                             .dst = want.take(seed.capacity, Flush::kRight, 0),
                             .dst_capacity = seed.capacity,
                             .exact = seed.exact};
  const bool good = codec.decode(whole, scratch.get()).ok();
  for (const Flush flush : {Flush::kRight, Flush::kLeft}) {
    std::byte* const src = in.take(seed.stream.size(), flush, 0);
    std::copy(seed.stream.begin(), seed.stream.end(), src);
    std::byte* const dst = out.take(seed.capacity, flush, flush == Flush::kLeft ? 0 : 0xFF);
    typename Gpu::Item item{{src, seed.stream.size()}, {dst, seed.capacity}, {}, 0};
    item.enough = enough;
    decode(std::span(&item, 1), flush);
    FUZZ_CHECK(in.intact());
    FUZZ_CHECK(out.intact());
    if (item.outcome.host_only()) continue;
    if (good) FUZZ_CHECK(item.outcome.ok());
    if (!item.outcome.ok()) continue;
    FUZZ_CHECK(!seed.exact || item.produced >= enough);
    if (good) {
      const std::size_t bytes = std::min(enough, whole.dst_bytes);
      FUZZ_CHECK(support::same_bytes({dst, bytes}, {whole.dst, bytes}));
    }
  }
}

}  // namespace headrace::test
