// MappedRange: bytes of an object that lie in mappings which are registered with the device.
//
// Threads: one at a time.
// Owns:    nothing; the windows are a Worker's.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transfer/context/worker.h"
#include "transfer/pagecache/mapped_cache.h"

namespace headrace::transfer {

struct MappedRange {
  std::uint64_t offset = 0, length = 0;  // in the object
  std::uint64_t file_begin = 0;          // of the object in its file
  std::uint64_t window_bytes = 0;
  std::size_t first_window = 0;                            // of the file
  std::span<const std::shared_ptr<MappedWindow>> windows;  // all but a file's last have one size

  // The object's bytes [at, at + bytes) become pieces of the task, `within` bytes behind where it begins. kInternal:
  // some lie outside.
  Status add_pieces(std::uint32_t task, std::uint64_t at, std::uint64_t bytes, std::vector<MappedShare::TaskBytes>& out,
                    std::uint64_t within = 0) const;
};

// A stream that Chain::cut() made: a head, and behind it bytes that are mapped.
struct MappedPart {
  std::span<const std::byte> head;
  const MappedRange& range;
  std::uint64_t skipped = 0;        // decoded bytes before those that it gives
  std::uint64_t decoded_bytes = 0;  // that it gives
};

}  // namespace headrace::transfer
