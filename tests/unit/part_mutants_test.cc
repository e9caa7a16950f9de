// Parts cut out of damaged Blosc containers, for any interval: the part lies in its stream, and the device's code, run
// on the CPU between guard pages, decodes it as the CPU's codec does, and to the bytes of the whole where that decodes.
// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <gtest/gtest.h>

#include <algorithm>

#include "support/part_mutants.h"
#include "tests/support/blosc_on_cpu.h"
#include "tests/support/guard_buffer.h"
#include "tests/support/sanitizer.h"

namespace headrace::test {
namespace {

constexpr std::uint64_t kMutants = support::kThreadSanitizer || support::kAddressSanitizer ? 40 : 400;  // per group
constexpr std::size_t kLargest = 16384;

std::vector<CorpusGroup> groups() {
  CorpusOptions options;
  options.codec = "blosc";
  options.largest = kLargest;
  std::vector<CorpusGroup> made = make_decode_corpus(options);
  std::erase_if(made, [](const CorpusGroup& group) {
    return group.cpu->part_table_bytes() == 0 || group.stage.capacity_bytes > kLargest;
  });
  return made;
}

codec::gpu::blosc::Named named_of(const CorpusGroup& group) {
  using codec::gpu::blosc::Named;
  if (group.name.find("/zstd") != std::string::npos) return Named::kZstd;
  return group.name.find("/zlib") != std::string::npos ? Named::kZlib : Named::kOthers;
}

TEST(PartMutants, DeviceCodeDecodesThemAsTheCpuDoes) {
  std::uint64_t judged = 0, decoded = 0, of_valid = 0;
  GuardArena in(kLargest + 65536), out(kLargest);
  for (const CorpusGroup& group : groups()) {
    SCOPED_TRACE(group.name);
    const PartMutants mutants(group);
    ASSERT_LE(mutants.longest(), kLargest + 65536);
    PartMutants::Judge judge(group);
    BloscOnCpu gpu;
    gpu.named = named_of(group);
    PartMutant mutant;
    for (std::uint64_t index = 0; index < kMutants; ++index) {
      ASSERT_EQ(mutants.make(20261129, index, mutant), "") << "mutant " << index;
      if (!mutant.is_cut) continue;
      const Flush flush = index % 2 == 0 ? Flush::kRight : Flush::kLeft;
      std::byte* const src = in.take(mutant.container.size(), flush, 0);
      std::ranges::copy(mutant.container, src);
      const auto bytes = static_cast<std::size_t>(mutant.part.decoded_bytes);
      std::byte* const dst = out.take(bytes, flush, index % 3 == 0 ? 0 : 0xFF);
      BloscOnCpu::Item item{{src, mutant.container.size()}, {dst, bytes}, {}, 0};
      gpu.blocks = 1 + static_cast<unsigned>(index % 4);
      gpu.decode({&item, 1}, true);
      EXPECT_TRUE(gpu.within_limits && in.intact() && out.intact());
      EXPECT_TRUE(std::ranges::equal(mutant.container, std::span(src, mutant.container.size())));
      ASSERT_EQ(judge.check(mutant, item.outcome, {dst, bytes}), "") << "mutant " << index;
    }
    judged += judge.judged, decoded += judge.decoded, of_valid += judge.of_valid;
  }
  RecordProperty("judged", static_cast<int>(judged));
  RecordProperty("decoded", static_cast<int>(decoded));
  std::printf("%llu parts, %llu of them decoded, %llu of streams that decode\n",
              static_cast<unsigned long long>(judged), static_cast<unsigned long long>(decoded),
              static_cast<unsigned long long>(of_valid));
  // Otherwise the mutants would test nothing.
  EXPECT_GT(judged, kMutants);
  EXPECT_GT(decoded, judged / 10);
  EXPECT_GT(judged - decoded, judged / 20);
  EXPECT_GT(of_valid, judged / 20);
}

// Wrong outcomes must not pass.
TEST(PartMutants, TheJudgeFindsWrongOutcomes) {
  std::uint64_t taken = 0, refused = 0;
  for (const CorpusGroup& group : groups()) {
    const PartMutants mutants(group);
    PartMutants::Judge judge(group);
    PartMutant mutant;
    for (std::uint64_t index = 0; index < 60; ++index) {
      ASSERT_EQ(mutants.make(7, index, mutant), "");
      if (!mutant.is_cut) continue;
      codec::EncodedStream stream{.src = mutant.container.data(), .src_bytes = mutant.container.size()};
      std::vector<std::byte> bytes(static_cast<std::size_t>(mutant.part.decoded_bytes));
      stream.dst = bytes.data(), stream.dst_capacity = bytes.size();
      const auto scratch = group.cpu->make_scratch();
      using device::DecodeOutcome;
      const DecodeOutcome refusal{DecodeOutcome::pack(0, 0, device::DecodeReason::kHeader)}, none{0}, success;
      EXPECT_NE(judge.check(mutant, none, bytes), "");
      if (!group.cpu->decode(stream, scratch.get()).ok()) {
        ++refused;
        EXPECT_EQ(judge.check(mutant, refusal, bytes), "");
        EXPECT_NE(judge.check(mutant, success, bytes), "");
        continue;
      }
      ++taken;
      EXPECT_EQ(judge.check(mutant, success, bytes), "");
      EXPECT_NE(judge.check(mutant, refusal, bytes), "");
      bytes[index % bytes.size()] ^= std::byte{1};
      EXPECT_NE(judge.check(mutant, success, bytes), "");
    }
  }
  EXPECT_GT(taken, 10u);
  EXPECT_GT(refused, 10u);
}

}  // namespace
}  // namespace headrace::test
