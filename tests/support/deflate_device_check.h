// What tests of DEFLATE's device code share: it runs on the CPU between guard pages, and libdeflate is asked for the
// same.
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include <gtest/gtest.h>
#include <libdeflate.h>
#include <zlib.h>

#include <memory>
#include <random>
#include <string>

#include "tests/support/codec_testing.h"
#include "tests/support/deflate_on_cpu.h"
#include "tests/support/float_field.h"

namespace headrace::test {

using codec::gpu::DeflateKind;
using device::DecodeOutcome;
using device::DecodeReason;

inline const char* name_of(DeflateKind kind) { return kind == DeflateKind::kGzip ? "gzip" : "zlib"; }

inline Bytes deflate_by_libdeflate(const Bytes& plain, DeflateKind kind, int level = 6) {
  libdeflate_compressor* const compressor = libdeflate_alloc_compressor(level);
  Bytes out(libdeflate_gzip_compress_bound(compressor, plain.size()));
  const auto compress = kind == DeflateKind::kGzip ? libdeflate_gzip_compress : libdeflate_zlib_compress;
  out.resize(compress(compressor, plain.data(), plain.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  EXPECT_FALSE(out.empty());
  return out;
}

struct ZlibOptions {
  int level = 6, strategy = Z_DEFAULT_STRATEGY, memory = 8, window = 15;
  std::size_t flush_each = 0;  // bytes
  int flush = Z_SYNC_FLUSH;
};

inline Bytes deflate_by_zlib(const Bytes& plain, DeflateKind kind, const ZlibOptions& options = {}) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, options.level, Z_DEFLATED, options.window + (kind == DeflateKind::kGzip ? 16 : 0),
                         options.memory, options.strategy),
            Z_OK);
  Bytes out(deflateBound(&z, plain.size()) + 1000 +
            (options.flush_each == 0 ? 0 : 20 * (plain.size() / options.flush_each + 1)));
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  const std::size_t step = options.flush_each == 0 ? plain.size() : options.flush_each;
  for (std::size_t at = 0; at < plain.size(); at += step) {
    z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data() + at));
    z.avail_in = static_cast<uInt>(std::min(step, plain.size() - at));
    EXPECT_EQ(::deflate(&z, options.flush_each != 0 ? options.flush : Z_NO_FLUSH), Z_OK);
  }
  EXPECT_EQ(::deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

class DeflateDeviceTest : public ::testing::Test {
 protected:
  DeflateDeviceTest()
      : gzip_(make("gzip", "{}", 2)), zlib_(make("zlib", "{}", 2)), decode_gzip_(*gzip_), decode_zlib_(*zlib_) {}

  Decoded decode(std::span<const std::byte> stream, std::size_t capacity, bool exact = true) {
    return gpu_.kind == DeflateKind::kGzip ? decode_gzip_(stream, capacity, exact)
                                           : decode_zlib_(stream, capacity, exact);
  }

  // The device's verdict, over both old contents and flush with either guard page, with and without looking for blocks.
  DecodeOutcome run(std::span<const std::byte> stream, std::size_t capacity, bool exact, Bytes& bytes) {
    DecodeOutcome first;
    for (const Flush flush : {Flush::kRight, Flush::kLeft}) {
      GuardBuffer in(stream, flush), out(capacity, flush);
      if (capacity != 0) std::memset(out.data(), flush == Flush::kRight ? 0 : 0xFF, capacity);
      DeflateOnCpu::Item item{{in.data(), in.size()}, out.span(), {}, 0};
      ++turn_;
      gpu_.search = flush == Flush::kRight;
      gpu_.way = flush == Flush::kLeft ? DeflateOnCpu::Way::kInOrder
                 : turn_ % 4 == 1      ? DeflateOnCpu::Way::kTiles
                                       : DeflateOnCpu::Way::kWindows;
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
      if (first.ok() && item.outcome.ok()) {
        EXPECT_EQ(bytes.size(), item.produced);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), out.data()));
      }
    }
    return first;
  }

  // True where both decode to the same bytes or both refuse; the device may also leave it to the CPU.
  bool same_verdict(std::span<const std::byte> stream, std::size_t capacity, bool exact = true) {
    const Decoded want = decode(stream, capacity, exact);
    Bytes got;
    const DecodeOutcome outcome = run(stream, capacity, exact, got);
    ++(want.status.ok() ? accepted_ : refused_);
    if (outcome.host_only()) {
      ++host_only_;
      return true;
    }
    EXPECT_TRUE(outcome.ok() || outcome.stage() == DeflateOnCpu::kStage);
    EXPECT_EQ(outcome.ok(), want.status.ok())
        << decode_reason_text(outcome.reason()) << " at " << outcome.position() << "; " << want.status.to_string();
    return outcome.ok() == want.status.ok() && (!outcome.ok() || got == want.bytes);
  }

  // Must be decoded on the device, to what libdeflate makes of it.
  Bytes expect_decoded(const Bytes& stream, std::size_t capacity, const std::string& what, bool exact = true) {
    const Decoded want = decode(stream, capacity, exact);
    EXPECT_TRUE(want.status.ok()) << what << ": " << want.status.to_string();
    Bytes got;
    const DecodeOutcome outcome = run(stream, capacity, exact, got);
    EXPECT_TRUE(outcome.ok()) << what << ": " << decode_reason_text(outcome.reason()) << " at " << outcome.position();
    EXPECT_TRUE(got == want.bytes) << what;
    return got;
  }
  // Must be refused by both, on the device for that reason.
  void expect_refused(const Bytes& stream, std::size_t capacity, DecodeReason reason, const std::string& rule) {
    EXPECT_FALSE(decode(stream, capacity).status.ok()) << rule;
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

  std::unique_ptr<codec::Codec> gzip_, zlib_;
  Decoder decode_gzip_, decode_zlib_;
  DeflateOnCpu gpu_;
  unsigned turn_ = 0;
  int host_only_ = 0, accepted_ = 0, refused_ = 0;
};

}  // namespace headrace::test
