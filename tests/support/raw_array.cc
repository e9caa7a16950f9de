#include "tests/support/raw_array.h"

namespace headrace::testing {

std::string detail::json_list(const std::vector<std::uint64_t>& values) {
  std::string out = "[";
  for (std::size_t i = 0; i < values.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return out + "]";
}

namespace {

using detail::advance, detail::json_list;

// Elements of the box that starts at `begin`; those outside the array are garbage, as real writers leave them.
std::vector<std::uint32_t> box_values(const RawArray& array, const std::vector<std::uint64_t>& begin,
                                      const std::vector<std::uint64_t>& extent) {
  std::uint64_t count = 1;
  for (auto n : extent) count *= n;
  std::vector<std::uint32_t> out;
  std::vector<std::uint64_t> at(extent.size(), 0);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t linear = 0;
    bool inside = true;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const std::uint64_t position = begin[d] + at[d];
      inside = inside && position < array.shape[d];
      linear = linear * array.shape[d] + position;
    }
    out.push_back(inside ? element_value(linear, array.seed) : 0xDEADBEEF);
    advance(at, extent);
  }
  return out;
}

}  // namespace

Status put_text(store::Store& store, const std::string& key, const std::string& text) {
  return store.put(key, std::as_bytes(std::span(text.data(), text.size())));
}

Status write_raw_array(store::Store& store, const std::string& path, const RawArray& array,
                       std::vector<std::uint32_t>* expected) {
  const std::string prefix = path.empty() ? "" : path + "/";
  const std::size_t rank = array.shape.size();
  if (array.v2) {
    HEADRACE_TRY(put_text(store, prefix + ".zarray",
                          R"({"zarr_format":2,"shape":)" + json_list(array.shape) + R"(,"chunks":)" +
                              json_list(array.chunk) + R"(,"dtype":"<u4","compressor":null,"fill_value":)" +
                              std::to_string(kFillValue) + R"(,"order":"C","filters":null})"));
  } else {
    const std::string bytes = R"({"name":"bytes","configuration":{"endian":"little"}})";
    std::string codecs = "[" + bytes + "]";
    if (!array.inner.empty()) {
      codecs = R"([{"name":"sharding_indexed","configuration":{"chunk_shape":)" + json_list(array.inner) +
               R"(,"codecs":[)" + bytes + R"(],"index_codecs":[)" + bytes + R"(],"index_location":"end"}}])";
    }
    HEADRACE_TRY(
        put_text(store, prefix + "zarr.json",
                 R"({"zarr_format":3,"node_type":"array","shape":)" + json_list(array.shape) +
                     R"(,"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":)" +
                     json_list(array.chunk) +
                     R"(}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_value":)" +
                     std::to_string(kFillValue) + R"(,"codecs":)" + codecs + "}"));
  }
  if (expected != nullptr) {
    expected->clear();
    for (std::uint64_t i = 0; i < array.elements(); ++i) expected->push_back(element_value(i, array.seed));
  }
  const auto erase_box = [&](const std::vector<std::uint64_t>& begin, const std::vector<std::uint64_t>& extent) {
    if (expected == nullptr) return;
    std::vector<std::uint64_t> at(rank, 0);
    do {
      std::uint64_t linear = 0;
      bool inside = true;
      for (std::size_t d = 0; d < rank; ++d) {
        inside = inside && begin[d] + at[d] < array.shape[d];
        linear = linear * array.shape[d] + begin[d] + at[d];
      }
      if (inside) (*expected)[linear] = kFillValue;
    } while (advance(at, extent));
  };
  std::vector<std::uint64_t> grid(rank), at(rank, 0);
  for (std::size_t d = 0; d < rank; ++d) {
    grid[d] = array.chunk[d] == 0 ? 0 : (array.shape[d] + array.chunk[d] - 1) / array.chunk[d];
    if (grid[d] == 0) return {};
  }
  std::uint64_t number = 0;
  do {
    std::string key = array.v2 ? "" : "c";
    std::vector<std::uint64_t> begin(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      begin[d] = at[d] * array.chunk[d];
      if (array.v2)
        key += (d == 0 ? "" : ".") + std::to_string(at[d]);
      else
        key += "/" + std::to_string(at[d]);
    }
    if (array.v2 && rank == 0) key = "0";
    if (array.inner.empty()) {
      if (array.missing(number++)) {
        erase_box(begin, array.chunk);
        continue;
      }
      const auto values = box_values(array, begin, array.chunk);
      HEADRACE_TRY(store.put(prefix + key, std::as_bytes(std::span(values))));
      continue;
    }
    // Stores inner chunks in reverse order and with gaps, which is legal.
    std::vector<std::uint64_t> inner_grid(rank), inner_at(rank, 0);
    std::uint64_t inner_count = 1;
    for (std::size_t d = 0; d < rank; ++d) inner_count *= inner_grid[d] = array.chunk[d] / array.inner[d];
    std::vector<std::uint64_t> index(2 * inner_count, ~std::uint64_t{0});
    std::vector<std::vector<std::uint32_t>> payloads;
    std::uint64_t inner_number = 0;
    do {
      std::vector<std::uint64_t> inner_begin(rank);
      for (std::size_t d = 0; d < rank; ++d) inner_begin[d] = begin[d] + inner_at[d] * array.inner[d];
      if (array.missing(number++)) {
        erase_box(inner_begin, array.inner);
        payloads.emplace_back();
      } else {
        payloads.push_back(box_values(array, inner_begin, array.inner));
      }
      ++inner_number;
    } while (advance(inner_at, inner_grid));
    std::vector<std::byte> shard;
    for (std::uint64_t i = inner_count; i-- > 0;) {
      if (payloads[i].empty()) continue;
      shard.resize(shard.size() + i % 3);
      index[2 * i] = shard.size();
      index[2 * i + 1] = payloads[i].size() * 4;
      const auto bytes = std::as_bytes(std::span(payloads[i]));
      shard.insert(shard.end(), bytes.begin(), bytes.end());
    }
    const auto index_bytes = std::as_bytes(std::span(index));
    shard.insert(shard.end(), index_bytes.begin(), index_bytes.end());
    HEADRACE_TRY(store.put(prefix + key, shard));
  } while (advance(at, grid));
  return {};
}

}  // namespace headrace::testing
