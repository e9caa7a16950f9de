#include "transfer/files/crew_lane.h"

#include <utility>

namespace headrace::transfer {
namespace {

// The queue's thread reads this much from the page cache in the time that handing over many parts takes.
constexpr std::uint64_t kSmallBytes = std::uint64_t{8} << 10, kMaxHereBytes = std::uint64_t{128} << 10;

}  // namespace

void CrewLane::open(WorkerPool& pool, MappedCache* mapped, std::shared_ptr<device::Device> device, std::size_t threads,
                    std::size_t parts, std::function<void()> wake) {
  added_.reserve(parts);
  collected_.reserve(parts);
  crew_ = std::make_shared<FileCrew>(pool, mapped, std::move(device), threads, parts);
  crew_->elsewhere = std::move(wake);
}

void CrewLane::start(std::uint64_t lone_bytes, std::vector<FilePart*>& arrived) {
  if (added_.empty()) return;
  std::uint64_t here_bytes = 0;
  const bool lone =
      added_.size() == 1 && crew_->outstanding() == 0 && added_[0]->length <= lone_bytes && !added_[0]->prefetch;
  std::erase_if(added_, [&](FilePart* part) {
    // Small parts that are in the page cache, or that read-ahead brings there.
    const bool small = part->small || (part->stop_at_missing_page && part->length <= kSmallBytes);
    if (!lone && (!small || here_bytes > kMaxHereBytes)) return false;
    crew_->perform(*part);
    here_bytes += part->length;
    arrived.push_back(part);
    return true;
  });
  crew_->submit(added_);
  added_.clear();
}

bool CrewLane::collect(bool wait, std::chrono::nanoseconds timeout, std::vector<FilePart*>& arrived,
                       std::uint64_t& calls) {
  if (crew_->outstanding() == 0) return false;
  collected_.clear();
  crew_->collect(collected_, wait, timeout);
  for (FilePart* part : collected_) {
    calls += std::exchange(part->system_calls, 0);
    arrived.push_back(part);
  }
  return !collected_.empty();
}

}  // namespace headrace::transfer
