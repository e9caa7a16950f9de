// The un-shuffle kernels' source, run on the CPU between guard pages, must match the CPU code.
// clang-format off: gives the kernels their keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include "codec/unshuffle.h"
#include "codecs/shuffle/shuffle_device.cuh"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

namespace gpu = codec::gpu;
using gpu::shuffle::Byte;
using gpu::shuffle::Filter;

constexpr unsigned kThreads = 64;
unsigned g_shared[gpu::shuffle::kSharedWords<gpu::shuffle::UnshuffleWay::kAny>];

Byte* raw(std::byte* at) { return reinterpret_cast<Byte*>(at); }
const Byte* raw(const std::byte* at) { return reinterpret_cast<const Byte*>(at); }

template <gpu::shuffle::UnshuffleWay kPath>
void unfilter_by(const gpu::shuffle::Block& block) {
  const auto tile = gpu::shuffle::tile_bytes(block.width);
  for (std::uint64_t t = 0; t <= block.bytes / tile; ++t) {  // one tile past the end, which does nothing
    testing::gpu::launch(1, kThreads,
                         [&] { gpu::shuffle::unfilter_tile<kPath>(block, t, g_shared, threadIdx.x, blockDim.x); });
  }
}

void unfilter(const gpu::shuffle::Block& block) {
  gpu::shuffle::with_path(gpu::shuffle::path_of(block.filter, block.width, block.dst, 0),
                          [&](auto path) { unfilter_by<path()>(block); });
}

Bytes expected(Filter filter, const Bytes& src, std::size_t width) {
  Bytes out(src.size());
  if (filter == Filter::kNone) return src;
  if (filter == Filter::kBytes) {
    codec::unshuffle(src.data(), width, src.size(), out.data());
  } else {
    Bytes tile(codec::bit_tile_bytes(width));
    codec::bit_unshuffle(src.data(), width, src.size(), out.data(), tile.data());
  }
  return out;
}

// Contiguous bytes, flush with a guard page on either side, or offset from it.
void check(Filter filter, std::size_t width, std::size_t bytes, std::size_t src_off, std::size_t dst_off) {
  const Bytes src = sample(bytes, Content::kRandom, unsigned(bytes + width));
  const Bytes want = expected(filter, src, width);
  for (const Flush flush : {Flush::kRight, Flush::kLeft}) {
    GuardBuffer from(bytes + src_off, flush), to(bytes + dst_off, flush);
    std::byte* const in = flush == Flush::kRight ? from.data() : from.data() + src_off;
    std::byte* const out = flush == Flush::kRight ? to.data() : to.data() + dst_off;
    std::memcpy(in, src.data(), bytes);
    gpu::shuffle::Block block;
    block.src = raw(in);
    block.dst = raw(out);
    block.bytes = bytes;
    block.width = unsigned(width);
    block.filter = filter;
    unfilter(block);
    ASSERT_TRUE(std::equal(want.begin(), want.end(), out))
        << "filter " << int(filter) << " width " << width << " bytes " << bytes << " off " << src_off << ' ' << dst_off;
    ASSERT_TRUE(to.intact());
    for (std::size_t i = 0; i < dst_off; ++i)
      ASSERT_EQ(to.data()[flush == Flush::kRight ? bytes + i : i], std::byte{0xA5});
  }
}

TEST(ShuffleDevice, EveryWidth) {
  for (std::size_t width = 1; width <= 255; ++width) {
    const std::size_t step = width > 24 && width != 255 ? 1000 : 1;
    for (const std::size_t items : {1, 7, 8, 40, 100, 264, 1000}) {
      if (step == 1000 && items != 40 && items != 100) continue;
      for (const std::size_t left : {std::size_t{0}, width / 2}) {
        check(Filter::kBytes, width, items * width + left, 0, 0);
        check(Filter::kBits, width, items * width + left, 0, 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(ShuffleDevice, EveryAlignment) {
  for (const std::size_t width : {1, 2, 3, 4, 8, 12, 16, 17}) {
    for (std::size_t off = 0; off < 17; ++off) {
      for (const std::size_t bytes :
           {std::size_t{40}, 64 * width, 64 * width + 5, 17 * width, 33 * width, std::size_t{1}}) {
        for (const Filter filter : {Filter::kNone, Filter::kBytes, Filter::kBits}) {
          check(filter, width, bytes, off, 0);
          check(filter, width, bytes, 0, off);
          check(filter, width, bytes, off, 16 - off);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Chunks whose destination is not aligned to their elements decode correctly, if slowly.
TEST(ShuffleDevice, FastPathsWithoutAlignment) {
  for (const std::size_t off : {1, 2, 3, 5}) {
    const Bytes src = sample(4000, Content::kRandom, unsigned(off));
    const auto run = [&](std::size_t width, auto path) {
      GuardBuffer to(src.size() + off, Flush::kLeft);
      gpu::shuffle::Block block;
      block.src = raw(src.data());
      block.dst = raw(to.data() + off);
      block.bytes = src.size();
      block.width = unsigned(width);
      block.filter = Filter::kBytes;
      unfilter_by<path()>(block);
      const Bytes want = expected(Filter::kBytes, src, width);
      EXPECT_TRUE(std::equal(want.begin(), want.end(), to.data() + off)) << width;
      EXPECT_TRUE(to.intact());
    };
    for (const std::size_t width : {2, 4, 8}) {
      gpu::shuffle::with_path(gpu::shuffle::path_of(Filter::kBytes, unsigned(width), nullptr, 0),
                              [&](auto path) { run(width, path); });
    }
  }
}

TEST(ShuffleDevice, SeveralTiles) {
  for (const std::size_t width : {1, 2, 3, 4, 5, 8, 16, 24, 255}) {
    const std::size_t tile = gpu::shuffle::tile_bytes(unsigned(width));
    for (const std::size_t bytes :
         {tile - width, tile, tile + 1, tile + 8 * width, 2 * tile + 64 * width + 3, 3 * tile}) {
      for (const Filter filter : {Filter::kNone, Filter::kBytes, Filter::kBits}) {
        check(filter, width, bytes, bytes % 7, bytes % 2 * 8);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Planes at separate addresses, each flush with guard pages: no word may cross their edges.
TEST(ShuffleDevice, PlanesOneByOne) {
  std::mt19937 rng(5);
  for (const std::size_t width : {1, 2, 3, 4, 7, 8, 12, 16}) {
    for (const std::size_t items : {128, 136, 1000, 1001, 9000}) {
      const std::size_t bytes = items * width;
      const Bytes src = sample(bytes, Content::kRandom, unsigned(bytes));
      for (const Filter filter : {Filter::kNone, Filter::kBytes, Filter::kBits}) {
        std::vector<std::unique_ptr<GuardBuffer>> memory;
        const Byte* planes[16];
        bool skip[16] = {};
        for (std::size_t j = 0; j < width; ++j) {
          const std::size_t off = rng() % 3 == 0 ? 0 : rng() % 16;
          const Flush flush = rng() % 2 == 0 ? Flush::kRight : Flush::kLeft;
          memory.push_back(std::make_unique<GuardBuffer>(items + off, flush));
          std::byte* const plane = memory.back()->data() + (flush == Flush::kRight ? 0 : off);
          std::memcpy(plane, src.data() + j * items, items);
          planes[j] = raw(plane);
        }
        Bytes want = expected(filter, src, width);
        if (filter == Filter::kNone) {  // planes that are already decoded in place
          for (std::size_t j = 0; j < width; j += 2) {
            skip[j] = true;
            std::fill_n(want.begin() + std::ptrdiff_t(j * items), items, std::byte{0xA5});
          }
        }
        GuardBuffer to(bytes, items % 2 == 0 ? Flush::kRight : Flush::kLeft);
        gpu::shuffle::Block block;
        block.planes = planes;
        block.skip = skip;
        block.dst = raw(to.data());
        block.bytes = bytes;
        block.width = unsigned(width);
        block.filter = filter;
        unfilter(block);
        ASSERT_TRUE(std::equal(want.begin(), want.end(), to.data()))
            << "filter " << int(filter) << " width " << width << " items " << items;
        ASSERT_TRUE(to.intact());
      }
    }
  }
}

// Compares the stage's only kernel with the codec: verdicts, sizes, bytes.
TEST(ShuffleDevice, ChunksLikeTheCodec) {
  for (const std::size_t width : {0, 1, 2, 4, 7, 16, 255}) {
    const auto codec = make("numcodecs.shuffle", R"({"elementsize":)" + std::to_string(width) + "}");
    device::DecodeStage described;
    ASSERT_TRUE(codec->describe_for_device(described));
    EXPECT_EQ(described.parameters[0], width);
    Decoder decode(*codec);
    for (const bool exact : {true, false}) {
      for (const std::size_t capacity : {0, 255, 4096, 40'000}) {
        std::vector<Bytes> encoded;
        for (const std::size_t bytes :
             {std::size_t{0}, std::size_t{1}, capacity / 2, capacity - capacity % 255, capacity, capacity + 1}) {
          encoded.push_back(sample(bytes, Content::kRandom, unsigned(bytes + width)));
        }
        std::vector<GuardBuffer*> out;
        std::vector<device::gpu::Chunk> chunks;
        std::vector<std::uint64_t> outcomes(encoded.size() + 1, device::DecodeOutcome::kOk);
        for (std::size_t i = 0; i <= encoded.size(); ++i) {
          const Bytes& bytes = encoded[i < encoded.size() ? i : 4];
          out.push_back(new GuardBuffer(capacity, Flush::kRight));
          chunks.push_back({raw(bytes.data()), raw(out.back()->data()), bytes.size(), capacity});
        }
        outcomes.back() = device::DecodeOutcome::pack(0, 5, device::DecodeReason::kChecksum);  // already bad
        gpu::shuffle::ChunksJob job;
        job.chunks = chunks.data();
        job.outcomes = outcomes.data();
        job.count = unsigned(chunks.size());
        job.width = std::max(1u, unsigned(width));
        job.tiles_per_chunk = capacity / gpu::shuffle::tile_bytes(job.width) + 1;
        job.exact = exact;
        job.stage = 2;
        gpu::shuffle::with_path(gpu::shuffle::path_of(Filter::kBytes, job.width, nullptr, 0), [&](auto path) {
          testing::gpu::launch(3, kThreads, [&] { gpu::shuffle::unshuffle_chunks_body<path()>(job, g_shared); });
        });
        for (std::size_t i = 0; i < encoded.size(); ++i) {
          const Decoded want = decode(encoded[i], capacity, exact);
          const device::DecodeOutcome outcome{outcomes[i]};
          ASSERT_EQ(outcome.ok(), want.status.ok()) << "width " << width << " chunk " << i << " of " << capacity;
          ASSERT_TRUE(out[i]->intact());
          if (!outcome.ok()) {
            EXPECT_EQ(outcome.stage(), 2u);
            continue;
          }
          ASSERT_EQ(chunks[i].dst_bytes, want.bytes.size());
          ASSERT_TRUE(std::equal(want.bytes.begin(), want.bytes.end(), out[i]->data()));
        }
        EXPECT_EQ(device::DecodeOutcome{outcomes.back()}.reason(), device::DecodeReason::kChecksum);
        const Bytes untouched(capacity, std::byte{0xA5});
        EXPECT_TRUE(std::equal(untouched.begin(), untouched.end(), out.back()->data()));
        for (GuardBuffer* buffer : out) delete buffer;
      }
    }
  }
}

}  // namespace
}  // namespace headrace::test
