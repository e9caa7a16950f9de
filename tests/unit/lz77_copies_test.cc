// Runs that a warp writes alone, and streams with long runs, written in order and by windows: the right bytes are
// written, nothing next to them, and only the run's source is read.
#include "tests/support/cuda_on_cpu.h"
// The order of includes matters: device code needs the above.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "tests/support/codec_testing.h"
#include "tests/support/guard_buffer.h"
#include "tests/support/lz77_on_cpu.h"
#include "tests/support/lz77_test_streams.h"

namespace headrace::test {
namespace {

namespace lz77 = codec::gpu::lz77;
using lz77::Byte;
using Random = Lz77Stream::Random;

constexpr std::size_t kBeside = 32;  // bytes around the target, which must not change
constexpr Byte kUntouched{0xEE};

std::vector<std::uint32_t> lengths() {
  std::vector<std::uint32_t> out;
  for (std::uint32_t n = 0; n < 40; ++n) out.push_back(n);
  for (const std::uint32_t around : {64u, 128u, 256u, 512u, 520u, 1024u, 1040u, 2048u, 5000u}) {
    for (std::uint32_t n = around - 3; n <= around + 5; ++n) out.push_back(n);
  }
  return out;
}

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  Bytes out(count);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

// Runs `write` in one warp; it must write `expected` to an address `lead` bytes after an aligned one.
template <class Write>
void expect_written(const std::vector<Byte>& expected, std::uint32_t lead, const Write& write) {
  alignas(16) static std::array<Byte, 16384> memory;
  ASSERT_LE(expected.size() + lead + 2 * kBeside, memory.size());
  std::fill(memory.begin(), memory.end(), kUntouched);
  Byte* const to = memory.data() + kBeside + lead;
  testing::gpu::launch(1, 32, [&] { write(to, lz77::lane_id()); });
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), to));
  for (Byte* at = memory.data(); at < to; ++at) ASSERT_EQ(*at, kUntouched) << at - to;
  for (Byte* at = to + expected.size(); at < memory.data() + memory.size(); ++at) ASSERT_EQ(*at, kUntouched) << at - to;
}

TEST(Lz77Copies, ReadTheSourceAndWriteTheTargetAlone) {
  for (const std::uint32_t bytes : lengths()) {
    const Bytes plain = random_bytes(bytes, bytes);
    std::vector<Byte> expected(bytes);
    std::transform(plain.begin(), plain.end(), expected.begin(), [](std::byte b) { return static_cast<Byte>(b); });
    // Up to the end of a page, and from the beginning of one: reading beyond it faults.
    for (const bool at_end : {true, false}) {
      const GuardBuffer source(plain, at_end ? Flush::kRight : Flush::kLeft);
      for (std::uint32_t lead = bytes % 3; lead < 16; lead += 3) {
        SCOPED_TRACE(::testing::Message() << bytes << " bytes, " << lead << " behind an aligned address");
        expect_written(expected, lead, [&](Byte* to, unsigned lane) {
          lz77::copy_by_warp(to, reinterpret_cast<const Byte*>(source.data()), bytes, lane);
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Lz77Copies, AFillRepeatsItsPattern) {
  const Bytes pattern = random_bytes(16, 1);
  for (const std::uint32_t bytes : lengths()) {
    for (const std::uint32_t period : {1u, 2u, 4u, 8u, 16u}) {
      const GuardBuffer source(std::span<const std::byte>(pattern).first(period), Flush::kRight);
      std::vector<Byte> expected(bytes);
      for (std::uint32_t i = 0; i < bytes; ++i) expected[i] = static_cast<Byte>(pattern[i % period]);
      for (std::uint32_t lead = 0; lead < 4; ++lead) {
        expect_written(expected, lead, [&](Byte* to, unsigned lane) {
          lz77::fill_by_warp(to, reinterpret_cast<const Byte*>(source.data()), period, bytes, lane);
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Lz77Copies, AMatchRepeatsItself) {
  std::vector<std::uint32_t> offsets;
  for (std::uint32_t offset = 1; offset < 40; ++offset) offsets.push_back(offset);
  for (const std::uint32_t offset : {64u, 127u, 259u, 260u, 261u, 511u, 519u, 520u, 521u, 1037u, 3000u}) {
    offsets.push_back(offset);
  }
  for (const std::uint32_t offset : offsets) {
    const Bytes before = random_bytes(offset, offset);
    for (const std::uint32_t bytes : lengths()) {
      // Two of the four alignments per length; over all lengths, all four.
      for (std::uint32_t lead = bytes % 2; lead < 4; lead += 2) {
        SCOPED_TRACE(::testing::Message() << "offset " << offset << ", " << bytes << " bytes, lead " << lead);
        // The memory begins at a page, so reading before it faults.
        const GuardBuffer memory(Bytes(lead + offset + bytes + kBeside, std::byte{kUntouched}), Flush::kLeft);
        Byte* const begin = reinterpret_cast<Byte*>(memory.data()) + lead;
        std::memcpy(begin, before.data(), offset);
        Byte* const to = begin + offset;
        testing::gpu::launch(1, 32, [&] { lz77::match_by_warp(to, offset, bytes, lz77::lane_id()); });
        for (std::uint32_t i = 0; i < bytes; ++i) {
          ASSERT_EQ(to[i], static_cast<Byte>(before[i % offset])) << i;
        }
        for (std::size_t i = 0; i < kBeside; ++i) ASSERT_EQ(to[bytes + i], kUntouched);
        ASSERT_EQ(std::memcmp(begin, before.data(), offset), 0);
      }
    }
  }
}

// Long runs of both kinds in one group, next to each other and to short ones; and across windows.
TEST(Lz77Copies, StreamsWithLongRuns) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<Lz77Stream> streams(2);
    for (Lz77Stream& stream : streams)
      stream.make(random, 30'000, seed % 3 == 0 ? 8 : 4000, 2 + static_cast<std::uint32_t>(seed % 7), true);
    const auto count = static_cast<std::uint32_t>(streams.size());
    for (const Lz77OnCpu::Way way : {Lz77OnCpu::Way::kInOrder, Lz77OnCpu::Way::kWindows}) {
      for (Lz77Stream& stream : streams) std::fill(stream.output.begin(), stream.output.end(), kUntouched);
      std::vector<std::byte> memory(Lz77OnCpu::layout(count, 80'000).bytes() + 256);
      const std::size_t skip = (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256;
      lz77::Progress progress{};
      Lz77OnCpu::write(Lz77Source{&streams}, Lz77OnCpu::layout(count, 80'000).job(memory.data() + skip), progress, way,
                       1 + static_cast<unsigned>(seed % 3));
      for (const Lz77Stream& stream : streams) ASSERT_TRUE(stream.output == stream.expected);
    }
  }
}

}  // namespace
}  // namespace headrace::test
