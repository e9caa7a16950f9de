// A part of a container decodes to the requested bytes, for every writer and every order of blocks. Hostile tables
// never cause reads outside the container.
#include "blosc_part.h"

#include <blosc.h>

#include <map>
#include <utility>

#include "blosc_header.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

using codec::BloscHeader;
using codec::StreamPart;

struct Writer {
  const char* inner = "lz4";
  int shuffle = 1;
  std::size_t item = 4, block = 0;
  int level = 5;
};

Bytes compress(const Bytes& plain, const Writer& writer) {
  Bytes out(plain.size() + 4096 + BLOSC_MAX_OVERHEAD);
  const int got = blosc_compress_ctx(writer.level, writer.shuffle, writer.item, plain.size(), plain.data(), out.data(),
                                     out.size(), writer.inner, writer.block, 1);
  EXPECT_GT(got, 0) << writer.inner;
  out.resize(static_cast<std::size_t>(std::max(got, 0)));
  return out;
}

// The same container with its blocks in another order, as if its writer's threads had finished differently.
Bytes reordered(const Bytes& container, std::mt19937& random) {
  BloscHeader header;
  EXPECT_TRUE(codec::parse_blosc_header(container, header).ok());
  std::vector<std::uint32_t> order(header.block_count), starts(header.block_count);
  for (std::uint32_t i = 0; i < header.block_count; ++i) {
    order[i] = i;
    starts[i] = codec::blosc_u32(&container[BloscHeader::kBytes + std::size_t{4} * i]);
  }
  std::shuffle(order.begin(), order.end(), random);
  Bytes out(container.begin(), container.begin() + BloscHeader::kBytes + std::ptrdiff_t{4} * header.block_count);
  for (const std::uint32_t i : order) {
    const std::size_t end = i + 1 < header.block_count ? starts[i + 1] : container.size();
    for (std::size_t k = 0; k < 4; ++k) {
      out[BloscHeader::kBytes + std::size_t{4} * i + k] = static_cast<std::byte>(out.size() >> (8 * k));
    }
    out.insert(out.end(), container.begin() + starts[i], container.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return out;
}

// The part as a container; empty if it cannot be cut.
Bytes part_of(const Bytes& container, std::uint64_t begin, std::uint64_t end, StreamPart& part) {
  const std::span<const std::byte> table(container.data(), std::min(container.size(), codec::kBloscPartTableBytes));
  Bytes head(codec::kBloscPartTableBytes);
  if (!codec::cut_blosc(table, container.size(), begin, end, head, part)) return {};
  EXPECT_LE(part.begin + part.bytes, container.size());
  EXPECT_LE(part.head_bytes, head.size());
  // The bytes before the part leave room for the head, since readers put it there.
  EXPECT_LE(part.head_bytes, part.begin);
  Bytes out(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(part.head_bytes));
  const auto from = container.begin() + static_cast<std::ptrdiff_t>(part.begin);
  out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(part.bytes));
  return out;
}

class Parts : public ::testing::Test {
 protected:
  // Returns whether a part could be cut; compares what it decodes to.
  bool check(const Bytes& plain, const Bytes& container, std::uint64_t begin, std::uint64_t end) {
    StreamPart part;
    const Bytes cut = part_of(container, begin, end, part);
    if (cut.empty()) return false;
    EXPECT_LE(part.decoded_begin, begin);
    EXPECT_GE(part.decoded_begin + part.decoded_bytes, end);
    EXPECT_LE(part.decoded_begin + part.decoded_bytes, plain.size());
    const Decoded got = decode_(cut, static_cast<std::size_t>(part.decoded_bytes));
    EXPECT_TRUE(got.status.ok()) << got.status.to_string();
    const auto from = plain.begin() + static_cast<std::ptrdiff_t>(part.decoded_begin);
    EXPECT_TRUE(std::equal(got.bytes.begin(), got.bytes.end(), from)) << begin << " to " << end;
    // c-blosc must accept the part as a container, too.
    Bytes reference(static_cast<std::size_t>(part.decoded_bytes));
    EXPECT_EQ(blosc_decompress_ctx(cut.data(), reference.data(), reference.size(), 1), int(reference.size()));
    EXPECT_EQ(reference, got.bytes);
    return true;
  }

  MadeCodec codec_ = make("numcodecs.blosc");
  Decoder decode_{*codec_};
  std::mt19937 random_{20261125};
};

TEST_F(Parts, OfAnyWriterDecodeToTheRequestedBytes) {
  std::size_t parts = 0;
  std::map<std::pair<Content, std::size_t>, Bytes> samples;
  for (const char* inner : {"blosclz", "lz4", "lz4hc", "zlib", "zstd"}) {
    for (int shuffle = 0; shuffle <= 2; ++shuffle) {
      for (const std::size_t item : {1, 2, 3, 4, 8, 17}) {
        for (const std::size_t bytes : {1, 100, 4096, 65536 + 13, 300'000}) {
          for (const std::size_t block : {0, 512, 16384}) {
            if (block > bytes) continue;
            const Content content = item % 2 == 0 ? Content::kSmooth : Content::kText;
            Bytes& plain = samples[{content, bytes}];
            if (plain.empty()) plain = sample(bytes, content, unsigned(bytes));
            Bytes container = compress(plain, {inner, shuffle, item, block});
            if (item % 4 == 0) container = reordered(container, random_);
            for (int i = 0; i < 4; ++i) {
              const std::uint64_t begin = random_() % bytes, end = begin + 1 + random_() % (bytes - begin);
              parts += check(plain, container, begin, end) ? 1 : 0;
            }
            parts += check(plain, container, bytes - 1, bytes) ? 1 : 0;
            if (HasFailure()) return;
          }
        }
      }
    }
  }
  EXPECT_GT(parts, 2000u);
}

TEST_F(Parts, OfStoredContainersAreTheirBytes) {
  const Bytes plain = sample(100'000, Content::kRandom);
  const Bytes container = compress(plain, {.level = 0});
  StreamPart part;
  const Bytes cut = part_of(container, 5000, 5100, part);
  EXPECT_EQ(cut.size(), 116u);
  EXPECT_TRUE(check(plain, container, 5000, 5100));
  EXPECT_TRUE(check(plain, container, 0, 1));
  EXPECT_TRUE(check(plain, container, 0, plain.size()));
}

TEST_F(Parts, TakeOnlyTheBlocksThatAreAskedFor) {
  const Bytes plain = sample(1'000'000, Content::kSmooth);
  const Bytes container = compress(plain, {.block = 16384});
  BloscHeader header;
  ASSERT_TRUE(codec::parse_blosc_header(container, header).ok());
  ASSERT_GT(header.block_count, 10u);
  StreamPart part;
  const std::uint64_t at = std::uint64_t{3} * header.block_bytes + 100;
  ASSERT_FALSE(part_of(container, at, at + 1, part).empty());
  EXPECT_EQ(part.decoded_bytes, header.block_bytes);
  EXPECT_EQ(part.decoded_begin, std::uint64_t{3} * header.block_bytes);
  EXPECT_LT(part.bytes, 2 * container.size() / header.block_count);
}

// Each damaged table is either cut or refused; the part lies in the container, and decoding it ends in a status.
TEST_F(Parts, OfDamagedTablesStayInsideTheContainer) {
  const Bytes plain = sample(200'000, Content::kSmooth);
  const Bytes good = compress(plain, {.block = 4096});
  std::size_t cut = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes container = good;
    for (unsigned k = 0; k < 1 + random_() % 3; ++k) {
      const std::size_t at = random_() % 2 == 0 ? random_() % 16 : 16 + 4 * (random_() % 48) + random_() % 4;
      container[at] = static_cast<std::byte>(random_() % 3 == 0 ? 255 : random_());
    }
    if (random_() % 4 == 0) container.resize(random_() % container.size());
    const std::uint64_t begin = random_() % plain.size(), end = begin + 1 + random_() % (plain.size() - begin);
    StreamPart part;
    const Bytes taken = part_of(container, begin, end, part);
    if (HasFailure()) return;
    if (taken.empty()) continue;
    ++cut;
    (void)decode_(taken, static_cast<std::size_t>(part.decoded_bytes));
  }
  EXPECT_GT(cut, 100u);
}

}  // namespace
}  // namespace headrace::test
