// NestedArray: a one-dimensional uint32 array of raw chunks in nested shards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/raw_array.h"
#include "support/stores_under_test.h"
#include "support/variable_model.h"

namespace headrace::testing {

struct NestedArray {
  std::uint64_t shards = 1;
  std::vector<std::uint64_t> counts = {8, 4};  // units per shard, outermost level first
  std::uint64_t chunk_elements = 4;
  std::uint32_t seed = 1;
  std::vector<bool> index_first = {false, false};  // index at the start of the shard, by level
  bool backwards = false;                          // a shard stores its last unit first
  int missing_every = 0;                           // every n-th chunk is missing; a shard without chunks is missing too

  std::uint64_t unit_elements(std::size_t level) const {  // elements in one unit of a shard of that level
    std::uint64_t all = chunk_elements;
    for (std::size_t i = level + 1; i < counts.size(); ++i) all *= counts[i];
    return all;
  }
  std::uint64_t shard_elements() const { return unit_elements(0) * counts[0]; }
  std::uint64_t elements() const { return shards * shard_elements(); }
  bool missing(std::uint64_t chunk) const {
    return missing_every > 0 && chunk % static_cast<std::uint64_t>(missing_every) == 0;
  }
  std::vector<std::uint32_t> expected() const {
    std::vector<std::uint32_t> out(elements());
    for (std::uint64_t i = 0; i < out.size(); ++i) {
      out[i] = missing(i / chunk_elements) ? kFillValue : element_value(i, seed);
    }
    return out;
  }
  static std::string key(std::uint64_t shard) { return "c/" + std::to_string(shard); }

  std::string metadata() const {
    const std::string bytes = R"({"name":"bytes","configuration":{"endian":"little"}})";
    std::string codecs = bytes;
    for (std::size_t level = counts.size(); level-- > 0;) {
      codecs = R"({"name":"sharding_indexed","configuration":{"chunk_shape":[)" + std::to_string(unit_elements(level)) +
               R"(],"codecs":[)" + codecs + R"(],"index_codecs":[)" + bytes + R"(],"index_location":")" +
               (index_first[level] ? "start" : "end") + R"("}})";
    }
    return R"({"zarr_format":3,"node_type":"array","shape":[)" + std::to_string(elements()) +
           R"(],"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" +
           std::to_string(shard_elements()) + R"(]}},"chunk_key_encoding":{"name":"default"},"fill_value":)" +
           std::to_string(kFillValue) + R"(,"codecs":[)" + codecs + "]}";
  }
  // The shard of `level` whose first element is `first`; empty: it is missing.
  store::Bytes shard(std::size_t level, std::uint64_t first) const {
    const std::uint64_t count = counts[level], unit = unit_elements(level), index_bytes = 16 * count;
    std::vector<std::uint64_t> index(2 * count, ~std::uint64_t{0});
    store::Bytes out;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t number = backwards ? count - 1 - i : i, begin = first + number * unit;
      const store::Bytes inside = level + 1 < counts.size() ? shard(level + 1, begin) : chunk(begin);
      if (inside.empty()) continue;
      index[2 * number] = out.size() + (index_first[level] ? index_bytes : 0);
      index[2 * number + 1] = inside.size();
      out.insert(out.end(), inside.begin(), inside.end());
    }
    if (out.empty()) return out;
    const auto raw = std::as_bytes(std::span(index));
    out.insert(index_first[level] ? out.begin() : out.end(), raw.begin(), raw.end());
    return out;
  }
  Objects objects() const {
    Objects out = {{"zarr.json", to_bytes(metadata())}};
    for (std::uint64_t i = 0; i < shards; ++i) {
      store::Bytes bytes = shard(0, i * shard_elements());
      if (!bytes.empty()) out[key(i)] = std::move(bytes);
    }
    return out;
  }

 private:
  store::Bytes chunk(std::uint64_t first) const {
    if (missing(first / chunk_elements)) return {};
    std::vector<std::uint32_t> values;
    for (std::uint64_t i = 0; i < chunk_elements; ++i) values.push_back(element_value(first + i, seed));
    const auto raw = std::as_bytes(std::span(values));
    return {raw.begin(), raw.end()};
  }
};

}  // namespace headrace::testing
