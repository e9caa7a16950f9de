// Property: the scratch that a read requests once suffices for each of its batches, however few chunks they have and
// however the read is divided into waves: placement's probes and trials, last waves, long reads, small budgets.
#include "tests/support/cuda_on_cpu.h"
//
#include <gtest/gtest.h>
#include <headrace/array_writer.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "codecs/blosc/blosc_scratch_device.cuh"
#include "codecs/deflate/deflate_stage_device.cuh"
#include "codecs/zstd/zstd_stage_device.cuh"
#include "device/decode_scratch.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

namespace gpu = codec::gpu;
using device::DecodeLimits;
using device::DecodeScratch;
using device::DecodeStage;

constexpr std::uint64_t kKi = 1024;

// The scratch that the stages with substantial scratch need on a GPU.
std::uint64_t scratch_on_gpu(const DecodeStage& stage, const device::gpu::Limits& limits) {
  if (stage.codec == "lz4") return gpu::lz4_stage_scratch_bytes(limits);
  if (stage.codec == "zstd") return gpu::lz77::stage_scratch_bytes<gpu::ZstdFormat>(limits);
  if (stage.codec == "gzip" || stage.codec == "zlib") return gpu::lz77::stage_scratch_bytes<gpu::DeflateFormat>(limits);
  if (stage.codec != "blosc") return 0;
  return gpu::blosc::stage_scratch_bytes(limits, stage.parameters[0] == 1   ? gpu::blosc::Named::kZstd
                                                 : stage.parameters[0] == 2 ? gpu::blosc::Named::kZlib
                                                                            : gpu::blosc::Named::kOthers);
}

struct Codec {
  std::string codec;
  std::uint64_t parameter = 0;
};
const Codec kCodecs[] = {{"lz4"}, {"zstd"}, {"gzip"}, {"blosc", 0}, {"blosc", 1}, {"blosc", 2}};

DecodeStage stage_of(const Codec& codec, std::uint64_t capacity) {
  DecodeStage stage;
  stage.codec = codec.codec;
  stage.parameters[0] = codec.parameter;
  stage.capacity_bytes = capacity;
  return stage;
}

std::uint64_t scratch_of(const std::vector<DecodeStage>& stages, const DecodeLimits& limits) {
  return DecodeScratch(stages).bytes(
      limits, [&](std::size_t i, const device::gpu::Limits& of_stage) { return scratch_on_gpu(stages[i], of_stage); });
}

// Possible batch sizes out of `most` chunks: all small ones, then some larger ones.
std::vector<std::uint32_t> batches_within(std::uint32_t most, std::mt19937& random) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t n = 1; n <= std::min<std::uint32_t>(most, 130); ++n) out.push_back(n);
  for (int i = 0; most > 130 && i < 20; ++i) out.push_back(131 + static_cast<std::uint32_t>(random() % (most - 130)));
  return out;
}

TEST(DecodeScratch, OfManyChunksIsEnoughForFewer) {
  std::mt19937 random(24);
  for (const Codec& codec : kCodecs) {
    for (const std::uint64_t chunk : {512u, 5'000u, 40'000u, 80'000u, 262'144u, 1u << 20, 9u << 20, 64u << 20}) {
      for (const bool shuffled : {false, true}) {
        std::vector<DecodeStage> stages{stage_of(codec, chunk + (shuffled ? 0 : 4))};
        if (shuffled) stages.push_back(stage_of({"shuffle"}, chunk));
        const std::uint64_t source = chunk + chunk / 200 + 64;
        for (const std::uint32_t most : {2u, 60u, 95u, 96u, 97u, 108u, 130u, 200u, 409u, 1000u, 4095u, 4096u}) {
          const std::uint64_t enough = scratch_of(stages, {most, most * source, source});
          for (const std::uint32_t n : batches_within(most, random)) {
            for (const std::uint64_t each : {std::uint64_t{1}, source / 7, source}) {
              ASSERT_LE(scratch_of(stages, {n, n * each, each}), enough)
                  << codec.codec << " " << codec.parameter << ": " << n << " chunks of " << chunk
                  << " bytes, stored as " << each << ", where room is for " << most;
            }
          }
        }
      }
    }
  }
}

// While one exists, the simulated GPU asks for as much scratch as a GPU.
struct AsksAsGpu {
  AsksAsGpu() {
    device::staged_decode_model().any_codec = true;
    device::staged_decode_model().stage_scratch = &scratch_on_gpu;
  }
  ~AsksAsGpu() {
    device::staged_decode_model().any_codec = false;
    device::staged_decode_model().stage_scratch = nullptr;
    device::staged_decode_model().decoded_bytes_per_us = 0;
  }
};

std::uint32_t value_at(std::uint64_t i) { return static_cast<std::uint32_t>(i / 5 * 2654435761u); }

// Writes an array of `chunks` chunks with the compressor.
void write_array(const Store& store, const std::string& path, const std::string& compressor, std::uint64_t chunks,
                 std::uint64_t chunk_elements) {
  const std::string document = R"({"zarr_format":2,"shape":[)" + std::to_string(chunks * chunk_elements) +
                               R"(],"chunks":[)" + std::to_string(chunk_elements) +
                               R"(],"dtype":"<u4","fill_value":0,"order":"C","filters":null,"compressor":)" +
                               compressor + "}";
  auto writer = ArrayWriter::create(store, path, 2, document);
  ASSERT_TRUE(writer.ok()) << writer.status().to_string();
  auto worker = writer->make_worker();
  ASSERT_TRUE(worker.ok()) << worker.status().to_string();
  for (std::uint64_t object = 0; object < writer->object_count(); ++object) {
    const auto written = worker->write(object, [&](std::span<const std::uint64_t> chunk, std::span<std::byte> bytes) {
      for (std::uint64_t i = 0; i < chunk_elements; ++i) {
        const std::uint32_t value = value_at(chunk[0] * chunk_elements + i);
        std::memcpy(bytes.data() + 4 * i, &value, 4);
      }
      return Status();
    });
    ASSERT_TRUE(written.ok()) << written.status().to_string();
  }
  ASSERT_TRUE(writer->finish().ok());
}

const char* const kCompressors[] = {
    R"({"id":"zstd","level":1})",
    R"({"id":"gzip","level":1})",
    R"({"id":"lz4","acceleration":1})",
    R"({"id":"blosc","cname":"lz4","clevel":1,"shuffle":1,"blocksize":0})",
    R"({"id":"blosc","cname":"zstd","clevel":1,"shuffle":1,"blocksize":0})",
};

struct Counts {
  std::uint64_t by_device = 0, by_cpu = 0, reads = 0;
};

// Reads the array's first `elements` without the first and the last of these: two chunks are decoded elsewhere and then
// placed.
void read_part(const Array& array, const Device& device, std::uint64_t elements, Placement placement, Counts& counts) {
  const std::uint64_t first = 1, count = elements - 2;
  auto buffer = Buffer::allocate(device, count * 4).value();
  const Selection selection = parse_selection(std::to_string(first) + ":" + std::to_string(first + count)).value();
  ReadOptions options;
  options.placement = placement;
  Stats stats;
  const Status status = array.read(selection, {buffer, array.info().dtype, {count}}, device, options, &stats);
  ASSERT_TRUE(status.ok()) << status.to_string();
  std::vector<std::uint32_t> got(count);
  ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), count * 4).ok());
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(got[i], value_at(first + i)) << i;
  counts.by_device += stats.gpu_chunks;
  counts.by_cpu += stats.cpu_chunks;
  ++counts.reads;
}

TEST(DecodeScratch, EveryDivisionOfAReadFits) {
  const AsksAsGpu asks;
  // As fast as one thread of the CPU, so that neither wins at once.
  device::staged_decode_model().decoded_bytes_per_us = 2000;
  constexpr std::uint64_t kElements = 512, kMaxChunks = 330;
  support::TempDir directory;
  auto writing = Store::open(Context::create().value(), directory.path()).value();
  for (std::size_t i = 0; i < std::size(kCompressors); ++i) {
    write_array(writing, std::to_string(i), kCompressors[i], kMaxChunks, kElements);
    ASSERT_FALSE(HasFatalFailure());
  }
  const auto device = Device::open("host-staged").value();
  Counts counts;
  // Chunks per wave: few, about the number at which decoders switch methods (96), all; and long reads with larger
  // waves.
  for (const std::uint64_t wave_chunks : {5u, 90u, 108u, 130u, 400u}) {
    for (const std::size_t device_budget : {std::size_t{2} << 30, std::size_t{512} << 20}) {
      ContextOptions options;
      options.threads = 2;
      options.wave_bytes = wave_chunks * kElements * 4;
      options.device_budget_bytes = device_budget;
      auto store = Store::open(Context::create(options).value(), directory.path()).value();
      for (std::size_t i = 0; i < std::size(kCompressors); ++i) {
        SCOPED_TRACE(std::string(kCompressors[i]) + ", waves of " + std::to_string(wave_chunks) + " chunks");
        const auto array = Array::open(store, std::to_string(i)).value();
        for (const Placement placement : {Placement::kAuto, Placement::kGpu}) {
          for (const std::uint64_t chunks : {13u, 97u, 207u, 330u}) {
            read_part(array, device, chunks * kElements, placement, counts);
            ASSERT_FALSE(HasFatalFailure()) << chunks << " chunks";
          }
        }
      }
    }
  }
  EXPECT_GT(counts.by_device, counts.reads) << "the device decoded hardly anything";
  EXPECT_GT(counts.by_cpu, 0u) << "the CPU had no turn";
}

// A read whose waves are divided by a probe of the CPU, repeatedly.
TEST(DecodeScratch, ProbesOfPlacementLeaveBatchesThatFit) {
  const AsksAsGpu asks;
  device::staged_decode_model().decoded_bytes_per_us = 4000;
  constexpr std::uint64_t kElements = 20'000, kChunks = 108;
  support::TempDir directory;
  ContextOptions options;
  options.threads = 16;
  auto store = Store::open(Context::create(options).value(), directory.path()).value();
  write_array(store, "", kCompressors[4], kChunks, kElements);
  ASSERT_FALSE(HasFatalFailure());
  const auto array = Array::open(store).value();
  const auto device = Device::open("host-staged").value();
  Counts counts;
  for (int i = 0; i < 100 && counts.by_cpu == 0; ++i) {
    read_part(array, device, kChunks * kElements, Placement::kAuto, counts);
    ASSERT_FALSE(HasFatalFailure()) << "read " << i;
  }
  EXPECT_GT(counts.by_cpu, 0u) << "no probe was made";
  EXPECT_GT(counts.by_device, 0u);
}

}  // namespace
}  // namespace headrace
