#include "transfer/plan/read_report.h"

#include <new>
#include <utility>

#include "base/callback.h"
#include "base/clock.h"

namespace headrace::transfer {
namespace {

std::string describe_path(const Stats& stats, const std::string& engine, const std::string& straight_engine,
                          const std::string& decode_note) {
  std::string path;
  const auto join = [&path](const std::string& part) { path += (path.empty() ? "" : " + ") + part; };
  if (stats.straight_bytes > 0) join(straight_engine + " direct into device memory");
  if (stats.direct_bytes > stats.straight_bytes) join(engine + " direct");
  if (stats.engine_bytes > 0) join(engine + " buffered");
  if (stats.buffered_bytes > 0) join("buffered (page cache)");
  if (stats.memory_bytes > 0) join("memory");
  if (stats.mapped_bytes > 0) join("mapped (page cache)");
  if (stats.store_bytes > 0) join("store");
  if (stats.cache_bytes > 0) join("disk cache");
  if (stats.packed_bytes > 0) join("unpacked");
  if (stats.missing_chunks > 0) join("fill value");
  if (path.empty()) return "nothing read";
  if (stats.gpu_chunks > 0)
    path += stats.cpu_chunks > 0 ? ", decoded on the device and by the CPU" : ", decoded on the device";
  if (stats.gpu_chunks == 0 && !decode_note.empty()) path += ", decoded by the CPU: " + decode_note;
  return path;
}

}  // namespace

void ReadReport::stop(Status status) noexcept {
  std::lock_guard lock(mutex_);
  if (ended_) return;
  if (status_.ok()) status_ = std::move(status);
  stopped_ = true;
}

ChunkError ReadReport::error_of(const TaskGroup& group, const Task& task, const std::string& key, Status status) {
  const bool own = group.source == kNoSource, part = task.length != kWholeObject && task.length != 0;
  status = std::move(status).with_key(key);
  if (part) status = std::move(status).with_range(task.offset, task.length);
  ChunkError error;
  error.key = key;
  error.offset = status.offset().value_or(own ? 0 : task.offset);
  error.length = status.length().value_or(task.length == kWholeObject ? 0 : task.length);
  error.status = std::move(status);
  return error;
}

void ReadReport::fail(const TaskGroup& group, const Task& task, const std::string& key, Status status) {
  if (collect_errors_ && status.code() != Code::kDeviceLost) {
    return note_failure(group, task, key, std::move(status));
  }
  add_done(1);
  stop(error_of(group, task, key, std::move(status)).status);
}

void ReadReport::note_failure(const TaskGroup& group, const Task& task, const std::string& key, Status status) {
  add_done(1);
  if (!collect_errors_) return;
  ChunkError error = error_of(group, task, key, std::move(status));
  std::lock_guard lock(mutex_);
  errors_.push_back(std::move(error));
}

void ReadReport::replace(std::span<const device::Box> boxes, std::span<const std::byte> element) {
  std::lock_guard lock(mutex_);
  replaced_.insert(replaced_.end(), boxes.begin(), boxes.end());
  replacement_.assign(element.begin(), element.end());
}

bool ReadReport::show_progress(std::uint64_t chunks) {
  if (!progress_ || stopped()) return true;
  {
    std::lock_guard lock(mutex_);
    const std::uint64_t now = base::now_ns();
    if (now - last_progress_ns_ < 100'000'000) return true;
    last_progress_ns_ = now;
  }
  Status status =
      base::run_callback(base::kProgressThrew, progress_, chunks_done_.load(std::memory_order_relaxed), chunks);
  if (status.ok()) return true;
  stop(std::move(status));
  return false;
}

void ReadReport::end(const std::string& engine, const std::string& straight_engine, const std::string& device_note,
                     const std::string& decode_note) {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  try {
    stats_.engine = straight_engine.empty() ? engine : straight_engine;
    stats_.path = describe_path(stats_, engine, straight_engine, decode_note);
    stats_.device_note = device_note;
  } catch (const std::bad_alloc&) {  // only the counts are reported
  }
  stats_ += lookups_;  // after "path" is set, which describes only how chunks were read
  stats_.wall_seconds = static_cast<double>(base::now_ns() - start_ns_) * 1e-9;
}

}  // namespace headrace::transfer
