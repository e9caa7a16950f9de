#include "codec/shuffle.h"

#include <algorithm>
#include <cstring>

namespace headrace::codec {
namespace {

// Elements are processed in tiles that stay in L1 while they are read once per byte position.
constexpr std::size_t kTileBytes = 8192;

template <std::size_t kItem>
void shuffle_items(const std::byte* src, std::size_t item_bytes, std::size_t items, std::byte* dst) noexcept {
  const std::size_t item = kItem != 0 ? kItem : item_bytes;
  const std::size_t tile = std::max<std::size_t>(kTileBytes / item, 1);
  for (std::size_t first = 0; first < items; first += tile) {
    const std::size_t last = std::min(items, first + tile);
    for (std::size_t j = 0; j < item; ++j) {
      std::byte* const plane = dst + j * items;
      for (std::size_t i = first; i < last; ++i) plane[i] = src[i * item + j];
    }
  }
}

}  // namespace

void shuffle(const std::byte* src, std::size_t item_bytes, std::size_t bytes, std::byte* dst) noexcept {
  const std::size_t items = bytes / item_bytes;
  switch (item_bytes) {
    case 2:
      shuffle_items<2>(src, item_bytes, items, dst);
      break;
    case 4:
      shuffle_items<4>(src, item_bytes, items, dst);
      break;
    case 8:
      shuffle_items<8>(src, item_bytes, items, dst);
      break;
    default:
      shuffle_items<0>(src, item_bytes, items, dst);
      break;
  }
  const std::size_t whole = items * item_bytes;
  if (whole < bytes) std::memcpy(dst + whole, src + whole, bytes - whole);
}

}  // namespace headrace::codec
