// Pieces in rounds: places do not overlap and fit the memory, and each round has its share of each stream.
#include "tests/support/cuda_on_cpu.h"
//
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "codecs/lz77/lz77_rounds_device.cuh"

namespace headrace::test {
namespace {

namespace lz77 = codec::gpu::lz77;

struct PieceList {
  lz77::Rounds rounds;
  std::vector<lz77::StreamNeeds> streams;
  std::vector<std::uint32_t> before, need, stream_of;

  std::uint32_t stream_count() const { return static_cast<std::uint32_t>(streams.size()); }
  lz77::StreamNeeds needs(std::uint32_t i) const { return streams[i]; }
  std::uint32_t needed_before(std::uint32_t x) const { return before[x]; }

  void add_stream(const std::vector<std::uint32_t>& pieces, bool bad = false) {
    const std::uint64_t upto = streams.empty() ? 0 : streams.back().units_before + streams.back().units;
    lz77::StreamNeeds stream{static_cast<std::uint32_t>(need.size()), static_cast<std::uint32_t>(pieces.size()), 0,
                             upto};
    std::uint32_t units = 0;
    for (const std::uint32_t piece : pieces) {
      before.push_back(units);
      need.push_back(bad ? 0 : piece);
      stream_of.push_back(stream_count());
      units += piece;
    }
    stream.units = bad ? 0 : units;
    streams.push_back(stream);
  }
  std::uint64_t units() const { return streams.back().units_before + streams.back().units; }
};

constexpr std::uint32_t kMostPiece = 500;

// Computes and checks the places of all pieces for memory of this number of rounds.
struct Placed {
  lz77::RoundTotals totals{};
  std::vector<std::uint32_t> parts;
  std::vector<std::uint64_t> shares;
  std::vector<lz77::RoundPlace> places;

  Placed(PieceList& list, std::uint32_t rounds)
      : parts(list.streams.size() * (rounds + 1)), shares(list.streams.size() * rounds), places(list.need.size()) {
    const auto per_round = static_cast<std::uint32_t>(list.units() / rounds + 1);
    list.rounds = {rounds, per_round, &totals, parts.data(), shares.data()};
    constexpr unsigned kThreads = 64;
    std::uint64_t shared[kThreads / 32];
    testing::gpu::launch(1, kThreads, [&] { lz77::scan_rounds(list, shared); });
    for (std::uint32_t x = 0; x < list.need.size(); ++x) places[x] = lz77::find_place(list, list.stream_of[x], x);
    check(list, rounds, per_round);
  }

  void check(const PieceList& list, std::uint32_t rounds, std::uint32_t per_round) const {
    std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> taken(rounds);
    for (std::uint32_t x = 0; x < places.size(); ++x) {
      ASSERT_LT(places[x].round, rounds);
      ASSERT_LT(places[x].place, per_round);  // so it fits with kMostPiece more
      if (list.need[x] != 0) taken[places[x].round].emplace_back(places[x].place, list.need[x]);
    }
    for (auto& round : taken) {
      std::sort(round.begin(), round.end());
      for (std::size_t k = 1; k < round.size(); ++k) {
        ASSERT_LE(round[k - 1].first + round[k - 1].second, round[k].first);
      }
    }
    for (std::uint32_t i = 0; i < list.streams.size(); ++i) {
      const lz77::StreamNeeds& stream = list.streams[i];
      if (stream.count == 0) continue;
      std::uint32_t next = stream.first;
      for (std::uint32_t r = 0; r < rounds; ++r) {
        const lz77::Part part = lz77::part_of_round(list.rounds, i, r);
        ASSERT_EQ(part.from, next);
        ASSERT_LE(part.from, part.to);
        for (std::uint32_t x = part.from; x < part.to; ++x) ASSERT_EQ(places[x].round, r);
        next = part.to;
      }
      ASSERT_EQ(next, stream.first + stream.count);
    }
  }
};

std::vector<std::uint32_t> pieces(std::mt19937& rng, std::size_t count, std::uint32_t most) {
  std::vector<std::uint32_t> out(count);
  for (auto& piece : out) piece = rng() % 4 == 0 ? 0 : static_cast<std::uint32_t>(rng() % (most + 1));
  return out;
}

TEST(Lz77Rounds, PlacesNeverOverlapWhateverIsThere) {
  std::mt19937 rng(11);
  for (int turn = 0; turn < 300; ++turn) {
    PieceList list;
    const std::size_t streams = 1 + rng() % 200;
    for (std::size_t i = 0; i < streams; ++i) {
      list.add_stream(pieces(rng, rng() % 3 == 0 ? rng() % 2 : rng() % 40, rng() % 5 == 0 ? kMostPiece : 20),
                      rng() % 7 == 0);
    }
    const Placed placed(list, 1 + static_cast<std::uint32_t>(rng() % 4));
    if (HasFatalFailure()) FAIL() << "turn " << turn;
  }
}

TEST(Lz77Rounds, EachRoundHasAShareOfEachStream) {
  std::mt19937 rng(12);
  for (const std::uint32_t rounds : {2u, 3u, 4u}) {
    PieceList list;
    for (int i = 0; i < 64; ++i) {
      std::vector<std::uint32_t> own(100 + rng() % 100);
      for (auto& piece : own) piece = 1 + static_cast<std::uint32_t>(rng() % kMostPiece);
      list.add_stream(own);
    }
    const Placed placed(list, rounds);
    EXPECT_EQ(placed.totals.shares, rounds);
    // Shares differ by up to a piece; summed over the streams, the end of a round moves by a few shares.
    int unfair = 0;
    for (std::uint32_t i = 0; i < list.streams.size(); ++i) {
      const std::uint32_t fair = list.streams[i].count / rounds;
      for (std::uint32_t r = 0; r < rounds; ++r) {
        const lz77::Part part = lz77::part_of_round(list.rounds, i, r);
        unfair += part.to - part.from < fair / 2 || part.to - part.from > fair * 3 / 2;
      }
    }
    EXPECT_LE(unfair, 4 * 2 * static_cast<int>(rounds - 1)) << rounds;
  }
}

TEST(Lz77Rounds, ManyStreamsAreOneBehindTheOther) {
  PieceList list;
  for (std::uint32_t i = 0; i <= lz77::kMaxSharing; ++i) list.add_stream({3, 5});
  const Placed placed(list, 2);
  EXPECT_EQ(placed.totals.shares, 1u);
  EXPECT_EQ(placed.places[0].round, 0u);
  EXPECT_EQ(placed.places[1].round, 0u);
  EXPECT_EQ(placed.places.back().round, 1u);
}

TEST(Lz77Rounds, OneRoundIsTheSumAsItIs) {
  PieceList list;
  list.add_stream({3, 0, 5});
  list.add_stream({});
  list.add_stream({7});
  const Placed placed(list, 1);
  EXPECT_EQ(placed.totals.shares, 1u);
  EXPECT_EQ(placed.places[2].place, 3u);
  EXPECT_EQ(placed.places[3].place, 8u);
}

}  // namespace
}  // namespace headrace::test
