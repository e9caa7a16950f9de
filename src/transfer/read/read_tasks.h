// ReadTasks: the tasks of one read, for the code that moves their bytes: the plan's description of each, and where its
// outcome is reported.
//
// Threads: every call from any number of threads, each with its own Worker.
// Owns:    nothing; plan and report outlive it.
#pragma once

#include <headrace/status.h>

#include <cstdint>

#include "transfer/context/worker.h"
#include "transfer/plan/plan.h"
#include "transfer/plan/read_report.h"

namespace headrace::transfer {

class ReadTasks {
 public:
  // parts: chunks may be decoded in part.
  ReadTasks(const Plan& plan, ReadReport& report, bool parts) noexcept : plan_(plan), report_(report), parts_(parts) {}

  const Plan& plan() const noexcept { return plan_; }
  ReadReport& report() const noexcept { return report_; }
  bool parts() const noexcept { return parts_; }

  // Fills worker.detail unless it describes the task already. Code that advances the detail's boxes must reset
  // worker.described.
  void describe(const TaskGroup& group, const Task& task, Worker& worker) const;
  // Bytes of the elements that the described task delivers, in their stored type.
  static std::uint64_t element_bytes(const WaveTasks& wave, const TaskDetail& detail) noexcept {
    return detail.element_count() * wave.op().element_bytes;
  }
  // The object that a group is read from.
  static const std::string& key_of(const WaveTasks& wave, const TaskGroup& group, const Worker& worker);

  // Where damaged elements become NaN, the task's boxes are recorded for the end of the read. Both throw
  // std::bad_alloc.
  void fail(const WaveTasks& wave, const TaskGroup& group, const Task& task, Worker& worker, Status status) const;
  void fail_group(const WaveTasks& wave, const TaskGroup& group, Worker& worker, const Status& status) const;

 private:
  void note_damage(const WaveTasks& wave, Worker& worker) const;

  const Plan& plan_;
  ReadReport& report_;
  bool parts_;
};

}  // namespace headrace::transfer
