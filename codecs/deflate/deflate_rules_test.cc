// DEFLATE's device code, run on the CPU on handcrafted streams: every kind of block, unusual codes, and violations of
// every rule. The device decodes valid streams itself, to the same bytes as libdeflate, refuses invalid ones for the
// broken rule, and leaves to the CPU what libdeflate and zlib disagree about.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include "tests/support/deflate_device_check.h"
#include "tests/support/deflate_writer.h"

namespace headrace::test {
namespace {

class DeflateRules : public DeflateDeviceTest {
 protected:
  // Wrapped as zlib and as gzip; libdeflate provides the expected output.
  void expect_right(const Bytes& raw, const std::string& what) {
    const Bytes plain = inflated(raw);
    for (const DeflateKind kind : {DeflateKind::kZlib, DeflateKind::kGzip}) {
      gpu_.kind = kind;
      const Bytes stream = kind == DeflateKind::kZlib ? in_zlib(raw, plain) : in_gzip(raw, plain);
      EXPECT_TRUE(expect_decoded(stream, plain.size(), what) == plain) << what;
    }
  }
  void expect_wrong(const Bytes& raw, std::size_t capacity, DecodeReason reason, const std::string& rule) {
    gpu_.kind = DeflateKind::kZlib;
    expect_refused(in_zlib(raw, {}), capacity, reason, rule);
  }
  void expect_undecided(const Bytes& raw, std::size_t capacity, const std::string& rule) {
    gpu_.kind = DeflateKind::kZlib;
    expect_left_to_cpu(in_zlib(raw, inflated(raw)), capacity, rule);
  }
};

const PrefixCode kFixedLiterals = PrefixCode::fixed_literals(), kFixedDistances = PrefixCode::fixed_distances();

unsigned below(std::mt19937& rng, unsigned limit) { return static_cast<unsigned>(rng() % limit); }
std::vector<unsigned> zeros(std::size_t count) { return std::vector<unsigned>(count, 0); }

// A code of exactly all 256 bytes and the end symbol.
PrefixCode bytes_only() {
  std::vector<unsigned> lengths(257, 8);
  lengths[255] = lengths[256] = 9;
  return PrefixCode(lengths);
}
// Code words of all lengths: bytes 0 to 11 with 1 to 12 bits, the end and three lengths of matches with more.
PrefixCode steep_literals() {
  std::vector<unsigned> lengths = zeros(286);
  for (unsigned i = 0; i < 12; ++i) lengths[i] = i + 1;
  lengths[256] = 13;
  lengths[257] = 14;
  lengths[284] = lengths[285] = 15;
  return PrefixCode(lengths);
}
PrefixCode steep_distances() {
  std::vector<unsigned> lengths = zeros(30);
  for (unsigned i = 0; i < 14; ++i) lengths[i] = i + 1;
  lengths[14] = lengths[29] = 15;
  return PrefixCode(lengths);
}
const PrefixCode kNoDistances(zeros(1)), kOneDistance({1});

TEST_F(DeflateRules, EveryLengthAndEveryDistance) {
  DeflateWriter fixed;
  fixed.header(false, 1);
  for (unsigned i = 0; i < 33'000; ++i) fixed.word(kFixedLiterals, (i * i / 31) & 255);
  for (unsigned length = 3; length <= 258; ++length) fixed.match(kFixedLiterals, kFixedDistances, length, length);
  for (unsigned distance = 1; distance <= 32768; distance += distance < 600 ? 1 : 389) {
    fixed.match(kFixedLiterals, kFixedDistances, 3 + distance % 256, distance);
  }
  fixed.match(kFixedLiterals, kFixedDistances, 258, 32768).end(kFixedLiterals);
  const PrefixCode literals = steep_literals(), distances = steep_distances();
  fixed.description(true, literals, distances);
  std::mt19937 rng(4);
  for (unsigned i = 0; i < 5000; ++i) {
    if (rng() % 3 == 0) {
      const unsigned lengths[] = {3, 227 + below(rng, 30), 258}, code = below(rng, 16);
      const unsigned far = code < 15 ? code : 29;
      const unsigned extra = far < 4 ? 0 : far / 2 - 1, base = far < 4 ? 1 + far : 1 + ((2 + far % 2) << extra);
      fixed.match(literals, distances, lengths[rng() % 3], base + below(rng, 1u << extra));
    } else {
      fixed.word(literals, rng() % 12);
    }
  }
  expect_right(fixed.end(literals).bytes(), "every length and distance");
}

TEST_F(DeflateRules, BlocksOfEveryKindInAnyOrder) {
  const Bytes some = sample(300, Content::kText);
  for (unsigned order = 0; order < 81; ++order) {
    DeflateWriter out;
    for (unsigned k = 0, rest = order; k < 4; ++k, rest /= 3) {
      const bool last = k == 3;
      if (rest % 3 == 0) {
        out.stored(last, Bytes(some.begin(), some.begin() + (k == 1 ? 0 : 77)), order % 256);
      } else if (rest % 3 == 1) {
        out.header(last, 1).text(kFixedLiterals, some);
        if (k > 0) out.match(kFixedLiterals, kFixedDistances, 20 + k, 1 + order % 77);
        out.end(kFixedLiterals);
      } else {
        const PrefixCode literals = steep_literals(), distances = steep_distances();
        out.description(last, literals, distances).text(literals, Bytes(100, std::byte{7}));
        out.match(literals, distances, 258, 5).end(literals);
      }
    }
    expect_right(out.bytes(), "order " + std::to_string(order));
    if (HasFailure()) return;
  }
}

TEST_F(DeflateRules, StoredBlocks) {
  for (const std::size_t bytes : {0, 1, 65535}) {
    expect_right(DeflateWriter().stored(true, sample(bytes, Content::kRandom), 31).bytes(), "stored");
  }
  const Bytes good = DeflateWriter().stored(true, sample(100, Content::kText)).bytes();
  Bytes bad = good;
  bad[3] ^= std::byte{4};
  expect_wrong(bad, 100, DecodeReason::kHeader, "length and its complement");
  bad = good;
  bad.resize(60);
  expect_wrong(bad, 100, DecodeReason::kTruncated, "stored block cut");
  expect_wrong(good, 99, DecodeReason::kLength, "stored block longer than the output");
  expect_wrong(DeflateWriter().header(true, 3).bits(0, 60).bytes(), 100, DecodeReason::kHeader, "type 3");
}

TEST_F(DeflateRules, Descriptions) {
  using Length = DeflateWriter::Length;
  const PrefixCode literals = bytes_only();
  const auto good = [&](DeflateWriter out) {
    return out.text(literals, sample(500, Content::kText)).end(literals).bytes();
  };
  std::vector<Length> plain;
  for (const unsigned each : literals.lengths()) plain.push_back({each});
  plain.push_back({0});
  expect_right(good(DeflateWriter().description(true, 257, 1, plain)), "lengths as they are");
  // 8, repeated six at a time; also across the border between the two codes.
  std::vector<Length> repeated = {{8}};
  for (unsigned i = 0; i < 42; ++i) repeated.push_back({16, 3});
  repeated.insert(repeated.end(), {{8}, {8}, {9}, {9}, {0}});
  expect_right(good(DeflateWriter().description(true, 257, 1, repeated)), "repeats");
  std::vector<Length> across = repeated;
  across.pop_back();
  across.push_back({18, 29 + 20 - 11});  // 29 lengths of matches and 20 distances
  for (const unsigned each : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 9u}) across.push_back({each});
  expect_right(good(DeflateWriter().description(true, 286, 30, across)), "zeros across the border");

  const auto refused = [&](std::vector<Length> lengths, DecodeReason reason, const std::string& rule) {
    expect_wrong(good(DeflateWriter().description(true, 257, 1, lengths)), 500, reason, rule);
  };
  std::vector<Length> bad = plain;
  bad[0] = {16, 0};
  bad.erase(bad.begin() + 1, bad.begin() + 3);
  refused(bad, DecodeReason::kHeader, "a repeat of nothing");
  bad = plain;
  bad.back() = {17, 0};
  expect_undecided(good(DeflateWriter().description(true, 257, 1, bad)), 500, "more lengths than were promised");
  bad.back() = {16, 0};
  expect_undecided(good(DeflateWriter().description(true, 257, 1, bad)), 500, "a repeat behind the last length");
  bad = plain;
  bad[3] = {7};
  refused(bad, DecodeReason::kHeader, "over-subscribed literals");
  bad[3] = {9};
  refused(bad, DecodeReason::kHeader, "incomplete literals");
  bad = plain;
  bad[254] = {9};
  bad[255] = {9};
  bad[256] = {0};
  bad[253] = {8};
  refused(bad, DecodeReason::kHeader, "no end of block");

  const auto with_distances = [&](std::vector<unsigned> lengths) {
    return good(DeflateWriter().description(true, literals, PrefixCode(std::move(lengths))));
  };
  expect_right(with_distances({0, 0, 0}), "no distances");
  expect_right(with_distances({0, 1, 0}), "one distance");
  expect_right(with_distances({1, 1}), "two distances");
  expect_wrong(with_distances({1, 1, 1}), 500, DecodeReason::kHeader, "over-subscribed distances");
  expect_wrong(with_distances({1, 2}), 500, DecodeReason::kHeader, "incomplete distances");
  expect_wrong(with_distances({2}), 500, DecodeReason::kHeader, "one distance of two bits");

  // The precode.
  std::vector<unsigned> precode(19, 4);
  expect_wrong(DeflateWriter().description(true, 257, 1, {}, PrefixCode(precode)).bits(0, 2000).bytes(), 500,
               DecodeReason::kHeader, "over-subscribed precode");
  for (unsigned& each : precode) each = 6;
  expect_wrong(DeflateWriter().description(true, 257, 1, {}, PrefixCode(precode)).bits(0, 2000).bytes(), 500,
               DecodeReason::kHeader, "incomplete precode");
  precode = zeros(19);
  expect_undecided(DeflateWriter().description(true, 257, 1, {}, PrefixCode(precode)).bits(0, 2000).bytes(), 500,
                   "no precode");
  precode[8] = 1;
  expect_undecided(DeflateWriter().description(true, 257, 1, {}, PrefixCode(precode)).bits(0, 2000).bytes(), 500,
                   "a precode of one word");
  // Symbols that do not exist, and codes of one word.
  std::vector<unsigned> lengths = literals.lengths();
  lengths.resize(287);
  expect_undecided(good(DeflateWriter().description(true, PrefixCode(lengths), kNoDistances)), 500, "287 literals");
  expect_undecided(good(DeflateWriter().description(true, literals, PrefixCode(zeros(31)))), 500, "31 distances");
  std::vector<unsigned> only_end = zeros(257);
  only_end[256] = 1;
  expect_undecided(DeflateWriter().description(true, PrefixCode(only_end), kNoDistances).bits(0, 1).bytes(), 0,
                   "nothing but an end");
}

TEST_F(DeflateRules, SymbolsThatStandForNothing) {
  const Bytes some(10, std::byte{1});
  for (const unsigned symbol : {286, 287}) {
    expect_undecided(DeflateWriter()
                         .header(true, 1)
                         .text(kFixedLiterals, some)
                         .word(kFixedLiterals, symbol)
                         .word(kFixedDistances, 0)
                         .end(kFixedLiterals)
                         .bytes(),
                     268, "length symbol " + std::to_string(symbol));
  }
  for (const unsigned symbol : {30, 31}) {
    expect_undecided(DeflateWriter()
                         .header(true, 1)
                         .text(kFixedLiterals, some)
                         .word(kFixedLiterals, 257)
                         .word(kFixedDistances, symbol)
                         .bits(0, 13)
                         .end(kFixedLiterals)
                         .bytes(),
                     13, "distance symbol " + std::to_string(symbol));
  }
  // A code of one distance has one word of one bit; the other bit is invalid.
  std::vector<unsigned> lengths = zeros(258);
  lengths[0] = 1;
  lengths[256] = lengths[257] = 2;
  const PrefixCode literals(lengths);
  for (const bool right : {true, false}) {
    DeflateWriter out;
    out.description(true, literals, kOneDistance).word(literals, 0).word(literals, 257).bits(right ? 0 : 1, 1);
    out.end(literals);
    if (right) expect_right(out.bytes(), "the one distance");
    if (!right) expect_undecided(out.bytes(), 4, "the other bit");
  }
  DeflateWriter none;
  none.description(true, literals, kNoDistances).word(literals, 0).word(literals, 257).bits(0, 1).end(literals);
  expect_undecided(none.bytes(), 4, "a match where there are no distances");
}

TEST_F(DeflateRules, DistancesReachNoFurtherThanTheMember) {
  const Bytes some(100, std::byte{'x'});
  for (const unsigned distance : {99u, 100u, 101u, 32768u}) {
    DeflateWriter out;
    out.stored(false, some).header(true, 1).match(kFixedLiterals, kFixedDistances, 50, distance).end(kFixedLiterals);
    if (distance <= 100) {
      expect_right(out.bytes(), "distance " + std::to_string(distance));
    } else {
      expect_wrong(out.bytes(), 150, DecodeReason::kOffset, "distance " + std::to_string(distance));
    }
  }
  // The previous member is out of reach.
  gpu_.kind = DeflateKind::kGzip;
  DeflateWriter second;
  second.header(true, 1).word(kFixedLiterals, 'a').match(kFixedLiterals, kFixedDistances, 3, 2).end(kFixedLiterals);
  Bytes both = in_gzip(DeflateWriter().stored(true, some).bytes(), some);
  const Bytes behind = in_gzip(second.bytes(), Bytes(4));
  both.insert(both.end(), behind.begin(), behind.end());
  expect_refused(both, 104, DecodeReason::kOffset, "into the member before");
}

TEST_F(DeflateRules, WhatFollowsTheBlocks) {
  const Bytes plain = sample(1000, Content::kText);
  const Bytes raw = DeflateWriter().header(true, 1).text(kFixedLiterals, plain).end(kFixedLiterals).bytes();
  gpu_.kind = DeflateKind::kZlib;
  Bytes stream = in_zlib(raw, plain);
  stream.back() ^= std::byte{1};
  expect_refused(stream, 1000, DecodeReason::kChecksum, "Adler-32");
  stream = in_zlib(raw, plain);
  stream.push_back(std::byte{0});
  expect_refused(stream, 1000, DecodeReason::kTrailing, "a byte behind");
  stream.resize(stream.size() - 2);
  expect_refused(stream, 1000, DecodeReason::kTruncated, "trailer cut");
  stream = in_zlib(raw, plain);
  expect_refused(stream, 999, DecodeReason::kLength, "no room");
  expect_refused(stream, 1001, DecodeReason::kWrongSize, "too short");
  for (const auto& [at, flip] : {std::pair{0, 0x01}, {0, 0x80}, {1, 0x01}, {1, 0x20}}) {
    Bytes bad = stream;
    bad[static_cast<std::size_t>(at)] ^= static_cast<std::byte>(flip);
    expect_refused(bad, 1000, DecodeReason::kHeader, "zlib header");
  }
  Bytes dictionary = stream;  // the header is otherwise right
  dictionary[0] = std::byte{0x78};
  dictionary[1] = std::byte{0xBB};
  expect_refused(dictionary, 1000, DecodeReason::kHeader, "preset dictionary");

  gpu_.kind = DeflateKind::kGzip;
  stream = in_gzip(raw, plain);
  for (std::size_t i = 1; i <= 8; ++i) {
    Bytes bad = stream;
    bad[bad.size() - i] ^= std::byte{0x10};
    expect_refused(bad, 1000, i <= 4 ? DecodeReason::kWrongSize : DecodeReason::kChecksum, "trailer");
  }
  Bytes padded = stream;
  padded.resize(padded.size() + 30);
  expect_refused(padded, 1000, DecodeReason::kTrailing, "zeros behind");
  for (const unsigned reserved : {0x20, 0x40, 0x80}) {
    Bytes bad = stream;
    bad[3] = static_cast<std::byte>(reserved);
    expect_refused(bad, 1000, DecodeReason::kHeader, "reserved flag");
  }
}

TEST_F(DeflateRules, GzipHeaderFields) {
  gpu_.kind = DeflateKind::kGzip;
  const Bytes plain = sample(1000, Content::kText);
  const Bytes body = in_gzip(DeflateWriter().stored(true, plain).bytes(), plain);
  for (unsigned flags = 0; flags < 32; ++flags) {
    for (const std::size_t name : {0, 5, 1000, 1100}) {
      Bytes stream(body.begin(), body.begin() + 10);
      stream[3] = static_cast<std::byte>(flags);
      const auto append = [&](std::size_t count, std::byte value) { stream.insert(stream.end(), count, value); };
      if ((flags & 4) != 0) {
        append(1, std::byte{3});
        append(4, std::byte{0});
      }
      for (const unsigned flag : {8, 16}) {
        if ((flags & flag) == 0) continue;
        append(flag == 8 ? name : 3, std::byte{'n'});
        append(1, std::byte{0});
      }
      if ((flags & 2) != 0) {
        const std::uint32_t crc = libdeflate_crc32(0, stream.data(), stream.size());
        append(1, static_cast<std::byte>(crc));
        append(1, static_cast<std::byte>(crc >> 8));
      }
      const std::size_t header = stream.size();
      stream.insert(stream.end(), body.begin() + 10, body.end());
      if (header <= 1024) {
        EXPECT_TRUE(expect_decoded(stream, 1000, "flags " + std::to_string(flags)) == plain);
      } else if (header > 1030) {
        expect_left_to_cpu(stream, 1000, "a long header");
      }
      if ((flags & 2) == 0 || header > 1024) continue;
      stream[header - 1] ^= std::byte{1};
      expect_refused(stream, 1000, DecodeReason::kChecksum, "header checksum");
    }
  }
}

// Bits that look like a block header inside stored blocks and inside code words. These must cost only time.
TEST_F(DeflateRules, FalseStarts) {
  const Bytes inner = deflate_by_zlib(float_field(60'000, 1, false), DeflateKind::kZlib, {.memory = 1});
  DeflateWriter out;
  for (std::size_t at = 0; at < inner.size(); at += 30'000) {
    const std::size_t end = std::min(inner.size(), at + 30'000);
    out.stored(false, Bytes(inner.begin() + static_cast<std::ptrdiff_t>(at),
                            inner.begin() + static_cast<std::ptrdiff_t>(end)));
  }
  // Bytes whose code words are the bits of the inner stream, eight at a time.
  const PrefixCode literals = bytes_only();
  out.description(false, literals, kNoDistances);
  for (const std::byte each : inner) {
    unsigned word = 0;
    for (unsigned i = 0; i < 8; ++i) word |= (std::to_integer<unsigned>(each) >> i & 1) << (7 - i);
    if (word < 255) out.word(literals, word);
  }
  out.end(literals);
  // The blocks that follow are found again.
  const PrefixCode steep = steep_literals(), distances = steep_distances();
  for (unsigned i = 0; i < 6; ++i) {
    out.description(i == 5, steep, distances);
    for (unsigned k = 0; k < 4000; ++k) out.word(steep, (k * 7 + i) % 11);
    out.match(steep, distances, 258, 3).end(steep);
  }
  gpu_.runs = gpu_.runs_left = 0;
  expect_right(out.bytes(), "false starts");
  EXPECT_GT(gpu_.runs, gpu_.runs_left + 8);
  EXPECT_GE(gpu_.runs_left, 8u);
}

// A single block longer than any window of cells; and one of only the longest matches, in 2 bits each.
TEST_F(DeflateRules, LongBlocks) {
  const PrefixCode literals = bytes_only();
  DeflateWriter out;
  out.description(false, literals, kNoDistances).text(literals, sample(200'000, Content::kText)).end(literals);
  std::vector<unsigned> lengths = zeros(286);
  lengths[0] = lengths[256] = 2;
  lengths[285] = 1;
  const PrefixCode dense(lengths);
  out.description(true, dense, kOneDistance).word(dense, 0);
  for (unsigned i = 0; i < 3000; ++i) out.word(dense, 285).bits(0, 1);
  expect_right(out.end(dense).bytes(), "long blocks");
}

// All guesses about a cell's first code word are wrong: all code words have 8 bits, or the same match is repeated.
// Several warps decode this by trying all bits; a single warp leaves it to the CPU.
TEST_F(DeflateRules, GuessesThatAreAllWrong) {
  const PrefixCode literals = bytes_only();
  std::mt19937 rng(8);
  Bytes text(90'000);
  for (std::byte& each : text) each = static_cast<std::byte>(rng() % 255);
  DeflateWriter out;
  text[0] = std::byte{255};  // the only one of 9 bits
  out.description(false, literals, kNoDistances).text(literals, text).end(literals);
  // Only one match, with its extra bits.
  std::vector<unsigned> lengths = zeros(286), distances = zeros(30);
  lengths[7] = lengths[256] = 2;
  lengths[277] = 1;
  distances[20] = 1;
  distances[3] = distances[25] = 2;
  const PrefixCode matches(lengths), far(distances);
  out.description(true, matches, far);
  for (unsigned i = 0; i < 9000; ++i) out.match(matches, far, 70, 1500);
  out.end(matches);
  const Bytes plain = inflated(out.bytes());
  ASSERT_GT(plain.size(), 90'000u);
  gpu_.kind = DeflateKind::kZlib;
  const Bytes stream = in_zlib(out.bytes(), plain);
  for (const bool search : {true, false}) {
    GuardBuffer in(stream, Flush::kRight), to(plain.size(), Flush::kRight);
    DeflateOnCpu::Item item{{in.data(), in.size()}, to.span(), {}, 0};
    gpu_.search = search;
    gpu_.decode({&item, 1}, true);
    EXPECT_EQ(item.outcome.ok(), search) << decode_reason_text(item.outcome.reason());
    if (search) {
      EXPECT_TRUE(std::equal(plain.begin(), plain.end(), to.data()));
    } else {
      EXPECT_TRUE(item.outcome.host_only());
    }
  }
}

TEST_F(DeflateRules, BlocksThatAreTooMany) {
  DeflateWriter out;
  for (unsigned i = 0; i < 300; ++i) out.header(false, 1).end(kFixedLiterals);
  out.header(true, 1).word(kFixedLiterals, 'a').end(kFixedLiterals);
  expect_right(out.bytes(), "empty blocks");
  gpu_.allowance = {};
  expect_undecided(out.bytes(), 1, "empty blocks");
}

TEST_F(DeflateRules, CutAnywhere) {
  gpu_.kind = DeflateKind::kZlib;
  const PrefixCode literals = steep_literals(), distances = steep_distances();
  DeflateWriter out;
  out.description(true, literals, distances).text(literals, Bytes(30, std::byte{9}));
  out.match(literals, distances, 250, 20).text(literals, Bytes(3, std::byte{11})).end(literals);
  const Bytes plain = inflated(out.bytes()), stream = in_zlib(out.bytes(), plain);
  ASSERT_TRUE(same_verdict(stream, plain.size()));
  for (std::size_t length = 0; length < stream.size(); ++length) {
    ASSERT_TRUE(same_verdict({stream.data(), length}, plain.size())) << length;
  }
  for (std::size_t bit = 0; bit < 8 * stream.size(); ++bit) {
    Bytes bad = stream;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_TRUE(same_verdict(bad, plain.size())) << bit;
  }
}

}  // namespace
}  // namespace headrace::test
