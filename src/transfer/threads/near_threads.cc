#include "transfer/threads/near_threads.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "base/fork.h"
#include "os/numa.h"

namespace headrace::transfer {
namespace {

thread_local NearThreads::Thread* t_current = nullptr;

}  // namespace

std::shared_ptr<NearThreads> NearThreads::create(bool enabled) {
  return std::shared_ptr<NearThreads>(new NearThreads(enabled));
}

NearThreads::NearThreads(bool enabled) : enabled_(enabled), fork_generation_(base::fork_generation()) {
  if (enabled_) allowed_ = os::thread_cpus().value_or(std::vector<unsigned>());
  nodes_.emplace_back();
}

NearThreads::Use NearThreads::use(int node) noexcept {
  if (!enabled_ || base::fork_generation() != fork_generation_) return {};
  try {
    std::lock_guard lock(mutex_);
    auto found = std::find_if(nodes_.begin(), nodes_.end(),
                              [&](const Node& known) { return known.number == std::max(node, -1); });
    if (found == nodes_.end()) {
      os::NearCpus near = os::near_cpus(node, allowed_, root_);
      if (!near.why_not.empty()) near.cpus.clear();
      found = nodes_.insert(nodes_.end(), {node, std::move(near.cpus), 0});
    }
    const auto index = static_cast<std::size_t>(found - nodes_.begin());
    Use use(shared_from_this(), index);
    ++nodes_[index].users;
    settle_locked();
    return use;
  } catch (const std::bad_alloc&) {  // threads stay where they are
    return {};
  }
}

void NearThreads::end(std::size_t node) noexcept {
  if (base::fork_generation() != fork_generation_) return;
  std::lock_guard lock(mutex_);
  --nodes_[node].users;
  settle_locked();
}

void NearThreads::settle_locked() noexcept {
  std::size_t used = 0, one = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].users == 0) continue;
    ++used;
    one = i;
  }
  if (used == 0) return;
  const std::size_t wanted = used == 1 ? one : 0;
  if (nodes_[wanted].cpus == nodes_[wanted_].cpus) return;
  wanted_ = wanted;
  bound_cpus_.store(static_cast<unsigned>(nodes_[wanted].cpus.size()), std::memory_order_relaxed);
  version_.fetch_add(1, std::memory_order_release);
}

std::string NearThreads::note() const {
  std::lock_guard lock(mutex_);
  return note_;
}

NearThreads::Thread::Thread(std::shared_ptr<NearThreads> near) : near_(std::move(near)) { t_current = this; }
NearThreads::Thread::~Thread() { t_current = nullptr; }

void NearThreads::Thread::apply() noexcept {
  try {
    std::vector<unsigned> node_cpus;
    {
      std::lock_guard lock(near_->mutex_);
      seen_ = near_->version_.load(std::memory_order_relaxed);
      node_cpus = near_->nodes_[near_->wanted_].cpus;
    }
    narrow_to(node_cpus);
  } catch (const std::bad_alloc&) {  // it stays where it is until the next change
  }
}

// Empty: restores the original CPUs.
void NearThreads::Thread::narrow_to(const std::vector<unsigned>& node_cpus) {
  auto now = os::thread_cpus();
  if (!now) return;
  // If something else has changed the thread's CPUs (taskset, a cpuset), that is its new original set.
  std::vector<unsigned> had = bound_ && *now == set_ ? original_ : *now;
  std::vector<unsigned> target;
  std::set_intersection(had.begin(), had.end(), node_cpus.begin(), node_cpus.end(), std::back_inserter(target));
  if (target.empty()) target = had;
  if (target != *now) {
    if (const int error = os::set_thread_cpus(target); error != 0) {
      std::lock_guard lock(near_->mutex_);
      if (near_->note_.empty()) near_->note_ = std::string("threads: cannot be bound to CPUs: ") + std::strerror(error);
      return;
    }
  }
  bound_ = target != had;
  original_ = std::move(had);
  set_ = std::move(target);
}

NearThreads::StartsThreads::StartsThreads() {
  if (t_current == nullptr || !t_current->bound_) return;
  try {
    t_current->narrow_to({});
  } catch (const std::bad_alloc&) {  // new threads begin where this one is
  }
}

NearThreads::StartsThreads::~StartsThreads() {
  if (t_current != nullptr && t_current->near_ != nullptr) t_current->apply();
}

}  // namespace headrace::transfer
