// Arrays through the engine gds: cold ranges are read straight into the device's memory and give the same elements and
// the same errors as reads through host memory, whatever the library does. Each test runs in its own process, since a
// process loads one library.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "support/fake_cufile_process.h"
#include "support/sanitizer.h"
#include "support/straight_read_testing.h"
#include "support/temp_dir.h"
#include "transfer/read/cold_part.h"
#include "zarr/kept_read.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using support::built;
using support::FakeCufile;
using support::use_fake;
using testing::about;
using testing::Crop;
using testing::fail_some;
using testing::in_process;
using testing::kColumns;
using testing::kCrops;
using testing::Kind;
using testing::kNvme;
using testing::kRows;
using testing::Outcome;
using testing::Reader;
using testing::right;
using testing::Scene;
using testing::StraightRead;
using transfer::ChunkCache;

TEST_F(StraightRead, GivesTheSameElements) {
  for_all_kinds([](const Kind& kind) {
    FakeCufile& fake = use_fake();
    const Scene scene(kind);
    const Reader reader(scene, "gds");
    for (const Crop& crop : kCrops) {
      const Outcome out = reader.read(crop.text);
      HOLDS_FOR(about(kind, out) + " " + crop.text, right(out, crop));
      HOLDS_FOR(about(kind, out) + " " + crop.text, out.stats.straight_bytes > 0);
      HOLDS_FOR(about(kind, out), out.stats.engine == "gds");
      HOLDS_FOR(about(kind, out), out.stats.path.find("gds direct into device memory") == 0);
      if (*crop.text != '\0') continue;
      // Neighbours in a shard that lie otherwise in the slab go through host memory.
      const bool uneven = std::strcmp(kind.name, "shards_uneven") == 0;
      HOLDS_FOR(about(kind, out), uneven || out.stats.straight_bytes == out.stats.direct_bytes);
      HOLDS_FOR(about(kind, out), uneven || out.stats.bus_bytes == out.stats.straight_bytes);
    }
    HOLDS_FOR(reader.context.engine_report(),
              reader.context.engine_report().find("into memory of host-staged: gds: ") != std::string::npos);
    HOLDS(fake.handles == 0 && fake.misuses == 0);
  });
}

// The library of this project, in the place of NVIDIA's.
TEST_F(StraightRead, WorksOverHeadracesOwnLibrary) {
  for_all_kinds([](const Kind& kind) {
    ::setenv("HEADRACE_GDS_LIBRARY", built("lib/cufile/libcufile.so.0").c_str(), 1);
    const Scene scene(kind);
    const Reader reader(scene, "gds");
    for (const Crop& crop : kCrops) {
      const Outcome out = reader.read(crop.text);
      HOLDS_FOR(about(kind, out) + " " + crop.text, right(out, crop) && out.stats.straight_bytes > 0);
    }
  });
}

// "auto" reads the page cache and takes only what bypasses it straight, and only where cuFile is direct.
TEST_F(StraightRead, AutoTakesColdRanges) {
  for (const bool direct : {true, false}) {
    for_all_kinds([direct](const Kind& kind) {
      FakeCufile& fake = use_fake();
      fake.nvfs_version = direct ? 2 : 0;
      fake.file_systems = kNvme;
      const Scene scene(kind);
      const Reader reader(scene, "auto");
      Outcome out = reader.read();
      HOLDS_FOR(about(kind, out), right(out, kCrops[0]));
      scene.evict();
      out = reader.read();
      HOLDS_FOR(about(kind, out), right(out, kCrops[0]));
      HOLDS_FOR(about(kind, out), out.stats.direct_bytes > 0);
      HOLDS_FOR(about(kind, out), direct ? out.stats.straight_bytes > 0 : out.stats.straight_bytes == 0);
      HOLDS_FOR(about(kind, out), (out.stats.engine == "gds") == direct);
      const std::string report = reader.context.engine_report();
      HOLDS_FOR(report, direct || report.find("into memory of host-staged: gds: ") != std::string::npos);
    });
  }
}

// Chunks that the CPU decodes, or whose outer codecs it undoes, go through host memory; so does everything on a device
// whose memory the CPU can address.
TEST_F(StraightRead, OnlyWhatTheDeviceDecodes) {
  for_all_kinds([](const Kind& kind) {
    use_fake();
    const Scene scene(kind);
    const Outcome by_cpu = Reader(scene, "gds").read("", Placement::kCpu);
    HOLDS_FOR(about(kind, by_cpu), right(by_cpu, kCrops[0]));
    HOLDS_FOR(about(kind, by_cpu), (by_cpu.stats.straight_bytes > 0) == kind.raw);
    Reader on_host(scene, "gds");
    on_host.device = Device::open("host").value();
    const Outcome out = on_host.read("", Placement::kAuto);
    HOLDS_FOR(about(kind, out), right(out, kCrops[0]) && out.stats.straight_bytes == 0);
  });
}

// The CPU decodes what the device hands back, with and without reads that had to be repeated.
TEST_F(StraightRead, ChunksHandedBackAreFetchedFromTheDevice) {
  for (const int failures : {0, 5}) {
    for_all_kinds([failures](const Kind& kind) {
      FakeCufile& fake = use_fake();
      fail_some(fake, 1, failures);
      device::staged_decode_model().host_only_every = 3;
      const Scene scene(kind);
      scene.evict();
      const Reader reader(scene, "auto");
      for (const Crop& crop : kCrops) {
        const Outcome out = reader.read(crop.text);
        HOLDS_FOR(about(kind, out) + " " + crop.text, right(out, crop));
        if (*crop.text != '\0') continue;
        HOLDS_FOR(about(kind, out), (out.stats.returned_chunks > 0) != kind.raw);
        HOLDS_FOR(about(kind, out), out.stats.straight_bytes > 0);
        HOLDS_FOR(about(kind, out), failures == 0 || out.stats.direct_bytes > out.stats.straight_bytes);
      }
      HOLDS(failures == 0 || fake.reads_to_fail < failures);
      HOLDS(fake.handles == 0 && fake.misuses == 0);
    });
  }
}

// After a failure that was not at the end of a file, reads go through host memory, and a note says why.
TEST_F(StraightRead, FailuresAreRepeatedThroughHostMemory) {
  struct Case {
    long result;
    int error, handle_error, pass, fail;
  };
  for (const Case& one : {Case{-5036, 0, 0, 0, 1}, Case{-5030, 0, 0, 9, 3}, Case{-1, EIO, 0, 4, 6},
                          Case{-1, EINVAL, 0, 2, 2}, Case{-1, EINVAL, 0, 0, -1}, Case{1, 0, 5027, 0, 0}}) {
    for_all_kinds([&one](const Kind& kind) {
      FakeCufile& fake = use_fake();
      fake.nvfs_version = 2;
      fake.file_systems = kNvme;
      fake.read_result = one.result;
      fake.read_errno = one.error;
      fake.reads_to_pass = one.pass;
      fake.reads_to_fail = one.fail;
      fake.handle_error = one.handle_error;
      const Scene scene(kind);
      // By name, the engine also makes the repeated reads, which are system calls.
      for (const char* engine : {"gds", "auto"}) {
        fake.reads_to_pass = one.pass;
        fake.reads_to_fail = one.fail;
        const Reader reader(scene, engine);
        scene.evict();
        const int reads = fake.reads;
        const Outcome out = reader.read();
        HOLDS_FOR(about(kind, out), right(out, kCrops[0]));
        const std::string report = reader.context.engine_report();
        const bool gave_up =
            report.find("direct reads into device memory are disabled for this context") != std::string::npos;
        HOLDS_FOR(report, gave_up || fake.reads_to_fail == 0 || fake.reads - reads <= one.pass);
        if (!gave_up) continue;
        const Outcome again = reader.read();
        HOLDS_FOR(about(kind, again), right(again, kCrops[0]) && again.stats.straight_bytes == 0);
      }
      HOLDS(fake.handles == 0 && fake.misuses == 0);
    });
  }
}

// A read that ends early is an error of its chunk, and no reason to give up.
TEST_F(StraightRead, TheEndOfAFileIsAnError) {
  for_all_kinds([](const Kind& kind) {
    FakeCufile& fake = use_fake();
    const Scene scene(kind);
    const Reader reader(scene, "gds");
    fake.read_result = 0;
    fake.reads_to_fail = 1;
    Outcome out = reader.read();
    HOLDS_FOR(about(kind, out), out.status.ok() && !out.errors.empty());
    for (const ChunkError& error : out.errors) HOLDS_FOR(error.status.to_string(), error.status.code() == Code::kShort);
    out = reader.read();
    HOLDS_FOR(about(kind, out), right(out, kCrops[0]) && out.stats.straight_bytes > 0);
  });
}

// Whatever was done to the files, the outcome is that of reads through host memory.
TEST_F(StraightRead, DamagedAndTruncatedFilesGiveTheSameErrors) {
  for_all_kinds([](const Kind& kind) {
    use_fake();
    Scene scene(kind);
    std::vector<std::string> objects = scene.objects();
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const std::uint64_t bytes = fs::file_size(objects[i]);
      std::fstream file(objects[i], std::ios::in | std::ios::out | std::ios::binary);
      if (i % 3 == 0) {  // damage
        for (std::uint64_t at = i % 2 == 0 ? 0 : bytes / 3; at < bytes; at += bytes / 2 + 1) {
          file.seekp(static_cast<std::streamoff>(at));
          file.write("\x7f\xff\x01\xee\x80\x00\x33\x12", 8);
        }
      }
      file.close();
      if (i % 3 == 1) fs::resize_file(objects[i], i % 2 == 0 ? bytes - 1 : bytes / 2);
    }
    for (const Crop& crop : kCrops) {
      const Outcome straight = Reader(scene, "gds").read(crop.text);
      const Outcome through_host = Reader(scene, "threads").read(crop.text);
      HOLDS_FOR(about(kind, straight), straight.status.to_string() == through_host.status.to_string());
      HOLDS_FOR(about(kind, straight) + " and " + about(kind, through_host),
                straight.errors.size() == through_host.errors.size());
      for (std::size_t i = 0; i < std::min(straight.errors.size(), through_host.errors.size()); ++i) {
        HOLDS_FOR(straight.errors[i].status.to_string() + " and " + through_host.errors[i].status.to_string(),
                  straight.errors[i].status.to_string() == through_host.errors[i].status.to_string());
      }
      if (straight.errors.empty()) HOLDS(straight.elements == through_host.elements);
    }
  });
}

TEST_F(StraightRead, CanBeCancelled) {
  for_all_kinds([](const Kind& kind) {
    FakeCufile& fake = use_fake();
    const Scene scene(kind);
    const Reader reader(scene, "gds");
    for (int round = 0; round < 10; ++round) {
      const Cancel cancel;
      const Outcome out = reader.read("", Placement::kGpu, &cancel);
      HOLDS_FOR(about(kind, out), out.status.code() == Code::kCancelled || right(out, kCrops[0]));
      HOLDS(fake.handles == 0);
    }
    const Outcome out = reader.read();
    HOLDS_FOR(about(kind, out), right(out, kCrops[0]));
    HOLDS(fake.misuses == 0);
  });
}

// Decode indices describe the same bytes, whichever way these came.
TEST_F(StraightRead, CollectsAndUsesDecodeIndices) {
  for_all_kinds([](const Kind& kind) {
    if (kind.raw || kind.columns < kColumns) return;  // small chunks have no index
    use_fake();
    device::staged_decode_model().index = true;
    const Scene scene(kind);
    const Reader reader(scene, "gds", 1 << 20);
    const Outcome first = reader.read(), second = reader.read();
    HOLDS_FOR(about(kind, first), right(first, kCrops[0]) && first.stats.straight_bytes > 0);
    HOLDS_FOR(about(kind, second), right(second, kCrops[0]) && second.stats.straight_bytes > 0);
    HOLDS_FOR(about(kind, second) + ", " + std::to_string(second.stats.indexed_chunks) + " indexed",
              second.stats.indexed_chunks > 0 && second.stats.bad_indices == 0);
  });
}

// Chunks kept on the device, decoded or as stored; parts of the latter are cut with the help of their first bytes.
TEST_F(StraightRead, FillsTheCacheOfALoader) {
  for (const ChunkCache::Form form : {ChunkCache::Form::kDecoded, ChunkCache::Form::kEncoded}) {
    for (const int failures : {0, 4}) {
      for_all_kinds(
          [form, failures](const Kind& kind) {
            FakeCufile& fake = use_fake();
            fail_some(fake, 1, failures);
            const Scene scene(kind);
            support::wait_until_unchanged();
            scene.evict();
            const Reader reader(scene, "auto");
            const auto cache = std::make_shared<ChunkCache>(Access::impl(reader.device), form,
                                                            ChunkCache::Limits{std::uint64_t{64} << 20, 1000});
            for (const bool second : {false, true}) {
              for (const Crop& crop : kCrops) {
                Outcome out;
                const Selection selection = parse_selection(crop.text).value();
                out.elements.assign(crop.rows * crop.columns, 0x55555555);
                const Buffer buffer = Buffer::allocate(reader.device, out.elements.size() * 4).value();
                ReadOptions options;
                options.placement = Placement::kGpu;
                const std::vector<ReadPart> parts = {
                    {selection, {buffer, reader.array.info().dtype, {crop.rows, crop.columns}}}};
                Completion read =
                    zarr::read_many_kept(reader.array, parts, reader.device, options, {cache, nullptr}).value();
                out.status = read.wait();
                out.stats = read.stats();
                HOLDS(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(out.elements.data()), out.elements.size() * 4)
                          .ok());
                HOLDS_FOR(about(kind, out) + " " + crop.text, right(out, crop));
                const bool first = !second && *crop.text == '\0';
                HOLDS_FOR(about(kind, out), first || out.stats.straight_bytes == 0);
                // Raw chunks go to their place in the cache through host memory.
                if (first && failures == 0) HOLDS_FOR(about(kind, out), (out.stats.straight_bytes > 0) != kind.raw);
              }
            }
          },
          true);  // it takes seconds until new files count as unchanged
    }
  }
}

}  // namespace
}  // namespace headrace
