// CrewLane: a queue's reads and writes through the page cache, and its files named by paths. The queue's thread itself
// performs small transfers, for which a hand-over would take longer; a FileCrew performs the rest.
//
// Threads: one at a time, the queue's.
// Owns:    the crew. Parts and their memory belong to the queue, and live until they have been appended to `arrived`.
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
  // Makes room for `parts` in flight. A worker that completes a part while sleeps_elsewhere() is set calls `wake`.
  // Throws std::bad_alloc.
  void open(WorkerPool& pool, MappedCache* mapped, std::shared_ptr<device::Device> device, std::size_t threads,
            std::size_t parts, std::function<void()> wake);
  bool is_open() const noexcept { return crew_ != nullptr; }
  // REQUIRES: nothing outstanding.
  void close() { crew_->close(); }

  void add(FilePart& part) { added_.push_back(&part); }
  // Starts the added parts; parts that complete at once are appended to `arrived`. A single part of at most
  // `lone_bytes` completes at once if nothing else is outstanding.
  void start(std::uint64_t lone_bytes, std::vector<FilePart*>& arrived);
  // Appends completed parts, and adds their system calls to `calls`; with `wait`, sleeps for up to `timeout` until a
  // part completes. False: none was completed.
  bool collect(bool wait, std::chrono::nanoseconds timeout, std::vector<FilePart*>& arrived, std::uint64_t& calls);
  std::size_t outstanding() const noexcept { return crew_->outstanding(); }
  // Performs a part that no worker has started; false if there is none.
  bool help() { return crew_->help(); }

  // Stops idle threads from spinning while the disk is busy.
  void set_quiet(bool quiet) noexcept { crew_->quiet.store(quiet, std::memory_order_relaxed); }
  void sleeps_elsewhere(bool does) noexcept {
    crew_->notify_elsewhere.store(does, does ? std::memory_order_release : std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<FileCrew> crew_;
  std::vector<FilePart*> added_, collected_;
};

}  // namespace headrace::transfer
