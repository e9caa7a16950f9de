// StreamOperation: one read or write that runs when a stream reaches it.
//
// Host memory takes one host call on the stream. Device memory is staged: host calls that read the file into pinned
// memory (or write it from there) alternate on the stream with kernels that move the bytes according to a list in the
// same memory. So no thread has to call the device while the stream waits, and a graph can run the operation again.
//
// The first host call reads the values behind the caller's pointers; the number of host calls is fixed by the size at
// queueing time.
//
// Threads: made and queued by one thread; then used by the stream's host calls, one after another. Executables of one
//          graph share the operation: if they run at the same time the result is an error, and no other memory is
//          touched.
// Owns:    itself once it is queued: the last host call deletes it, unless a graph may run it again.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "cufile/io_call.h"
#include "cufile/stream_table.h"

namespace headrace::cufile {

struct StreamArguments {
  void* base = nullptr;
  const size_t* size = nullptr;
  const off_t* file_offset = nullptr;
  const off_t* offset = nullptr;
  ssize_t* result = nullptr;
  unsigned fixed = 0;  // CU_FILE_STREAM_FIXED_*: values read at queueing time
};

class StreamOperation {
 public:
  StreamOperation(Driver& driver, FileTable::Use file, const StreamArguments& arguments, bool write);
  ~StreamOperation();
  StreamOperation(const StreamOperation&) = delete;
  StreamOperation& operator=(const StreamOperation&) = delete;

  // `device`: the stream's.
  static CUfileOpError queue(std::unique_ptr<StreamOperation> operation, const std::shared_ptr<device::Device>& device,
                             void* stream);

 private:
  static constexpr std::size_t kChunkBytes = std::size_t{4} << 20;
  struct PartCall {
    StreamOperation* operation;
    std::size_t chunk;
  };
  Status queue_staged(device::Device& device, void* stream);
  void begin() noexcept;  // the first host call on the stream
  std::size_t chunk_bytes(std::size_t chunk) const noexcept;
  void list_pieces(std::size_t chunk, std::size_t bytes) noexcept;  // the list that the kernel works on
  void move_chunk(std::byte* memory, std::size_t bytes) noexcept;   // between file and host memory
  void finish() noexcept;

  static void on_whole(void* step);
  static void on_read(void* step);
  static void on_prepare(void* step);
  static void on_write(void* step);
  static void on_finish(void* step);

  Driver& driver_;
  FileTable::Use file_;
  const StreamArguments arguments_;
  const bool write_;
  const std::size_t max_;  // bytes, at queueing time
  const off_t fixed_file_offset_, fixed_offset_;
  const device::MemoryPlace place_;
  bool kept_ = false;  // for a graph
  StreamSlab slab_;
  std::span<device::Piece> list_;  // in the slab, after the bytes
  std::vector<PartCall> steps_;    // one per chunk
  std::atomic<int> running_{0};
  std::atomic<bool> shared_{false};  // several runs overlap; until the last of them has ended
  // State of one run
  Target target_;
  std::size_t size_ = 0;
  off_t file_offset_ = 0;
  std::uint64_t done_ = 0;
  Outcome outcome_;
  bool ended_ = false;  // by a failure, or at the end of the file
  std::uint64_t started_ns_ = 0;
  PathBytes paths_;
};

}  // namespace headrace::cufile
