// Stored blocks through DEFLATE's device code, run on the CPU between guard pages, against libdeflate: streams that
// have nothing else, whose output is written where it is summed; and those that begin with them and go on with others.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <cstring>

#include "codecs/crc32c/checksum_device.cuh"
#include "codecs/deflate/deflate_stored_device.cuh"
#include "tests/support/deflate_device_check.h"
#include "tests/support/deflate_writer.h"

namespace headrace::test {
namespace {

namespace deflate = codec::gpu::deflate;
using Lengths = std::vector<std::size_t>;

Bytes part_of(const Bytes& bytes, std::size_t from, std::size_t count) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}
void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

// Stored blocks of these lengths, which take all bytes.
Bytes stored_blocks(const Bytes& plain, const Lengths& lengths, bool ends = true) {
  DeflateWriter out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    out.stored(ends && i + 1 == lengths.size(), part_of(plain, at, lengths[i]), static_cast<unsigned>(i));
    at += lengths[i];
  }
  EXPECT_EQ(at, plain.size());
  return out.bytes();
}
std::size_t sum_of(const Lengths& lengths) {
  std::size_t sum = 0;
  for (const std::size_t length : lengths) sum += length;
  return sum;
}
Bytes wrapped(DeflateKind kind, const Bytes& raw, const Bytes& plain) {
  return kind == DeflateKind::kGzip ? in_gzip(raw, plain) : in_zlib(raw, plain);
}

class DeflateStored : public DeflateDeviceTest {
 protected:
  // Both wrappers, on either side of guard pages.
  void expect_right(const Bytes& raw, const Bytes& plain, const std::string& what) {
    for (const DeflateKind kind : {DeflateKind::kGzip, DeflateKind::kZlib}) {
      gpu_.kind = kind;
      EXPECT_TRUE(expect_decoded(wrapped(kind, raw, plain), plain.size(), what) == plain) << what;
    }
  }
  // The stream and its output at these distances from a word's beginning.
  void expect_right_at(const Bytes& stream, const Bytes& plain, std::size_t skew_src, std::size_t skew_dst) {
    constexpr std::byte kOld{0x5A};
    GuardBuffer in(stream.size() + 8, Flush::kLeft), out(plain.size() + 8, Flush::kLeft);
    std::copy(stream.begin(), stream.end(), in.data() + skew_src);
    std::fill_n(out.data(), out.size(), kOld);
    DeflateOnCpu::Item item{{in.data() + skew_src, stream.size()}, {out.data() + skew_dst, plain.size()}, {}, 0};
    gpu_.decode({&item, 1}, true);
    const std::string what =
        std::to_string(plain.size()) + " bytes at " + std::to_string(skew_src) + " to " + std::to_string(skew_dst);
    EXPECT_TRUE(item.outcome.ok()) << what;
    EXPECT_TRUE(std::equal(plain.begin(), plain.end(), out.data() + skew_dst)) << what;
    EXPECT_EQ(std::count(out.data(), out.data() + skew_dst, kOld), skew_dst) << what;
    const std::byte* const behind = out.data() + skew_dst + plain.size();
    EXPECT_EQ(std::count(behind, behind + 8 - skew_dst, kOld), 8 - skew_dst) << what;
  }
};

TEST_F(DeflateStored, BlocksOfEveryLength) {
  constexpr std::size_t kLong = 65535;
  const std::vector<Lengths> all = {
      {0},
      {0, 0, 0},
      {1},
      {5},
      {1, 1, 1, 5, 5, 0, 5, 0, 1},
      {0, 5, 0},
      Lengths(300, 5),
      {1023, 1023, 1024, 1024, 1024, 1025},
      {4091, 4091, 0, 4091, 4096, 4097, 1},
      Lengths(70, 1500),
      {kLong, kLong, kLong, 17},
      {kLong, 0, kLong, 1, kLong},
      {8192, 8192, 8193, 8192, 8192, 5, 8191},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Bytes plain = sample(sum_of(all[i]), Content::kRandom, static_cast<unsigned>(i));
    expect_right(stored_blocks(plain, all[i]), plain, "lengths " + std::to_string(i));
  }
  EXPECT_EQ(host_only_, 0);
}

TEST_F(DeflateStored, WhereverTheyLie) {
  for (const Lengths& lengths :
       {Lengths{1}, Lengths{2, 3}, Lengths{5, 1, 0, 6}, Lengths{1020, 1025, 3}, Lengths{9000}}) {
    const Bytes plain = sample(sum_of(lengths), Content::kRandom, 3);
    for (unsigned skews = 0; skews < 16; ++skews) {
      for (const DeflateKind kind : {DeflateKind::kGzip, DeflateKind::kZlib}) {
        gpu_.kind = kind;
        gpu_.search = skews % 3 != 0;
        gpu_.way = skews % 2 == 0 ? DeflateOnCpu::Way::kTiles : DeflateOnCpu::Way::kWindows;
        expect_right_at(wrapped(kind, stored_blocks(plain, lengths), plain), plain, skews % 4, skews / 4);
      }
    }
  }
}

// Around rows and turns of rows of the sums, and segments of the search.
TEST_F(DeflateStored, SizesAroundBounds) {
  for (const std::size_t around : {std::size_t{codec::gpu::kChecksumRowBytes},
                                   codec::gpu::checksum::kRowsAtOnce * std::size_t{codec::gpu::kChecksumRowBytes},
                                   std::size_t{deflate::kSegmentBytes}}) {
    for (std::size_t bytes = around - 20; bytes <= around + 4; bytes += bytes < around - 6 ? 3 : 1) {
      const Bytes plain = sample(bytes, Content::kRandom, static_cast<unsigned>(bytes));
      expect_right(stored_blocks(plain, {bytes}), plain, std::to_string(bytes));
    }
  }
}

TEST_F(DeflateStored, Members) {
  const Bytes text = sample(4000, Content::kText);
  for (const bool mixed : {false, true}) {
    Bytes stream, plain;
    for (unsigned i = 0; i < 12; ++i) {
      const Lengths lengths = i % 4 == 3 ? Lengths{0} : Lengths(1 + i % 5, 1 + 700 * (i % 7));
      const Bytes own = sample(sum_of(lengths), Content::kRandom, i);
      append(stream, in_gzip(stored_blocks(own, lengths), own));
      append(plain, own);
      if (mixed && i == 6) {
        append(stream, deflate_by_zlib(text, DeflateKind::kGzip));
        append(plain, text);
      }
    }
    EXPECT_TRUE(expect_decoded(stream, plain.size(), "members") == plain) << mixed;
    EXPECT_TRUE(expect_decoded(stream, plain.size() + 9, "members", false) == plain) << mixed;
    // One member's checksum or size: the chunk is refused.
    for (const std::size_t back : {1, 4, 5, 8}) {
      Bytes bad = stream;
      bad[bad.size() - back] ^= std::byte{2};
      expect_refused(bad, plain.size(), back > 4 ? DecodeReason::kChecksum : DecodeReason::kWrongSize, "trailer");
    }
  }
}

TEST_F(DeflateStored, Damaged) {
  for (const Lengths& lengths : {Lengths{100}, Lengths(40, 1100), Lengths{3000, 3000, 0, 3000, 7}}) {
    const Bytes plain = sample(sum_of(lengths), Content::kRandom, 5), raw = stored_blocks(plain, lengths);
    for (const DeflateKind kind : {DeflateKind::kGzip, DeflateKind::kZlib}) {
      gpu_.kind = kind;
      const Bytes good = wrapped(kind, raw, plain);
      const std::size_t begin = kind == DeflateKind::kGzip ? 10 : 2, trailer = kind == DeflateKind::kGzip ? 8 : 4;
      const auto with = [&](std::size_t at, unsigned flipped) {
        Bytes bad = good;
        bad[at] ^= static_cast<std::byte>(flipped);
        return bad;
      };
      expect_refused(with(good.size() - trailer, 1), plain.size(), DecodeReason::kChecksum, "trailer's sum");
      expect_refused(with(begin + 5 + lengths[0] / 2, 16), plain.size(), DecodeReason::kChecksum, "a byte");
      // Every block's head, one behind the other.
      for (std::size_t i = 0, at = begin; i < lengths.size(); at += 5 + lengths[i++]) {
        expect_refused(with(at + 1 + i % 4, 1u << (i % 8)), plain.size(), DecodeReason::kHeader, "complement");
        Bytes longer = with(at + 2, 0x80);  // LEN and NLEN
        longer[at + 4] ^= std::byte{0x80};
        EXPECT_TRUE(same_verdict(longer, plain.size())) << i;
        EXPECT_TRUE(same_verdict(with(at, 1), plain.size())) << i;  // the last one, or not
        EXPECT_TRUE(same_verdict(with(at, 2), plain.size())) << i;
        EXPECT_TRUE(same_verdict(with(at, 6), plain.size())) << i;
        EXPECT_TRUE(same_verdict(part_of(good, 0, at + 3), plain.size())) << i;
      }
      Bytes trailing = good;
      trailing.push_back(std::byte{0});
      EXPECT_TRUE(same_verdict(trailing, plain.size()));
      expect_refused(good, plain.size() - 1, DecodeReason::kLength, "more than promised");
      expect_refused(good, plain.size() + 1, DecodeReason::kWrongSize, "less than promised");
      EXPECT_TRUE(same_verdict(good, plain.size() - 1, false));
      EXPECT_TRUE(same_verdict(good, plain.size() / 2, false));
      EXPECT_TRUE(same_verdict(good, plain.size() + 1, false));
    }
  }
  EXPECT_LT(host_only_, refused_ / 3);  // random bytes as code words: symbols that only libdeflate knows
}

// What is not written, as the chunk is bad, stays as it was; others of the batch are right.
TEST_F(DeflateStored, OfABadChunkNothingIsWritten) {
  const Bytes plain = sample(9000, Content::kRandom, 8), raw = stored_blocks(plain, Lengths(6, 1500));
  constexpr std::byte kOld{0x5A};
  Bytes bad = in_gzip(raw, plain);
  bad[10 + 5 * 1505 + 3] ^= std::byte{1};  // the last block's head
  const Bytes good = in_gzip(raw, plain);
  const std::array<const Bytes*, 3> streams = {&good, &bad, &good};
  std::vector<Bytes> out(3, Bytes(9000, kOld));
  std::vector<DeflateOnCpu::Item> items;
  for (std::size_t i = 0; i < 3; ++i) items.push_back({*streams[i], out[i], {}, 0});
  gpu_.decode(items, true);
  EXPECT_TRUE(items[0].outcome.ok() && !items[1].outcome.ok() && items[2].outcome.ok());
  EXPECT_TRUE(out[0] == plain && out[2] == plain);
  EXPECT_EQ(std::count(out[1].begin(), out[1].end(), kOld), 9000);
}

// Blocks without a wrapper whose matches reach back into `before`.
Bytes continued(const Bytes& before, const Bytes& plain) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  const std::size_t known = std::min<std::size_t>(before.size(), 32768);
  EXPECT_EQ(deflateSetDictionary(&z, reinterpret_cast<const Bytef*>(before.data() + before.size() - known),
                                 static_cast<uInt>(known)),
            Z_OK);
  Bytes out(deflateBound(&z, plain.size()));
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
  z.avail_in = static_cast<uInt>(plain.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

TEST_F(DeflateStored, BlocksBehindReferToThem) {
  const Bytes before = sample(180'000, Content::kRandom, 11);
  Bytes behind = float_field(60'000, 4, false);
  for (std::size_t i = 0; i < 400; ++i) {
    append(behind, part_of(before, 180'000 - 32'000 + i * 73, 20 + i % 300));
    append(behind, sample(7 + i % 50, Content::kText, static_cast<unsigned>(i)));
  }
  Bytes plain = before;
  append(plain, behind);
  for (const Lengths& lengths : {Lengths(20, 9000), Lengths{65535, 65535, 48930}, Lengths(40, 4500)}) {
    Bytes raw = stored_blocks(before, lengths, false);
    append(raw, continued(before, behind));
    gpu_.searched = gpu_.runs = gpu_.runs_left = 0;
    expect_right(raw, plain, std::to_string(lengths.size()));
    // Nothing of the stored blocks is searched: each wrapper once.
    EXPECT_LE(gpu_.searched, 2 * ((raw.size() - before.size()) / deflate::kSegmentBytes + 2));
    EXPECT_GT(gpu_.searched, 4u);
    EXPECT_EQ(gpu_.runs, gpu_.runs_left);
    EXPECT_GE(gpu_.runs_left, 2u + 2 + 4);  // the blocks behind are found
  }
  gpu_.searched = 0;
  expect_right(stored_blocks(before, Lengths(20, 9000)), before, "all stored");
  EXPECT_LE(gpu_.searched, 4u);
}

// Stored blocks behind another that have blocks inside, which are found and are none.
TEST_F(DeflateStored, FalseStartsInThem) {
  const Bytes inner = deflate_by_zlib(float_field(90'000, 1, false), DeflateKind::kZlib, {.memory = 1});
  const Bytes text = sample(20'000, Content::kText);
  for (const std::size_t each : {std::size_t{1024}, std::size_t{1500}, std::size_t{5000}}) {
    const std::size_t count = inner.size() / each;
    const Bytes content = part_of(inner, 0, count * each);
    // The text does not end its member, but a stored block of nothing behind it does not either.
    Bytes raw = deflate_by_zlib(text, DeflateKind::kZlib, {.flush_each = text.size(), .flush = Z_FULL_FLUSH});
    const Bytes flush = {std::byte{0}, std::byte{0}, std::byte{0xFF}, std::byte{0xFF}};
    const auto end = std::search(raw.begin(), raw.end(), flush.begin(), flush.end());
    ASSERT_NE(end, raw.end());
    raw = part_of(raw, 2, static_cast<std::size_t>(end - raw.begin()) + 4 - 2);
    append(raw, stored_blocks(content, Lengths(count, each)));
    Bytes plain = text;
    append(plain, content);
    ASSERT_TRUE(inflated(raw) == plain);
    gpu_.runs = gpu_.runs_left = 0;
    expect_right(raw, plain, std::to_string(each));
    EXPECT_GT(gpu_.runs, gpu_.runs_left);
  }
}

// ---- pass_stored ----

std::uint32_t passed(const Bytes& stream, std::size_t lead = 0, std::uint32_t max_turns = ~0u) {
  GuardBuffer in(stream.size() + lead, Flush::kRight);
  std::copy(stream.begin(), stream.end(), in.data() + lead);
  std::array<std::uint32_t, 32> out{};
  testing::gpu::launch(1, 32, [&] {
    const deflate::Input input(reinterpret_cast<const unsigned char*>(in.data() + lead), stream.size());
    out[threadIdx.x] = deflate::pass_stored(input, 0, max_turns, threadIdx.x);
  });
  for (const std::uint32_t each : out) EXPECT_EQ(each, out[0]);
  EXPECT_EQ(out[0] % 8, 0u);
  return out[0] / 8;
}
// Without the last one's mark, so that bytes tell how many there are.
Bytes alike(std::size_t count, std::size_t each) {
  Bytes one = DeflateWriter().stored(false, Bytes(each)).bytes(), out;
  out.reserve(count * one.size());
  for (std::size_t i = 0; i < count; ++i) append(out, one);
  return out;
}

// A long stream alone is searched sooner than its blocks are followed one by one.
TEST_F(DeflateStored, NoMoreTurnsThanTheBatchIsWorth) {
  Bytes unlike;
  for (std::size_t i = 0; i < 40; ++i) append(unlike, DeflateWriter().stored(false, Bytes(20'000 + i)).bytes());
  EXPECT_EQ(passed(unlike), unlike.size());
  EXPECT_EQ(passed(unlike, 0, 0), 0u);
  EXPECT_EQ(passed(unlike, 0, 2), 2 * 20'005u + 1);
  EXPECT_GE(passed(alike(40, 20'000), 0, 2), 34 * 20'005u);  // the second one's turn passes 32 more, again and again
}

TEST_F(DeflateStored, TinyBlocksAreNotPassedByTheHundredThousand) {
  for (const std::size_t each : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{1023}}) {
    const std::size_t bytes = passed(alike(each > 1 ? 3000 : 200'000, each));
    EXPECT_LE(bytes, std::size_t{2} * deflate::kPassTurns * (5 + each)) << each;
    EXPECT_GE(bytes, deflate::kPassTurns * (5 + each)) << each;
  }
  // A few tiny ones between do not stop it; lengths that alternate neither, if they are worth it.
  Bytes mixed = alike(5, 1);
  append(mixed, alike(100, 65535));
  EXPECT_EQ(passed(mixed), mixed.size());
  Bytes turns;
  for (unsigned i = 0; i < 60; ++i) append(turns, alike(1, 20'000 + i % 2));
  EXPECT_EQ(passed(turns), turns.size());
}

TEST_F(DeflateStored, PassesWhatIsStoredAndNoMore) {
  for (const std::size_t count : {1, 2, 31, 32, 33, 34, 64, 65, 66, 200}) {
    for (const std::size_t lead : {0, 1, 2, 3}) {
      const Bytes good = alike(count, 1500);
      EXPECT_EQ(passed(good, lead), good.size()) << count;
      Bytes last = good;
      append(last, DeflateWriter().stored(true, Bytes(1500)).bytes());
      append(last, good);
      EXPECT_EQ(passed(last, lead), good.size() + 1505) << "the last one is passed, nothing behind it";
      // Cut inside a block; wrong in its head.
      EXPECT_EQ(passed(part_of(good, 0, good.size() - 1), lead), good.size() - 1505);
      for (std::size_t at = 0; at < 5; ++at) {
        Bytes bad = good;
        bad[(count / 2) * 1505 + at] ^= std::byte{4};
        EXPECT_EQ(passed(bad, lead), count / 2 * 1505) << at;
      }
    }
  }
  EXPECT_EQ(passed({}), 0u);
  EXPECT_EQ(passed({std::byte{0}}), 0u);
  EXPECT_EQ(passed(Bytes(4)), 0u);
}

}  // namespace
}  // namespace headrace::test
