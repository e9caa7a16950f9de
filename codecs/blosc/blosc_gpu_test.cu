// Blosc containers and shuffled chunks on the GPU, through Device::make_decoder: bytes and verdicts equal the CPU
// codec's.
#include <blosc.h>

#include <cstdio>

#include "codec/chain.h"
#include "device/device.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

using device::DecodeItem;
using device::DecodeOutcome;
using device::DecodeReason;

Bytes compress(const Bytes& plain, const char* inner, int shuffle, std::size_t item_bytes, std::size_t block_bytes = 0,
               int level = 5) {
  Bytes out(plain.size() * 2 + 65536 + BLOSC_MAX_OVERHEAD);
  const int got = blosc_compress_ctx(level, shuffle, item_bytes, plain.size(), plain.data(), out.data(), out.size(),
                                     inner, block_bytes, 1);
  EXPECT_GT(got, 0) << inner;
  out.resize(static_cast<std::size_t>(std::max(got, 0)));
  return out;
}

// Results of a batch, after checking the canaries between them.
struct Results {
  std::vector<DecodeOutcome> outcomes;
  std::vector<Bytes> bytes;
};

class BloscGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = device::open_device("cuda");
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    device_ = std::move(*opened);
    stream_ = device_->create_stream().value();
    event_ = device_->create_event().value();
  }

  // Decodes containers of one codec; sources and results begin `off` bytes after an aligned address.
  void decode(const codec::StreamCoder& codec, const std::vector<Bytes>& encoded, std::size_t capacity, bool exact,
              std::size_t off, Results& results) {
    constexpr std::size_t kCanary = 64;
    device::DecodeStage stage;
    stage.capacity_bytes = capacity;
    stage.exact = exact;
    ASSERT_TRUE(codec.describe_for_device(stage));
    auto made = device_->make_decoder({&stage, 1});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    device::DecodeLimits limits;
    limits.items = static_cast<std::uint32_t>(encoded.size());
    std::size_t in_bytes = off;
    for (const Bytes& bytes : encoded) {
      limits.src_bytes += bytes.size();
      limits.largest_src_bytes = std::max<std::uint64_t>(limits.largest_src_bytes, bytes.size());
      in_bytes += bytes.size() + 1;
    }
    const std::size_t stride = (capacity + kCanary + 255) / 256 * 256 + off;
    const std::size_t out_bytes = encoded.size() * stride + off + kCanary;
    const std::size_t scratch_bytes = (*made)->scratch_bytes(limits);
    std::byte* const in_host = *device_->allocate_pinned(in_bytes);
    std::byte* const out_host = *device_->allocate_pinned(out_bytes);
    auto* const outcomes =
        reinterpret_cast<DecodeOutcome*>(*device_->allocate_pinned(encoded.size() * sizeof(DecodeOutcome)));
    std::byte* const in = *device_->allocate(in_bytes);
    std::byte* const out = *device_->allocate(out_bytes);
    std::byte* const scratch = *device_->allocate(scratch_bytes);
    std::memset(out_host, 0xA5, out_bytes);
    std::vector<DecodeItem> items;
    std::size_t at = off;
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      if (!encoded[i].empty()) std::memcpy(in_host + at, encoded[i].data(), encoded[i].size());
      items.push_back({in + at, encoded[i].size(), out + off + i * stride});
      at += encoded[i].size() + 1;
    }
    const device::Piece pieces[2] = {{in_host, in, in_bytes}, {out_host, out, out_bytes}};
    ASSERT_TRUE(device_->copy_to_device(pieces, *stream_).ok());
    const Status status = (*made)->decode(items, {scratch, scratch_bytes}, {outcomes, encoded.size()}, *stream_);
    ASSERT_TRUE(status.ok()) << status.to_string();
    const device::Piece back{out, out_host, out_bytes};
    ASSERT_TRUE(device_->copy_to_host({&back, 1}, *stream_).ok());
    ASSERT_TRUE(device_->record(*event_, *stream_).ok());
    const Status done = device_->synchronize(*event_);
    ASSERT_TRUE(done.ok()) << done.to_string();
    results.outcomes.assign(outcomes, outcomes + encoded.size());
    results.bytes.clear();
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      const std::byte* const from = out_host + off + i * stride;
      results.bytes.emplace_back(from, from + capacity);
      for (std::size_t k = capacity; k < stride; ++k) ASSERT_EQ(from[k], std::byte{0xA5}) << i << " behind its end";
    }
    for (std::size_t k = 0; k < off; ++k) ASSERT_EQ(out_host[k], std::byte{0xA5});
    device_->deallocate(scratch, scratch_bytes);
    device_->deallocate(out, out_bytes);
    device_->deallocate(in, in_bytes);
    device_->deallocate_pinned(reinterpret_cast<std::byte*>(outcomes), encoded.size() * sizeof(DecodeOutcome));
    device_->deallocate_pinned(out_host, out_bytes);
    device_->deallocate_pinned(in_host, in_bytes);
  }

  // Verdicts and bytes must equal the CPU codec's, except for containers left to the CPU; returns how many of those
  // there are.
  int compare(const codec::StreamCoder& codec, const std::vector<Bytes>& encoded, std::size_t capacity,
              std::size_t off) {
    Results got;
    decode(codec, encoded, capacity, true, off, got);
    if (HasFatalFailure()) return -1;
    Decoder on_cpu(codec);
    int host_only = 0;
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      if (got.outcomes[i].host_only()) {
        ++host_only;
        continue;
      }
      const Decoded want = on_cpu(encoded[i], capacity);
      EXPECT_EQ(got.outcomes[i].ok(), want.status.ok())
          << i << ": " << decode_reason_text(got.outcomes[i].reason()) << ", CPU: " << want.status.to_string();
      if (want.status.ok()) EXPECT_TRUE(got.bytes[i] == want.bytes) << i;
      if (HasFailure()) break;
    }
    return host_only;
  }

  std::shared_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> event_;
};

constexpr const char* kInner[] = {"blosclz", "lz4", "lz4hc", "snappy"};

TEST_F(BloscGpu, SameBytesAsTheCpu) {
  const auto codec = make("numcodecs.blosc");
  for (const std::size_t capacity : {1, 127, 1000, 10'007, 200'003, 1'500'004}) {
    for (const std::size_t off : {0, 1, 4}) {
      std::vector<Bytes> containers;
      unsigned turn = 0;
      for (const std::size_t item : {1, 2, 3, 4, 7, 8, 12, 16, 17, 255}) {
        for (int shuffle = 0; shuffle <= 2; ++shuffle) {
          const Content content = turn % 3 == 0 ? Content::kRandom : turn % 3 == 1 ? Content::kSmooth : Content::kText;
          const Bytes plain = sample(capacity, content, turn);
          containers.push_back(compress(plain, kInner[turn % 4], shuffle, item, 0, turn % 7 == 0 ? 0 : 5));
          ++turn;
        }
      }
      EXPECT_LE(compare(*codec, containers, capacity, off), capacity <= 127 ? 30 : 0) << capacity;
      if (HasFailure()) return;
    }
  }
}

TEST_F(BloscGpu, SmallBlocks) {
  const auto codec = make("numcodecs.blosc");
  blosc_set_splitmode(BLOSC_NEVER_SPLIT);
  std::vector<Bytes> containers;
  for (const std::size_t item : {1, 2, 3, 4, 8, 16, 24}) {
    for (const std::size_t block : {512, 2048, 30'000}) {
      for (int shuffle = 0; shuffle <= 2; ++shuffle) {
        containers.push_back(
            compress(sample(100'001, Content::kSmooth, unsigned(item)), kInner[item % 4], shuffle, item, block));
      }
    }
  }
  blosc_set_splitmode(BLOSC_FORWARD_COMPAT_SPLIT);
  EXPECT_LE(compare(*codec, containers, 100'001, 0), 21);
}

// Thousands of containers, every eighth of them damaged; the others must decode exactly.
TEST_F(BloscGpu, DamagedAmongManyGoodOnes) {
  const auto codec = make("numcodecs.blosc");
  constexpr std::size_t kBytes = 4000;
  std::mt19937 rng(3);
  for (int round = 0; round < 3; ++round) {
    std::vector<Bytes> containers;
    for (unsigned i = 0; i < 4000; ++i) {
      Bytes container = compress(sample(kBytes, i % 2 == 0 ? Content::kText : Content::kSmooth, i % 50),
                                 kInner[rng() % 4], int(rng() % 3), 1 + rng() % 9, rng() % 2 == 0 ? 0 : 1024);
      if (i % 8 == 0) {
        for (unsigned flips = 0; flips < 1 + i % 3; ++flips) {
          const std::size_t at = rng() % (rng() % 2 == 0 ? 32 : container.size());
          container[at] = static_cast<std::byte>(rng());
        }
        if (rng() % 4 == 0) container.resize(rng() % container.size());
      }
      containers.push_back(std::move(container));
    }
    EXPECT_LT(compare(*codec, containers, kBytes, 0), 200);
    if (HasFailure()) return;
  }
}

TEST_F(BloscGpu, LeftToTheCpu) {
  const auto codec = make("numcodecs.blosc");
  const Bytes plain = sample(10'000, Content::kSmooth);
  Results got;
  decode(*codec, {compress(plain, "zstd", 1, 4), compress(plain, "lz4", 1, 4), compress(plain, "zlib", 2, 4)}, 10'000,
         true, 0, got);
  ASSERT_EQ(got.outcomes.size(), 3u);
  EXPECT_TRUE(got.outcomes[0].host_only());
  EXPECT_TRUE(got.outcomes[1].ok() && got.bytes[1] == plain);
  EXPECT_TRUE(got.outcomes[2].host_only());
}

TEST_F(BloscGpu, ShuffledChunks) {
  for (const std::size_t width : {0, 1, 2, 3, 4, 8, 16, 255}) {
    const auto codec = make("numcodecs.shuffle", R"({"elementsize":)" + std::to_string(width) + "}");
    const std::size_t unit = std::max<std::size_t>(width, 1);
    for (const std::size_t items : {1, 31, 1000, 70'001}) {
      std::vector<Bytes> chunks;
      for (unsigned i = 0; i < 40; ++i) chunks.push_back(sample(items * unit, Content::kRandom, i));
      chunks.push_back(sample(items * unit - 1, Content::kRandom));
      chunks.emplace_back();
      for (const std::size_t off : {0, 3, 8}) {
        EXPECT_EQ(compare(*codec, chunks, items * unit, off), 0);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace headrace::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (auto opened = headrace::device::open_device("cuda"); !opened.ok()) {
    std::printf("skipped: %s\n", opened.status().to_string().c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
