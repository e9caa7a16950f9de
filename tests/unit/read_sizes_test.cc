// How many waves a read has that the device decodes, and how large they are, within the budgets.
#include "transfer/read_sizes.h"

#include <gtest/gtest.h>

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;

SizeRequest request_of(std::uint64_t chunks, std::uint64_t chunk_bytes) {
  SizeRequest request;
  request.chunks = chunks;
  request.decoded_bytes = chunk_bytes;
  request.wave_bytes = 32 * kMiB;
  return request;
}

void expect_waves(const SizeRequest& request, bool large, unsigned waves, std::uint64_t bytes) {
  const WaveAim aim = decoded_waves(request, large);
  EXPECT_EQ(aim.waves, waves);
  EXPECT_EQ(aim.bytes, bytes);
}

TEST(DecodedWaves, AreOfTheBytesAskedForUnlessTheDecoderGainsByMore) {
  expect_waves(request_of(512, 4 * kMiB), false, 8, 32 * kMiB);
  expect_waves(request_of(64, 4 * kMiB), true, 4, 64 * kMiB);
}

TEST(DecodedWaves, OfSmallChunksAreNotLarger) {
  expect_waves(request_of(1 << 20, 256 * kKiB - 1), true, 8, 32 * kMiB);
  expect_waves(request_of(1 << 20, 256 * kKiB), true, 4, 128 * kMiB);
}

TEST(DecodedWaves, GrowWithTheReadFromTwoToFourTimes) {
  expect_waves(request_of(1, 4 * kMiB), true, 4, 64 * kMiB);
  expect_waves(request_of(kGiB / kMiB, kMiB), true, 4, 64 * kMiB);
  expect_waves(request_of(3 * kGiB / 2 / kMiB, kMiB), true, 4, 96 * kMiB);
  expect_waves(request_of(2 * kGiB / kMiB, kMiB), true, 4, 128 * kMiB);
  expect_waves(request_of(1024 * kGiB / kMiB, kMiB), true, 4, 128 * kMiB);
}

TEST(DecodedWaves, DoNotOverflow) {
  expect_waves(request_of(UINT64_MAX / 2, kGiB), true, 4, 128 * kMiB);
  SizeRequest request = request_of(64, kMiB);
  request.wave_bytes = UINT64_MAX / 3;
  expect_waves(request, true, 4, UINT64_MAX / 3 * 2);
  request.wave_bytes = UINT64_MAX / 2 + 1;
  expect_waves(request, true, 4, UINT64_MAX);
}

// What zstd's takes: as much scratch as there are decoded bytes, and some.
class Decoder final : public device::ChunkDecoder {
 public:
  explicit Decoder(std::uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}
  std::uint64_t scratch_bytes(const device::DecodeLimits& limits) const noexcept override {
    return limits.items * chunk_bytes_ * 11 / 10 + 40 * kMiB;
  }

 private:
  Status do_decode(std::span<const device::DecodeItem>, std::span<std::byte>, std::span<device::DecodeOutcome>,
                   device::Stream&, device::DecodeMarks*, const device::DecodeIndices&) override {
    return {};
  }
  std::uint64_t chunk_bytes_;
};

Result<ReadSizes> sizes_of(std::uint64_t chunks, std::uint64_t host_budget, std::uint64_t device_budget) {
  constexpr std::uint64_t kChunk = 4 * kMiB;
  const Decoder decoder(kChunk);
  SizeRequest request = request_of(chunks, kChunk);
  const WaveAim aim = decoded_waves(request, true);
  request.waves = aim.waves;
  request.wave_bytes = aim.bytes;
  request.decoder = &decoder;
  request.source_bytes = kChunk + kKiB;
  request.staged = true;
  request.threads = 16;
  request.host_budget_bytes = host_budget;
  request.device_budget_bytes = device_budget;
  return size_read(request);
}

TEST(ReadSizes, LargeWavesStayWithinTheBudgets) {
  const std::uint64_t host = 512 * kMiB, device = 2 * kGiB;  // ContextOptions' own
  auto sizes = sizes_of(1024, 2 * kGiB, 4 * kGiB);
  ASSERT_TRUE(sizes.ok()) << sizes.status().to_string();
  EXPECT_EQ(sizes->waves, 4u);
  EXPECT_EQ(sizes->tasks, 32u);
  sizes = sizes_of(1024, host, device);
  ASSERT_TRUE(sizes.ok()) << sizes.status().to_string();
  EXPECT_EQ(sizes->waves, 4u);
  EXPECT_GT(sizes->tasks, 16u);
  EXPECT_LE(sizes->waves * sizes->areas.pinned_bytes, host);
  EXPECT_LE(sizes->waves * sizes->areas.device_bytes, device);
}

TEST(ReadSizes, OneChunkThatDoesNotFitIsNamed) {
  const auto sizes = sizes_of(1024, 512 * kMiB, 8 * kMiB);
  ASSERT_FALSE(sizes.ok());
  EXPECT_EQ(sizes.status().code(), Code::kResourceExhausted);
  EXPECT_NE(sizes.status().to_string().find("device 8388608 bytes"), std::string::npos) << sizes.status().to_string();
}

}  // namespace
}  // namespace headrace::transfer
