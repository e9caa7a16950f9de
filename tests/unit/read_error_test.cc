// Property: a chunk that cannot be read is reported with key, place and cause, and affects nothing else. Impossible
// requests are refused, a cancelled read ends, and a Context inherited across fork() reports that.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <thread>

#include "base/access.h"
#include "support/child.h"
#include "support/flat_array.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;
namespace fs = std::filesystem;

constexpr std::uint64_t kChunks = 40;
constexpr std::uint32_t kUntouched = 0x55555555;

store::Bytes file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

struct Damage {
  const char* name;
  Layout layout;
  // Damages chunk `number` of the array in `directory`, in its own object or in the shard's.
  std::function<void(const std::string& directory, const FlatArray& array, std::uint64_t number)> apply;
  std::vector<Code> codes;
  Layer layer;
};

void rewrite(const std::string& path, const std::function<void(store::Bytes&)>& change) {
  store::Bytes bytes = file_bytes(path);
  change(bytes);
  fs::remove(path);
  ASSERT_TRUE(support::write_file(path, bytes));
}

std::vector<Damage> damages() {
  const auto resize = [](int by) {
    return [by](const std::string& directory, const FlatArray& array, std::uint64_t number) {
      rewrite(directory + "/" + array.key(number), [by](store::Bytes& bytes) {
        bytes.resize(static_cast<std::size_t>(static_cast<std::ptrdiff_t>(bytes.size()) + by));
      });
    };
  };
  const auto to_empty = [](const std::string& directory, const FlatArray& array, std::uint64_t number) {
    rewrite(directory + "/" + array.key(number), [](store::Bytes& bytes) { bytes.clear(); });
  };
  std::vector<Damage> out = {
      {"truncated raw", Layout::kRaw, resize(-1), {Code::kShort, Code::kCorrupt}, Layer::kCodec},
      {"oversized raw", Layout::kRaw, resize(+7), {Code::kCorrupt}, Layer::kCodec},
      {"empty raw", Layout::kRaw, to_empty, {Code::kShort, Code::kCorrupt}, Layer::kCodec},
      {"truncated zstd", Layout::kZstd, resize(-3), {Code::kShort, Code::kCorrupt}, Layer::kCodec},
      {"empty zstd", Layout::kZstd, to_empty, {Code::kShort, Code::kCorrupt}, Layer::kCodec},
      {"zstd without its magic number",
       Layout::kZstd,
       [](const std::string& directory, const FlatArray& array, std::uint64_t number) {
         rewrite(directory + "/" + array.key(number), [](store::Bytes& bytes) { bytes[1] ^= std::byte{0xff}; });
       },
       {Code::kCorrupt},
       Layer::kCodec},
      {"truncated blosc", Layout::kBlosc, resize(-2), {Code::kShort, Code::kCorrupt}, Layer::kCodec},
      {"inner chunk of zeros",
       Layout::kShardedZstd,
       [](const std::string& directory, const FlatArray& array, std::uint64_t number) {
         rewrite(directory + "/" + array.key(number), [&](store::Bytes& bytes) {
           std::uint64_t entry[2];
           const std::size_t at = bytes.size() - 16 * (array.shard_chunks - number % array.shard_chunks);
           std::memcpy(entry, bytes.data() + at, sizeof entry);
           std::memset(bytes.data() + entry[0], 0, entry[1]);
         });
       },
       {Code::kCorrupt},
       Layer::kCodec},
      {"inner chunk one byte too short",
       Layout::kShardedRaw,
       [](const std::string& directory, const FlatArray& array, std::uint64_t number) {
         rewrite(directory + "/" + array.key(number), [&](store::Bytes& bytes) {
           std::uint64_t entry[2];
           const std::size_t at = bytes.size() - 16 * (array.shard_chunks - number % array.shard_chunks);
           std::memcpy(entry, bytes.data() + at, sizeof entry);
           --entry[1];
           std::memcpy(bytes.data() + at, entry, sizeof entry);
         });
       },
       {Code::kShort, Code::kCorrupt},
       Layer::kCodec},
      {"a directory",
       Layout::kRaw,
       [](const std::string& directory, const FlatArray& array, std::uint64_t number) {
         fs::remove(directory + "/" + array.key(number));
         fs::create_directory(directory + "/" + array.key(number));
       },
       {Code::kIo},
       Layer::kStore},
      {"a link out of the store",
       Layout::kRaw,
       [](const std::string& directory, const FlatArray& array, std::uint64_t number) {
         fs::remove(directory + "/" + array.key(number));
         fs::create_symlink("/etc/passwd", directory + "/" + array.key(number));
       },
       {Code::kPermission},
       Layer::kStore},
      {"a link that leads nowhere",
       Layout::kRaw,
       [](const std::string& directory, const FlatArray& array, std::uint64_t number) {
         fs::remove(directory + "/" + array.key(number));
         fs::create_symlink("nowhere", directory + "/" + array.key(number));
       },
       {Code::kIo},
       Layer::kStore},
  };
  if (::geteuid() != 0) {
    out.push_back({"an unreadable file",
                   Layout::kRaw,
                   [](const std::string& directory, const FlatArray& array, std::uint64_t number) {
                     ::chmod((directory + "/" + array.key(number)).c_str(), 0);
                   },
                   {Code::kPermission},
                   Layer::kStore});
  }
  return out;
}

struct Reader {
  Reader(const std::string& url, const char* device_name, unsigned threads, const char* engine = "auto") {
    ContextOptions options;
    options.threads = threads;
    options.engine = engine;
    options.wave_bytes = 4096;
    options.host_budget_bytes = std::size_t{16} << 20;
    context = std::make_unique<Context>(Context::create(options).value());
    store = std::make_unique<Store>(Store::open(*context, url).value());
    device = std::make_unique<Device>(Device::open(device_name).value());
  }
  std::unique_ptr<Context> context;
  std::unique_ptr<Store> store;
  std::unique_ptr<Device> device;
};

// Reads to any device and returns the elements.
Result<Completion> read_all(const Reader& reader, const Array& array, const Buffer& buffer, bool collect) {
  ReadOptions options;
  options.collect_errors = collect;
  return array.read_async({}, {buffer, array.info().dtype, array.info().shape}, *reader.device, options);
}

// With damage_as_nan, elements [first, behind) are NaN and all others right: for a whole read, and for one of every
// third element, backwards in memory, with a second selection next to it.
void check_damage_as_nan(const Reader& reader, const Array& array, const std::vector<std::uint32_t>& expected,
                         std::uint64_t first, std::uint64_t behind, std::uint64_t chunks) {
  ReadOptions options;
  options.damage_as_nan = true;
  const std::uint64_t all = expected.size(), thirds = (all + 2) / 3;
  auto buffer = Buffer::allocate(*reader.device, (all + thirds + 8) * 4).value();
  const Status refused = array.read({}, {buffer, array.info().dtype, {all}}, *reader.device, options);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument) << refused.to_string();
  EXPECT_NE(refused.to_string().find("uint32"), std::string::npos);
  EXPECT_EQ(result_dtype(array.info().dtype, options).status().code(), Code::kInvalidArgument);
  options.dtype = "float32";
  const DataType dtype = result_dtype(array.info().dtype, options).value();
  const auto judge = [&](float got, std::uint64_t at) {
    if (at >= first && at < behind) return std::isnan(got);
    return got == static_cast<float>(expected[at]);
  };
  std::vector<float> got(all + thirds + 8);
  Stats stats;
  ASSERT_TRUE(array.read({}, {buffer, dtype, {all}}, *reader.device, options, &stats).ok());
  ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), all * 4).ok());
  for (std::uint64_t i = 0; i < all; ++i) ASSERT_TRUE(judge(got[i], i)) << "element " << i << " is " << got[i];
  EXPECT_EQ(stats.damaged_chunks, chunks);

  Selection every_third, few;
  every_third.push_back({.start = 0, .stop = {}, .step = 3});
  few.push_back({.start = 0, .stop = 8});
  const std::vector<ReadPart> parts = {{every_third, {buffer, dtype, {thirds}, {-4}, (thirds - 1) * 4}},
                                       {few, {buffer, dtype, {8}, {}, (thirds + all) * 4}}};
  ASSERT_TRUE(array.read_many(parts, *reader.device, options, &stats).ok());
  ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
  for (std::uint64_t i = 0; i < thirds; ++i) ASSERT_TRUE(judge(got[thirds - 1 - i], 3 * i)) << i;
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(judge(got[thirds + all + i], i)) << i;
  EXPECT_EQ(stats.damaged_chunks, chunks);
}

class OneBadChunk : public ::testing::TestWithParam<const char*> {};

TEST_P(OneBadChunk, IsTheOnlyOne) {
  for (const Damage& damage : damages()) {
    FlatArray array{.layout = damage.layout, .chunks = kChunks, .chunk_elements = 100, .shard_chunks = 8};
    const auto expected = array.expected();
    for (const std::uint64_t bad : {0u, 1u, 17u, 39u}) {
      SCOPED_TRACE(std::string(damage.name) + " at " + std::to_string(bad));
      support::TempDir directory;
      {
        Reader writer(directory.path(), "host", 1);
        ASSERT_TRUE(testing::write_flat_array(*Access::impl(*writer.store), "", array).ok());
      }
      damage.apply(directory.path(), array, bad);
      for (const char* engine : {"auto", "threads"}) {
        SCOPED_TRACE(engine);
        Reader reader(directory.path(), GetParam(), 2, engine);
        auto opened = Array::open(*reader.store);
        ASSERT_TRUE(opened.ok()) << opened.status().to_string();
        auto buffer = Buffer::allocate(*reader.device, array.elements() * 4).value();
        std::vector<std::uint32_t> got(array.elements(), kUntouched);
        if (reader.device->host_addressable()) std::memcpy(buffer.data(), got.data(), got.size() * 4);

        auto completion = read_all(reader, *opened, buffer, true);
        ASSERT_TRUE(completion.ok()) << completion.status().to_string();
        const Status status = completion->wait();
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_EQ(completion->errors().size(), 1u);
        const ChunkError& error = completion->errors()[0];
        EXPECT_EQ(error.key, array.key(bad));
        EXPECT_EQ(error.status.key(), array.key(bad)) << error.status.to_string();
        EXPECT_NE(std::find(damage.codes.begin(), damage.codes.end(), error.status.code()), damage.codes.end())
            << error.status.to_string();
        EXPECT_EQ(error.status.layer(), damage.layer) << error.status.to_string();
        EXPECT_FALSE(error.status.message().empty());
        if (array.sharded()) {
          const store::Bytes shard = testing::flat_shard(array, bad / array.shard_chunks);
          std::uint64_t entry[2];
          std::memcpy(entry, shard.data() + shard.size() - 16 * (array.shard_chunks - bad % array.shard_chunks), 16);
          EXPECT_EQ(error.offset, entry[0]);
          EXPECT_GE(error.length + 1, entry[1]);
          EXPECT_LE(error.length, entry[1]);
        } else {
          EXPECT_EQ(error.offset, 0u);
        }
        ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
        for (std::uint64_t i = 0; i < got.size(); ++i) {
          if (i / array.chunk_elements == bad) continue;
          ASSERT_EQ(got[i], expected[i]) << "element " << i;
        }
        EXPECT_EQ(completion->stats().chunks, kChunks - 1);

        const Status strict =
            opened->read({}, {buffer, opened->info().dtype, {array.elements()}}, *reader.device, ReadOptions());
        EXPECT_EQ(strict.code(), error.status.code()) << strict.to_string();
        EXPECT_EQ(strict.key(), array.key(bad)) << strict.to_string();

        const std::uint64_t first = bad * array.chunk_elements;
        if (strict.code() == Code::kCorrupt || strict.code() == Code::kShort) {
          check_damage_as_nan(reader, *opened, expected, first, first + array.chunk_elements, 1);
        } else {
          ReadOptions as_nan;
          as_nan.damage_as_nan = true;
          as_nan.dtype = "float32";
          const DataType dtype = result_dtype(opened->info().dtype, as_nan).value();
          const Status other = opened->read({}, {buffer, dtype, {array.elements()}}, *reader.device, as_nan);
          EXPECT_EQ(other.code(), strict.code()) << other.to_string();
        }
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Device, OneBadChunk, ::testing::Values("host", "host-staged"),
                         [](const auto& about) { return std::string(about.param) == "host" ? "host" : "host_staged"; });

// If a shard's index is damaged, nothing in that shard can be trusted.
TEST(ReadErrors, ABadShardIndexNamesTheShard) {
  support::TempDir directory;
  const FlatArray array{.layout = Layout::kShardedRaw, .chunks = kChunks, .chunk_elements = 100, .shard_chunks = 8};
  Reader reader(directory.path(), "host", 2);
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
  rewrite(directory.path() + "/" + array.key(20), [&](store::Bytes& bytes) {
    const std::uint64_t entry[2] = {bytes.size() + 1, 400};
    std::memcpy(bytes.data() + bytes.size() - 16 * (array.shard_chunks - 20 % array.shard_chunks), entry, sizeof entry);
  });
  auto opened = Array::open(*reader.store);
  ASSERT_TRUE(opened.ok());
  std::vector<std::uint32_t> got(array.elements());
  const Status status = opened->read({}, {got, {array.elements()}}, *reader.device);
  EXPECT_EQ(status.code(), Code::kCorrupt) << status.to_string();
  EXPECT_EQ(status.layer(), Layer::kZarr);
  EXPECT_EQ(status.key(), array.key(20));
  EXPECT_TRUE(status.offset().has_value());

  // The other shards are exact, also on a device.
  const auto expected = array.expected();
  for (const char* name : {"host", "host-staged"}) {
    Reader other(directory.path(), name, 2);
    auto buffer = Buffer::allocate(*other.device, array.elements() * 4).value();
    auto again = Array::open(*other.store).value();
    auto completion = read_all(other, again, buffer, true);
    ASSERT_TRUE(completion.ok()) << completion.status().to_string();
    ASSERT_TRUE(completion->wait().ok());
    ASSERT_EQ(completion->errors().size(), 1u);
    const ChunkError& error = completion->errors()[0];
    EXPECT_EQ(error.key, array.key(20));
    EXPECT_EQ(error.status.code(), Code::kCorrupt);
    EXPECT_EQ(error.offset, status.offset().value());
    EXPECT_EQ(error.length, 16 * array.shard_chunks);
    ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
    for (std::uint64_t i = 0; i < got.size(); ++i) {
      if (i / (array.chunk_elements * array.shard_chunks) != 20 / array.shard_chunks) {
        ASSERT_EQ(got[i], expected[i]) << "element " << i;
      }
    }
    EXPECT_EQ(completion->stats().chunks, kChunks - array.shard_chunks);
    const std::uint64_t shard = 20 / array.shard_chunks * array.shard_chunks * array.chunk_elements;
    check_damage_as_nan(other, again, expected, shard, shard + array.shard_chunks * array.chunk_elements, 1);
  }
}

TEST(ReadErrors, InvalidRequestsAreRefused) {
  support::TempDir directory;
  const FlatArray array{.chunks = 4};
  Reader reader(directory.path(), "host", 1);
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
  auto opened = Array::open(*reader.store);
  ASSERT_TRUE(opened.ok());
  std::vector<std::uint32_t> got(array.elements(), kUntouched);
  const auto refused = [&](const TensorView& tensor, Code code, const Selection& selection = {}) {
    const Status status = opened->read(selection, tensor, *reader.device);
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_FALSE(status.message().empty());
  };
  const std::uint64_t all = array.elements();
  refused({got, {all - 1}}, Code::kInvalidArgument);
  refused({got, {all, 1}}, Code::kInvalidArgument);
  refused({std::span<std::uint32_t>(), {all}}, Code::kInvalidArgument);
  refused({std::span(static_cast<std::uint32_t*>(nullptr), all), {all}}, Code::kInvalidArgument);
  refused({got, {all}, {4, 4}}, Code::kInvalidArgument);
  refused({got, {1}}, Code::kInvalidArgument, Selection(2));
  refused({}, Code::kInvalidArgument);
  // Memory that cannot hold all elements: too short, an offset too large, or strides that leave it at either end.
  refused({std::span(got).first(all - 1), {all}}, Code::kInvalidArgument);
  refused({got, {all}, {}, 1}, Code::kInvalidArgument);
  refused({got, {all}, {8}}, Code::kInvalidArgument);
  refused({got, {all}, {-4}}, Code::kInvalidArgument);
  refused({got, {all}, {-4}, all - 2}, Code::kInvalidArgument);
  refused({got, {all}, {}, ~std::size_t{0} / 4}, Code::kInvalidArgument);
  refused({got, {all}, {std::numeric_limits<std::int64_t>::max()}}, Code::kInvalidArgument);
  refused({got, {all}, {std::numeric_limits<std::int64_t>::min()}, all - 1}, Code::kInvalidArgument);
  const auto bytes = std::as_writable_bytes(std::span(got));
  refused({bytes.first(4 * all - 1), numeric_type("uint32"), {all}}, Code::kInvalidArgument);
  refused({bytes, numeric_type("uint32"), {all}, {}, 1}, Code::kInvalidArgument);
  // Elements of another type, even of the same size.
  refused({bytes, numeric_type("int32"), {all}}, Code::kInvalidArgument);
  refused({bytes, numeric_type("float32"), {all}}, Code::kInvalidArgument);
  refused({bytes, numeric_type("no such type"), {all}}, Code::kInvalidArgument);
  std::vector<double> wider(all);
  refused({wider, {all}}, Code::kInvalidArgument);
  const auto small = Buffer::allocate(*reader.device, 4 * all - 1).value();
  refused({small, opened->info().dtype, {all}}, Code::kInvalidArgument);
  for (const std::uint32_t value : got) ASSERT_EQ(value, kUntouched);
  // Backwards from the last element is allowed; an empty selection fits any memory.
  ASSERT_TRUE(opened->read({}, {got, {all}, {-4}, all - 1}, *reader.device).ok());
  const std::vector<std::uint32_t> expected = array.expected();
  EXPECT_TRUE(std::equal(got.rbegin(), got.rend(), expected.begin(), expected.end()));
  EXPECT_TRUE(opened->read(parse_selection("0:0").value(), {std::span<std::uint32_t>(), {0}}, *reader.device).ok());

  for (const char* name : {"toaster", "host:x", "host:-1", "cuda:9999", ""}) {
    const auto device = Device::open(name);
    EXPECT_FALSE(device.ok()) << name;
    EXPECT_TRUE(device.ok() || !device.status().message().empty());
  }
  const auto refuses = [](const std::function<void(ContextOptions&)>& change) {
    ContextOptions options;
    change(options);
    const auto context = Context::create(options);
    EXPECT_FALSE(context.ok());
    if (!context.ok()) {
      EXPECT_TRUE(context.status().code() == Code::kInvalidArgument ||
                  context.status().code() == Code::kResourceExhausted)
          << context.status().to_string();
    }
  };
  refuses([](ContextOptions& o) { o.waves = 65; });
  refuses([](ContextOptions& o) { o.threads = 100'000; });
  refuses([](ContextOptions& o) { o.host_budget_bytes = 0; });
  refuses([](ContextOptions& o) { o.wave_bytes = 0; });
  refuses([](ContextOptions& o) { o.engine = "steam"; });
}

TEST(ReadErrors, AChunkThatDoesNotFitTheBudgetsIsRefused) {
  support::TempDir directory;
  for (const char* device : {"host", "host-staged"}) {
    SCOPED_TRACE(device);
    Reader reader(directory.path(), device, 1);  // 16 MiB
    const FlatArray array{.layout = Layout::kZstd, .chunks = 2, .chunk_elements = std::uint64_t{8} << 20};
    ASSERT_TRUE(testing::put_text(*Access::impl(*reader.store), ".zarray", array.metadata()).ok());
    auto opened = Array::open(*reader.store);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    auto buffer = Buffer::allocate(*reader.device, array.elements() * 4).value();
    const Status status = opened->read({}, {buffer, opened->info().dtype, {array.elements()}}, *reader.device);
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
    EXPECT_NE(status.message().find("budget"), std::string::npos) << status.to_string();
  }
}

TEST(ReadErrors, CancelEndsTheReadAndNothingElse) {
  support::TempDir directory;
  const FlatArray array{.layout = Layout::kZstd, .chunks = 200, .chunk_elements = 256};
  const auto expected = array.expected();
  for (const char* device : {"host", "host-staged"}) {
    Reader reader(directory.path(), device, 2);
    if (std::string_view(device) == "host") {
      ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
    }
    auto opened = Array::open(*reader.store);
    ASSERT_TRUE(opened.ok());
    auto buffer = Buffer::allocate(*reader.device, array.elements() * 4).value();
    int cancelled = 0;
    // On a busy machine, many reads end before this thread runs again.
    for (int race = 0; race < 200 || (cancelled == 0 && race < 5000); ++race) {
      auto completion = read_all(reader, *opened, buffer, false);
      ASSERT_TRUE(completion.ok()) << completion.status().to_string();
      std::this_thread::sleep_for(std::chrono::microseconds(race % 200 * 25));
      completion->cancel();
      const Status status = completion->wait();
      if (status.ok()) {
        std::vector<std::uint32_t> got(array.elements());
        ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
        ASSERT_TRUE(got == expected);
      } else {
        ASSERT_EQ(status.code(), Code::kCancelled) << status.to_string();
        ++cancelled;
      }
      EXPECT_TRUE(completion->done());
      completion->cancel();  // after the end: no effect
      EXPECT_EQ(completion->wait().code(), status.code());
    }
    EXPECT_GT(cancelled, 0);
    EXPECT_TRUE(opened->read({}, {buffer, opened->info().dtype, {array.elements()}}, *reader.device).ok());
  }
}

TEST(ReadErrors, AForkedChildGetsAnError) {
  support::TempDir directory;
  const FlatArray array{.layout = Layout::kShardedZstd, .chunks = kChunks, .chunk_elements = 100, .shard_chunks = 8};
  const auto expected = array.expected();
  for (const char* name : {"host", "host-staged"}) {
    Reader reader(directory.path(), name, 2);
    if (std::string_view(name) == "host") {
      ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
    }
    auto opened = Array::open(*reader.store);
    ASSERT_TRUE(opened.ok());
    auto buffer = Buffer::allocate(*reader.device, array.elements() * 4).value();
    const auto read_ok = [&](const Reader& with, const Array& what, const Buffer& into) {
      if (!what.read({}, {into, what.info().dtype, {array.elements()}}, *with.device).ok()) return 2;
      std::vector<std::uint32_t> got(array.elements());
      if (!into.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok()) return 3;
      return got == expected ? 0 : 4;
    };
    ASSERT_EQ(read_ok(reader, *opened, buffer), 0);
    EXPECT_EQ(
        support::in_child([&] {
          const Status status = opened->read({}, {buffer, opened->info().dtype, {array.elements()}}, *reader.device);
          if (status.code() != Code::kForked) return 2;
          if (Array::open(*reader.store).status().code() != Code::kForked) return 3;
          return Store::open(*reader.context, directory.path()).status().code() == Code::kForked ? 0 : 4;
        }),
        0);
    // A child destroys everything it inherited.
    EXPECT_EQ(support::in_child([&] {
                { Array gone = std::move(*opened); }
                reader.store.reset();
                reader.context.reset();
                return 0;
              }),
              0);
    EXPECT_EQ(read_ok(reader, *opened, buffer), 0);
  }
}

TEST(ReadErrors, AForkedChildMayStartAnew) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  support::TempDir directory;
  const FlatArray array{.layout = Layout::kShardedZstd, .chunks = kChunks, .chunk_elements = 100, .shard_chunks = 8};
  const auto read_right = [&](const Reader& with) {
    const auto opened = Array::open(*with.store);
    if (!opened.ok()) return 1;
    const Buffer into = Buffer::allocate(*with.device, array.elements() * 4).value();
    if (!opened->read({}, {into, opened->info().dtype, {array.elements()}}, *with.device).ok()) return 2;
    std::vector<std::uint32_t> got(array.elements());
    if (!into.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok()) return 3;
    return got == array.expected() ? 0 : 4;
  };
  for (const char* name : {"host", "host-staged"}) {
    Reader reader(directory.path(), name, 2);
    if (std::string_view(name) == "host") {
      ASSERT_TRUE(testing::write_flat_array(*Access::impl(*reader.store), "", array).ok());
    }
    ASSERT_EQ(read_right(reader), 0);
    EXPECT_EQ(support::in_child([&] { return read_right(Reader(directory.path(), name, 2)); }), 0);
    EXPECT_EQ(read_right(reader), 0);
  }
}

}  // namespace
}  // namespace headrace
