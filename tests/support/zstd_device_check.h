// Helpers shared by the tests of zstd's device code; libzstd is the reference.
//
// REQUIRES: tests/support/cuda_on_cpu.h is included before anything else.
#pragma once

#include <gtest/gtest.h>
#include <zstd.h>

#include <memory>
#include <random>
#include <string>

#include "tests/support/codec_testing.h"
#include "tests/support/device_decode_testing.h"
#include "tests/support/float_field.h"
#include "tests/support/zstd_on_cpu.h"

namespace headrace::test {

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

class ZstdDeviceTest : public DeviceDecodeTest<ZstdOnCpu> {
 protected:
  ZstdDeviceTest() : codec_(make("zstd", "{}", 2)), decode_(*codec_) {}

  Decoded by_cpu(std::span<const std::byte> stream, std::size_t capacity, bool exact) override {
    return decode_(stream, capacity, exact);
  }
  // Cycles through every number of blocks per warp.
  void choose_way(Flush flush, std::size_t stream_bytes) override {
    gpu_.walks = flush == Flush::kRight ? 1 : ++turn_ % 2 == 0 ? 4 : 8;
    gpu_.way = flush == Flush::kLeft ? ZstdOnCpu::Way::kInOrder
               : turn_ % 2 == 0      ? ZstdOnCpu::Way::kTiles
                                     : ZstdOnCpu::Way::kWindows;
    gpu_.part_bytes = flush == Flush::kRight ? 0 : 8 + static_cast<std::uint32_t>(stream_bytes / (1 + turn_ % 40));
    gpu_.last_blocks.clear();
  }
  void expect_round_trip(const Bytes& plain, const ZstdOptions& options, const std::string& what) {
    EXPECT_TRUE(expect_decoded(compress(plain, options), plain.size(), what) == plain) << what;
  }

  MadeCodec codec_;
  Decoder decode_;
};

}  // namespace headrace::test
