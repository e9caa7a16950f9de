// An in-memory ByteStore whose behaviour tests choose: when it answers, in which order, and how it lies.
#pragma once

#include <headrace/byte_store.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/stores_under_test.h"

namespace headrace::testing {

struct RangeHabits {
  // Answers from another thread as requests arrive; before start() returns; last one first; all requests of a call
  // together.
  enum class Answers : std::uint8_t { kOnThread, kInStart, kReversed, kInOneBatch };
  Answers answers = Answers::kOnThread;
  std::chrono::microseconds delay{0};  // per range
  bool tells_size = true, tells_version = false;
  bool lists = true, writes = true;
  // Modifies a correct answer before it is delivered, to make it a lie.
  std::function<void(RangeRead&)> change = nullptr;
  // Decides whether start() refuses.
  std::function<Status(std::span<RangeRead* const>)> refuse = nullptr;
};

class RangeStoreInMemory final : public ByteStore {
 public:
  explicit RangeStoreInMemory(Objects objects, RangeHabits habits = {})
      : habits_(std::move(habits)), objects_(std::move(objects)) {
    if (habits_.answers != RangeHabits::Answers::kInStart) thread_ = std::thread([this] { run(); });
  }
  ~RangeStoreInMemory() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::string url() const override { return "toy://objects"; }

  Status start(std::span<RangeRead* const> reads) override {
    if (habits_.refuse) HEADRACE_TRY(habits_.refuse(reads));
    note_started(reads.size());
    if (habits_.answers == RangeHabits::Answers::kInStart) {
      for (RangeRead* read : reads) {
        answer(*read);
        end({&read, 1});
      }
      return {};
    }
    {
      std::lock_guard lock(mutex_);
      const auto due = std::chrono::steady_clock::now() + habits_.delay;
      for (RangeRead* read : reads) queue_.push_back({due, read});
    }
    changed_.notify_all();
    return {};
  }

  void cancel(std::span<RangeRead* const> reads) noexcept override {
    cancelled += reads.size();
    if (ignores_cancel) return;
    std::vector<RangeRead*> ended;
    {
      std::lock_guard lock(mutex_);
      for (RangeRead* read : reads) {
        const auto found =
            std::find_if(queue_.begin(), queue_.end(), [&](const Waiting& waiting) { return waiting.read == read; });
        if (found == queue_.end()) continue;
        ended.push_back(read);
        queue_.erase(found);
      }
    }
    for (RangeRead* read : ended) read->status = Status(Code::kCancelled, Layer::kStore, "cancelled");
    if (!ended.empty()) end(ended);
  }

  Result<std::vector<ListedName>> list(std::string_view prefix) override {
    if (!habits_.lists) return ByteStore::list(prefix);
    const std::string start = prefix.empty() ? "" : std::string(prefix) + "/";
    std::vector<ListedName> names;
    std::lock_guard lock(objects_mutex_);
    for (auto it = objects_.lower_bound(start); it != objects_.end() && it->first.starts_with(start); ++it) {
      const std::string rest = it->first.substr(start.size());
      const std::size_t slash = rest.find('/');
      const std::string name = rest.substr(0, slash);
      if (names.empty() || names.back().name != name) names.push_back({name, slash != std::string::npos});
    }
    if (names.empty() && !prefix.empty()) return Status(Code::kNotFound, Layer::kStore, "no such directory");
    return names;
  }

  Status put(std::string_view key, std::span<const std::byte> bytes) override {
    if (!habits_.writes) return ByteStore::put(key, bytes);
    std::lock_guard lock(objects_mutex_);
    objects_[std::string(key)] = store::Bytes(bytes.begin(), bytes.end());
    ++changes_;
    return {};
  }
  void remove(const std::string& key) {
    std::lock_guard lock(objects_mutex_);
    objects_.erase(key);
    ++changes_;
  }

  std::atomic<bool> ignores_cancel{false};
  std::atomic<std::size_t> started{0}, cancelled{0}, max_in_flight{0};
  std::atomic<std::size_t> in_flight{0};

 private:
  struct Waiting {
    std::chrono::steady_clock::time_point due;
    RangeRead* read;
  };

  void note_started(std::size_t count) {
    started += count;
    const std::size_t now = in_flight += count;
    std::size_t most = max_in_flight;
    while (now > most && !max_in_flight.compare_exchange_weak(most, now)) {
    }
  }

  void answer(RangeRead& read) {
    {
      std::lock_guard lock(objects_mutex_);
      const auto found = objects_.find(std::string(read.key));
      if (found == objects_.end()) {
        read.status = Status(Code::kNotFound, Layer::kStore, "no such object");
      } else {
        const store::Bytes& bytes = found->second;
        const std::uint64_t from = read.from_end ? bytes.size() - std::min(bytes.size(), read.out.size())
                                                 : std::min<std::uint64_t>(read.offset, bytes.size());
        read.bytes = std::min<std::uint64_t>(read.out.size(), bytes.size() - from);
        if (read.bytes > 0) std::memcpy(read.out.data(), bytes.data() + from, static_cast<std::size_t>(read.bytes));
        if (habits_.tells_size) read.object_bytes = bytes.size();
        if (habits_.tells_version) read.found_version = std::to_string(changes_);
        if (!read.version.empty() && read.version != std::to_string(changes_)) {
          read.status = Status(Code::kAgainExhausted, Layer::kStore, "another version");
        }
      }
    }
    if (habits_.change) habits_.change(read);
  }

  void end(std::span<RangeRead* const> reads) {
    in_flight -= reads.size();
    reads.front()->listener->done(reads);
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const auto due = queue_.front().due;
      if (std::chrono::steady_clock::now() < due) {
        changed_.wait_until(lock, due);
        continue;
      }
      const auto now = std::chrono::steady_clock::now();
      std::vector<RangeRead*> ready;
      while (!queue_.empty() && queue_.front().due <= now) {
        ready.push_back(queue_.front().read);
        queue_.pop_front();
      }
      lock.unlock();
      if (habits_.answers == RangeHabits::Answers::kReversed) std::reverse(ready.begin(), ready.end());
      for (RangeRead* read : ready) answer(*read);
      // Delivers the reads of each listener in one call.
      if (habits_.answers == RangeHabits::Answers::kInOneBatch) {
        std::stable_sort(ready.begin(), ready.end(), [](const RangeRead* a, const RangeRead* b) {
          return std::less<>()(a->listener, b->listener);
        });
        for (std::size_t begin = 0, next = 0; begin < ready.size(); begin = next) {
          RangeListener* const listener = ready[begin]->listener;
          while (next < ready.size() && ready[next]->listener == listener) ++next;
          end(std::span(ready).subspan(begin, next - begin));
          // Reads that have ended must not be accessed again.
        }
      } else {
        for (RangeRead* read : ready) end({&read, 1});
      }
      lock.lock();
    }
  }

  const RangeHabits habits_;
  std::mutex objects_mutex_;
  Objects objects_;            // guarded by objects_mutex_
  std::uint64_t changes_ = 1;  // guarded by objects_mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> queue_;  // guarded by mutex_
  bool stopping_ = false;      // guarded by mutex_
  std::thread thread_;
};

}  // namespace headrace::testing
