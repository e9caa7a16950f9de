// Property: the device begins; whoever is faster decodes in the long run, at a loss of at most 5 %, also when the rates
// change; what was learnt is kept for the next read; a read of few waves stays on the device.
#include "transfer/placement.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kWaveBytes = 32'000'000;

// Waves pass one after another through whatever is the bottleneck, `in_flight` of them begun ahead.
struct Simulation {
  PlacementPolicy& policy;
  std::function<double(WaveKind, std::uint64_t wave)> cost_ms;
  std::size_t in_flight = 4;
  std::uint64_t now = 1'000 * kMs;
  std::uint64_t waves[2] = {0, 0};
  double total_ms = 0;

  void run(std::uint64_t count) {
    std::deque<std::pair<WaveKind, std::uint64_t>> begun;
    for (std::uint64_t done = 0; done < count; ++done) {
      while (begun.size() < in_flight && done + begun.size() < count) begun.emplace_back(policy.begin(now), now);
      const auto [kind, begun_ns] = begun.front();
      begun.pop_front();
      const double ms = cost_ms(kind, done);
      now += static_cast<std::uint64_t>(ms * 1e6);
      total_ms += ms;
      ++waves[static_cast<std::size_t>(kind)];
      policy.end(kind, begun_ns, kWaveBytes, now);
    }
  }
};

double constant(WaveKind kind, double gpu_ms, double cpu_ms) { return kind == WaveKind::kGpu ? gpu_ms : cpu_ms; }

TEST(Placement, TheFasterDecodesInTheLongRun) {
  for (const auto& [gpu, cpu] :
       {std::pair{1.0, 10.0}, {1.0, 3.0}, {1.0, 1.2}, {1.0, 1.0}, {1.2, 1.0}, {3.0, 1.0}, {10.0, 1.0}}) {
    for (const std::size_t in_flight : {1u, 4u, 8u}) {
      SCOPED_TRACE(std::to_string(gpu) + " ms against " + std::to_string(cpu) + ", " + std::to_string(in_flight));
      PlacementPolicy policy;
      Simulation read{policy, [&, g = gpu, c = cpu](WaveKind kind, std::uint64_t) { return constant(kind, g, c); },
                      in_flight};
      read.run(10000);
      EXPECT_LE(read.total_ms, 1.05 * 10000 * std::min(gpu, cpu));
    }
  }
}

TEST(Placement, NoisyWavesChangeNothing) {
  for (const auto& [gpu, cpu] : {std::pair{1.0, 2.0}, {2.0, 1.0}}) {
    std::mt19937_64 random(7);
    PlacementPolicy policy;
    Simulation read{policy, [&, g = gpu, c = cpu](WaveKind kind, std::uint64_t) {
                      return constant(kind, g, c) * (0.4 + 1.2 * static_cast<double>(random() % 1000) / 1000);
                    }};
    read.run(6000);
    EXPECT_LE(read.total_ms, 1.06 * 6000 * std::min(gpu, cpu));
  }
}

TEST(Placement, FollowsAChange) {
  PlacementPolicy policy;
  Simulation read{policy, [](WaveKind kind, std::uint64_t wave) {
                    return wave < 3000 ? constant(kind, 1.0, 3.0) : constant(kind, 3.0, 1.0);
                  }};
  read.run(3000);
  EXPECT_GT(read.waves[0], 2900u);
  const double before = read.total_ms;
  read.cost_ms = [](WaveKind kind, std::uint64_t) { return constant(kind, 3.0, 1.0); };
  read.run(6000);
  EXPECT_LE(read.total_ms - before, 1.1 * 6000);
}

TEST(Placement, AShortReadStaysOnTheDevice) {
  PlacementPolicy policy;
  Simulation read{policy, [](WaveKind kind, std::uint64_t) { return constant(kind, 1.0, 1.0); }};
  read.run(6);
  EXPECT_EQ(read.waves[0], 6u);
}

TEST(Placement, TheNextReadBeginsWhereTheLastEnded) {
  PlacementMemory memory;
  {
    Simulation read{*memory.for_device("cuda:0"),
                    [](WaveKind kind, std::uint64_t) { return constant(kind, 5.0, 1.0); }};
    read.run(100);
  }
  // Reads of few waves, an idle time between them that is nobody's.
  Simulation later{*memory.for_device("cuda:0"), [](WaveKind kind, std::uint64_t) { return constant(kind, 5.0, 1.0); }};
  for (int i = 0; i < 50; ++i) {
    later.run(2);
    later.now += 500 * kMs;
  }
  EXPECT_LE(later.waves[0], 8u);
  EXPECT_NEAR(memory.for_device("cuda:0")->rate(WaveKind::kCpu), kWaveBytes / 1e-3, kWaveBytes / 1e-3 * 0.01);
  // Another device is another matter.
  EXPECT_EQ(memory.for_device("cuda:1")->begin(0), WaveKind::kGpu);
  EXPECT_NE(memory.for_device("cuda:1"), memory.for_device("cuda:0"));
}

// A turn that was slow for a reason that has passed does not bring the slower kind to power.
TEST(Placement, ASlowTurnIsForgiven) {
  for (const std::uint64_t slow_read : {1u, 3u, 4u, 6u}) {
    PlacementPolicy policy;
    std::uint64_t reads = 0;
    Simulation read{
        policy, [&](WaveKind kind, std::uint64_t) { return constant(kind, reads == slow_read ? 10.0 : 1.0, 3.0); }, 8};
    for (; reads < 20; ++reads) {
      read.run(8);
      read.now += 30 * kMs;
    }
    EXPECT_LE(read.waves[1], 24u) << "slow in read " << slow_read;
  }
}

// Reads of eight waves. The device takes 40 ms for them, and all its ends are noticed together; the CPU takes 8 ms.
TEST(Placement, EndsSeenInOneGoAreNotSpeed) {
  PlacementPolicy policy;
  std::uint64_t now = kMs, cpu_waves = 0;
  for (int read = 0; read < 8; ++read) {
    const std::uint64_t begun = now;
    std::vector<WaveKind> kinds;
    for (int i = 0; i < 8; ++i) kinds.push_back(policy.begin(begun));
    now += 8 * (kinds[0] == WaveKind::kGpu ? 5 : 0) * kMs;
    for (const WaveKind kind : kinds) {
      now += kind == WaveKind::kGpu ? 1 : kMs;
      policy.end(kind, begun, kWaveBytes, now);
      cpu_waves += kind == WaveKind::kCpu ? 1 : 0;
    }
  }
  EXPECT_GE(cpu_waves, 5 * 8u);
}

// The CPU works while the device's waves are still under way: what they do together says nothing of either.
TEST(Placement, WavesOfTwoKindsAtOnceTellNothing) {
  PlacementPolicy policy;
  std::uint64_t now = kMs;
  // Reads of eight waves, all begun at once. The device ends all of its waves after 10 ms; the CPU's take 5 ms each.
  for (int read = 0; read < 40; ++read) {
    const std::uint64_t begun = now;
    std::size_t kinds[2] = {0, 0};
    for (int i = 0; i < 8; ++i) ++kinds[static_cast<std::size_t>(policy.begin(begun))];
    for (; kinds[0] > 0; --kinds[0]) policy.end(WaveKind::kGpu, begun, kWaveBytes, begun + 10 * kMs);
    for (std::uint64_t i = 1; i <= kinds[1]; ++i) policy.end(WaveKind::kCpu, begun, kWaveBytes, begun + i * 5 * kMs);
    now = begun + std::max<std::uint64_t>(10, kinds[1] * 5) * kMs + 50 * kMs;
  }
  EXPECT_GT(policy.rate(WaveKind::kGpu), 3.5 * policy.rate(WaveKind::kCpu));
  EXPECT_EQ(policy.begin(now), WaveKind::kGpu);
}

TEST(Placement, WavesThatWereGivenUpTellNothing) {
  PlacementPolicy policy;
  for (int i = 0; i < 100; ++i) {
    const WaveKind kind = policy.begin(0);
    policy.end(kind, 0, 0, 1000 * kMs);
    EXPECT_EQ(kind, WaveKind::kGpu);
  }
  EXPECT_EQ(policy.rate(WaveKind::kGpu), 0);
}

}  // namespace
}  // namespace headrace::transfer
