// KeptFiles: chunk files of a store that stay open between reads, since reads of an array often return to them.
//
// A kept descriptor says nothing about what its name leads to now. So a user looks the name up and compares the result
// with the identity the file had when it was opened. If they are equal, it is the same unchanged file (permissions
// included), and nothing needs to be opened. Keys are therefore stored only as hashes: on a collision, the identity
// exposes the wrong file.
//
// The files count among the library's descriptors; all KeptFiles together have half of them. A file used within the
// last seconds is not evicted for another: otherwise reads of more files than there is room for would keep none.
// While new files arrive, files unused for a minute are closed, since they may have been deleted and would keep
// occupying the disk.
//
// Threads: every call from any thread; lock-free except when the table grows.
// Owns:    the descriptors of its files, closed on destruction; until then they may be in use.
// Fails:   never: without room, memory or descriptor, a file is simply not kept. A forked child keeps no files: it has
//          its own copies of the descriptors, closes them on destruction and uses none of them.
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
  // Takes memory from `budget` (may be null) only while most of it is unused.
  explicit KeptFiles(std::shared_ptr<base::MemoryBudget> budget) noexcept : memory_(std::move(budget)) {}
  KeptFiles(const KeptFiles&) = delete;
  KeptFiles& operator=(const KeptFiles&) = delete;
  ~KeptFiles();

  // One kept file. Its descriptor and identity do not change while it is in use.
  class File {
   public:
    int fd() const noexcept { return fd_; }
    const os::FileIdentity& identity() const noexcept { return identity_; }

   private:
    friend class KeptFiles;
    std::atomic<std::uint32_t> state_{0};  // kKept, kDropped or kBusy, and the number of users
    int fd_ = -1;
    os::FileIdentity identity_;
    std::atomic<std::uint64_t> used_ns_{0};
    std::atomic<std::uint64_t>* tag_ = nullptr;  // tag of its way
  };

  static std::uint64_t tag_of(std::string_view key) noexcept;  // never 0
  // In use until give_back(). Null: no file is kept under that tag.
  File* find(std::uint64_t tag) noexcept;
  // Takes ownership of a descriptor; in use until give_back(). Null: it is not kept and stays the caller's.
  File* keep(std::uint64_t tag, int fd, const os::FileIdentity& identity) noexcept;
  void give_back(File& file) noexcept;
  // For a file that has changed, or whose name leads elsewhere: it is no longer found, and is closed once no reader
  // uses it. REQUIRES: the caller uses it.
  void drop(File& file) noexcept;

  std::uint64_t oldest_ns() noexcept override;
  bool close_oldest() noexcept override;
  bool in_kept_share() const noexcept override { return true; }

 private:
  // A set-associative table: the tag chooses a set, and a file is in one of its ways. A set's tags are one cache line.
  static constexpr std::size_t kWays = 8;
  struct alignas(64) Set {
    std::array<std::atomic<std::uint64_t>, kWays> tags{};
    std::array<File, kWays> files;
  };
  // When all ways of a tag are taken, a further table is added. Earlier tables stay, so nothing ever moves.
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
  File* claim_idle(std::uint64_t tag) noexcept;
  bool grow(std::size_t tables) noexcept;
  std::size_t sets_of(std::size_t tables) const noexcept;
  Set& set_at(std::size_t number, std::size_t tables) const noexcept;
  File* look_for_oldest() noexcept;

  const std::uint64_t fork_generation_ = base::fork_generation();
  std::array<Table, kTables> tables_;
  std::atomic<std::size_t> table_count_{0};
  std::atomic<std::size_t> hand_{0};             // set at which the next search for old files starts
  std::atomic<std::uint64_t> full_until_ns_{0};  // until then no descriptor is expected to be available
  std::mutex mutex_;                             // for the tables' growth
  bool listed_ = false;                          // guarded by mutex_: registered as a keeper
  base::Charge memory_;                          // guarded by mutex_
};

}  // namespace headrace::store
