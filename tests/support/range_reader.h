// RangeReader: reads ranges from a server through a RangeClient, with canaries around the output, and a service whose
// secrets must not appear in any message.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "http/range_client.h"
#include "store/store.h"

namespace headrace::testing {

inline constexpr const char* kCanary = "geheim-canary";
inline constexpr auto kInTime = std::chrono::seconds(20);  // for three seconds of work on a busy machine

class CanaryService final : public http::RangeService {
 public:
  CanaryService(std::string base, http::ServiceKind kind) : base_(std::move(base)), kind_(kind) {}
  http::ServiceKind kind() const noexcept override { return kind_; }
  http::Url place(std::string_view key) const override {
    http::Url url = *http::parse_url(base_ + (kind_ == http::ServiceKind::kS3 ? "/bucket/" : "/"));
    http::append_escaped(url.path, key, true);
    url.query = std::string("token=") + kCanary;
    return url;
  }
  std::uint64_t authorize(const http::Url&, std::int64_t now, std::vector<std::string>& headers) override {
    headers.push_back(std::string("Authorization: ") + kCanary);
    headers.push_back(std::string("x-amz-security-token: ") + kCanary);
    std::lock_guard lock(mutex_);
    times.push_back(now);
    return 0;
  }
  void learn_region(std::string_view region) override {
    std::lock_guard lock(mutex_);
    regions.emplace_back(region);
  }
  Result<bool> prepared() override { return ready.load(); }
  std::atomic<bool> ready{true};     // false: requests wait for RangeClient::resume()
  std::vector<std::string> regions;  // written while a read is in flight
  std::vector<std::int64_t> times;   // as regions

 private:
  std::mutex mutex_;
  const std::string base_;
  const http::ServiceKind kind_;
};

// For servers that answer or refuse: no time limit is reached, however loaded the machine is. Retries come soon.
inline http::ClientOptions patient() {
  http::ClientOptions options;
  options.transport.connections = 8;
  options.transport.threads = 4;
  options.transport.connect_ns = options.transport.idle_ns = options.total_ns = 60'000'000'000;
  options.retry = {4, 2'000'000, 20'000'000, 500};
  return options;
}
// For servers that never answer: only a time limit ends the range.
inline http::ClientOptions impatient() {
  http::ClientOptions options = patient();
  options.transport.connect_ns = options.transport.idle_ns = 300'000'000;
  options.total_ns = 3'000'000'000;
  return options;
}

// Reads with canaries around `out`.
class RangeReader final : RangeListener {
 public:
  explicit RangeReader(const std::string& base, http::ServiceKind kind = http::ServiceKind::kHttp,
                       const http::ClientOptions& options = patient())
      : service_(base, kind), client_(service_, options, std::move(http::make_transport(options.transport)).value()) {}

  struct Got {
    RangeRead read;
    store::Bytes bytes;
  };
  Got read(std::uint64_t offset, std::size_t size, bool from_end = false, const std::string& version = "",
           const std::string& key = "x") {
    constexpr std::size_t kGuard = 64;
    store::Bytes memory(size + 2 * kGuard, std::byte{0x5a});
    Got got;
    got.read.key = key;
    got.read.offset = offset;
    got.read.from_end = from_end;
    got.read.version = version;
    got.read.out = std::span(memory).subspan(kGuard, size);
    got.read.listener = this;
    RangeRead* const one[] = {&got.read};
    done_ = 0;
    const auto began = std::chrono::steady_clock::now();
    EXPECT_TRUE(client_.start(one).ok());
    wait(1);
    EXPECT_LT(std::chrono::steady_clock::now() - began, kInTime);
    for (std::size_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(memory[i], std::byte{0x5a});
      EXPECT_EQ(memory[kGuard + size + i], std::byte{0x5a});
    }
    EXPECT_LE(got.read.bytes, size);
    EXPECT_EQ(got.read.status.to_string().find(kCanary), std::string::npos) << got.read.status.to_string();
    got.bytes.assign(memory.begin() + kGuard, memory.begin() + kGuard + static_cast<std::ptrdiff_t>(got.read.bytes));
    got.read.version = {};
    return got;
  }
  void wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kInTime, [&] { return done_ >= count; }));
    EXPECT_EQ(done_.load(), count);
  }
  RangeListener* listener() { return this; }
  http::RangeClient& client() { return client_; }
  CanaryService& service() { return service_; }
  std::atomic<std::size_t> done_{0};

 private:
  void done(std::span<RangeRead* const> reads) noexcept override {
    std::lock_guard lock(mutex_);
    done_ += reads.size();
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  CanaryService service_;
  http::RangeClient client_;
};

}  // namespace headrace::testing
