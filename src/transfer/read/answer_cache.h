// AnswerCache: what stores without files have answered, chunk by chunk, in the host's memory: a later read takes it
// from there, whoever decodes it.
//
// Threads: every call from any thread, for different groups.
// Owns:    nothing; the cache is its reader's.
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
  // Everything outlives it. cache: null: nothing is kept.
  AnswerCache(const Plan& plan, ChunkCache* cache) noexcept : plan_(plan), cache_(cache) {}

  // Whether a chunk that has a version is to be asked for as a whole, since it will be kept.
  bool takes_more() const noexcept { return cache_ != nullptr && cache_->takes_more(); }
  // Gives the chunks of a group to the wave's sink, where all of them are there. `version`: nothing: they are not kept.
  bool take(Wave& wave, const TaskGroup& group, const std::optional<StoredVersion>& version, Worker& worker) const;
  // Takes chunks that are there off both ends of a group's range [offset, offset + length), which is then to be given
  // by give().
  void trim(const Wave& wave, const TaskGroup& group, const std::optional<StoredVersion>& version,
            std::uint64_t& offset, std::uint64_t& length) const;
  // Gives the chunks of a group to the wave's sink, out of the object's bytes from `data_offset` on, and those that are
  // there. False: all lie in `data`.
  bool give(Wave& wave, const TaskGroup& group, std::span<const std::byte> data, std::uint64_t data_offset,
            Worker& worker) const;
  // Keeps what a store's answer has as a whole. The answer was checked.
  void keep(const Wave& wave, std::uint32_t group_index) const noexcept;
  // Keeps that there is no such object.
  void keep_absence(const TaskGroup& group, const Task& task) const noexcept;

 private:
  ChunkCache::Key key_of(const TaskGroup& group, const Task& task, const StoredVersion& version) const {
    const IndexKey key = plan_.index_key(group, task);
    return {key.object, key.offset, version};
  }
  ChunkCache::Found find(const TaskGroup& group, const Task& task, const StoredVersion& version) const;
  static void give_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, std::span<const std::byte> bytes,
                        Worker& worker);
  void keep_chunk(const ChunkCache::Key& key, std::span<const std::byte> bytes) const noexcept;

  const Plan& plan_;
  ChunkCache* const cache_;
};

}  // namespace headrace::transfer
