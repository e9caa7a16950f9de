#include "tests/support/flat_array.h"

#include <array>
#include <memory>
#include <mutex>

#include "tests/support/sanitizer.h"

namespace headrace::testing {

std::string FlatArray::metadata() const {
  const std::string shape = std::to_string(elements()), chunk = std::to_string(chunk_elements);
  if (!sharded()) {
    std::string compressor = "null";
    if (layout == Layout::kZstd) compressor = R"({"id":"zstd","level":1})";
    if (layout == Layout::kBz2) compressor = R"({"id":"bz2","level":1})";
    if (layout == Layout::kBlosc) compressor = R"({"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":0})";
    return R"({"zarr_format":2,"shape":[)" + shape + R"(],"chunks":[)" + chunk + R"(],"dtype":"<u4","compressor":)" +
           compressor + R"(,"fill_value":)" + std::to_string(kFillValue) + R"(,"order":"C","filters":null})";
  }
  const std::string bytes = R"({"name":"bytes","configuration":{"endian":"little"}})";
  std::string inner = bytes;
  if (layout == Layout::kShardedZstd) inner += R"(,{"name":"zstd","configuration":{"level":1,"checksum":false}})";
  return R"({"zarr_format":3,"node_type":"array","shape":[)" + shape +
         R"(],"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" +
         std::to_string(chunk_elements * shard_chunks) +
         R"(]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_value":)" +
         std::to_string(kFillValue) + R"(,"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[)" +
         chunk + R"(],"codecs":[)" + inner + R"(],"index_codecs":[)" + bytes + R"(],"index_location":"end"}}]})";
}

HEADRACE_TEST_OWN_BYTES static void fill(std::uint32_t* to, std::uint64_t first, std::uint64_t count,
                                         std::uint32_t seed) {
  for (std::uint64_t i = 0; i < count; ++i) to[i] = element_value(first + i, seed);
}

namespace {

// The first elements of the array of a seed. Tests ask for them repeatedly, so they are kept and copied into a vector
// in one step. ThreadSanitizer would track every element of a vector that is first filled with zeros.
struct KnownElements {
  std::uint32_t seed = 0;
  std::uint64_t count = 0;
  std::unique_ptr<std::uint32_t[]> all;
};
constexpr std::uint64_t kMaxKnown = std::uint64_t{1} << 22;

const KnownElements& known_elements(std::uint32_t seed, std::uint64_t count) {
  static std::array<KnownElements, 4> seeds;
  static std::size_t oldest = 0;
  auto found = std::ranges::find_if(seeds, [&](const KnownElements& of) { return of.count > 0 && of.seed == seed; });
  if (found == seeds.end()) found = seeds.begin() + static_cast<std::ptrdiff_t>(oldest++ % seeds.size());
  if (found->count == 0 || found->seed != seed || found->count < count) {
    const std::uint64_t before = found->seed == seed ? found->count : 0;
    found->seed = seed;
    found->count = std::min(kMaxKnown, std::max(count, 2 * before));
    found->all = std::make_unique_for_overwrite<std::uint32_t[]>(found->count);
    fill(found->all.get(), 0, found->count, seed);
  }
  return *found;
}

}  // namespace

std::vector<std::uint32_t> FlatArray::values(std::uint64_t first, std::uint64_t count) const {
  if (first + count <= kMaxKnown) {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    const std::uint32_t* const from = known_elements(seed, first + count).all.get() + first;
    return {from, from + count};
  }
  std::vector<std::uint32_t> out(count);
  fill(out.data(), first, count, seed);
  return out;
}

store::Bytes FlatArray::encoded(std::uint64_t number) const {
  const std::vector<std::uint32_t> values = this->values(number * chunk_elements, chunk_elements);
  const std::size_t bytes = values.size() * 4;
  store::Bytes out;
  if (layout == Layout::kZstd || layout == Layout::kShardedZstd) {
    out.resize(ZSTD_compressBound(bytes));
    out.resize(ZSTD_compress(out.data(), out.size(), values.data(), bytes, 1));
  } else if (layout == Layout::kBz2) {
    out.resize(bytes + bytes / 100 + 600);
    auto n = static_cast<unsigned>(out.size());
    BZ2_bzBuffToBuffCompress(reinterpret_cast<char*>(out.data()), &n,
                             const_cast<char*>(reinterpret_cast<const char*>(values.data())),
                             static_cast<unsigned>(bytes), 1, 0, 0);
    out.resize(n);
  } else if (layout == Layout::kBlosc) {
    out.resize(bytes + BLOSC_MAX_OVERHEAD);
    const int n = blosc_compress_ctx(5, 1, 4, bytes, values.data(), out.data(), out.size(), "lz4", 0, 1);
    out.resize(static_cast<std::size_t>(std::max(n, 0)));
  } else {
    out.resize(bytes);
    std::memcpy(out.data(), values.data(), bytes);
  }
  return out;
}

store::Bytes flat_shard(const FlatArray& array, std::uint64_t shard) {
  store::Bytes out;
  std::vector<std::uint64_t> index(2 * array.shard_chunks, ~std::uint64_t{0});
  for (std::uint64_t i = 0; i < array.shard_chunks; ++i) {
    const std::uint64_t number = shard * array.shard_chunks + i;
    if (number >= array.chunks) break;
    const store::Bytes chunk = array.encoded(number);
    index[2 * i] = out.size();
    index[2 * i + 1] = chunk.size();
    out.insert(out.end(), chunk.begin(), chunk.end());
  }
  const auto raw = std::as_bytes(std::span(index));
  out.insert(out.end(), raw.begin(), raw.end());
  return out;
}

Status write_flat_array(store::Store& store, const std::string& path, const FlatArray& array) {
  const std::string prefix = path.empty() ? "" : path + "/";
  HEADRACE_TRY(put_text(store, prefix + array.metadata_key(), array.metadata()));
  const std::uint64_t unit = array.sharded() ? array.shard_chunks : 1;
  for (std::uint64_t at = 0; at < array.chunks; at += unit) {
    HEADRACE_TRY(store.put(prefix + array.key(at), array.sharded() ? flat_shard(array, at / unit) : array.encoded(at)));
  }
  return {};
}

}  // namespace headrace::testing
