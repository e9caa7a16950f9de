// The sequence and timing of the I/O of `headrace bench`: sizes and directions have the requested shares, a pass covers
// its region, distributions have their shape, rates hold, and checksums match their standards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/headrace/bench/block_pattern.h"
#include "tools/headrace/bench/block_sizes.h"
#include "tools/headrace/bench/distribution.h"
#include "tools/headrace/bench/io_sequence.h"
#include "tools/headrace/bench/job_file.h"
#include "tools/headrace/bench/rate_limit.h"
#include "tools/headrace/bench/verify_block.h"
#include "tools/headrace/bench/verify_sum.h"
#include "tools/headrace/bench/written_blocks.h"
#include "tools/headrace/sha256.h"

namespace headrace::bench {
namespace {

using Arguments = std::vector<std::pair<std::string, std::string>>;

JobOptions job_of(const Arguments& arguments) { return jobs_from_arguments(arguments, {}).value().front(); }

std::vector<Io> pass_of(IoSequence& sequence, std::uint64_t pass) {
  std::vector<Io> out;
  sequence.begin_pass(pass);
  while (const Io* io = sequence.peek()) {
    EXPECT_EQ(io, sequence.peek());  // the same one until it is taken
    out.push_back(*io);
    sequence.pop();
    if (out.size() > 1'000'000) break;
  }
  return out;
}

std::uint64_t bytes_of(const std::vector<Io>& ios) {
  std::uint64_t bytes = 0;
  for (const Io& io : ios) bytes += io.bytes;
  return bytes;
}

TEST(BlockSizes, SharesAndRanges) {
  const BlockSizes split = BlockSizes::parse_split("4k/60:64k/:8k/30").value();
  EXPECT_EQ(split.smallest(), 4096u);
  EXPECT_EQ(split.largest(), 65536u);
  EXPECT_EQ(split.divisor(false), 4096u);
  std::map<std::uint64_t, int> seen;
  for (std::uint64_t i = 0; i < 100'000; ++i) ++seen[split.pick(mix64(i), false)];
  EXPECT_NEAR(seen[4096], 60'000, 1000);
  EXPECT_NEAR(seen[65536], 10'000, 1000);
  EXPECT_NEAR(seen[8192], 30'000, 1000);
  EXPECT_EQ(seen.size(), 3u);
  const BlockSizes range = BlockSizes::parse_size_or_range("4k-64k").value();
  std::set<std::uint64_t> sizes;
  for (std::uint64_t i = 0; i < 10'000; ++i) sizes.insert(range.pick(mix64(i), false));
  EXPECT_EQ(sizes.size(), 16u);
  for (const std::uint64_t size : sizes) EXPECT_EQ(size % 4096, 0u);
  EXPECT_EQ(*sizes.begin(), 4096u);
  EXPECT_EQ(*sizes.rbegin(), 65536u);
  EXPECT_EQ(range.divisor(true), 1u);
  EXPECT_EQ(BlockSizes::parse_split("512/0:4k/100").value().smallest(), 4096u);
  EXPECT_EQ(BlockSizes(512).text(), "512");
  EXPECT_EQ(range.text(), "4KiB-64KiB");
}

TEST(IoSequence, APassOfOneSizeVisitsEachBlockOnceInWhateverOrder) {
  for (const char* rw : {"read", "randread", "randwrite", "write", "randrw", "rw"}) {
    IoSequence sequence(job_of({{"filename", "f"}, {"rw", rw}, {"bs", "4k"}}), {400'000}, 7);
    const std::vector<Io> ios = pass_of(sequence, 3);
    EXPECT_EQ(ios.size(), 97u) << rw;
    std::set<std::uint64_t> seen[2], both;
    for (const Io& io : ios) {
      EXPECT_EQ(io.bytes, 4096u);
      EXPECT_EQ(io.offset % 4096, 0u);
      EXPECT_LT(io.offset, 97u * 4096) << rw;
      EXPECT_TRUE(seen[io.write ? 1 : 0].insert(io.offset).second) << rw;
      both.insert(io.offset);
    }
    if (std::string(rw) != "rw") {
      EXPECT_EQ(both.size(), 97u) << rw;
    }
    // A second pass repeats the first, so that what was written can be read back.
    const std::vector<Io> again = pass_of(sequence, 3);
    ASSERT_EQ(again.size(), ios.size());
    for (std::size_t i = 0; i < ios.size(); ++i)
      EXPECT_TRUE(again[i].offset == ios[i].offset && again[i].write == ios[i].write);
  }
}

TEST(IoSequence, DirectionsAreMixedAsAsked) {
  for (const unsigned percent : {0u, 30u, 50u, 90u, 100u}) {
    IoSequence sequence(job_of({{"filename", "f"}, {"rw", "randrw"}, {"rwmixread", std::to_string(percent)}}),
                        {4096 * 10'000}, 1);
    const auto ios = pass_of(sequence, 0);
    const auto reads = std::count_if(ios.begin(), ios.end(), [](const Io& io) { return !io.write; });
    EXPECT_NEAR(static_cast<double>(reads), percent * 100.0, percent % 100 == 0 ? 0 : 200) << percent;
  }
  // In a sequential mix, each direction goes through the file from its beginning.
  IoSequence sequence(job_of({{"filename", "f"}, {"rw", "rw"}, {"bs", "4k,8k"}}), {1 << 20}, 1);
  std::uint64_t next[2] = {0, 0};
  for (const Io& io : pass_of(sequence, 0)) {
    EXPECT_EQ(io.offset, next[io.write ? 1 : 0]);
    EXPECT_EQ(io.bytes, io.write ? 8192u : 4096u);
    next[io.write ? 1 : 0] += io.bytes;
  }
  EXPECT_EQ(next[0] + next[1], 1u << 20);
}

TEST(IoSequence, SizesThatDifferStayInTheRegionAndEndThePassByBytes) {
  for (const char* rw : {"read", "randread", "randrw", "rw"}) {
    for (const char* unaligned : {"0", "1"}) {
      constexpr std::uint64_t kBytes = (10 << 20) + 4096 * 3;
      IoSequence sequence(job_of({{"filename", "f"}, {"rw", rw}, {"bs", "4k-64k"}, {"bs_unaligned", unaligned}}),
                          {kBytes}, 5);
      const auto ios = pass_of(sequence, 0);
      std::set<std::uint64_t> sizes;
      for (const Io& io : ios) {
        ASSERT_LE(io.offset + io.bytes, kBytes);
        ASSERT_GT(io.bytes, 0u);
        sizes.insert(io.bytes);
      }
      EXPECT_GT(sizes.size(), 10u);
      EXPECT_NEAR(static_cast<double>(bytes_of(ios)), static_cast<double>(kBytes), 65536) << rw << unaligned;
    }
  }
}

TEST(IoSequence, FilesTakeTurnsAndEachIsVisitedWhole) {
  const std::vector<std::uint64_t> bytes = {40960, 4096, 81920};
  for (const char* service : {"roundrobin", "random", "sequential", "roundrobin:3", "random:2"}) {
    for (const char* list : {"1", "4"}) {
      const JobOptions job =
          job_of({{"filename", "f"}, {"rw", "randread"}, {"file_service_type", service}, {"list", list}});
      IoSequence sequence(job, bytes, 1);
      std::map<std::size_t, std::set<std::uint64_t>> seen;
      const auto ios = pass_of(sequence, 0);
      for (const Io& io : ios) EXPECT_TRUE(seen[io.file].insert(io.offset).second);
      EXPECT_EQ(ios.size(), 31u) << service << list;
      EXPECT_EQ(seen[0].size(), 10u);
      EXPECT_EQ(seen[1].size(), 1u);
      EXPECT_EQ(seen[2].size(), 20u);
      if (std::string(service) == "sequential") {
        EXPECT_TRUE(std::is_sorted(ios.begin(), ios.end(), [](const Io& a, const Io& b) { return a.file < b.file; }));
      }
      if (std::string(service) == "roundrobin" && std::string(list) == "1") {
        EXPECT_EQ(ios[1].file, 1u);
        EXPECT_EQ(ios[2].file, 2u);
        EXPECT_EQ(ios[3].file, 0u);
      }
    }
  }
}

TEST(IoSequence, AListIsOfOneFileAndDirection) {
  IoSequence sequence(job_of({{"filename", "f"}, {"rw", "randrw"}, {"list", "5"}}), {1 << 20, 1 << 20}, 1);
  std::size_t joined = 0, total = 0;
  Io before;
  sequence.begin_pass(0);
  for (const Io* io = sequence.peek(); io != nullptr; sequence.pop(), io = sequence.peek()) {
    if (sequence.joins()) {
      ++joined;
      EXPECT_TRUE(io->file == before.file && io->write == before.write);
    }
    before = *io;
    ++total;
  }
  EXPECT_EQ(total, 512u);
  EXPECT_NEAR(static_cast<double>(joined), 512 * 0.8, 5);
}

TEST(IoSequence, RunsHolesAndShares) {
  IoSequence runs(job_of({{"filename", "f"}, {"rw", "randread:8"}}), {4096 * 8000}, 1);
  auto ios = pass_of(runs, 0);
  std::size_t behind = 0;
  for (std::size_t i = 1; i < ios.size(); ++i) behind += ios[i].offset == ios[i - 1].offset + 4096 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(behind), static_cast<double>(ios.size()) * 7 / 8, 20);
  IoSequence same(job_of({{"filename", "f"}, {"rw", "randread:8"}, {"rw_sequencer", "identical"}}), {4096 * 8000}, 1);
  ios = pass_of(same, 0);
  for (std::size_t i = 1; i < 8; ++i) EXPECT_EQ(ios[i].offset, ios[0].offset);
  IoSequence holes(job_of({{"filename", "f"}, {"rw", "read:12k"}}), {4096 * 8}, 1);
  ios = pass_of(holes, 0);
  ASSERT_EQ(ios.size(), 2u);
  EXPECT_EQ(ios[1].offset, 16384u);
  IoSequence share(job_of({{"filename", "f"}, {"rw", "randread"}, {"percentage_random", "20"}}), {4096 * 10'000}, 1);
  ios = pass_of(share, 0);
  behind = 0;
  for (std::size_t i = 1; i < ios.size(); ++i) behind += ios[i].offset == ios[i - 1].offset + 4096 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(behind) / static_cast<double>(ios.size()), 0.8, 0.03);
  IoSequence aligned(job_of({{"filename", "f"}, {"rw", "randread"}, {"ba", "64k"}}), {1 << 20}, 1);
  ios = pass_of(aligned, 0);
  EXPECT_EQ(ios.size(), 16u);
  for (const Io& io : ios) EXPECT_EQ(io.offset % 65536, 0u);
}

TEST(Distribution, ShapesAreThoseOfTheirNames) {
  constexpr std::uint64_t kBlocks = 1000, kDraws = 200'000;
  const auto counts = [](const char* law) {
    const Distribution distribution(parse_distribution(law).value(), kBlocks);
    std::vector<double> seen(kBlocks);
    for (std::uint64_t i = 0; i < kDraws; ++i) seen.at(distribution.pick(mix64(i))) += 1;
    return seen;
  };
  for (const double theta : {0.8, 1.0, 1.2, 2.0}) {
    const auto zipf = counts(("zipf:" + std::to_string(theta)).c_str());
    double sum = 0;
    for (std::uint64_t k = 1; k <= kBlocks; ++k) sum += std::pow(static_cast<double>(k), -theta);
    for (const std::uint64_t rank : {1u, 2u, 3u, 10u}) {
      const double expected = kDraws * std::pow(static_cast<double>(rank), -theta) / sum;
      EXPECT_NEAR(zipf[rank - 1], expected, 5 * std::sqrt(expected) + 1) << theta << " rank " << rank;
    }
  }
  // h = 0.2: a fifth of the blocks has four fifths of the draws.
  const auto pareto = counts("pareto:0.2");
  double first = 0;
  for (std::size_t i = 0; i < kBlocks / 5; ++i) first += pareto[i];
  EXPECT_NEAR(first / kDraws, 0.8, 0.02);
  const auto normal = counts("normal:10");
  double inside = 0;
  for (std::size_t i = 400; i < 600; ++i) inside += normal[i];
  EXPECT_NEAR(inside / kDraws, 0.6827, 0.01);
  for (const char* law : {"zipf:1.2", "pareto:0.9", "normal:100"}) {
    EXPECT_EQ(Distribution(parse_distribution(law).value(), 1).pick(12345), 0u) << law;
  }
  // The likeliest blocks are the same in every pass, and are spread over the file.
  IoSequence sequence(job_of({{"filename", "f"}, {"rw", "randread"}, {"random_distribution", "zipf:1.4"}}),
                      {4096 * 1000}, 9);
  std::map<std::uint64_t, int> seen[2];
  for (const std::uint64_t pass : {0u, 1u}) {
    for (const Io& io : pass_of(sequence, pass)) ++seen[pass][io.offset];
  }
  const auto likeliest = [](const std::map<std::uint64_t, int>& of) {
    return std::max_element(of.begin(), of.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  };
  EXPECT_EQ(likeliest(seen[0]), likeliest(seen[1]));
  EXPECT_NE(likeliest(seen[0]), 0u);
}

TEST(IoSequence, FilesAreDrawnByADistribution) {
  const std::vector<std::uint64_t> bytes(8, 4096 * 500);
  for (const auto& [law, least] : std::vector<std::pair<const char*, double>>{
           {"zipf:1.2", 0.4}, {"pareto:0.1", 0.4}, {"normal:10", 0.3}, {"gauss:10", 0.3}}) {
    IoSequence sequence(job_of({{"filename", "f"}, {"rw", "randread"}, {"file_service_type", law}}), bytes, 3);
    const auto ios = pass_of(sequence, 0);
    EXPECT_EQ(ios.size(), 4000u) << law;  // every file is still visited whole
    std::map<std::size_t, int> seen;
    for (std::size_t i = 0; i < 500; ++i) ++seen[ios[i].file];
    const auto likeliest =
        std::max_element(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    EXPECT_GT(likeliest->second, 500 * least) << law;
    EXPECT_GT(seen.size(), 2u) << law;
    if (std::string(law) == "normal:10") {
      EXPECT_TRUE(likeliest->first == 3 || likeliest->first == 4);
    }
  }
}

TEST(IoSequence, SizesByOrderAreThoseOfBlocksInSequenceAndAtRandom) {
  const auto job = [](const Arguments& more) {
    Arguments arguments = {{"filename", "f"}, {"bs", "4k,16k"}, {"bs_is_seq_rand", "1"}};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return job_of(arguments);
  };
  for (const auto& [rw, size] : std::vector<std::pair<const char*, std::uint64_t>>{
           {"read", 4096}, {"write", 4096}, {"rw", 4096}, {"randread", 16384}, {"randwrite", 16384}}) {
    const JobOptions options = job({{"rw", rw}});
    EXPECT_TRUE(options.smallest_block() == size && options.largest_block() == size) << rw;
    IoSequence sequence(options, {1 << 20}, 1);
    const auto ios = pass_of(sequence, 0);
    EXPECT_EQ(ios.size(), (1u << 20) / size) << rw;
    for (const Io& io : ios) EXPECT_EQ(io.bytes, size);
  }
  const JobOptions options = job({{"rw", "randrw"}, {"percentage_random", "50"}});
  EXPECT_TRUE(options.smallest_block() == 4096 && options.largest_block() == 16384);
  IoSequence sequence(options, {16 << 20}, 1);
  std::map<std::uint64_t, int> seen;
  std::uint64_t next = 0;
  for (const Io& io : pass_of(sequence, 0)) {
    ++seen[io.bytes];
    if (io.bytes == 4096 && next > 0 && next < (16 << 20) - 4096) {
      EXPECT_EQ(io.offset, next);
    }
    next = io.offset + io.bytes;
  }
  EXPECT_NEAR(seen[4096], seen[16384], 200);
}

TEST(AccessZones, ZonesGetTheirShareOfReadsAndWrites) {
  constexpr std::uint64_t kBlocks = 1000;
  struct Case {
    const char *law, *rw;
    std::vector<std::pair<std::uint64_t, double>> reads, writes;  // end of each zone in blocks, share of draws
  };
  const std::vector<std::pair<std::uint64_t, double>> three = {{100, 0.6}, {300, 0.3}, {1000, 0.1}};
  for (const Case& each : std::vector<Case>{{"zoned:60/10:30/20:10/70", "randread", three, {}},
                                            {"zoned:60/10:30/20:10/", "randwrite", {}, three},
                                            {"zoned:60/10:30/20:10", "randrw", three, three},
                                            {"zoned:60/10:30/20:10/70,100/50", "randrw", three, {{500, 1}}},
                                            {"zoned:50/:50/", "randread", {{500, 0.5}, {1000, 0.5}}, {}},
                                            {"zoned:50/20:50/30", "randread", {{200, 0.5}, {500, 0.5}}, {}},
                                            {"zoned:0/50:100/50", "randread", {{500, 0}, {1000, 1}}, {}},
                                            {"zoned_abs:60/400k:30/800k:10/2800k", "randread", three, {}},
                                            {"zoned_abs:60/400k:40/400k", "randread", {{100, 0.6}, {200, 0.4}}, {}},
                                            {"zoned_abs:60/1:40/999k", "randread", {{1, 0.6}, {250, 0.4}}, {}}}) {
    IoSequence sequence(job_of({{"filename", "f"}, {"rw", each.rw}, {"random_distribution", each.law}}),
                        {4096 * kBlocks}, 3);
    std::vector<std::uint64_t> blocks[2];
    for (std::uint64_t pass = 0; pass < 40; ++pass) {
      for (const Io& io : pass_of(sequence, pass)) blocks[io.write ? 1 : 0].push_back(io.offset / 4096);
    }
    for (const bool write : {false, true}) {
      const auto& zones = write ? each.writes : each.reads;
      std::uint64_t begin = 0;
      for (const auto& [end, share] : zones) {
        const auto inside = std::count_if(blocks[write].begin(), blocks[write].end(),
                                          [&](std::uint64_t block) { return block >= begin && block < end; });
        EXPECT_NEAR(static_cast<double>(inside) / static_cast<double>(blocks[write].size()), share, 0.015)
            << each.law << " " << each.rw << " to " << end;
        // Uniform within the zone: its first half gets half of the draws.
        const auto half = std::count_if(blocks[write].begin(), blocks[write].end(), [&](std::uint64_t block) {
          return block >= begin && block < begin + (end - begin) / 2;
        });
        if (end - begin > 1) {
          EXPECT_NEAR(static_cast<double>(half), static_cast<double>(inside) / 2, 600) << each.law << " to " << end;
        }
        begin = end;
      }
      EXPECT_EQ(blocks[write].empty(), zones.empty()) << each.law;
    }
  }
  // Zones apply to each file, and to blocks of any size.
  IoSequence files(
      job_of({{"filename", "f"}, {"rw", "randread"}, {"bs", "4k-16k"}, {"random_distribution", "zoned:100/10:0/90"}}),
      {4'096'000, 409'600}, 3);
  for (const Io& io : pass_of(files, 0)) EXPECT_LT(io.offset, io.file == 0 ? 409'600u : 40'960u);
}

TEST(RateLimit, HoldsOnAverageAndTheSlowerOfTwoCounts) {
  RateLimit bytes(1'000'000, 0, false, 1), blocks(1'000'000, 10, false, 1), poisson(0, 1000, true, 1);
  for (int i = 0; i < 100; ++i) {
    bytes.begun(5'000'000'000, 10'000, 1);
    blocks.begun(5'000'000'000, 10'000, 1);
  }
  EXPECT_EQ(bytes.due(), 6'000'000'000u);
  EXPECT_EQ(blocks.due(), 15'000'000'000u);
  for (int i = 0; i < 10'000; ++i) poisson.begun(1, 1, 1);
  EXPECT_NEAR(static_cast<double>(poisson.due()), 1e10, 5e8);
  RateLimit slow(1, 0, false, 1);
  slow.begun(1, UINT64_MAX, 1);
  EXPECT_EQ(slow.due(), std::uint64_t{1} << 62);
  EXPECT_FALSE(RateLimit().limits());
}

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte byte : bytes) {
    out += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    out += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15];
  }
  return out;
}

TEST(VerifySum, StandardVectorsInAnySplit) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); };
  for (const auto& [text, sum] : std::vector<std::pair<std::string, std::string>>{
           {"", "d41d8cd98f00b204e9800998ecf8427e"},
           {"a", "0cc175b9c0f1b6a831c399e269772661"},
           {"abc", "900150983cd24fb0d6963f7d28e17f72"},
           {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
           {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a"}}) {
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      EXPECT_EQ(hex(md5(bytes(text).first(cut), bytes(text).subspan(cut))), sum) << text << " at " << cut;
    }
  }
  // The check values of the CRC catalogue, with any split of the input.
  const std::string_view check = "123456789";
  for (std::size_t cut = 0; cut <= check.size(); ++cut) {
    const auto first = bytes(check.substr(0, cut)), second = bytes(check.substr(cut));
    EXPECT_EQ(crc7(second, crc7(first)), 0x75);
    EXPECT_EQ(crc16(second, crc16(first)), 0xBB3D);
    EXPECT_EQ(crc32(second, crc32(first)), 0xCBF43926u);
    EXPECT_EQ(crc32c(second, crc32c(first)), 0xE3069283u);
    EXPECT_EQ(crc64(second, crc64(first)), 0x995DC9BBDF1939FAu);
  }
  EXPECT_EQ(xxh32({}), 0x02CC5D05u);
  EXPECT_EQ(xxh32(bytes("a")), 0x550D7456u);
  EXPECT_EQ(xxh32(bytes("abc")), 0x32D153FFu);
  EXPECT_EQ(xxh32(bytes("Nobody inspects the spammish repetition")), 0xE2293B2Fu);
}

TEST(Verify, EachSumSeesAFlippedBitAndTheBlocksOfOthers) {
  const VerifySum sums[] = {VerifySum::kCrc32c, VerifySum::kXxhash, VerifySum::kMd5,   VerifySum::kSha256,
                            VerifySum::kCrc7,   VerifySum::kCrc16,  VerifySum::kCrc32, VerifySum::kCrc64};
  for (const VerifySum sum : sums) {
    for (const char* pattern : {"", "0xdeadbeef"}) {
      const VerifyFormat format(5, sum, *pattern == 0 ? BlockPattern() : parse_pattern(pattern).value());
      std::vector<std::byte> block(192);
      fill_verify_block(block, 4096, format, 3);
      EXPECT_EQ(verify_block_sequence(block, 4096, format), 3u);
      for (std::size_t bit = 0; bit < block.size() * 8; ++bit) {
        VerifyChecker checker(format);
        ASSERT_FALSE(checker.check(block, 4096, 3));
        block[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        const auto fault = checker.check(block, 4096, 3);
        ASSERT_TRUE(fault) << bit;
        EXPECT_EQ(fault->kind, FaultKind::kFlipped);
        EXPECT_EQ(fault->offset_bytes, 4096 + bit / 8);
        block[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      }
      for (const VerifySum other : sums) {
        if (other == sum) continue;
        const VerifyFormat theirs(5, other, format.pattern);
        EXPECT_FALSE(verify_block_sequence(block, 4096, theirs));
        EXPECT_TRUE(VerifyChecker(theirs).check(block, 4096, 3));
      }
    }
  }
}

TEST(WrittenBlocks, ABlockIsKnownUntilOtherBytesMayBeThere) {
  WrittenBlocks written({10, 3});
  EXPECT_EQ(written.sequence(0, 4), 0u);
  EXPECT_FALSE(written.run_from(0, 0, 10));
  written.begin(0, 4, 3, 7);
  EXPECT_EQ(written.sequence(0, 4), 0u);
  written.end(0, 4, 3, 7);
  EXPECT_EQ(written.sequence(0, 4), 7u);
  EXPECT_EQ(written.sequence(0, 3), 0u);
  EXPECT_EQ(written.sequence(0, 7), 0u);
  EXPECT_EQ(written.sequence(1, 0), 0u);
  // Writing the same bytes again changes nothing. Different bytes may be there from the moment their write begins.
  written.begin(0, 5, 1, 7);
  EXPECT_EQ(written.sequence(0, 5), 7u);
  written.begin(0, 5, 1, 8);
  EXPECT_EQ(written.sequence(0, 5), 0u);
  written.end(0, 5, 1, 8);
  EXPECT_EQ(written.sequence(0, 5), 8u);
  written.begin(1, 2, 1, 8);
  written.end(1, 2, 1, 8);
  const auto expect_run = [&](std::size_t file, std::uint64_t from, std::uint64_t most, const WrittenRun& wanted) {
    const auto run = written.run_from(file, from, most);
    ASSERT_TRUE(run);
    EXPECT_TRUE(run->block == wanted.block && run->blocks == wanted.blocks && run->sequence == wanted.sequence)
        << run->block << " " << run->blocks << " " << run->sequence;
  };
  expect_run(0, 0, 10, {4, 1, 7});
  expect_run(0, 5, 10, {5, 1, 8});
  expect_run(0, 6, 10, {6, 1, 7});
  EXPECT_FALSE(written.run_from(0, 7, 10));
  expect_run(1, 0, 10, {2, 1, 8});
  WrittenBlocks whole({8});
  whole.begin(0, 0, 8, 1);
  whole.end(0, 0, 8, 1);
  expect_run(0, 6, 10, {6, 1, 7});
  const auto piece = whole.run_from(0, 3, 4);
  ASSERT_TRUE(piece);
  EXPECT_TRUE(piece->block == 3 && piece->blocks == 4);
}

TEST(Verify, MetaSeesWhereABlockBelongsAndNotWhatIsInIt) {
  const VerifyFormat format(5, VerifySum::kMeta, {});
  std::vector<std::byte> block(128);
  fill_verify_block(block, 4096, format, 3);
  VerifyChecker checker(format);
  EXPECT_FALSE(checker.check(block, 4096, 3));
  EXPECT_EQ(checker.check(block, 8192, 3)->kind, FaultKind::kMisplaced);
  EXPECT_EQ(checker.check(block, 4096, 4)->kind, FaultKind::kStale);
  block[100] ^= std::byte{1};
  EXPECT_FALSE(checker.check(block, 4096, 3));
  block[10] ^= std::byte{1};
  EXPECT_TRUE(checker.check(block, 4096, 3));
}

TEST(Verify, APatternAloneIsCompared) {
  const VerifyFormat format(1, VerifySum::kPattern, parse_pattern("\"ab\"0xff%o").value());
  std::vector<std::byte> block(100);
  fill_verify_block(block, 0x0102030405060708, format, 1);
  EXPECT_EQ(hex(std::span<const std::byte>(block).first(13)), "6162ff08070605040302016162");
  VerifyChecker checker(format);
  EXPECT_FALSE(checker.check(block, 0x0102030405060708, 0));
  EXPECT_TRUE(checker.check(block, 0x0102030405060709, 0));
  block[50] ^= std::byte{1};
  const auto fault = checker.check(block, 0x0102030405060708, 0);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, FaultKind::kFlipped);
  EXPECT_EQ(fault->offset_bytes, 0x0102030405060708u + 50);
  EXPECT_EQ(checker.check(std::vector<std::byte>(100), UINT64_MAX, 0)->kind, FaultKind::kForeign);
  EXPECT_EQ(parse_pattern("170").value().bytes, "\xAA");
  EXPECT_EQ(parse_pattern("0x123").value().bytes, "\x01\x23");
  EXPECT_FALSE(parse_pattern("0x" + std::string(2000, 'a')).ok());
}

}  // namespace
}  // namespace headrace::bench
