// Generated data depends only on the seed, not on threads, chunks or format. It compresses like reanalysis fields, and
// the workloads' plans have their documented shapes.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/device.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <thread>

#include "tests/support/codec_testing.h"
#include "tests/support/sanitizer.h"
#include "tests/support/temp_dir.h"
#include "tools/headrace/gen/field_source.h"
#include "tools/headrace/gen/parallel.h"
#include "tools/headrace/gen/pending_output.h"
#include "tools/headrace/gen/store_generator.h"
#include "tools/headrace/gen/workload.h"
#include "tools/headrace/sha256.h"

namespace headrace::cli {
namespace {

const FieldSource& source() {
  static const FieldSource made(7);
  return made;
}

StorePlan plan_of(const std::string& workload, std::uint64_t decoded_bytes, const std::string& format = "",
                  const std::string& codec = "", std::vector<std::vector<std::uint64_t>> chunks = {}) {
  WorkloadOptions options;
  options.workload = workload;
  options.decoded_bytes = decoded_bytes;
  options.format = format;
  options.codec = codec;
  options.chunks = std::move(chunks);
  auto plan = plan_workload(options);
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  return plan.ok() ? *plan : StorePlan();
}

const ArrayPlan& array_of(const StorePlan& plan, const std::string& name) {
  for (const ArrayPlan& array : plan.arrays) {
    if (array.name == name) return array;
  }
  ADD_FAILURE() << "no array " << name;
  return plan.arrays.front();
}

std::vector<std::byte> first_chunk(const ArrayPlan& array) {
  std::uint64_t bytes = 4;
  for (const std::uint64_t extent : array.chunk) bytes *= extent;
  std::vector<std::byte> out(bytes);
  fill_chunk(array, source(), std::vector<std::uint64_t>(array.chunk.size(), 0), out);
  return out;
}

// Every file of a store and its bytes.
std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    files[std::filesystem::relative(entry.path(), folder)] =
        std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return files;
}

std::map<std::string, std::string> generate(const StorePlan& plan, unsigned threads) {
  const support::TempDir folder;
  const auto made = generate_store(plan, source(), folder.path(), threads, [](std::uint64_t, std::uint64_t) {});
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return files_of(folder.path());
}

// SHA-256 of a whole array, read with headrace.
std::string digest_of(const StorePlan& plan, const std::string& name) {
  const support::TempDir folder;
  EXPECT_TRUE(generate_store(plan, source(), folder.path(), 2, [](std::uint64_t, std::uint64_t) {}).ok());
  const auto context = Context::create();
  const auto store = Store::open(*context, folder.path());
  const auto array = Array::open(*store, name);
  EXPECT_TRUE(array.ok()) << array.status().to_string();
  std::vector<std::byte> values(array->info().decoded_bytes);
  const auto device = Device::open("host");
  const Status status = array->read({}, {values, array->info().dtype, array->info().shape}, *device);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return sha256_hex(values);
}

double ratio(const std::vector<std::byte>& plain, std::string_view codec, std::string_view config) {
  const auto made = test::make(codec, config)->make_encoder();
  EXPECT_TRUE(made.ok());
  std::vector<std::byte> out((*made)->bound_bytes(plain.size()));
  const auto bytes = (*made)->encode(plain, out);
  EXPECT_TRUE(bytes.ok());
  return static_cast<double>(plain.size()) / static_cast<double>(*bytes);
}

std::vector<std::byte> shuffled(const std::vector<std::byte>& plain) {
  std::vector<std::byte> out(plain.size());
  const auto made = test::make("numcodecs.shuffle")->make_encoder();
  EXPECT_TRUE((*made)->encode(plain, out).ok());
  return out;
}

// Recorded constants: on other machines, with other compilers and in later versions, the same seed gives the same
// values.
TEST(Gen, ValuesAreFixedForever) {
  HEADRACE_ONE_THREAD_DOES_ALL();
  const StorePlan globe = plan_of("w1", 1);
  EXPECT_EQ(sha256_hex(first_chunk(array_of(globe, "geopotential"))),
            "7f20de16b989ba5800bba75a78df31a2a9b6863df54c6eb48652a46ba400d781");
  EXPECT_EQ(sha256_hex(first_chunk(array_of(globe, "u_component_of_wind"))),
            "4936a23036e39a9acb1d341982a1108e57cb075ceb5945f8b64220c5c2640954");
  EXPECT_EQ(sha256_hex(first_chunk(array_of(plan_of("w3", 1), "Q"))),
            "87e2353be6827fcc4450de83b5df0bb815e5d8f7b6952098783f9807a4bc1ce1");
  EXPECT_EQ(sha256_hex(first_chunk(array_of(plan_of("w5", 1), "a"))),
            "135e26a97f573c795fbd1279dd03b1c24ea469010d1fea3c4fc3ba3f1d77eb67");
  std::vector<std::byte> bytes(1000);
  source().random_bytes(0, 24, bytes);
  EXPECT_EQ(sha256_hex(bytes), "28f96051422fa2bb69939b17013c10fb176ed04ac2cb44dd7c33ffeb38b8e195");
}

TEST(Gen, AnotherSeedGivesOtherValues) {
  HEADRACE_ONE_THREAD_DOES_ALL();
  const FieldSource other(8);
  const StorePlan plan = plan_of("w1", 1);
  const ArrayPlan& array = array_of(plan, "geopotential");
  std::vector<std::byte> values(first_chunk(array).size());
  fill_chunk(array, other, std::vector<std::uint64_t>{0, 0, 0}, values);
  EXPECT_NE(values, first_chunk(array));
}

// Under ThreadSanitizer a single time step: its chunks suffice to make the threads interact, which they do in the same
// way for all formats but the last.
constexpr std::uint64_t kDecodedBytes = support::kThreadSanitizer ? 1 : 40'000'000;
constexpr std::uint64_t kChunkSteps = support::kThreadSanitizer ? 1 : 2;

TEST(Gen, FilesAreTheSameWhateverTheThreads) {
  for (const char* format : {"v2", "v3", "sharded"}) {
    if (support::kThreadSanitizer && std::string_view(format) == "v2") continue;
    const StorePlan plan = plan_of("w1", kDecodedBytes, format, "blosc-zstd:1", {{kChunkSteps, 300, 500}});
    const auto one = generate(plan, 1);
    EXPECT_GT(one.size(), 10u);
    EXPECT_TRUE(one == generate(plan, 5)) << format;
  }
}

TEST(Gen, ValuesAreTheSameWhateverTheChunksAndTheFormat) {
  const std::string whole = digest_of(plan_of("w1", kDecodedBytes), "u_component_of_wind");
  EXPECT_EQ(digest_of(plan_of("w1", kDecodedBytes, "v3", "zstd:1", {{kChunkSteps, 300, 500}}), "u_component_of_wind"),
            whole);
  EXPECT_EQ(digest_of(plan_of("w1", kDecodedBytes, "sharded", "lz4", {{1, 721, 720}}), "u_component_of_wind"), whole);
  EXPECT_EQ(digest_of(plan_of("w1", kDecodedBytes, "v2", "gzip"), "u_component_of_wind"), whole);
}

// The stacked array contains the fields of the separate ones.
TEST(Gen, StackedChannelsAreTheSeparateArrays) {
  const StorePlan stacked = plan_of("w4", 1), separate = plan_of("w3", 1);
  const ArrayPlan& combined = array_of(stacked, "combined");
  ASSERT_EQ(combined.shape, (std::vector<std::uint64_t>{1, 71, 640, 1280}));
  std::vector<std::byte> values(640 * 1280 * 4), expected(values.size());
  fill_chunk(combined, source(), std::vector<std::uint64_t>{0, 5, 0, 0}, values);
  fill_chunk(array_of(separate, "t2m"), source(), std::vector<std::uint64_t>{0, 0, 0}, expected);
  EXPECT_EQ(values, expected);
  fill_chunk(combined, source(), std::vector<std::uint64_t>{0, 70, 0, 0}, values);
  fill_chunk(array_of(separate, "V"), source(), std::vector<std::uint64_t>{0, 15, 0, 0}, expected);
  EXPECT_EQ(values, expected);
}

// Fields made by packing reanalysis-like spectra to 16 bits compress 2.8 (temperature) and 2.1 (wind) times when
// shuffled, 1.8 and 1.6 when not; uniform random numbers 1.12.
TEST(Gen, FieldsCompressLikeReanalysis) {
  HEADRACE_ONE_THREAD_DOES_ALL();
  const StorePlan model = plan_of("w6", 1), noise = plan_of("w5", 1);
  const char* zstd = R"({"level":3,"checksum":false})";
  const auto temperature = first_chunk(array_of(model, "T500")), wind = first_chunk(array_of(model, "U500"));
  EXPECT_NEAR(ratio(shuffled(temperature), "zstd", zstd), 2.8, 0.15);
  EXPECT_NEAR(ratio(shuffled(wind), "zstd", zstd), 2.15, 0.15);
  EXPECT_NEAR(ratio(temperature, "zstd", zstd), 1.85, 0.15);
  EXPECT_NEAR(ratio(wind, "zstd", zstd), 1.65, 0.15);
  EXPECT_NEAR(ratio(shuffled(wind), "numcodecs.lz4", "{}"), 1.9, 0.15);
  EXPECT_NEAR(ratio(first_chunk(array_of(noise, "a")), "zstd", zstd), 1.12, 0.02);
}

// For the whole first workload, as the guide says.
TEST(Gen, TheGlobalFieldsCompressMoreThanTwice) {
  const StorePlan plan = plan_of("w1", 40'000'000, "v2", "blosc-zstd:2");
  const support::TempDir folder;
  const auto made = generate_store(plan, source(), folder.path(), 2, [](std::uint64_t, std::uint64_t) {});
  ASSERT_TRUE(made.ok());
  EXPECT_NEAR(static_cast<double>(plan.decoded_bytes) / static_cast<double>(made->stored_bytes), 2.3, 0.15);
}

TEST(Gen, NeighbouringTimesResembleEachOtherAndNoiseDoesNotRepeat) {
  HEADRACE_ONE_THREAD_DOES_ALL();
  const StorePlan plan = plan_of("w1", 700'000'000);
  const ArrayPlan& array = array_of(plan, "u_component_of_wind");
  const auto at = [&](std::uint64_t time) {
    std::vector<float> values(721 * 1440);
    fill_chunk(array, source(), std::vector<std::uint64_t>{time, 0, 0}, std::as_writable_bytes(std::span(values)));
    return values;
  };
  const auto correlation = [](const std::vector<float>& a, const std::vector<float>& b) {
    double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
    for (const float v : a) ma += v;
    for (const float v : b) mb += v;
    ma /= static_cast<double>(a.size());
    mb /= static_cast<double>(b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      aa += (a[i] - ma) * (a[i] - ma);
      bb += (b[i] - mb) * (b[i] - mb);
      ab += (a[i] - ma) * (b[i] - mb);
    }
    return ab / std::sqrt(aa * bb);
  };
  const auto now = at(0);
  EXPECT_GT(correlation(now, at(1)), 0.9);
  EXPECT_LT(correlation(now, at(10)), 0.7);
  EXPECT_NE(now, at(40));
}

TEST(Gen, WorkloadsHaveTheirShapes) {
  struct Expected {
    const char* workload;
    const char* array;
    std::vector<std::uint64_t> shape, chunk;
    std::uint64_t data_bytes;  // at scale 1; 0: not checked
  };
  const Expected rows[] = {
      {"w1", "geopotential", {1464, 721, 1440}, {1, 721, 1440}, 18'239'800'320},
      {"w2", "T", {1460, 16, 640, 1280}, {10, 1, 640, 1280}, 0},
      {"w2", "SP", {1460, 640, 1280}, {10, 640, 1280}, 0},
      {"w3", "t2m", {1460, 640, 1280}, {1, 640, 1280}, 0},
      {"w4", "combined", {1460, 71, 640, 1280}, {1, 1, 640, 1280}, 0},
      {"w5", "a", {10, 128, 1280, 640}, {1, 1, 1280, 640}, 4'194'304'000},
      {"w6", "Z500", {1460, 640, 1280}, {1, 640, 1280}, 0},
  };
  for (const Expected& row : rows) {
    const StorePlan plan = plan_of(row.workload, 0);
    EXPECT_EQ(array_of(plan, row.array).shape, row.shape) << row.workload;
    EXPECT_EQ(array_of(plan, row.array).chunk, row.chunk) << row.workload;
    std::uint64_t bytes = 0;
    for (const ArrayPlan& array : plan.arrays) {
      if (!array.channels.empty())
        bytes += 4 * array.shape[0] * array.channels.size() * array.shape.back() * array.shape[array.shape.size() - 2];
    }
    EXPECT_TRUE(row.data_bytes == 0 || bytes == row.data_bytes) << row.workload << ": " << bytes;
  }
  // Scale and size change only the number of time steps, which is at least one.
  WorkloadOptions options;
  options.workload = "w1";
  options.scale = 1e-9;
  EXPECT_EQ(array_of(*plan_workload(options), "geopotential").shape[0], 1u);
  options.scale = 0.5;
  EXPECT_EQ(array_of(*plan_workload(options), "geopotential").shape[0], 732u);
  options.decoded_bytes = 3 * 4'152'960 * 10 + 5;
  EXPECT_EQ(array_of(*plan_workload(options), "geopotential").shape[0], 10u);
  EXPECT_EQ(array_of(plan_of("w5", 0, "sharded"), "a").shard, (std::vector<std::uint64_t>{1, 19, 1280, 640}));
  EXPECT_EQ(array_of(plan_of("w1", 0, "sharded"), "geopotential").shard, (std::vector<std::uint64_t>{16, 721, 1440}));
}

TEST(Gen, WrongRequestsAreRefused) {
  for (const char* codec :
       {"", "zst", "zstd:", "zstd:0", "zstd:23", "zstd:3x", "none:1", "lz4:1", "gzip:-1", "blosc"}) {
    EXPECT_FALSE(parse_codec_choice(codec).ok()) << codec;
  }
  for (const char* codec : {"none", "lz4", "zstd:22", "gzip:0", "blosc-lz4:9", "blosc-zstd:0"}) {
    const auto parsed = parse_codec_choice(codec);
    ASSERT_TRUE(parsed.ok()) << codec;
    EXPECT_EQ(codec_text(*parsed), codec);
  }
  WorkloadOptions options;
  options.workload = "w9";
  EXPECT_EQ(plan_workload(options).status().code(), Code::kInvalidArgument);
  options.workload = "w1";
  for (const auto& chunk : std::vector<std::vector<std::uint64_t>>{{1, 721}, {1, 722, 1440}, {0, 1, 1}, {1, 1, 1, 1}}) {
    options.chunks = {chunk};
    EXPECT_EQ(plan_workload(options).status().code(), Code::kInvalidArgument);
  }
}

TEST(RunParallel, EachItemOnceAndTheFirstFailureEndsIt) {
  for (const unsigned threads : {1u, 3u, 64u}) {
    std::vector<std::atomic<int>> seen(1000);
    const auto count_each = [&]() -> Result<Work> {
      return Work([&](std::uint64_t i) -> Status {
        ++seen[i];
        return {};
      });
    };
    EXPECT_TRUE(run_parallel(threads, seen.size(), count_each).ok());
    for (const auto& count : seen) ASSERT_EQ(count, 1);
    std::atomic<std::uint64_t> calls{0};
    const Status status = run_parallel(threads, 1'000'000, [&]() -> Result<Work> {
      return Work([&](std::uint64_t i) -> Status {
        ++calls;
        // Otherwise the other threads would finish before the failure is known.
        if (i > 10) std::this_thread::sleep_for(std::chrono::microseconds(20));
        return i == 10 ? Status(Code::kIo, Layer::kApi, "planted") : Status();
      });
    });
    EXPECT_EQ(status.message(), "planted");
    EXPECT_LT(calls, 1'000'000u);
    EXPECT_EQ(run_parallel(threads, 5, []() -> Result<Work> { return Status::out_of_memory(); }).code(),
              Code::kResourceExhausted);
    EXPECT_TRUE(run_parallel(threads, 0, count_each).ok());
  }
}

std::string no_refusal(const std::string&) { return {}; }

// At every moment the name refers to either the old or the new output, and the old one stays if the new one cannot take
// its place.
TEST(PendingOutputTest, TheNameIsNeverWithoutAnOutput) {
  namespace fs = std::filesystem;
  for (const bool directory : {true, false}) {
    SCOPED_TRACE(directory);
    support::TempDir root;
    const std::string place = root / "out";
    const auto begin = [&](PendingOutput& output, bool overwrite) {
      return directory ? output.create_directory(place, overwrite, no_refusal) : output.create_file(place, overwrite);
    };
    {
      PendingOutput first;
      ASSERT_TRUE(begin(first, false).ok());
      for (int i = 0; directory && i < 2000; ++i) std::ofstream(first.partial_path() + "/" + std::to_string(i)) << i;
      ASSERT_TRUE(first.commit().ok());
    }
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> looks{0}, missing{0};
    std::thread looker([&] {
      while (!stop) {
        missing += fs::exists(fs::symlink_status(place)) ? 0 : 1;
        ++looks;
      }
    });
    while (looks == 0) std::this_thread::yield();
    PendingOutput second;
    ASSERT_TRUE(begin(second, true).ok());
    EXPECT_TRUE(second.commit().ok());
    stop = true;
    looker.join();
    EXPECT_EQ(missing, 0u);
    if (directory) {
      EXPECT_TRUE(fs::is_empty(place));
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(root.path()), fs::directory_iterator()), 1);

    PendingOutput lost;
    ASSERT_TRUE(begin(lost, true).ok());
    fs::remove_all(lost.partial_path());
    EXPECT_FALSE(lost.commit().ok());
    EXPECT_TRUE(fs::exists(place));

    PendingOutput late;
    fs::remove_all(place);
    ASSERT_TRUE(begin(late, false).ok());
    std::ofstream(place) << "somebody else's";
    EXPECT_FALSE(late.commit().ok());
    EXPECT_EQ(fs::file_size(place), 15u);
  }
}

}  // namespace
}  // namespace headrace::cli
