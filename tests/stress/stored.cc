#include "stored.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace headrace::stress {
namespace {

std::vector<std::size_t> all_axes(std::size_t rank) {
  std::vector<std::size_t> axes(rank);
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  return axes;
}

std::vector<std::size_t> moved(const std::vector<std::size_t>& axis_of, const std::vector<std::size_t>& order) {
  if (order.empty()) return axis_of;
  std::vector<std::size_t> out(axis_of.size());
  for (std::size_t i = 0; i < order.size(); ++i) out[i] = axis_of[order[i]];
  return out;
}

Shape divided(const Shape& extent, const Shape& inner) {
  Shape out(extent.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (extent[i] + inner[i] - 1) / inner[i];
  return out;
}

// A box of chunk elements: where it begins in the array, and which array axes its own axes are.
struct Box {
  Shape begin, extent;
  std::vector<std::size_t> axis_of;

  Box inner(const Shape& at, const Shape& inner_extent) const {
    Box out{begin, inner_extent, axis_of};
    for (std::size_t i = 0; i < at.size(); ++i) out.begin[axis_of[i]] += at[i] * inner_extent[i];
    return out;
  }
  bool outside(const Shape& shape) const {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (begin[i] >= shape[i]) return true;
    }
    return false;
  }
  // Calls visit(element of the box, element of the array) for elements inside the array.
  template <class Visit>
  void each(const Shape& shape, Visit visit) const {
    if (product(extent) == 0) return;
    Shape at(extent.size(), 0), place(extent.size());
    std::uint64_t number = 0;
    do {
      bool within = true;
      for (std::size_t i = 0; i < at.size(); ++i) {
        place[axis_of[i]] = begin[axis_of[i]] + at[i];
        within = within && place[axis_of[i]] < shape[axis_of[i]];
      }
      if (within) visit(number, linear(place, shape));
      ++number;
    } while (advance(at, extent));
  }
};

class Writer {
 public:
  Writer(const ArraySpec& spec, ChunkCode& code, const WriteOptions& options)
      : spec_(spec), code_(code), options_(options), dice_(options.layout_seed, 0x1a7) {}

  Stored write() {
    const Shape grid = spec_.grid();
    if (product(grid) == 0) return {};
    Shape at(grid.size(), 0);
    do {
      if (left_out()) continue;
      Box box{spec_.chunk_begin(at), spec_.chunk_extent(at), all_axes(at.size())};
      const std::string key = spec_.chunk_key(at);
      const std::size_t first = out_.sites.size();
      out_.objects[key].bytes = encode(0, std::move(box));
      for (std::size_t i = first; i < out_.sites.size(); ++i) out_.sites[i].key = key;
    } while (advance(at, grid));
    return std::move(out_);
  }

 private:
  bool left_out() { return options_.missing_one_in > 0 && dice_.one_in(options_.missing_one_in); }

  Bytes values(const Box& box) const {
    const std::size_t item = spec_.type.bytes;
    Bytes out(static_cast<std::size_t>(product(box.extent)) * item, std::byte{0xEE});
    box.each(spec_.shape, [&](std::uint64_t from, std::uint64_t element) {
      // Every element is different, with bytes that compress somewhat.
      const std::uint64_t word = test::mix(options_.values_seed * 0x9E3779B97F4A7C15ull + element);
      const std::uint64_t more[2] = {word & 0xFFFFFFFF00FFFFFFull, word >> 17};
      std::memcpy(&out[static_cast<std::size_t>(from) * item], more, item);
    });
    return out;
  }

  // The offsets of the sites that it adds are relative to the returned bytes.
  Bytes encode(std::size_t level, Box box) {
    if (level == spec_.levels.size()) {
      Bytes out = code_.encode(values(box), box.extent);
      out_.sites.push_back({"", false, 0, out.size(), 0, 0, level});
      return out;
    }
    const Level& here = spec_.levels[level];
    box.extent = transposed(box.extent, here.order);
    box.axis_of = moved(box.axis_of, here.order);
    const Shape grid = divided(box.extent, here.inner);
    std::vector<std::pair<std::size_t, Box>> inner;
    Shape at(grid.size(), 0);
    std::size_t count = 0;
    do {
      Box one = box.inner(at, here.inner);
      if (!one.outside(spec_.shape) && !left_out()) inner.emplace_back(count, std::move(one));
      ++count;
    } while (advance(at, grid));
    if (!dice_.one_in(3)) dice_.shuffle(inner);
    const std::size_t index_bytes = ChunkCode::index_bytes(count, here);
    std::vector<std::uint64_t> index(2 * count, kEmpty);
    Bytes out(here.at_end ? 0 : index_bytes);
    for (auto& [number, one] : inner) {
      if (options_.gaps && dice_.one_in(4)) out.resize(out.size() + dice_.below(9), std::byte{0x77});
      const std::size_t first = out_.sites.size();
      const Bytes part = encode(level + 1, std::move(one));
      for (std::size_t i = first; i < out_.sites.size(); ++i) {
        out_.sites[i].at += out.size();
        out_.sites[i].base += out.size();
      }
      index[2 * number] = out.size();
      index[2 * number + 1] = part.size();
      out.insert(out.end(), part.begin(), part.end());
    }
    const Bytes encoded = ChunkCode::encode_index(index, here);
    const std::size_t place = here.at_end ? out.size() : 0;
    if (here.at_end) {
      out.insert(out.end(), encoded.begin(), encoded.end());
    } else {
      std::copy(encoded.begin(), encoded.end(), out.begin());
    }
    out_.sites.push_back({"", true, place, encoded.size(), 0, out.size(), level});
    return out;
  }

  const ArraySpec& spec_;
  ChunkCode& code_;
  const WriteOptions options_;
  Dice dice_;
  Stored out_;
};

class Reader {
 public:
  Reader(const ArraySpec& spec, const ChunkCode& code, const std::map<std::string, Object>& objects)
      : spec_(spec), code_(code), objects_(objects) {}

  Meaning read() {
    out_.shape = spec_.shape;
    out_.item_bytes = spec_.type.bytes;
    const std::uint64_t count = product(spec_.shape);
    out_.elements.resize(static_cast<std::size_t>(count) * out_.item_bytes);
    out_.unit.resize(static_cast<std::size_t>(count));
    const Shape grid = spec_.grid();
    if (product(grid) == 0) return std::move(out_);
    Shape at(grid.size(), 0);
    do {
      Box box{spec_.chunk_begin(at), spec_.chunk_extent(at), all_axes(at.size())};
      key_ = spec_.chunk_key(at);
      const auto found = objects_.find(key_);
      if (found == objects_.end()) {
        mark(box, Verdict::kExact, nullptr);
      } else if (found->second.verdict == Verdict::kRefused || found->second.verdict == Verdict::kAny) {
        mark(box, found->second.verdict, nullptr);
      } else {
        decode(0, std::move(box), found->second.bytes, found->second.verdict);
      }
    } while (advance(at, grid));
    return std::move(out_);
  }

 private:
  // `elements` of the box, in its own axis order; null: the fill value.
  void mark(const Box& box, Verdict verdict, const Bytes* elements) {
    const auto number = static_cast<std::uint32_t>(out_.units.size());
    out_.units.push_back({verdict, key_});
    const std::size_t item = out_.item_bytes;
    box.each(spec_.shape, [&](std::uint64_t from, std::uint64_t element) {
      out_.unit[static_cast<std::size_t>(element)] = number;
      const std::byte* const source =
          elements == nullptr ? spec_.fill.data() : elements->data() + static_cast<std::size_t>(from) * item;
      std::memcpy(&out_.elements[static_cast<std::size_t>(element) * item], source, item);
    });
  }

  // `most`: kExact, or kEither if an enclosing shard has a fault for which all of it may be refused.
  void decode(std::size_t level, Box box, std::span<const std::byte> stored, Verdict most) {
    if (level == spec_.levels.size()) {
      Bytes elements;
      Verdict verdict = code_.decode(stored, box.extent, elements);
      if (verdict == Verdict::kExact) verdict = most;
      mark(box, verdict, elements.empty() ? nullptr : &elements);
      return;
    }
    const Level& here = spec_.levels[level];
    box.extent = transposed(box.extent, here.order);
    box.axis_of = moved(box.axis_of, here.order);
    const Shape grid = divided(box.extent, here.inner);
    const auto count = static_cast<std::size_t>(product(grid));
    const std::size_t index_bytes = ChunkCode::index_bytes(count, here);
    if (stored.size() < index_bytes) return mark(box, Verdict::kRefused, nullptr);
    const auto words =
        ChunkCode::decode_index(here.at_end ? stored.last(index_bytes) : stored.first(index_bytes), here);
    if (words.size() != 2 * count) return mark(box, Verdict::kRefused, nullptr);
    const auto is_missing = [&](std::size_t i) { return words[2 * i] == kEmpty && words[2 * i + 1] == kEmpty; };
    const auto is_bad = [&](std::size_t i) {
      const std::uint64_t offset = words[2 * i], length = words[2 * i + 1];
      return !is_missing(i) && (length == 0 || offset > stored.size() || length > stored.size() - offset);
    };
    // A reader may refuse the whole shard because of one such entry, or of one whose length differs from its raw
    // chunk's.
    const bool raw_leaf = level + 1 == spec_.levels.size() && spec_.codecs.squeeze == Squeeze::kNone;
    const std::uint64_t raw_bytes = product(here.inner) * spec_.type.bytes + (spec_.codecs.checked ? 4 : 0);
    for (std::size_t i = 0; i < count; ++i) {
      if (is_bad(i) || (raw_leaf && !is_missing(i) && words[2 * i + 1] != raw_bytes)) most = Verdict::kEither;
    }
    Shape at(grid.size(), 0);
    std::size_t i = 0;
    do {
      Box one = box.inner(at, here.inner);
      if (is_missing(i)) {
        mark(one, most, nullptr);
      } else if (is_bad(i)) {
        mark(one, Verdict::kRefused, nullptr);
      } else {
        decode(level + 1, std::move(one),
               stored.subspan(static_cast<std::size_t>(words[2 * i]), static_cast<std::size_t>(words[2 * i + 1])),
               most);
      }
      ++i;
    } while (advance(at, grid));
  }

  const ArraySpec& spec_;
  const ChunkCode& code_;
  const std::map<std::string, Object>& objects_;
  std::string key_;
  Meaning out_;
};

}  // namespace

Stored write_array(const ArraySpec& spec, ChunkCode& code, const WriteOptions& options) {
  return Writer(spec, code, options).write();
}

Meaning read_meaning(const ArraySpec& spec, const ChunkCode& code, const std::map<std::string, Object>& objects) {
  return Reader(spec, code, objects).read();
}

}  // namespace headrace::stress
