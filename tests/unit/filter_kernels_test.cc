// The GPU's filters and checksums, whose source runs on the CPU here, match the codecs: the same bytes, the same
// verdict on damaged streams, and no access outside the buffers.
// clang-format off: gives the device code its keywords
#include "support/cuda_on_cpu.h"
// clang-format on

#include <random>

#include "base/json.h"
#include "codec/checksum_codec.h"
#include "codecs/astype/element_device.cuh"
#include "codecs/crc32c/checksum_device.cuh"
#include "codecs/delta/delta_device.cuh"
#include "codecs/packbits/packbits_device.cuh"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

using device::DecodeOutcome;
using device::DecodeReason;

constexpr unsigned kStage = 5;
constexpr std::uint64_t kBad = DecodeOutcome::pack(1, 0, DecodeReason::kHeader);

constexpr codec::gpu::CrcTables kTables[2] = {codec::gpu::make_crc_tables(codec::gpu::kCrc32cPolynomial),
                                              codec::gpu::make_crc_tables(codec::gpu::kCrc32Polynomial)};

// Calls body.operator()<kind>().
template <class Body>
void with_kind(codec::gpu::Checksum kind, const Body& body) {
  using codec::gpu::Checksum;
  switch (kind) {
    case Checksum::kCrc32c:
      return body.template operator()<Checksum::kCrc32c>();
    case Checksum::kCrc32:
      return body.template operator()<Checksum::kCrc32>();
    case Checksum::kAdler32:
      return body.template operator()<Checksum::kAdler32>();
    case Checksum::kFletcher32:
      return body.template operator()<Checksum::kFletcher32>();
  }
}

// One stream of a batch, at any distance from its guard pages.
struct Item {
  Bytes stored;
  std::size_t skew_src = 0, skew_dst = 0;
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  unsigned operator()() { return static_cast<unsigned>(engine_()); }

 private:
  std::mt19937 engine_;
};

template <class Job>
void fill_in(Job& job, std::vector<device::gpu::Chunk>& chunks, std::vector<std::uint64_t>& outcomes,
             const device::DecodeStage& stage) {
  job.exact = stage.exact;
  job.capacity_bytes = stage.capacity_bytes;
  job.chunks = static_cast<std::uint32_t>(chunks.size());
  job.list = chunks.data();
  job.outcomes = outcomes.data();
  job.stage = kStage;
}

void launch_stage(const device::DecodeStage& stage, std::vector<device::gpu::Chunk>& chunks,
                  std::vector<std::uint64_t>& outcomes, std::uint64_t largest) {
  namespace gpu = codec::gpu;
  const auto tiles_of = [](std::uint64_t count, std::uint64_t tile) {
    return std::max<std::uint64_t>(1, (count + tile - 1) / tile);
  };
  const codec::ElementFilter op = codec::ElementFilter::unpack(stage.parameters.data());
  if (stage.codec == "delta") {
    gpu::DeltaJob job;
    fill_in(job, chunks, outcomes, stage);
    job.stored = op.stored;
    job.decoded = op.decoded;
    job.tiles = tiles_of(
        std::min(largest / width_bytes(op.stored.number), stage.capacity_bytes / width_bytes(op.decoded.number)),
        gpu::kDeltaTile);
    std::vector<std::uint64_t> sums(chunks.size() * job.tiles, 0xEEEEEEEEEEEEEEEE);
    job.sums = sums.data();
    static gpu::DeltaShared shared;
    testing::gpu::launch(3, gpu::kDeltaThreads, [&] { gpu::delta_tiles_body(job, false, shared); });
    testing::gpu::launch(job.chunks, gpu::kDeltaThreads, [&] { gpu::delta_carry_body(job, shared); });
    testing::gpu::launch(3, gpu::kDeltaThreads, [&] { gpu::delta_tiles_body(job, true, shared); });
  } else if (stage.codec == "packbits") {
    gpu::PackbitsJob job;
    fill_in(job, chunks, outcomes, stage);
    job.tiles = tiles_of(std::min(largest, stage.capacity_bytes / 8 + 1), gpu::kPackbitsTile);
    testing::gpu::launch(3, gpu::kPackbitsThreads, [&] { gpu::packbits_body(job); });
  } else if (stage.codec.starts_with("crc") || stage.codec.ends_with("32")) {
    gpu::ChecksumJob job;
    fill_in(job, chunks, outcomes, stage);
    job.kind = static_cast<gpu::Checksum>(stage.parameters[0]);
    job.at_start = stage.parameters[1] != 0;
    job.tables = job.kind == gpu::Checksum::kCrc32c  ? &kTables[0]
                 : job.kind == gpu::Checksum::kCrc32 ? &kTables[1]
                                                     : nullptr;
    job.segment_bytes = largest % 2 == 0 ? gpu::kMinSegmentBytes : gpu::kMaxSegmentBytes;
    job.segments = static_cast<std::uint32_t>(tiles_of(std::min(largest, stage.capacity_bytes), job.segment_bytes));
    std::vector<uint2> partials(chunks.size() * job.segments, make_uint2(0xEEEEEEEE, 0xEEEEEEEE));
    job.partials = partials.data();
    with_kind(job.kind, [&]<gpu::Checksum kKind>() {
      static gpu::ChecksumShared shared;
      testing::gpu::launch(3, gpu::kChecksumThreads, [&] { gpu::checksum_segments_body<kKind>(job, shared); });
      if (largest / 2 % 2 == 0) {
        testing::gpu::launch(job.chunks, gpu::kChecksumThreads,
                             [&] { gpu::checksum_verdict_body<kKind, true>(job, shared); });
      } else {
        testing::gpu::launch((job.chunks + gpu::kChecksumWarps - 1) / gpu::kChecksumWarps, gpu::kChecksumThreads,
                             [&] { gpu::checksum_verdict_body<kKind, false>(job, shared); });
      }
    });
  } else {
    gpu::ElementJob job;
    fill_in(job, chunks, outcomes, stage);
    job.op = op;
    job.tiles = tiles_of(
        std::min(largest / width_bytes(op.stored.number), stage.capacity_bytes / width_bytes(op.decoded.number)),
        gpu::kElementTile);
    testing::gpu::launch(3, gpu::kElementThreads, [&] { gpu::elements_body(job); });
  }
}

// Decodes the batch with the device code and each stream with the codec; both must agree.
void compare(const codec::StreamCoder& codec, const std::vector<Item>& items, std::size_t capacity, bool exact,
             std::size_t bad_before = SIZE_MAX) {
  device::DecodeStage stage;
  stage.capacity_bytes = capacity;
  stage.exact = exact;
  ASSERT_TRUE(codec.describe_for_device(stage));
  EXPECT_EQ(stage.codec, codec.name());
  std::vector<std::unique_ptr<GuardBuffer>> in, out;
  std::vector<device::gpu::Chunk> chunks;
  std::vector<std::uint64_t> outcomes(items.size(), DecodeOutcome::kOk);
  std::uint64_t largest = 0;
  constexpr std::byte kOld{0x5A};
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    in.push_back(std::make_unique<GuardBuffer>(item.stored.size() + item.skew_src, Flush::kRight));
    out.push_back(std::make_unique<GuardBuffer>(capacity + item.skew_dst, Flush::kRight));
    std::fill_n(out[i]->data(), out[i]->size(), kOld);
    std::copy(item.stored.begin(), item.stored.end(), in[i]->data());
    chunks.push_back({reinterpret_cast<const unsigned char*>(in[i]->data()),
                      reinterpret_cast<unsigned char*>(out[i]->data()), item.stored.size(), capacity});
    largest = std::max<std::uint64_t>(largest, item.stored.size());
    if (i == bad_before) outcomes[i] = kBad;
  }
  launch_stage(stage, chunks, outcomes, largest);
  for (std::size_t i = 0; i < items.size(); ++i) {
    SCOPED_TRACE("stream " + std::to_string(i) + " of " + std::to_string(items[i].stored.size()) + " bytes");
    EXPECT_TRUE(in[i]->intact() && out[i]->intact());
    EXPECT_TRUE(std::equal(items[i].stored.begin(), items[i].stored.end(), in[i]->data()));
    if (i == bad_before) {
      EXPECT_EQ(outcomes[i], kBad);
      EXPECT_TRUE(std::all_of(out[i]->data(), out[i]->data() + capacity, [&](std::byte b) { return b == kOld; }));
      continue;
    }
    const Decoded expected = Decoder(codec)(items[i].stored, capacity, exact);
    const DecodeOutcome outcome{outcomes[i]};
    ASSERT_EQ(outcome.ok(), expected.status.ok()) << expected.status.to_string();
    if (!outcome.ok()) {
      EXPECT_EQ(outcome.stage(), kStage);
      EXPECT_NE(outcome.reason(), DecodeReason::kNone);
      EXPECT_LE(outcome.position(), items[i].stored.size());
      const bool says_checksum = expected.status.message().find("checksum mismatch") != std::string::npos;
      EXPECT_EQ(outcome.reason() == DecodeReason::kChecksum, says_checksum);
      continue;
    }
    ASSERT_EQ(chunks[i].dst_bytes, expected.bytes.size());
    ASSERT_TRUE(std::equal(expected.bytes.begin(), expected.bytes.end(), out[i]->data()));
    EXPECT_TRUE(std::all_of(out[i]->data() + expected.bytes.size(), out[i]->data() + out[i]->size(), [&](std::byte b) {
      return b == kOld;
    })) << "wrote behind its output";
  }
}

constexpr const char* kTypes[] = {"|b1", "|i1", ">i2", "<i4", "<i8", "|u1", "<u2", ">u4", ">u8", ">f2", "<f4", "<f8"};

// Tries alignments of both sides, an earlier bad chunk, wrong sizes, and a batch in which some chunks are shorter than
// allowed.
void compare_filter(const codec::StreamCoder& codec, std::size_t count, Random& random) {
  std::size_t width = 1;
  while (!codec.encoded_size(width).exact) width *= 2;
  ASSERT_TRUE(codec.encoded_size(count * width).exact);
  const std::uint64_t one = codec.encoded_size(width).most, stored = codec.encoded_size(count * width).most;
  std::vector<Item> items;
  for (std::size_t i = 0; i < 6; ++i) {
    Item item{sample(stored, i % 2 == 0 ? Content::kRandom : Content::kSmooth, random()), random() % 9, random() % 9};
    if (codec.name() == "packbits") item.stored[0] = static_cast<std::byte>((8 - count % 8) % 8);
    items.push_back(std::move(item));
  }
  items[4].stored.resize(stored - 1);
  items.push_back({Bytes(stored + one), 0, 0});
  items.push_back({Bytes(), 0, 0});
  compare(codec, items, count * width, true, 2);
  compare(codec, items, count * width, false, 1);
}

TEST(FilterKernels, EveryPairOfTypes) {
  Random random(3);
  for (const std::string stored : kTypes) {
    for (const std::string decoded : kTypes) {
      SCOPED_TRACE(stored + " to " + decoded);
      compare_filter(*make("astype", R"({"encode_dtype":")" + stored + R"(","decode_dtype":")" + decoded + "\"}", 2),
                     37, random);
      compare_filter(*make("fixedscaleoffset",
                           R"({"scale":0.1,"offset":7,"astype":")" + stored + R"(","dtype":")" + decoded + "\"}", 2),
                     37, random);
    }
  }
  compare_filter(*make("quantize", R"({"digits":1,"dtype":"<f8","astype":"<f2"})", 2), 5000, random);
  compare_filter(*make("astype", R"({"encode_dtype":"<i2","decode_dtype":"<f4"})", 2), 9000, random);
}

TEST(FilterKernels, WhatDoesNotFitIsLeftToTheCpu) {
  Random random(4);
  for (const char* type : {"int8", "uint16", "float32"}) {
    const DataType dtype = numeric_type(type);
    codec::CodecArgs context;
    context.dtype = &dtype;
    for (const char* config : {R"({"data_type":"float64","out_of_range":"clamp"})", R"({"data_type":"int16"})"}) {
      const auto codec = codec::make_codec("cast_value", *base::parse_json(config), context);
      ASSERT_TRUE(codec.ok());
      compare_filter(*codec->coder(), 100, random);
    }
    const auto scale = codec::make_codec("scale_offset", *base::parse_json(R"({"scale":3,"offset":1})"), context);
    ASSERT_TRUE(scale.ok());
    compare_filter(*scale->coder(), 100, random);
  }
}

TEST(FilterKernels, DeltaOfIntegers) {
  Random random(5);
  unsigned described = 0;
  for (const std::string stored : kTypes) {
    for (const std::string decoded : kTypes) {
      SCOPED_TRACE(stored + " to " + decoded);
      const auto codec = make("delta", R"({"astype":")" + stored + R"(","dtype":")" + decoded + "\"}", 2);
      if (!codec.codec().has_device_code()) continue;
      ++described;
      compare_filter(*codec, 50, random);
    }
  }
  EXPECT_EQ(described, 9u * 8 - 8) << "integers, or bools to integers, but for signed and uint64";
  const auto codec = make("delta", R"({"dtype":"<i4"})", 2);
  for (const std::size_t count : {codec::gpu::kDeltaTile - 1, codec::gpu::kDeltaTile, codec::gpu::kDeltaTile + 1,
                                  5 * codec::gpu::kDeltaTile + 77}) {
    compare_filter(*codec, count, random);
  }
  // More tiles than a block has threads.
  compare(*make("delta", R"({"dtype":"|u1"})", 2),
          {{sample(300 * codec::gpu::kDeltaTile + 3, Content::kRandom, 9), 0, 1}}, 300 * codec::gpu::kDeltaTile + 3,
          true);
}

TEST(FilterKernels, Packbits) {
  Random random(6);
  const auto codec = make("packbits", "{}", 2);
  for (const std::size_t count : {1, 7, 8, 9, 100, 16384, 16385, 40000}) compare_filter(*codec, count, random);
  std::vector<Item> items;
  for (const char* stored : {"\x08\x90", "\x01", "\xc8\x01", "\x04\x90", "\x07\x80"})
    items.push_back({to_bytes(stored), 0, 0});
  compare(*codec, items, 8, false);
}

TEST(FilterKernels, Checksums) {
  Random random(7);
  for (const char* name : {"crc32c", "crc32", "adler32", "fletcher32"}) {
    for (const char* location : {"start", "end"}) {
      if (name == std::string("fletcher32") && location == std::string("start")) continue;
      SCOPED_TRACE(std::string(name) + " at the " + location);
      const auto codec = make(name, R"({"location":")" + std::string(location) + "\"}", 2);
      const auto encoder = codec->make_encoder();
      ASSERT_TRUE(encoder.ok());
      for (const std::size_t bytes : {1, 2, 3, 4, 5, 1023, 1024, 1025, 65535, 65536, 65537, 140001}) {
        std::vector<Item> items;
        const auto add = [&](const Bytes& plain) -> Bytes& {
          Bytes stored((*encoder)->bound_bytes(plain.size()));
          EXPECT_TRUE((*encoder)->encode(plain, stored).ok());
          items.push_back({stored, random() % 5, random() % 5});
          return items.back().stored;
        };
        add(sample(bytes, Content::kRandom, random()));
        add(Bytes(bytes, std::byte{0xFF}));
        add(Bytes(bytes));
        Bytes& flipped = add(sample(bytes, Content::kRandom, random()));
        flipped[random() % flipped.size()] ^= std::byte{1} << (random() % 8);
        add(sample(bytes, Content::kText)).pop_back();
        add(sample(bytes, Content::kText)).push_back(std::byte{0});
        add(sample(bytes, Content::kText));
        items.push_back({Bytes(3), 0, 0});
        compare(*codec, items, bytes, true, 6);
        compare(*codec, items, bytes + 2, false, 0);
      }
    }
  }
}

// The sums that sum_by_warp() and sum_by_block() must give, computed byte by byte.
uint2 plain_sums(codec::gpu::Checksum kind, const Bytes& bytes) {
  using codec::gpu::Checksum;
  std::uint64_t first = 0, second = 0;
  if (kind == Checksum::kCrc32c || kind == Checksum::kCrc32) {
    const std::uint32_t polynomial = kTables[kind == Checksum::kCrc32c ? 0 : 1].polynomial;
    std::uint32_t state = 0;
    for (const std::byte byte : bytes) {
      state ^= std::to_integer<std::uint32_t>(byte);
      for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? polynomial : 0);
    }
    return make_uint2(state, 0);
  }
  const std::size_t step = kind == Checksum::kAdler32 ? 1 : 2;
  for (std::size_t i = 0; i < bytes.size(); i += step) {
    std::uint32_t value = std::to_integer<std::uint32_t>(bytes[i]);
    if (step == 2) value = value << 8 | (i + 1 < bytes.size() ? std::to_integer<std::uint32_t>(bytes[i + 1]) : 0);
    first += value;
    second += first;
  }
  return make_uint2(codec::gpu::checksum::reduce(kind, first), codec::gpu::checksum::reduce(kind, second));
}

// Sums with and without a copy, for all lengths near multiples of a row, at every offset in a word, next to either
// guard page.
TEST(FilterKernels, SumsOfBytesWhereverTheyLie) {
  using codec::gpu::Checksum;
  namespace checksum = codec::gpu::checksum;
  static codec::gpu::ChecksumShared shared;
  std::vector<std::size_t> lengths;
  for (std::size_t length = 0; length < 12; ++length) lengths.push_back(length);
  // Rows of a warp around its batches of 8 and turns of 32; eight times as many for a thread block's warps.
  for (const std::size_t rows : {1, 3, 8, 10, 24, 31, 32, 33, 40, 64, 65, 107, 256, 520}) {
    const std::size_t around = rows * codec::gpu::kChecksumRowBytes;
    for (std::size_t length = around - 4; length <= around + 8; ++length) lengths.push_back(length);
  }
  lengths.insert(lengths.end(), {65535, 65536, 131072});
  constexpr std::byte kOld{0x5A};
  for (const Checksum kind : {Checksum::kCrc32c, Checksum::kCrc32, Checksum::kAdler32, Checksum::kFletcher32}) {
    const codec::gpu::CrcTables& tables = kTables[kind == Checksum::kCrc32c ? 0 : 1];
    for (const std::size_t length : lengths) {
      const Bytes content = length % 3 == 0 ? Bytes(length, std::byte{0xFF})
                                            : sample(length, Content::kRandom, static_cast<unsigned>(length));
      const uint2 want = plain_sums(kind, content);
      for (unsigned skews = 0; skews < 16; ++skews) {
        if (length > 9'000 && skews % 5 != 0 && skews % 4 != 3) continue;
        const Flush flush = (length + skews) % 2 == 0 ? Flush::kLeft : Flush::kRight;
        // Flush left, the bytes begin at `skew`; flush right, they end `skew` bytes before the guard page.
        const std::size_t skew_src = skews % 4, skew_dst = skews / 4;
        GuardBuffer in(length + skew_src, flush), out(length + skew_dst, flush);
        std::byte* const src = in.data() + (flush == Flush::kLeft ? skew_src : 0);
        std::byte* const dst = out.data() + (flush == Flush::kLeft ? skew_dst : 0);
        std::copy(content.begin(), content.end(), src);
        std::fill_n(out.data(), out.size(), kOld);
        Bytes again(length + 1, kOld);
        uint2 copied = make_uint2(1, 1), summed = copied, copied_by_block = copied, summed_by_block = copied;
        testing::gpu::launch(1, codec::gpu::kChecksumThreads, [&] {
          checksum::load_tables(tables, shared);
          const auto* const from = reinterpret_cast<const unsigned char*>(src);
          const auto bytes = static_cast<std::uint32_t>(length);
          auto* const to = reinterpret_cast<unsigned char*>(dst);
          with_kind(kind, [&]<Checksum kKind>() {
            if (threadIdx.x < 32) {
              const uint2 by_warp = checksum::sum_by_warp<kKind, true>(&tables, shared, from, bytes, to);
              const uint2 read_only = checksum::sum_by_warp<kKind, false>(&tables, shared, from, bytes, nullptr);
              if (threadIdx.x == 0) copied = by_warp;
              if (threadIdx.x == 0) summed = read_only;
            }
            __syncthreads();
            if (threadIdx.x == 0) std::fill_n(again.data(), length, kOld);
            __syncthreads();
            auto* const second_to = reinterpret_cast<unsigned char*>(again.data());
            if constexpr (kKind != Checksum::kFletcher32) {
              const uint2 by_block = checksum::sum_by_block<kKind, true>(&tables, shared, from, bytes, second_to);
              const uint2 read_only = checksum::sum_by_block<kKind, false>(&tables, shared, from, bytes, nullptr);
              if (threadIdx.x == 0) copied_by_block = by_block;
              if (threadIdx.x == 0) summed_by_block = read_only;
            }
          });
        });
        const auto what = [&] {
          return std::to_string(static_cast<int>(kind)) + ' ' + std::to_string(length) + ' ' + std::to_string(skews);
        };
        ASSERT_TRUE(copied.x == want.x && copied.y == want.y) << what();
        ASSERT_TRUE(summed.x == want.x && summed.y == want.y) << what();
        if (kind != Checksum::kFletcher32) {
          ASSERT_TRUE(copied_by_block.x == want.x && copied_by_block.y == want.y) << what();
          ASSERT_TRUE(summed_by_block.x == want.x && summed_by_block.y == want.y) << what();
          ASSERT_TRUE(std::equal(content.begin(), content.end(), again.begin()) && again.back() == kOld) << what();
        }
        ASSERT_TRUE(std::equal(content.begin(), content.end(), dst)) << what();
        ASSERT_TRUE(in.intact() && out.intact()) << what();
        ASSERT_EQ(std::count(out.data(), dst, kOld), dst - out.data()) << what();
        ASSERT_EQ(std::count(dst + length, out.data() + out.size(), kOld), out.data() + out.size() - (dst + length))
            << what();
      }
    }
  }
}

// Scratch is reserved for the largest batch; smaller ones have shorter segments, but never more of them than it holds.
TEST(FilterKernels, ScratchForChecksumsHoldsEveryBatch) {
  namespace gpu = codec::gpu;
  for (std::uint64_t bytes = 0; bytes < std::uint64_t{1} << 39; bytes = bytes * 5 / 3 + 4093) {
    for (const std::uint64_t shorter : {bytes, bytes / 2, bytes / 7, std::uint64_t{1}}) {
      for (const std::uint64_t chunks : {1, 2, 7, 100, 5000, 1 << 20}) {
        const std::uint64_t length = gpu::segment_bytes(shorter, chunks, 132);
        EXPECT_LE(gpu::segment_count(shorter, length), gpu::max_segments(bytes)) << bytes << ' ' << chunks;
        EXPECT_TRUE(length >= gpu::kMinSegmentBytes && length <= gpu::kMaxSegmentBytes);
      }
    }
  }
  EXPECT_EQ(gpu::segment_bytes(64 << 20, 1, 132), 16u << 10) << "one chunk is shared by many warps";
  EXPECT_EQ(gpu::segment_bytes(64 << 10, 10000, 132), 64u << 10) << "many chunks have long segments";
}

// Positive control: a wrong table entry is detected.
TEST(FilterKernels, AWrongTableIsSeen) {
  const codec::gpu::CrcTables& tables = kTables[0];
  EXPECT_EQ(tables.power[0], 0x00800000u) << "x^8";
  EXPECT_EQ(codec::gpu::multiply(std::uint32_t{1} << 31, 12345, tables.polynomial), 12345u) << "one";
  EXPECT_NE(tables.row[3][31], kTables[1].row[3][31]);
}

}  // namespace
}  // namespace headrace::test
