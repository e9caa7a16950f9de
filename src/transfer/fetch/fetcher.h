// Fetcher: opens the objects of a store, reads stored bytes from them, verifies what was read, and counts both. Chunks
// of every kind of read go through it. Plans open their shards and read the indexes themselves.
//
// Threads: every call from any number of threads, each with its own Stats and scratch.
// Owns:    nothing; the store outlives it.
// Fails:   ranges in errors refer to the object; the caller adds the key. Allocates only error messages and what
//          Store::unpack() needs.
#pragma once

#include <headrace/stats.h>
#include <headrace/status.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "os/page_buffer.h"
#include "store/store.h"
#include "transfer/fetch/io_service.h"
#include "transfer/plan/plan.h"

namespace headrace::transfer {

// Location of stored bytes.
struct StoredRange {
  const store::ByteSource* source = nullptr;
  std::uint64_t offset = 0, length = 0;
};

class Fetcher {
 public:
  explicit Fetcher(store::Store& store) noexcept : store_(&store) {}

  // Closes what `out` held. kNotFound: the object certainly does not exist.
  Status open(std::string_view key, store::ByteSource& out, Stats& stats) const;

  // Returns the bytes of an object in memory, without a copy. REQUIRES: source.offers(kMemory).
  Result<std::span<const std::byte>> view(const StoredRange& range, Stats& stats) const;
  // Reads range.length bytes of any object into `out`. Waits for the disk. REQUIRES: of an object that offers only
  // kWhole, the whole object is requested.
  Status read(const StoredRange& range, std::span<std::byte> out, os::PageBuffer& scratch, Stats& stats) const;
  // Reads from the page cache only; kNotCached: some bytes are not cached. REQUIRES: range.source->offers(kFile).
  enum class Cached : std::uint8_t { kRead, kNotCached, kFailed };
  Cached read_cached(const StoredRange& range, std::span<std::byte> out, Status& failure, Stats& stats) const;
  // Verifies and counts a completed `job` on `source`, by an engine or by a store. For a whole object of unknown size
  // any number of bytes is accepted. kNotFound: the object certainly does not exist.
  Status finish(const store::ByteSource& source, ReadJob& job, Stats& stats) const;

  // Call when a wave has read everything it needs: kAgainExhausted if one of its sources, or what the store keeps in
  // memory, has changed since the plan used it. Throws std::bad_alloc.
  Status check_unchanged(std::span<const Source> sources) const;

 private:
  store::Store* store_;
};

}  // namespace headrace::transfer
