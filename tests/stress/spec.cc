#include "spec.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace headrace::stress {
namespace {

constexpr ElementType kTypes[] = {
    {"uint8", "u1", 1, 1, true},         {"int16", "i2", 2, 2, true}, {"uint32", "u4", 4, 4, true},
    {"float32", "f4", 4, 4, false},      {"int64", "i8", 8, 8, true}, {"float64", "f8", 8, 8, false},
    {"complex128", "c16", 16, 8, false}, {"r24", "V3", 3, 1, false},
};

std::string extension(const std::string& name, const std::string& configuration) {
  return R"({"name":")" + name + R"(","configuration":{)" + configuration + "}}";
}

std::string transpose(const std::vector<std::size_t>& order) {
  return extension("transpose", R"("order":)" + json_list(Shape(order.begin(), order.end())));
}

std::string bytes_codec(bool endian_matters, bool big) {
  if (!endian_matters) return R"({"name":"bytes"})";
  return extension("bytes", std::string(R"("endian":")") + (big ? "big" : "little") + "\"");
}

std::string blosc_configuration(const ArraySpec& spec, bool v3) {
  const char* const names[] = {"noshuffle", "shuffle", "bitshuffle"};
  const int shuffle = spec.codecs.blosc_shuffle;
  return std::string(R"("cname":")") + spec.codecs.blosc_codec + R"(","clevel":3,"shuffle":)" +
         (v3 ? "\"" + std::string(names[shuffle]) + R"(","typesize":)" + std::to_string(spec.type.bytes)
             : std::to_string(shuffle)) +
         R"(,"blocksize":0)";
}

// Codec names of v2 and of v3.
std::string squeeze_codec(const ArraySpec& spec) {
  const bool v3 = spec.format == 3;
  const auto named = [&](const char* v2_name, const char* v3_name, const std::string& configuration) {
    if (v3) return extension(v3_name, configuration);
    return std::string(R"({"id":")") + v2_name + "\"," + configuration + "}";
  };
  switch (spec.codecs.squeeze) {
    case Squeeze::kNone:
      break;
    case Squeeze::kZstd:
      return named("zstd", "zstd", v3 ? R"("level":1,"checksum":false)" : R"("level":1)");
    case Squeeze::kLz4:
      return named("lz4", "numcodecs.lz4", R"("acceleration":1)");
    case Squeeze::kGzip:
      return named("gzip", "gzip", R"("level":1)");
    case Squeeze::kZlib:
      return named("zlib", "numcodecs.zlib", R"("level":1)");
    case Squeeze::kBlosc:
      return named("blosc", "blosc", blosc_configuration(spec, v3));
  }
  return "";
}

std::string v3_codecs(const ArraySpec& spec, std::size_t level) {
  std::string out = "[";
  if (level < spec.levels.size()) {
    const Level& at = spec.levels[level];
    if (!at.order.empty()) out += transpose(at.order) + ",";
    return out +
           extension("sharding_indexed", R"("chunk_shape":)" + json_list(at.inner) + R"(,"codecs":)" +
                                             v3_codecs(spec, level + 1) + R"(,"index_codecs":[)" +
                                             bytes_codec(true, at.index_big) +
                                             (at.index_checked ? R"(,{"name":"crc32c"})" : "") +
                                             R"(],"index_location":")" + (at.at_end ? "end" : "start") + "\"") +
           "]";
  }
  const Codecs& codecs = spec.codecs;
  if (!codecs.order.empty()) out += transpose(codecs.order) + ",";
  out += bytes_codec(spec.type.word > 1, codecs.big_endian);
  if (codecs.shuffle_bytes > 0) {
    out += "," + extension("numcodecs.shuffle", R"("elementsize":)" + std::to_string(codecs.shuffle_bytes));
  }
  if (codecs.squeeze != Squeeze::kNone) out += "," + squeeze_codec(spec);
  if (codecs.checked) out += R"(,{"name":"crc32c"})";
  return out + "]";
}

std::string v2_type(const ArraySpec& spec) {
  return std::string(spec.type.word == 1 ? "|" : spec.codecs.big_endian ? ">" : "<") + spec.type.v2;
}

std::string chunk_grid(const ArraySpec& spec) {
  if (spec.edges.empty()) return extension("regular", R"("chunk_shape":)" + json_list(spec.chunk));
  std::string shapes;
  for (const Shape& axis : spec.edges) shapes += (shapes.empty() ? "" : ",") + json_list(axis);
  return extension("rectilinear", R"("kind":"inline","chunk_shapes":[)" + shapes + "]");
}

std::vector<std::size_t> some_order(Dice& dice, std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  dice.shuffle(order);
  return order;
}

void choose_shape(Dice& dice, const SpecOptions& options, ArraySpec& spec, Shape& leaf, std::size_t levels) {
  const std::size_t rank = dice.one_in(12) ? 0 : dice.between(1, dice.one_in(4) ? 4 : 2);
  std::uint64_t room = dice.one_in(3) ? options.max_elements : dice.between(1, options.max_elements);
  std::uint64_t chunks = options.max_chunks;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const bool last = axis + 1 == rank;
    const std::uint64_t most = std::max<std::uint64_t>(1, last ? room : std::min<std::uint64_t>(room, 24));
    const std::uint64_t extent = dice.one_in(60) ? 0 : dice.one_in(3) ? most : dice.between(1, most);
    // Chunks of about extent / parts; the last one may extend beyond the array.
    const std::uint64_t parts = dice.between(1, std::max<std::uint64_t>(1, std::min(chunks, extent)));
    std::uint64_t unit = std::max<std::uint64_t>(1, (std::max<std::uint64_t>(extent, 1) + parts - 1) / parts);
    unit += dice.one_in(8) ? dice.below(3) : 0;
    spec.shape.push_back(extent);
    leaf.push_back(unit);
    spec.chunk.push_back(unit);
    chunks = std::max<std::uint64_t>(1, chunks / std::max<std::uint64_t>(1, (extent + unit - 1) / unit));
    room = std::max<std::uint64_t>(1, room / std::max<std::uint64_t>(1, extent));
  }
  if (rank == 0) levels = std::min<std::size_t>(levels, 1);
  spec.levels.resize(levels);
}

// Chooses the levels' shapes from the smallest chunk upwards, then permutes them to the axis order of each level.
void choose_levels(Dice& dice, ArraySpec& spec, const Shape& leaf) {
  const std::size_t rank = spec.shape.size();
  std::vector<Shape> by_array(spec.levels.size() + 1, leaf);
  for (std::size_t level = spec.levels.size(); level-- > 0;) {
    for (std::size_t axis = 0; axis < rank; ++axis) {
      by_array[level][axis] = by_array[level + 1][axis] * (dice.one_in(3) ? 1 : dice.between(1, 4));
    }
  }
  spec.chunk = by_array[0];
  std::vector<std::size_t> axis_of(rank);
  std::iota(axis_of.begin(), axis_of.end(), std::size_t{0});
  for (std::size_t i = 0; i < spec.levels.size(); ++i) {
    Level& level = spec.levels[i];
    if (rank > 1 && dice.one_in(4)) {
      level.order = some_order(dice, rank);
      const std::vector<std::size_t> before = axis_of;
      for (std::size_t k = 0; k < rank; ++k) axis_of[k] = before[level.order[k]];
    }
    for (std::size_t k = 0; k < rank; ++k) level.inner.push_back(by_array[i + 1][axis_of[k]]);
    level.at_end = !dice.one_in(3);
    level.index_checked = !dice.one_in(4);
    level.index_big = dice.one_in(8);
  }
}

void choose_codecs(Dice& dice, ArraySpec& spec) {
  Codecs& codecs = spec.codecs;
  const std::size_t rank = spec.shape.size();
  codecs.big_endian = spec.type.word > 1 && dice.one_in(6);
  if (rank > 1 && dice.one_in(4)) {
    codecs.order = some_order(dice, rank);
    if (spec.format == 2) {
      for (std::size_t i = 0; i < rank; ++i) codecs.order[i] = rank - 1 - i;
    }
  }
  codecs.squeeze = dice.pick({Squeeze::kNone, Squeeze::kNone, Squeeze::kNone, Squeeze::kZstd, Squeeze::kZstd,
                              Squeeze::kLz4, Squeeze::kGzip, Squeeze::kZlib, Squeeze::kBlosc, Squeeze::kBlosc});
  codecs.blosc_codec = dice.pick({"lz4", "zstd", "zlib", "blosclz", "lz4hc"});
  codecs.blosc_shuffle = static_cast<int>(dice.below(3));
  if (dice.one_in(5)) codecs.shuffle_bytes = spec.type.bytes;
  codecs.delta = spec.format == 2 && spec.type.integer && !codecs.big_endian && dice.one_in(5);
  codecs.checked = spec.format == 3 && dice.one_in(4);
}

}  // namespace

std::string json_list(const Shape& values) {
  std::string out = "[";
  for (std::size_t i = 0; i < values.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return out + "]";
}

void set_fill(ArraySpec& spec, unsigned value) {
  const std::string name = spec.type.v3;
  spec.fill.assign(spec.type.bytes, std::byte{0});
  if (name == "r24" || name == "complex128") {
    spec.fill_text = spec.format == 2 ? "null" : name == "r24" ? "[0,0,0]" : "[0.0,0.0]";
    return;
  }
  value &= 0x7F;
  spec.fill_text = std::to_string(value);
  const float single = static_cast<float>(value);
  const double wide = value;
  if (name == "float32") {
    std::memcpy(spec.fill.data(), &single, sizeof single);
  } else if (name == "float64") {
    std::memcpy(spec.fill.data(), &wide, sizeof wide);
  } else {
    spec.fill[0] = static_cast<std::byte>(value);
  }
}

Shape ArraySpec::grid() const {
  Shape out(shape.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = edges.empty() ? (shape[i] + chunk[i] - 1) / chunk[i] : edges[i].size();
  }
  return out;
}

Shape ArraySpec::chunk_begin(const Shape& at) const {
  Shape out(at.size(), 0);
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (edges.empty()) out[i] = at[i] * chunk[i];
    for (std::uint64_t k = 0; !edges.empty() && k < at[i]; ++k) out[i] += edges[i][static_cast<std::size_t>(k)];
  }
  return out;
}

Shape ArraySpec::chunk_extent(const Shape& at) const {
  if (edges.empty()) return chunk;
  Shape out(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) out[i] = edges[i][static_cast<std::size_t>(at[i])];
  return out;
}

std::string ArraySpec::chunk_key(const Shape& at) const {
  const char between = slash ? '/' : '.';
  const bool prefixed = format == 3 && !plain_keys;
  std::string out = prefixed ? "c" : "";
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (prefixed || i > 0) out += between;
    out += std::to_string(at[i]);
  }
  return out.empty() ? "0" : out;
}

std::string ArraySpec::document() const {
  const std::string separator = slash ? "/" : ".";
  if (format == 2) {
    std::string filters;
    if (codecs.delta) filters = R"({"id":"delta","dtype":")" + v2_type(*this) + R"("})";
    if (codecs.shuffle_bytes > 0) {
      filters += std::string(filters.empty() ? "" : ",") + R"({"id":"shuffle","elementsize":)" +
                 std::to_string(codecs.shuffle_bytes) + "}";
    }
    return R"({"zarr_format":2,"shape":)" + json_list(shape) + R"(,"chunks":)" + json_list(chunk) + R"(,"dtype":")" +
           v2_type(*this) + R"(","order":")" + (codecs.order.empty() ? "C" : "F") + R"(","fill_value":)" + fill_text +
           R"(,"filters":)" + (filters.empty() ? "null" : "[" + filters + "]") + R"(,"compressor":)" +
           (codecs.squeeze == Squeeze::kNone ? "null" : squeeze_codec(*this)) + R"(,"dimension_separator":")" +
           separator + "\"}";
  }
  return R"({"zarr_format":3,"node_type":"array","shape":)" + json_list(shape) + R"(,"data_type":")" + type.v3 +
         R"(","chunk_grid":)" + chunk_grid(*this) + R"(,"chunk_key_encoding":)" +
         extension(plain_keys ? "v2" : "default", R"("separator":")" + separator + "\"") + R"(,"fill_value":)" +
         fill_text + R"(,"codecs":)" + v3_codecs(*this, 0) + "}";
}

namespace {

ArraySpec draw_spec(Dice& dice, const SpecOptions& options) {
  ArraySpec spec;
  spec.format = options.sharded_only || !dice.one_in(3) ? 3 : 2;
  spec.type = kTypes[dice.below(std::size(kTypes))];
  const bool sharded = options.sharded_only || (spec.format == 3 && dice.one_in(2));
  Shape leaf;
  choose_shape(dice, options, spec, leaf, sharded ? (dice.one_in(4) ? 2 : 1) : 0);
  choose_levels(dice, spec, leaf);
  if (spec.format == 3 && !sharded && !spec.shape.empty() && product(spec.shape) > 0 && dice.one_in(6)) {
    for (std::size_t i = 0; i < spec.shape.size(); ++i) {
      Shape& axis = spec.edges.emplace_back();
      for (std::uint64_t done = 0; done < spec.shape[i]; done += axis.back()) {
        axis.push_back(std::min(spec.shape[i] - done, dice.between(1, 2 * leaf[i])));
      }
    }
  }
  choose_codecs(dice, spec);
  if (options.raw_one_in > 0 && dice.one_in(options.raw_one_in)) spec.codecs = {};
  spec.slash = spec.format == 3 ? !dice.one_in(4) : dice.one_in(3);
  spec.plain_keys = spec.format == 3 && dice.one_in(6);
  set_fill(spec, static_cast<unsigned>(dice.below(100)));
  return spec;
}

}  // namespace

ArraySpec make_spec(Dice& dice, const SpecOptions& options) {
  ArraySpec spec = draw_spec(dice, options);
  while (spec.elements() < options.min_elements) spec = draw_spec(dice, options);
  return spec;
}

}  // namespace headrace::stress
