// Property: a selection yields the same elements whether whole chunks or only parts were read and decoded. Stats
// reports how much was not decoded. Damage in the decoded part is found, and with Verify::kWhole all other damage too.
#include "transfer/read/chunk_part.h"

#include <blosc.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "base/fault.h"
#include "base/json.h"
#include "codec/codec.h"
#include "store/store.h"
#include "support/sanitizer.h"
#include "support/stats_ways.h"
#include "support/temp_dir.h"
#include "transfer/read/cold_part.h"

namespace headrace {
namespace {

constexpr std::uint64_t kRows = 600, kColumns = 160, kPlanes = 6, kShardPlanes = 3;
constexpr std::size_t kChunkBytes = kRows * kColumns * 4;

HEADRACE_TEST_OWN_BYTES std::uint32_t value_at(std::uint64_t plane, std::uint64_t row, std::uint64_t column) {
  return static_cast<std::uint32_t>((plane * 1'000'003 + row * 977) * 31 + column * column);
}

// How much of a chunk must be decoded for some of its elements.
enum class Decodes : std::uint8_t { kAll, kBeginning, kBlocks };

// Codecs of a chunk in v3, before "bytes" and after it.
struct Codecs {
  const char* name;
  Decodes decodes;
  const char* before = "";
  const char* behind = "";
};
constexpr Codecs kRaw{"raw", Decodes::kAll};
constexpr Codecs kBlosc{"blosc", Decodes::kBlocks, "",
                        R"({"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,)"
                        R"("blocksize":0}})"};
#define HEADRACE_ZSTD R"({"name":"zstd","configuration":{"level":3,"checksum":true}})"
#define HEADRACE_LZ4 R"({"name":"numcodecs.lz4","configuration":{"acceleration":1}})"
#define HEADRACE_CRC R"({"name":"crc32c"})"
#define HEADRACE_DELTA R"({"name":"numcodecs.delta","configuration":{"dtype":"<u4"}})"
constexpr Codecs kZstd{"zstd", Decodes::kBeginning, "", HEADRACE_ZSTD};
constexpr Codecs kLz4{"lz4", Decodes::kBeginning, "", HEADRACE_LZ4};
constexpr Codecs kPrefixes[] = {
    kZstd,
    kLz4,
    {"zstd_checked", Decodes::kBeginning, "", HEADRACE_ZSTD "," HEADRACE_CRC},
    {"delta_lz4", Decodes::kBeginning, HEADRACE_DELTA, HEADRACE_LZ4},
    {"delta_delta_lz4_zstd_checked", Decodes::kBeginning, HEADRACE_DELTA "," HEADRACE_DELTA,
     HEADRACE_LZ4 "," HEADRACE_ZSTD "," HEADRACE_CRC},
    {"delta", Decodes::kBeginning, HEADRACE_DELTA},
    {"checked_zstd", Decodes::kAll, "", HEADRACE_CRC "," HEADRACE_ZSTD},
    {"shuffle_zstd", Decodes::kAll, "",
     R"({"name":"numcodecs.shuffle","configuration":{"elementsize":4}},)" HEADRACE_ZSTD},
    {"gzip", Decodes::kAll, "", R"({"name":"gzip","configuration":{"level":1}})"},
};
#undef HEADRACE_DELTA
#undef HEADRACE_CRC
#undef HEADRACE_LZ4
#undef HEADRACE_ZSTD

struct Variant {
  const char* device = "host";
  Placement placement = Placement::kCpu;
  Codecs codecs = kBlosc;
  bool sharded = false, memory = false;
};

std::string name_of(const ::testing::TestParamInfo<Variant>& info) {
  const Variant& v = info.param;
  std::string name = std::string(v.device) + (v.placement == Placement::kGpu ? "_gpu" : "_cpu") + "_" + v.codecs.name +
                     (v.sharded ? "_sharded" : "") + (v.memory ? "_memory" : "");
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

class ChunkPartTest : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    ContextOptions options;
    options.threads = 2;
    context_ = std::make_unique<Context>(Context::create(options).value());
    static int number = 0;
    const std::string url =
        GetParam().memory ? "memory://chunk_part" + std::to_string(++number) : std::string(directory_.path());
    store_ = std::make_unique<Store>(Store::open(*context_, url).value());
    Result<Device> device = Device::open(GetParam().device);
    if (!device.ok() && std::string_view(GetParam().device) == "cuda") {
      GTEST_SKIP() << "cuda: " << device.status().to_string();
    }
    device_ = std::make_unique<Device>(std::move(device).value());
    write();
    array_ = std::make_unique<Array>(Array::open(*store_).value());
  }

  bool raw() const { return std::string_view(GetParam().codecs.name) == "raw"; }
  bool cuts() const { return GetParam().codecs.decodes == Decodes::kBlocks; }
  // Uses the codecs' own encoders.
  static void encode(const std::string& list, store::Bytes& bytes) {
    const DataType type = numeric_type("uint32");
    for (const base::Json& codec : base::Json::parse("[" + list + "]")) {
      base::Json config = base::Json::object();
      if (codec.contains("configuration")) config = codec["configuration"];
      const std::string name = codec["name"];
      const codec::Codec made = codec::make_codec(name, config, {.dtype = &type, .zarr_format = 3}).value();
      const std::unique_ptr<codec::Encoder> encoder = made.coder()->make_encoder().value();
      store::Bytes out(encoder->bound_bytes(bytes.size()));
      out.resize(encoder->encode(bytes, out).value());
      bytes = std::move(out);
    }
  }
  HEADRACE_TEST_OWN_BYTES static void fill(std::uint32_t* to, std::uint64_t plane) {
    for (std::uint64_t row = 0; row < kRows; ++row) {
      for (std::uint64_t column = 0; column < kColumns; ++column) *to++ = value_at(plane, row, column);
    }
  }
  // Encoded once for all cases.
  const store::Bytes& chunk(std::uint64_t plane) const {
    static std::map<std::pair<std::string, std::uint64_t>, store::Bytes> made;
    store::Bytes& out = made[{GetParam().codecs.name, plane}];
    if (out.empty()) out = encoded_chunk(plane);
    return out;
  }
  store::Bytes encoded_chunk(std::uint64_t plane) const {
    std::vector<std::uint32_t> elements(kRows * kColumns);
    fill(elements.data(), plane);
    store::Bytes out(kChunkBytes);
    if (!cuts()) {
      std::memcpy(out.data(), elements.data(), out.size());
      encode(GetParam().codecs.before, out);
      encode(GetParam().codecs.behind, out);
      return out;
    }
    out.resize(kChunkBytes + BLOSC_MAX_OVERHEAD);
    const int bytes = blosc_compress_ctx(5, 1, 4, kChunkBytes, elements.data(), out.data(), out.size(), "lz4", 4096, 1);
    EXPECT_GT(bytes, 0);
    out.resize(static_cast<std::size_t>(bytes));
    return out;
  }
  void TearDown() override {
    transfer::min_part_chunk_bytes = std::uint64_t{32} << 10;
    transfer::min_saved_file_bytes = std::uint64_t{128} << 10;
    device::staged_decode_model().host_only_every = 0;
  }
  void write() {
    std::string codecs = GetParam().codecs.before;
    if (!codecs.empty()) codecs += ",";
    codecs = "[" + codecs + R"({"name":"bytes","configuration":{"endian":"little"}})";
    if (*GetParam().codecs.behind != 0) codecs += std::string(",") + GetParam().codecs.behind;
    codecs += "]";
    const std::string plane = std::to_string(kRows) + "," + std::to_string(kColumns) + "]";
    std::uint64_t planes = 1;
    if (GetParam().sharded) {
      planes = kShardPlanes;
      codecs = R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[1,)" + plane + R"(,"codecs":)" + codecs +
               R"(,"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}}])";
    }
    put("zarr.json", R"({"zarr_format":3,"node_type":"array","shape":[)" + std::to_string(kPlanes) + "," + plane +
                         R"(,"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" +
                         std::to_string(planes) + "," + plane + R"(}},"chunk_key_encoding":{"name":"default"},)" +
                         R"("fill_value":0,"codecs":)" + codecs + "}");
    for (std::uint64_t first = 0; first < kPlanes; first += planes) {
      store::Bytes object, index;
      for (std::uint64_t i = 0; i < planes; ++i) {
        const store::Bytes& one = chunk(first + i);
        const std::uint64_t entry[2] = {object.size(), one.size()};
        object.insert(object.end(), one.begin(), one.end());
        const auto* const from = reinterpret_cast<const std::byte*>(entry);
        index.insert(index.end(), from, from + sizeof entry);
      }
      if (GetParam().sharded) object.insert(object.end(), index.begin(), index.end());
      ASSERT_TRUE(Access::impl(*store_)->put("c/" + std::to_string(first / planes) + "/0/0", object).ok());
    }
  }
  void put(const std::string& key, const std::string& text) {
    const auto* const from = reinterpret_cast<const std::byte*>(text.data());
    ASSERT_TRUE(Access::impl(*store_)->put(key, store::Bytes(from, from + text.size())).ok());
  }
  std::string object_path(std::uint64_t plane) const {
    return directory_ / ("c/" + std::to_string(GetParam().sharded ? plane / kShardPlanes : plane) + "/0/0");
  }

  struct Box {
    std::uint64_t begin[3], count[3];
    Selection selection() const {
      Selection out;
      for (int i = 0; i < 3; ++i) {
        const auto from = static_cast<std::int64_t>(begin[i]);
        out.push_back({.start = from, .stop = from + static_cast<std::int64_t>(count[i])});
      }
      return out;
    }
    std::uint64_t elements() const { return count[0] * count[1] * count[2]; }
    HEADRACE_TEST_OWN_BYTES bool holds(const std::uint32_t* got) const {
      for (std::uint64_t plane = begin[0]; plane < begin[0] + count[0]; ++plane) {
        for (std::uint64_t row = begin[1]; row < begin[1] + count[1]; ++row) {
          for (std::uint64_t column = begin[2]; column < begin[2] + count[2]; ++column) {
            if (*got++ != value_at(plane, row, column)) return false;
          }
        }
      }
      return true;
    }
  };
  Box random_box(std::uint64_t max_rows = kRows) {
    Box box{};
    const std::uint64_t shape[3] = {kPlanes, max_rows, kColumns};
    for (int i = 0; i < 3; ++i) {
      box.count[i] = 1 + random_() % shape[i];
      box.begin[i] = random_() % ((i == 1 ? kRows : shape[i]) - box.count[i] + 1);
    }
    return box;
  }
  // Reads the boxes in one call, compares them, and returns the status.
  Status read(const std::vector<Box>& boxes, Stats* stats, Verify verify = Verify::kAsRead) {
    ReadOptions options;
    options.placement = GetParam().placement;
    options.verify = verify;
    std::vector<ReadPart> parts;
    std::vector<Buffer> buffers;
    for (const Box& box : boxes) {
      buffers.push_back(Buffer::allocate(*device_, box.elements() * 4).value());
      parts.push_back(
          {box.selection(), {buffers.back(), array_->info().dtype, {box.count[0], box.count[1], box.count[2]}}});
    }
    Status status = parts.size() == 1 ? array_->read(parts[0].selection, parts[0].tensor, *device_, options, stats)
                                      : array_->read_many(parts, *device_, options, stats);
    for (std::size_t i = 0; status.ok() && i < boxes.size(); ++i) {
      std::vector<std::uint32_t> got(boxes[i].elements());
      EXPECT_TRUE(buffers[i].copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
      EXPECT_TRUE(boxes[i].holds(got.data())) << "box " << i;
    }
    return status;
  }
  void drop_cache() {
    for (std::uint64_t plane = 0; plane < kPlanes; ++plane) {
      const int fd = ::open(object_path(plane).c_str(), O_RDONLY | O_CLOEXEC);
      ASSERT_GE(fd, 0);
      EXPECT_EQ(::fdatasync(fd), 0);
      EXPECT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
      ::close(fd);
    }
  }

  support::TempDir directory_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Array> array_;
  std::mt19937_64 random_{20261125};
};

TEST_P(ChunkPartTest, BoxesAreTheSame) {
  std::uint64_t skipped = 0;
  for (int i = 0; i < (support::kThreadSanitizer ? 4 : support::kAddressSanitizer ? 15 : 40); ++i) {
    if (!GetParam().memory && i % 10 == 9) drop_cache();
    Stats stats;
    const std::vector<Box> box{random_box(i % 2 == 0 ? kRows : 90)};
    const Status status = read(box, &stats);
    ASSERT_TRUE(status.ok()) << status.to_string();
    skipped += stats.skipped_bytes;
    if (HasFailure()) return;
  }
  EXPECT_EQ(skipped > 0, GetParam().codecs.decodes != Decodes::kAll);
}

TEST_P(ChunkPartTest, ManyTogetherAreTheSame) {
  for (unsigned i = 0; i < (support::kThreadSanitizer ? 3u : support::kAddressSanitizer ? 6u : 15u); ++i) {
    device::staged_decode_model().host_only_every = i % 3;  // chunks that the device leaves to the CPU
    std::vector<Box> boxes;
    const std::size_t count = 1 + random_() % 8;
    for (std::size_t k = 0; k < count; ++k) boxes.push_back(random_box(16));
    Stats stats;
    const Status status = read(boxes, &stats);
    ASSERT_TRUE(status.ok()) << status.to_string();
    if (HasFailure()) return;
  }
}

// An eighth of the rows: only those of the chunk's six blocks that contain some of them are read, copied and decoded.
TEST_P(ChunkPartTest, UnrequestedPartsAreNotRead) {
  if (GetParam().memory) return;  // an array in memory needs no read
  const Box box{{0, 220, 0}, {kPlanes, 75, kColumns}};
  Stats part, whole;
  ASSERT_TRUE(read({box}, &part).ok());  // opens the shards
  part = {};
  ASSERT_TRUE(read({box}, &part).ok());
  ASSERT_TRUE(read({box}, &whole, Verify::kWhole).ok());
  EXPECT_EQ(whole.skipped_bytes, 0u);
  if (!raw() && !cuts()) {
    // Decoding stops after the last wanted row, 295 of 600.
    const std::uint64_t behind = kPlanes * (kRows - 295) * kColumns * 4;
    EXPECT_EQ(part.skipped_bytes, GetParam().codecs.decodes == Decodes::kAll ? 0 : behind);
    // The index of a recently written shard is read again until the shard's time stamp is old enough.
    for (int tries = 0; part.read_bytes != whole.read_bytes && tries < 50; ++tries) {
      part = whole = {};
      ASSERT_TRUE(read({box}, &part).ok());
      ASSERT_TRUE(read({box}, &whole, Verify::kWhole).ok());
    }
    EXPECT_EQ(part.read_bytes, whole.read_bytes);
    return;
  }
  EXPECT_LT(part.read_bytes, whole.read_bytes / 2);
  if (GetParam().device != std::string_view("host") && !raw() && GetParam().placement == Placement::kGpu) {
    EXPECT_LT(part.bus_bytes, whole.bus_bytes / 2);
  }
  if (raw()) return;
  EXPECT_GT(part.skipped_bytes, kPlanes * kChunkBytes / 2);
  EXPECT_EQ(part.chunks, kPlanes);
  EXPECT_EQ(part.decoded_bytes, box.elements() * 4);
}

// Once files are mapped, the device reads blocks from the page cache itself; the CPU reads those that the device leaves
// to it.
TEST_P(ChunkPartTest, PartsComeMapped) {
  if (!cuts() || GetParam().memory || GetParam().placement != Placement::kGpu) return;
  if (GetParam().device == std::string_view("host")) return;
  const Box box{{0, 220, 0}, {kPlanes, 75, kColumns}};
  Stats whole, part;
  ASSERT_TRUE(read({box}, &whole, Verify::kWhole).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    part = {};
    ASSERT_TRUE(read({box}, &part).ok());
    EXPECT_EQ(testing::bytes_by_all_ways(part), part.read_bytes) << part.path;
  } while (part.buffered_bytes >= part.mapped_bytes && std::chrono::steady_clock::now() < deadline);
  EXPECT_GT(part.mapped_bytes, part.buffered_bytes);  // the buffered bytes are tables and shard indexes
  EXPECT_LT(part.read_bytes, whole.read_bytes / 2);
  EXPECT_EQ(part.gpu_chunks, kPlanes);
  for (unsigned i = 0; i < 30; ++i) {
    device::staged_decode_model().host_only_every = i % 3;
    std::vector<Box> boxes;
    for (std::size_t k = 0; k < 1 + random_() % 4; ++k) boxes.push_back(random_box(90));
    part = {};
    const Status status = read(boxes, &part);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(testing::bytes_by_all_ways(part), part.read_bytes) << part.path;
    if (HasFailure()) return;
  }
}

// Mapped blocks are checked like others: here by the inner codec, even if the device leaves them to the CPU.
TEST_P(ChunkPartTest, DamageInMappedPartsIsFound) {
  if (!cuts() || GetParam().memory || GetParam().placement != Placement::kGpu) return;
  if (GetParam().device == std::string_view("host")) return;
  const Box box{{0, 220, 0}, {kPlanes, 75, kColumns}};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Stats part;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    part = {};
    ASSERT_TRUE(read({box}, &part).ok());
  } while (part.buffered_bytes >= part.mapped_bytes && std::chrono::steady_clock::now() < deadline);
  // Written in place, so that the page cache and the mapping see it. It overwrites the lengths of a block's byte planes
  // with nonsense.
  {
    std::fstream file(object_path(0), std::ios::in | std::ios::out | std::ios::binary);
    const std::uint64_t begin = chunk(0).size() / 4, end = chunk(0).size() / 4 * 3;
    file.seekp(static_cast<std::streamoff>(begin));
    const std::string nonsense(end - begin, '\xff');
    file.write(nonsense.data(), static_cast<std::streamsize>(nonsense.size()));
  }
  const Status status = read({box}, &part);
  EXPECT_EQ(status.code(), Code::kCorrupt) << status.to_string();
}

// Selects the first and the last two of six blocks: nothing between them is read or decoded. A device decodes a chunk
// as a single item.
TEST_P(ChunkPartTest, BothEndsOfAChunkAreTwoParts) {
  if (!cuts()) return;
  constexpr std::uint64_t kBlock = 64 << 10;
  const std::vector<Box> boxes = {{{0, 0, 0}, {kPlanes, 20, kColumns}}, {{0, 570, 0}, {kPlanes, 20, kColumns}}};
  Stats part, whole;
  ASSERT_TRUE(read(boxes, &part).ok());  // opens the shards
  part = {};
  ASSERT_TRUE(read(boxes, &part).ok());
  ASSERT_TRUE(read(boxes, &whole, Verify::kWhole).ok());
  const bool apart = GetParam().placement == Placement::kCpu;
  EXPECT_EQ(part.skipped_bytes, apart ? kPlanes * 3 * kBlock : 0);
  EXPECT_EQ(part.chunks, kPlanes);
  EXPECT_EQ(part.decoded_bytes, whole.decoded_bytes);
  if (apart && !GetParam().memory) {
    EXPECT_LT(part.read_bytes, whole.read_bytes * 3 / 5 + kPlanes * 4096);
    // The table and two parts; for a recently written shard also its index.
    if (!GetParam().sharded) {
      EXPECT_EQ(part.requests, kPlanes * 3);
    }
  }
}

// If the beginning of a chunk is uncached, the kernel is not asked again about the whole chunk.
TEST_P(ChunkPartTest, ResidencyOfAColdChunkIsQueriedOnce) {
  if (!cuts() || GetParam().memory || GetParam().sharded) return;
  for (const bool in_steps : {false, true}) {
    transfer::min_saved_file_bytes = in_steps ? 0 : ~std::uint64_t{0};
    drop_cache();
    base::arm_fault({.point = "none"});  // resets the counts
    Stats stats;
    const Status status = read({Box{{0, 220, 0}, {kPlanes, 75, kColumns}}}, &stats);
    std::uint64_t asked = 0;
    for (const base::FaultCount& count : base::fault_counts())
      asked += count.point == "base.cachestat" ? count.hits : 0;
    base::disarm_faults();
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_LE(asked, kPlanes);
    EXPECT_EQ(stats.requests, in_steps ? 2 * kPlanes : kPlanes);
    EXPECT_GT(stats.skipped_bytes, 0u) << "also cut once all of it is here";
  }
}

TEST_P(ChunkPartTest, DamageInRequestedPartsIsFound) {
  if (!cuts() || GetParam().memory) return;
  const std::string path = object_path(0);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const std::size_t last = chunk(0).size() - 60;  // in the last block
  file.seekp(static_cast<std::streamoff>(last));
  for (int i = 0; i < 60; ++i) file.put(static_cast<char>(0xff));
  file.close();
  const Box first{{0, 0, 0}, {1, 10, kColumns}}, end{{0, kRows - 10, 0}, {1, 10, kColumns}};
  Stats stats;
  EXPECT_TRUE(read({first}, &stats).ok());
  const Status damaged = read({end}, &stats);
  EXPECT_EQ(damaged.code(), Code::kCorrupt) << damaged.to_string();
  EXPECT_NE(damaged.to_string().find("c/0"), std::string::npos) << damaged.to_string();
  EXPECT_NE(damaged.to_string().find("in the part that begins at decoded byte"), std::string::npos)
      << damaged.to_string();
  EXPECT_EQ(read({first}, &stats, Verify::kWhole).code(), Code::kCorrupt);
}

// If decoding ends early, only the decoded part is known to be good, unless a checksum covers the stored bytes.
TEST_P(ChunkPartTest, DataAfterTheRequestedPartIsNotChecked) {
  const std::string_view name = GetParam().codecs.name;
  if (GetParam().memory || (name != "zstd" && name != "zstd_checked")) return;
  // Overwrites the size of the second block's literals, after a frame header of 9 bytes and the first block.
  const store::Bytes stored = chunk(0);
  std::uint32_t header = 0;
  std::memcpy(&header, &stored[9], 3);
  ASSERT_EQ(header >> 1 & 3, 2u) << "not a compressed block";
  const std::size_t second = 12 + (header >> 3);
  std::fstream file(object_path(0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(second + 3));
  for (int i = 0; i < 20; ++i) file.put(static_cast<char>(0xff));
  file.close();
  const Box first{{0, 0, 0}, {1, 10, kColumns}}, behind{{0, 420, 0}, {1, 10, kColumns}};
  Stats stats;
  EXPECT_EQ(read({first}, &stats).code(), name == "zstd" ? Code::kOk : Code::kCorrupt);
  const Status damaged = read({behind}, &stats);
  EXPECT_EQ(damaged.code(), Code::kCorrupt) << damaged.to_string();
  EXPECT_NE(damaged.to_string().find("c/0"), std::string::npos) << damaged.to_string();
  EXPECT_NE(damaged.to_string().find("in the part that begins at decoded byte 0"), std::string::npos)
      << damaged.to_string();
  EXPECT_EQ(read({first}, &stats, Verify::kWhole).code(), Code::kCorrupt);
}

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const Codecs& codecs : {kBlosc, kRaw}) {
    for (const bool sharded : {false, true}) {
      for (const bool memory : {false, true}) {
        out.push_back({"host", Placement::kCpu, codecs, sharded, memory});
        out.push_back({"host-staged", Placement::kCpu, codecs, sharded, memory});
        out.push_back({"cuda", Placement::kCpu, codecs, sharded, memory});
        if (codecs.decodes == Decodes::kAll) continue;
        out.push_back({"host-staged", Placement::kGpu, codecs, sharded, memory});
        out.push_back({"cuda", Placement::kGpu, codecs, sharded, memory});
      }
    }
  }
  for (const Codecs& codecs : kPrefixes) {
    for (const bool sharded : {false, true}) {
      out.push_back({"host", Placement::kCpu, codecs, sharded, false});
      out.push_back({"host-staged", Placement::kCpu, codecs, sharded, false});
      const std::string_view name = codecs.name;
      if (name != "zstd" && name != "lz4") continue;  // a single codec, which a device decodes
      for (const bool memory : {false, true}) out.push_back({"host-staged", Placement::kGpu, codecs, sharded, memory});
      if (name == "zstd") out.push_back({"cuda", Placement::kGpu, codecs, sharded, false});
    }
    out.push_back({"host", Placement::kCpu, codecs, false, true});
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, ChunkPartTest, ::testing::ValuesIn(support::all_or_every(5, variants())), name_of);

}  // namespace
}  // namespace headrace
