// CrewLane: what a queue reads and writes through the page cache, and files that are named by paths. The queue's thread
// does itself what takes no longer than handing it over; a FileCrew does the rest.
//
// Threads: one at a time, the queue's.
// Owns:    the crew. Parts and their memory are the queue's, and live until they were given to `arrived`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "transfer/files/file_part.h"

namespace headrace::transfer {

class CrewLane {
 public:
  // Room for `parts` under way. `wake` is called by a worker that has done something while sleeps_elsewhere() is set.
  // Throws std::bad_alloc.
  void open(WorkerPool& pool, MappedCache* mapped, std::shared_ptr<device::Device> device, std::size_t threads,
            std::size_t parts, std::function<void()> wake);
  bool is_open() const noexcept { return crew_ != nullptr; }
  // REQUIRES: nothing outstanding.
  void close() { crew_->close(); }

  void add(FilePart& part) { added_.push_back(&part); }
  // Starts what was added; what is done at once is appended to `arrived`. A single part of at most `lone_bytes` is, if
  // nothing else is outstanding.
  void start(std::uint64_t lone_bytes, std::vector<FilePart*>& arrived);
  // Appends what is done, and adds its system calls to `calls`; with `wait`, sleeps for up to `timeout` until something
  // is. False: nothing was.
  bool collect(bool wait, std::chrono::nanoseconds timeout, std::vector<FilePart*>& arrived, std::uint64_t& calls);
  std::size_t outstanding() const noexcept { return crew_->outstanding(); }
  // Carries out a part that no worker has begun; false if there is none.
  bool help() { return crew_->help(); }

  // No thread stays awake for nothing while the disk is at work.
  void set_quiet(bool quiet) noexcept { crew_->quiet.store(quiet, std::memory_order_relaxed); }
  void sleeps_elsewhere(bool does) noexcept {
    crew_->notify_elsewhere.store(does, does ? std::memory_order_release : std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<FileCrew> crew_;
  std::vector<FilePart*> added_, collected_;
};

}  // namespace headrace::transfer
