// DirectLane: what a queue reads and writes past the page cache, by an I/O engine of its own that is made for the first
// of it.
//
// Threads: one at a time, the queue's; wake() by any.
// Owns:    engine and its queue. Parts and their memory are the queue's, and live until reap() has named them.
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
  // Room for `parts` under way. Throws std::bad_alloc.
  void reserve(std::size_t parts);
  // Whether there is an engine. Makes it, where that was not tried before; why there is none becomes a note.
  // `to_device`, if not null: parts may lie in its memory, where the engine reaches it.
  bool open(const std::string& engine, unsigned depth, device::Device* to_device, Notes& notes) noexcept;
  // Ends the engine; the next open() makes another, perhaps on another thread. REQUIRES: nothing in flight.
  void close() noexcept;

  // Whether parts may lie in the device's memory. REQUIRES: open() was true.
  bool reaches_device() const noexcept { return engine_->info().reaches_device_memory; }

  // `range` of the file that `fd` has open holds the part, and memory range.lead_bytes before part.host is the
  // place for it. REQUIRES: open() was true.
  void add(FilePart& part, int fd, const os::WidenedRange& range, std::uint32_t alignment_bytes);
  // Starts what was added. `wait_follows`: the reap() that comes next may do it in the same call. False: there is
  // nothing.
  bool start(bool wait_follows, std::span<std::byte> slab);
  // Appends to `out` what has ended, with status and bytes; waits for the first for up to `timeout`.
  std::size_t reap(std::vector<FilePart*>& out, std::chrono::nanoseconds timeout);
  std::size_t in_flight() const noexcept { return in_flight_; }  // with those that were added
  std::uint64_t reaped_ns() const noexcept { return reaped_ns_; }
  // Ends the reap() that waits on the queue's thread.
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
