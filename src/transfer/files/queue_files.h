// QueueFiles: the files that a queue's requests use, and the last few that no request uses any more.
//
// Those are kept because what the router has learnt about them is useful again. Files that the program has released
// belong to the library, which closes them when a descriptor is needed.
//
// Threads: acquire(), release() and [] by one thread at a time, the queue's; the rest by any, concurrently. A file that
//          a request uses stays at its index.
//          In a forked child no lock is taken, since a thread of the parent may hold it for ever.
// Owns:    a share of each file.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "os/descriptors.h"
#include "os/file_handle.h"
#include "transfer/context/resources.h"
#include "transfer/pagecache/router.h"

namespace headrace::transfer {

class QueueFiles final : private os::DescriptorKeeper {
 public:
  using Index = std::uint32_t;

  explicit QueueFiles(const Resources& resources) noexcept : resources_(resources) {}
  ~QueueFiles();
  // Lets idle files be closed for others from now on. Throws std::bad_alloc.
  void begin() { os::Descriptors::of_process().add(*this); }

  // Adds a request that uses the file. If it throws std::bad_alloc, nothing has changed.
  Index acquire(const std::shared_ptr<os::FileHandle>& file);
  // A request no longer uses the file.
  void release(Index index) noexcept;
  // Releases all files that no request uses.
  void drop_idle() noexcept;

  // REQUIRES: acquired. The reference is valid until the next acquire().
  RoutedFile& operator[](Index index) noexcept { return files_[index]; }
  const RoutedFile& operator[](Index index) const noexcept { return files_[index]; }

 private:
  using ByHandle = std::unordered_map<const os::FileHandle*, Index>;
  struct Entry : RoutedFile {
    std::size_t requests = 0;
    std::uint64_t idle_since_ns = 0;  // while no request uses it
    ByHandle::node_type node;         // of by_handle_, kept for reuse while the entry names no file
  };

  std::uint64_t oldest_ns() noexcept override;
  bool close_oldest() noexcept override;
  std::unique_lock<std::mutex> lock() noexcept;
  Index entry_of(const std::shared_ptr<os::FileHandle>& file);
  void close_entry(Index index) noexcept;
  std::vector<Index>::iterator oldest_unclaimed() noexcept;

  const Resources& resources_;
  std::mutex mutex_;  // taken with the lock of Descriptors held; guards which files exist and which are idle
  std::vector<Entry> files_;
  ByHandle by_handle_;
  std::vector<Index> free_;  // entries without a file
  std::vector<Index> idle_;  // not used by any request, longest idle first; a few
};

}  // namespace headrace::transfer
