// KeptFiles: chunk files of a store that stay open between reads, because reads of an array come back to them.
//
// A kept descriptor says nothing of what its name leads to by now. Who takes one out asks that, and compares the answer
// with the identity that the file had when it was opened: equal, it is that very file, unchanged, its permissions
// included, and nothing has to be opened. Keys are therefore known by a hash alone: where two have the same, the wrong
// file's identity gives it away.
//
// The files count among the library's descriptors, of which all KeptFiles have half. One that has been used within the
// last seconds is not closed for another file: reads of more files than there is room for would keep none of them. As
// long as new files come, those that were not used for a minute are closed: they may have been removed since, and then
// take up their place on the disk until they are.
//
// Threads: every call from any thread, without locks but where the table grows.
// Owns:    the descriptors of its files, closed on destruction; until then they may be in use.
// Fails:   never: where there is no room, memory or descriptor, a file is not kept. Nor is one in a forked child, which
//          has its own copies of the descriptors, closes them on destruction and uses none of them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/fork.h"
#include "base/memory_budget.h"
#include "os/descriptors.h"
#include "os/file_handle.h"

namespace headrace::store {

class KeptFiles final : public os::DescriptorKeeper {
 public:
  // Of `budget`, which may be null, it takes memory while most of it is unused.
  explicit KeptFiles(std::shared_ptr<base::MemoryBudget> budget) noexcept : memory_(std::move(budget)) {}
  KeptFiles(const KeptFiles&) = delete;
  KeptFiles& operator=(const KeptFiles&) = delete;
  ~KeptFiles();

  // What is kept of one file. Its descriptor and identity do not change while somebody uses it.
  class File {
   public:
    int fd() const noexcept { return fd_; }
    const os::FileIdentity& identity() const noexcept { return identity_; }

   private:
    friend class KeptFiles;
    std::atomic<std::uint32_t> state_{0};  // kKept or kDropped, or kBusy, and by how many it is used
    int fd_ = -1;
    os::FileIdentity identity_;
    std::atomic<std::uint64_t> used_ns_{0};
    std::atomic<std::uint64_t>* tag_ = nullptr;  // of its way
  };

  static std::uint64_t tag_of(std::string_view key) noexcept;  // never 0
  // In use until give_back(); null: nothing is kept by that tag.
  File* find(std::uint64_t tag) noexcept;
  // Takes over a descriptor, in use until give_back(). Null: it is not kept, and stays the caller's.
  File* keep(std::uint64_t tag, int fd, const os::FileIdentity& identity) noexcept;
  void give_back(File& file) noexcept;
  // Its name leads elsewhere, or the file has changed: it is not found any more, and closed once nobody uses it.
  // REQUIRES: the caller uses it.
  void drop(File& file) noexcept;

  std::uint64_t oldest_ns() noexcept override;
  bool close_oldest() noexcept override;
  bool in_kept_half() const noexcept override { return true; }

 private:
  // A file is in one of the ways of a set, which its tag chooses. Tags of a set are one cache line.
  static constexpr std::size_t kWays = 8;
  struct alignas(64) Set {
    std::array<std::atomic<std::uint64_t>, kWays> tags{};
    std::array<File, kWays> files;
  };
  // Where the ways of a tag are all taken, the next table is made. Those before stay, so that nothing ever moves.
  struct Table {
    std::unique_ptr<Set[]> sets;
    std::size_t set_count = 0;
    Set& set_of(std::uint64_t tag) const noexcept { return sets[static_cast<std::size_t>(tag >> 8) & (set_count - 1)]; }
  };
  static constexpr std::size_t kTables = 4, kFirstSets = 32, kGrowth = 4;  // 21,760 files

  static bool use(File& file) noexcept;
  void close(File& file) noexcept;
  bool close_idle(File& file) noexcept;
  void sweep(std::uint64_t now_ns) noexcept;
  File* claim_free(std::uint64_t tag, std::size_t first_table) noexcept;
  File* claim_rested(std::uint64_t tag) noexcept;
  bool grow(std::size_t tables) noexcept;
  std::size_t sets_of(std::size_t tables) const noexcept;
  Set& set_at(std::size_t number, std::size_t tables) const noexcept;
  File* look_for_oldest() noexcept;

  const std::uint64_t fork_generation_ = base::fork_generation();
  std::array<Table, kTables> tables_;
  std::atomic<std::size_t> table_count_{0};
  std::atomic<std::size_t> hand_{0};             // the set where the next search for old files begins
  std::atomic<std::uint64_t> full_until_ns_{0};  // as far as is known no descriptor is to be had before
  std::mutex mutex_;                             // of what grows
  bool listed_ = false;                          // guarded by mutex_: as a keeper
  base::Charge memory_;                          // guarded by mutex_
};

}  // namespace headrace::store
