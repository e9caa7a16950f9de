// Fetcher: opens the objects of a store and reads stored bytes out of them, checks what was read and counts both.
// Chunks of every kind of read go through it. Plans open their shards and read the indexes themselves.
//
// Threads: every call from any number of threads, each with Stats and scratch of its own.
// Owns:    nothing; the store outlives it.
// Fails:   places are those in the object; the key is the caller's to name. Nothing is allocated but the text of errors
//          and what Store::unpack() takes.
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

// Where stored bytes are.
struct StoredRange {
  const store::ByteSource* source = nullptr;
  std::uint64_t offset = 0, length = 0;
};

class Fetcher {
 public:
  explicit Fetcher(store::Store& store) noexcept : store_(&store) {}

  // Closes what `out` held. kNotFound: there is certainly no such object.
  Status open(std::string_view key, store::ByteSource& out, Stats& stats) const;

  // Bytes of an object in memory, where they lie. REQUIRES: source.offers(kMemory).
  Result<std::span<const std::byte>> view(const StoredRange& range, Stats& stats) const;
  // Of any object into `out`, which has range.length bytes. Waits for the disk. REQUIRES: of an object that offers only
  // the whole, all of it is wanted.
  Status read(const StoredRange& range, std::span<std::byte> out, os::PageBuffer& scratch, Stats& stats) const;
  // Of a file what its page cache has; kNotCached: not all of it. REQUIRES: range.source->offers(kFile).
  enum class Cached : std::uint8_t { kRead, kNotCached, kFailed };
  Cached read_cached(const StoredRange& range, std::span<std::byte> out, Status& failure, Stats& stats) const;
  // What an engine has read of `source` for `job`, which has ended; or a store, whose answer is checked. Of a whole
  // object of unknown size as much as came. kNotFound: there is certainly no such object.
  Status finish(const store::ByteSource& source, ReadJob& job, Stats& stats) const;

  // All that is wanted of a wave has been read: kAgainExhausted if one of its sources, or what the store keeps in
  // memory, was changed since the plan looked at it. Throws std::bad_alloc.
  Status check_unchanged(std::span<const Source> sources) const;

 private:
  store::Store* store_;
};

}  // namespace headrace::transfer
