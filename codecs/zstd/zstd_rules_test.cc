// zstd's device code, run on the CPU on handcrafted frames: every mode of every part, valid and invalid. The device
// decodes valid frames itself, to the same bytes as libzstd, and refuses invalid ones for the broken rule.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include "tests/support/zstd_device_check.h"
#include "tests/support/zstd_writer.h"

namespace headrace::test {
namespace {

using codec::gpu::zstd::Block;
using codec::gpu::zstd::LiteralsKind;
using codec::gpu::zstd::TableMode;

class ZstdRules : public ZstdDeviceTest {};

// Literals that use all the weights that a code of up to 11 bits can have.
const std::vector<unsigned> kSteepWeights = {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1};

Bytes literals_below(std::size_t count, unsigned symbols, unsigned seed) {
  std::mt19937 rng(seed);
  Bytes out(count);
  for (std::byte& each : out) {
    unsigned symbol = 0;
    while (symbol + 1 < symbols && rng() % 3 == 0) ++symbol;
    each = static_cast<std::byte>(symbol);
  }
  return out;
}

unsigned below(std::mt19937& rng, std::size_t limit) { return static_cast<unsigned>(rng() % limit); }

// Sequences that take at most `literals` literals, with all kinds of offsets. `produced`: bytes in the frame before.
std::vector<SequenceSpec> some_sequences(std::size_t count, std::size_t literals, std::size_t produced, unsigned seed,
                                         std::size_t& decoded) {
  std::mt19937 rng(seed);
  std::vector<SequenceSpec> out;
  decoded = 0;
  for (std::size_t i = 0; i < count; ++i) {
    SequenceSpec s;
    s.literals = static_cast<std::uint32_t>(std::min<std::size_t>(literals, i == 0           ? 20
                                                                            : rng() % 4 == 0 ? 0
                                                                                             : rng() % 9));
    if (i % 17 == 16) s.literals = static_cast<std::uint32_t>(std::min<std::size_t>(literals, 70));
    literals -= s.literals;
    s.match = 3 + below(rng, 12);
    if (i % 11 == 10) s.match = 30 + below(rng, 300);
    const std::size_t before = produced + decoded + s.literals;
    // Repeats are used once there are three offsets; "first minus one" only where the result is not 0.
    s.offset_value = i > 5 && rng() % 3 == 0 ? 1 + below(rng, s.literals == 0 ? 2 : 3)
                                             : 3 + 2 + below(rng, std::min<std::size_t>(before - 1, 4000));
    decoded += s.literals + s.match;
    out.push_back(s);
  }
  decoded += literals;
  return out;
}

TEST_F(ZstdRules, EveryLiteralsModeWithEverySequenceMode) {
  const HuffmanCode code(kSteepWeights), flat(std::vector<unsigned>(16, 1));
  unsigned seed = 0;
  int treeless = 0, repeated = 0, rle_tables = 0;
  for (unsigned literals_mode = 0; literals_mode < 8; ++literals_mode) {
    for (unsigned modes = 0; modes < 64; modes += 1 + (literals_mode * 7 + modes) % 3) {
      ++seed;
      SequenceWriter writer;
      for (unsigned k = 0; k < 3; ++k) writer.logs[k] = 5 + (seed + k) % (k == 1 ? 4 : 5);
      const unsigned n = 1500, sequences = 60 + seed % 90;
      const Bytes literals = literals_below(n, 12, seed);
      const auto section = [&](unsigned mode, bool own_tree) -> Bytes {
        switch (mode) {
          case 0:
            return raw_literals(literals);
          case 1:
            return rle_literals(std::byte{9}, n);
          case 2:
            return huffman_literals(own_tree ? code.direct_description() : Bytes{}, code.streams(literals, 4), n, 4);
          default:
            return huffman_literals(own_tree ? code.coded_description(5 + seed % 2) : Bytes{},
                                    code.streams(Bytes(literals.begin(), literals.begin() + 900), 1), 900, 1);
        }
      };
      const auto bytes_of = [&](unsigned mode) { return mode == 3 ? 900u : n; };
      std::size_t first_bytes;
      const std::array<unsigned, 3> first_modes{modes & 3, modes >> 2 & 3, modes >> 4};
      std::array<unsigned, 3> before{};
      for (unsigned k = 0; k < 3; ++k) before[k] = first_modes[k] == kRepeatMode ? seed % 3 : first_modes[k];
      // One-symbol tables require the same codes throughout.
      std::vector<SequenceSpec> first = some_sequences(sequences, bytes_of(literals_mode % 4), 0, seed, first_bytes);
      const auto fit = [&](std::vector<SequenceSpec>& list, std::size_t room, std::size_t before_it) {
        std::size_t left = room, decoded = before_it;
        for (SequenceSpec& s : list) {
          if (before[0] == kRleMode) s.literals = 5;
          if (before[1] == kRleMode) s.offset_value = 8;
          if (before[2] == kRleMode) s.match = 7;
          s.literals = static_cast<std::uint32_t>(std::min<std::size_t>(s.literals, left));
          left -= s.literals;
          decoded += s.literals;
          s.offset_value = std::min(s.offset_value, static_cast<std::uint32_t>(decoded) + 3);
          decoded += s.match;
        }
        return decoded + left - before_it;
      };
      first_bytes = fit(first, bytes_of(literals_mode % 4), 0);
      // A repeated table must have a cell for every code in use, so the second block uses the same codes.
      std::vector<SequenceSpec> second = first;
      const std::size_t second_bytes = fit(second, bytes_of(literals_mode % 4), first_bytes);
      const bool repeats_tree = literals_mode >= 6;
      FrameWriter frame;
      frame.compressed(section(literals_mode % 4, true), writer.section(first, before));
      frame.compressed(section(literals_mode % 4, !repeats_tree), writer.section(second, first_modes));
      expect_decoded(frame.bytes(), first_bytes + second_bytes,
                     "literals " + std::to_string(literals_mode) + " modes " + std::to_string(modes));
      if (HasFailure()) return;
      for (const Block& block : gpu_.last_blocks) {
        treeless += block.literals == LiteralsKind::kHuffman && !block.own_tree;
        for (const TableMode mode : block.modes) {
          repeated += block.sequences != 0 && mode == TableMode::kRepeat;
          rle_tables += block.sequences != 0 && mode == TableMode::kRle;
        }
      }
    }
  }
  EXPECT_GT(treeless, 30);
  EXPECT_GT(repeated, 100);
  EXPECT_GT(rle_tables, 100);
}

// Repeats tables across blocks of all kinds that do not define them, with repeat offsets.
TEST_F(ZstdRules, TablesAndOffsetsOverManyBlocks) {
  const HuffmanCode code(kSteepWeights);
  SequenceWriter writer;
  FrameWriter frame;
  std::size_t produced = 0;
  const std::size_t n = 200;
  const Bytes literals = literals_below(n, 12, 1);
  std::vector<SequenceSpec> sequences;
  for (unsigned i = 0; i < 70; ++i) {
    std::size_t decoded;
    if (i % 10 == 3) {
      frame.raw(literals);
      produced += n;
      continue;
    }
    if (i % 10 == 6) {
      frame.rle(std::byte{3}, 50);
      produced += 50;
      continue;
    }
    if (i % 10 == 8) {  // no sequences: tables and offsets stay
      frame.compressed(rle_literals(std::byte{4}, 100), writer.section({}, {}));
      produced += 100;
      continue;
    }
    const bool new_tables = i % 35 == 0;
    if (new_tables) {
      sequences = some_sequences(40, n, produced, i, decoded);
    } else {
      // Only repeats, including those that reorder the offsets.
      for (std::size_t k = 0; k < sequences.size(); ++k) {
        if (sequences[k].literals != 0) sequences[k].offset_value = 1 + static_cast<unsigned>(k + i) % 3;
      }
    }
    decoded = n;
    for (const SequenceSpec& s : sequences) decoded += s.match;
    const bool tree = i % 35 == 0;
    frame.compressed(
        huffman_literals(tree ? code.coded_description() : Bytes{}, code.streams(literals, 4), n, 4),
        writer.section(sequences, new_tables ? std::array<unsigned, 3>{kFseMode, kPredefinedMode, kFseMode}
                                             : std::array<unsigned, 3>{kRepeatMode, kPredefinedMode, kRepeatMode}));
    produced += decoded;
  }
  expect_decoded(frame.bytes(), produced, "70 blocks");
  expect_decoded(frame.bytes() + frame.bytes(), 2 * produced, "twice 70 blocks");
}

// Nothing is repeated from the previous frame, wherever its blocks are in the list.
TEST_F(ZstdRules, TablesOfTheFrameBeforeAreGone) {
  const HuffmanCode code(kSteepWeights);
  const Bytes literals = literals_below(200, 12, 1);
  const std::vector<SequenceSpec> sequences = {{20, 10, 3 + 7}, {5, 5, 3 + 9}};
  for (const std::size_t blocks_between : {0, 5, 31, 32, 64}) {
    SequenceWriter writer;
    FrameWriter first, treeless, repeating;
    first.compressed(huffman_literals(code.direct_description(), code.streams(literals, 4), 200, 4),
                     writer.section(sequences, {kFseMode, kFseMode, kFseMode}));
    for (std::size_t i = 0; i < blocks_between; ++i) first.raw(literals);
    const Bytes no_tree = huffman_literals({}, code.streams(literals, 4), 200, 4);
    treeless.compressed(no_tree, writer.section({}, {}));
    repeating.compressed(raw_literals(literals), writer.section(sequences, {kRepeatMode, kRepeatMode, kRepeatMode}));
    const std::size_t before = 215 + 200 * blocks_between;
    expect_decoded(first.bytes(), before, "the frame before");
    expect_refused(first.bytes() + treeless.bytes(), before + 200, DecodeReason::kHeader, "treeless");
    expect_refused(first.bytes() + repeating.bytes(), before + 215, DecodeReason::kHeader, "repeat");
  }
}

TEST_F(ZstdRules, RareSymbolsAndLargeTables) {
  for (const unsigned rare_from : {1u, 3u, 10u}) {
    SequenceWriter writer;
    for (unsigned& from : writer.rare_from) from = rare_from;
    std::size_t decoded;
    auto sequences = some_sequences(150, 1000, 0, rare_from, decoded);
    const Bytes stream = FrameWriter()
                             .compressed(raw_literals(sample(1000, Content::kText)),
                                         writer.section(sequences, {kFseMode, kFseMode, kFseMode}))
                             .bytes();
    expect_decoded(stream, decoded, "rare from " + std::to_string(rare_from));
  }
}

TEST_F(ZstdRules, LongestLengthsAndOffsets) {
  SequenceWriter writer;
  // The longest lengths and offsets, with all their extra bits.
  const std::vector<SequenceSpec> sequences = {
      {65'535, 3, 4}, {0, 65'000, 3 + 65'000}, {1, 3, 1}, {2, 100, 3 + 130'000}};
  const Bytes stream =
      FrameWriter()
          .window(20)
          .compressed(rle_literals(std::byte{'x'}, 65'538), writer.section(sequences, {0, 0, 0}))
          .compressed(rle_literals(std::byte{'y'}, 130'000), writer.section({{130'000, 3, 3 + 140'000}}, {0, 0, 0}))
          .compressed(rle_literals(std::byte{'z'}, 1), writer.section({{0, 131'071, 3 + 200'000}}, {0, 0, 0}))
          .bytes();
  expect_decoded(stream, 65'538 + 3 + 65'000 + 3 + 100 + 130'003 + 131'072, "long");
}

// Offsets that reach exactly the window's end or the frame's beginning, and one beyond.
TEST_F(ZstdRules, OffsetsToTheEndOfTheWindow) {
  SequenceWriter writer;
  const Bytes start = sample(1024, Content::kRandom), more = sample(500, Content::kRandom, 3);
  for (const std::uint32_t offset : {1024u, 1025u, 1530u, 1534u, 1535u}) {
    const Bytes stream =
        FrameWriter()
            .window(10)
            .raw(start)
            .raw(more)
            .compressed(raw_literals(sample(10, Content::kText)), writer.section({{10, 30, offset + 3}}, {0, 0, 0}))
            .bytes();
    const std::size_t capacity = 1024 + 500 + 40;
    if (offset == 1024) expect_decoded(stream, capacity, "the window's end");
    if (offset > 1024 && offset <= 1534) expect_left_to_cpu(stream, capacity, "beyond the window");
    if (offset > 1534) expect_refused(stream, capacity, DecodeReason::kOffset, "beyond the frame's beginning");
    // Must not reach into the previous frame.
    expect_refused(
        compress(sample(2000, Content::kText)) +
            FrameWriter().compressed(raw_literals(more), writer.section({{500, 3, 3 + 501}}, {0, 0, 0})).bytes(),
        2503, DecodeReason::kOffset, "into the frame before");
  }
}

TEST_F(ZstdRules, HuffmanStreamsOfEverySize) {
  const HuffmanCode steep(kSteepWeights), two({1, 1});
  for (const std::size_t n : {1, 2, 5, 6, 7, 8, 9, 10, 11, 31, 100, 255, 1000, 1023}) {
    const Bytes literals = literals_below(n, 12, static_cast<unsigned>(n)), bits = literals_below(n, 2, 7);
    for (const unsigned streams : {1u, 4u}) {
      if (streams == 4 && n < 6) continue;
      SequenceWriter writer;
      for (const bool binary : {false, true}) {
        const Bytes content = binary ? two.streams(bits, streams) : steep.streams(literals, streams);
        const Bytes tree = binary ? two.direct_description() : steep.coded_description();
        if (tree.size() + content.size() > 1023) continue;
        expect_decoded(
            FrameWriter().compressed(huffman_literals(tree, content, n, streams), writer.section({}, {})).bytes(), n,
            std::to_string(n) + " literals in " + std::to_string(streams));
      }
    }
  }
  // Several pieces of 8 KiB of bits per stream; with codes of equal length, lanes synchronise late.
  std::mt19937 rng(4);
  Bytes noise(128 << 10);
  for (std::byte& each : noise) each = static_cast<std::byte>(rng() % 16);
  const HuffmanCode flat(std::vector<unsigned>(16, 1));
  SequenceWriter writer;
  expect_decoded(FrameWriter()
                     .compressed(huffman_literals(flat.direct_description(), flat.streams(noise, 4), noise.size(), 4),
                                 writer.section({}, {}))
                     .bytes(),
                 noise.size(), "flat code");
  const Bytes many = literals_below(128 << 10, 12, 3);
  expect_decoded(FrameWriter()
                     .compressed(huffman_literals(steep.direct_description(), steep.streams(many, 4), many.size(), 4),
                                 writer.section({}, {}))
                     .bytes(),
                 many.size(), "steep code");
}

TEST_F(ZstdRules, FrameHeaders) {
  const Bytes content = sample(300, Content::kText);
  for (const unsigned flag : {1u, 2u, 3u})
    expect_decoded(FrameWriter().single(300, flag).raw(content).bytes(), 300, "size");
  expect_decoded(FrameWriter().single(20, 0).raw(sample(20, Content::kText)).bytes(), 20, "size of a byte");
  expect_decoded(FrameWriter().single(0, 0).raw({}).bytes(), 0, "empty");
  for (const unsigned eighths : {0u, 7u})
    expect_decoded(FrameWriter().window(31, eighths).raw(content).bytes(), 300, "window");
  // A dictionary ID of 0 means none.
  expect_decoded(FrameWriter().head(from_hex("015800")).raw(content).bytes(), 300, "dictionary 0");
  expect_left_to_cpu(FrameWriter().head(from_hex("015807")).raw(content).bytes(), 300, "dictionary 7");
  expect_decoded(FrameWriter().head(from_hex("1058")).raw(content).bytes(), 300, "unused bit");
  expect_left_to_cpu(FrameWriter().single(~std::uint64_t{0}, 3).raw(content).bytes(), 300, "a size of all ones");
}

// ---- violations of the format ----

TEST_F(ZstdRules, RulesOfFramesAndBlocks) {
  const Bytes content = sample(300, Content::kText);
  const Bytes good = FrameWriter().raw(content).bytes();
  expect_decoded(good, 300, "good");
  expect_refused(from_hex("FD2FB528") + good, 300, DecodeReason::kHeader, "magic number");
  expect_refused(good + from_hex("00"), 300, DecodeReason::kTrailing, "trailing byte");
  expect_refused(good + from_hex("FD2FB52899"), 300, DecodeReason::kTrailing, "trailing bytes");
  expect_refused(FrameWriter().head(from_hex("0858")).raw(content).bytes(), 300, DecodeReason::kHeader, "reserved bit");
  expect_refused(FrameWriter().head(from_hex("00B0")).raw(content).bytes(), 300, DecodeReason::kHeader,
                 "window of 2^32");
  expect_refused(FrameWriter().block(kReservedBlock, 300, content).bytes(), 300, DecodeReason::kHeader, "block type 3");
  expect_refused(FrameWriter().block(kRawBlock, 301, content).bytes(), 301, DecodeReason::kTruncated, "raw block");
  expect_refused(FrameWriter().single(301, 1).raw(content).bytes(), 301, DecodeReason::kWrongSize, "content size");
  expect_refused(FrameWriter().single(301, 1).raw(content).bytes(), 300, DecodeReason::kWrongSize, "content size");
  expect_refused(FrameWriter().single(~std::uint64_t{1}, 3).raw(content).bytes(), 300, DecodeReason::kWrongSize,
                 "huge size");
  expect_refused(good, 299, DecodeReason::kLength, "more than there is room for");
  Bytes skippable = skippable_frame(content);
  skippable.pop_back();
  expect_refused(skippable, 0, DecodeReason::kTruncated, "skippable frame");
  expect_left_to_cpu(FrameWriter().window(10).rle(std::byte{0}, 1025).bytes(), 1025, "block above the window");
  expect_left_to_cpu(FrameWriter().window(20).rle(std::byte{0}, 131'073).bytes(), 131'073, "block above 128 KiB");
  expect_refused(FrameWriter().compressed({}, {}).bytes(), 0, DecodeReason::kTruncated, "compressed block of nothing");
  expect_refused(FrameWriter().compressed({}, from_hex("00")).bytes(), 0, DecodeReason::kTruncated, "of one byte");
  expect_left_to_cpu(FrameWriter().compressed(raw_literals({}), from_hex("00")).bytes(), 0, "of two bytes");
  expect_refused(FrameWriter().block(kCompressedBlock, 131'073, Bytes(131'073)).bytes(), 10, DecodeReason::kHeader,
                 "compressed block above 128 KiB");
  for (std::size_t bit = 0; bit < 32; ++bit) {
    Bytes bad = compress(content, {.checksum = true});
    bad[bad.size() - 4 + bit / 8] ^= std::byte{1} << (bit % 8);
    expect_refused(bad, 300, DecodeReason::kChecksum, "checksum");
  }
}

TEST_F(ZstdRules, RulesOfLiterals) {
  const HuffmanCode code(kSteepWeights);
  const Bytes literals = literals_below(400, 12, 1), tree = code.direct_description();
  const Bytes streams = code.streams(literals, 4);
  SequenceWriter writer;
  const auto frame = [&](const Bytes& section) {
    return FrameWriter().compressed(section, writer.section({}, {})).bytes();
  };
  expect_decoded(frame(huffman_literals(tree, streams, 400, 4)), 400, "good");
  expect_refused(frame(huffman_literals({}, streams, 400, 4)), 400, DecodeReason::kHeader, "treeless without a tree");
  expect_refused(frame(plain_literals(0, 401, literals)), 401, DecodeReason::kTruncated, "raw literals");
  expect_refused(frame(plain_literals(1, 131'073, {std::byte{1}})), 131'073, DecodeReason::kLength, "above 128 KiB");
  expect_left_to_cpu(
      FrameWriter().window(10).compressed(plain_literals(1, 1025, {std::byte{1}}), writer.section({}, {})).bytes(),
      1025, "above the window");
  expect_refused(frame(huffman_literals(tree, code.streams(literals, 1), 400, 4)), 400, DecodeReason::kTruncated,
                 "jump table");
  expect_refused(frame(huffman_literals(tree, {}, 400, 1)), 400, DecodeReason::kTruncated, "no streams");
  expect_refused(frame(huffman_literals(tree, Bytes(9), 400, 4)), 400, DecodeReason::kTruncated,
                 "four streams in 9 bytes");
  Bytes last_zero = code.streams(literals, 1);
  last_zero.back() = std::byte{0};
  expect_left_to_cpu(frame(huffman_literals(tree, last_zero, 400, 1)), 400, "last byte 0");
  expect_left_to_cpu(frame(huffman_literals(tree, code.streams(literals, 1), 399, 1)), 399, "bits left over");
  expect_left_to_cpu(frame(huffman_literals(tree, code.streams(literals, 1), 401, 1)), 401, "bits missing");
  const Bytes two = {std::byte{1}, std::byte{10}};
  expect_left_to_cpu(frame(huffman_literals(tree, code.stream(two, 7), 2, 1)), 2, "bits of the last one missing");
  expect_left_to_cpu(frame(huffman_literals(tree, code.streams(literals_below(100'000, 12, 1), 4), 400, 4)), 400,
                     "many more than there are to be");
  expect_left_to_cpu(frame(huffman_literals(tree, code.streams(literals_below(5, 12, 1), 4), 5, 4)), 5,
                     "4 streams of 5");
  expect_left_to_cpu(frame(huffman_literals(tree, code.streams({}, 1), 0, 1)), 0, "no literals");
  // Trees with directly stored 4-bit weights.
  const auto direct = [&](std::string_view weights) {
    const Bytes packed = from_hex(weights);
    return frame(
        huffman_literals(little_endian(127 + 2 * packed.size(), 1) + packed, Bytes(20, std::byte{0x55}), 50, 1));
  };
  expect_refused(direct("00"), 50, DecodeReason::kHeader, "no weights");
  expect_refused(direct("0D"), 50, DecodeReason::kHeader, "a weight of 13");
  expect_refused(direct("CCCC"), 50, DecodeReason::kHeader, "weights of more than 12 bits in all");
  expect_left_to_cpu(direct("CBA987654321"), 50, "12 bits");
  expect_refused(direct("22"), 50, DecodeReason::kHeader, "no code of the greatest length");
  expect_refused(direct("321121"), 50, DecodeReason::kHeader, "rest is no power of two");
  // FSE-coded ones.
  const auto coded = [&](const Bytes& content) {
    return frame(huffman_literals(little_endian(content.size(), 1) + content, Bytes(20, std::byte{0x55}), 50, 1));
  };
  expect_refused(coded({}), 50, DecodeReason::kTruncated, "a description of nothing");
  expect_refused(coded(from_hex("02FFFFFF")), 50, DecodeReason::kHeader, "accuracy of 7");
  const FseCounts weights{{16, 16}, 5};
  expect_refused(coded(fse_description(weights)), 50, DecodeReason::kHeader, "no bits");
  expect_refused(coded(fse_description(weights) + from_hex("00")), 50, DecodeReason::kHeader, "last byte 0");
  expect_left_to_cpu(coded(fse_description(weights) + from_hex("05")), 50, "no bits for two states");
  expect_refused(coded(fse_description(weights) + Bytes(40, std::byte{0xFF})), 50, DecodeReason::kHeader,
                 "too many weights");
  // A table with one symbol: no bits are ever consumed.
  const FseCounts endless{{0, 32}, 5};
  expect_refused(coded(fse_description(endless) + from_hex("0008")), 50, DecodeReason::kHeader,
                 "weights without an end");
}

TEST_F(ZstdRules, RulesOfSequences) {
  const Bytes literals = raw_literals(sample(100, Content::kText));
  const std::vector<SequenceSpec> good = {{20, 10, 3 + 7}, {5, 5, 1}, {0, 4, 1}, {3, 40, 3 + 30}};
  const std::size_t decoded = 100 + 10 + 5 + 4 + 40;
  const auto frame = [&](const Bytes& section) { return FrameWriter().compressed(literals, section).bytes(); };
  const auto predefined = [&](const std::vector<SequenceSpec>& list) {
    return SequenceWriter().section(list, {0, 0, 0});
  };
  expect_decoded(frame(predefined(good)), decoded, "good");
  for (unsigned k = 0; k < 3; ++k) {
    std::array<unsigned, 3> modes{};
    modes[k] = kRepeatMode;
    SequenceWriter writer;
    writer.section(good, {0, 0, 0});
    expect_refused(frame(writer.section(good, modes)), decoded, DecodeReason::kHeader, "repeat without a table");
    modes[k] = kRleMode;
    Bytes section = writer.section({{20, 10, 10}}, modes);
    section[2] = static_cast<std::byte>(k == 0 ? 36 : k == 1 ? 32 : 53);
    expect_refused(frame(section), 110, DecodeReason::kHeader, "a code that there is not");
    // One above the maximum accuracy.
    section = predefined(good);
    section[1] = static_cast<std::byte>(kFseMode << (6 - 2 * k));
    section.insert(section.begin() + 2, static_cast<std::byte>(k == 1 ? 4 : 5));
    expect_refused(frame(section), decoded, DecodeReason::kHeader, "accuracy");
    // More symbols than there are codes, of which only the last occurs besides the first.
    FseCounts far{std::vector<int>(k == 1 ? 33 : k == 0 ? 37 : 54), 5};
    far.counts[0] = 31;
    far.counts.back() = 1;
    section = Bytes{section[0], section[1]} + fse_description(far) + from_hex("FFFF");
    expect_refused(frame(section), decoded, DecodeReason::kHeader, "more symbols than codes");
    // Truncated inside.
    section = Bytes{section[0], section[1]} + Bytes{fse_description(far)[0]};
    EXPECT_TRUE(same_verdict(frame(section), decoded));
  }
  expect_refused(frame({}), 100, DecodeReason::kTruncated, "no sequences section");
  expect_refused(frame(from_hex("0000")), 100, DecodeReason::kTrailing, "bytes behind no sequences");
  expect_refused(frame(from_hex("01")), 100, DecodeReason::kTruncated, "no modes");
  expect_refused(frame(from_hex("80")), 100, DecodeReason::kTruncated, "number of sequences");
  expect_refused(frame(from_hex("FF00")), 100, DecodeReason::kTruncated, "number of sequences");
  expect_refused(frame(from_hex("0100")), 100, DecodeReason::kTruncated, "no bits");
  expect_refused(frame(from_hex("010000")), 100, DecodeReason::kHeader, "last byte 0");
  expect_refused(frame(from_hex("0110")), 100, DecodeReason::kTruncated, "no symbol");
  SequenceWriter odd;
  odd.long_count = true;
  expect_left_to_cpu(frame(odd.section({}, {0, 0, 0})), 100, "no sequences in the long form");
  odd.long_count = false;
  odd.reserved = 1;
  expect_left_to_cpu(frame(odd.section(good, {0, 0, 0})), decoded, "reserved bits");
  odd.reserved = 0;
  odd.extra_bits = 27;
  expect_refused(frame(odd.section(good, {0, 0, 0})), decoded, DecodeReason::kTrailing, "bits left over");
  odd.extra_bits = 1;
  expect_left_to_cpu(frame(odd.section(good, {0, 0, 0})), decoded, "a bit left over");
  odd.extra_bits = 0;
  odd.missing_bits = 1;
  expect_left_to_cpu(frame(odd.section({{20, 10, 10}}, {0, 0, 0})), 110, "a bit missing");
  odd.missing_bits = 0;
  // Each sequence decodes to at least three bytes, so these exceed the capacity.
  expect_refused(frame(from_hex("FF00000055")), 1000, DecodeReason::kLength, "32,512 sequences in 1,000 bytes");
  expect_left_to_cpu(FrameWriter().window(20).compressed(literals, from_hex("FFFFFF0055")).bytes(), 300'000,
                     "98,047 sequences");
  expect_refused(frame(predefined({{101, 10, 10}})), 111, DecodeReason::kLength, "more literals than there are");
  expect_refused(frame(predefined(good)), decoded - 1, DecodeReason::kLength, "no room for a match");
  expect_refused(frame(predefined({{20, 10, 3 + 21}})), 110, DecodeReason::kOffset, "offset beyond the beginning");
  expect_refused(frame(predefined({{3, 10, 2}})), 110, DecodeReason::kOffset, "second repeat offset, 4, at byte 3");
  expect_refused(frame(predefined({{7, 10, 3}})), 110, DecodeReason::kOffset, "third repeat offset, 8, at byte 7");
  expect_refused(frame(SequenceWriter().section({{20, 10, 0x7FFFFFFF}}, {0, kRleMode, 0})), 110, DecodeReason::kOffset,
                 "offset of 2^31");
  expect_left_to_cpu(frame(predefined({{20, 10, 4}, {0, 10, 3}})), 120, "first repeat offset less one: 0");
  expect_left_to_cpu(FrameWriter()
                         .window(10)
                         .compressed(raw_literals(sample(1000, Content::kText)), predefined({{1000, 25, 10}}))
                         .bytes(),
                     1025, "block above the window");
  // Bits that end too early, with random content.
  std::mt19937 rng(3);
  for (int round = 0; round < 60; ++round) {
    Bytes section = predefined(good);
    section[0] = static_cast<std::byte>(4 + rng() % 20);
    section.back() = static_cast<std::byte>(1 + rng() % 255);
    EXPECT_TRUE(same_verdict(frame(section), decoded + rng() % 3));
  }
}

TEST_F(ZstdRules, MoreBlocksThanExpected) {
  gpu_.allowance = {};
  FrameWriter frame;
  for (int i = 0; i < 5; ++i) frame.raw(sample(10, Content::kText));
  expect_left_to_cpu(frame.bytes(), 50, "five blocks of ten bytes");
  FrameWriter four;
  for (int i = 0; i < 4; ++i) four.raw(sample(10, Content::kText));
  expect_decoded(four.bytes(), 40, "four blocks");
  Bytes skipped;
  for (int i = 0; i < 4; ++i) skipped = skipped + skippable_frame({});
  expect_decoded(skipped + four.bytes(), 40, "four skippable frames");
  expect_left_to_cpu(skipped + skippable_frame({}) + four.bytes(), 40, "five skippable frames");
}

}  // namespace
}  // namespace headrace::test
