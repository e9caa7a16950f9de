// Helpers shared by the tests of one codec's device code. The code runs on the CPU between guard pages, and the codec's
// CPU code is the reference.
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "device/decode.h"
#include "tests/support/codec_testing.h"
#include "tests/support/guard_buffer.h"
#include "tests/support/temp_dir.h"

namespace headrace::test {

using device::DecodeOutcome;
using device::DecodeReason;

// `Gpu` is ZstdOnCpu or a class like it.
template <class Gpu>
class DeviceDecodeTest : public ::testing::Test {
 protected:
  virtual Decoded by_cpu(std::span<const std::byte> stream, std::size_t capacity, bool exact) = 0;
  // Configures gpu_ for the next decode: first flush right over zeros, then flush left over ones.
  virtual void choose_way(Flush flush, std::size_t stream_bytes) = 0;
  // Compares two decodes of the same stream. Which of several faults is reported depends on the launches; whether one
  // is reported does not.
  virtual void expect_alike(const DecodeOutcome& first, const DecodeOutcome& second) {
    EXPECT_EQ(first.ok(), second.ok());
  }

  // The device's verdict, with both old contents and flush with either guard page.
  DecodeOutcome run(std::span<const std::byte> stream, std::size_t capacity, bool exact, Bytes& bytes) {
    DecodeOutcome first;
    for (const Flush flush : {Flush::kRight, Flush::kLeft}) {
      GuardBuffer in(stream, flush), out(capacity, flush);
      if (capacity != 0) std::memset(out.data(), flush == Flush::kRight ? 0 : 0xFF, capacity);
      typename Gpu::Item item{{in.data(), in.size()}, out.span(), {}, 0};
      choose_way(flush, stream.size());
      gpu_.decode({&item, 1}, exact);
      EXPECT_TRUE(out.intact());
      if (flush == Flush::kRight) {
        first = item.outcome;
        bytes.clear();
        if (first.ok()) bytes.assign(out.data(), out.data() + item.produced);
        continue;
      }
      expect_alike(first, item.outcome);
      if (first.ok() && item.outcome.ok()) {
        EXPECT_EQ(bytes.size(), item.produced);
        EXPECT_TRUE(support::same_bytes(bytes, {out.data(), bytes.size()}));
      }
    }
    return first;
  }

  // True if both decode to the same bytes or both refuse; the device may also leave the stream to the CPU.
  bool same_verdict(std::span<const std::byte> stream, std::size_t capacity, bool exact = true) {
    const Decoded want = by_cpu(stream, capacity, exact);
    Bytes got;
    const DecodeOutcome outcome = run(stream, capacity, exact, got);
    ++(want.status.ok() ? accepted_ : refused_);
    if (outcome.host_only()) {
      ++host_only_;
      return true;
    }
    EXPECT_TRUE(outcome.ok() || outcome.stage() == Gpu::kStage);
    EXPECT_NE(want.status.code(), Code::kUnsupported);  // the CPU's message says more
    EXPECT_EQ(outcome.ok(), want.status.ok())
        << decode_reason_text(outcome.reason()) << " at " << outcome.position() << "; " << want.status.to_string();
    return outcome.ok() == want.status.ok() && (!outcome.ok() || got == want.bytes);
  }

  // The device must decode the stream to what the CPU decodes it to, which is returned.
  Bytes expect_decoded(const Bytes& stream, std::size_t capacity, const std::string& what, bool exact = true) {
    const Decoded want = by_cpu(stream, capacity, exact);
    EXPECT_TRUE(want.status.ok()) << what << ": " << want.status.to_string();
    Bytes got;
    const DecodeOutcome outcome = run(stream, capacity, exact, got);
    EXPECT_TRUE(outcome.ok()) << what << ": " << decode_reason_text(outcome.reason()) << " at " << outcome.position();
    EXPECT_TRUE(got == want.bytes) << what;
    return got;
  }
  // Both must refuse the stream, the device with `reason`.
  void expect_refused(const Bytes& stream, std::size_t capacity, DecodeReason reason, const std::string& rule) {
    EXPECT_FALSE(by_cpu(stream, capacity, true).status.ok()) << rule;
    Bytes got;
    const DecodeOutcome outcome = run(stream, capacity, true, got);
    EXPECT_EQ(outcome.reason(), reason) << rule << ": " << decode_reason_text(outcome.reason()) << " at "
                                        << outcome.position();
    EXPECT_FALSE(outcome.ok()) << rule;
  }
  // The device must leave the stream to the CPU.
  void expect_left_to_cpu(const Bytes& stream, std::size_t capacity, const std::string& rule) {
    Bytes got;
    const DecodeOutcome outcome = run(stream, capacity, true, got);
    EXPECT_TRUE(outcome.host_only()) << rule << ": "
                                     << (outcome.ok() ? "decoded" : decode_reason_text(outcome.reason())) << " at "
                                     << outcome.position();
  }

  Gpu gpu_;
  unsigned turn_ = 0;  // counted in choose_way
  int host_only_ = 0, accepted_ = 0, refused_ = 0;
};

}  // namespace headrace::test
