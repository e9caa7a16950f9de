#include "work_items.h"

#include <algorithm>

namespace headrace::device::cuda {
namespace {

BoxDim& at(Box& box, int i) { return box.dim[static_cast<std::size_t>(i)]; }

// The largest power of two up to 16 that divides all given numbers.
class Alignment {
 public:
  void include(std::uint64_t value) { bits_ |= value; }
  void include(const void* pointer) { bits_ |= reinterpret_cast<std::uintptr_t>(pointer); }
  void include(const Box& box, int dims) {
    include(box.dst);
    if (box.src != nullptr) include(box.src);
    for (int i = 0; i < dims; ++i) {
      const BoxDim& dim = box.dim[static_cast<std::size_t>(i)];
      if (dim.extent <= 1) continue;
      include(static_cast<std::uint64_t>(dim.dst_stride_bytes));
      if (box.src != nullptr) include(static_cast<std::uint64_t>(dim.src_stride_bytes));
    }
  }
  std::uint32_t bytes() const { return static_cast<std::uint32_t>((bits_ | 16) & (0 - (bits_ | 16))); }

 private:
  std::uint64_t bits_ = 0;
};

void append(Box& box, std::uint64_t extent, std::int64_t src_stride, std::int64_t dst_stride) {
  at(box, box.rank++) = BoxDim{extent, src_stride, dst_stride};
}

Box slice_of(const Box& box, std::uint64_t index) {
  Box out = box;
  const BoxDim& dim = box.dim[0];
  if (out.src != nullptr) out.src += static_cast<std::int64_t>(index) * dim.src_stride_bytes;
  out.dst += static_cast<std::int64_t>(index) * dim.dst_stride_bytes;
  std::copy_n(box.dim.begin() + 1, box.rank - 1, out.dim.begin());
  --out.rank;
  return out;
}

// If the destination is contiguous along the last dimension and the source along another, moves the latter to the last
// but one.
bool turn_for_tiles(Box& box, std::int64_t src_bytes, std::int64_t dst_bytes) {
  if (box.rank < 2 || at(box, box.rank - 1).dst_stride_bytes != dst_bytes || at(box, box.rank - 1).extent < 8) {
    return false;
  }
  for (int i = 0; i < box.rank - 1; ++i) {
    BoxDim& dim = at(box, i);
    if (dim.extent < 8 || (dim.src_stride_bytes != src_bytes && dim.src_stride_bytes != -src_bytes)) continue;
    if (dim.src_stride_bytes < 0) {
      const auto last = static_cast<std::int64_t>(dim.extent - 1);
      box.src += last * dim.src_stride_bytes;
      box.dst += last * dim.dst_stride_bytes;
      dim.src_stride_bytes = -dim.src_stride_bytes;
      dim.dst_stride_bytes = -dim.dst_stride_bytes;
    }
    std::rotate(box.dim.begin() + i, box.dim.begin() + i + 1, box.dim.begin() + box.rank - 1);
    return true;
  }
  return false;
}

BoxItem item_of(const Box& box, BoxMode mode, std::uint32_t word_bytes, std::uint32_t result_bytes,
                std::uint32_t swap_width) {
  BoxItem item{};
  item.src = reinterpret_cast<const unsigned char*>(box.src);
  item.dst = reinterpret_cast<unsigned char*>(box.dst);
  item.mode = static_cast<std::uint32_t>(mode);
  item.word_bytes = word_bytes;
  item.result_bytes = result_bytes;
  item.swap_width = swap_width;
  item.rank = static_cast<std::uint32_t>(box.rank);
  item.pattern_words = 1;
  for (int i = 0; i < box.rank; ++i) {
    const BoxDim& dim = box.dim[static_cast<std::size_t>(i)];
    item.extent[i] = dim.extent;
    item.src_stride[i] = box.src == nullptr ? 0 : dim.src_stride_bytes;
    item.dst_stride[i] = dim.dst_stride_bytes;
  }
  return item;
}

std::uint64_t tiles_of(const Box& box, std::uint64_t side) {
  const std::uint64_t last = box.dim[static_cast<std::size_t>(box.rank - 1)].extent;
  const std::uint64_t before = box.dim[static_cast<std::size_t>(box.rank - 2)].extent;
  return box.element_count() / last / before * ((last + side - 1) / side) * ((before + side - 1) / side);
}

}  // namespace

void BoxList::clear() {
  items.clear();
  first_unit.assign(1, 0);
  pattern.clear();
}

void BoxList::set_pattern(const std::byte* fill, std::uint32_t element_bytes) {
  if (fill == nullptr) return;
  do {
    pattern.insert(pattern.end(), fill, fill + element_bytes);
  } while (pattern.size() < 16);
}

void BoxList::add(const Box& original, const ElementOp& op) {
  Box box = original;
  normalize(box);
  if (box.rank == 1 && box.dim[0].extent == 0) return;
  if (box.rank > kMaxRank - 2) {  // leaves room for the dimensions added below
    for (std::uint64_t i = 0; i < box.dim[0].extent; ++i) add(slice_of(box, i), op);
    return;
  }
  const bool fill = box.src == nullptr;
  std::uint32_t size = op.element_bytes;
  std::uint32_t width = fill ? 1 : std::max(1u, op.swap_width);
  std::uint32_t pattern_words = 1;
  Alignment all;
  all.include(box, box.rank);
  if (width > 1) {
    if (size > width) append(box, size / width, width, width);
    size = width;
    const bool word = width == 2 || width == 4 || width == 8 || width == 16;
    if (!word || all.bytes() < width) {
      // Reversed bytes become a dimension that the source walks backwards.
      box.src += width - 1;
      append(box, width, -1, 1);
      size = width = 1;
    }
  } else {
    all.include(size);
    const std::uint32_t unit = all.bytes();
    if (size > unit) {
      append(box, size / unit, unit, unit);
      if (fill) pattern_words = size / unit;
      size = unit;
    }
  }
  simplify(box);
  add_words(box, size, width, pattern_words);
}

void BoxList::add_words(Box& box, std::uint32_t size, std::uint32_t width, std::uint32_t pattern_words) {
  const bool fill = box.src == nullptr;
  if (box.rank == 0) append(box, 1, size, size);
  auto contiguous = [&] {
    const BoxDim& inner = at(box, box.rank - 1);
    return inner.dst_stride_bytes == size && (fill || inner.src_stride_bytes == size);
  };
  BoxMode mode = BoxMode::kWords;
  if (contiguous()) {
    BoxDim& inner = at(box, box.rank - 1);
    const std::uint64_t run = inner.extent * size;
    Alignment wider;
    wider.include(box, box.rank - 1);
    wider.include(run);
    if (pattern_words == 1 && wider.bytes() > size) {
      size = wider.bytes();
      inner = BoxDim{run / size, fill ? 0 : static_cast<std::int64_t>(size), size};
    }
    if (run >= kShortestRowBytes || box.rank == 1) {
      mode = BoxMode::kRows;
    } else {
      simplify(box);
      if (box.rank == 0) append(box, 1, size, size);
    }
  } else if (!fill && turn_for_tiles(box, size, size)) {
    mode = BoxMode::kTiles;
  }

  if (box.rank > kItemRank) {
    const std::uint64_t extent = box.dim[0].extent;
    for (std::uint64_t i = 0; i < extent; ++i) {
      Box slice = slice_of(box, i);
      add_words(slice, size, width, pattern_words);
    }
    return;
  }

  BoxItem item = item_of(box, mode, size, size, width);
  item.pattern_words = pattern_words;
  std::uint64_t units = 0;
  const std::uint64_t last = item.extent[box.rank - 1];
  if (mode == BoxMode::kRows) {
    const std::uint64_t run = last * size;
    item.segments = static_cast<std::uint32_t>((run + kRowSegmentBytes - 1) / kRowSegmentBytes);
    item.count = box.element_count() / last * item.segments;
    const std::uint64_t share = kRowUnitBytes / std::min<std::uint64_t>(run, kRowSegmentBytes);
    item.per_unit = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share, 1, kMaxRowsPerUnit));
    units = (item.count + item.per_unit - 1) / item.per_unit;
  } else if (mode == BoxMode::kWords) {
    item.count = box.element_count();
    units = (item.count + kWordsPerUnit - 1) / kWordsPerUnit;
  } else {
    item.count = tiles_of(box, tile_side(size));
    units = item.count;
  }
  append_item(item, units);
}

void BoxList::append_item(const BoxItem& item, std::uint64_t units) {
  if (first_unit.empty()) first_unit.push_back(0);
  items.push_back(item);
  first_unit.push_back(first_unit.back() + static_cast<std::uint32_t>(units));
}

void BoxList::add_converting(const Box& original, const ElementOp& op) {
  Box box = original;
  normalize(box);
  if (box.rank == 1 && box.dim[0].extent == 0) return;
  if (box.rank > kItemRank) {
    for (std::uint64_t i = 0; i < box.dim[0].extent; ++i) add_converting(slice_of(box, i), op);
    return;
  }
  const std::uint32_t in = op.element_bytes, out = op.result_bytes();
  if (box.rank == 0) append(box, 1, in, out);
  const BoxDim& inner = at(box, box.rank - 1);
  BoxMode mode = BoxMode::kWords;
  if (inner.src_stride_bytes == in && inner.dst_stride_bytes == out) {
    if (inner.extent >= kShortestConvertedRow || box.rank == 1) mode = BoxMode::kRows;
  } else if (turn_for_tiles(box, in, out)) {
    mode = BoxMode::kTiles;
  }
  BoxItem item = item_of(box, mode, in, out, op.swap_width > 1 ? op.swap_width : 1);
  item.count = box.element_count();
  std::uint64_t units = (item.count + kWordsPerUnit - 1) / kWordsPerUnit;
  if (mode == BoxMode::kRows) {
    const std::uint64_t run = at(box, box.rank - 1).extent;
    item.segments = static_cast<std::uint32_t>((run + kConvertSegment - 1) / kConvertSegment);
    item.count = item.count / run * item.segments;
    const std::uint64_t share = kConvertUnit / std::min<std::uint64_t>(run, kConvertSegment);
    item.per_unit = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share, 1, kMaxRowsPerUnit));
    units = (item.count + item.per_unit - 1) / item.per_unit;
  } else if (mode == BoxMode::kTiles) {
    units = item.count = tiles_of(box, kConvertTileSide);
  }
  append_item(item, units);
}

}  // namespace headrace::device::cuda
