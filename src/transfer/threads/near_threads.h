// NearThreads: keeps a Context's threads on the CPUs near the device that they serve.
//
// Pinned slabs are on the GPU's NUMA node; a thread on another node fills them across the link between the sockets. One
// pool serves all devices, so threads are kept near a node only while all work in flight is for devices of that node,
// and otherwise have all their CPUs. A thread's own CPU set is only ever narrowed, and changes made by others meanwhile
// are respected. On a machine with one node nothing is done.
//
// Threads: every call from any thread; a Thread belongs to the thread that made it.
// Owns:    only numbers. In a forked child every call does nothing, so that its parent's work does not bind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace headrace::transfer {

class NearThreads : public std::enable_shared_from_this<NearThreads> {
 public:
  static constexpr int kAllCpus = -1;

  static std::shared_ptr<NearThreads> create(bool enabled);
  // Uses `root`/sys for /sys. REQUIRES: no use() so far. For tests.
  void read_from(const std::string& root) { root_ = root; }

  // Work in flight, until destroyed. When the last one ends, threads stay where they are: the next work is likely for
  // the same device.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept : near_(std::move(other.near_)), node_(other.node_) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(near_, other.near_);
      std::swap(node_, other.node_);
      return *this;
    }
    ~Use() {
      if (near_ != nullptr) near_->end(node_);
    }

   private:
    friend class NearThreads;
    Use(std::shared_ptr<NearThreads> near, std::size_t node) : near_(std::move(near)), node_(node) {}
    std::shared_ptr<NearThreads> near_;
    std::size_t node_ = 0;  // index in nodes_
  };
  // Work for a device on `node`; kAllCpus: work that gains more from all CPUs than from the near ones.
  Use use(int node) noexcept;

  // One of the threads. follow() is an atomic load, plus two system calls when something has changed.
  class Thread {
   public:
    explicit Thread(std::shared_ptr<NearThreads> near);  // null: follow() does nothing
    ~Thread();
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;
    void follow() noexcept {
      if (near_ != nullptr && near_->version_.load(std::memory_order_acquire) != seen_) apply();
    }

   private:
    friend class NearThreads;
    void apply() noexcept;
    void narrow_to(const std::vector<unsigned>& node_cpus);
    const std::shared_ptr<NearThreads> near_;
    std::uint64_t seen_ = 0;
    bool bound_ = false;
    std::vector<unsigned> original_, set_;  // while bound: the CPUs it had, and those it was given
  };

  // New threads inherit the CPUs of the one that starts them: while this lives, they are this thread's original CPUs.
  class StartsThreads {
   public:
    StartsThreads();
    ~StartsThreads();
    StartsThreads(const StartsThreads&) = delete;
    StartsThreads& operator=(const StartsThreads&) = delete;
  };

  // How many CPUs threads are kept on; 0: they are not bound.
  unsigned bound_cpus() const noexcept { return bound_cpus_.load(std::memory_order_relaxed); }
  // Why a thread could not be bound, one line, or "".
  std::string note() const;

 private:
  struct Node {
    int number = kAllCpus;
    std::vector<unsigned> cpus;  // empty: all
    std::size_t users = 0;
  };
  explicit NearThreads(bool enabled);
  void end(std::size_t node) noexcept;
  void settle_locked() noexcept;

  const bool enabled_;
  const std::uint64_t fork_generation_;
  std::string root_;
  std::vector<unsigned> allowed_;  // of the thread that made the Context
  mutable std::mutex mutex_;
  std::vector<Node> nodes_;                // guarded by mutex_; all that were ever used, all CPUs first
  std::size_t wanted_ = 0;                 // guarded by mutex_: index in nodes_
  std::string note_;                       // guarded by mutex_
  std::atomic<std::uint64_t> version_{0};  // changes with `wanted_`
  std::atomic<unsigned> bound_cpus_{0};
};

}  // namespace headrace::transfer
