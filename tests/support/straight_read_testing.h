// Arrays of all kinds in files, and reads of them through the engine gds over the fake library of cuFile.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/array_writer.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "support/fake_cufile.h"
#include "support/fake_cufile_process.h"
#include "support/sanitizer.h"
#include "support/stats_ways.h"
#include "support/temp_dir.h"

namespace headrace::testing {

inline constexpr std::uint64_t kRows = 60, kColumns = 3000;  // chunks of (8, 3000) or (8, 1024): 96,000 or 32,768 bytes
inline constexpr unsigned kNvme = 1u << 4;

inline void in_process(const std::function<void()>& body) { support::in_process(body, 120); }

// Makes "auto" choose the library for reads into device memory, of which some fail after `pass` good ones. Another
// engine makes the reads into host memory.
inline void fail_some(support::FakeCufile& fake, int pass, int failures) {
  fake.nvfs_version = 2;
  fake.file_systems = kNvme;
  fake.reads_to_pass = pass;
  fake.reads_to_fail = failures;
  fake.read_result = failures > 0 ? -5030 : 1;
}

// Half of the bytes are noise.
inline std::uint32_t value_at(std::uint64_t row, std::uint64_t column) {
  const std::uint64_t x = (row * kColumns + column + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<std::uint32_t>((x ^ (x >> 31)) & 0xffff) | 0x40000000u;
}

struct Kind {
  const char* name;
  std::string codecs;
  std::uint64_t columns = kColumns;  // of a chunk
  bool sharded = false, raw = false;
};

inline std::vector<Kind> kinds() {
  const std::string little = R"({"name":"bytes","configuration":{"endian":"little"}})";
  const std::string big = R"({"name":"bytes","configuration":{"endian":"big"}})";
  const std::string zstd = R"(,{"name":"zstd","configuration":{"level":1,"checksum":true}})";
  const std::string lz4 = R"(,{"name":"numcodecs.lz4","configuration":{"acceleration":1}})";
  const std::string crc = R"(,{"name":"crc32c"})";
  const auto blosc = [](const char* name) {
    return R"(,{"name":"blosc","configuration":{"cname":")" + std::string(name) +
           R"(","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":4096}})";
  };
  const auto shards = [](std::uint64_t columns, const std::string& codecs) {
    return R"({"name":"sharding_indexed","configuration":{"chunk_shape":[8,)" + std::to_string(columns) +
           R"(],"codecs":[)" + codecs + R"(],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},)" +
           R"({"name":"crc32c"}]}})";
  };
  return {{"raw", little, kColumns, false, true},
          {"raw_columns", big, 1024, false, true},
          {"raw_crc", little + crc},
          {"zstd", little + zstd},
          {"zstd_crc", little + zstd + crc},
          {"lz4", little + lz4, 1024},
          {"blosc_zstd", little + blosc("zstd")},
          {"blosc_lz4", little + blosc("lz4"), 1024},
          {"shards_raw", shards(1024, little), 1024, true, true},
          {"shards_uneven", shards(1021, little), 1021, true, true},
          {"shards_zstd", shards(kColumns, little + zstd), kColumns, true},
          {"shards_blosc_crc", shards(1024, little + blosc("zstd") + crc), 1024, true}};
}

struct Scene {
  explicit Scene(const Kind& kind) {
    device::staged_decode_model().any_codec = !kind.raw;
    const Store store = Store::open(Context::create({.threads = 1}).value(), dir.path()).value();
    const std::uint64_t shard_columns = (kColumns + kind.columns - 1) / kind.columns * kind.columns;
    const std::string document =
        R"({"zarr_format":3,"node_type":"array","shape":[)" + std::to_string(kRows) + "," + std::to_string(kColumns) +
        R"(],"data_type":"uint32","fill_value":9,"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" +
        (kind.sharded ? "32," + std::to_string(shard_columns) : "8," + std::to_string(kind.columns)) +
        R"(]}},"chunk_key_encoding":{"name":"default"},"codecs":[)" + kind.codecs + "]}";
    Result<ArrayWriter> writer = ArrayWriter::create(store, "", 3, document);
    HOLDS_FOR(writer.status().to_string(), writer.ok());
    if (!writer.ok()) return;
    auto worker = writer->make_worker().value();
    for (std::uint64_t i = 0; i < writer->object_count(); ++i) HOLDS(worker.write(i, fill(writer->info())).ok());
    HOLDS(writer->finish().ok());
  }
  static ArrayWriter::FillChunk fill(const ArrayInfo& info) {
    return [info](std::span<const std::uint64_t> chunk, std::span<std::byte> elements) -> Status {
      for (std::uint64_t i = 0; i < elements.size() / 4; ++i) {
        const std::uint64_t row = chunk[0] * info.chunk_shape[0] + i / info.chunk_shape[1];
        const std::uint32_t value = value_at(row, chunk[1] * info.chunk_shape[1] + i % info.chunk_shape[1]);
        std::memcpy(&elements[4 * i], &value, 4);
      }
      return {};
    };
  }
  // The stored objects, without metadata.
  std::vector<std::string> objects() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
      if (entry.is_regular_file() && entry.path().filename() != "zarr.json") out.push_back(entry.path().string());
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  void evict() const {
    for (const std::string& path : objects()) {
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      HOLDS(::fsync(fd) == 0 && ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
      ::close(fd);
    }
  }

  support::TempDir dir{"."};  // more often on a disk file system than /tmp
};

struct Outcome {
  Status status;
  Stats stats;
  std::vector<ChunkError> errors;
  std::vector<std::uint32_t> elements;
};

struct Reader {
  Reader(const Scene& scene, const char* engine, std::uint64_t index_bytes = 0, std::size_t wave_bytes = 1 << 18)
      : context(make(engine, index_bytes, wave_bytes)),
        device(Device::open("host-staged").value()),
        array(Array::open(Store::open(context, scene.dir.path()).value()).value()) {}
  static Context make(const char* engine, std::uint64_t index_bytes, std::size_t wave_bytes) {
    ContextOptions options;
    options.threads = 3;
    options.engine = engine;
    options.allow_mapped = false;  // mapped pages would stay in the page cache
    options.cache_reread = false;
    options.wave_bytes = wave_bytes;
    options.index_budget_bytes = index_bytes;
    return Context::create(options).value();
  }
  Outcome read(const char* part = "", Placement placement = Placement::kGpu, const Cancel* cancel = nullptr) const {
    Outcome out;
    const Selection selection = parse_selection(part).value();
    const auto shape = resolve_selection(selection, array.info().shape).value().shape;
    out.elements.assign(shape[0] * shape[1], 0x55555555);
    const Buffer buffer = Buffer::allocate(device, out.elements.size() * 4).value();
    ReadOptions options;
    options.collect_errors = cancel == nullptr;
    options.placement = placement;
    if (cancel != nullptr) options.cancel = *cancel;
    auto reading = array.read_async(selection, {buffer, array.info().dtype, shape}, device, options);
    if (!reading.ok()) {
      out.status = reading.status();
      return out;
    }
    if (cancel != nullptr) cancel->ask();
    out.status = reading->wait();
    out.stats = reading->stats();
    out.errors = reading->errors();
    std::sort(out.errors.begin(), out.errors.end(), [](const ChunkError& a, const ChunkError& b) {
      return std::pair(a.key, a.offset) < std::pair(b.key, b.offset);
    });
    HOLDS(bytes_by_all_ways(out.stats) == out.stats.read_bytes);
    HOLDS(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(out.elements.data()), out.elements.size() * 4).ok());
    return out;
  }

  Context context;
  Device device;
  Array array;
};

struct Crop {
  const char* text;
  std::uint64_t row, rows, row_step, column, columns, column_step;
};
inline constexpr Crop kCrops[] = {{"", 0, kRows, 1, 0, kColumns, 1},
                                  {"5:50,7:2990", 5, 45, 1, 7, 2983, 1},
                                  {"9:11,:", 9, 2, 1, 0, kColumns, 1},
                                  {"::7,3::5", 0, 9, 7, 3, 600, 5},
                                  {"17:18,2040:2060", 17, 1, 1, 2040, 20, 1}};

inline bool right(const Outcome& out, const Crop& crop) {
  if (!out.status.ok() || !out.errors.empty() || out.elements.size() != crop.rows * crop.columns) return false;
  for (std::uint64_t i = 0; i < out.elements.size(); ++i) {
    const std::uint64_t row = crop.row + i / crop.columns * crop.row_step;
    if (out.elements[i] != value_at(row, crop.column + i % crop.columns * crop.column_step)) return false;
  }
  return true;
}

inline std::string about(const Kind& kind, const Outcome& out) {
  return std::string(kind.name) + ": " + out.status.to_string() + "; " + out.stats.path + "; straight " +
         std::to_string(out.stats.straight_bytes) + " of " + std::to_string(out.stats.direct_bytes) + ", bus " +
         std::to_string(out.stats.bus_bytes) + ", errors " + std::to_string(out.errors.size()) +
         (out.errors.empty() ? "" : " " + out.errors[0].status.to_string());
}

class StraightRead : public ::testing::Test {
 protected:
  void SetUp() override {
    support::TempDir dir{"."};
    ASSERT_TRUE(support::write_file(dir / "file", support::pattern(4096)));
    const int fd = ::open((dir / "file").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) GTEST_SKIP() << "this file system refuses O_DIRECT";
    ::close(fd);
  }
  // Runs `body` in a process of its own for each kind of array, for few of them where that is slow.
  static void for_all_kinds(const std::function<void(const Kind&)>& body, bool slow = support::kThreadSanitizer) {
    const std::string few[] = {"raw", "zstd", "blosc_zstd", "shards_blosc_crc"};
    for (const Kind& kind : kinds()) {
      if (!slow || std::ranges::find(few, kind.name) != std::end(few)) in_process([&] { body(kind); });
    }
  }
};

}  // namespace headrace::testing
