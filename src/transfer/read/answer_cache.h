// AnswerCache: keeps the answers of stores without files, chunk by chunk, in host memory. Later reads take chunks from
// there, whether the CPU or the device decodes them.
//
// Threads: every call from any thread, for different groups.
// Owns:    nothing; the cache belongs to its reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transfer/context/worker.h"
#include "transfer/plan/plan.h"
#include "transfer/read/chunk_cache.h"
#include "transfer/read/wave.h"

namespace headrace::transfer {

class AnswerCache {
 public:
  // Everything outlives it. cache: null disables it.
  AnswerCache(const Plan& plan, ChunkCache* cache) noexcept : plan_(plan), cache_(cache) {}

  // Whether a chunk with a version should be requested whole, since it will be cached.
  bool takes_more() const noexcept { return cache_ != nullptr && cache_->takes_more(); }
  // Gives a group's chunks to the wave's sink if all of them are cached. `version`: nullopt: they are not cached.
  bool take(Wave& wave, const TaskGroup& group, const std::optional<StoredVersion>& version, Worker& worker) const;
  // Shrinks a group's range [offset, offset + length) by cached chunks at both of its ends. Pass the data of the
  // shrunken range to give().
  void trim(const Wave& wave, const TaskGroup& group, const std::optional<StoredVersion>& version,
            std::uint64_t& offset, std::uint64_t& length) const;
  // Gives a group's chunks to the wave's sink, from the object's bytes that begin at `data_offset` and from the cache.
  // False: did nothing, since all chunks lie in `data`.
  bool give(Wave& wave, const TaskGroup& group, std::span<const std::byte> data, std::uint64_t data_offset,
            Worker& worker) const;
  // Caches the chunks that a store's answer contains whole. REQUIRES: the answer was checked.
  void keep(const Wave& wave, std::uint32_t group_index) const noexcept;
  // Caches that the object does not exist.
  void keep_absence(const TaskGroup& group, const Task& task) const noexcept;

 private:
  ChunkCache::Key key_of(const TaskGroup& group, const Task& task, const StoredVersion& version) const {
    const IndexKey key = plan_.index_key(group, task);
    return {key.object, key.offset, version};
  }
  ChunkCache::Found find(const TaskGroup& group, const Task& task, const StoredVersion& version) const;
  static void deliver_cached(Wave& wave, const TaskGroup& group, std::uint32_t task_index,
                             std::span<const std::byte> bytes, Worker& worker);
  void keep_chunk(const ChunkCache::Key& key, std::span<const std::byte> bytes) const noexcept;

  const Plan& plan_;
  ChunkCache* const cache_;
};

}  // namespace headrace::transfer
