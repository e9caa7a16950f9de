// QueueFiles: the files that a queue's requests read and write, and the last few that no request needs any more.
//
// Those are kept because what was found out about them is used again. Files that the program has let go of are the
// library's, and closed where somebody needs a descriptor.
//
// Threads: acquire(), release() and [] by one at a time, the queue's; the rest by any, meanwhile too. A file that a
//          request needs stays where it is.
//          In a forked child nothing waits for a lock, which a thread of the parent may hold for ever.
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
  // From now on what no request needs may be closed for others. Throws std::bad_alloc.
  void begin() { os::Descriptors::of_process().add(*this); }

  // For one request more. Throws std::bad_alloc, and has then changed nothing.
  Index acquire(const std::shared_ptr<os::FileHandle>& file);
  // One request less needs the file.
  void release(Index index) noexcept;
  // Lets go of all that no request needs.
  void drop_idle() noexcept;

  // REQUIRES: acquired. Until the next acquire().
  RoutedFile& operator[](Index index) noexcept { return files_[index]; }
  const RoutedFile& operator[](Index index) const noexcept { return files_[index]; }

 private:
  using ByHandle = std::unordered_map<const os::FileHandle*, Index>;
  struct Entry : RoutedFile {
    std::size_t requests = 0;
    std::uint64_t idle_since_ns = 0;  // while no request needs it
    ByHandle::node_type node;         // of by_handle_, while it names no file: used again
  };

  std::uint64_t oldest_ns() noexcept override;
  bool close_oldest() noexcept override;
  std::unique_lock<std::mutex> lock() noexcept;
  Index entry_of(const std::shared_ptr<os::FileHandle>& file);
  void let_go(Index index) noexcept;
  std::vector<Index>::iterator oldest_unclaimed() noexcept;

  const Resources& resources_;
  std::mutex mutex_;  // taken with the lock of Descriptors held; guards which files there are and which are idle
  std::vector<Entry> files_;
  ByHandle by_handle_;
  std::vector<Index> free_;  // name no file
  std::vector<Index> idle_;  // no request needs them, longest idle first; a few
};

}  // namespace headrace::transfer
