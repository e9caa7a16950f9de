// ReadTasks: the tasks of one read as those see them who carry their bytes: what the plan says of each, and how it
// ended.
//
// Threads: every call from any number of threads, each with a Lane of its own.
// Owns:    nothing; plan and report outlive their use.
#pragma once

#include <headrace/status.h>

#include <cstdint>

#include "transfer/lane.h"
#include "transfer/plan.h"
#include "transfer/read_report.h"

namespace headrace::transfer {

class ReadTasks {
 public:
  ReadTasks(const Plan& plan, ReadReport& report) noexcept : plan_(plan), report_(report) {}

  const Plan& plan() const noexcept { return plan_; }
  ReadReport& report() const noexcept { return report_; }

  // Fills lane.detail, unless it is about the task already. Who moves the detail's boxes resets lane.described.
  void describe(const Group& group, const Task& task, Lane& lane) const;
  // Bytes of the elements that the described task gives, as they are stored.
  static std::uint64_t element_bytes(const WaveTasks& wave, const TaskDetail& detail) noexcept {
    return detail.element_count() * wave.op().element_bytes;
  }
  // The object that a group is read from.
  static const std::string& key_of(const WaveTasks& wave, const Group& group, const Lane& lane);

  // Throw std::bad_alloc.
  void fail(const WaveTasks& wave, const Group& group, const Task& task, Lane& lane, Status status) const;
  void fail_group(const WaveTasks& wave, const Group& group, Lane& lane, const Status& status) const;

 private:
  const Plan& plan_;
  ReadReport& report_;
};

}  // namespace headrace::transfer
