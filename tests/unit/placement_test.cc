// Property: the device begins; in the long run the faster processor decodes, at a loss of at most 5 %, even if the
// rates change. Measured rates are kept for the next read and apply to other arrays. A read of few waves stays on the
// device, and finding out that the CPU is much slower does not slow down any read.
#include "transfer/placement/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "support/sanitizer.h"

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kWaveBytes = 32'000'000;

// Waves pass one after the other through the bottleneck, with `in_flight` of them begun ahead.
struct Simulation {
  PlacementPolicy& policy;
  std::function<double(WaveKind, std::uint64_t wave)> cost_ms;
  std::size_t in_flight = 4;
  std::uint64_t now = 1'000 * kMs;
  std::uint64_t waves[2] = {0, 0};
  double total_ms = 0;

  void run(std::uint64_t count) {
    std::deque<std::pair<WaveChoice, std::uint64_t>> begun;
    for (std::uint64_t done = 0; done < count; ++done) {
      while (begun.size() < in_flight && done + begun.size() < count) begun.emplace_back(policy.begin(now), now);
      const auto [choice, begun_ns] = begun.front();
      begun.pop_front();
      const double ms = cost_ms(choice.kind, done);
      now += static_cast<std::uint64_t>(ms * 1e6);
      total_ms += ms;
      ++waves[static_cast<std::size_t>(choice.kind)];
      policy.end(choice, begun_ns, kWaveBytes, now);
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
    Simulation read{*memory.of("cuda:0", nullptr),
                    [](WaveKind kind, std::uint64_t) { return constant(kind, 5.0, 1.0); }};
    read.run(100);
  }
  // Reads of few waves, with idle time between them that must not be counted.
  Simulation later{*memory.of("cuda:0", nullptr),
                   [](WaveKind kind, std::uint64_t) { return constant(kind, 5.0, 1.0); }};
  for (int i = 0; i < 50; ++i) {
    later.run(2);
    later.now += 500 * kMs;
  }
  EXPECT_LE(later.waves[0], 8u);
  EXPECT_NEAR(memory.of("cuda:0", nullptr)->rate(WaveKind::kCpu), kWaveBytes / 1e-3, kWaveBytes / 1e-3 * 0.01);
  // Rates are separate for each device.
  EXPECT_EQ(memory.of("cuda:1", nullptr)->begin(0).kind, WaveKind::kGpu);
  EXPECT_NE(memory.of("cuda:1", nullptr), memory.of("cuda:0", nullptr));
}

// A turn that was slow for a transient reason does not make the policy switch to the slower processor.
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

// A quarter of the files is registered at each of the first four reads; when all are, the device reads them four times
// as fast.
TEST(Placement, FilesThatAreMappedLaterAreWaitedFor) {
  for (const bool ever : {true, false}) {
    PlacementPolicy policy;
    std::uint64_t now = kMs;
    std::vector<std::uint64_t> by_device;
    for (int read = 0; read < 20; ++read) {
      const std::uint64_t mapped_bytes = ever ? std::min<std::uint64_t>(read, 4) * kWaveBytes : 0;
      std::deque<std::pair<WaveChoice, std::uint64_t>> begun;
      std::uint64_t device_waves = 0;
      for (int i = 0; i < 8; ++i) begun.emplace_back(policy.begin(now, mapped_bytes), now);
      for (const auto& [wave, begun_ns] : begun) {
        now += (wave.kind == WaveKind::kCpu ? 2 : mapped_bytes >= 4 * kWaveBytes ? 1 : 4) * kMs;
        device_waves += wave.kind == WaveKind::kGpu ? 1 : 0;
        policy.end(wave, begun_ns, kWaveBytes, now, {1e9, 64, 8});
      }
      by_device.push_back(device_waves);
      now += 30 * kMs;
    }
    for (std::size_t read = 10; read < by_device.size(); ++read) EXPECT_EQ(by_device[read], ever ? 8u : 0u) << read;
  }
}

// Reads of eight waves. The device takes 40 ms for them, and all their ends are noticed at once; the CPU takes 8 ms.
TEST(Placement, EndsNoticedTogetherAreNotMeasured) {
  PlacementPolicy policy;
  std::uint64_t now = kMs, cpu_waves = 0;
  for (int read = 0; read < 8; ++read) {
    const std::uint64_t begun = now;
    std::vector<WaveChoice> waves;
    for (int i = 0; i < 8; ++i) waves.push_back(policy.begin(begun));
    now += 8 * (waves[7].kind == WaveKind::kGpu ? 5 : 0) * kMs;
    for (const WaveChoice& wave : waves) {
      now += wave.kind == WaveKind::kGpu ? 1 : kMs;
      policy.end(wave, begun, kWaveBytes, now);
      cpu_waves += wave.kind == WaveKind::kCpu ? 1 : 0;
    }
  }
  EXPECT_GE(cpu_waves, 5 * 8u);
}

TEST(Placement, TrialsAreMarked) {
  for (const auto& [gpu, cpu] : {std::pair{1.0, 1.3}, {3.0, 1.0}}) {
    const WaveKind slower = gpu > cpu ? WaveKind::kGpu : WaveKind::kCpu;
    PlacementPolicy policy;
    std::uint64_t now = kMs;
    int trials = 0, of_slower = 0;
    for (int i = 0; i < 20000; ++i) {
      const std::uint64_t begun = now;
      const WaveChoice wave = policy.begin(begun);
      now += static_cast<std::uint64_t>(constant(wave.kind, gpu, cpu) * kMs);
      policy.end(wave, begun, kWaveBytes, now);
      if (i == 0) {
        EXPECT_FALSE(wave.trial);
      }
      if (i < 100 || wave.probe) continue;  // skip the first turns, and probes
      EXPECT_EQ(wave.trial, wave.kind == slower) << i;
      trials += wave.trial ? 1 : 0;
      of_slower += wave.kind == slower ? 1 : 0;
    }
    EXPECT_GT(of_slower, 0);
    EXPECT_EQ(trials, of_slower);
  }
}

// If the CPU works while the device's waves are in flight, the timing says nothing about either.
TEST(Placement, ConcurrentWavesOfTwoKindsAreNotMeasured) {
  PlacementPolicy policy;
  std::uint64_t now = kMs;
  // Reads of eight waves, all begun at once. The device ends all of its waves after 10 ms; the CPU's take 5 ms each.
  for (int read = 0; read < 40; ++read) {
    const std::uint64_t begun = now;
    std::vector<WaveChoice> kinds[2];
    for (int i = 0; i < 8; ++i) {
      const WaveChoice wave = policy.begin(begun);
      kinds[static_cast<std::size_t>(wave.kind)].push_back(wave);
    }
    for (const WaveChoice& wave : kinds[0]) policy.end(wave, begun, kWaveBytes, begun + 10 * kMs);
    std::uint64_t ended = begun;
    for (const WaveChoice& wave : kinds[1]) policy.end(wave, begun, kWaveBytes, ended += 5 * kMs);
    now = std::max(begun + 10 * kMs, ended) + 50 * kMs;
  }
  EXPECT_GT(policy.rate(WaveKind::kGpu), 3.5 * policy.rate(WaveKind::kCpu));
  EXPECT_EQ(policy.begin(now).kind, WaveKind::kGpu);
}

TEST(Placement, AbandonedWavesAreNotMeasured) {
  PlacementPolicy policy;
  for (int i = 0; i < 100; ++i) {
    const WaveChoice wave = policy.begin(0);
    policy.end(wave, 0, 0, 1000 * kMs);
    EXPECT_EQ(wave.kind, WaveKind::kGpu);
  }
  EXPECT_EQ(policy.rate(WaveKind::kGpu), 0);
}

// Two processors side by side, each with a queue. The CPU's threads take a wave only when the previous one is
// finished, so at most four are planned at a time. While the CPU decodes, the device's waves take 1.5 times as long. A
// probe has the bytes of a wave for half of the threads: large chunks.
struct Machine {
  double gpu_ms = 1, cpu_ms = 4;
  double loose = 2;         // how much faster a probe's threads are than all threads together
  double loose_turn = 1.2;  // the same for a turn's threads
  std::size_t in_flight = 8;
  double now_ms = 1;

  struct Active {
    WaveChoice choice;
    double begun_ms = 0, end_ms = 0;
  };

  // Milliseconds that a read takes.
  double read(PlacementPolicy& policy, std::uint64_t waves, std::uint64_t* by_cpu = nullptr) {
    const double from = now_ms;
    std::array<std::deque<Active>, 2> queues;  // the first of each is being processed
    const auto ns = [](double ms) { return static_cast<std::uint64_t>(ms * 1e6); };
    const auto start = [&](std::size_t kind) {
      if (queues[kind].empty()) return;
      Active& wave = queues[kind].front();
      wave.end_ms =
          now_ms + (kind == 0 ? gpu_ms * (queues[1].empty() ? 1 : 1.5) : cpu_ms * (wave.choice.probe ? 2 : 1));
    };
    for (std::uint64_t begun = 0; begun < waves || !queues[0].empty() || !queues[1].empty();) {
      while (begun < waves && queues[0].size() + queues[1].size() < in_flight && queues[1].size() < 4) {
        const WaveChoice choice = policy.begin(ns(now_ms));
        const auto kind = static_cast<std::size_t>(choice.kind);
        queues[kind].push_back({choice, now_ms, 0});
        if (queues[kind].size() == 1) start(kind);
        ++begun;
      }
      const std::size_t next =
          queues[1].empty() || (!queues[0].empty() && queues[0].front().end_ms <= queues[1].front().end_ms) ? 0 : 1;
      const Active done = queues[next].front();
      queues[next].pop_front();
      now_ms = std::max(now_ms, done.end_ms);
      const double thread_rate = kWaveBytes / (cpu_ms * 1e-3) / 16 * (done.choice.probe ? loose : loose_turn);
      policy.end(done.choice, ns(done.begun_ms), kWaveBytes, ns(now_ms), {next == 1 ? thread_rate : 0, 16, 16});
      if (by_cpu != nullptr) *by_cpu += next;
      start(next);
    }
    const double took = now_ms - from;
    now_ms += 3;  // idle time
    return took;
  }
};

// Time relative to the optimum: of the slowest read, and of all reads together.
struct Loss {
  double worst = 0, total = 0;
};
Loss loss_of(Machine& machine, PlacementPolicy& policy, int reads, std::uint64_t waves) {
  const double best = std::min(machine.gpu_ms, machine.cpu_ms) * static_cast<double>(waves);
  Loss loss;
  for (int i = 0; i < reads; ++i) {
    const double ratio = machine.read(policy, waves) / best;
    loss.worst = std::max(loss.worst, ratio);
    loss.total += ratio / reads;
  }
  return loss;
}

TEST(Placement, AShortReadIsNotSlowedDownByATrial) {
  for (const double cpu_ms : {2.5, 4.0, 10.0}) {
    SCOPED_TRACE(cpu_ms);
    Machine machine{.cpu_ms = cpu_ms};
    PlacementPolicy policy;
    const Loss loss = loss_of(machine, policy, 10, 8);
    // A probe's chunks take as long as two waves of the CPU.
    EXPECT_LE(loss.worst, std::max(1.35, 2 * cpu_ms / 8 + 0.01));
    EXPECT_LE(loss.total, cpu_ms <= 4 ? 1.06 : 1.2);
    EXPECT_LE(loss_of(machine, policy, 1000, 8).total, 1.015);
  }
}

// The rate of a probe's threads alone is not that of all threads together: only a turn shows it.
TEST(Placement, ATurnEndsWhenItsOwnWavesAreConclusive) {
  Machine machine{.loose = 8};
  PlacementPolicy policy;
  const Loss loss = loss_of(machine, policy, 10, 8);
  EXPECT_LE(loss.worst, 2.6);
  EXPECT_LE(loss.total, 1.2);
  EXPECT_LE(loss_of(machine, policy, 1000, 8).total, 1.02);
}

TEST(Placement, ArraysOfAKindShareRates) {
  for (const double cpu_ms : {4.0, 0.25}) {
    SCOPED_TRACE(cpu_ms);
    const auto prior = std::make_shared<PlacementPrior>();
    Machine machine{.cpu_ms = cpu_ms};
    PlacementPolicy first(prior), second(prior), other;
    loss_of(machine, first, 30, 8);
    const Loss known = loss_of(machine, second, 10, 8);
    EXPECT_LE(known.worst, 1.02);
    EXPECT_LE(known.total, 1.02);
    EXPECT_LE(loss_of(machine, second, 500, 8).total, 1.02);
    // Without a shared prior, the rates must be measured.
    EXPECT_GT(loss_of(machine, other, 10, 8).total, 1.02);
  }
}

// Nothing is known about an array whose chunks decode at quite different rates.
TEST(Placement, AnUnusualArrayOfAKindRelearns) {
  for (const bool cpu_was_faster : {false, true}) {
    SCOPED_TRACE(cpu_was_faster);
    const auto prior = std::make_shared<PlacementPrior>();
    Machine one{.gpu_ms = 1, .cpu_ms = cpu_was_faster ? 0.25 : 4};
    PlacementPolicy first(prior), second(prior);
    loss_of(one, first, 30, 8);
    Machine unlike{.gpu_ms = cpu_was_faster ? 1.0 : 4.0, .cpu_ms = cpu_was_faster ? 4.0 : 1.0};
    loss_of(unlike, second, 5, 8);
    EXPECT_LE(loss_of(unlike, second, 20, 8).total, 1.05);
  }
}

TEST(Placement, ACpuThatIsFasterIsFoundInAFewReads) {
  for (const std::uint64_t waves : {1u, 2u, 8u, 100u}) {
    SCOPED_TRACE(waves);
    Machine machine{.gpu_ms = 3, .cpu_ms = 1};
    PlacementPolicy policy;
    for (std::uint64_t read = 0; read < 4 + 20 / waves; ++read) machine.read(policy, waves);
    std::uint64_t by_cpu = 0;
    for (int i = 0; i < 10; ++i) machine.read(policy, waves, &by_cpu);
    EXPECT_GE(by_cpu, 9 * waves);
  }
  // A CPU that becomes faster later is noticed too.
  Machine machine;
  PlacementPolicy policy;
  loss_of(machine, policy, 50, 8);
  machine.gpu_ms = 3;
  machine.cpu_ms = 1;
  loss_of(machine, policy, 30, 8);
  EXPECT_LE(loss_of(machine, policy, 50, 8).total, 1.1);
}

// The ends of device waves during a probe say nothing about speed.
TEST(Placement, WavesBesideAProbeAreNotMeasured) {
  PlacementPolicy policy;
  std::uint64_t now = kMs, probes = 0;
  for (int read = 0; read < 10; ++read) {
    const std::uint64_t begun = now;
    std::vector<WaveChoice> waves;
    for (int i = 0; i < 8; ++i) waves.push_back(policy.begin(begun));
    const bool probed = waves[0].probe;
    for (const WaveChoice& wave : waves) {
      if (wave.probe) continue;
      ASSERT_EQ(wave.kind, WaveKind::kGpu);
      policy.end(wave, begun, kWaveBytes, now += probed ? kMs / 50 : kMs);
    }
    if (probed) policy.end(waves[0], begun, kWaveBytes, now += 5 * kMs, {0.1 * kWaveBytes / 1e-3, 6, 1});
    probes += probed ? 1 : 0;
  }
  EXPECT_EQ(probes, 2u) << "one that leaves little doubt is repeated";
  EXPECT_NEAR(policy.rate(WaveKind::kGpu), kWaveBytes / 1e-3, kWaveBytes / 1e-3 * 0.01);
}

// Many concurrent reads of one chunk: as many threads decode as there are reads.
TEST(Placement, ConcurrentReadsCountAsThreads) {
  PlacementPolicy policy;
  std::uint64_t now = kMs, by_cpu = 0;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t begun = now;
    by_cpu = 0;
    std::vector<WaveChoice> waves;
    for (int i = 0; i < 16; ++i) waves.push_back(policy.begin(begun));
    for (const WaveChoice& wave : waves) {
      const bool cpu = wave.kind == WaveKind::kCpu;
      policy.end(wave, begun, kWaveBytes, now += cpu ? kMs / 4 : kMs, {cpu ? kWaveBytes / 4e-3 : 0, 16, 1});
      by_cpu += cpu ? 1 : 0;
    }
  }
  EXPECT_GE(by_cpu, 15u);
}

// Reads of one wave. The probe is inconclusive, so the turn takes a wave or two.
TEST(Placement, ATurnContinuesInTheNextRead) {
  for (const double cpu_ms : {1.5, 4.0}) {
    Machine machine{.cpu_ms = cpu_ms, .loose = 6};
    PlacementPolicy policy;
    std::uint64_t by_cpu = 0;
    for (int read = 0; read < 30; ++read) machine.read(policy, 1, &by_cpu);
    EXPECT_EQ(by_cpu, cpu_ms < 2 ? 3u : 2u);
  }
}

// Whatever the machine and the length of the reads, no loss recurs with every read.
TEST(Placement, LittleIsLostOnAnyMachine) {
  HEADRACE_ONE_THREAD_DOES_ALL();
  std::mt19937_64 random(3);
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, static_cast<double>(random() % 10000) / 10000);
  };
  for (int i = 0; i < 1500; ++i) {
    Machine machine{.cpu_ms = between(0.1, 10), .loose_turn = between(0.95, 2), .in_flight = 1 + random() % 8};
    machine.loose = machine.loose_turn * between(1, 4);
    const auto waves = static_cast<std::uint64_t>(between(1, 60));
    PlacementPolicy policy;
    loss_of(machine, policy, static_cast<int>(40 + 200 / waves), waves);
    ASSERT_LE(loss_of(machine, policy, static_cast<int>(4000 / waves), waves).total, 1.04)
        << machine.cpu_ms << " ms by the CPU, " << waves << " waves, " << machine.in_flight << " at a time, threads "
        << machine.loose << " and " << machine.loose_turn << " times faster";
  }
}

TEST(Placement, PriorsAreKeptByKind) {
  PlacementPriors priors("", 4);
  const auto prior = priors.of("cuda:0 lz4");
  EXPECT_EQ(priors.of("cuda:0 lz4"), prior);
  EXPECT_NE(priors.of("cuda:0 zstd"), prior);
  // A prior in use stays valid, however many kinds are added.
  for (int i = 0; i < 2000; ++i) priors.of("a" + std::to_string(i));
  EXPECT_EQ(prior->get(), (PlacementRates{0, 0}));
}

}  // namespace
}  // namespace headrace::transfer
