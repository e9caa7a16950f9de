// Property: which processor decodes changes nothing that a caller sees except the counts: the same elements, the same
// errors for the same bad chunks, exact neighbours, the same budgets. What a device cannot decode is reported.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "base/fault.h"
#include "support/flat_array.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;
namespace fs = std::filesystem;

constexpr std::uint32_t kUntouched = 0x55555555;

// While one exists, the simulated GPU decodes every codec.
struct DecodesAll {
  explicit DecodesAll(unsigned host_only_every = 0) {
    device::staged_decode_model().any_codec = true;
    device::staged_decode_model().host_only_every = host_only_every;
  }
  ~DecodesAll() {
    device::staged_decode_model().any_codec = false;
    device::staged_decode_model().host_only_every = 0;
  }
};

struct Reader {
  explicit Reader(const std::string& url, ContextOptions options = small()) {
    context = std::make_unique<Context>(Context::create(options).value());
    store = std::make_unique<Store>(Store::open(*context, url).value());
    device = std::make_unique<Device>(Device::open("host-staged").value());
  }
  static ContextOptions small() {
    ContextOptions options;
    options.threads = 2;
    options.wave_bytes = 4096;
    options.host_budget_bytes = std::size_t{16} << 20;
    return options;
  }
  std::unique_ptr<Context> context;
  std::unique_ptr<Store> store;
  std::unique_ptr<Device> device;
};

struct Outcome {
  Status status;
  Stats stats;
  std::vector<ChunkError> errors;
  std::vector<std::uint32_t> elements;
};

Outcome read_all(const Reader& reader, Placement placement, bool collect = true, const char* path = "",
                 const Selection& selection = {}, std::size_t misalign = 0) {
  Outcome out;
  auto array = Array::open(*reader.store, path);
  if (!array.ok()) {
    out.status = array.status();
    return out;
  }
  const auto shape = resolve_selection(selection, array->info().shape).value().shape;
  out.elements.assign(static_cast<std::size_t>(shape[0]), kUntouched);
  const std::size_t bytes = out.elements.size() * 4;
  auto buffer = Buffer::allocate(*reader.device, bytes + misalign).value();
  EXPECT_TRUE(buffer.copy_from_host(misalign, reinterpret_cast<const std::byte*>(out.elements.data()), bytes).ok());
  ReadOptions options;
  options.collect_errors = collect;
  options.placement = placement;
  auto reading =
      array->read_async(selection, {buffer, array->info().dtype, shape, {}, misalign}, *reader.device, options);
  if (!reading.ok()) {
    out.status = reading.status();
    return out;
  }
  out.status = reading->wait();
  out.stats = reading->stats();
  out.errors = reading->errors();
  std::sort(out.errors.begin(), out.errors.end(), [](const ChunkError& a, const ChunkError& b) {
    return std::pair(a.key, a.offset) < std::pair(b.key, b.offset);
  });
  EXPECT_TRUE(buffer.copy_to_host(misalign, reinterpret_cast<std::byte*>(out.elements.data()), bytes).ok());
  return out;
}

constexpr Layout kEncoded[] = {Layout::kZstd, Layout::kBlosc, Layout::kShardedZstd};

// Damages the first stored bytes of a chunk.
void spoil(const std::string& directory, const FlatArray& array, std::uint64_t number) {
  const std::string path = directory + "/" + array.key(number);
  std::uint64_t at = 0;
  if (array.sharded()) {
    const store::Bytes shard = testing::flat_shard(array, number / array.shard_chunks);
    const std::size_t entry = shard.size() - 16 * (array.shard_chunks - number % array.shard_chunks);
    std::memcpy(&at, shard.data() + entry, 8);
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file.good()) << path;
  file.seekp(static_cast<std::streamoff>(at));
  file.write("\xff\xff\xff\xff", 4);
}

TEST(DeviceDecode, GivesTheSameElements) {
  const DecodesAll decodes;
  for (const Layout layout : kEncoded) {
    for (const char* engine : {"auto", "threads"}) {
      for (const char* store : {"file", "memory"}) {
        SCOPED_TRACE(std::string(testing::layout_name(layout)) + " " + engine + " " + store);
        const FlatArray array{.layout = layout, .chunks = 53, .chunk_elements = 100, .shard_chunks = 8};
        support::TempDir directory;
        ContextOptions options = Reader::small();
        options.engine = engine;
        static int number = 0;
        Reader reader(
            std::string_view(store) == "file" ? directory.path() : "memory://device_decode" + std::to_string(++number),
            options);
        ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
        for (const std::size_t misalign : {0u, 4u}) {
          const Outcome gpu = read_all(reader, Placement::kGpu, false, "", {}, misalign);
          ASSERT_TRUE(gpu.status.ok()) << gpu.status.to_string();
          EXPECT_TRUE(gpu.elements == array.expected());
          EXPECT_EQ(gpu.stats.gpu_chunks, array.chunks);
          EXPECT_EQ(gpu.stats.chunks, array.chunks);
          EXPECT_EQ(gpu.stats.cpu_chunks, 0u);
          EXPECT_EQ(gpu.stats.decoded_bytes, array.elements() * 4);
          EXPECT_EQ(gpu.stats.gpu_decoded_bytes, array.elements() * 4);
          EXPECT_NE(gpu.stats.path.find("decoded on the device"), std::string::npos) << gpu.stats.path;
          const Outcome cpu = read_all(reader, Placement::kCpu);
          ASSERT_TRUE(cpu.status.ok()) << cpu.status.to_string();
          EXPECT_TRUE(cpu.elements == array.expected());
          EXPECT_EQ(cpu.stats.gpu_chunks, 0u);
          EXPECT_EQ(cpu.stats.cpu_chunks, array.chunks);
          EXPECT_EQ(cpu.stats.cpu_decoded_bytes, array.elements() * 4);
          EXPECT_EQ(cpu.stats.stored_bytes, gpu.stats.stored_bytes);
        }
        // Parts of chunks are decoded outside the tensor and then placed.
        const Selection part = parse_selection("3:5200:7").value();
        const Outcome gpu = read_all(reader, Placement::kGpu, false, "", part);
        ASSERT_TRUE(gpu.status.ok()) << gpu.status.to_string();
        for (std::size_t i = 0; i < gpu.elements.size(); ++i) ASSERT_EQ(gpu.elements[i], array.expected()[3 + 7 * i]);
      }
    }
  }
}

// Encoded bytes cross the bus, not decoded ones.
TEST(DeviceDecode, SendsEncodedBytes) {
  const DecodesAll decodes;
  support::TempDir directory;
  Reader reader(directory.path());
  FlatArray array{.layout = Layout::kZstd, .chunks = 8, .chunk_elements = 1000};
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
  const Outcome gpu = read_all(reader, Placement::kGpu);
  ASSERT_TRUE(gpu.status.ok());
  EXPECT_LE(gpu.stats.bus_bytes, gpu.stats.stored_bytes + 16 * array.chunks);
  EXPECT_GE(gpu.stats.bus_bytes, gpu.stats.stored_bytes);
}

TEST(DeviceDecode, OneBadChunkIsReportedAsTheCpuWould) {
  const DecodesAll decodes;
  for (const Layout layout : kEncoded) {
    const FlatArray array{.layout = layout, .chunks = 24, .chunk_elements = 100, .shard_chunks = 8};
    const auto expected = array.expected();
    for (std::uint64_t bad = 0; bad < array.chunks; ++bad) {
      SCOPED_TRACE(std::string(testing::layout_name(layout)) + " " + std::to_string(bad));
      support::TempDir directory;
      Reader reader(directory.path());
      ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
      spoil(directory.path(), array, bad);
      const Outcome cpu = read_all(reader, Placement::kCpu), gpu = read_all(reader, Placement::kGpu);
      ASSERT_TRUE(gpu.status.ok()) << gpu.status.to_string();
      ASSERT_EQ(cpu.errors.size(), 1u);
      ASSERT_EQ(gpu.errors.size(), 1u);
      EXPECT_EQ(gpu.errors[0].status.to_string(), cpu.errors[0].status.to_string());
      EXPECT_EQ(gpu.errors[0].key, cpu.errors[0].key);
      EXPECT_EQ(gpu.errors[0].offset, cpu.errors[0].offset);
      EXPECT_EQ(gpu.errors[0].length, cpu.errors[0].length);
      for (std::uint64_t i = 0; i < gpu.elements.size(); ++i) {
        if (i / array.chunk_elements != bad) {
          ASSERT_EQ(gpu.elements[i], expected[i]) << i;
        }
      }
      EXPECT_EQ(gpu.stats.chunks, array.chunks - 1);
      EXPECT_EQ(gpu.stats.gpu_chunks, array.chunks - 1);
      EXPECT_EQ(gpu.stats.returned_chunks, 0u) << "a chunk that nobody decodes is not counted";

      const Outcome strict = read_all(reader, Placement::kGpu, false);
      EXPECT_EQ(strict.status.to_string(), read_all(reader, Placement::kCpu, false).status.to_string());
      if (HasFailure()) return;
    }
  }
}

TEST(DeviceDecode, ReturnedChunksAreDecodedByTheCpu) {
  for (const unsigned every : {1u, 2u, 3u, 7u}) {
    const DecodesAll decodes(every);
    for (const Layout layout : kEncoded) {
      for (const bool spoiled : {false, true}) {
        SCOPED_TRACE(std::string(testing::layout_name(layout)) + " one of " + std::to_string(every));
        const FlatArray array{.layout = layout, .chunks = 64, .chunk_elements = 256, .shard_chunks = 16};
        support::TempDir directory;
        Reader reader(directory.path());
        ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
        const auto bad = [&](std::uint64_t chunk) { return spoiled && (chunk == 0 || chunk == 9 || chunk == 63); };
        for (std::uint64_t chunk = 0; chunk < array.chunks; ++chunk) {
          if (bad(chunk)) spoil(directory.path(), array, chunk);
        }
        for (const char* part : {"", "1:16383:3"}) {
          const Selection selection = parse_selection(part).value();
          const Outcome gpu = read_all(reader, Placement::kGpu, true, "", selection);
          ASSERT_TRUE(gpu.status.ok()) << gpu.status.to_string();
          EXPECT_EQ(gpu.errors.size(), spoiled ? 3u : 0u);
          const auto expected = array.expected();
          const std::size_t first = *part == '\0' ? 0 : 1, step = *part == '\0' ? 1 : 3;
          for (std::size_t i = 0; i < gpu.elements.size(); ++i) {
            const std::size_t at = first + i * step;
            if (!bad(at / array.chunk_elements)) {
              ASSERT_EQ(gpu.elements[i], expected[at]) << at;
            }
          }
          EXPECT_GT(gpu.stats.returned_chunks, 0u);
          EXPECT_EQ(gpu.stats.cpu_chunks, gpu.stats.returned_chunks);
          EXPECT_EQ(gpu.stats.gpu_chunks + gpu.stats.cpu_chunks, gpu.stats.chunks);
          EXPECT_EQ(gpu.stats.chunks, array.chunks - gpu.errors.size());
          if (every == 1) {
            EXPECT_EQ(gpu.stats.gpu_chunks, 0u);
          }
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST(DeviceDecode, MissingChunksAreFilled) {
  const DecodesAll decodes(2);
  for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
    const FlatArray array{.layout = layout, .chunks = 40, .chunk_elements = 100, .shard_chunks = 4};
    support::TempDir directory;
    Reader reader(directory.path());
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
    const std::uint64_t unit = array.sharded() ? array.shard_chunks : 1;
    for (const std::uint64_t gone : {0u, 8u, 36u}) fs::remove(directory.path() + "/" + array.key(gone));
    const auto missing = [&](std::uint64_t chunk) {
      return chunk / unit * unit == 0 || chunk / unit * unit == 8 || chunk / unit * unit == 36;
    };
    const Outcome gpu = read_all(reader, Placement::kGpu);
    ASSERT_TRUE(gpu.status.ok()) << gpu.status.to_string();
    const auto expected = array.expected();
    for (std::size_t i = 0; i < gpu.elements.size(); ++i) {
      ASSERT_EQ(gpu.elements[i], missing(i / 100) ? testing::kFillValue : expected[i]) << i;
    }
    EXPECT_EQ(gpu.stats.missing_chunks, 3u);
  }
}

TEST(DeviceDecode, UnsupportedCodecsAreReported) {
  support::TempDir directory;
  Reader reader(directory.path());
  FlatArray array{.layout = Layout::kBz2, .chunks = 8};
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "bz2", array).ok());
  array.layout = Layout::kRaw;
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "raw", array).ok());

  const Outcome refused = read_all(reader, Placement::kGpu, true, "bz2");
  EXPECT_EQ(refused.status.code(), Code::kUnsupported);
  EXPECT_NE(refused.status.message().find("'bz2'"), std::string::npos) << refused.status.to_string();
  const Outcome fallen_back = read_all(reader, Placement::kAuto, true, "bz2");
  ASSERT_TRUE(fallen_back.status.ok());
  EXPECT_EQ(fallen_back.stats.cpu_chunks, 8u);
  EXPECT_NE(fallen_back.stats.path.find("'bz2' has no device code"), std::string::npos) << fallen_back.stats.path;
  const Outcome raw = read_all(reader, Placement::kGpu, true, "raw");
  EXPECT_TRUE(raw.status.ok()) << "there is nothing to decode: " << raw.status.to_string();
  EXPECT_EQ(raw.stats.gpu_chunks + raw.stats.cpu_chunks, 0u);

  const DecodesAll decodes;
  *reader.device = Device::open("host").value();
  const Outcome host = read_all(reader, Placement::kGpu, true, "bz2");
  EXPECT_EQ(host.status.code(), Code::kUnsupported) << host.status.to_string();
}

TEST(DeviceDecode, KeepsWithinTheBudgets) {
  const DecodesAll decodes(5);
  const FlatArray array{.layout = Layout::kBlosc, .chunks = 64, .chunk_elements = 4096};  // 16 KiB
  support::TempDir directory;
  {
    Reader reader(directory.path());
    ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
  }
  bool refused = false, whole = false;
  for (const std::size_t kib : {8u, 20u, 34u, 40u, 70u, 200u, 5000u}) {
    SCOPED_TRACE(kib);
    ContextOptions options = Reader::small();
    options.wave_bytes = std::size_t{1} << 20;
    options.device_budget_bytes = kib << 10;
    Reader reader(directory.path(), options);
    const Outcome gpu = read_all(reader, Placement::kGpu), automatic = read_all(reader, Placement::kAuto);
    if (!gpu.status.ok()) {
      refused = true;
      EXPECT_EQ(gpu.status.code(), Code::kResourceExhausted) << gpu.status.to_string();
      EXPECT_NE(gpu.status.message().find("budgets"), std::string::npos);
      if (automatic.status.ok()) {
        EXPECT_EQ(automatic.stats.gpu_chunks, 0u);
        EXPECT_NE(automatic.stats.path.find("budgets"), std::string::npos) << automatic.stats.path;
      }
      continue;
    }
    whole = true;
    EXPECT_TRUE(gpu.elements == array.expected());
    EXPECT_TRUE(automatic.elements == array.expected());
  }
  EXPECT_TRUE(refused && whole);
}

// A chain whose outer codec the device does not support: the CPU undoes that one, the device the rest.
TEST(DeviceDecode, TakesOverInTheMiddleOfAChain) {
  support::TempDir directory;
  Reader reader(directory.path());
  constexpr std::uint64_t kChunks = 20, kElements = 64, kFilters = 8;
  static_assert(kFilters == device::kMaxDecodeStages, "so that zstd, the outermost, is one too many");
  std::string filters;
  for (std::uint64_t i = 0; i < kFilters; ++i)
    filters += std::string(i == 0 ? "" : ",") + R"({"id":"shuffle","elementsize":4})";
  ASSERT_TRUE(testing::put_text(*Access::impl(*reader.store), ".zarray",
                                R"({"zarr_format":2,"shape":[1280],"chunks":[64],"dtype":"<u4","compressor":)"
                                R"({"id":"zstd","level":1},"fill_value":0,"order":"C","filters":[)" +
                                    filters + "]}")
                  .ok());
  std::vector<std::uint32_t> expected;
  for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) {
    std::vector<std::uint8_t> bytes(kElements * 4), shuffled(kElements * 4);
    for (std::uint64_t i = 0; i < kElements; ++i) {
      const std::uint32_t value = testing::element_value(chunk * kElements + i, 1);
      expected.push_back(value);
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    }
    for (std::uint64_t round = 0; round < kFilters; ++round) {
      for (std::size_t i = 0; i < bytes.size(); ++i) shuffled[i % 4 * kElements + i / 4] = bytes[i];
      bytes.swap(shuffled);
    }
    store::Bytes encoded(ZSTD_compressBound(bytes.size()));
    encoded.resize(ZSTD_compress(encoded.data(), encoded.size(), bytes.data(), bytes.size(), 1));
    if (chunk == 7) encoded.resize(encoded.size() / 2);
    ASSERT_TRUE(Access::impl(*reader.store)->put(std::to_string(chunk), encoded).ok());
  }
  for (const unsigned every : {0u, 2u}) {
    const DecodesAll decodes(every);
    const Outcome cpu = read_all(reader, Placement::kCpu), gpu = read_all(reader, Placement::kGpu);
    ASSERT_TRUE(gpu.status.ok()) << gpu.status.to_string();
    ASSERT_EQ(gpu.errors.size(), 1u);
    ASSERT_EQ(cpu.errors.size(), 1u);
    EXPECT_EQ(gpu.errors[0].status.to_string(), cpu.errors[0].status.to_string());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (i / kElements != 7) {
        ASSERT_EQ(gpu.elements[i], expected[i]) << i;
      }
    }
    EXPECT_EQ(gpu.stats.chunks, kChunks - 1);
    EXPECT_EQ(gpu.stats.gpu_chunks > 0, true);
    EXPECT_EQ(gpu.stats.returned_chunks > 0, every != 0);
  }
}

// Chunks of any size that fill the room for encoded bytes: what the CPU decodes instead has a place of its own.
TEST(DeviceDecode, ReturnedChunksFitBehindFullSlabs) {
  const DecodesAll decodes(1);
  support::TempDir directory;
  Reader reader(directory.path());
  for (std::uint64_t elements = 1; elements <= 80; ++elements) {
    SCOPED_TRACE(elements);
    const std::uint64_t chunks = 23;
    const std::string path = "a" + std::to_string(elements);
    const std::string shape = std::to_string(chunks * elements), chunk = std::to_string(elements);
    ASSERT_TRUE(testing::put_text(*Access::impl(*reader.store), path + "/.zarray",
                                  R"({"zarr_format":2,"shape":[)" + shape + R"(],"chunks":[)" + chunk +
                                      R"(],"dtype":"<u4","compressor":null,"fill_value":0,"order":"C",)" +
                                      R"("filters":[{"id":"shuffle","elementsize":4}]})")
                    .ok());
    std::vector<std::uint32_t> expected;
    for (std::uint64_t number = 0; number < chunks; ++number) {
      store::Bytes shuffled(elements * 4);
      for (std::uint64_t i = 0; i < elements; ++i) {
        expected.push_back(testing::element_value(number * elements + i, 1));
        for (std::uint64_t k = 0; k < 4; ++k) {
          shuffled[k * elements + i] = static_cast<std::byte>(expected.back() >> (8 * k));
        }
      }
      ASSERT_TRUE(Access::impl(*reader.store)->put(path + "/" + std::to_string(number), shuffled).ok());
    }
    const Outcome gpu = read_all(reader, Placement::kGpu, false, path.c_str());
    ASSERT_TRUE(gpu.status.ok()) << gpu.status.to_string();
    EXPECT_TRUE(gpu.elements == expected);
    EXPECT_EQ(gpu.stats.returned_chunks, chunks);
  }
}

TEST(DeviceDecode, ACancelledReadEnds) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const DecodesAll decodes(2);
  const FlatArray array{.layout = Layout::kZstd, .chunks = 400, .chunk_elements = 256};
  support::TempDir directory;
  Reader reader(directory.path());
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
  auto opened = Array::open(*reader.store).value();
  auto buffer = Buffer::allocate(*reader.device, array.elements() * 4).value();
  ReadOptions options;
  options.placement = Placement::kGpu;
  for (const char* point : {"dev_host.copy", "transfer.decode", "transfer.read"}) {
    for (const int after_us : {0, 300, 3000}) {
      base::arm_delay(point, std::chrono::microseconds(200));
      auto reading = opened.read_async({}, {buffer, opened.info().dtype, {array.elements()}}, *reader.device, options);
      ASSERT_TRUE(reading.ok());
      std::this_thread::sleep_for(std::chrono::microseconds(after_us));
      reading->cancel();
      const Status status = reading->wait();
      base::arm_delay(point, std::chrono::microseconds(0));
      EXPECT_TRUE(status.ok() || status.code() == Code::kCancelled) << status.to_string();
    }
  }
  EXPECT_TRUE(read_all(reader, Placement::kGpu).elements == array.expected());
}

// With a device much slower than the CPU, or the reverse, the read settles on the faster one, and later reads begin
// with it. There may be one more turn of the device if its files were mapped in the meantime.
TEST(DeviceDecode, SettlesOnTheFaster) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const DecodesAll decodes;
  const FlatArray array{.layout = Layout::kZstd, .chunks = 400, .chunk_elements = 1024};
  support::TempDir directory;
  ContextOptions options = Reader::small();
  options.wave_bytes = 16384;
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*Reader(directory.path()).store), "", array).ok());
  for (const bool slow_device : {true, false}) {
    Reader reader(directory.path(), options);  // without the rates measured in the other case
    auto opened = Array::open(*reader.store).value();
    auto buffer = Buffer::allocate(*reader.device, array.elements() * 4).value();
    if (slow_device) {
      device::staged_decode_model().decoded_bytes_per_us = 1;  // 16 ms per wave: even a busy CPU is faster
    } else {
      base::arm_delay("transfer.decode", std::chrono::microseconds(3000));
    }
    Stats first, second, third;
    for (Stats* const stats : {&first, &second, &third}) {
      EXPECT_TRUE(opened.read({}, {buffer, opened.info().dtype, {array.elements()}}, *reader.device, {}, stats).ok());
    }
    device::staged_decode_model().decoded_bytes_per_us = 0;
    base::arm_delay("transfer.decode", std::chrono::microseconds(0));
    const auto faster = [&](const Stats& stats) { return slow_device ? stats.cpu_chunks : stats.gpu_chunks; };
    const char* const which = slow_device ? "slow device" : "slow CPU";
    const std::uint64_t most = std::max(faster(second), faster(third)), least = std::min(faster(second), faster(third));
    EXPECT_GE(most, array.chunks * 9 / 10) << which;
    EXPECT_GE(least, array.chunks * 17 / 20)
        << which << ", first " << first.gpu_chunks << " of " << first.chunks << " on the device";
    EXPECT_GT(first.gpu_chunks, 0u);
    EXPECT_GT(first.cpu_chunks, 0u);
  }
}

// One CPU thread is slower than the device, all of them together are faster.
TEST(DeviceDecode, CpuRatesCountAllThreads) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const DecodesAll decodes;
  const FlatArray array{.layout = Layout::kZstd, .chunks = 384, .chunk_elements = 1024};
  support::TempDir directory;
  ContextOptions options = Reader::small();
  options.threads = 8;
  options.wave_bytes = 65536;
  Reader reader(directory.path(), options);
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
  auto buffer = Buffer::allocate(*reader.device, array.elements() * 4).value();
  const auto opened = Array::open(*reader.store).value();
  device::staged_decode_model().decoded_bytes_per_us = 0.6;             // eight waves in parallel: 5 MB/s
  base::arm_delay("transfer.decode", std::chrono::microseconds(2000));  // 2 MB/s per thread
  Stats stats;
  for (int read = 0; read < 4; ++read) {
    EXPECT_TRUE(opened.read({}, {buffer, opened.info().dtype, {array.elements()}}, *reader.device, {}, &stats).ok());
  }
  device::staged_decode_model().decoded_bytes_per_us = 0;
  base::arm_delay("transfer.decode", std::chrono::microseconds(0));
  EXPECT_GE(stats.cpu_chunks, array.chunks * 9 / 10);
}

// Reads of eight waves with a much slower CPU: the CPU decodes one chunk as a probe, never a whole read, and for arrays
// opened later not even that. If a busy machine has changed the device's rate, the policy may probe again, so one
// undisturbed round out of three suffices.
TEST(DeviceDecode, AShortReadIsNotLeftToASlowCpu) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const DecodesAll decodes;
  const FlatArray array{.layout = Layout::kZstd, .chunks = 64, .chunk_elements = 1024};
  support::TempDir directory;
  ContextOptions options = Reader::small();
  options.wave_bytes = 32768;
  constexpr unsigned kRounds = 3, kArrays = 8, kReads = 4;
  device::staged_decode_model().decoded_bytes_per_us = 3;  // 11 ms per wave, all in parallel
  base::arm_delay("transfer.decode", std::chrono::microseconds(5000));
  unsigned fewest_tried = kArrays, max_tried = 0;
  for (unsigned round = 0; round < kRounds && (round == 0 || fewest_tried > kArrays / 2); ++round) {
    Reader reader(directory.path(), options);  // has no measured rates yet
    if (round == 0) {
      ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
    }
    auto buffer = Buffer::allocate(*reader.device, array.elements() * 4).value();
    unsigned tried = 0;
    for (unsigned opened = 0; opened < kArrays; ++opened) {
      const auto again = Array::open(*reader.store).value();
      std::uint64_t by_cpu = 0;
      for (unsigned read = 0; read < kReads; ++read) {
        Stats stats;
        EXPECT_TRUE(again.read({}, {buffer, again.info().dtype, {array.elements()}}, *reader.device, {}, &stats).ok());
        EXPECT_EQ(stats.cpu_chunks + stats.gpu_chunks, array.chunks);
        EXPECT_LE(stats.cpu_chunks, 1u) << "array " << opened << ", read " << read;
        by_cpu += stats.cpu_chunks;
      }
      tried += by_cpu > 0 ? 1 : 0;
    }
    fewest_tried = std::min(fewest_tried, tried);
    max_tried = std::max(max_tried, tried);
  }
  device::staged_decode_model().decoded_bytes_per_us = 0;
  base::arm_delay("transfer.decode", std::chrono::microseconds(0));
  EXPECT_GE(max_tried, 1u);
  EXPECT_LE(fewest_tried, kArrays / 2) << "each array repeats the probe";
}

// The decoder is loaded while the first read's memory is made; later users of that memory do not wait again.
TEST(DeviceDecode, IsPreparedOnceWithItsMemory) {
  const DecodesAll decodes;
  support::TempDir directory;
  const FlatArray array{.layout = Layout::kZstd, .chunks = 20};
  Reader reader(directory.path());
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
  const unsigned before = device::staged_decode_model().loads;
  for (int pass = 0; pass < 3; ++pass) {
    const Outcome out = read_all(reader, Placement::kGpu);
    ASSERT_TRUE(out.status.ok()) << out.status.to_string();
    EXPECT_EQ(out.elements, array.expected());
    EXPECT_EQ(device::staged_decode_model().loads - before, 1u) << pass;
  }
  ASSERT_TRUE(read_all(reader, Placement::kCpu).status.ok());
  EXPECT_EQ(device::staged_decode_model().loads - before, 1u);
}

}  // namespace
}  // namespace headrace
