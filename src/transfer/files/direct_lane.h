// DirectLane: a queue's reads and writes that bypass the page cache, by an I/O engine of its own that is made on first
// use.
//
// Threads: one at a time, the queue's; wake() by any.
// Owns:    the engine and its queue. Parts and their memory belong to the queue, and live until reap() has returned
//          them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "io/request_queue.h"
#include "os/direct_align.h"
#include "transfer/fetch/register_later.h"
#include "transfer/files/file_part.h"
#include "transfer/pagecache/router.h"

namespace headrace::transfer {

class DirectLane {
 public:
  // Makes room for `parts` in flight. Throws std::bad_alloc.
  void reserve(std::size_t parts);
  // Whether there is an engine. The first call makes it; a failure is recorded as a note. `to_device`: if not null,
  // parts may lie in its memory where the engine supports that.
  bool open(const std::string& engine, unsigned depth, device::Device* to_device, Notes& notes) noexcept;
  // Destroys the engine; the next open() makes another, perhaps on another thread. REQUIRES: nothing in flight.
  void close() noexcept;

  // Whether parts may lie in the device's memory. REQUIRES: open() returned true.
  bool reaches_device() const noexcept { return engine_->info().reaches_device_memory; }

  // Adds a part. `range` is the part widened to the alignment, in the file open as `fd`; it is transferred to or from
  // memory that begins range.lead_bytes before part.host. REQUIRES: open() returned true.
  void add(FilePart& part, int fd, const os::WidenedRange& range, std::uint32_t alignment_bytes);
  // Starts the added parts. `wait_follows`: the caller calls reap() next, which may submit and wait in one system call.
  // False: nothing was added.
  bool start(bool wait_follows, std::span<std::byte> slab);
  // Appends completed parts to `out`, with status and bytes; waits up to `timeout` for the first.
  std::size_t reap(std::vector<FilePart*>& out, std::chrono::nanoseconds timeout);
  std::size_t in_flight() const noexcept { return in_flight_; }  // including added parts
  std::uint64_t reaped_ns() const noexcept { return reaped_ns_; }
  // Makes reap() return if it waits on the queue's thread.
  void wake() const { engine_->wake(); }

  std::string name() const { return engine_ != nullptr ? engine_->info().name : std::string(); }
  std::uint64_t system_calls() const { return ended_calls_ + (engine_ != nullptr ? engine_->system_calls() : 0); }

 private:
  Status make(const std::string& engine, unsigned depth, device::Device* to_device, Notes& notes);

  std::unique_ptr<io::Engine> engine_;
  std::optional<io::RequestQueue> queue_;
  bool failed_ = false;
  RegisterLater registering_;
  std::vector<io::Request> added_;
  std::vector<io::RequestResult> ended_;
  std::size_t room_ = 0, in_flight_ = 0;
  std::uint64_t reaped_ns_ = 0, ended_calls_ = 0;  // ended_calls_: of engines that were closed
};

}  // namespace headrace::transfer
