// Property: whichever allocation fails, on any thread, the call ends with the right result or a typed error. Nothing
// crashes, hangs or leaks, and the same objects work afterwards.
//
// Metadata documents are parsed without injected failures, because nlohmann-json's destructor allocates and terminates
// the process if it cannot (docs/reference/reliability.md).
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/byte_store.h>
#include <headrace/file.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "base/json.h"
#include "support/alloc_counter.h"
#include "support/flat_array.h"
#include "support/nested_shards.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"
#include "support/variable_model.h"

namespace headrace {
namespace {

using support::AllocFailure;
using testing::FlatArray;
using testing::Layout;

constexpr std::uint64_t kGiveUp = 20'000;  // more allocations than any scenario makes

// Runs `scenario` with the first, second, ... allocation failing, until a run meets no failure. The scenario must not
// use the test framework, which allocates too. It reports whether the outcome was allowed, and why not.
struct Outcome {
  bool succeeded = false;
  const char* wrong = nullptr;
};

void refuse_each(const std::function<Outcome()>& scenario, AllocFailure how) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  support::wait_until_unchanged();  // opens chunk files that stay open before descriptors are counted
  for (int warm = 0; warm < 2; ++warm) {
    const Outcome clean = scenario();
    ASSERT_TRUE(clean.succeeded && clean.wrong == nullptr)
        << (clean.wrong != nullptr ? clean.wrong : "fails by itself");
  }
  const std::size_t descriptors = support::open_descriptors();
  std::uint64_t n = 0, failures = 0;
  for (;; ++n) {
    ASSERT_LT(n, kGiveUp);
    support::fail_at(n, how);
    const Outcome outcome = scenario();
    const std::uint64_t refused = support::stop_failing();
    ASSERT_EQ(outcome.wrong, nullptr) << outcome.wrong << ", allocation " << n;
    if (refused == 0) {
      EXPECT_TRUE(outcome.succeeded);
      break;
    }
    failures += outcome.succeeded ? 0 : 1;
    const Outcome after = scenario();
    ASSERT_TRUE(after.succeeded && after.wrong == nullptr) << "not usable after allocation " << n << " was refused";
  }
  EXPECT_GT(failures, 0u);
  EXPECT_LE(support::descriptors_left(descriptors), descriptors);
  ::testing::Test::RecordProperty("allocations", static_cast<int>(n));

  // Live memory does not grow: many failing runs leave as many blocks as a few.
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      for (std::uint64_t at = 0; at < n; at += 1 + n / 37) {
        support::fail_at(at, how);
        (void)scenario();
        support::stop_failing();
      }
      (void)scenario();
    }
  };
  rounds(1);
  const std::int64_t before = support::live_blocks();
  rounds(8);
  // After 300 failed runs. Blocks that the last reads left for a pool worker to free are not leaks: on a busy machine
  // that worker may not have run yet.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (support::live_blocks() - before > 150 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LE(support::live_blocks() - before, 150);
}

bool typed(const Status& status) {
  return status.code() == Code::kResourceExhausted || status.code() == Code::kUnsupported || status.code() == Code::kIo;
}

class AllocationFailure : public ::testing::TestWithParam<AllocFailure> {};

TEST_P(AllocationFailure, OpeningAStore) {
  support::TempDir directory;
  ContextOptions options;
  options.threads = 1;
  auto context = Context::create(options).value();
  const std::string path = directory.path();
  refuse_each(
      [&]() -> Outcome {
        auto store = Store::open(context, path);
        return {store.ok(), store.ok() || typed(store.status()) ? nullptr : "the error has an unexpected code"};
      },
      GetParam());
}

TEST_P(AllocationFailure, MakingAContext) {
  refuse_each(
      []() -> Outcome {
        ContextOptions options;
        options.threads = 2;
        auto context = Context::create(options);
        return {context.ok(), context.ok() || typed(context.status()) ? nullptr : "the error has an unexpected code"};
      },
      GetParam());
}

// Makes a queue, reads three ranges and writes them to another file.
TEST_P(AllocationFailure, MovingFiles) {
  constexpr std::size_t kBytes = 300'000;
  support::TempDir directory;
  ASSERT_TRUE(support::write_file(directory / "in", support::pattern(kBytes)));
  ContextOptions options;
  options.threads = 1;
  auto context = Context::create(options).value();
  auto device = Device::open("host-staged").value();
  auto memory = Buffer::allocate(device, kBytes).value();
  const auto expected = support::pattern(kBytes);
  std::vector<std::byte> got(kBytes);
  for (const Path path : {Path::kAuto, Path::kBuffered, Path::kDirect}) {
    const File in = File::open(directory / "in").value(),
               out = File::open(directory / "out", {true, true, false}).value();
    FileQueueOptions queue_options;
    queue_options.path = path;
    queue_options.staging_bytes = std::size_t{4} << 20;
    queue_options.depth = 8;
    refuse_each(
        [&]() -> Outcome {
          auto queue = FileQueue::create(context, device, queue_options);
          if (!queue.ok()) return {false, typed(queue.status()) ? nullptr : "the error has an unexpected code"};
          for (const bool write : {false, true}) {
            const FileRange ranges[] = {{0, memory.data(), 4096},
                                        {4096, memory.data() + 4096, 200'000},
                                        {204'096, memory.data() + 204'096, kBytes - 204'096}};
            const Status status = write ? queue->write(out, ranges, 1) : queue->read(in, ranges, 1);
            if (!status.ok()) return {false, typed(status) ? nullptr : "the error has an unexpected code"};
            FileCompletion done;
            if (queue->wait({&done, 1}) != 1) return {false, "no completion"};
            if (!done.status.ok()) return {false, typed(done.status) ? nullptr : "the error has an unexpected code"};
          }
          support::AllocFailurePause pause;
          const bool right = memory.copy_to_host(0, got.data(), kBytes).ok() && got == expected;
          return {right, right ? nullptr : "wrong bytes"};
        },
        GetParam());
  }
}

struct ReadScenario {
  ReadScenario(const FlatArray& what, const char* device_name, unsigned threads, const char* engine)
      : array(what), expected(what.expected()), got(what.elements()) {
    ContextOptions options;
    options.threads = threads;
    options.engine = engine;
    options.wave_bytes = 4096;
    options.host_budget_bytes = std::size_t{8} << 20;
    context = std::make_unique<Context>(Context::create(options).value());
    store = std::make_unique<Store>(Store::open(*context, directory.path()).value());
    device = std::make_unique<Device>(Device::open(device_name).value());
    EXPECT_TRUE(testing::write_flat_array(*Access::impl(*store), "", array).ok());
    tensor = {got, {array.elements()}};
  }
  // Reopens the array, so that shard indexes are read as well. host-staged allocates ordinary memory too.
  Outcome read() {
    std::fill(got.begin(), got.end(), 0u);
    std::optional<Array> opened;
    {
      support::AllocFailurePause pause;
      opened.emplace(Array::open(*store).value());
    }
    ReadOptions options;
    options.placement = placement;
    const Status status = opened->read({}, tensor, *device, options);
    {
      support::AllocFailurePause pause;
      opened.reset();
    }
    if (!status.ok()) return {false, typed(status) ? nullptr : "the read's error is of no fitting type"};
    return {true, got == expected ? nullptr : "wrong elements"};
  }

  support::TempDir directory;
  const FlatArray array;
  const std::vector<std::uint32_t> expected;
  std::vector<std::uint32_t> got;
  TensorView tensor;
  Placement placement = Placement::kAuto;
  std::unique_ptr<Context> context;
  std::unique_ptr<Store> store;
  std::unique_ptr<Device> device;
};

// The device decodes, and leaves every third chunk to the CPU.
TEST_P(AllocationFailure, ReadingWhatTheDeviceDecodes) {
  device::staged_decode_model().any_codec = true;
  device::staged_decode_model().host_only_every = 3;
  for (const Layout layout : {Layout::kBlosc, Layout::kShardedZstd}) {
    const FlatArray array{.layout = layout, .chunks = 48, .shard_chunks = 8};
    for (const unsigned threads : {1u, 2u}) {
      for (const Placement placement : {Placement::kGpu, Placement::kAuto}) {
        SCOPED_TRACE(std::string(testing::layout_name(layout)) + " " + std::to_string(threads));
        ReadScenario scenario(array, "host-staged", threads, "auto");
        scenario.placement = placement;
        refuse_each([&] { return scenario.read(); }, GetParam());
        if (HasFailure() || IsSkipped()) break;
      }
    }
  }
  device::staged_decode_model().any_codec = false;
  device::staged_decode_model().host_only_every = 0;
}

TEST_P(AllocationFailure, ReadingAShardedArray) {
  const FlatArray array{.layout = Layout::kShardedZstd, .chunks = 48, .shard_chunks = 8};
  for (const char* device : {"host", "host-staged"}) {
    for (const char* engine : {"auto", "threads"}) {
      for (const unsigned threads : {1u, 2u}) {
        SCOPED_TRACE(std::string(device) + " " + engine + " " + std::to_string(threads));
        ReadScenario scenario(array, device, threads, engine);
        refuse_each([&] { return scenario.read(); }, GetParam());
        if (HasFailure() || IsSkipped()) return;
      }
    }
  }
}

// A user-supplied store that answers at once without allocating.
struct BareByteStore final : ByteStore {
  std::string url() const override { return "toy://bare"; }
  Status start(std::span<RangeRead* const> reads) override {
    for (RangeRead* read : reads) {
      for (const auto& [key, bytes] : objects) {
        if (key != read->key) continue;
        const std::size_t from = read->from_end ? bytes.size() - std::min(bytes.size(), read->out.size())
                                                : std::min<std::size_t>(read->offset, bytes.size());
        read->bytes = std::min(read->out.size(), bytes.size() - from);
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), read->bytes, read->out.begin());
        read->object_bytes = bytes.size();
      }
      read->listener->done({&read, 1});
    }
    return {};
  }
  void cancel(std::span<RangeRead* const>) noexcept override {}
  testing::Objects objects;
};

// Indexes of nested shards are requested before the plan is made.
TEST_P(AllocationFailure, ReadingShardsInShardsOfAUsersStore) {
  const testing::NestedArray content{.shards = 5, .counts = {4, 3, 2}, .missing_every = 5};
  auto bare = std::make_shared<BareByteStore>();
  bare->objects = content.objects();
  ContextOptions options;
  options.threads = 2;
  options.wave_bytes = 4096;
  options.host_budget_bytes = std::size_t{8} << 20;
  const Context context = Context::create(options).value();
  const Store store = Store::open(context, bare).value();
  const Device device = Device::open("host").value();
  const std::vector<std::uint32_t> expected = content.expected();
  std::vector<std::uint32_t> got(content.elements());
  const TensorView tensor{got, {content.elements()}};
  refuse_each(
      [&]() -> Outcome {
        std::optional<Array> opened;
        {
          support::AllocFailurePause pause;
          std::fill(got.begin(), got.end(), 0u);
          opened.emplace(Array::open(store).value());
        }
        const Status status = opened->read({}, tensor, device);
        {
          support::AllocFailurePause pause;
          opened.reset();
        }
        if (!status.ok()) {
          // If there is no memory to look again, the read cannot find out whether the object changed.
          const bool fits = typed(status) || status.code() == Code::kAgainExhausted;
          return {false, fits ? nullptr : "the read's error is of no fitting type"};
        }
        return {true, got == expected ? nullptr : "wrong elements"};
      },
      GetParam());
}

// Opening an archive or a reference file reads its directory; a worker unpacks packed objects.
TEST_P(AllocationFailure, OpeningAndReadingArchivesAndReferences) {
  for (const testing::StoreUnderTest& kind : testing::stores_under_test()) {
    if (kind.writable) continue;
    for (const Layout layout : {Layout::kZstd, Layout::kShardedZstd}) {
      SCOPED_TRACE(std::string(kind.name) + " " + testing::layout_name(layout));
      const FlatArray array{.layout = layout, .chunks = 12, .shard_chunks = 4};
      ReadScenario scenario(array, "host", 1, "auto");
      support::TempDir directory;
      const std::string url = kind.fill(directory.path(), testing::objects_of(*Access::impl(*scenario.store)));
      ASSERT_NE(url, "");
      // References are a JSON document, whose parser must not meet failures.
      const bool document = std::string_view(kind.name) == "reference";
      if (!document) {
        refuse_each(
            [&]() -> Outcome {
              auto store = Store::open(*scenario.context, url);
              return {store.ok(), store.ok() || typed(store.status()) ? nullptr : "the error has an unexpected code"};
            },
            GetParam());
      }
      *scenario.store = Store::open(*scenario.context, url).value();
      refuse_each([&] { return scenario.read(); }, GetParam());
      if (HasFailure() || IsSkipped()) return;
    }
  }
}

TEST_P(AllocationFailure, CollectingTheErrorsOfABadChunk) {
  const FlatArray array{.layout = Layout::kZstd, .chunks = 12};
  ReadScenario scenario(array, "host", 1, "auto");
  const std::byte rubbish[5] = {};
  ASSERT_TRUE(Access::impl(*scenario.store)->put(array.key(7), rubbish).ok());
  auto opened = Array::open(*scenario.store);
  ASSERT_TRUE(opened.ok());
  ReadOptions options;
  options.collect_errors = true;
  const std::string bad_key = array.key(7);
  refuse_each(
      [&]() -> Outcome {
        std::fill(scenario.got.begin(), scenario.got.end(), 0u);
        auto completion = opened->read_async({}, scenario.tensor, *scenario.device, options);
        if (!completion.ok())
          return {false, typed(completion.status()) ? nullptr : "read_async's error is of no fitting type"};
        const Status status = completion->wait();
        if (!status.ok()) return {false, typed(status) ? nullptr : "the read's error is of no fitting type"};
        // The damaged chunk may also have failed for lack of memory; its error then says so.
        bool bad_listed = false, complete = true;
        for (const ChunkError& error : completion->errors()) {
          if (error.key == bad_key)
            bad_listed = true;
          else
            complete = false;
        }
        if (!bad_listed) return {false, "the bad chunk is not listed"};
        for (std::uint64_t i = 0; i < array.elements() && complete; ++i) {
          if (i / array.chunk_elements != 7 && scenario.got[i] != scenario.expected[i])
            return {false, "wrong elements"};
        }
        return {complete, nullptr};
      },
      GetParam());
}

// Strings: their size is unknown until they are decoded.
TEST_P(AllocationFailure, ReadingStrings) {
  support::TempDir directory;
  const base::Json codecs = base::Json::array(
      {{{"name", "vlen-utf8"}}, {{"name", "zstd"}, {"configuration", {{"level", 1}, {"checksum", false}}}}});
  testing::Strings expected(400);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = std::string(i % 97, 'a') + std::to_string(i);
  ContextOptions options;
  options.threads = 2;
  const auto context = Context::create(options).value();
  for (const bool sharded : {false, true}) {
    const base::Json shard = base::Json::array(
        {{{"name", "sharding_indexed"},
          {"configuration",
           {{"chunk_shape", {10}},
            {"codecs", codecs},
            {"index_codecs", base::Json::array({{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}},
                                                {{"name", "crc32c"}}})}}}}});
    const base::Json document = testing::v3_strings({400}, {sharded ? 100u : 10u}, sharded ? shard : codecs);
    const std::string path = directory / (sharded ? "shards" : "chunks");
    std::filesystem::create_directory(path);
    const auto store = Store::open(context, path).value();
    ASSERT_TRUE(Access::impl(store)->put("zarr.json", testing::to_bytes(document.dump())).ok());
    testing::store_chunks(*Access::impl(store), document, expected, "");
    const auto array = Array::open(store).value();
    refuse_each(
        [&]() -> Outcome {
          const auto result = array.read_variable({});
          if (!result.ok()) return {false, typed(result.status()) ? nullptr : "the error has an unexpected code"};
          if (result->size() != expected.size()) return {false, "wrong number of elements"};
          for (std::uint64_t i = 0; i < result->size(); ++i) {
            if ((*result)[i] != expected[static_cast<std::size_t>(i)]) return {false, "wrong elements"};
          }
          return {true, nullptr};
        },
        GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(How, AllocationFailure, ::testing::Values(AllocFailure::kOnce, AllocFailure::kForever),
                         [](const auto& about) { return about.param == AllocFailure::kOnce ? "once" : "forever"; });

}  // namespace
}  // namespace headrace
