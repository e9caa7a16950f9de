// PartPool: the parts that a queue has under way, and the slab of host memory that those of them lie in which are not
// read or written in place.
//
// After open() nothing allocates, but the slab of a device that copies nothing out of it, with its first use.
//
// Threads: one at a time.
// Owns:    parts and slab, until close(); without that the slab stays, as it must in a forked child.
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
  // A part of the request with a slot of so many bytes, a multiple of kUnit; 0: without one. Null: there is no part or
  // no room left.
  FilePart* take(std::uint32_t request, std::uint64_t slot_bytes) noexcept;
  // A slot of at least so many bytes for a part that was taken without. False: there is no room.
  bool lend_slot(FilePart& part, std::uint64_t bytes);
  void release_slot(FilePart& part) noexcept;
  void give_back(FilePart& part) noexcept;

  std::span<std::byte> slab() const noexcept { return {slab_, slab_ != nullptr ? slab_bytes_ : std::size_t{0}}; }

 private:
  std::shared_ptr<device::Device> device_;  // null: the slab is unpinned_
  std::size_t slab_bytes_ = 0;
  std::byte* slab_ = nullptr;
  os::PageBuffer unpinned_;  // pages are made as they are used
  std::optional<SlabMap> slots_;
  std::vector<FilePart> parts_;
  std::vector<FilePart*> free_;
};

}  // namespace headrace::transfer
