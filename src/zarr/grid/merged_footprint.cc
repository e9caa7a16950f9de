// The footprint of several selections together: a list of the chunks that each selection touches, in storage order. It
// takes 40 bytes per chunk and selection.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/checked.h"
#include "zarr/grid/chunk_order.h"
#include "zarr/grid/footprint.h"
#include "zarr/grid/footprint_kinds.h"

namespace headrace::zarr {
namespace {

using transfer::TaskDetail;

// The number of an object or unit is the index of its first entry.
class MergedFootprint final : public Footprint {
 public:
  static Result<std::shared_ptr<const Footprint>> make(FootprintInput input, std::size_t count,
                                                       const FootprintInputAt& input_at) {
    std::unique_ptr<MergedFootprint> made(new MergedFootprint(input, count));
    HEADRACE_TRY(made->count_units());
    if (input.rectilinear != nullptr) made->order_.emplace(input.rectilinear);
    made->parts_.reserve(count);
    std::uint64_t units = 0;
    for (std::size_t i = 0; i < count; ++i) {
      HEADRACE_TRY(input_at(i, input));
      HEADRACE_TRY_ASSIGN(auto part, make_footprint(input, &made->memory_));
      units += part->units();
      made->parts_.push_back(std::move(part));
    }
    made->entries_.reserve(static_cast<std::size_t>(units));
    std::vector<std::vector<Unit>> found(made->levels_.size());
    for (std::size_t i = 0; i < count; ++i) made->list(i, found);
    made->sort();
    return std::shared_ptr<const Footprint>(std::move(made));
  }

  bool largest_first() const override { return !order_; }
  std::uint64_t shape_end(std::uint64_t object) const override {
    if (!order_) return end_;
    const std::uint64_t end = order_->shape_end(entry(object).object);
    const auto behind = std::lower_bound(entries_.begin() + static_cast<std::ptrdiff_t>(object), entries_.end(), end,
                                         [](const Entry& e, std::uint64_t number) { return e.object < number; });
    return static_cast<std::uint64_t>(behind - entries_.begin());
  }
  std::uint64_t next_object(std::uint64_t object) const override { return end_of(object, 0); }
  std::uint64_t root(std::uint64_t object) const override { return object; }

  void position(std::uint64_t object, std::uint64_t* at) const override {
    std::uint64_t number = entry(object).object;
    if (order_) return order_->position(number, at);
    for (std::size_t i = object_grid_.size(); i-- > 0;) {
      at[i] = number % object_grid_[i];
      number /= object_grid_[i];
    }
  }

  void children(std::uint64_t, std::size_t level, std::uint64_t unit, std::vector<Unit>& out) const override {
    const std::uint64_t end = end_of(unit, level);
    const std::uint64_t entries = below_[level] / below_[level + 1];
    while (unit != end) {
      out.push_back({unit, entry(unit).inner / below_[level + 1] % entries});
      unit = end_of(unit, level + 1);
    }
  }

  void describe(std::uint64_t, std::size_t level, std::uint64_t unit, TaskDetail& detail) const override {
    const std::uint64_t end = end_of(unit, level);
    std::uint64_t first = end, elements = 0, span_begin = std::numeric_limits<std::uint64_t>::max(), span_end = 0;
    unsigned boxes = 0;
    // In reverse, so that `detail` holds the first part's box in the end.
    for (std::uint64_t i = end; i-- > unit;) {
      if (!leads(i, level)) continue;
      describe_part(i, level, detail);
      elements += detail.element_count();
      const auto [begin, behind] = span_of(detail);
      span_begin = std::min(span_begin, begin);
      span_end = std::max(span_end, behind);
      first = i;
      ++boxes;
    }
    if (boxes == 1) {
      detail.merged = {.entry = first, .end = first, .level = level, .several = detail.several};
      return;
    }
    detail.merged = {.entry = first, .end = end, .level = level, .several = detail.several};
    detail.several = true;
    detail.whole_chunk = false;
    detail.elements = elements;
    detail.span_begin = span_begin;
    detail.span_end = span_end;
  }

  bool next_box(TaskDetail& detail) const override {
    if (!detail.several) return false;
    TaskDetail::Merged& at = detail.merged;
    if (at.several && parts_[entry(at.entry).part]->next_box(detail)) return true;
    if (at.entry == at.end) return false;
    do {
      if (++at.entry == at.end) return false;
    } while (!leads(at.entry, at.level));
    const std::uint64_t elements = detail.elements, span_begin = detail.span_begin, span_end = detail.span_end;
    const TaskDetail::Merged walk = at;
    describe_part(walk.entry, walk.level, detail);
    detail.merged = walk;
    detail.merged.several = detail.several;
    detail.several = true;
    detail.whole_chunk = false;
    detail.elements = elements;
    detail.span_begin = span_begin;
    detail.span_end = span_end;
    return true;
  }

 private:
  struct Entry {
    std::uint64_t object;                  // in C order of the grid of objects, or the ChunkOrder's number
    std::uint64_t inner;                   // the smallest unit in the object, composed of the entry at each level
    std::uint64_t part_object, part_unit;  // as numbered by the part's footprint
    std::uint32_t part;
    std::uint32_t leads;  // bit l: the first of the part's entries in one unit of level l; it represents them
  };

  MergedFootprint(const FootprintInput& input, std::size_t parts)
      : object_grid_(input.object_grid),
        levels_(input.levels),
        element_bytes_(input.element_bytes),
        memory_(parts * (kPartBytes + kAxisBytes * object_grid_.size() * (levels_.size() + 1))) {}

  Status count_units() {
    std::optional<std::uint64_t> all = 1;
    for (const std::uint64_t count : object_grid_) {
      if (all) all = base::checked_mul(*all, std::max<std::uint64_t>(count, 1));
    }
    if (!all) {
      return Status(Code::kUnsupported, Layer::kZarr, "several selections of an array of more than 2^64 chunks");
    }
    below_.assign(levels_.size() + 1, 1);
    for (std::size_t level = levels_.size(); level-- > 0;) {
      below_[level] = below_[level + 1];
      for (const std::uint64_t count : levels_[level].grid) below_[level] *= std::max<std::uint64_t>(count, 1);
    }
    return {};
  }

  // `found`: a reusable buffer for each level.
  void list(std::size_t part, std::span<std::vector<Unit>> found) {
    const Footprint& footprint = *parts_[part];
    std::array<std::uint64_t, device::kMaxRank> at;
    Entry entry{};
    entry.part = static_cast<std::uint32_t>(part);
    for (std::uint64_t object = footprint.first_object(); object != footprint.end_object();
         object = footprint.next_object(object)) {
      footprint.position(object, at.data());
      entry.object = order_ ? order_->number(at.data()) : 0;
      for (std::size_t i = 0; i < object_grid_.size() && !order_; ++i) {
        entry.object = entry.object * object_grid_[i] + at[i];
      }
      entry.part_object = object;
      entry.inner = 0;
      entry.leads = 1;
      list_below(footprint, 0, footprint.root(object), entry, found);
    }
  }

  // `entry.leads`: the levels above whose first smallest unit comes next.
  void list_below(const Footprint& footprint, std::size_t level, std::uint64_t unit, Entry& entry,
                  std::span<std::vector<Unit>> found) {
    if (level == levels_.size()) {
      entry.part_unit = unit;
      entries_.push_back(entry);
      entry.leads = 0;
      return;
    }
    std::vector<Unit>& units = found[level];
    units.clear();
    footprint.children(entry.part_object, level, unit, units);
    const std::uint64_t inner = entry.inner;
    for (const Unit& child : units) {
      entry.inner = inner + child.entry * below_[level + 1];
      entry.leads |= 1U << (level + 1);
      list_below(footprint, level + 1, child.number, entry, found);
    }
    entry.inner = inner;
  }

  void sort() {
    const auto before = [](const Entry& a, const Entry& b) {
      if (a.object != b.object) return a.object < b.object;
      return a.inner != b.inner ? a.inner < b.inner : a.part < b.part;
    };
    if (!std::is_sorted(entries_.begin(), entries_.end(), before)) std::sort(entries_.begin(), entries_.end(), before);
    end_ = entries_.size();
    for (std::uint64_t unit = 0; unit != end_; unit = end_of(unit, levels_.size())) ++units_;
  }

  const Entry& entry(std::uint64_t i) const { return entries_[static_cast<std::size_t>(i)]; }
  bool leads(std::uint64_t i, std::size_t level) const { return (entry(i).leads >> level & 1U) != 0; }

  // One past the last entry of the unit of `level` that contains this entry.
  std::uint64_t end_of(std::uint64_t first, std::size_t level) const {
    const std::uint64_t object = entry(first).object, number = entry(first).inner / below_[level];
    const auto same = [&](const Entry& e) { return e.object == object && e.inner / below_[level] == number; };
    std::uint64_t inside = first, step = 1;
    while (inside + step < end_ && same(entry(inside + step))) {
      inside += step;
      step *= 2;
    }
    const auto from = entries_.begin() + static_cast<std::ptrdiff_t>(inside);
    const auto to = entries_.begin() + static_cast<std::ptrdiff_t>(std::min(inside + step, end_));
    return static_cast<std::uint64_t>(std::partition_point(from, to, same) - entries_.begin());
  }

  void describe_part(std::uint64_t i, std::size_t level, TaskDetail& detail) const {
    const Entry& e = entry(i);
    const Footprint& part = *parts_[e.part];
    std::uint64_t unit = e.part_unit;
    if (level < levels_.size()) {
      // An absent shard. This is rare, so its number is found by descending the tree again.
      unit = part.root(e.part_object);
      std::vector<Unit> units;
      for (std::size_t l = 0; l < level; ++l) {
        units.clear();
        part.children(e.part_object, l, unit, units);
        const std::uint64_t wanted = e.inner / below_[l + 1] % (below_[l] / below_[l + 1]);
        unit = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.entry == wanted; })->number;
      }
    }
    part.describe(e.part_object, level, unit, detail);
  }

  // The bytes of the decoded chunk from its first selected element to the end of its last.
  std::pair<std::uint64_t, std::uint64_t> span_of(const TaskDetail& detail) const {
    if (detail.several) return {detail.span_begin, detail.span_end};
    std::int64_t low = detail.source_offset, high = low;
    for (int i = 0; i < detail.box.rank; ++i) {
      const device::BoxDim& dim = detail.box.dim[static_cast<std::size_t>(i)];
      const std::int64_t reach = static_cast<std::int64_t>(dim.extent - 1) * dim.src_stride_bytes;
      (reach < 0 ? low : high) += reach;
    }
    return {static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high) + element_bytes_};
  }

  // Approximate memory of a slice's footprint. If it takes more, memory_ grows.
  static constexpr std::size_t kPartBytes = 768, kAxisBytes = 96;

  const std::span<const std::uint64_t> object_grid_;
  const std::span<const LevelGrid> levels_;
  const std::uint32_t element_bytes_;
  std::optional<ChunkOrder> order_;             // set if objects differ in shape
  std::vector<std::uint64_t> below_;            // smallest units in one of each level
  std::pmr::monotonic_buffer_resource memory_;  // of parts_
  std::vector<std::shared_ptr<const Footprint>> parts_;
  std::vector<Entry> entries_;
};

}  // namespace

Result<std::shared_ptr<const Footprint>> make_merged_footprint(FootprintInput input, std::size_t count,
                                                               const FootprintInputAt& input_at) {
  if (count > 1) return MergedFootprint::make(std::move(input), count, input_at);
  HEADRACE_TRY(input_at(0, input));
  return make_footprint(std::move(input));
}

}  // namespace headrace::zarr
