// Decode indices of zstd chunks: an index collected by a first decode lets the next one walk by segments. With any
// other bytes as the index, output and verdicts equal those of a decode without an index.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <random>

#include "codecs/zstd/zstd_index.h"
#include "tests/support/zstd_device_check.h"
#include "tests/support/zstd_writer.h"

namespace headrace::test {
namespace {

using codec::gpu::zstd::IndexEntry;
using codec::gpu::zstd::kIndexEvery;
using device::kIndexBad;
using device::kIndexCollect;
using device::kIndexNone;
using device::kIndexNothing;
using device::kIndexUseless;

class ZstdIndex : public ZstdDeviceTest {
 protected:
  struct Result {
    DecodeOutcome outcome;
    Bytes bytes;
    std::uint32_t word;
    Bytes index;
  };
  // Decodes one chunk with an index, or with a status word in its place.
  Result decode(const Bytes& stream, std::size_t capacity, std::uint32_t word, const Bytes& index = {}) {
    const Flush flush = ++turn_ % 2 == 0 ? Flush::kLeft : Flush::kRight;
    GuardBuffer in(stream, flush), out(capacity, flush);
    ZstdOnCpu::Item item{{in.data(), in.size()}, out.span(), {}, 0, word, index};
    gpu_.walks = turn_ % 3 == 0 ? 1 : turn_ % 3 == 1 ? 4 : 8;
    gpu_.blocks = 1 + turn_ % 4;
    gpu_.last_blocks.clear();
    gpu_.decode({&item, 1}, true);
    EXPECT_TRUE(out.intact());
    Result result{item.outcome, {}, item.index_word, item.index};
    if (item.outcome.ok()) result.bytes.assign(out.data(), out.data() + item.produced);
    return result;
  }
  Result decode_with(const Bytes& stream, std::size_t capacity, const Bytes& index) {
    return decode(stream, capacity, static_cast<std::uint32_t>(index.size()), index);
  }
  std::uint32_t entries_of_last() const {
    std::uint32_t count = 0;
    for (const auto& block : gpu_.last_blocks) count += codec::gpu::zstd::index_entries(block.sequences);
    return count;
  }
  // For a good stream whose given index is bad.
  void expect_exact_and_reported(const Bytes& stream, const Bytes& plain, const Bytes& index, const std::string& what) {
    const Result got = decode_with(stream, plain.size(), index);
    EXPECT_TRUE(got.outcome.ok()) << what << ": " << decode_reason_text(got.outcome.reason());
    EXPECT_TRUE(got.bytes == plain) << what;
    EXPECT_EQ(got.word, kIndexBad) << what;
    EXPECT_GT(gpu_.rest, 0u) << what;
  }
};

Bytes entry_bytes(const IndexEntry& entry) {
  Bytes out(sizeof(entry));
  std::memcpy(out.data(), &entry, sizeof(entry));
  return out;
}
void set_entry(Bytes& index, std::size_t i, const IndexEntry& entry) {
  std::memcpy(index.data() + i * sizeof(entry), &entry, sizeof(entry));
}
IndexEntry entry(const Bytes& index, std::size_t i) {
  IndexEntry out{};
  std::memcpy(&out, index.data() + i * sizeof(out), sizeof(out));
  return out;
}

TEST_F(ZstdIndex, CollectedByOneDecodeServesTheNext) {
  for (const int level : {1, 3, 19}) {
    for (const bool planes : {false, true}) {
      const Bytes plain = float_field(200'000, static_cast<unsigned>(level), planes);
      const Bytes stream = compress(plain, {.level = level, .checksum = level == 3});
      const Result first = decode(stream, plain.size(), kIndexCollect);
      ASSERT_TRUE(first.outcome.ok());
      EXPECT_TRUE(first.bytes == plain);
      ASSERT_GT(entries_of_last(), 1u) << level << planes;
      ASSERT_EQ(first.word, entries_of_last() * sizeof(IndexEntry));
      ASSERT_LE(first.word, codec::gpu::zstd::max_index_bytes(plain.size()));
      for (int i = 0; i < 3; ++i) {
        const Result second = decode_with(stream, plain.size(), first.index);
        EXPECT_TRUE(second.outcome.ok());
        EXPECT_TRUE(second.bytes == plain) << level << planes;
        EXPECT_EQ(second.word, kIndexNothing);
        EXPECT_EQ(gpu_.rest, 0u) << "a block was not walked by its index";
      }
      EXPECT_TRUE(decode(stream, plain.size(), kIndexCollect).index == first.index) << "each decode collects the same";
      const auto made = codec::make_zstd_index(stream);
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      EXPECT_TRUE(*made == first.index) << "the CPU makes the same";
    }
  }
}

// Blocks of exactly a multiple of kIndexEvery sequences, and one more or less.
TEST_F(ZstdIndex, EntriesLieBetweenSegmentsOnly) {
  EXPECT_EQ(codec::gpu::zstd::index_entries(0), 0u);
  EXPECT_EQ(codec::gpu::zstd::index_entries(kIndexEvery), 0u);
  EXPECT_EQ(codec::gpu::zstd::index_entries(kIndexEvery + 1), 1u);
  EXPECT_EQ(codec::gpu::zstd::index_entries(2 * kIndexEvery), 1u);
  std::uint32_t multiples = 0, useless = 0;
  std::vector<std::size_t> sizes;
  for (const std::size_t around : {5 * kIndexEvery, 10 * kIndexEvery}) {  // a sequence is five bytes
    for (std::size_t bytes = around - 70; bytes < around + 230; bytes += 3) sizes.push_back(bytes);
  }
  for (const std::size_t bytes : sizes) {
    // Alternates matches of four bytes and random bytes.
    std::mt19937 rng(4);
    Bytes plain;
    while (plain.size() < bytes) {
      plain = plain + little_endian(rng() % 40 * 2654435761u & 0xFFFFFFFF, 4) + little_endian(rng() % 256, 1);
    }
    plain.resize(bytes);
    const Bytes stream = compress(plain, {.level = 5});
    const Result first = decode(stream, bytes, kIndexCollect);
    ASSERT_TRUE(first.outcome.ok() && first.bytes == plain);
    for (const auto& block : gpu_.last_blocks) multiples += block.sequences != 0 && block.sequences % kIndexEvery == 0;
    if (entries_of_last() == 0) {
      ++useless;
      ASSERT_EQ(first.word, kIndexUseless);
      continue;
    }
    ASSERT_EQ(first.word, entries_of_last() * sizeof(IndexEntry));
    const Result second = decode_with(stream, bytes, first.index);
    ASSERT_TRUE(second.outcome.ok() && second.bytes == plain) << bytes;
    ASSERT_EQ(second.word, kIndexNothing);
    ASSERT_EQ(gpu_.rest, 0u);
    ASSERT_TRUE(codec::make_zstd_index(stream).value() == first.index);
  }
  EXPECT_GT(multiples, 1u) << "no block of a multiple of what lies between entries";
  EXPECT_GT(useless, 0u);
  EXPECT_LT(useless, sizes.size() / 2 + 40);
}

TEST_F(ZstdIndex, OutputIsExactForAnyIndex) {
  const Bytes plain = float_field(80'000, 1, false), stream = compress(plain, {.level = 3});
  const Bytes other_plain = float_field(80'000, 2, false), other = compress(other_plain, {.level = 3});
  const Bytes index = decode(stream, plain.size(), kIndexCollect).index;
  const Bytes others = decode(other, plain.size(), kIndexCollect).index;
  const std::size_t count = index.size() / sizeof(IndexEntry);
  ASSERT_GE(count, 6u);
  const auto reported = [&](const Bytes& given, const std::string& what) {
    expect_exact_and_reported(stream, plain, given, what);
  };
  Bytes bad = others;
  bad.resize(index.size());
  reported(bad, "of another chunk");
  reported(Bytes(index.size(), std::byte{0}), "zeros");
  reported(Bytes(index.size(), std::byte{0xFF}), "ones");
  bad.assign(index.begin() + sizeof(IndexEntry), index.end());
  reported(bad, "one entry too few");
  reported(bad + entry_bytes(entry(index, 0)), "shifted by an entry");
  reported(index + entry_bytes(entry(index, 0)), "one entry too many");
  reported(Bytes(index.begin(), index.begin() + 4), "half an entry");
  bad.assign(index.begin() + 1, index.end());
  bad.push_back(index[0]);
  reported(bad, "shifted by a byte");
  std::mt19937 rng(3);
  for (int i = 0; i < 20; ++i) {
    for (std::byte& b : bad) b = static_cast<std::byte>(rng());
    reported(bad, "random");
    // In range, as far as that can be checked without the chunk.
    for (std::size_t k = 0; k < count; ++k) {
      set_entry(bad, k, {static_cast<std::uint32_t>(rng() % 200'000), static_cast<std::uint32_t>(rng() & 0x1FFFFFF)});
    }
    reported(bad, "random positions and states");
  }
  // Flips each bit of some entries: the first, the last and one in the middle.
  for (const std::size_t k : {std::size_t{0}, count / 2, count - 1}) {
    for (unsigned bit = 0; bit < 64; bit += k == 0 ? 1 : 5) {
      bad = index;
      bad[k * sizeof(IndexEntry) + bit / 8] ^= std::byte{1} << bit % 8;
      reported(bad, "entry " + std::to_string(k) + " bit " + std::to_string(bit));
    }
  }
  // Two entries swapped: a segment ends correctly, but no predecessor leads to its beginning.
  bad = index;
  set_entry(bad, 2, entry(index, 3));
  set_entry(bad, 3, entry(index, 2));
  reported(bad, "swapped");
}

// The last segment is short, so other starting positions and states also lead to the correct end.
TEST_F(ZstdIndex, CorrectEndDoesNotValidateWrongStart) {
  int found = 0;
  for (std::size_t bytes = 5000; bytes < 9000 && found < 2; bytes += 1 + bytes % 7) {
    const Bytes plain = float_field(bytes, 78, false), stream = compress(plain, {.level = 5});
    const Result first = decode(stream, bytes, kIndexCollect);
    ASSERT_TRUE(first.outcome.ok());
    if (gpu_.last_blocks.size() != 1) continue;
    const std::uint32_t left = gpu_.last_blocks[0].sequences % kIndexEvery;
    if (first.index.empty() || left == 0 || left > 3) continue;
    ++found;
    const std::size_t last = first.index.size() / sizeof(IndexEntry) - 1;
    const IndexEntry right = entry(first.index, last);
    Bytes bad = first.index;
    const auto try_entry = [&](const IndexEntry& wrong) {
      set_entry(bad, last, wrong);
      expect_exact_and_reported(stream, plain, bad, std::to_string(wrong.at) + ' ' + std::to_string(wrong.states));
    };
    for (std::uint32_t at = 0; at < 2 * right.at + 20; ++at) {
      if (at != right.at) try_entry({at, right.states});
    }
    for (const unsigned shift : {0u, IndexEntry::kOffset, IndexEntry::kMatch}) {
      for (std::uint32_t flip = 1; flip < 64; ++flip) try_entry({right.at, right.states ^ flip << shift});
    }
  }
  EXPECT_GE(found, 2);
}

// Leftover bits are detected only at the end of the last segment, if all before it match.
TEST_F(ZstdIndex, LeftoverBitsAreDetectedWithAnIndex) {
  const Bytes plain = float_field(12'000, 3, false), stream = compress(plain);
  const Result good = decode(stream, plain.size(), kIndexCollect);
  ASSERT_TRUE(good.outcome.ok());
  ASSERT_EQ(gpu_.last_blocks.size(), 1u);
  ASSERT_FALSE(good.index.empty());
  const codec::gpu::zstd::Block block = gpu_.last_blocks[0];
  for (const std::uint32_t more : {1u, 4u, 100u}) {
    Bytes bad = stream;
    bad.insert(bad.begin() + block.bits_at, more, std::byte{0});
    const Bytes header = little_endian((block.bytes + more) << 3 | 5, 3);  // the last block, compressed
    std::copy(header.begin(), header.end(), bad.begin() + block.at - 3);
    Bytes index = good.index;
    for (std::size_t i = 0; i < index.size() / sizeof(IndexEntry); ++i) {
      set_entry(index, i, {entry(index, i).at + 8 * more, entry(index, i).states});
    }
    const Result collected = decode(bad, plain.size(), kIndexCollect);
    EXPECT_TRUE(collected.index == index) << more;
    const Result got = decode_with(bad, plain.size(), index);
    EXPECT_FALSE(got.outcome.ok()) << more;
    EXPECT_EQ(got.outcome.word, collected.outcome.word) << more;
  }
}

// An index of the original chunk must not affect the verdict on the damaged one.
TEST_F(ZstdIndex, DamagedChunksGetTheSameVerdictWithAnIndex) {
  const Bytes plain = float_field(30'000, 4, false), stream = compress(plain, {.level = 3});
  const Bytes index = decode(stream, plain.size(), kIndexCollect).index;
  ASSERT_GE(index.size(), 3 * sizeof(IndexEntry));
  std::mt19937 rng(5);
  int good = 0, bad = 0, bad_with_index = 0;
  for (int i = 0; i < 160; ++i) {
    Bytes damaged = stream;
    damaged[i % 3 == 0 ? rng() % 100 : rng() % damaged.size()] ^= static_cast<std::byte>(1u << rng() % 8);
    if (i % 10 == 9) damaged.resize(rng() % damaged.size());
    const Result want = decode(damaged, plain.size(), kIndexNone);
    const Result got = decode_with(damaged, plain.size(), index);
    ASSERT_EQ(got.outcome.ok(), want.outcome.ok()) << i;
    ASSERT_TRUE(got.bytes == want.bytes) << i;
    ++(want.outcome.ok() ? good : bad);
    // Collecting must not change a verdict either, and the index collected from a good chunk is right.
    const Result collected = decode(damaged, plain.size(), kIndexCollect);
    ASSERT_EQ(collected.outcome.ok(), want.outcome.ok()) << i;
    ASSERT_TRUE(collected.bytes == want.bytes) << i;
    const auto made = codec::make_zstd_index(damaged);
    if (collected.outcome.ok() && made.ok()) {
      ASSERT_TRUE(*made == (collected.word == kIndexUseless ? Bytes() : collected.index)) << i;
    }
    if (collected.word == kIndexNothing || collected.word >= kIndexUseless) continue;
    // For a bad chunk, the index holds what its own walk found; using it must not make the chunk good.
    if (!collected.outcome.ok()) {
      ASSERT_FALSE(decode_with(damaged, plain.size(), collected.index).outcome.ok()) << i;
      ++bad_with_index;
      continue;
    }
    ASSERT_EQ(decode_with(damaged, plain.size(), collected.index).word, kIndexNothing) << i;
  }
  EXPECT_GT(good, 5);
  EXPECT_GT(bad, 60);
  EXPECT_GT(bad_with_index, 30);
}

TEST_F(ZstdIndex, ChunksOfAllKindsInOneBatchAndSeveralRounds) {
  enum Kind { kWith, kWithout, kCollecting, kWrong, kDamaged, kSmall, kKinds };
  constexpr std::size_t kCount = 2 * kKinds + 1;
  std::vector<Bytes> plain, streams, indices;
  for (std::size_t i = 0; i < kCount; ++i) {
    const bool small = i % kKinds == kSmall;
    plain.push_back(float_field(small ? 500 : 160'000 + 9'000 * i, static_cast<unsigned>(i), i % 2 == 0));
    streams.push_back(compress(plain[i], {.level = 1 + static_cast<int>(i % 9), .checksum = i % 2 == 0}));
    indices.push_back(decode(streams[i], plain[i].size(), kIndexCollect).index);
    EXPECT_EQ(indices[i].empty(), small);
    if (i % kKinds == kWrong) indices[i][indices[i].size() / 2] ^= std::byte{1};
    if (i % kKinds == kDamaged) streams[i].resize(streams[i].size() - 3);
  }
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<std::unique_ptr<GuardBuffer>> out;
    std::vector<ZstdOnCpu::Item> items;
    for (std::size_t i = 0; i < kCount; ++i) {
      out.push_back(std::make_unique<GuardBuffer>(plain[i].size(), Flush::kRight));
      const std::size_t kind = i % kKinds;
      const std::uint32_t word = kind == kWithout                            ? kIndexNone
                                 : kind == kCollecting || indices[i].empty() ? kIndexCollect
                                                                             : std::uint32_t(indices[i].size());
      items.push_back({streams[i], out[i]->span(), {}, 0, word, indices[i]});
    }
    gpu_.most_bytes = turn == 0 ? 0 : ~std::uint64_t{0};
    gpu_.walks = turn == 0 ? 1 : turn == 1 ? 4 : 8;
    gpu_.way = static_cast<ZstdOnCpu::Way>(turn);
    gpu_.decode(items, true);
    EXPECT_GE(gpu_.rounds_used, turn == 0 ? 2u : 1u);
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t kind = i % kKinds;
      EXPECT_TRUE(out[i]->intact());
      EXPECT_EQ(items[i].outcome.ok(), kind != kDamaged) << i;
      if (kind == kDamaged) continue;
      EXPECT_TRUE(std::equal(plain[i].begin(), plain[i].end(), out[i]->data())) << i;
      EXPECT_EQ(items[i].index_word, kind == kWrong        ? kIndexBad
                                     : kind == kSmall      ? kIndexUseless
                                     : kind == kCollecting ? indices[i].size()
                                                           : kIndexNothing)
          << i;
      EXPECT_TRUE(items[i].index == indices[i]) << i;
    }
  }
}

// As in Blosc containers: the index of a chunk covers all its streams.
TEST_F(ZstdIndex, SeveralStreamsAChunk) {
  constexpr std::uint32_t kChunks = 4;
  const std::uint32_t chunk_of[] = {0, 0, 0, 1, 2, 2, 3};
  std::vector<Bytes> plain, streams, out;
  std::uint64_t room[kChunks] = {}, all = 0;
  for (unsigned i = 0; i < std::size(chunk_of); ++i) {
    plain.push_back(float_field(40'000 + 11'000 * i, i, i % 2 == 0));
    streams.push_back(compress(plain[i]));
    out.emplace_back(plain[i].size());
    room[chunk_of[i]] += plain[i].size();
    all += plain[i].size();
  }
  const std::uint64_t stride = codec::gpu::zstd::max_index_bytes(*std::max_element(room, room + kChunks));
  std::vector<std::uint64_t> entries(kChunks * stride / 8);
  std::vector<std::uint32_t> given(kChunks, kIndexCollect), made(kChunks);
  gpu_.index = {reinterpret_cast<unsigned char*>(entries.data()), stride, given.data(), made.data(), false};
  const auto decode_all = [&] {
    std::vector<codec::gpu::ZstdStream> list;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      std::fill(out[i].begin(), out[i].end(), std::byte{0x5A});
      list.push_back({reinterpret_cast<const unsigned char*>(streams[i].data()),
                      reinterpret_cast<unsigned char*>(out[i].data()), streams[i].size(), out[i].size(), chunk_of[i],
                      codec::gpu::ZstdKind::kFrames});
    }
    codec::gpu::lz77::StreamLimits limits;
    limits.streams = static_cast<std::uint32_t>(streams.size());
    limits.dst_bytes = all;
    std::vector<std::uint64_t> outcomes(kChunks, DecodeOutcome::kOk);
    made.assign(kChunks, kIndexNothing);
    gpu_.decode_streams(list, limits, true, true, outcomes, 0);
    for (const std::uint64_t outcome : outcomes) EXPECT_EQ(outcome, DecodeOutcome::kOk);
    EXPECT_TRUE(out == plain);
  };
  decode_all();
  given = made;
  for (const std::uint32_t word : made) ASSERT_TRUE(word != kIndexNothing && word < kIndexUseless);
  gpu_.index.any_given = true;
  decode_all();
  EXPECT_TRUE(made == std::vector<std::uint32_t>(kChunks, kIndexNothing));
  EXPECT_EQ(gpu_.rest, 0u);
  entries[2 * stride / 8 + made[2] / 8] ^= 1;  // the third chunk's first entry
  decode_all();
  EXPECT_TRUE(made == (std::vector<std::uint32_t>{kIndexNothing, kIndexNothing, kIndexBad, kIndexNothing}));
  gpu_.index = {};
}

}  // namespace
}  // namespace headrace::test
