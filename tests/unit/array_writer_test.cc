// Array reads back what ArrayWriter stores: both formats, shards with the index at either end, byte order, transposed
// and ragged chunks, every codec with an encoder. An array whose writing failed or was not finished does not exist.
#include <gtest/gtest.h>
#include <headrace/array_writer.h>
#include <headrace/device.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "store/store.h"
#include "tests/support/temp_dir.h"

namespace headrace {
namespace {

Context context() {
  ContextOptions options;
  options.threads = 2;
  auto made = Context::create(options);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return *made;
}

Store store_at(const std::string& url) {
  auto store = Store::open(context(), url);
  EXPECT_TRUE(store.ok()) << store.status().to_string();
  return *store;
}

// The element at each place of an array; all are different.
std::uint32_t value_at(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& at) {
  std::uint64_t index = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) index = index * shape[i] + at[i];
  return static_cast<std::uint32_t>((index + 1) * 2654435761u);
}

// Fills a chunk with value_at; places outside the array get garbage.
ArrayWriter::FillChunk filler(const ArrayInfo& info) {
  return [info](std::span<const std::uint64_t> chunk, std::span<std::byte> elements) -> Status {
    std::vector<std::uint64_t> within(info.shape.size(), 0), at(info.shape.size());
    for (std::size_t n = 0; n < elements.size() / 4; ++n) {
      bool inside = true;
      for (std::size_t i = 0; i < at.size(); ++i) {
        at[i] = chunk[i] * info.chunk_shape[i] + within[i];
        inside = inside && at[i] < info.shape[i];
      }
      const std::uint32_t value = inside ? value_at(info.shape, at) : 0xDEADBEEF;
      std::memcpy(&elements[4 * n], &value, 4);
      for (std::size_t i = within.size(); i-- > 0;) {
        if (++within[i] < info.chunk_shape[i]) break;
        within[i] = 0;
      }
    }
    return {};
  };
}

Status write_array(const Store& store, const std::string& path, int format, const std::string& document) {
  HEADRACE_TRY_ASSIGN(const ArrayWriter writer, ArrayWriter::create(store, path, format, document));
  HEADRACE_TRY_ASSIGN(ArrayWriter::Worker worker, writer.make_worker());
  for (std::uint64_t i = 0; i < writer.object_count(); ++i) {
    HEADRACE_TRY_ASSIGN(const std::uint64_t bytes, worker.write(i, filler(writer.info())));
    EXPECT_GT(bytes, 0u);
  }
  return writer.finish();
}

void expect_whole(const Store& store, const std::string& path) {
  auto array = Array::open(store, path);
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  const ArrayInfo& info = array->info();
  std::vector<std::uint32_t> got(info.decoded_bytes / 4);
  auto device = Device::open("host");
  ASSERT_TRUE(device.ok());
  Stats stats;
  const Status status = array->read({}, {got, info.shape}, *device, {}, &stats);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(stats.missing_chunks, 0u);
  std::vector<std::uint64_t> at(info.shape.size(), 0);
  for (std::size_t n = 0; n < got.size(); ++n) {
    ASSERT_EQ(got[n], value_at(info.shape, at)) << "element " << n;
    for (std::size_t i = at.size(); i-- > 0;) {
      if (++at[i] < info.shape[i]) break;
      at[i] = 0;
    }
  }
}

std::string v2(const std::string& dtype, const std::string& order, const std::string& filters,
               const std::string& compressor) {
  return R"({"zarr_format":2,"shape":[13,7,5],"chunks":[4,3,5],"dtype":")" + dtype + R"(","order":")" + order +
         R"(","fill_value":0,"filters":)" + filters + R"(,"compressor":)" + compressor + "}";
}

std::string v3(const std::string& chunk_shape, const std::string& codecs) {
  return R"({"zarr_format":3,"node_type":"array","shape":[13,7,5],"data_type":"uint32","fill_value":0,)"
         R"("chunk_grid":{"name":"regular","configuration":{"chunk_shape":)" +
         chunk_shape + R"(}},"chunk_key_encoding":{"name":"default"},"codecs":)" + codecs + "}";
}

constexpr const char* kLittle = R"({"name":"bytes","configuration":{"endian":"little"}})";
constexpr const char* kBig = R"({"name":"bytes","configuration":{"endian":"big"}})";

TEST(ArrayWriter, FormatTwo) {
  const Store store = store_at("memory://array_writer_v2");
  int number = 0;
  for (const char* dtype : {"<u4", ">u4"}) {
    for (const char* order : {"C", "F"}) {
      for (const char* filters : {"null", R"([{"id":"shuffle","elementsize":4}])"}) {
        for (const char* compressor : {"null", R"({"id":"zstd","level":1})", R"({"id":"gzip","level":1})",
                                       R"({"id":"zlib","level":1})", R"({"id":"lz4","acceleration":1})",
                                       R"({"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0})"}) {
          const std::string path = "a" + std::to_string(number++);
          const std::string document = v2(dtype, order, filters, compressor);
          const Status status = write_array(store, path, 2, document);
          ASSERT_TRUE(status.ok()) << document << ": " << status.to_string();
          expect_whole(store, path);
          if (HasFatalFailure()) FAIL() << document;
        }
      }
    }
  }
}

TEST(ArrayWriter, FormatThreeAndShards) {
  const Store store = store_at("memory://array_writer_v3");
  int number = 0;
  const std::string shuffled = R"(,{"name":"numcodecs.shuffle","configuration":{"elementsize":4}})";
  const std::string zstd = R"(,{"name":"zstd","configuration":{"level":3,"checksum":true}})";
  const std::string blosc =
      R"(,{"name":"blosc","configuration":{"cname":"zstd","clevel":2,"shuffle":"shuffle","typesize":4,"blocksize":0}})";
  const std::string crc = R"(,{"name":"crc32c"})";
  const std::string transpose = R"({"name":"transpose","configuration":{"order":[2,0,1]}},)";
  for (const std::string& tail : {std::string(), zstd, shuffled + zstd + crc, blosc, crc}) {
    for (const std::string& head : {std::string(), transpose}) {
      for (const char* bytes : {kLittle, kBig}) {
        const std::string codecs = "[" + head + bytes + tail + "]";
        std::vector<std::string> documents = {v3("[4,3,5]", codecs)};
        // Shards that extend beyond the array; chunks entirely outside are left out.
        for (const char* end : {"end", "start"}) {
          for (const char* index : {kLittle, kBig}) {
            documents.push_back(v3("[8,6,10]", R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[4,3,5],)"
                                               R"("codecs":)" +
                                                   codecs + R"(,"index_codecs":[)" + index +
                                                   R"(,{"name":"crc32c"}],"index_location":")" + end + "\"}}]"));
          }
        }
        for (const std::string& document : documents) {
          const std::string path = "a" + std::to_string(number++);
          const Status status = write_array(store, path, 3, document);
          ASSERT_TRUE(status.ok()) << document << ": " << status.to_string();
          expect_whole(store, path);
          if (HasFatalFailure()) FAIL() << document;
        }
      }
    }
  }
}

// A shard that extends beyond the array contains exactly the chunks that touch the array, and its index.
TEST(ArrayWriter, ChunksBeyondTheArrayAreNotStored) {
  const Store store = store_at("memory://array_writer_beyond");
  const std::string document =
      v3("[16,9,5]", R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[4,3,5],"codecs":[)" +
                         std::string(kLittle) + R"(],"index_codecs":[)" + kLittle + R"(],"index_location":"end"}}])");
  auto writer = ArrayWriter::create(store, "", 3, document);
  ASSERT_TRUE(writer.ok()) << writer.status().to_string();
  ASSERT_EQ(writer->object_count(), 1u);
  auto worker = writer->make_worker();
  ASSERT_TRUE(worker.ok());
  unsigned chunks = 0;
  const auto bytes = worker->write(0, [&](std::span<const std::uint64_t>, std::span<std::byte>) -> Status {
    ++chunks;
    return {};
  });
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(chunks, 4u * 3u);
  EXPECT_EQ(*bytes, chunks * 4 * 3 * 5 * 4 + 4 * 3 * 16);
}

TEST(ArrayWriter, NothingExistsBeforeFinish) {
  const Store store = store_at("memory://array_writer_finish");
  auto writer = ArrayWriter::create(store, "a/b", 3, v3("[4,3,5]", "[" + std::string(kLittle) + "]"));
  ASSERT_TRUE(writer.ok());
  auto worker = writer->make_worker();
  ASSERT_TRUE(worker.ok());
  ASSERT_TRUE(worker->write(0, filler(writer->info())).ok());
  EXPECT_EQ(Array::open(store, "a/b").status().code(), Code::kNotFound);
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_TRUE(Array::open(store, "a/b").ok());
}

TEST(ArrayWriter, FailuresNameCauseAndPlace) {
  const support::TempDir folder;
  const Store store = store_at(folder.path());
  const std::string document = v3("[4,3,5]", "[" + std::string(kLittle) + "]");
  const auto broken = ArrayWriter::create(store, "x", 3, "{");
  EXPECT_EQ(broken.status().code(), Code::kCorrupt);
  EXPECT_EQ(broken.status().key(), "x/zarr.json");
  EXPECT_EQ(ArrayWriter::create(store, "x", 2, document).status().key(), "x/.zarray");
  EXPECT_FALSE(ArrayWriter::create(store, "../x", 3, document).ok());

  const auto bits = ArrayWriter::create(
      store, "x", 2, v2("<u4", "C", "null", R"({"id":"blosc","cname":"lz4","clevel":5,"shuffle":2})"));
  ASSERT_TRUE(bits.ok());
  EXPECT_EQ(bits->make_worker().status().code(), Code::kUnsupported);

  // A file is in the place of the array's directory; the callback that fills a chunk may also fail.
  auto writer = ArrayWriter::create(store, "taken", 3, document);
  ASSERT_TRUE(writer.ok());
  auto worker = writer->make_worker();
  ASSERT_TRUE(worker.ok());
  ASSERT_TRUE(support::write_file(folder / "taken", {}));
  const auto put = worker->write(0, filler(writer->info()));
  EXPECT_EQ(put.status().code(), Code::kIo) << put.status().to_string();
  EXPECT_EQ(put.status().key(), "taken/c/0/0/0");
  EXPECT_FALSE(writer->finish().ok());
  const auto refused = worker->write(0, [](std::span<const std::uint64_t>, std::span<std::byte>) {
    return Status(Code::kCancelled, Layer::kApi, "no");
  });
  EXPECT_EQ(refused.status().code(), Code::kCancelled);
}

}  // namespace
}  // namespace headrace
