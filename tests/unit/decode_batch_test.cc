// A batch in device memory decodes to the same elements as a read, repeatedly, on every kind of device. Memory beyond
// the size of the result, whose size stored bytes decide, is charged to the Context's account of such memory.
#include <gtest/gtest.h>
#include <headrace/array_writer.h>
#include <headrace_bench/decode_batch.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "support/flat_array.h"
#include "support/flat_zip.h"
#include "support/temp_dir.h"
#include "transfer/context/context_impl.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;

class DecodeBatchTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { device::staged_decode_model().any_codec = true; }
  void TearDown() override { device::staged_decode_model().any_codec = false; }

  Array array(const FlatArray& content, const char* path = "") {
    EXPECT_TRUE(testing::write_flat_array(*Access::impl(store_), path, content).ok());
    return Array::open(store_, path).value();
  }
  static std::vector<std::uint32_t> elements(const DecodeBatch& batch, std::size_t count) {
    std::vector<std::uint32_t> out(count);
    EXPECT_TRUE(batch.result().copy_to_host(0, reinterpret_cast<std::byte*>(out.data()), count * 4).ok());
    return out;
  }

  support::TempDir directory_;
  Context context_ = Context::create({.threads = 2}).value();
  Store store_ = Store::open(context_, directory_.path()).value();
  Device device_ = Device::open(GetParam()).value();
};

TEST_P(DecodeBatchTest, MatchesARead) {
  for (const Layout layout : {Layout::kZstd, Layout::kBlosc, Layout::kShardedZstd}) {
    SCOPED_TRACE(testing::layout_name(layout));
    const FlatArray content{.layout = layout, .chunks = 53, .chunk_elements = 100, .shard_chunks = 8};
    const Array array = this->array(content, testing::layout_name(layout));
    DecodeBatch batch = DecodeBatch::load(array, {}, device_).value();
    EXPECT_EQ(batch.chunk_count(), 53u);
    EXPECT_EQ(batch.decoded_bytes(), 53u * 400);
    EXPECT_GT(batch.encoded_bytes(), 0u);
    EXPECT_EQ(batch.undone(), "");
    for (int pass = 0; pass < 3; ++pass) {
      const auto times = batch.run();
      ASSERT_TRUE(times.ok()) << times.status().to_string();
      EXPECT_TRUE(elements(batch, content.elements()) == content.expected());
      EXPECT_GT(times->seconds, 0);
      ASSERT_FALSE(times->steps.empty());
      double steps = 0;
      for (const auto& step : times->steps) {
        EXPECT_FALSE(step.name.empty());
        EXPECT_GE(step.seconds, 0);
        steps += step.seconds;
      }
      EXPECT_GT(steps, 0);
      if (!device_.host_addressable()) {
        EXPECT_NEAR(steps, times->seconds, 1e-6);
      }
    }
  }
}

TEST_P(DecodeBatchTest, PartsOfChunksArePlaced) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 5, .chunk_elements = 100};
  DecodeBatch batch = DecodeBatch::load(array(content), parse_selection("150:450:3").value(), device_).value();
  EXPECT_EQ(batch.chunk_count(), 4u);
  ASSERT_TRUE(batch.run().ok());
  const std::vector<std::uint32_t> all = content.expected(), got = elements(batch, 100);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], all[150 + 3 * i]) << i;
}

TEST_P(DecodeBatchTest, MissingChunksAreFilled) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 5, .chunk_elements = 100};
  const Array array = this->array(content);
  ASSERT_EQ(std::remove((directory_.path() + "/" + content.key(2)).c_str()), 0);
  DecodeBatch batch = DecodeBatch::load(array, {}, device_).value();
  EXPECT_EQ(batch.chunk_count(), 4u);
  std::uint32_t fill = 0;
  std::memcpy(&fill, array.info().fill.data(), 4);
  std::vector<std::uint32_t> expected = content.expected();
  std::fill(expected.begin() + 200, expected.begin() + 300, fill);
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(batch.run().ok());
    EXPECT_TRUE(elements(batch, content.elements()) == expected);
  }
}

TEST_P(DecodeBatchTest, ABadChunkIsNamed) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 5, .chunk_elements = 100};
  const Array array = this->array(content);
  std::fstream file(directory_.path() + "/" + content.key(3), std::ios::in | std::ios::out | std::ios::binary);
  file.write("\xff\xff\xff\xff", 4);
  file.close();
  DecodeBatch batch = DecodeBatch::load(array, {}, device_).value();
  const auto times = batch.run();
  ASSERT_FALSE(times.ok());
  EXPECT_EQ(times.status().code(), Code::kCorrupt);
  EXPECT_NE(times.status().to_string().find(content.key(3)), std::string::npos) << times.status().to_string();
  // A stored chunk longer than any valid one is refused before it is loaded.
  std::ofstream(directory_.path() + "/" + content.key(1), std::ios::binary) << std::string(100000, 'x');
  const auto loaded = DecodeBatch::load(array, {}, device_);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().to_string().find(content.key(1)), std::string::npos) << loaded.status().to_string();
}

TEST_P(DecodeBatchTest, AnEntrysChecksumIsVerified) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 4, .chunk_elements = 100};
  for (const bool deflate : {false, true}) {
    for (const bool wrong : {false, true}) {
      SCOPED_TRACE(std::string(deflate ? "deflated" : "stored") + (wrong ? ", wrong" : ""));
      const std::string path = directory_ / (std::to_string(2 * deflate + wrong) + ".zip");
      ASSERT_TRUE(support::write_file(path, testing::zip_of(content, deflate, wrong ? 2 : -1)));
      const Array array = Array::open(Store::open(context_, path).value()).value();
      const auto batch = DecodeBatch::load(array, {}, device_);
      ASSERT_EQ(batch.ok(), !wrong) << batch.status().to_string();
      if (!wrong) continue;
      EXPECT_EQ(batch.status().code(), Code::kCorrupt) << batch.status().to_string();
      EXPECT_NE(batch.status().message().find("CRC-32"), std::string::npos) << batch.status().to_string();
      EXPECT_EQ(batch.status().key(), content.key(2));
      EXPECT_EQ(batch.status().offset(), 0u);
    }
  }
}

// An archive that is truncated while it is open: the error gives the offset within the entry.
TEST_P(DecodeBatchTest, ErrorsNameThePlaceInTheObject) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 4, .chunk_elements = 100};
  for (const bool deflate : {false, true}) {
    const std::string path = directory_ / (deflate ? "deflated.zip" : "stored.zip");
    ASSERT_TRUE(support::write_file(path, testing::zip_of(content, deflate)));
    const Array array = Array::open(Store::open(context_, path).value()).value();
    ASSERT_TRUE(DecodeBatch::load(array, {}, device_).ok());  // reads the entries' headers
    std::filesystem::resize_file(path, 100);
    const Status status = DecodeBatch::load(array, parse_selection("0:100").value(), device_).status();
    EXPECT_EQ(status.code(), Code::kShort) << status.to_string();
    EXPECT_EQ(status.key(), content.key(0));
    EXPECT_EQ(status.offset(), 0u) << status.to_string();
  }
}

TEST_P(DecodeBatchTest, NothingToDecodeIsReported) {
  const FlatArray content{.layout = Layout::kRaw, .chunks = 5, .chunk_elements = 100};
  const auto loaded = DecodeBatch::load(array(content), {}, device_);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), Code::kInvalidArgument);
  EXPECT_NE(loaded.status().message().find("nothing to decode"), std::string::npos);
}

TEST_P(DecodeBatchTest, AnEmptySelectionIsAnEmptyBatch) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 5, .chunk_elements = 100};
  DecodeBatch batch = DecodeBatch::load(array(content), parse_selection("10:10").value(), device_).value();
  EXPECT_EQ(batch.chunk_count(), 0u);
  EXPECT_TRUE(batch.run().ok());
}

TEST_P(DecodeBatchTest, UnsupportedStagesAreNamedOrUndone) {
  device::staged_decode_model().any_codec = false;  // like a GPU: without bz2, but with shuffle
  const FlatArray content{.layout = Layout::kBz2, .chunks = 5, .chunk_elements = 100};
  const auto bz2 = DecodeBatch::load(array(content), {}, device_);
  if (device_.host_addressable()) {
    EXPECT_TRUE(bz2.ok());
  } else {
    ASSERT_FALSE(bz2.ok());
    EXPECT_EQ(bz2.status().code(), Code::kUnsupported);
    EXPECT_NE(bz2.status().message().find("bz2"), std::string::npos) << bz2.status().to_string();
  }
  // bz2 is undone once, on the host, when the batch is loaded; the device undoes the shuffle.
  const auto writer =
      ArrayWriter::create(store_, "both", 2, R"({"zarr_format":2,"shape":[40],"chunks":[20],"dtype":"<u4",
    "fill_value":0,"order":"C","filters":[{"id":"shuffle","elementsize":4}],"compressor":{"id":"bz2","level":1}})")
          .value();
  auto worker = writer.make_worker().value();
  std::uint32_t next = 0;
  for (std::uint64_t object = 0; object < writer.object_count(); ++object) {
    ASSERT_TRUE(worker
                    .write(object,
                           [&](std::span<const std::uint64_t>, std::span<std::byte> into) {
                             for (std::size_t at = 0; at < into.size(); at += 4, ++next)
                               std::memcpy(into.data() + at, &next, 4);
                             return Status();
                           })
                    .ok());
  }
  ASSERT_TRUE(writer.finish().ok());
  DecodeBatch batch = DecodeBatch::load(Array::open(store_, "both").value(), {}, device_).value();
  EXPECT_EQ(batch.undone(), device_.host_addressable() ? "" : "bz2");
  EXPECT_EQ(batch.encoded_bytes() == 160, !device_.host_addressable());
  ASSERT_TRUE(batch.run().ok());
  std::vector<std::uint32_t> expected(40);
  std::iota(expected.begin(), expected.end(), 0u);
  EXPECT_EQ(elements(batch, 40), expected);
}

class BatchBudgetTest : public DecodeBatchTest {
 protected:
  static constexpr std::size_t kAccountBytes = std::size_t{1} << 20;
  const std::shared_ptr<base::MemoryBudget>& account() const {
    return Access::impl(small_)->resources->stored_memory();
  }
  // For an array written by array() or put into the store. All memory is released when the store, which keeps files
  // open, is gone.
  void expect_refusal(const char* selection, const char* what) {
    const std::uint64_t before = account()->used_bytes();
    const Status status = DecodeBatch::load(Array::open(Store::open(small_, directory_.path()).value()).value(),
                                            parse_selection(selection).value(), device_)
                              .status();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    for (const char* part : {what, "stored_budget_bytes", "1048576"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << part << ": " << status.to_string();
    }
    EXPECT_EQ(account()->used_bytes(), before);
    // With more memory it is loaded.
    const auto large = DecodeBatch::load(Array::open(store_).value(), parse_selection(selection).value(), device_);
    EXPECT_TRUE(large.ok()) << large.status().to_string();
  }

  Context small_ = Context::create({.threads = 2, .stored_budget_bytes = kAccountBytes}).value();
};

TEST_P(BatchBudgetTest, LongStoredChunks) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 64, .chunk_elements = 100};
  array(content);
  for (std::uint64_t i = 0; i < content.chunks; ++i) {
    std::ofstream(directory_.path() + "/" + content.key(i), std::ios::binary) << std::string(60'000, 'x');
  }
  expect_refusal(":", "the encoded chunks of a batch");
}

TEST_P(BatchBudgetTest, ChunksMuchLargerThanTheSelection) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 2, .chunk_elements = 1'000'000};
  array(content);
  expect_refusal("5:6", "the encoded chunks of a batch");
  const std::string zeros(content.chunk_elements * 4, '\0');
  std::string encoded(ZSTD_compressBound(zeros.size()), '\0');
  encoded.resize(ZSTD_compress(encoded.data(), encoded.size(), zeros.data(), zeros.size(), 1));
  std::ofstream(directory_.path() + "/" + content.key(0), std::ios::binary) << encoded;
  expect_refusal("5:6", device_.host_addressable() ? "the buffers that a batch's chunks are decoded in"
                                                   : "the decoded chunks of a batch");
}

TEST_P(BatchBudgetTest, AGridOfVeryManyChunks) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 20'000, .chunk_elements = 1};
  const std::string document = content.metadata();
  ASSERT_TRUE(store_.put(content.metadata_key(), std::as_bytes(std::span(document))).ok());
  expect_refusal(":", "the list of a batch's chunks");
}

TEST_P(BatchBudgetTest, OrdinaryChunksTakeLittleAndGiveItBack) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 32, .chunk_elements = 50'000};
  array(content);
  const std::uint64_t before = account()->used_bytes();
  {
    const Array opened = Array::open(Store::open(small_, directory_.path()).value()).value();
    DecodeBatch batch = DecodeBatch::load(opened, {}, device_).value();
    EXPECT_LE(account()->used_bytes() - before, content.elements() * 4 / 16);
    ASSERT_TRUE(batch.run().ok());
    EXPECT_TRUE(elements(batch, content.elements()) == content.expected());
  }
  EXPECT_EQ(account()->used_bytes(), before);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BatchBudgetTest, ::testing::Values("host", "host-staged"),
                         [](const auto& param) { return std::string(param.param) == "host" ? "host" : "staged"; });
INSTANTIATE_TEST_SUITE_P(Kinds, DecodeBatchTest, ::testing::Values("host", "host-staged"),
                         [](const auto& param) { return std::string(param.param) == "host" ? "host" : "staged"; });

}  // namespace
}  // namespace headrace
