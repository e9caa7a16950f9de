// A ByteStore that answers a request only when the test says so, and one read of a ByteStore that a test can wait for.
#pragma once

#include <headrace/byte_store.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/stores_under_test.h"

namespace headrace::testing {

// A read, from its start to its end.
class OneRead final : private RangeListener {
 public:
  OneRead(std::string key, std::uint64_t offset, std::size_t size, std::string version = "")
      : key_(std::move(key)), version_(std::move(version)), memory_(size) {
    read_.key = key_;
    read_.offset = offset;
    read_.out = memory_;
    read_.version = version_;
    read_.listener = this;
  }
  ~OneRead() = default;
  OneRead(const OneRead&) = delete;
  OneRead& operator=(const OneRead&) = delete;

  Status start(ByteStore& store) {
    RangeRead* const one[] = {&read_};
    return store.start(one);
  }
  void cancel(ByteStore& store) {
    RangeRead* const one[] = {&read_};
    store.cancel(one);
  }
  bool ends_within(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, patience, [&] { return ends_ != 0; });
  }
  bool ends() { return ends_within(std::chrono::seconds(30)); }
  // After the end:
  int times() {
    std::lock_guard lock(mutex_);
    return ends_;
  }
  const RangeRead& answer() const { return read_; }
  store::Bytes bytes() const {
    return {memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(read_.status.ok() ? read_.bytes : 0)};
  }

 private:
  void done(std::span<RangeRead* const> reads) noexcept override {
    std::lock_guard lock(mutex_);
    ends_ += static_cast<int>(reads.size());
    ended_.notify_all();
  }

  const std::string key_, version_;
  store::Bytes memory_;
  RangeRead read_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int ends_ = 0;  // guarded by mutex_
};

class HeldStore final : public ByteStore {
 public:
  std::function<Status()> refuse;  // decides whether start() refuses

  std::string url() const override { return "toy://held"; }
  Status start(std::span<RangeRead* const> reads) override {
    if (refuse) HEADRACE_TRY(refuse());
    std::lock_guard lock(mutex_);
    for (RangeRead* const read : reads) held_.push_back(read);
    requests_ += reads.size();
    changed_.notify_all();
    return {};
  }
  void cancel(std::span<RangeRead* const> reads) noexcept override {
    for (RangeRead* const read : reads) {
      if (take(read)) end(*read, Status(Code::kCancelled, Layer::kStore, "cancelled"));
    }
  }
  Status put(std::string_view, std::span<const std::byte>) override { return {}; }

  // All requests so far.
  std::size_t requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  // Whether there are as many requests, soon.
  bool reaches(std::size_t requests) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return requests_ >= requests; });
  }
  // Answers the oldest request that is held, for the object `whole`; false: none is.
  bool answer(const store::Bytes& whole, const std::string& version) { return answer(take(nullptr), whole, version); }
  // The same for the newest one.
  bool answer_last(const store::Bytes& whole, const std::string& version) {
    RangeRead* newest = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!held_.empty()) newest = held_.back();
    }
    return newest != nullptr && answer(take(newest), whole, version);
  }
  bool fail(Code code) {
    RangeRead* const read = take(nullptr);
    if (read != nullptr) end(*read, Status(code, Layer::kStore, "planted"));
    return read != nullptr;
  }

 private:
  static bool answer(RangeRead* read, const store::Bytes& whole, const std::string& version) {
    if (read == nullptr) return false;
    if (!read->version.empty() && read->version != version) {
      end(*read, Status(Code::kAgainExhausted, Layer::kStore, "another version"));
      return true;
    }
    const std::uint64_t from = std::min<std::uint64_t>(read->offset, whole.size());
    read->bytes = std::min<std::uint64_t>(read->out.size(), whole.size() - from);
    if (read->bytes != 0) std::memcpy(read->out.data(), whole.data() + from, static_cast<std::size_t>(read->bytes));
    read->object_bytes = whole.size();
    read->found_version = version;
    end(*read, {});
    return true;
  }
  // Null: the oldest one.
  RangeRead* take(RangeRead* read) noexcept {
    std::lock_guard lock(mutex_);
    const auto found = read == nullptr ? held_.begin() : std::find(held_.begin(), held_.end(), read);
    if (found == held_.end()) return nullptr;
    RangeRead* const taken = *found;
    held_.erase(found);
    return taken;
  }
  static void end(RangeRead& read, Status status) {
    read.status = std::move(status);
    RangeRead* const one[] = {&read};
    read.listener->done(one);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RangeRead*> held_;  // guarded by mutex_
  std::size_t requests_ = 0;      // guarded by mutex_
};

}  // namespace headrace::testing
