// Shards: the first byte sets the form of the index, the rest is the shard. Whatever it contains, the index is refused
// or all its entries lie inside the shard, and a read gives the bytes at those entries or an error.
#include <headrace/array.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/access.h"
#include "base/crc32c.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/support/raw_array.h"

namespace {

using namespace headrace;

constexpr std::size_t kEntries = 8, kChunkBytes = 4, kMaxShard = 4096;
constexpr std::uint8_t kFill = 0xEE;
constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

// Bits of the first byte.
struct Form {
  explicit Form(std::uint8_t flags)
      : at_end((flags & 1) != 0), big_endian((flags & 2) != 0), checksum((flags & 4) != 0), mend((flags & 8) != 0) {}
  bool at_end, big_endian, checksum;
  bool mend;  // recompute the checksum, so that mutations get past it
  std::size_t index_bytes() const { return 16 * kEntries + (checksum ? 4 : 0); }
  std::string metadata() const {
    std::string codecs = std::string(R"([{"name":"bytes","configuration":{"endian":")") +
                         (big_endian ? "big" : "little") + R"("}})" + (checksum ? R"(,{"name":"crc32c"})" : "") + "]";
    return R"({"zarr_format":3,"node_type":"array","shape":[32],"data_type":"uint8","fill_value":238,
      "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[32]}},"chunk_key_encoding":{"name":"default"},
      "codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[4],"codecs":[{"name":"bytes"}],"index_codecs":)" +
           codecs + R"(,"index_location":")" + (at_end ? "end" : "start") + R"("}}]})";
  }
};

// The elements that a reader must return, computed independently; false: it must refuse.
bool expected_elements(const Form& form, const std::vector<std::byte>& shard, std::array<std::uint8_t, 32>& out) {
  if (shard.size() < form.index_bytes()) return false;
  const std::byte* index = shard.data() + (form.at_end ? shard.size() - form.index_bytes() : 0);
  if (form.checksum) {
    std::uint32_t stored = 0;
    std::memcpy(&stored, index + 16 * kEntries, 4);
    if (base::crc32c(index, 16 * kEntries) != stored) return false;
  }
  bool good = true;
  for (std::size_t i = 0; i < kEntries; ++i) {
    std::uint64_t entry[2];
    std::memcpy(entry, index + 16 * i, 16);
    if (form.big_endian) {
      for (std::uint64_t& word : entry) word = __builtin_bswap64(word);
    }
    const auto [offset, length] = entry;
    if (offset == kEmpty && length == kEmpty) {
      std::memset(&out[kChunkBytes * i], kFill, kChunkBytes);
      continue;
    }
    if (length != kChunkBytes || offset > shard.size() || shard.size() - offset < length) {
      good = false;  // raw chunks have one size
      continue;
    }
    std::memcpy(&out[kChunkBytes * i], shard.data() + offset, kChunkBytes);
  }
  return good;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || size > kMaxShard) return 0;
  const Form form(data[0]);
  std::vector<std::byte> shard(size - 1);
  if (size > 1) std::memcpy(shard.data(), data + 1, size - 1);
  if (form.mend && form.checksum && shard.size() >= form.index_bytes()) {
    std::byte* index = shard.data() + (form.at_end ? shard.size() - form.index_bytes() : 0);
    const std::uint32_t crc = base::crc32c(index, 16 * kEntries);
    std::memcpy(index + 16 * kEntries, &crc, 4);
  }
  static const Context context = [] {
    ContextOptions options;
    options.threads = 1;
    return Context::create(options).value();
  }();
  static const Store store = Store::open(context, "memory://shard").value();
  static const Device device = Device::open("host").value();
  FUZZ_CHECK(testing::put_text(*Access::impl(store), "zarr.json", form.metadata()).ok());
  FUZZ_CHECK(Access::impl(store)->put("c/0", shard).ok());
  const auto array = Array::open(store);
  FUZZ_CHECK(array.ok());

  std::array<std::uint8_t, 32> expected{}, got{};
  const bool good = expected_elements(form, shard, expected);
  const Status status = array->read({}, {got, {32}}, device);
  FUZZ_CHECK(status.ok() == good);
  if (good) {
    FUZZ_CHECK(got == expected);
  } else {
    FUZZ_CHECK(status.code() == Code::kCorrupt || status.code() == Code::kShort);
    FUZZ_CHECK(status.key() == "c/0");
  }
  return 0;
}
