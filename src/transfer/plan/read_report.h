// ReadReport: progress and outcome of a read: the first reason to stop, the failed chunks and the counts.
//
// Workers count in Stats of their own, which are added once, at the end.
//
// Threads: every call from any thread, except add() to errors(), which belong to the thread that ends the read. Its
//          lock is last in the lock order: callers may hold theirs.
#pragma once

#include <headrace/array.h>
#include <headrace/stats.h>
#include <headrace/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/box.h"
#include "transfer/plan/plan.h"

namespace headrace::transfer {

class ReadReport {
 public:
  using Progress = std::function<void(std::uint64_t chunks_done, std::uint64_t chunks)>;

  // `progress` is called with the number of the read's finished chunks, and must outlive the report; null: not called.
  ReadReport(const Progress& progress, bool collect_errors, std::uint64_t start_ns)
      : progress_(progress), collect_errors_(collect_errors), start_ns_(start_ns), last_progress_ns_(start_ns) {}

  // The first call decides how the read ends; calls after end() have no effect.
  void stop(Status status) noexcept;
  // For workers, which drop work that they have not started.
  bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }
  bool collects_errors() const noexcept { return collect_errors_; }
  // Reports a failed chunk of the object `key`: it is listed if errors are collected, else the read stops. Loss of the
  // device always stops the read. Throws std::bad_alloc.
  void fail(const TaskGroup& group, const Task& task, const std::string& key, Status status);
  // Reports a failed chunk after which the read continues: it is listed if errors are collected.
  void note_failure(const TaskGroup& group, const Task& task, const std::string& key, Status status);
  // Records elements to be overwritten with `element` when the read ends; it must be the same in every call. Throws
  // std::bad_alloc.
  void replace(std::span<const device::Box> boxes, std::span<const std::byte> element);
  void add_done(std::uint64_t chunks) noexcept { chunks_done_.fetch_add(chunks, std::memory_order_relaxed); }
  // Calls the progress function if 100 ms have passed since the last call. False: it threw, which stops the read.
  bool show_progress(std::uint64_t chunks);

  void add(const Stats& part) { stats_ += part; }
  // What the plan opened and read to locate the chunks. It is counted, but does not affect Stats::path.
  void add_lookups(const Stats& part) { lookups_ += part; }
  // `engine`: the engine that read cold bytes into host memory, or "none"; `straight_engine`: into the device's, or "";
  // `decode_note`: why the device decodes nothing, or "".
  void end(const std::string& engine, const std::string& straight_engine, const std::string& device_note,
           const std::string& decode_note);
  const Status& status() const noexcept { return status_; }
  const Stats& stats() const noexcept { return stats_; }
  std::vector<ChunkError>& errors() noexcept { return errors_; }
  const std::vector<ChunkError>& errors() const noexcept { return errors_; }
  // For the thread that ends the read.
  const std::vector<device::Box>& replaced() const noexcept { return replaced_; }
  const std::vector<std::byte>& replacement() const noexcept { return replacement_; }

 private:
  static ChunkError error_of(const TaskGroup& group, const Task& task, const std::string& key, Status status);
  const Progress& progress_;
  const bool collect_errors_;
  const std::uint64_t start_ns_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> chunks_done_{0};
  Stats stats_, lookups_;

  std::mutex mutex_;
  // Guarded by mutex_ until end():
  bool ended_ = false;
  Status status_;
  std::vector<ChunkError> errors_;
  std::vector<device::Box> replaced_;
  std::vector<std::byte> replacement_;
  std::uint64_t last_progress_ns_;
};

}  // namespace headrace::transfer
