// File, FileQueue: transfers between ordinary files and device memory, without any data format.
//
// A request is a list of ranges of one file and completes once. Each range takes the best path: from the page cache by
// the device itself (mapped), copied by CPU threads (buffered), or from the disk past the page cache (direct).
// FileStats counts the bytes of each path.
//
// Threads: a File may be used from any thread and by any number of queues. A FileQueue is used by one thread at a time;
//          it may move to another thread with requests in flight, and the first thread may end.
// Owns:    a File owns its descriptors; a FileQueue owns its staging memory and engine. The caller's device memory must
//          stay valid until its request has completed.
// Fails:   in a forked child, requests of an inherited queue end with kForked; the parent's requests continue
//          in the parent.
#pragma once

#include <headrace/cancel.h>
#include <headrace/context.h>
#include <headrace/device.h>
#include <headrace/export.h>
#include <headrace/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace headrace {

enum class Path : std::uint8_t {
  kAuto,      // chosen per range
  kDirect,    // O_DIRECT through the engine into pinned memory, then over the bus
  kBuffered,  // read from the page cache by threads into pinned memory, then over the bus
  kMapped,    // the device reads the page cache itself
};
HEADRACE_API std::string_view path_name(Path path) noexcept;       // "auto", "direct", "buffered", "mapped"
HEADRACE_API Result<Path> parse_path_name(std::string_view name);  // kInvalidArgument lists the choices

struct FileOptions {
  bool write = false;
  bool create = false;    // with write: create the file if it is missing
  bool truncate = false;  // with write
};

class HEADRACE_API File {
 public:
  // Opens a regular file or block device. kNotFound, kPermission, kInvalidArgument (a directory, a pipe).
  static Result<File> open(std::string_view path, const FileOptions& options = {});

  const std::string& path() const noexcept;
  Result<std::uint64_t> size_bytes() const;  // at the time of the call
  // fsync: on return, data and size are on stable storage.
  Status sync() const;

  class Impl;

 private:
  friend struct Access;
  explicit File(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// [offset, offset + bytes) of a file, to or from device memory.
struct FileRange {
  std::uint64_t offset_bytes = 0;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
};

// The first `bytes` bytes of the file at `path`. The file is opened for this read and must have at least that many.
struct PathRange {
  const char* path = nullptr;  // must stay valid until the request has completed
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
};

struct FileQueueOptions {
  Path path = Path::kAuto;                            // a fixed path is used wherever the system allows it
  unsigned depth = 128;                               // maximum direct requests in flight
  std::size_t staging_bytes = std::size_t{64} << 20;  // pinned memory of this queue
  bool network_direct = false;                        // use O_DIRECT on network file systems too
  void* native_stream = nullptr;                      // the caller's stream: requests start after the work queued there
  bool caller_reads = false;  // a thread in wait() itself reads from the page cache what no worker has started
  // Once asked, unfinished requests end with kCancelled: no further I/O starts, and I/O already in flight on disk and
  // device is waited for. Later requests are refused.
  std::optional<Cancel> cancel;
};

struct FileCompletion {
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;  // of the whole request if OK, else 0: a failed request promises nothing about its bytes
  Status status;
};

// Totals since the queue was created.
struct FileStats {
  std::uint64_t requests = 0;  // completed
  std::uint64_t ranges = 0;
  std::uint64_t waves = 0;         // batches of copies sent to the device
  std::uint64_t system_calls = 0;  // I/O system calls of the queue, including those of its worker threads
  // Bytes read from files, by path.
  std::uint64_t direct_bytes = 0;    // including alignment
  std::uint64_t straight_bytes = 0;  // of direct_bytes: straight into device memory, no host staging (engine gds)
  std::uint64_t buffered_bytes = 0;
  std::uint64_t mapped_bytes = 0;
  // Bytes written to files, by path.
  std::uint64_t written_direct_bytes = 0;
  std::uint64_t written_buffered_bytes = 0;
  std::uint64_t bus_bytes = 0;  // over the bus, in either direction
  std::string engine;           // the engine that direct ranges use
  std::string notes;            // why a path was not available, one reason per line
};

class HEADRACE_API FileQueue {
 public:
  static Result<FileQueue> create(const Context& context, const Device& device, const FileQueueOptions& options = {});
  FileQueue(FileQueue&&) noexcept;
  FileQueue& operator=(FileQueue&&) noexcept;
  ~FileQueue();  // waits for requests in flight

  // Each queues one request. Work starts at the next flush() or wait() at the latest. `ranges` is copied before the
  // call returns. Fails immediately, without a completion, for invalid arguments (kInvalidArgument), if memory runs
  // out, and after options.cancel was asked (kCancelled).
  Status read(const File& file, std::span<const FileRange> ranges, std::uint64_t tag);
  Status write(const File& file, std::span<const FileRange> ranges, std::uint64_t tag);
  Status read_paths(std::span<const PathRange> ranges, std::uint64_t tag);

  void flush();
  // Works until at least `at_least` completions (or all pending ones, if fewer) are stored in `out`, or `timeout` has
  // passed. Returns the number stored.
  std::size_t wait(std::span<FileCompletion> out, std::size_t at_least = 1,
                   std::chrono::nanoseconds timeout = std::chrono::hours(24 * 365));
  std::size_t pending() const noexcept;  // requests whose completion has not been taken

  FileStats stats() const;

  class Impl;

 private:
  friend struct Access;
  explicit FileQueue(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Blocking: runs one request on a queue of its own.
HEADRACE_API Status read_file(const Context& context, const Device& device, const File& file,
                              std::span<const FileRange> ranges, FileStats* stats = nullptr,
                              const std::optional<Cancel>& cancel = {});
HEADRACE_API Status write_file(const Context& context, const Device& device, const File& file,
                               std::span<const FileRange> ranges, FileStats* stats = nullptr,
                               const std::optional<Cancel>& cancel = {});

}  // namespace headrace
