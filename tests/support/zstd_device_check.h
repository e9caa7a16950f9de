// What tests of zstd's device code share: it runs on the CPU between guard pages, and libzstd is asked for the same.
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include <gtest/gtest.h>
#include <zstd.h>

#include <memory>
#include <random>
#include <string>

#include "tests/support/codec_testing.h"
#include "tests/support/float_field.h"
#include "tests/support/zstd_on_cpu.h"

namespace headrace::test {

using device::DecodeOutcome;
using device::DecodeReason;

struct ZstdOptions {
  int level = 3;
  bool checksum = false;
  int window_log = 0;
  bool size = true;
};

inline Bytes compress(const Bytes& plain, const ZstdOptions& options = {}) {
  Bytes out(ZSTD_compressBound(plain.size()) + 100);
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, options.level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, options.checksum);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, options.size);
  if (options.window_log != 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, options.window_log);
  const std::size_t bytes = ZSTD_compress2(context, out.data(), out.size(), plain.data(), plain.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(bytes));
  out.resize(ZSTD_isError(bytes) ? 0 : bytes);
  return out;
}

class ZstdDeviceTest : public ::testing::Test {
 protected:
  ZstdDeviceTest() : codec_(make("zstd", "{}", 2)), decode_(*codec_) {}

  // The device's verdict, over both old contents and flush with either guard page, for every number of blocks a warp.
  DecodeOutcome run(std::span<const std::byte> stream, std::size_t capacity, bool exact, Bytes& bytes) {
    DecodeOutcome first;
    for (const Flush flush : {Flush::kRight, Flush::kLeft}) {
      GuardBuffer in(stream, flush), out(capacity, flush);
      if (capacity != 0) std::memset(out.data(), flush == Flush::kRight ? 0 : 0xFF, capacity);
      ZstdOnCpu::Item item{{in.data(), in.size()}, out.span(), {}, 0};
      gpu_.walks = flush == Flush::kRight ? 1 : ++turn_ % 2 == 0 ? 4 : 8;
      gpu_.way = flush == Flush::kLeft ? ZstdOnCpu::Way::kInOrder
                 : turn_ % 2 == 0      ? ZstdOnCpu::Way::kTiles
                                       : ZstdOnCpu::Way::kWindows;
      gpu_.part_bytes = flush == Flush::kRight ? 0 : 8 + static_cast<std::uint32_t>(stream.size() / (1 + turn_ % 40));
      gpu_.last_blocks.clear();
      gpu_.decode({&item, 1}, exact);
      EXPECT_TRUE(out.intact());
      if (flush == Flush::kRight) {
        first = item.outcome;
        bytes.clear();
        if (first.ok()) bytes.assign(out.data(), out.data() + item.produced);
        continue;
      }
      // Which of several faults is reported depends on the launches; whether one is does not.
      EXPECT_EQ(first.ok(), item.outcome.ok());
      if (first.ok()) {
        EXPECT_EQ(bytes.size(), item.produced);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), out.data()));
      }
    }
    return first;
  }

  // True where both decode to the same bytes or both refuse; the device may also leave it to the CPU.
  bool same_verdict(std::span<const std::byte> stream, std::size_t capacity, bool exact = true) {
    const Decoded want = decode_(stream, capacity, exact);
    Bytes got;
    const DecodeOutcome outcome = run(stream, capacity, exact, got);
    ++(want.status.ok() ? accepted_ : refused_);
    if (outcome.host_only()) {
      ++host_only_;
      return true;
    }
    EXPECT_TRUE(outcome.ok() || outcome.stage() == ZstdOnCpu::kStage);
    EXPECT_NE(want.status.code(), Code::kUnsupported);
    EXPECT_EQ(outcome.ok(), want.status.ok())
        << decode_reason_text(outcome.reason()) << " at " << outcome.position() << "; " << want.status.to_string();
    return outcome.ok() == want.status.ok() && (!outcome.ok() || got == want.bytes);
  }

  // Must be decoded on the device, to what libzstd makes of it.
  Bytes expect_decoded(const Bytes& stream, std::size_t capacity, const std::string& what, bool exact = true) {
    const Decoded want = decode_(stream, capacity, exact);
    EXPECT_TRUE(want.status.ok()) << what << ": " << want.status.to_string();
    Bytes got;
    const DecodeOutcome outcome = run(stream, capacity, exact, got);
    EXPECT_TRUE(outcome.ok()) << what << ": " << decode_reason_text(outcome.reason()) << " at " << outcome.position();
    EXPECT_TRUE(got == want.bytes) << what;
    return got;
  }
  void expect_round_trip(const Bytes& plain, const ZstdOptions& options, const std::string& what) {
    EXPECT_TRUE(expect_decoded(compress(plain, options), plain.size(), what) == plain) << what;
  }
  // Must be refused by both, on the device for that reason.
  void expect_refused(const Bytes& stream, std::size_t capacity, DecodeReason reason, const std::string& rule) {
    EXPECT_FALSE(decode_(stream, capacity).status.ok()) << rule;
    Bytes got;
    const DecodeOutcome outcome = run(stream, capacity, true, got);
    EXPECT_EQ(outcome.reason(), reason) << rule << ": " << decode_reason_text(outcome.reason()) << " at "
                                        << outcome.position();
    EXPECT_FALSE(outcome.ok()) << rule;
  }
  // Not decided on the device.
  void expect_left_to_cpu(const Bytes& stream, std::size_t capacity, const std::string& rule) {
    Bytes got;
    const DecodeOutcome outcome = run(stream, capacity, true, got);
    EXPECT_TRUE(outcome.host_only()) << rule << ": "
                                     << (outcome.ok() ? "decoded" : decode_reason_text(outcome.reason())) << " at "
                                     << outcome.position();
  }

  std::unique_ptr<codec::Codec> codec_;
  Decoder decode_;
  ZstdOnCpu gpu_;
  unsigned turn_ = 0;
  int host_only_ = 0, accepted_ = 0, refused_ = 0;
};

}  // namespace headrace::test
