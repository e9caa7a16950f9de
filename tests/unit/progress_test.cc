// Property: a caller's function that throws stops the operation that called it. The operation waits for its own work
// and reports what was thrown. No exception passes through the library on any thread, and nothing is written
// afterwards.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/array_writer.h>
#include <headrace/decode_index.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/access.h"
#include "support/flat_array.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;

// None of these chunks is stored. Looking for all of them takes longer than the time between two progress calls.
constexpr std::uint64_t kChunks = 200'000;

class Thrown {};  // not derived from std::exception

struct Case {
  const char* name;
  std::function<void()> throws;
  Code code;
  const char* cause;
};
const Case kCases[] = {
    {"exception", [] { throw std::runtime_error("enough of this"); }, Code::kCancelled, "enough of this"},
    {"other", [] { throw Thrown(); }, Code::kCancelled, "not a std::exception"},
    {"memory", [] { throw std::bad_alloc(); }, Code::kResourceExhausted, ""},
};

class Progress : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ContextOptions options;
    options.threads = 2;
    options.wave_bytes = 1 << 16;
    context_ = std::make_unique<Context>(Context::create(options).value());
    store_ = std::make_unique<Store>(Store::open(*context_, directory_.path()).value());
    device_ = std::make_unique<Device>(Device::open(GetParam()).value());
  }
  void put(const std::string& key, const std::string& text) {
    ASSERT_TRUE(testing::put_text(*Access::impl(*store_), key, text).ok());
  }
  // Four elements per chunk, in a grid of either kind.
  Array absent(bool rectilinear = false) {
    const std::string count = std::to_string(kChunks * 4);
    const std::string grid = rectilinear
                                 ? R"({"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[4,[4,)" +
                                       std::to_string(kChunks - 1) + "]]]}}"
                                 : R"({"name":"regular","configuration":{"chunk_shape":[4]}})";
    put("zarr.json", R"({"zarr_format":3,"node_type":"array","shape":[)" + count +
                         R"(],"data_type":"uint32","chunk_grid":)" + grid +
                         R"(,"chunk_key_encoding":{"name":"default"},"fill_value":7,)"
                         R"("codecs":[{"name":"bytes","configuration":{"endian":"little"}}]})");
    return Array::open(*store_).value();
  }
  // Options with a progress function that counts its calls and throws.
  ReadOptions options_of(const Case& about) {
    ReadOptions options;
    calls_ = 0;
    options.progress = [this, &about](std::uint64_t, std::uint64_t) {
      ++calls_;
      about.throws();
    };
    return options;
  }
  void expect_stopped(const Status& status, const Case& about) const {
    EXPECT_GE(calls_.load(), 1);
    EXPECT_EQ(status.code(), about.code) << status.to_string();
    EXPECT_EQ(status.cause(), about.cause) << status.to_string();
  }

  support::TempDir directory_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Device> device_;
  std::atomic<int> calls_{0};
};

TEST_P(Progress, ThrowingStopsARead) {
  for (const bool rectilinear : {false, true}) {
    SCOPED_TRACE(rectilinear ? "rectilinear" : "regular");
    const Array array = absent(rectilinear);
    ASSERT_EQ(array.info().chunk_count, kChunks);
    for (const Case& about : kCases) {
      for (const bool wait_elsewhere : {false, true}) {
        SCOPED_TRACE(std::string(about.name) + (wait_elsewhere ? ", asynchronous" : ""));
        auto buffer = std::make_unique<Buffer>(Buffer::allocate(*device_, kChunks * 16).value());
        const TensorView tensor(*buffer, array.info().dtype, {kChunks * 4});
        Status status;
        if (wait_elsewhere) {
          const auto reading = array.read_async({}, tensor, *device_, options_of(about)).value();
          status = reading.wait();
          EXPECT_TRUE(reading.done());
          EXPECT_LT(reading.stats().missing_chunks, kChunks);
        } else {
          status = array.read({}, tensor, *device_, options_of(about));
        }
        expect_stopped(status, about);
        // The caller owns the memory again: a late write is detected here, or by a sanitizer once the memory is freed.
        std::vector<std::byte> before(buffer->size_bytes()), after(before.size());
        ASSERT_TRUE(buffer->copy_to_host(0, before.data(), before.size()).ok());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ASSERT_TRUE(buffer->copy_to_host(0, after.data(), after.size()).ok());
        EXPECT_EQ(before, after);
        buffer.reset();
      }
    }
    // The next read is not affected.
    std::vector<std::uint32_t> got(16);
    const auto buffer = Buffer::allocate(*device_, 64).value();
    ASSERT_TRUE(array.read(parse_selection("0:16").value(), {buffer, array.info().dtype, {16}}, *device_).ok());
    ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), 64).ok());
    EXPECT_EQ(got, std::vector<std::uint32_t>(16, 7));
  }
}

TEST_P(Progress, ThrowingStopsAReadOfStrings) {
  if (std::string_view(GetParam()) != "host") return;  // strings are read to the host only
  put("zarr.json", R"({"zarr_format":3,"node_type":"array","shape":[)" + std::to_string(kChunks) +
                       R"(],"data_type":"string","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1]}},)"
                       R"("chunk_key_encoding":{"name":"default"},"fill_value":"x","codecs":[{"name":"vlen-utf8"}]})");
  const Array array = Array::open(*store_).value();
  for (const Case& about : kCases) {
    VariableReadOptions options;
    options.progress = options_of(about).progress;
    expect_stopped(array.read_variable({}, options).status(), about);
  }
  EXPECT_EQ(array.read_variable(parse_selection("3:5").value()).value()[1], "x");
}

TEST_P(Progress, ThrowingStopsIndexCreation) {
  const FlatArray array{.layout = Layout::kZstd, .chunks = 4, .chunk_elements = 30'000};
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(*store_), "", array).ok());
  const Array opened = Array::open(*store_).value();
  support::TempDir indices;
  for (const Case& about : kCases) {
    DecodeIndexOptions options;
    options.progress = options_of(about).progress;
    expect_stopped(build_decode_index(opened, indices.path(), options).status(), about);
  }
  ASSERT_TRUE(build_decode_index(opened, indices.path()).ok());
  DecodeIndexOptions options;
  options.progress = options_of(kCases[0]).progress;
  expect_stopped(check_decode_index(opened, indices.path(), options).status(), kCases[0]);
}

TEST_P(Progress, ThrowingWritesNoObject) {
  const FlatArray array{.layout = Layout::kShardedZstd, .chunks = 8, .shard_chunks = 8};
  const auto writer = ArrayWriter::create(*store_, "", 3, array.metadata()).value();
  auto worker = writer.make_worker().value();
  for (const Case& about : kCases) {
    calls_ = 0;
    const auto written = worker.write(0, [&](auto, auto) -> Status {
      if (++calls_ == 3) about.throws();
      return {};
    });
    expect_stopped(written.status(), about);
    EXPECT_EQ(store_->get("c/0").status().code(), Code::kNotFound);
  }
}

INSTANTIATE_TEST_SUITE_P(Device, Progress, ::testing::Values("host", "host-staged"),
                         [](const auto& about) { return std::string(about.param) == "host" ? "host" : "host_staged"; });

}  // namespace
}  // namespace headrace
