// FetchTable: the ranges that reads of this process are fetching, and those that are fetched but not yet on the disk.
// A second read of such a range waits for the first instead of making a request of its own.
//
// The first read of a range leads its fetch. It ends the fetch exactly once: by end(), pass_on() or fetched(). Whoever
// gets waiting reads back from one of these resumes them. A waiting read occupies no thread.
//
// Threads: every call from any thread. One mutex, taken for each request to a store and never for a cached range.
// Owns:    nothing of the reads, which stay in place while they lead or wait. Ranges in memory are shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cache/cache_task.h"
#include "cache/keyed_hash.h"
#include "cache/segment_format.h"

namespace headrace::cache {

// The bytes of a range and their version.
struct FetchedRange {
  CacheKey id;
  std::uint64_t object_bytes = 0;  // size of the whole object
  std::string version;
  std::unique_ptr<std::byte[]> memory;  // holds the record's head, the data, and the padding
  std::size_t capacity = 0, data_bytes = 0;
  bool in_table = false;  // a FetchTable has it

  std::span<const std::byte> data() const noexcept { return {memory.get() + sizeof(RecordHead), data_bytes}; }
};

class FetchTable {
 public:
  // A read that may wait. `store`, `object`, `owner` and `version` stay unchanged while it leads or waits.
  class Reader : public CacheTask {
   public:
    CacheKey store, object;         // close() names fetches by them
    const void* owner = nullptr;    // reads of one owner have the same access to the store
    std::string_view version;       // the version that it must get; empty: any
    Reader* next_reader = nullptr;  // in a list of waiting reads

    // Used by the table, under its mutex.
    CacheKey waits_for;
    bool waits = false;
    Reader* previous_reader = nullptr;  // while it waits

   protected:
    ~Reader() = default;
  };

  enum class Turn : std::uint8_t {
    kLeads,    // the read makes the request, and ends the fetch
    kBusy,     // another read makes it; wait() may join it
    kFetched,  // the bytes are in memory
    kUnknown,  // another owner's read makes it: first find out what this owner may read
    kAlone,    // the read makes the request for itself only
  };
  // What a read of range `id` does. `trusts`: whether it knows that it may read what other owners fetch. A fetch that
  // began before `since_ns` is not joined. For kFetched, `range` gets the bytes.
  Turn begin(const CacheKey& id, const Reader& reader, bool trusts, std::uint64_t now_ns, std::uint64_t since_ns,
             std::shared_ptr<const FetchedRange>& range) noexcept;
  // Joins the fetch if begin() would return kBusy. After true the read may be resumed at any time.
  bool wait(const CacheKey& id, Reader& reader, bool trusts, std::uint64_t since_ns) noexcept;
  // The read no longer waits. False: it did not, or it is being resumed.
  bool leave(Reader& reader) noexcept;

  // For the leader. Each returns waiting reads, linked by next_reader.
  Reader* end(const CacheKey& id) noexcept;
  // The first waiting read leads from now on; null if there is none, and the fetch is over.
  Reader* pass_on(const CacheKey& id, std::uint64_t now_ns) noexcept;
  // The bytes are in memory, for all reads until landed().
  Reader* fetched(const CacheKey& id, std::shared_ptr<const FetchedRange> range) noexcept;
  // The range in memory is on the disk, or will not be. True: a read got it in the meantime, and may still use it.
  bool landed(const CacheKey& id) noexcept;

  // The object, or anything of the store, may have changed: reads that come later do not join present fetches.
  void close_object(const CacheKey& object) noexcept;
  void close_store(const CacheKey& store) noexcept;

 private:
  struct Fetch {
    CacheKey store, object;
    const void* owner = nullptr;
    std::string_view version;
    std::uint64_t began_ns = 0;
    bool closed = false, handed_out = false;
    Reader *first = nullptr, *last = nullptr;
    std::shared_ptr<const FetchedRange> range;  // not null: fetched
  };
  struct HashOfKey {
    std::size_t operator()(const CacheKey& key) const noexcept { return key.low; }
  };
  using Fetches = std::unordered_map<CacheKey, Fetch, HashOfKey>;

  static Turn turn_of(const Fetch& fetch, const Reader& reader, bool trusts, std::uint64_t since_ns) noexcept;
  static void lead(Fetch& fetch, const Reader& reader, std::uint64_t now_ns) noexcept;
  static Reader* take_all(Fetch& fetch) noexcept;
  void erase(Fetches::iterator at) noexcept;

  std::mutex mutex_;
  Fetches fetches_;                        // guarded by mutex_
  std::vector<Fetches::node_type> spare_;  // guarded by mutex_; so that a fetch allocates nothing
};

}  // namespace headrace::cache
