// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on
#include <gtest/gtest.h>
#include <zstd.h>
#include "tests/support/codec_testing.h"
#include "tests/support/zstd_on_cpu.h"
namespace headrace::test {
namespace {
Bytes compress(const Bytes& plain, int level, bool checksum=false) {
  Bytes out(ZSTD_compressBound(plain.size()));
  ZSTD_CCtx* c = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, checksum);
  out.resize(ZSTD_compress2(c, out.data(), out.size(), plain.data(), plain.size()));
  ZSTD_freeCCtx(c);
  return out;
}
TEST(ZstdDevice, Smoke) {
  ZstdOnCpu gpu;
  for (const std::size_t bytes : {0, 1, 100, 1000, 5000, 131071, 131072, 131073, 300000}) {
    for (const Content content : {Content::kRandom, Content::kZeros, Content::kSmooth, Content::kText}) {
      for (int level : {1, 3, 19}) {
      const Bytes plain = sample(bytes, content);
      const Bytes z = compress(plain, level, level == 3);
      GuardBuffer in(z, Flush::kRight), out(bytes, Flush::kRight);
      ZstdOnCpu::Item item{{in.data(), in.size()}, out.span(), {}, 0};
      gpu.decode({&item, 1}, true);
      EXPECT_TRUE(item.outcome.ok()) << bytes << " " << int(content) << " level " << level << ": " << decode_reason_text(item.outcome.reason()) << " at " << item.outcome.position();
      if (item.outcome.ok()) {
      EXPECT_TRUE(std::equal(plain.begin(), plain.end(), out.data())) << bytes << " " << int(content) << " level " << level;
      }
      }
    }
  }
}
}
}
