// lz4 chunks decoded by the GPU through Device::make_decoder: good chunks decode exactly in batches with bad ones at
// any position, in batch sizes that exercise every decoder.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <lz4.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "device/device.h"

namespace headrace::device {
namespace {

using Bytes = std::vector<unsigned char>;

// Cycles through fields, text, noise and runs.
Bytes plain_bytes(std::size_t bytes, unsigned kind, std::uint32_t seed) {
  std::mt19937 rng(seed);
  Bytes out(bytes);
  unsigned value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    switch (kind % 4) {
      case 0:
        value += rng() % 3;
        out[i] = static_cast<unsigned char>(i % 4 == 0 ? rng() : value >> (i % 4));
        break;
      case 1:
        out[i] = static_cast<unsigned char>("the quick brown fox "[rng() % 7 == 0 ? rng() % 20 : i % 20]);
        break;
      case 2:
        out[i] = static_cast<unsigned char>(rng());
        break;
      default:
        out[i] = static_cast<unsigned char>(rng() % 500 == 0 ? rng() : value);
    }
  }
  return out;
}

Bytes compress(const Bytes& plain) {
  Bytes out(4 + static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(plain.size()))));
  for (unsigned i = 0; i < 4; ++i) out[i] = static_cast<unsigned char>(plain.size() >> (8 * i));
  const int got = LZ4_compress_default(reinterpret_cast<const char*>(plain.data()), reinterpret_cast<char*>(&out[4]),
                                       static_cast<int>(plain.size()), static_cast<int>(out.size() - 4));
  out.resize(4 + static_cast<std::size_t>(got));
  return out;
}

class Lz4Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = open_device("cuda");
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    device_ = *device;
    auto stream = device_->create_stream();
    ASSERT_TRUE(stream.ok()) << stream.status().to_string();
    stream_ = std::move(*stream);
  }
  // Decodes chunks of `bytes` each; those whose number modulo `period` is `bad` are damaged.
  void decode(std::size_t count, std::size_t bytes, std::size_t period, std::size_t bad, bool exact);

  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

void Lz4Gpu::decode(std::size_t count, std::size_t bytes, std::size_t period, std::size_t bad, bool exact) {
  constexpr std::size_t kGap = 3;  // between chunks: nothing is aligned, and gaps must stay unchanged
  std::vector<Bytes> plains, kinds;
  for (unsigned k = 0; k < 8; ++k) {
    plains.push_back(plain_bytes(exact ? bytes : bytes - k, k, k));
    kinds.push_back(compress(plains.back()));
  }
  Bytes src;
  std::vector<std::size_t> at, sizes;
  for (std::size_t i = 0; i < count; ++i) {
    Bytes stored = kinds[i % 8];
    if (i % period == bad) {
      switch (i / period % 5) {
        case 0:
          stored.pop_back();
          break;
        case 1:
          stored[0] ^= 1;  // the size
          if (!exact) stored[3] = 1;
          break;
        case 2:
          stored.resize(4);
          break;
        case 3:
          stored.push_back(0);
          break;
        default:
          std::fill(stored.begin() + 4, stored.end(), static_cast<unsigned char>(0xFF));
      }
    }
    at.push_back(src.size());
    sizes.push_back(stored.size());
    src.insert(src.end(), stored.begin(), stored.end());
  }
  const std::size_t dst_bytes = count * (bytes + kGap);
  unsigned char *device_src = nullptr, *device_dst = nullptr;
  ASSERT_EQ(cudaMalloc(&device_src, src.size()), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device_dst, dst_bytes), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(device_src, src.data(), src.size(), cudaMemcpyHostToDevice), cudaSuccess);
  DecodeStage stage;
  stage.codec = "lz4";
  stage.capacity_bytes = bytes;
  stage.exact = exact;
  auto decoder = device_->make_decoder({&stage, 1});
  ASSERT_TRUE(decoder.ok()) << decoder.status().to_string();
  std::vector<DecodeItem> items;
  DecodeLimits limits;
  limits.items = static_cast<std::uint32_t>(count);
  for (std::size_t i = 0; i < count; ++i) {
    items.push_back({reinterpret_cast<std::byte*>(device_src + at[i]), sizes[i],
                     reinterpret_cast<std::byte*>(device_dst + i * (bytes + kGap))});
    limits.src_bytes += sizes[i];
    limits.largest_src_bytes = std::max<std::uint64_t>(limits.largest_src_bytes, sizes[i]);
  }
  const std::size_t scratch_bytes = (*decoder)->scratch_bytes(limits);
  auto scratch = device_->allocate(scratch_bytes);
  auto outcomes = device_->allocate_pinned(count * sizeof(DecodeOutcome));
  ASSERT_TRUE(scratch.ok() && outcomes.ok());
  const std::span<DecodeOutcome> results(reinterpret_cast<DecodeOutcome*>(*outcomes), count);
  Bytes got(dst_bytes);
  // A repeated batch becomes a CUDA graph.
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(cudaMemset(device_dst, 0x5A, dst_bytes), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (DecodeOutcome& result : results) result.word = 0;
    const Status status = (*decoder)->decode(items, {*scratch, scratch_bytes}, results, *stream_);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(got.data(), device_dst, dst_bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned char* const chunk = &got[i * (bytes + kGap)];
      const Bytes& want = plains[i % 8];
      EXPECT_EQ(results[i].ok(), i % period != bad) << i << " of " << count;
      if (i % period != bad) {
        EXPECT_EQ(std::memcmp(chunk, want.data(), want.size()), 0) << i << " of " << count;
      }
      for (std::size_t k = 0; k < kGap; ++k) EXPECT_EQ(chunk[bytes + k], 0x5A) << i;
    }
  }
  device_->deallocate(*scratch, scratch_bytes);
  device_->deallocate_pinned(*outcomes, count * sizeof(DecodeOutcome));
  cudaFree(device_src);
  cudaFree(device_dst);
}

TEST_F(Lz4Gpu, BadChunksAtEveryPlaceLeaveTheOthersExact) {
  for (std::size_t count = 1; count <= 40; ++count) decode(count, 3001, 7, count % 7, true);
  for (std::size_t bad = 0; bad < 32; ++bad) decode(96, 1000, 32, bad, bad % 2 == 0);
}

TEST_F(Lz4Gpu, BatchesOfEverySize) {
  decode(1, 4'000'003, 2, 1, true);
  decode(3, 131'072, 5, 4, true);
  decode(300, 65'536, 7, 2, true);
  decode(90, 262'144, 9, 1, true);
  decode(40, 262'145, 9, 1, false);
  decode(12, 262'148, 5, 2, false);  // half are small, and decoded concurrently with the others in a graph
  decode(60, 262'148, 7, 3, false);
  decode(700, 20'000, 11, 3, true);
  decode(3000, 9001, 13, 5, false);
  decode(5000, 4099, 17, 0, true);
  decode(20'000, 2049, 19, 18, true);
}

}  // namespace
}  // namespace headrace::device

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (auto opened = headrace::device::open_device("cuda"); !opened.ok()) {
    std::printf("skipped: %s\n", opened.status().to_string().c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
