// The sums equal those of the definition, also when they are folded many times.
#include "fletcher32.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

std::uint32_t by_definition(const Bytes& data) {
  std::uint64_t sum1 = 0, sum2 = 0;
  for (std::size_t i = 0; i < data.size(); i += 2) {
    const std::uint64_t low = i + 1 < data.size() ? std::to_integer<std::uint64_t>(data[i + 1]) : 0;
    sum1 += std::to_integer<std::uint64_t>(data[i]) << 8 | low;
    sum2 += sum1;
  }
  const auto fold = [](std::uint64_t sum) { return sum == 0 ? 0 : (sum - 1) % 65535 + 1; };
  return static_cast<std::uint32_t>(fold(sum2) << 16 | fold(sum1));
}

TEST(Fletcher32, SameAsTheDefinition) {
  for (const std::size_t bytes : {0, 1, 2, 3, 719, 720, 721, 131071, 131072, 131073, 400001}) {
    for (const Bytes& data : {sample(bytes, Content::kRandom), Bytes(bytes), Bytes(bytes, std::byte{0xFF})}) {
      EXPECT_EQ(codec::fletcher32(data.data(), bytes), by_definition(data)) << bytes;
    }
  }
}

TEST(Fletcher32Codec, DamagedStreams) {
  const auto codec = make("fletcher32", "{}", 2);
  Bytes encoded(104);
  auto encoder = codec->make_encoder();
  ASSERT_TRUE((*encoder)->encode(sample(100, Content::kText), encoded).ok());
  damage(*codec, encoded, 100);
  expect_refused("numcodecs.fletcher32", R"({"location":"end"})", "location");
}

}  // namespace
}  // namespace headrace::test
