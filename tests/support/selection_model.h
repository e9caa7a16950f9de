// A model of arrays of any layout: plain, sharded, nested shards, with axes transposed before each level. It writes
// them byte by byte and knows every element. It also models selections.
#pragma once

#include <headrace/array.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "store/store.h"
#include "support/raw_array.h"

namespace headrace::testing {

using ModelShape = std::vector<std::uint64_t>;
using ModelBytes = std::vector<std::byte>;

inline std::uint32_t crc32c(const ModelBytes& bytes) {
  std::uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

template <class Word>
void append(ModelBytes& bytes, Word word) {
  const auto* const from = reinterpret_cast<const std::byte*>(&word);
  bytes.insert(bytes.end(), from, from + sizeof word);
}

struct Level {
  std::vector<std::size_t> order;  // of a preceding transpose; empty: none
  ModelShape inner;                // in the order of axes after the transpose
  bool at_end = true;
};

// An array of uint32, encoded level by level.
struct Model {
  ModelShape shape, chunk;
  std::vector<Level> levels;
  std::vector<std::size_t> leaf_order;
  bool checked = false;  // chunks are encoded with crc32c, so they are not raw
  unsigned missing = 0;  // one of so many units of each level is missing; 0: none
  std::uint32_t seed = 1;

  std::vector<std::uint32_t> values;  // C order, as a reader must find them
  std::set<ModelShape> chunks;        // first elements of the stored chunks of the lowest level
  ModelShape unit;                    // shape of such a chunk, in the array's axis order
  std::uint64_t chunk_bytes = 0;      // stored size of such a chunk

  static std::string transpose(const std::vector<std::size_t>& order) {
    return order.empty() ? ""
                         : R"({"name":"transpose","configuration":{"order":)" +
                               detail::json_list(ModelShape(order.begin(), order.end())) + "}},";
  }
  std::string codecs(std::size_t level) const {
    const std::string bytes = R"({"name":"bytes","configuration":{"endian":"little"}})";
    if (level == levels.size()) {
      return "[" + transpose(leaf_order) + bytes + (checked ? R"(,{"name":"crc32c"})" : "") + "]";
    }
    const Level& at = levels[level];
    return "[" + transpose(at.order) + R"({"name":"sharding_indexed","configuration":{"chunk_shape":)" +
           detail::json_list(at.inner) + R"(,"codecs":)" + codecs(level + 1) + R"(,"index_codecs":[)" + bytes +
           R"(,{"name":"crc32c"}],"index_location":")" + (at.at_end ? "end" : "start") + R"("}}])";
  }

  std::uint64_t linear(const ModelShape& at) const {
    std::uint64_t out = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) out = out * shape[d] + at[d];
    return out;
  }
  bool absent(const ModelShape& begin, std::size_t level) const {
    std::uint64_t hash = seed + level;
    for (const std::uint64_t b : begin) hash = (hash ^ b) * 0x9E3779B97F4A7C15ull;
    return missing > 0 && (hash >> 33) % missing == 0;
  }
  void erase(const ModelShape& begin, const ModelShape& extent) {
    ModelShape at(extent.size(), 0);
    do {
      ModelShape place = begin;
      bool inside = true;
      for (std::size_t d = 0; d < at.size(); ++d) inside = (place[d] += at[d]) < shape[d] && inside;
      if (inside) values[linear(place)] = kFillValue;
    } while (detail::advance(at, extent));
  }
  static ModelShape by_array(const ModelShape& extent, const std::vector<std::size_t>& axis_of) {
    ModelShape out(extent.size());
    for (std::size_t i = 0; i < extent.size(); ++i) out[axis_of[i]] = extent[i];
    return out;
  }
  static void permute(const std::vector<std::size_t>& order, ModelShape& extent, std::vector<std::size_t>& axis_of) {
    if (order.empty()) return;
    const ModelShape old = extent;
    const std::vector<std::size_t> old_axes = axis_of;
    for (std::size_t i = 0; i < order.size(); ++i) extent[i] = old[order[i]], axis_of[i] = old_axes[order[i]];
  }

  // Encodes the box at `begin` of the array. Its axis i is axis_of[i] of the array, and `extent` is its shape.
  ModelBytes encode(std::size_t level, ModelShape extent, std::vector<std::size_t> axis_of, const ModelShape& begin) {
    ModelBytes out;
    if (level == levels.size()) {
      permute(leaf_order, extent, axis_of);
      ModelShape at(extent.size(), 0);
      do {
        ModelShape place = begin;
        bool inside = true;
        for (std::size_t i = 0; i < at.size(); ++i) inside = (place[axis_of[i]] += at[i]) < shape[axis_of[i]] && inside;
        append(out, inside ? element_value(linear(place), seed) : 0xDEADBEEFu);
      } while (detail::advance(at, extent));
      if (checked) append(out, crc32c(out));
      unit = by_array(extent, axis_of);
      chunk_bytes = out.size();
      chunks.insert(begin);
      return out;
    }
    const Level& here = levels[level];
    permute(here.order, extent, axis_of);
    ModelShape grid(extent.size()), at(extent.size(), 0);
    std::uint64_t count = 1;
    for (std::size_t i = 0; i < grid.size(); ++i) count *= grid[i] = extent[i] / here.inner[i];
    std::vector<ModelBytes> payloads;
    do {
      ModelShape inner = begin;
      bool inside = true;
      for (std::size_t i = 0; i < at.size(); ++i) {
        inner[axis_of[i]] += at[i] * here.inner[i];
        inside = inside && inner[axis_of[i]] < shape[axis_of[i]];
      }
      if (!inside || absent(inner, level + 1)) {
        if (inside) erase(inner, by_array(here.inner, axis_of));
        payloads.emplace_back();
      } else {
        payloads.push_back(encode(level + 1, here.inner, axis_of, inner));
      }
    } while (detail::advance(at, grid));
    // Stores the last chunk first, with gaps.
    std::vector<std::uint64_t> index(2 * count, ~std::uint64_t{0});
    if (!here.at_end) out.resize(16 * count + 4);
    for (std::size_t i = payloads.size(); i-- > 0;) {
      if (payloads[i].empty()) continue;
      out.resize(out.size() + i % 3);
      index[2 * i] = out.size();
      index[2 * i + 1] = payloads[i].size();
      out.insert(out.end(), payloads[i].begin(), payloads[i].end());
    }
    ModelBytes encoded;
    for (const std::uint64_t word : index) append(encoded, word);
    append(encoded, crc32c(encoded));
    if (here.at_end) {
      out.insert(out.end(), encoded.begin(), encoded.end());
    } else {
      std::copy(encoded.begin(), encoded.end(), out.begin());
    }
    return out;
  }

  Status write(store::Store& store, const std::string& path) {
    using detail::json_list;
    std::uint64_t elements = 1;
    for (const std::uint64_t extent : shape) elements *= extent;
    for (std::uint64_t i = 0; i < elements; ++i) values.push_back(element_value(i, seed));
    HEADRACE_TRY(
        put_text(store, path + "/zarr.json",
                 R"({"zarr_format":3,"node_type":"array","shape":)" + json_list(shape) +
                     R"(,"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":)" +
                     json_list(chunk) + R"(}},"chunk_key_encoding":{"name":"default"},"fill_value":)" +
                     std::to_string(kFillValue) + R"(,"codecs":)" + codecs(0) + "}"));
    ModelShape grid(shape.size()), at(shape.size(), 0);
    for (std::size_t d = 0; d < grid.size(); ++d) grid[d] = (shape[d] + chunk[d] - 1) / chunk[d];
    if (std::count(grid.begin(), grid.end(), 0u) > 0) return {};
    std::vector<std::size_t> axes(shape.size());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    do {
      std::string key = path + "/c";
      ModelShape begin(grid.size());
      for (std::size_t d = 0; d < grid.size(); ++d) begin[d] = at[d] * chunk[d], key += "/" + std::to_string(at[d]);
      if (absent(begin, 0)) {
        erase(begin, chunk);
        continue;
      }
      const ModelBytes bytes = encode(0, chunk, axes, begin);
      HEADRACE_TRY(store.put(key, bytes));
    } while (detail::advance(at, grid));
    return {};
  }
};

// The elements that a selection takes.
struct Meaning {
  bool points = false;
  std::vector<ModelShape> lists;  // by axis
  std::vector<bool> dropped;

  ModelShape result_shape() const {
    if (points) return {lists[0].size()};
    ModelShape out;
    for (std::size_t d = 0; d < lists.size(); ++d) {
      if (!dropped[d]) out.push_back(lists[d].size());
    }
    return out;
  }
  // Calls visit(position in the array) in the result's C order.
  template <class Visit>
  void each(Visit visit) const {
    if (points) {
      for (std::size_t i = 0; i < lists[0].size(); ++i) {
        ModelShape at;
        for (const ModelShape& list : lists) at.push_back(list[i]);
        visit(at);
      }
      return;
    }
    ModelShape counts, at(lists.size(), 0);
    for (const ModelShape& list : lists) counts.push_back(list.size());
    if (std::count(counts.begin(), counts.end(), 0u) > 0) return;
    do {
      ModelShape place;
      for (std::size_t d = 0; d < lists.size(); ++d) place.push_back(lists[d][at[d]]);
      visit(place);
    } while (detail::advance(at, counts));
  }
};

}  // namespace headrace::testing
