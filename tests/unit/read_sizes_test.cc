// The number and size of the waves of a read that the device decodes, within the budgets.
#include "transfer/read/read_sizes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;
constexpr std::uint64_t kPlenty = 64 * kGiB;

// Needs scratch like zstd: somewhat more than the decoded bytes.
class Decoder final : public device::ChunkDecoder {
 public:
  Decoder(std::uint64_t chunk_bytes, bool large) : chunk_bytes_(chunk_bytes), large_(large) {}
  std::uint64_t scratch_bytes(const device::DecodeLimits& limits) const noexcept override {
    return limits.items * chunk_bytes_ * 11 / 10 + 40 * kMiB;
  }
  bool wants_large_batches() const noexcept override { return large_; }

 private:
  Status do_decode(std::span<const device::DecodeItem>, std::span<std::byte>, std::span<device::DecodeOutcome>,
                   device::Stream&, device::DecodeMarks*, const device::DecodeIndices&) override {
    return {};
  }
  std::uint64_t chunk_bytes_;
  bool large_;
};

struct Read {
  std::uint64_t chunks = 1, chunk_bytes = kMiB;
  bool large = false;  // the decoder is faster with large batches
  bool parts = false;
  std::uint64_t wave_bytes = 32 * kMiB, host_budget = kPlenty, device_budget = kPlenty;
};

SizeRequest request_of(const Read& read, const Decoder& decoder) {
  SizeRequest request;
  request.chunks = read.chunks;
  request.decoded_bytes = read.chunk_bytes;
  request.wave_bytes = read.wave_bytes;
  request.decoder = &decoder;
  request.source_bytes = read.chunk_bytes + read.chunk_bytes / 4;
  request.parts = read.parts;
  request.staged = true;
  request.threads = 16;
  request.host_budget_bytes = read.host_budget;
  request.device_budget_bytes = read.device_budget;
  return request;
}

Result<ReadSizes> sizes_of(const Read& read) {
  const Decoder decoder(read.chunk_bytes, read.large);
  return size_decoded_read(request_of(read, decoder));
}

void expect_waves(const Read& read, std::uint64_t waves, std::uint64_t chunks) {
  const auto sizes = sizes_of(read);
  ASSERT_TRUE(sizes.ok()) << sizes.status().to_string();
  EXPECT_EQ(sizes->waves, waves);
  EXPECT_EQ(sizes->tasks, chunks);
  EXPECT_LE(sizes->waves * sizes->areas.pinned_bytes, read.host_budget);
  EXPECT_LE(sizes->waves * sizes->areas.device_bytes, read.device_budget);
}

TEST(DecodedRead, WavesHaveTheRequestedSizeUnlessLargerOnesAreFaster) {
  expect_waves({.chunks = 64, .chunk_bytes = 4 * kMiB}, 8, 8);
  expect_waves({.chunks = 64, .chunk_bytes = 4 * kMiB, .large = true}, 4, 16);
  expect_waves({.chunks = 1024, .chunk_bytes = 256 * kKiB, .large = true}, 4, 256);
  expect_waves({.chunks = 1025, .chunk_bytes = 256 * kKiB - 16, .large = true}, 8, 128);
}

TEST(DecodedRead, LongReadHasFewerAndLargerWaves) {
  for (const bool large : {false, true}) {
    expect_waves({.chunks = 119, .chunk_bytes = 4 * kMiB, .large = large}, large ? 4 : 8, large ? 16 : 8);
    expect_waves({.chunks = 120, .chunk_bytes = 4 * kMiB, .large = large}, 4, 24);
    expect_waves({.chunks = 1 << 20, .chunk_bytes = 4 * kMiB, .large = large}, 4, 24);
    expect_waves({.chunks = 1 << 20, .chunk_bytes = 64 * kKiB, .large = large}, 4, 1024);
  }
}

// Parts of chunks leave room in every wave.
TEST(DecodedRead, PartsHaveLargerWavesAndAsMany) {
  for (const std::uint64_t chunks : {165, 1 << 20}) {
    expect_waves({.chunks = chunks, .chunk_bytes = 4 * kMiB, .parts = true}, 8, 16);
  }
  expect_waves({.chunks = 64, .chunk_bytes = 4 * kMiB, .large = true, .parts = true}, 4, 16);
  expect_waves({.chunks = 1025, .chunk_bytes = 256 * kKiB - 16, .parts = true}, 8, 128);
}

// For a store behind a network, as much is in flight as its connections can carry, in waves that are not large, within
// the budgets.
TEST(DecodedRead, WindowSetsTheNumberOfWaves) {
  const auto expect = [](std::uint64_t window, std::uint64_t host_budget, std::uint64_t waves, std::uint64_t chunks) {
    const Read read{.chunks = 1 << 20, .chunk_bytes = 4 * kMiB, .host_budget = host_budget};
    const Decoder decoder(read.chunk_bytes, false);
    SizeRequest request = request_of(read, decoder);
    request.window_bytes = window;
    request.arrives = true;
    const auto sizes = size_decoded_read(request);
    ASSERT_TRUE(sizes.ok()) << sizes.status().to_string();
    EXPECT_EQ(sizes->waves, waves);
    EXPECT_EQ(sizes->tasks, chunks);
    EXPECT_LE(sizes->waves * sizes->areas.pinned_bytes, host_budget / 8 * 7);
    EXPECT_GT(sizes->areas.encoded_bytes / sizes->tasks, request.source_bytes) << "a byte more, which tells its end";
  };
  expect(1, kPlenty, 8, 8);
  expect(512 * kMiB, kPlenty, 16, 8);
  expect(kGiB, kPlenty, 24, 8);
  expect(~std::uint64_t{0}, kPlenty, 24, 8);
  // 672 MiB, and each wave has one more place: more chunks are in flight in fewer waves.
  expect(kGiB, 768 * kMiB, 15, 8);
}

TEST(DecodedRead, LongReadMeasuresWithOrdinaryWaves) {
  const auto trial_of = [](const Read& read) {
    const auto sizes = sizes_of(read);
    return sizes.ok() ? sizes->trial_tasks : 0;
  };
  EXPECT_EQ(trial_of({.chunks = 1024, .chunk_bytes = 4 * kMiB, .large = true}), 16u);
  EXPECT_EQ(trial_of({.chunks = 1024, .chunk_bytes = 4 * kMiB}), 8u);
  EXPECT_EQ(trial_of({.chunks = 1024, .chunk_bytes = 8 * kMiB}), 8u);  // there are 16 threads
  EXPECT_EQ(trial_of({.chunks = 1 << 20, .chunk_bytes = 64 * kKiB}), 512u);
  EXPECT_EQ(trial_of({.chunks = 64, .chunk_bytes = 4 * kMiB, .large = true}), 16u);
}

TEST(DecodedRead, LongReadKeepsOrdinaryWavesWithoutBudgetForLarger) {
  // Pinned memory must fit the largest valid encoded chunks, here a quarter larger than the decoded ones.
  const Read read{.chunks = 1024, .chunk_bytes = 4 * kMiB, .large = true};
  Read tight = read;
  tight.host_budget = 512 * kMiB;
  expect_waves(tight, 4, 16);
  tight = read;
  tight.device_budget = kGiB + kGiB / 8;
  expect_waves(tight, 4, 16);
}

TEST(DecodedRead, LongReadKeepsOrdinaryWavesForLargeChunks) {
  expect_waves({.chunks = 1024, .chunk_bytes = 16 * kMiB}, 8, 4);
  expect_waves({.chunks = 1024, .chunk_bytes = 64 * kMiB, .large = true}, 4, 8);
}

TEST(DecodedRead, AbsurdSizesDoNotOverflow) {
  expect_waves({.chunks = UINT64_MAX, .chunk_bytes = 4 * kMiB}, 4, 24);
  const std::uint64_t most = 4096;  // limit per wave
  expect_waves({.chunks = 1 << 20, .chunk_bytes = kMiB, .wave_bytes = UINT64_MAX / 3, .device_budget = 4 * kPlenty}, 8,
               most);
}

TEST(DecodedRead, OneChunkThatDoesNotFitIsNamed) {
  const auto sizes = sizes_of({.chunks = 1024, .chunk_bytes = 4 * kMiB, .large = true, .device_budget = 8 * kMiB});
  ASSERT_FALSE(sizes.ok());
  EXPECT_EQ(sizes.status().code(), Code::kResourceExhausted);
  EXPECT_NE(sizes.status().to_string().find("device 8388608 bytes"), std::string::npos) << sizes.status().to_string();
}

// Waves of smaller chunks than the largest, which the slabs are made for.
TEST(WaveSizes, HaveAsManyChunksAsTheSlabsHaveRoomFor) {
  Read read{.chunks = 1024, .chunk_bytes = 4 * kMiB};
  const ReadSizes sizes = sizes_of(read).value();
  for (const std::uint64_t bytes : {4 * kMiB, kMiB, 64 * kKiB, std::uint64_t{16}, std::uint64_t{1}}) {
    read.chunk_bytes = bytes;
    const Decoder decoder(bytes, false);
    const auto wave = size_wave(request_of(read, decoder), sizes);
    ASSERT_TRUE(wave) << bytes;
    EXPECT_LE(wave->areas.pinned_bytes, sizes.areas.pinned_bytes) << bytes;
    EXPECT_LE(wave->areas.device_bytes, sizes.areas.device_bytes) << bytes;
    EXPECT_EQ(wave->tasks, std::min(sizes.wave_bytes / wave->stride, std::uint64_t{1024})) << bytes;
    EXPECT_GE(wave->trial_tasks, 1u);
    EXPECT_LE(wave->trial_tasks, wave->tasks);
  }
}

TEST(WaveSizes, AreNoneWhereNotEvenOneChunkFits) {
  Read read{.chunks = 2, .chunk_bytes = kMiB};
  const ReadSizes sizes = sizes_of(read).value();
  for (const std::uint64_t bytes : {64 * kMiB, UINT64_MAX / 2}) {
    read.chunk_bytes = bytes;
    const Decoder decoder(kMiB, false);
    EXPECT_FALSE(size_wave(request_of(read, decoder), sizes)) << bytes;
  }
}

TEST(WaveSizes, OfSeveralFormsAreOfAsManyWavesAsAskedFor) {
  const Decoder decoder(kMiB, false);
  SizeRequest request = request_of({.chunks = 3, .chunk_bytes = kMiB}, decoder);
  request.waves = 8;
  EXPECT_EQ(size_read(request).value().waves, 1u);
  request.one_form = false;
  EXPECT_EQ(size_read(request).value().waves, 3u);
}

}  // namespace
}  // namespace headrace::transfer
