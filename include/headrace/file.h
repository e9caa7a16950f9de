// File, FileQueue: bytes between ordinary files and device memory, without any format.
//
// A request is a list of ranges of one file and completes once. Each range takes the best path for it: straight from
// the page cache by the device itself (mapped), copied by CPU threads (buffered), or from the disk past the page cache
// (direct). Stats say how many bytes took which.
//
// Threads: a File may be used from any thread and by any number of queues. A FileQueue is used by one thread at a time;
//          it may pass to another with requests under way, and the first may end.
// Owns:    a File its descriptors; a FileQueue its staging memory and engine. The caller's device memory must stay
//          valid until its request has completed.
// Fails:   in a forked child requests of an inherited queue end as kForked; what the parent has under way goes on
// there.
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
  kAuto,      // chosen for each range
  kDirect,    // O_DIRECT through the engine into pinned memory, then over the bus
  kBuffered,  // page-cache reads by threads into pinned memory, then over the bus
  kMapped,    // the device takes the bytes out of the page cache itself
};
HEADRACE_API std::string_view path_name(Path path) noexcept;       // "auto", "direct", "buffered", "mapped"
HEADRACE_API Result<Path> parse_path_name(std::string_view name);  // kInvalidArgument names the choices

struct FileOptions {
  bool write = false;
  bool create = false;    // with write: make it if it is missing
  bool truncate = false;  // with write
};

class HEADRACE_API File {
 public:
  // Regular files and block devices. kNotFound, kPermission, kInvalidArgument (a directory, a pipe).
  static Result<File> open(std::string_view path, const FileOptions& options = {});

  const std::string& path() const noexcept;
  Result<std::uint64_t> size_bytes() const;  // now
  // fsync: data and size are on the device's stable storage.
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

// The first `bytes` bytes of the file at `path`, which is opened for this read; at least so many must be there.
struct PathRange {
  const char* path = nullptr;  // must stay valid until the request has completed
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
};

struct FileQueueOptions {
  Path path = Path::kAuto;                            // a fixed path is taken wherever the system allows it
  unsigned depth = 128;                               // direct requests in flight at most
  std::size_t staging_bytes = std::size_t{64} << 20;  // pinned memory of this queue
  bool network_direct = false;                        // O_DIRECT on network file systems, too
  void* native_stream = nullptr;                      // the caller's stream: requests start after what is queued there
  bool caller_reads = false;  // a thread in wait() reads from the page cache itself what no worker has begun
  // Once it is asked, requests that have not ended end with kCancelled: nothing more of them is begun, and what disk
  // and device have under way is waited for. What is queued later is refused.
  std::optional<Cancel> cancel;
};

struct FileCompletion {
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;  // of the whole request if OK, else 0: nothing is claimed of a request that failed
  Status status;
};

// Sums since the queue was made.
struct FileStats {
  std::uint64_t requests = 0;  // completed
  std::uint64_t ranges = 0;
  std::uint64_t waves = 0;         // batches of copies sent to the device
  std::uint64_t system_calls = 0;  // that the queue made for I/O, its worker threads' included
  // Bytes read from files, by path
  std::uint64_t direct_bytes = 0;    // alignment included
  std::uint64_t straight_bytes = 0;  // of direct_bytes: into device memory without a stop in the host's (engine gds)
  std::uint64_t buffered_bytes = 0;
  std::uint64_t mapped_bytes = 0;
  // Bytes written to files, by path
  std::uint64_t written_direct_bytes = 0;
  std::uint64_t written_buffered_bytes = 0;
  std::uint64_t bus_bytes = 0;  // over the bus, either way
  std::string engine;           // used by direct ranges
  std::string notes;            // why a path was not available, one line each
};

class HEADRACE_API FileQueue {
 public:
  static Result<FileQueue> create(const Context& context, const Device& device, const FileQueueOptions& options = {});
  FileQueue(FileQueue&&) noexcept;
  FileQueue& operator=(FileQueue&&) noexcept;
  ~FileQueue();  // waits for what is in flight

  // Queue one request each; work starts with the next flush() or wait() at the latest. `ranges` is read before the call
  // returns.
  // Fails at once, without a completion, for arguments that are wrong in themselves (kInvalidArgument), for want of
  // memory, and after options.cancel was asked (kCancelled).
  Status read(const File& file, std::span<const FileRange> ranges, std::uint64_t tag);
  Status write(const File& file, std::span<const FileRange> ranges, std::uint64_t tag);
  Status read_paths(std::span<const PathRange> ranges, std::uint64_t tag);

  void flush();
  // Works until at least `at_least` completions (or all that are pending, if fewer) are stored or `timeout` has passed;
  // returns how many were stored.
  std::size_t wait(std::span<FileCompletion> out, std::size_t at_least = 1,
                   std::chrono::nanoseconds timeout = std::chrono::hours(24 * 365));
  std::size_t pending() const noexcept;  // requests without a completion yet taken

  FileStats stats() const;

  class Impl;

 private:
  friend struct Access;
  explicit FileQueue(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Blocking: one request on a queue made for it.
HEADRACE_API Status read_file(const Context& context, const Device& device, const File& file,
                              std::span<const FileRange> ranges, FileStats* stats = nullptr,
                              const std::optional<Cancel>& cancel = {});
HEADRACE_API Status write_file(const Context& context, const Device& device, const File& file,
                               std::span<const FileRange> ranges, FileStats* stats = nullptr,
                               const std::optional<Cancel>& cancel = {});

}  // namespace headrace
