// VariableRead: reads chunks of elements of variable length into offsets and data on the host.
//
// Three steps, each done by all workers: chunks are read and decoded, and the selected elements' bytes kept in memory
// of the worker, with a slot for each element that says where; lengths are summed up into offsets, by one of them;
// elements are copied to their places. The plan's boxes move slots, so every selection and layout works as it does for
// numbers.
//
// Chunks share one half of the host budget. One that finds it exhausted is decoded again with the other half, which one
// worker has at a time, so what fails does not depend on how many decode at once.
//
// Threads: work() on any number of threads; the rest by the one that made it.
#pragma once

#include <headrace/status.h>
#include <headrace/variable.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "codec/growing_buffer.h"
#include "codec/variable_codec.h"
#include "transfer/context/resources.h"
#include "transfer/fetch/fetcher.h"
#include "transfer/plan/plan.h"
#include "transfer/plan/read_report.h"
#include "transfer/threads/worker_pool.h"

namespace headrace::transfer {

class VariableRead final : public Workload, public std::enable_shared_from_this<VariableRead> {
 public:
  // `elements`: of the selection. kResourceExhausted where their offsets alone are beyond options.max_bytes.
  static Result<std::shared_ptr<VariableRead>> create(Resources& resources, std::uint64_t elements,
                                                      const VariableReadOptions& options);
  ~VariableRead() override;

  // Where the plan's boxes go: one slot for each selected element, in C order. With check_only nothing is there.
  std::span<std::byte> slots() const noexcept;
  // The operation of the plan's forms moves slots, and their fill element is one.
  Status run(std::unique_ptr<Plan> plan, double plan_seconds);
  Progress work() override;

  // After a run() that went well.
  std::vector<std::int64_t> take_offsets() noexcept { return std::move(offsets_); }
  std::unique_ptr<std::byte[]> take_data() noexcept { return std::move(data_); }
  std::vector<ChunkError> take_errors() noexcept { return std::move(report_.errors()); }
  const Stats& stats() const noexcept { return report_.stats(); }

 private:
  enum class Phase : std::uint8_t { kDecode, kSum, kCopy, kEnded };
  struct TaskBatch;
  struct Worker;
  struct Claim {
    Phase step = Phase::kEnded;
    bool idle = false;
    std::shared_ptr<TaskBatch> batch;  // kDecode
    std::uint64_t begin = 0, end = 0;  // kDecode: groups of the batch; kCopy: elements
  };

  VariableRead(Resources& resources, std::uint64_t elements, const VariableReadOptions& options);
  Claim claim();
  bool fill_batch_locked();
  bool give_up_locked(Status status);
  void finish(const Claim& claim);
  Worker* take_worker();
  void give_worker(Worker* worker) noexcept;
  bool cancelled() const { return options_.cancel && options_.cancel->asked(); }

  void run_group(const TaskBatch& batch, const TaskGroup& group, Worker& worker);
  void run_tasks(const TaskBatch& batch, const TaskGroup& group, std::span<const std::byte> stored, Worker& worker);
  static bool goes_to_slots(const TaskDetail& detail) noexcept;
  Status decode_task(const codec::Chain& chain, std::span<const std::byte> stored, Worker& worker);
  Status keep_box(device::Box box, const std::byte* base, Worker& worker);
  void fill_task(const TaskBatch& batch, const TaskGroup& group, const Task& task, Worker& worker);
  void fail_task(const TaskBatch& batch, const TaskGroup& group, const Task& task, Worker& worker, Status status);
  void check_sources(const TaskBatch& batch);
  Status unpack(const Fetcher& fetcher, const StoredRange& whole, std::span<std::byte> out, Worker& worker);
  Status fetch(const Fetcher& fetcher, const StoredRange& range, Worker& worker, std::span<const std::byte>& stored);
  Status account(std::uint64_t bytes);
  Status sum_up();
  double copy_elements(std::uint64_t begin, std::uint64_t end) const;  // seconds

  Resources& resources_;
  const VariableReadOptions options_;
  ReadReport report_;
  const std::uint64_t elements_;
  std::unique_ptr<Plan> plan_;
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  std::unique_ptr<codec::VariableSlot, Free> slots_;  // none with check_only
  codec::GrowthBudget shared_, alone_;
  std::mutex alone_mutex_;  // who holds it may use alone_
  // Held together by those who unpack; who holds it alone may drop the others' scratch.
  std::shared_mutex unpacking_mutex_;
  std::atomic<std::uint64_t> kept_bytes_{0};

  std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_:
  Phase step_ = Phase::kDecode;
  std::shared_ptr<TaskBatch> batch_;
  bool exhausted_ = false;
  std::uint64_t outstanding_ = 0;  // claims not finished
  std::uint64_t next_element_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;  // they keep the elements' bytes
  std::vector<Worker*> free_lanes_;
  Stats together_;  // of what belongs to no worker

  std::vector<std::int64_t> offsets_;  // written by kSum
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace headrace::transfer
