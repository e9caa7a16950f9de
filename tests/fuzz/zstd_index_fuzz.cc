// The zstd decoder's device code with a decode index, run on the CPU. Whatever the index contains, verdict and bytes
// equal those of a decode without one, and nothing outside the buffers is accessed.
//
// Byte 0 of an input: bit 0: the stream is the input's, else libzstd makes one; bit 1: the index is the input's, else
// it is the stream's own with changes. Bytes 1-2: number of bytes of index or changes that follow (a change is a 16-bit
// position in the index and the value added there). Then a codec seed, or 5 bytes that say what to compress. The stream
// is the second of three chunks in a batch, decoded twice: once the first one has an index, once the third is
// collecting.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <zstd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "codecs/zstd/zstd_index.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/support/codec_seed.h"
#include "tests/support/zstd_on_cpu.h"

namespace {

using namespace headrace;
using test::CodecSeed;
using test::Flush;
using test::ZstdOnCpu;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kMaxStream = 1 << 16, kMaxCapacity = 1 << 16;

Bytes compress(const Bytes& plain, int level) {
  static ZSTD_CCtx* const context = ZSTD_createCCtx();
  Bytes out(ZSTD_compressBound(plain.size()));
  out.resize(ZSTD_compressCCtx(context, out.data(), out.size(), plain.data(), plain.size(), level));
  return out;
}
// Repeated words, each followed by a random byte: many short matches.
Bytes make_plain(std::size_t bytes, unsigned seed) {
  std::minstd_rand rng(seed + 1);
  Bytes out(bytes);
  for (std::size_t i = 0; i < bytes;) {
    const auto word = static_cast<unsigned>(rng() % (2 + seed % 61)) * 2654435761u;
    for (unsigned k = 0; k < 4 && i < bytes; ++k) out[i++] = static_cast<std::byte>(word >> (8 * k));
    if (i < bytes) out[i++] = static_cast<std::byte>(rng());
  }
  return out;
}

// Returns the decoded bytes, or nothing if the chunk is bad; `word` and `index` receive what happened to the index.
Bytes decode(ZstdOnCpu& gpu, const Bytes& stream, std::size_t capacity, bool exact, std::uint32_t& word, Bytes& index,
             device::DecodeOutcome& outcome) {
  Bytes out(capacity);
  ZstdOnCpu::Item item{stream, out, {}, 0, word, index};
  gpu.last_blocks.clear();
  gpu.decode({&item, 1}, exact);
  word = item.index_word;
  index = item.index;
  outcome = item.outcome;
  out.resize(outcome.ok() ? item.produced : 0);
  return out;
}

struct Good {
  Bytes plain, stream, index;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const unsigned flags = data[0];
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  const std::size_t changes = std::min<std::size_t>(data[1] | data[2] << 8, size - 3);
  const std::span<const std::byte> given(begin + 3, changes);
  const std::span<const std::byte> rest(begin + 3 + changes, size - 3 - changes);
  static ZstdOnCpu gpu;
  static const Good good = [] {
    Good made{make_plain(3000, 40), {}, {}};
    made.stream = compress(made.plain, 3);
    std::uint32_t word = device::kIndexCollect;
    device::DecodeOutcome outcome;
    FUZZ_CHECK(decode(gpu, made.stream, made.plain.size(), true, word, made.index, outcome) == made.plain);
    FUZZ_CHECK(!made.index.empty());
    return made;
  }();

  static const Bytes short_plain = make_plain(20, 40), short_stream = compress(short_plain, 3);

  Bytes stream;
  std::size_t capacity = 0;
  bool exact = true;
  if ((flags & 1) != 0) {
    CodecSeed seed;
    if (!test::parse_codec_seed(rest, seed) || seed.stream.size() > kMaxStream) return 0;
    stream.assign(seed.stream.begin(), seed.stream.end());
    capacity = std::min(seed.capacity, kMaxCapacity);
    exact = seed.exact;
  } else {
    if (rest.size() < 5) return 0;
    const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(rest[i]); };
    capacity = (at(0) | at(1) << 8) % 9000;
    stream = compress(make_plain(capacity, at(2)), 1 + static_cast<int>(at(3) % 19));
    if (at(4) != 0 && !stream.empty()) stream[at(4) * 977 % stream.size()] ^= static_cast<std::byte>(at(4));
  }

  gpu.blocks = 1 + static_cast<unsigned>(size % 3);
  gpu.most_bytes = size % 5 == 0 ? 0 : ~std::uint64_t{0};
  gpu.walks = 8;
  std::uint32_t word = device::kIndexNone;
  Bytes index;
  device::DecodeOutcome want;
  const Bytes plain = decode(gpu, stream, capacity, exact, word, index, want);
  bool own = false;
  if ((flags & 2) != 0) {
    index.assign(given.begin(), given.end());
  } else {
    word = device::kIndexCollect;
    device::DecodeOutcome outcome;
    FUZZ_CHECK(decode(gpu, stream, capacity, exact, word, index, outcome) == plain);
    FUZZ_CHECK(outcome.ok() == want.ok());
    if (!outcome.ok()) index.resize(codec::gpu::zstd::max_index_bytes(capacity));
    const Bytes collected = index;
    for (std::size_t i = 0; i + 3 <= given.size() && !index.empty(); i += 3) {
      const auto place = std::to_integer<std::size_t>(given[i]) | std::to_integer<std::size_t>(given[i + 1]) << 8;
      std::byte& byte = index[place % index.size()];
      byte = static_cast<std::byte>(std::to_integer<unsigned>(byte) + std::to_integer<unsigned>(given[i + 2]));
    }
    own = outcome.ok() && index == collected;
    // The CPU makes the same index of a valid stream; for an invalid one it may return anything.
    const auto made = codec::make_zstd_index(stream);
    if (outcome.ok()) FUZZ_CHECK(made.ok() && (word == device::kIndexNothing || *made == collected));
  }
  index.resize(std::min<std::size_t>(index.size(), codec::gpu::zstd::max_index_bytes(capacity)));

  static test::GuardArena in(kMaxStream), out(kMaxCapacity);
  for (const Flush flush : {Flush::kRight, Flush::kLeft}) {
    std::byte* const src = in.take(stream.size(), flush, 0);
    std::copy(stream.begin(), stream.end(), src);
    std::byte* const dst = out.take(capacity, flush, flush == Flush::kLeft ? 0 : 0xFF);
    const bool indexed = (flush == Flush::kRight) == (size % 4 < 2);
    Bytes first(indexed ? good.plain.size() : short_plain.size()),
        last(indexed ? short_plain.size() : good.plain.size());
    gpu.walks = flush == Flush::kRight ? 1 : size % 2 == 0 ? 4 : 8;
    ZstdOnCpu::Item items[3] = {
        {short_stream, first, {}, 0},
        {{src, stream.size()}, {dst, capacity}, {}, 0, static_cast<std::uint32_t>(index.size()), index},
        {short_stream, last, {}, 0}};
    if (indexed) {
      items[0] = {good.stream, first, {}, 0, static_cast<std::uint32_t>(good.index.size()), good.index};
    } else {
      items[2] = {good.stream, last, {}, 0, device::kIndexCollect, {}};
    }
    gpu.last_blocks.clear();
    gpu.decode(items, exact);
    FUZZ_CHECK(in.intact() && out.intact());
    FUZZ_CHECK(items[0].outcome.ok() && first == (indexed ? good.plain : short_plain));
    FUZZ_CHECK(items[2].outcome.ok() && last == (indexed ? short_plain : good.plain));
    if (indexed) FUZZ_CHECK(items[0].index_word == device::kIndexNothing);
    if (!indexed) FUZZ_CHECK(items[2].index == good.index);
    FUZZ_CHECK(items[1].outcome.ok() == want.ok());
    FUZZ_CHECK(items[1].outcome.host_only() == want.host_only());
    if (!want.ok()) continue;
    FUZZ_CHECK(items[1].produced == plain.size() && std::equal(plain.begin(), plain.end(), dst));
    if (own && !index.empty()) FUZZ_CHECK(items[1].index_word == device::kIndexNothing);
  }
  return 0;
}
