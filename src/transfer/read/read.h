// Read: one read from the store into the caller's tensor, as the work that a Scheduler hands out.
//
// The plan fills a wave; GroupReads passes the bytes of each group to the wave's sink, which depends on whether the CPU
// or the device decodes the wave. Nothing is allocated once the waves exist.
//
// Threads: see WaveWork.
// Owns:    waves; plan and device until end(). The plan keeps the Context alive.
#pragma once

#include <headrace/array.h>
#include <headrace/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "transfer/context/resources.h"
#include "transfer/context/worker.h"
#include "transfer/pagecache/router.h"
#include "transfer/plan/plan.h"
#include "transfer/plan/read_report.h"
#include "transfer/read/chunk_sink.h"
#include "transfer/read/device_sink.h"
#include "transfer/read/group_reads.h"
#include "transfer/read/mapped_reads.h"
#include "transfer/read/read_end.h"
#include "transfer/read/read_tasks.h"
#include "transfer/read/scheduler.h"
#include "transfer/read/turns.h"
#include "transfer/read/wave.h"
#include "transfer/read/wave_form.h"

namespace headrace::transfer {

// When a read began, and how long making its plan took. Both are counted in Stats.
struct ReadStart {
  std::uint64_t start_ns = 0;
  double plan_seconds = 0;
};

// The destination of chunks that do not go into a tensor.
struct HostTarget {
  std::function<std::unique_ptr<ChunkSink>(const ReadTasks&)> make_sink;  // null: chunks go into the tensor
  std::uint64_t lane_bytes = 0;  // working memory of each worker besides that of decoding
};

class Read final : public WaveWork, private LookupListener {
 public:
  // Fails before anything is read: kResourceExhausted when not even one chunk fits the budgets. With a HostTarget,
  // `device` must be the host.
  static Result<std::shared_ptr<Scheduler>> create(Resources& resources, std::unique_ptr<Plan> plan,
                                                   std::shared_ptr<device::Device> device, ReadOptions options,
                                                   const ReadStart& start, const HostTarget& target = {},
                                                   ReadExtras extras = {});

  void begin() override;
  bool ready(std::uint32_t wave) const override {
    return !loan_ || waves_[wave]->stage.slot != nullptr || loan_->ready();
  }
  Filled fill(std::uint32_t wave, Worker& worker) override;
  bool lookups_done() const noexcept override { return lookup_done_.load(); }
  RunResult run(std::uint32_t wave, std::uint32_t begin, std::uint32_t end, Worker& worker) override {
    return groups_.run(wave, begin, end, worker);
  }
  std::size_t in_flight() const override { return groups_.in_flight(); }
  bool any_completed() const noexcept override { return groups_.any_completed(); }
  bool idle() const override { return groups_.idle(); }
  std::span<const std::uint32_t> resume(Worker& worker, std::size_t workers) override {
    return groups_.resume(worker, workers);
  }
  void cancel() override { groups_.cancel(); }
  bool launch(std::uint32_t wave, Worker& worker) override;
  bool launches() const noexcept override { return cpu_sink_->launches(); }
  bool passed(std::uint32_t wave) override { return waves_[wave]->sink->passed(*waves_[wave]); }
  void notice(std::uint32_t wave) override { waves_[wave]->sink->notice(*waves_[wave]); }
  bool drain(std::uint32_t wave, Worker& worker) override;
  void settle(std::uint32_t wave, Worker& worker) override;
  void release(std::uint32_t wave) override;
  void end(std::span<const std::unique_ptr<Worker>> workers) override;

 private:
  // Loads the kernels that the first waves launch, while their slabs are made. The form refers to the array.
  struct Loading {
    std::once_flag once;
    std::shared_ptr<const WaveForm> form;  // null once they are loaded or the read has ended
    std::uint64_t chunks = 0;              // of a batch
    void load() noexcept;
    void end() noexcept;  // waits for load() if it runs; if not, it will do nothing
  };

  void lookup_done() noexcept override {
    lookup_done_ = true;
    notifier_.notify();
  }
  Read(Resources& resources, std::unique_ptr<Plan> plan, std::shared_ptr<device::Device> device, ReadOptions options,
       const ReadStart& start, ReadExtras extras);
  Status prepare(Scheduler::Setup& setup, const HostTarget& target);
  Status make_waves(const ReadSizes& sizes);
  // Borrows the waves' slots. Some may arrive while the read runs.
  Status borrow_slots(const ReadSizes& sizes);
  // Gives the wave a slot that has arrived.
  Status take_slot(Wave& wave);
  std::shared_ptr<PlacementPolicy> placement_policy(const ReadSizes& sizes);
  // Gives the wave the plan's next form, and decides who decodes it.
  Status begin_wave(Wave& wave);
  // The device's sink if the device is to decode the wave and can; else the CPU's.
  ChunkSink& sink_of(const Wave& wave) const noexcept;
  std::vector<std::unique_ptr<Worker>> make_workers(std::uint64_t count);
  void give_back_slabs();
  // Overwrites the elements of damaged chunks after all other work has finished.
  Status replace_damaged();
  // Runs the caller's ReadEnd over all elements.
  Status finish_elements();
  Status take_returned(Wave& wave, std::span<const std::uint32_t> returned, Worker& worker);

  Resources& resources_;
  const WorkerPool::Notifier notifier_;
  std::atomic<bool> lookup_done_{false};  // since the last fill()
  bool fills_on_ = false;                 // the next fill() continues the previous wave, which is not full
  std::unique_ptr<Plan> plan_;
  const std::shared_ptr<device::Device> device_;
  const ReadOptions options_;
  const bool cache_reads_;  // workers read the page cache; false if an engine was requested by name, which then makes
                            // all reads
  std::unique_ptr<ReadReport> owned_report_;  // moved to the Scheduler once that exists
  ReadReport& report_;
  const ReadTasks tasks_;
  Router router_;
  MappedReads mapped_;
  KeptChunks kept_;
  std::unique_ptr<ReadEnd> end_;            // null once the read has ended
  std::unique_ptr<ChunkSink> cpu_sink_;     // for waves that the CPU decodes
  std::unique_ptr<ChunkSink> device_sink_;  // for waves that the device decodes; null: none
  std::optional<Turns> turns_;
  WaveForms forms_;
  std::string decode_note_;    // why the device does not decode
  NearThreads::Use near_use_;  // from begin() on
  std::vector<std::unique_ptr<Wave>> waves_;
  std::shared_ptr<Loading> loading_;       // null: nothing is loaded
  std::optional<StagingPool::Loan> loan_;  // staged devices only, until the read has ended
  std::unique_ptr<device::Event> begun_;   // what the caller's stream had queued is done; null: no slot will arrive
  GroupReads groups_;
};

}  // namespace headrace::transfer
