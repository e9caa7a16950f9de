// A fixture with a file, its content and an engine over it, for the contract of every engine. A test file instantiates
// it for its engines.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/engine.h"
#include "support/temp_dir.h"

namespace headrace::io {

struct Aligned {
  explicit Aligned(std::size_t size) : size_bytes(size), data(static_cast<std::byte*>(::aligned_alloc(4096, size))) {
    std::memset(data, 0xEE, size);
  }
  ~Aligned() { ::free(data); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  std::span<std::byte> span() { return {data, size_bytes}; }
  std::size_t size_bytes;
  std::byte* data;
};

// An engine may behave differently when one thread uses it: io_uring has two kinds of rings.
struct Variant : EngineRow {
  bool one_thread = false;
  bool to_device = false;
};

inline std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const EngineRow& row : engines()) {
    for (const bool one_thread : {false, true}) out.push_back({row, one_thread});
    if (row.reaches_device_memory) out.push_back({row, true, true});
  }
  return out;
}

class EngineOverFile : public ::testing::TestWithParam<Variant> {
 protected:
  static constexpr std::size_t kFileBytes = 1'000'003;  // not a multiple of any block or page size

  void SetUp() override {
    ASSERT_TRUE(dir_.ok());
    bytes_ = support::pattern(kFileBytes);
    ASSERT_TRUE(support::write_file(dir_ / "file", bytes_));
    fd_ = ::open((dir_ / "file").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd_, 0);
    remake({});
  }
  void TearDown() override {
    engine_.reset();
    if (fd_ >= 0) ::close(fd_);
  }
  void remake(EngineOptions options) {
    options.one_thread = GetParam().one_thread;
    options.to_device = GetParam().to_device;
    engine_.reset();
    auto engine = GetParam().make(options);
    if (!engine.ok()) GTEST_SKIP() << GetParam().name << ": " << engine.status().to_string();
    engine_ = std::move(*engine);
  }

  void submit_all(std::vector<EngineRequest> requests) {
    std::span<const EngineRequest> rest = requests;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!rest.empty() && std::chrono::steady_clock::now() < until) {
      auto taken = engine_->submit(rest);
      ASSERT_TRUE(taken.ok()) << taken.status().to_string();
      rest = rest.subspan(*taken);
      if (*taken == 0) collect(1);
    }
    ASSERT_TRUE(rest.empty());
  }
  // Reaps until `count` more events have arrived; each tag must arrive once.
  void collect(std::size_t count) {
    EngineResult events[7];
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (count > 0 && std::chrono::steady_clock::now() < until) {
      auto n = engine_->reap(events, std::chrono::seconds(1));
      ASSERT_TRUE(n.ok()) << n.status().to_string();
      for (std::size_t i = 0; i < *n; ++i) {
        EXPECT_TRUE(results_.emplace(events[i].tag, events[i].result).second)
            << "second completion of " << events[i].tag;
      }
      count -= std::min(count, *n);
    }
    ASSERT_EQ(count, 0u);
  }

  support::TempDir dir_;
  std::vector<std::byte> bytes_;
  int fd_ = -1;
  std::unique_ptr<Engine> engine_;
  std::map<std::uint64_t, std::int64_t> results_;
};

inline std::string name_of(const ::testing::TestParamInfo<Variant>& info) {
  return std::string(info.param.name) + (info.param.one_thread ? "_one_thread" : "") +
         (info.param.to_device ? "_to_device" : "");
}

inline void PrintTo(const EngineRow& row, std::ostream* out) { *out << row.name; }

}  // namespace headrace::io
