// Tests that every unshuffle path matches the definition, for all widths and odd lengths, and stays in its buffers.
#include "codec/unshuffle.h"

#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

Bytes reference_unshuffle(const Bytes& src, std::size_t item) {
  Bytes out = src;
  const std::size_t items = src.size() / item;
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t j = 0; j < item; ++j) out[i * item + j] = src[j * items + i];
  }
  return out;
}

Bytes reference_bit_unshuffle(const Bytes& src, std::size_t item) {
  Bytes out = src;
  const std::size_t items = src.size() / item;
  if (items % 8 != 0) return out;
  std::fill(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(items * item), std::byte{0});
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t bit = 0; bit < 8 * item; ++bit) {
      const bool set = (src[bit * (items / 8) + i / 8] >> (i % 8) & std::byte{1}) != std::byte{0};
      if (set) out[i * item + bit / 8] |= std::byte{1} << (bit % 8);
    }
  }
  return out;
}

class Unshuffle : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { codec::internal::force_portable_unshuffle(GetParam()); }
  void TearDown() override { codec::internal::force_portable_unshuffle(false); }
};

TEST_P(Unshuffle, EqualsTheDefinition) {
  for (std::size_t item = 1; item <= 40; ++item) {
    for (const std::size_t items : {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 255, 256, 264, 300, 1000}) {
      for (const std::size_t tail : {std::size_t{0}, item - 1}) {
        const Bytes src = sample(items * item + tail, Content::kRandom, unsigned(item * 1000 + items));
        for (const Flush flush : {Flush::kLeft, Flush::kRight}) {
          GuardBuffer in(src, flush), out(src.size(), flush), tile(codec::bit_tile_bytes(item), flush);
          codec::unshuffle(in.data(), item, src.size(), out.data());
          ASSERT_TRUE(out.intact());
          ASSERT_EQ(Bytes(out.data(), out.data() + src.size()), reference_unshuffle(src, item)) << item << " " << items;
          codec::bit_unshuffle(in.data(), item, src.size(), out.data(), tile.data());
          ASSERT_TRUE(out.intact() && tile.intact());
          ASSERT_EQ(Bytes(out.data(), out.data() + src.size()), reference_bit_unshuffle(src, item))
              << item << " " << items;
        }
      }
    }
  }
}

TEST_P(Unshuffle, WideItems) {
  for (const std::size_t item : {255, 256, 257, 1000}) {
    const Bytes src = sample(item * 72 + 5, Content::kRandom);
    Bytes out(src.size()), tile(codec::bit_tile_bytes(item));
    codec::unshuffle(src.data(), item, src.size(), out.data());
    EXPECT_EQ(out, reference_unshuffle(src, item));
    if (item > 255) continue;
    codec::bit_unshuffle(src.data(), item, src.size(), out.data(), tile.data());
    EXPECT_EQ(out, reference_bit_unshuffle(src, item));
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Unshuffle, ::testing::Values(false, true),
                         [](const auto& path) { return path.param ? "portable" : "vector"; });

}  // namespace
}  // namespace headrace::test
