// The engine gds reads files and chunks into GPU memory with the libcufile that it finds or that HEADRACE_GDS_LIBRARY
// names. It delivers the right bytes in both of cuFile's modes, after the work queued on the caller's stream, and
// reports the path taken. Arrays also give the same errors as through host memory.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/array_writer.h>
#include <headrace/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/engine.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using support::pattern;

constexpr std::size_t kBytes = (std::size_t{9} << 20) + 1234;

class GdsGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engine = io::make_engine("gds", {});
    if (!engine.ok()) GTEST_SKIP() << engine.status().to_string();
    std::printf("%s\n", (*engine)->info().features.c_str());
    auto device = Device::open("cuda");
    if (!device.ok()) GTEST_SKIP() << device.status().to_string();
    device_.emplace(*device);
    auto memory = Buffer::allocate(*device_, kBytes);
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    memory_.emplace(std::move(*memory));
    ASSERT_TRUE(support::write_file(dir_ / "data", bytes_));
    const int fd = ::open((dir_ / "data").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) GTEST_SKIP() << "this file system refuses O_DIRECT";
    ::fsync(fd);
    ::close(fd);
  }

  // Reads ranges with arbitrary ends, in several rounds.
  FileStats read(void* stream, int rounds = 3) {
    ContextOptions options;
    options.engine = "gds";
    auto context = Context::create(options);
    auto file = File::open(dir_ / "data");
    FileQueueOptions queue_options;
    queue_options.path = Path::kDirect;
    queue_options.native_stream = stream;
    auto queue = FileQueue::create(*context, *device_, queue_options);
    if (!context.ok() || !file.ok() || !queue.ok()) {
      ADD_FAILURE() << "cannot set up";
      return {};
    }
    std::byte* const to = memory_->data();
    const std::vector<FileRange> ranges = {{0, to, 4096},
                                           {4096, to + 4096, 12'345},
                                           {16'441, to + 16'441, kBytes - 16'441 - 7},
                                           {kBytes - 7, to + kBytes - 7, 7}};
    for (int round = 0; round < rounds; ++round) {
      EXPECT_TRUE(queue->read(*file, ranges, 1).ok());
      FileCompletion done;
      EXPECT_EQ(queue->wait({&done, 1}, 1, 30s), 1u);
      EXPECT_TRUE(done.status.ok()) << done.status.to_string();
    }
    return queue->stats();
  }

  void expect_bytes() {
    std::vector<std::byte> got(kBytes);
    ASSERT_EQ(cudaMemcpy(got.data(), memory_->data(), kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_TRUE(got == bytes_);
  }

  // NVIDIA's library refuses files on disks that it does not know. Such reads go through host memory, and the notes say
  // so.
  void expect_account(const FileStats& stats) {
    std::printf("straight %llu of %llu bytes; notes: %s\n", static_cast<unsigned long long>(stats.straight_bytes),
                static_cast<unsigned long long>(stats.direct_bytes), stats.notes.c_str());
    EXPECT_EQ(stats.engine, "gds");
    const bool gave_up = stats.notes.find("direct reads into device memory are disabled") != std::string::npos;
    EXPECT_TRUE(gave_up || stats.straight_bytes == stats.direct_bytes);
    if (own_library()) EXPECT_GT(stats.straight_bytes, 0u);
  }

  // headrace's own library reads into any memory; NVIDIA's may refuse this disk.
  static bool own_library() {
    const char* named = std::getenv("HEADRACE_GDS_LIBRARY");
    return named != nullptr && std::strstr(named, "lib/cufile/") != nullptr;
  }

  support::TempDir dir_{"."};
  const std::vector<std::byte> bytes_ = pattern(kBytes);
  std::optional<Device> device_;
  std::optional<Buffer> memory_;
};

TEST_F(GdsGpu, FilesIntoDeviceMemory) {
  ASSERT_EQ(cudaMemset(memory_->data(), 0x5A, kBytes), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  expect_account(read(nullptr));
  expect_bytes();
}

TEST_F(GdsGpu, AfterWorkQueuedOnTheCallersStream) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(
                stream, [](void*) { std::this_thread::sleep_for(300ms); }, nullptr),
            cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory_->data(), 0x5A, kBytes, stream), cudaSuccess);
  expect_account(read(stream, 1));
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  expect_bytes();
  cudaStreamDestroy(stream);
}

constexpr std::uint64_t kRows = 520, kColumns = 3000;

// Half of the bytes are noise.
std::uint32_t value_at(std::uint64_t row, std::uint64_t column) {
  const std::uint64_t x = (row * kColumns + column + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<std::uint32_t>((x ^ (x >> 31)) & 0xffff) | 0x40000000u;
}

struct Kind {
  const char* name;
  std::string codecs;
  bool sharded = false;
};

std::vector<Kind> kinds() {
  const std::string little = R"({"name":"bytes","configuration":{"endian":"little"}})";
  const std::string zstd = R"(,{"name":"zstd","configuration":{"level":1,"checksum":true}})";
  const std::string lz4 = R"(,{"name":"numcodecs.lz4","configuration":{"acceleration":1}})";
  const std::string crc = R"(,{"name":"crc32c"})";
  const auto blosc = [](const char* name) {
    return R"(,{"name":"blosc","configuration":{"cname":")" + std::string(name) +
           R"(","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":16384}})";
  };
  const auto shards = [](const std::string& codecs) {
    return R"({"name":"sharding_indexed","configuration":{"chunk_shape":[40,1000],"codecs":[)" + codecs +
           R"(],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}]}})";
  };
  return {{"raw", little},
          {"raw_crc", little + crc},
          {"zstd", little + zstd},
          {"zstd_crc", little + zstd + crc},
          {"lz4", little + lz4},
          {"blosc_zstd", little + blosc("zstd")},
          {"blosc_lz4", little + blosc("lz4")},
          {"shards_raw", shards(little), true},
          {"shards_zstd", shards(little + zstd), true},
          {"shards_blosc", shards(little + blosc("zstd")), true}};
}

class GdsArrays : public GdsGpu {
 protected:
  void write(const Kind& kind) {
    std::filesystem::create_directory(dir_ / kind.name);
    const Store store = Store::open(Context::create().value(), dir_ / kind.name).value();
    const std::string document =
        R"({"zarr_format":3,"node_type":"array","shape":[)" + std::to_string(kRows) + "," + std::to_string(kColumns) +
        R"(],"data_type":"uint32","fill_value":9,"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" +
        (kind.sharded ? "240,3000" : "40,1000") + R"(]}},"chunk_key_encoding":{"name":"default"},"codecs":[)" +
        kind.codecs + "]}";
    auto writer = ArrayWriter::create(store, "", 3, document);
    ASSERT_TRUE(writer.ok()) << writer.status().to_string();
    auto worker = writer->make_worker().value();
    const ArrayInfo info = writer->info();
    const auto fill = [&info](std::span<const std::uint64_t> chunk, std::span<std::byte> elements) -> Status {
      for (std::uint64_t i = 0; i < elements.size() / 4; ++i) {
        const std::uint32_t value = value_at(chunk[0] * info.chunk_shape[0] + i / info.chunk_shape[1],
                                             chunk[1] * info.chunk_shape[1] + i % info.chunk_shape[1]);
        std::memcpy(&elements[4 * i], &value, 4);
      }
      return {};
    };
    for (std::uint64_t i = 0; i < writer->object_count(); ++i) ASSERT_TRUE(worker.write(i, fill).ok());
    ASSERT_TRUE(writer->finish().ok());
  }

  struct Outcome {
    Status status;
    Stats stats;
    std::vector<std::string> errors;
    std::vector<std::uint32_t> elements;
    std::string report;
  };
  Outcome read_array(const Kind& kind, const char* engine, const char* part) {
    Outcome out;
    ContextOptions options;
    options.engine = engine;
    const Context context = Context::create(options).value();
    const Array array = Array::open(Store::open(context, dir_ / kind.name).value()).value();
    const Selection selection = parse_selection(part).value();
    const auto shape = resolve_selection(selection, array.info().shape).value().shape;
    out.elements.assign(shape[0] * shape[1], 0x55555555);
    const Buffer buffer = Buffer::allocate(*device_, out.elements.size() * 4).value();
    ReadOptions read_options;
    read_options.collect_errors = true;
    read_options.placement = Placement::kGpu;
    if (std::strncmp(kind.name, "raw", 4) == 0 || std::strcmp(kind.name, "shards_raw") == 0)
      read_options.placement = Placement::kAuto;
    auto reading = array.read_async(selection, {buffer, array.info().dtype, shape}, *device_, read_options).value();
    out.status = reading.wait();
    out.stats = reading.stats();
    for (const ChunkError& error : reading.errors()) out.errors.push_back(error.status.to_string());
    std::sort(out.errors.begin(), out.errors.end());
    out.report = context.engine_report();
    EXPECT_TRUE(
        buffer.copy_to_host(0, reinterpret_cast<std::byte*>(out.elements.data()), out.elements.size() * 4).ok());
    return out;
  }
  void expect_straight(const Outcome& out) {
    const bool gave_up = out.report.find("direct reads into device memory are disabled") != std::string::npos;
    EXPECT_TRUE(gave_up || out.stats.straight_bytes > 0) << out.report;
    if (own_library()) EXPECT_GT(out.stats.straight_bytes, 0u) << out.report;
  }
};

TEST_F(GdsArrays, GiveTheSameElements) {
  struct Crop {
    const char* text;
    std::uint64_t row, rows, row_step, column, columns, column_step;
  };
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    write(kind);
    if (HasFatalFailure()) return;
    for (const Crop& crop : {Crop{"", 0, kRows, 1, 0, kColumns, 1}, Crop{"5:450,7:2990", 5, 445, 1, 7, 2983, 1},
                             Crop{"90:101,:", 90, 11, 1, 0, kColumns, 1}, Crop{"::7,3::5", 0, 75, 7, 3, 600, 5}}) {
      SCOPED_TRACE(crop.text);
      const Outcome out = read_array(kind, "gds", crop.text);
      ASSERT_TRUE(out.status.ok() && out.errors.empty()) << out.status.to_string();
      for (std::uint64_t i = 0; i < out.elements.size(); ++i) {
        ASSERT_EQ(out.elements[i], value_at(crop.row + i / crop.columns * crop.row_step,
                                            crop.column + i % crop.columns * crop.column_step))
            << i;
      }
      if (*crop.text == '\0') {
        expect_straight(out);
        std::printf("%s: straight %llu of %llu bytes, %s\n", kind.name,
                    static_cast<unsigned long long>(out.stats.straight_bytes),
                    static_cast<unsigned long long>(out.stats.direct_bytes), out.stats.path.c_str());
      }
    }
  }
}

// The device hands damaged chunks back. The CPU gets them from the device and reports what it would have reported of
// the file.
TEST_F(GdsArrays, DamagedChunksGiveTheSameErrors) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    write(kind);
    if (HasFatalFailure()) return;
    std::size_t number = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / kind.name)) {
      if (!entry.is_regular_file() || entry.path().filename() == "zarr.json" || number++ % 3 == 2) continue;
      const std::uint64_t bytes = entry.file_size();
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      for (std::uint64_t at = number % 2 == 0 ? 0 : bytes / 5; at + 8 < bytes; at += bytes / 2) {
        file.seekp(static_cast<std::streamoff>(at));
        file.write("\x7f\xff\x01\xee\x80\x00\x33\x12", 8);
      }
    }
    for (const char* part : {"", "5:450,7:2990"}) {
      const Outcome straight = read_array(kind, "gds", part), through_host = read_array(kind, "threads", part);
      expect_straight(straight);
      EXPECT_EQ(through_host.stats.straight_bytes, 0u);
      EXPECT_EQ(straight.errors, through_host.errors);
      if (straight.errors.empty()) EXPECT_TRUE(straight.elements == through_host.elements);
      std::printf("%s %s: %zu errors, %llu chunks handed back\n", kind.name, part, straight.errors.size(),
                  static_cast<unsigned long long>(straight.stats.returned_chunks));
    }
  }
}

}  // namespace
}  // namespace headrace
