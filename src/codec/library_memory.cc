#include "codec/library_memory.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace headrace::codec {

void* LibraryMemory::take(std::size_t count, std::size_t size) noexcept {
  const auto product = base::checked_mul(count, size);
  if (!product) return nullptr;
  const std::size_t bytes = std::max<std::size_t>(static_cast<std::size_t>(*product), 1);
  Block* best = nullptr;
  for (Block& block : blocks_) {
    if (block.used || block.bytes < bytes) continue;
    if (best == nullptr || block.bytes < best->bytes) best = &block;
  }
  try {
    if (best == nullptr) {
      std::erase_if(blocks_, [](const Block& block) { return !block.used; });
      Block block{std::make_unique_for_overwrite<std::byte[]>(bytes), bytes, false};
      best = &blocks_.emplace_back(std::move(block));
    }
  } catch (...) {
    return nullptr;
  }
  best->used = true;
  return best->data.get();
}

void LibraryMemory::give(void* data) noexcept {
  for (Block& block : blocks_) {
    if (block.data.get() == data) block.used = false;
  }
}

}  // namespace headrace::codec
