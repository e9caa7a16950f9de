// PartPool: the parts of a queue in flight, and the slab of host memory for those that are not read or written in
// place.
//
// Nothing allocates after open(), except the slab of a host device, which is allocated on first use.
//
// Threads: one at a time.
// Owns:    parts and slab, until close(); without close() the slab is leaked, as it must be in a forked child.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"
#include "os/page_buffer.h"
#include "transfer/fetch/slab_map.h"
#include "transfer/files/file_part.h"

namespace headrace::transfer {

class PartPool {
 public:
  static constexpr std::uint64_t kUnit = SlabMap::kUnit;  // slots begin and end at multiples of it

  // `staged`: every part has a slot, in memory that the device copies from.
  Status open(std::shared_ptr<device::Device> device, std::size_t slab_bytes, bool staged);
  void close() noexcept;

  std::size_t capacity() const noexcept { return parts_.size(); }
  // A part for the request with a slot of `slot_bytes`, a multiple of kUnit; 0: without a slot. Null: no part or no
  // room is left.
  FilePart* take(std::uint32_t request, std::uint64_t slot_bytes) noexcept;
  // Gives a part without a slot one of at least `bytes`. False: no room is left.
  bool lend_slot(FilePart& part, std::uint64_t bytes);
  void release_slot(FilePart& part) noexcept;
  void give_back(FilePart& part) noexcept;

  std::span<std::byte> slab() const noexcept { return {slab_, slab_ != nullptr ? slab_bytes_ : std::size_t{0}}; }

 private:
  std::shared_ptr<device::Device> device_;  // null: the slab is unpinned_
  std::size_t slab_bytes_ = 0;
  std::byte* slab_ = nullptr;
  os::PageBuffer unpinned_;  // pages are allocated when touched
  std::optional<SlabMap> slots_;
  std::vector<FilePart> parts_;
  std::vector<FilePart*> free_;
};

}  // namespace headrace::transfer
