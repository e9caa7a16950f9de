// MappedRange: bytes of an object in mappings that are registered with the device.
//
// Threads: one at a time.
// Owns:    nothing; the windows belong to a Worker.
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
  std::uint64_t offset = 0, length = 0;  // of the range in the object
  std::uint64_t file_begin = 0;          // of the object in its file
  std::uint64_t window_bytes = 0;
  std::size_t first_window = 0;                            // number of windows[0] in the file
  std::span<const std::shared_ptr<MappedWindow>> windows;  // all but a file's last have the same size

  // Appends the object's bytes [at, at + bytes) as pieces of the task, placed `within` bytes after its start.
  // kInternal: some lie outside the range.
  Status add_pieces(std::uint32_t task, std::uint64_t at, std::uint64_t bytes, std::vector<MappedShare::TaskBytes>& out,
                    std::uint64_t within = 0) const;
};

// A stream that Chain::cut() made: a head, followed by mapped bytes.
struct MappedPart {
  std::span<const std::byte> head;
  const MappedRange& range;
  std::uint64_t skipped = 0;        // decoded bytes before those that it produces
  std::uint64_t decoded_bytes = 0;  // that it produces
};

}  // namespace headrace::transfer
