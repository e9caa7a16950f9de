// Helpers shared by the tests of DEFLATE's device code; libdeflate is the reference.
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
#include "tests/support/device_decode_testing.h"
#include "tests/support/float_field.h"

namespace headrace::test {

using codec::gpu::DeflateKind;

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

class DeflateDeviceTest : public DeviceDecodeTest<DeflateOnCpu> {
 protected:
  DeflateDeviceTest()
      : gzip_(make("gzip", "{}", 2)), zlib_(make("zlib", "{}", 2)), decode_gzip_(*gzip_), decode_zlib_(*zlib_) {}

  Decoded by_cpu(std::span<const std::byte> stream, std::size_t capacity, bool exact) override {
    return gpu_.kind == DeflateKind::kGzip ? decode_gzip_(stream, capacity, exact)
                                           : decode_zlib_(stream, capacity, exact);
  }
  // Alternates between searching for blocks and not.
  void choose_way(Flush flush, std::size_t) override {
    ++turn_;
    gpu_.search = flush == Flush::kRight;
    gpu_.way = flush == Flush::kLeft ? DeflateOnCpu::Way::kInOrder
               : turn_ % 4 == 1      ? DeflateOnCpu::Way::kTiles
                                     : DeflateOnCpu::Way::kWindows;
  }

  MadeCodec gzip_, zlib_;
  Decoder decode_gzip_, decode_zlib_;
};

}  // namespace headrace::test
