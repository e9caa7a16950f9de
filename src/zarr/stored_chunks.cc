// Array::stored_chunks: lists the store to find which chunks of the grid it has.
#include <headrace/array.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <optional>

#include "base/access.h"
#include "transfer/context/context_impl.h"
#include "zarr/array/array_impl.h"

namespace headrace {
namespace {

// The number that one component of a chunk's key stands for; nullopt if it is not written as keys write it, or lies
// outside the grid.
std::optional<std::uint64_t> parse_index(std::string_view text, std::uint64_t extent) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool canonical = text == "0" || (!text.empty() && text.front() != '0');
  if (error != std::errc() || end != text.data() + text.size() || !canonical || value >= extent) return std::nullopt;
  return value;
}

class Listing {
 public:
  explicit Listing(const Array::Impl& array)
      : array_(array), rank_(array.grid.size()), memory_(array.memory.budget()), index_(rank_) {}

  Result<StoredChunks> run() {
    std::string folder = array_.path;
    if (array_.metadata.keys.kind == zarr::ChunkKeyEncoding::Kind::kDefault && folds()) {
      folder = zarr::join_path(folder, "c");
    }
    HEADRACE_TRY(list(folder, 0));
    sort();
    return std::move(out_);
  }

 private:
  // Whether each index but the last is a folder.
  bool folds() const { return array_.metadata.keys.separator == '/' && rank_ > 0; }

  // Lists `folder`. The names in it and below stand for the indices from `axis` on.
  Status list(const std::string& folder, std::size_t axis) {
    base::Charge listing(memory_.budget());
    auto entries = Access::impl(array_.store)->list(folder, &listing);
    if (entries.status().code() == Code::kNotFound) return {};
    if (!entries.ok()) return std::move(entries).status();
    for (const store::Entry& entry : *entries) {
      if (!folds()) {
        if (parse_name(entry.name)) HEADRACE_TRY(add());
        continue;
      }
      const auto index = parse_index(entry.name, array_.grid[axis]);
      if (!index) continue;
      index_[axis] = *index;
      if (axis + 1 == rank_) {
        HEADRACE_TRY(add());
      } else if (entry.is_directory) {
        HEADRACE_TRY(list(zarr::join_path(folder, entry.name), axis + 1));
      } else if (entry.is_link) {
        // Opening the objects below may report a missing disk, which differs from "not found".
        return Status(Code::kUnsupported, Layer::kZarr, "a symbolic link whose target is not a folder")
            .with_key(zarr::join_path(folder, entry.name));
      }
    }
    return {};
  }

  // A whole key without the array's path: "c.0.1" or "0.1"; of an array without dimensions, "c" or "0".
  bool parse_name(std::string_view name) {
    const bool prefixed = array_.metadata.keys.kind == zarr::ChunkKeyEncoding::Kind::kDefault;
    if (rank_ == 0) return name == (prefixed ? "c" : "0");
    const char separator = array_.metadata.keys.separator;
    if (prefixed) {
      if (name.size() < 2 || name[0] != 'c' || name[1] != separator) return false;
      name.remove_prefix(2);
    }
    for (std::size_t axis = 0; axis < rank_; ++axis) {
      const std::size_t end = axis + 1 == rank_ ? name.size() : name.find(separator);
      if (end == std::string_view::npos) return false;
      const auto index = parse_index(name.substr(0, end), array_.grid[axis]);
      if (!index) return false;
      index_[axis] = *index;
      name.remove_prefix(std::min(end + 1, name.size()));
    }
    return true;
  }

  Status add() {
    // Covers the list while it grows and is sorted.
    HEADRACE_TRY(memory_.take(3 * rank_ * sizeof(std::uint64_t) + sizeof(std::uint64_t), "the list of stored chunks"));
    out_.indices.insert(out_.indices.end(), index_.begin(), index_.end());
    ++out_.count;
    return {};
  }

  // The listing is in text order: "10" before "9".
  void sort() {
    const auto at = [&](std::uint64_t i) { return out_.indices.begin() + static_cast<std::ptrdiff_t>(i * rank_); };
    std::vector<std::uint64_t> order(static_cast<std::size_t>(out_.count));
    for (std::uint64_t i = 0; i < out_.count; ++i) order[static_cast<std::size_t>(i)] = i;
    std::sort(order.begin(), order.end(), [&](std::uint64_t a, std::uint64_t b) {
      return std::lexicographical_compare(at(a), at(a) + static_cast<std::ptrdiff_t>(rank_), at(b),
                                          at(b) + static_cast<std::ptrdiff_t>(rank_));
    });
    std::vector<std::uint64_t> sorted;
    sorted.reserve(out_.indices.size());
    for (const std::uint64_t i : order) sorted.insert(sorted.end(), at(i), at(i) + static_cast<std::ptrdiff_t>(rank_));
    out_.indices = std::move(sorted);
  }

  const Array::Impl& array_;
  const std::size_t rank_;
  base::Charge memory_;
  std::vector<std::uint64_t> index_;
  StoredChunks out_;
};

}  // namespace

Result<StoredChunks> Array::stored_chunks() const {
  try {
    HEADRACE_TRY(Access::impl(impl_->store.context())->resources->check_usable());
    return Listing(*impl_).run();
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace
