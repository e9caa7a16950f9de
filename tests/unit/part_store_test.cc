// Objects that are parts of other objects: heads that are read with the bytes or before them, failures, and cancelled
// reads. Each read ends once.
#include "store/part_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/memory_budget.h"
#include "support/held_store.h"
#include "support/temp_dir.h"

namespace headrace::store {
namespace {

using support::pattern;
using testing::HeldStore;
using testing::OneRead;

// A file of 1,000 bytes: a head of 20 bytes at 100, whose first byte is its length, and 300 bytes behind it.
class Parts final : public PartStore {
 public:
  Parts(HeldStore& held, std::shared_ptr<base::MemoryBudget> memory, bool steady)
      : PartStore(std::move(memory), steady), held_(held) {}
  std::string url() const override { return "parts"; }
  std::atomic<int> wholes{0};
  std::function<void()> checking;  // called when a head is checked

 private:
  Status locate(std::string_view key, Part& out) const noexcept override {
    if (key == "text") {
      out.memory = text_;
      out.bytes = text_.size();
      return {};
    }
    if (key != "x") return Status(Code::kNotFound, Layer::kStore, "no such object");
    out.store = &held_;
    out.key = "file";
    out.version = "1";
    out.object_bytes = 1000;
    out.bytes = 300;
    out.has_head = true;
    out.head_at = 100;
    out.begin = begin_;
    out.head_known = begin_ != 0;
    out.head_bytes = 30;
    out.end = 900;
    return {};
  }
  Status check_head(const Part& part, std::span<const std::byte> head, std::uint64_t& begin,
                    std::uint64_t& needed) noexcept override {
    if (checking) checking();
    const auto length = std::to_integer<std::uint64_t>(head[0]);
    if (length == 0) return Status(Code::kCorrupt, Layer::kStore, "no head");
    if (length > head.size()) {
      needed = length;
      return Status(Code::kShort, Layer::kStore, "a long head");
    }
    begin_ = begin = part.head_at + length;
    return {};
  }
  Status check_whole(const Part&, std::span<const std::byte>) const noexcept override {
    ++const_cast<Parts*>(this)->wholes;
    return {};
  }
  Status missing(const Part&) const noexcept override { return Status(Code::kIo, Layer::kStore, "the file is gone"); }

  HeldStore& held_;
  const Bytes text_ = pattern(40, 3);
  std::atomic<std::uint64_t> begin_{0};
};

Bytes file(unsigned char head_bytes) {
  Bytes out = pattern(1000, 7);
  out[100] = static_cast<std::byte>(head_bytes);
  return out;
}
Bytes part_of(const Bytes& file, unsigned head_bytes, std::size_t offset, std::size_t size) {
  const auto at = file.begin() + 100 + static_cast<std::ptrdiff_t>(head_bytes + offset);
  return {at, at + static_cast<std::ptrdiff_t>(size)};
}

TEST(PartStore, WholeObjectsAreReadWithTheirHeadsOnce) {
  for (const bool steady : {false, true}) {
    HeldStore held;
    Parts parts(held, nullptr, steady);
    for (std::size_t pass = 1; pass <= 3; ++pass) {
      OneRead read("x", 0, 350);
      ASSERT_TRUE(read.start(parts).ok());
      ASSERT_EQ(held.requests(), pass);
      ASSERT_TRUE(held.answer(file(20), "1"));
      ASSERT_TRUE(read.ends());
      EXPECT_EQ(read.bytes(), part_of(file(20), 20, 0, 300));
      EXPECT_EQ(read.answer().object_bytes, 300u);
      EXPECT_EQ(read.answer().found_version, "1");
    }
    EXPECT_EQ(parts.wholes, 3);
  }
}

TEST(PartStore, OtherReadsAskForTheHeadFirst) {
  for (const unsigned char head : {static_cast<unsigned char>(20), static_cast<unsigned char>(200)}) {
    HeldStore held;
    Parts parts(held, nullptr, false);
    OneRead read("x", 50, 100), end("x", 0, 400);
    ASSERT_TRUE(read.start(parts).ok());
    while (held.answer(file(head), "1")) {
    }
    ASSERT_TRUE(read.ends());
    EXPECT_EQ(read.bytes(), part_of(file(head), head, 50, 100));
    EXPECT_EQ(held.requests(), head == 20 ? 2u : 3u);
    ASSERT_TRUE(end.start(parts).ok());
    ASSERT_TRUE(held.answer(file(head), "1"));
    ASSERT_TRUE(end.ends());
    EXPECT_EQ(end.bytes(), part_of(file(head), head, 0, 300));
    EXPECT_EQ(parts.wholes, 1) << "only what was read whole can be checked";
  }
  // No memory for head and bytes together, and a head that is longer than usual.
  for (const unsigned char head : {static_cast<unsigned char>(20), static_cast<unsigned char>(200)}) {
    HeldStore held;
    const auto memory = std::make_shared<base::MemoryBudget>(head == 20 ? 100 : 10'000, "an option");
    Parts parts(held, memory, false);
    OneRead read("x", 0, 300);
    ASSERT_TRUE(read.start(parts).ok());
    while (held.answer(file(head), "1")) {
    }
    ASSERT_TRUE(read.ends());
    EXPECT_EQ(read.bytes(), part_of(file(head), head, 0, 300));
    EXPECT_EQ(held.requests(), 2u);
    EXPECT_EQ(memory->used_bytes(), 0u);
  }
}

TEST(PartStore, WhatNeedsNoRequest) {
  HeldStore held;
  Parts parts(held, nullptr, false);
  OneRead none("none", 0, 10), text("text", 5, 100), other("x", 0, 10, "2"), behind("x", 300, 10);
  for (OneRead* const read : {&none, &text, &other, &behind}) {
    ASSERT_TRUE(read->start(parts).ok());
    ASSERT_TRUE(read->ends());
  }
  EXPECT_EQ(none.answer().status.code(), Code::kNotFound);
  const Bytes whole = pattern(40, 3);
  EXPECT_EQ(text.bytes(), Bytes(whole.begin() + 5, whole.end()));
  EXPECT_EQ(other.answer().status.code(), Code::kAgainExhausted);
  EXPECT_EQ(behind.bytes().size(), 0u);
  EXPECT_EQ(held.requests(), 0u);
}

TEST(PartStore, FailuresEndTheRead) {
  const auto fails = [](const std::function<void(HeldStore&)>& act) {
    HeldStore held;
    Parts parts(held, nullptr, false);
    OneRead read("x", 0, 300), part("x", 10, 10);
    EXPECT_TRUE(read.start(parts).ok());
    act(held);
    EXPECT_TRUE(read.ends());
    EXPECT_EQ(read.times(), 1);
    return read.answer().status.code();
  };
  EXPECT_EQ(fails([](HeldStore& held) { held.fail(Code::kNotFound); }), Code::kIo) << "never a fill value";
  EXPECT_EQ(fails([](HeldStore& held) { held.fail(Code::kPermission); }), Code::kPermission);
  EXPECT_EQ(fails([](HeldStore& held) { held.answer(file(20), "2"); }), Code::kAgainExhausted);
  EXPECT_EQ(fails([](HeldStore& held) { held.answer(file(0), "1"); }), Code::kCorrupt);
  EXPECT_EQ(fails([](HeldStore& held) { held.answer(pattern(999), "1"); }), Code::kAgainExhausted) << "another length";
  // The second request is refused.
  EXPECT_EQ(fails([](HeldStore& held) {
              held.refuse = [] { return Status(Code::kIo, Layer::kStore, "not now"); };
              held.answer(file(200), "1");
            }),
            Code::kIo);
  HeldStore refusing;
  refusing.refuse = [] { return Status(Code::kIo, Layer::kStore, "not now"); };
  Parts parts(refusing, nullptr, false);
  OneRead read("x", 0, 300);
  ASSERT_TRUE(read.start(parts).ok());
  ASSERT_TRUE(read.ends());
  EXPECT_EQ(read.answer().status.code(), Code::kIo);
}

// Between two requests of a read. The flag orders nothing, so that ThreadSanitizer sees what the threads share.
TEST(PartStore, ACancelWhileAHeadIsChecked) {
  HeldStore held;
  Parts parts(held, nullptr, false);
  OneRead read("x", 50, 100);
  std::atomic<bool> checks{false};
  parts.checking = [&] {
    checks.store(true, std::memory_order_relaxed);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  ASSERT_TRUE(read.start(parts).ok());
  std::thread answering([&] { held.answer(file(20), "1"); });
  while (!checks.load(std::memory_order_relaxed)) std::this_thread::yield();
  read.cancel(parts);
  answering.join();
  ASSERT_TRUE(read.ends());
  EXPECT_EQ(read.answer().status.code(), Code::kCancelled);
  EXPECT_EQ(held.requests(), 1u);
}

TEST(PartStore, EveryReadEndsOnceWhenCancelled) {
  HeldStore held;
  Parts parts(held, nullptr, false);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::unique_ptr<OneRead>> reads;
    for (int i = 0; i < 6; ++i) {
      reads.push_back(std::make_unique<OneRead>("x", i % 2 == 0 ? 0 : 10, 300));
      ASSERT_TRUE(reads.back()->start(parts).ok());
    }
    std::thread answering([&] {
      for (int i = 0; i < 20; ++i) held.answer(file(round % 2 == 0 ? 20 : 200), "1");
    });
    for (const auto& read : reads) read->cancel(parts);
    answering.join();
    for (const auto& read : reads) {
      ASSERT_TRUE(read->ends());
      ASSERT_EQ(read->times(), 1);
      const Code code = read->answer().status.code();
      ASSERT_TRUE(code == Code::kOk || code == Code::kCancelled) << read->answer().status.to_string();
    }
  }
}

}  // namespace
}  // namespace headrace::store
