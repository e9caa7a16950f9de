// Helpers shared by tests of string arrays: plain encoders of the formats, and a model of selections.
#pragma once

#include <gtest/gtest.h>
#include <headrace/array.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "codec/encoder.h"
#include "store/store.h"

namespace headrace::testing {

using Strings = std::vector<std::string>;
using Shape = std::vector<std::uint64_t>;

inline store::Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

inline void append_number(std::string& out, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(number >> (8 * i) & 0xFF);
}

inline std::uint64_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

// Moves `index` to the next position in C order; false after the last, or if there is none.
inline bool next_index(Shape& index, const Shape& shape) {
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (++index[i] < shape[i]) return true;
    index[i] = 0;
  }
  return false;
}

inline std::uint64_t flat(const Shape& index, const Shape& shape) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) out = out * shape[i] + index[i];
  return out;
}

// vlen-utf8 and vlen-bytes.
inline std::string encode_vlen(const Strings& elements) {
  std::string out;
  append_number(out, elements.size(), 4);
  for (const std::string& element : elements) {
    append_number(out, element.size(), 4);
    out += element;
  }
  return out;
}

inline std::string encode_by(const base::Json& codec, const std::string& plain, int format) {
  codec::CodecArgs context;
  context.zarr_format = format;
  base::Json config = base::Json::object();
  std::string name;
  if (format == 3) {
    name = codec.at("name");
    if (codec.contains("configuration")) config = codec.at("configuration");
  } else {
    name = codec.at("id");
    config = codec;
    config.erase("id");
  }
  const auto made = codec::make_codec(name, config, context);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  const auto encoder = made->coder()->make_encoder();
  EXPECT_TRUE(encoder.ok()) << encoder.status().to_string();
  std::string out((*encoder)->bound_bytes(plain.size()), '\0');
  const auto bytes = (*encoder)->encode(std::as_bytes(std::span(plain)), std::as_writable_bytes(std::span(out)));
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  out.resize(*bytes);
  return out;
}

// One chunk of a v3 array, encoded by its `codecs`; nothing if every element is `fill`.
inline std::optional<std::string> encode_chunk(const base::Json& codecs, Shape shape, Strings elements,
                                               const std::string& fill) {
  bool missing = true;
  for (const std::string& element : elements) missing = missing && element == fill;
  if (missing) return std::nullopt;
  std::string out;
  for (const base::Json& codec : codecs) {
    const std::string name = codec.at("name");
    if (name == "transpose") {
      const auto order = codec.at("configuration").at("order").get<std::vector<std::size_t>>();
      Shape moved;
      for (const std::size_t axis : order) moved.push_back(shape[axis]);
      Strings reordered(elements.size());
      Shape at(shape.size(), 0);
      do {
        Shape to;
        for (const std::size_t axis : order) to.push_back(at[axis]);
        reordered[flat(to, moved)] = elements[flat(at, shape)];
      } while (next_index(at, shape));
      shape = moved;
      elements = std::move(reordered);
    } else if (name == "vlen-utf8" || name == "vlen-bytes") {
      out = encode_vlen(elements);
    } else if (name == "sharding_indexed") {
      const base::Json& config = codec.at("configuration");
      const auto inner = config.at("chunk_shape").get<Shape>();
      const bool at_start = config.value("index_location", std::string("end")) == "start";
      Shape grid;
      for (std::size_t i = 0; i < shape.size(); ++i) grid.push_back(shape[i] / inner[i]);
      const std::uint64_t index_bytes = 16 * product(grid) + 4;
      std::string index, payload;
      Shape position(shape.size(), 0);
      do {
        Strings part;
        Shape at(shape.size(), 0);
        do {
          Shape from;
          for (std::size_t i = 0; i < shape.size(); ++i) from.push_back(position[i] * inner[i] + at[i]);
          part.push_back(elements[flat(from, shape)]);
        } while (next_index(at, inner));
        const auto encoded = encode_chunk(config.at("codecs"), inner, std::move(part), fill);
        append_number(index, encoded ? payload.size() + (at_start ? index_bytes : 0) : ~std::uint64_t{0}, 8);
        append_number(index, encoded ? encoded->size() : ~std::uint64_t{0}, 8);
        if (encoded) payload += *encoded;
      } while (next_index(position, grid));
      index = encode_by({{"name", "crc32c"}}, index, 3);
      out = at_start ? index + payload : payload + index;
    } else {
      out = encode_by(codec, out, 3);
    }
  }
  return out;
}

// Stores the chunks of an array with these elements, as its v3 or v2 document says.
inline void store_chunks(store::Store& store, const base::Json& document, const Strings& elements,
                         const std::string& fill) {
  const bool v3 = document.at("zarr_format") == 3;
  const auto shape = document.at("shape").get<Shape>();
  const auto chunk = v3 ? document.at("chunk_grid").at("configuration").at("chunk_shape").get<Shape>()
                        : document.at("chunks").get<Shape>();
  Shape grid;
  for (std::size_t i = 0; i < shape.size(); ++i) grid.push_back((shape[i] + chunk[i] - 1) / chunk[i]);
  if (product(shape) == 0) return;
  Shape position(shape.size(), 0);
  do {
    Strings part;
    Shape at(shape.size(), 0);
    do {
      Shape from;
      bool inside = true;
      for (std::size_t i = 0; i < shape.size(); ++i) {
        from.push_back(position[i] * chunk[i] + at[i]);
        inside = inside && from[i] < shape[i];
      }
      part.push_back(inside ? elements[flat(from, shape)] : fill);
    } while (next_index(at, chunk));
    std::string key = v3 ? "c" : "";
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (v3) key += "/";
      if (!v3 && i > 0) key += ".";
      key += std::to_string(position[i]);
    }
    if (!v3 && shape.empty()) key = "0";
    std::optional<std::string> encoded;
    if (v3) {
      encoded = encode_chunk(document.at("codecs"), chunk, part, fill);
    } else {
      // Order F is C order of the axes reversed.
      base::Json codecs = base::Json::array();
      if (document.at("order") == "F") {
        base::Json order = base::Json::array();
        for (std::size_t i = chunk.size(); i-- > 0;) order.push_back(i);
        codecs.push_back({{"name", "transpose"}, {"configuration", {{"order", order}}}});
      }
      codecs.push_back({{"name", document.at("filters").at(0).at("id")}});
      encoded = encode_chunk(codecs, chunk, part, fill);
      if (encoded && !document.at("compressor").is_null()) encoded = encode_by(document.at("compressor"), *encoded, 2);
    }
    if (encoded) {
      ASSERT_TRUE(store.put(key, to_bytes(*encoded)).ok());
    }
  } while (next_index(position, grid));
}

// Selected elements in C order.
inline Strings select(const Strings& elements, const Shape& shape, const ResolvedSelection& selection) {
  Strings out;
  Shape counts;
  for (const auto& dim : selection.dims) counts.push_back(dim.count);
  if (product(counts) == 0) return out;
  Shape at(shape.size(), 0);
  do {
    Shape from;
    for (std::size_t i = 0; i < shape.size(); ++i)
      from.push_back(selection.dims[i].start + at[i] * selection.dims[i].step);
    out.push_back(elements[flat(from, shape)]);
  } while (next_index(at, counts));
  return out;
}

inline Strings elements_of(const VariableResult& result) {
  Strings out;
  for (std::uint64_t i = 0; i < result.size(); ++i) out.emplace_back(result[i]);
  return out;
}

// A v3 document of strings; `codecs` replaces [vlen-utf8].
inline base::Json v3_strings(const Shape& shape, const Shape& chunk, const base::Json& codecs = nullptr,
                             const std::string& fill = "") {
  return {{"zarr_format", 3},
          {"node_type", "array"},
          {"shape", shape},
          {"data_type", "string"},
          {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", chunk}}}}},
          {"chunk_key_encoding", {{"name", "default"}}},
          {"fill_value", fill},
          {"codecs", codecs.is_null() ? base::Json::array({{{"name", "vlen-utf8"}}}) : codecs}};
}

inline base::Json v2_strings(const Shape& shape, const Shape& chunk, const std::string& order = "C",
                             const base::Json& compressor = nullptr) {
  return {{"zarr_format", 2},
          {"shape", shape},
          {"chunks", chunk},
          {"dtype", "|O"},
          {"order", order},
          {"compressor", compressor},
          {"filters", base::Json::array({{{"id", "vlen-utf8"}}})},
          {"fill_value", ""}};
}

}  // namespace headrace::testing
