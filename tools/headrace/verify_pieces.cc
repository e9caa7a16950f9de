#include "verify_pieces.h"

#include <algorithm>

#include "cli_common.h"

namespace headrace::cli {
namespace {

constexpr std::uint64_t kVerifiedBytes = std::uint64_t{256} << 20;  // decoded bytes at a time
constexpr std::size_t kMaxBoxes = 256;

std::uint64_t saturating_product(std::span<const std::uint64_t> factors, std::uint64_t bytes) {
  return decoded_bytes(factors, static_cast<std::uint32_t>(bytes)).value_or(UINT64_MAX);
}

}  // namespace

Selection ArrayBox::selection() const {
  Selection out;
  for (std::size_t d = 0; d < start.size(); ++d) {
    SelectionItem item;
    item.start = static_cast<std::int64_t>(start[d]);
    item.stop = static_cast<std::int64_t>(start[d] + count[d]);
    out.push_back(item);
  }
  return out;
}

VerifyPieces::VerifyPieces(const Array& array)
    : info_(array.info()),
      item_bytes_(std::max<std::uint64_t>(1, info_.dtype.item_bytes)),
      cell_(info_.shard_shape.empty() ? info_.chunk_shape : info_.shard_shape) {
  const ArrayBox all{std::vector<std::uint64_t>(info_.shape.size(), 0), info_.shape};
  std::vector<std::uint64_t> grid;
  for (std::size_t d = 0; d < cell_.size(); ++d) grid.push_back((info_.shape[d] - 1) / cell_[d] + 1);
  const std::uint64_t cells = saturating_product(grid, 1);
  if (info_.chunk_grid == "regular") {
    auto stored = array.stored_chunks();
    if (stored.ok() && stored->count < cells) stored_ = std::move(*stored);
  }
  if (!stored_) {
    max_bytes_ = saturating_product(piece_of(all), item_bytes_);
    return;
  }
  skipped_chunks_ = cells - stored_->count;
  const std::uint64_t cell_bytes = saturating_product(cell_, item_bytes_);
  max_bytes_ = saturating_product(std::vector<std::uint64_t>{stored_->count, cell_bytes}, 1);
  if (cell_bytes <= kVerifiedBytes) {
    max_bytes_ = std::min(max_bytes_, kVerifiedBytes);
  } else if (max_bytes_ > 0) {
    max_bytes_ = saturating_product(piece_of({all.start, cell_}), item_bytes_);
  }
}

std::uint64_t VerifyPieces::bytes_of(const ArrayBox& box) const { return saturating_product(box.count, item_bytes_); }

// Shape of the pieces of a box of whole cells: whole cells (shards, or chunks if a shard is too large), and whole rows
// of the grid as far as they fit.
std::vector<std::uint64_t> VerifyPieces::piece_of(const ArrayBox& box) const {
  const std::vector<std::uint64_t>& cell =
      saturating_product(cell_, item_bytes_) > kVerifiedBytes ? info_.chunk_shape : cell_;
  std::vector<std::uint64_t> piece = box.count;
  for (std::size_t d = 0; d < piece.size() && saturating_product(piece, item_bytes_) > kVerifiedBytes; ++d) {
    std::vector<std::uint64_t> row = piece;
    row[d] = std::min(cell[d], box.count[d]);
    const std::uint64_t row_bytes = std::max<std::uint64_t>(1, saturating_product(row, item_bytes_));
    const std::uint64_t rows = std::max<std::uint64_t>(1, kVerifiedBytes / row_bytes);
    std::uint64_t extent = 0;
    piece[d] = __builtin_mul_overflow(rows, cell[d], &extent) ? box.count[d] : std::min(box.count[d], extent);
  }
  return piece;
}

// Takes the next box: stored cells adjacent along the last axis.
bool VerifyPieces::take_box(ArrayBox& box) {
  if (waiting_) {
    box = std::move(*waiting_);
    waiting_.reset();
    return true;
  }
  const std::size_t rank = info_.shape.size();
  if (!stored_) {
    if (cursor_++ != 0) return false;
    box = {std::vector<std::uint64_t>(rank, 0), info_.shape};
    return true;
  }
  if (cursor_ == stored_->count) return false;
  const auto index = [&](std::uint64_t i) { return std::span(stored_->indices).subspan(i * rank, rank); };
  const std::span<const std::uint64_t> first = index(cursor_++);
  box.start.resize(rank);
  box.count.resize(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    box.start[d] = first[d] * cell_[d];
    box.count[d] = std::min(cell_[d], info_.shape[d] - box.start[d]);
  }
  if (rank == 0) return true;
  const std::size_t last = rank - 1;
  while (cursor_ < stored_->count && bytes_of(box) <= kVerifiedBytes / 2) {
    const std::span<const std::uint64_t> next = index(cursor_);
    const std::uint64_t begin = next[last] * cell_[last];
    if (begin != box.start[last] + box.count[last] || !std::equal(first.begin(), first.end() - 1, next.begin())) break;
    ArrayBox longer = box;
    longer.count[last] += std::min(cell_[last], info_.shape[last] - begin);
    if (bytes_of(longer) > kVerifiedBytes) break;
    box = std::move(longer);
    ++cursor_;
  }
  return true;
}

bool VerifyPieces::take_piece(ArrayBox& piece) {
  if (!inside_) return false;
  const std::size_t rank = inside_->at.size();
  piece.start.resize(rank);
  piece.count.resize(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    piece.start[d] = inside_->box.start[d] + inside_->at[d];
    piece.count[d] = std::min(inside_->piece[d], inside_->box.count[d] - inside_->at[d]);
  }
  for (std::size_t d = rank; d-- > 0;) {  // advance to the next piece, in C order
    if (inside_->box.count[d] - inside_->at[d] > inside_->piece[d]) {
      inside_->at[d] += inside_->piece[d];
      return true;
    }
    inside_->at[d] = 0;
  }
  inside_.reset();
  return true;
}

bool VerifyPieces::next(std::vector<ArrayBox>& boxes) {
  boxes.clear();
  ArrayBox box;
  if (take_piece(box)) {
    boxes.push_back(std::move(box));
    return true;
  }
  std::uint64_t bytes = 0;
  while (boxes.size() < kMaxBoxes && take_box(box)) {
    const std::uint64_t more = bytes_of(box);
    if (!boxes.empty() && more > kVerifiedBytes - bytes) {
      waiting_ = std::move(box);
      break;
    }
    if (more > kVerifiedBytes) {
      inside_ = Inside{box, piece_of(box), std::vector<std::uint64_t>(box.start.size(), 0)};
      return take_piece(boxes.emplace_back());
    }
    bytes += more;
    boxes.push_back(std::move(box));
  }
  return !boxes.empty();
}

}  // namespace headrace::cli
