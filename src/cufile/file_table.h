// FileTable: registered files by handle.
//
// A handle is not an address: it names a slot and the generation of its content. So a closed or invalid handle is
// detected without accessing memory that it might point to.
//
// Threads: every call from any thread; acquire() and release() are lock-free.
// Owns:    the files; a closed one lives until its last user has released it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cufile/cufile_api.h"
#include "os/file_handle.h"

namespace headrace::cufile {

class Session;

struct OpenFile {
  std::shared_ptr<os::FileHandle> file;
  std::shared_ptr<Session> session;  // kept alive while the file is in use
  int descriptor = -1;               // the caller's
};

class FileTable {
 public:
  FileTable() = default;
  FileTable(const FileTable&) = delete;
  FileTable& operator=(const FileTable&) = delete;

  // CU_FILE_HANDLE_ALREADY_REGISTERED for a descriptor number that is in the table. Throws std::bad_alloc.
  CUfileOpError add(OpenFile file, CUfileHandle_t& handle);
  bool close(CUfileHandle_t handle) noexcept;
  void close_all() noexcept;

  // A use of a registered file, released on destruction.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept : table_(other.table_), slot_(other.slot_) { other.table_ = nullptr; }
    Use& operator=(Use&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(slot_, other.slot_);
      return *this;
    }
    ~Use() {
      if (table_ != nullptr) table_->release(slot_);
    }
    explicit operator bool() const noexcept { return table_ != nullptr; }
    const OpenFile& operator*() const noexcept;
    const OpenFile* operator->() const noexcept { return &**this; }

   private:
    friend class FileTable;
    Use(FileTable* table, std::size_t slot) : table_(table), slot_(slot) {}
    FileTable* table_ = nullptr;
    std::size_t slot_ = 0;
  };
  // CU_FILE_HANDLE_NOT_REGISTERED: it was a handle once; CU_FILE_INVALID_VALUE: it never was one.
  CUfileOpError acquire(CUfileHandle_t handle, Use& use) noexcept;
  bool empty() const noexcept { return open_.load(std::memory_order_relaxed) == 0; }

 private:
  static constexpr std::size_t kChunk = 256, kChunks = 4096;
  static constexpr std::uint64_t kOpen = std::uint64_t{1} << 31, kUsers = kOpen - 1;
  struct Slot {
    std::atomic<std::uint64_t> word{0};  // generation, open, users
    OpenFile file;
    int descriptor = -1;  // guarded by mutex_
  };
  Slot* slot(std::size_t index) const noexcept;
  void release(std::size_t index) noexcept;
  void empty_slot(std::size_t index, Slot& slot) noexcept;
  bool close_slot(std::size_t index, std::uint64_t generation) noexcept;

  std::array<std::atomic<Slot*>, kChunks> chunks_{};  // never freed: a stale handle may be looked up at any time
  std::atomic<std::size_t> open_{0};
  std::mutex mutex_;
  std::size_t slots_ = 0;                               // guarded by mutex_
  std::vector<std::size_t> free_;                       // guarded by mutex_
  std::unordered_map<int, std::size_t> by_descriptor_;  // guarded by mutex_: open ones
};

}  // namespace headrace::cufile
