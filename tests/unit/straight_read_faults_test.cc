// Straight reads over a library that misbehaves, and in disturbed processes: right elements, or an error, and no handle
// is left.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "support/child.h"
#include "support/sanitizer.h"
#include "support/straight_read_testing.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using support::FakeCufile;
using support::use_fake;
using testing::about;
using testing::Crop;
using testing::fail_some;
using testing::in_process;
using testing::kColumns;
using testing::kCrops;
using testing::Kind;
using testing::kRows;
using testing::Outcome;
using testing::Reader;
using testing::right;
using testing::Scene;
using testing::StraightRead;

// Numbers that no library should return, and errors that system calls mean otherwise, once and for ever.
TEST_F(StraightRead, GarbageIsNoSuccess) {
  struct Case {
    long result;
    int error;
  };
  in_process([] {
    FakeCufile& fake = use_fake();
    const Kind kind = testing::kinds().front();
    const Scene scene(kind);
    for (const int failures : {3, -1}) {
      for (const Case& one : {Case{LONG_MAX, 0}, Case{LONG_MIN, 0}, Case{-4999, 0}, Case{-1, 0}, Case{-1, -7},
                              Case{-1, INT_MIN}, Case{-1, INT_MAX}, Case{-1, EINTR}, Case{-1, EAGAIN}}) {
        fail_some(fake, 1, failures);
        fake.read_result = one.result;
        fake.read_errno = one.error;
        scene.evict();
        const Outcome out = Reader(scene, "auto").read();
        HOLDS_FOR(about(kind, out) + " after " + std::to_string(one.result) + ", " + std::to_string(one.error),
                  right(out, kCrops[0]));
        HOLDS(fake.reads_to_fail < 3 && fake.handles == 0 && fake.misuses == 0);
      }
    }
  });
}

TEST_F(StraightRead, ShortCountsAreContinued) {
  for_all_kinds(
      [](const Kind& kind) {
        FakeCufile& fake = use_fake();
        const Scene scene(kind);
        for (const long most : {511L, 4097L}) {
          fake.most_bytes = most;
          const Reader reader(scene, "gds");
          for (const Crop& crop : kCrops) {
            const Outcome out = reader.read(crop.text);
            HOLDS_FOR(about(kind, out) + " " + crop.text, right(out, crop) && out.stats.straight_bytes > 0);
          }
        }
        HOLDS(fake.handles == 0 && fake.misuses == 0);
      },
      true);
}

TEST_F(StraightRead, SomeFilesFail) {
  for_all_kinds(
      [](const Kind& kind) {
        FakeCufile& fake = use_fake();
        const Scene scene(kind);
        for (const long result : {-5030L, -5027L, -1L}) {
          fail_some(fake, 0, -1);
          fake.read_result = result;
          fake.read_errno = EIO;
          fake.one_file_in = 3;
          scene.evict();
          const Reader reader(scene, "auto");
          for (const Crop& crop : kCrops) {
            const Outcome out = reader.read(crop.text);
            HOLDS_FOR(about(kind, out) + " " + crop.text, right(out, crop));
          }
        }
        HOLDS(fake.handles == 0 && fake.misuses == 0);
      },
      true);
}

TEST_F(StraightRead, AForkMeetsReadsInFlight) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  for_all_kinds(
      [](const Kind& kind) {
        FakeCufile& fake = use_fake();
        fake.delay_us = 2000;
        const Scene scene(kind);
        const Reader reader(scene, "gds");
        Outcome out;
        std::thread reads([&] { out = reader.read(); });
        while (fake.reads == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
        HOLDS(support::in_child([&] {
                std::vector<std::uint32_t> elements(kRows * kColumns);
                auto refused = reader.array.read_async({}, {elements, {kRows, kColumns}}, reader.device);
                const Status status = refused.ok() ? refused->wait() : refused.status();
                return status.code() == Code::kForked ? 0 : 1;
              }) == 0);
        reads.join();
        HOLDS_FOR(about(kind, out), right(out, kCrops[0]) && out.stats.straight_bytes > 0);
        HOLDS(fake.handles == 0 && fake.misuses == 0);
      },
      true);
}

// Files are cut and written again during the reads: right elements, or an error of their chunk.
TEST_F(StraightRead, FilesAreCutMeanwhile) {
  for_all_kinds(
      [](const Kind& kind) {
        FakeCufile& fake = use_fake();
        fake.delay_us = 200;
        const Scene scene(kind);
        const std::vector<std::string> objects = scene.objects();
        const Reader reader(scene, "gds");
        std::atomic<bool> stops{false};
        std::thread cuts([&] {
          for (std::size_t i = 0; !stops; ++i) {
            const std::string& path = objects[i % objects.size()];
            std::ifstream file(path, std::ios::binary);
            const std::string bytes{std::istreambuf_iterator<char>(file), {}};
            fs::resize_file(path, bytes.size() * (i % 3) / 3);
            std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
                .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
          }
        });
        for (int round = 0; round < 8; ++round) {
          const Outcome out = reader.read();
          const bool changed = out.status.code() == Code::kAgainExhausted;  // the index of a shard
          HOLDS_FOR(about(kind, out), changed || (out.status.ok() && (!out.errors.empty() || right(out, kCrops[0]))));
          for (const ChunkError& error : out.errors) {
            const Code code = error.status.code();
            HOLDS_FOR(error.status.to_string(),
                      code == Code::kShort || code == Code::kCorrupt || code == Code::kAgainExhausted);
          }
        }
        stops = true;
        cuts.join();
        const Outcome out = reader.read();
        HOLDS_FOR(about(kind, out), right(out, kCrops[0]));
        HOLDS(fake.handles == 0 && fake.misuses == 0);
      },
      true);
}

// Opening waits a moment for descriptors before it gives up.
TEST_F(StraightRead, FewDescriptors) {
  for_all_kinds(
      [](const Kind& kind) {
        if (!kind.raw) return;
        FakeCufile& fake = use_fake();
        const Scene scene(kind);
        const Reader reader(scene, "gds");
        HOLDS(right(reader.read(kCrops[2].text), kCrops[2]));
        const int next = ::dup(0);
        rlimit limit{};
        HOLDS(next >= 0 && ::close(next) == 0 && ::getrlimit(RLIMIT_NOFILE, &limit) == 0);
        const rlimit full = limit;
        for (const int more : {0, 3}) {
          limit.rlim_cur = static_cast<rlim_t>(next + more);
          HOLDS(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
          const Outcome out = reader.read();
          HOLDS(::setrlimit(RLIMIT_NOFILE, &full) == 0);
          const bool refused = !out.status.ok() || !out.errors.empty();
          HOLDS_FOR(about(kind, out), refused || right(out, kCrops[0]));
          for (const ChunkError& error : out.errors) {
            HOLDS_FOR(error.status.to_string(), error.status.code() != Code::kNotFound);
          }
        }
        const Outcome out = reader.read();
        HOLDS_FOR(about(kind, out), right(out, kCrops[0]));
        HOLDS(fake.handles == 0 && fake.misuses == 0);
      },
      true);
}

}  // namespace
}  // namespace headrace
