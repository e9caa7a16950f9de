#include "chunk_code.h"

#include <blosc.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace headrace::stress {
namespace {

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> out{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      out[i] = i;
      for (int bit = 0; bit < 8; ++bit) out[i] = out[i] >> 1 ^ (out[i] & 1 ? 0x82F63B78u : 0);
    }
    return out;
  }();
  std::uint32_t crc = ~0u;
  for (const std::byte byte : bytes) crc = crc >> 8 ^ table[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFF];
  return ~crc;
}

template <class Word>
void append(Bytes& out, Word word) {
  const auto* const from = reinterpret_cast<const std::byte*>(&word);
  out.insert(out.end(), from, from + sizeof word);
}

bool take_checksum(std::span<const std::byte>& stored) {
  if (stored.size() < 4) return false;
  std::uint32_t crc = 0;
  std::memcpy(&crc, stored.data() + stored.size() - 4, 4);
  stored = stored.first(stored.size() - 4);
  return crc == crc32c(stored);
}

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  std::uint64_t out = bytes.size();
  for (const std::byte byte : bytes) out = (out ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001B3ull;
  return test::mix(out);
}

// numcodecs' shuffle: groups byte k of all elements; bytes beyond the last whole element follow unchanged.
Bytes shuffled(const Bytes& plain, std::size_t width, bool back) {
  Bytes out = plain;
  const std::size_t count = plain.size() / width;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < width; ++k) {
      if (back) {
        out[i * width + k] = plain[k * count + i];
      } else {
        out[k * count + i] = plain[i * width + k];
      }
    }
  }
  return out;
}

// Differences of little-endian integers, or the sums that undo them.
void delta(Bytes& elements, std::size_t width, bool back) {
  std::uint64_t last = 0;
  for (std::size_t at = 0; at + width <= elements.size(); at += width) {
    std::uint64_t value = 0;
    std::memcpy(&value, &elements[at], width);
    const std::uint64_t out = back ? value + last : value - last;
    std::memcpy(&elements[at], &out, width);
    last = back ? out : value;
  }
}

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "store_fuzz: %s\n", what);
  std::abort();
}

struct Deflate {
  libdeflate_compressor* in = libdeflate_alloc_compressor(1);
  libdeflate_decompressor* out = libdeflate_alloc_decompressor();
};
Deflate& deflate() {
  static Deflate one;
  return one;
}

}  // namespace

Shape transposed(const Shape& extent, const std::vector<std::size_t>& order) {
  if (order.empty()) return extent;
  Shape out(extent.size());
  for (std::size_t i = 0; i < order.size(); ++i) out[i] = extent[order[i]];
  return out;
}

Bytes transpose_elements(const Bytes& elements, const Shape& extent, const std::vector<std::size_t>& order,
                         std::size_t item_bytes, bool back) {
  if (order.empty() || elements.empty()) return elements;
  Bytes out(elements.size());
  const Shape moved = transposed(extent, order);
  Shape at(extent.size(), 0), to(extent.size());
  std::size_t from = 0;
  do {
    for (std::size_t i = 0; i < order.size(); ++i) to[i] = at[order[i]];
    const std::size_t place = static_cast<std::size_t>(linear(to, moved)) * item_bytes;
    if (back) {
      std::memcpy(&out[from], &elements[place], item_bytes);
    } else {
      std::memcpy(&out[place], &elements[from], item_bytes);
    }
    from += item_bytes;
  } while (advance(at, extent));
  return out;
}

void ChunkCode::swap_order(Bytes& elements) const {
  if (!spec_.codecs.big_endian || spec_.type.word == 1) return;
  for (std::size_t at = 0; at < elements.size(); at += spec_.type.word) {
    std::reverse(elements.begin() + static_cast<std::ptrdiff_t>(at),
                 elements.begin() + static_cast<std::ptrdiff_t>(at + spec_.type.word));
  }
}

Bytes ChunkCode::encode(Bytes elements, const Shape& extent) {
  Bytes out = transpose_elements(elements, extent, spec_.codecs.order, spec_.type.bytes, false);
  swap_order(out);
  if (spec_.codecs.delta) delta(out, spec_.type.bytes, false);
  if (spec_.codecs.shuffle_bytes > 0) out = shuffled(out, spec_.codecs.shuffle_bytes, false);
  out = squeeze(out);
  if (spec_.codecs.checked) append(out, crc32c(out));
  return out;
}

Verdict ChunkCode::decode(std::span<const std::byte> stored, const Shape& extent, Bytes& elements) const {
  if (spec_.codecs.checked && !take_checksum(stored)) return Verdict::kRefused;
  Bytes plain;
  const Verdict verdict = unsqueeze(stored, static_cast<std::size_t>(product(extent) * spec_.type.bytes), plain);
  if (verdict != Verdict::kExact && verdict != Verdict::kEither) return verdict;
  if (spec_.codecs.shuffle_bytes > 0) plain = shuffled(plain, spec_.codecs.shuffle_bytes, true);
  if (spec_.codecs.delta) delta(plain, spec_.type.bytes, true);
  swap_order(plain);
  elements = transpose_elements(plain, extent, spec_.codecs.order, spec_.type.bytes, true);
  return verdict;
}

Bytes ChunkCode::squeeze(const Bytes& plain) {
  Bytes out;
  switch (spec_.codecs.squeeze) {
    case Squeeze::kNone:
      return plain;
    case Squeeze::kZstd: {
      static ZSTD_CCtx* const context = ZSTD_createCCtx();
      out.resize(ZSTD_compressBound(plain.size()));
      out.resize(ZSTD_compressCCtx(context, out.data(), out.size(), plain.data(), plain.size(), 1));
      break;
    }
    case Squeeze::kLz4: {
      const int bytes = static_cast<int>(plain.size());
      out.resize(4 + static_cast<std::size_t>(LZ4_compressBound(bytes)));
      std::memcpy(out.data(), &bytes, 4);
      const int got =
          LZ4_compress_default(reinterpret_cast<const char*>(plain.data()), reinterpret_cast<char*>(out.data() + 4),
                               bytes, static_cast<int>(out.size() - 4));
      out.resize(4 + static_cast<std::size_t>(got));
      break;
    }
    case Squeeze::kGzip:
      out.resize(libdeflate_gzip_compress_bound(deflate().in, plain.size()));
      out.resize(libdeflate_gzip_compress(deflate().in, plain.data(), plain.size(), out.data(), out.size()));
      break;
    case Squeeze::kZlib:
      out.resize(libdeflate_zlib_compress_bound(deflate().in, plain.size()));
      out.resize(libdeflate_zlib_compress(deflate().in, plain.data(), plain.size(), out.data(), out.size()));
      break;
    case Squeeze::kBlosc: {
      out.resize(plain.size() + BLOSC_MAX_OVERHEAD);
      const int got = blosc_compress_ctx(3, spec_.codecs.blosc_shuffle, spec_.type.bytes, plain.size(), plain.data(),
                                         out.data(), out.size(), spec_.codecs.blosc_codec, 0, 1);
      if (got <= 0) die("c-blosc cannot encode");
      out.resize(static_cast<std::size_t>(got));
      made_.insert(hash_of(out));
      break;
    }
  }
  return out;
}

Verdict ChunkCode::unsqueeze(std::span<const std::byte> stored, std::size_t bytes, Bytes& plain) const {
  plain.resize(bytes);
  const auto exact_if = [](bool right) { return right ? Verdict::kExact : Verdict::kRefused; };
  std::size_t used = 0, got = 0;
  switch (spec_.codecs.squeeze) {
    case Squeeze::kNone:
      if (stored.size() != bytes) return Verdict::kRefused;
      std::copy(stored.begin(), stored.end(), plain.begin());
      return Verdict::kExact;
    case Squeeze::kZstd: {
      static ZSTD_DCtx* const context = ZSTD_createDCtx();
      if (stored.size() < 4) return Verdict::kRefused;
      const std::size_t out = ZSTD_decompressDCtx(context, plain.data(), bytes, stored.data(), stored.size());
      return exact_if(ZSTD_isError(out) == 0 && out == bytes);
    }
    case Squeeze::kLz4: {
      std::uint32_t declared = 0;
      if (stored.size() <= 4) return Verdict::kRefused;
      std::memcpy(&declared, stored.data(), 4);
      if (declared != bytes) return Verdict::kRefused;
      const int out =
          LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data() + 4), reinterpret_cast<char*>(plain.data()),
                              static_cast<int>(stored.size() - 4), static_cast<int>(bytes));
      return exact_if(out == static_cast<int>(bytes));
    }
    case Squeeze::kGzip:
    case Squeeze::kZlib: {
      const auto decode =
          spec_.codecs.squeeze == Squeeze::kGzip ? &libdeflate_gzip_decompress_ex : &libdeflate_zlib_decompress_ex;
      const auto result = decode(deflate().out, stored.data(), stored.size(), plain.data(), bytes, &used, &got);
      if (result != LIBDEFLATE_SUCCESS) return Verdict::kRefused;
      // Several members may follow each other; this reader does not judge them.
      if (used != stored.size()) return Verdict::kAny;
      return exact_if(got == bytes);
    }
    case Squeeze::kBlosc: {
      if (stored.size() < BLOSC_MIN_HEADER_LENGTH) return Verdict::kRefused;
      std::uint32_t cbytes = 0;
      std::memcpy(&cbytes, stored.data() + 12, 4);
      if (cbytes > stored.size()) return Verdict::kRefused;
      if (made_.count(hash_of(stored)) == 0) return Verdict::kAny;
      std::size_t nbytes = 0, compressed = 0, block = 0;
      blosc_cbuffer_sizes(stored.data(), &nbytes, &compressed, &block);
      if (nbytes != bytes) return Verdict::kRefused;
      return exact_if(blosc_decompress_ctx(stored.data(), plain.data(), bytes, 1) == static_cast<int>(bytes));
    }
  }
  return Verdict::kRefused;
}

Bytes ChunkCode::encode_index(const std::vector<std::uint64_t>& words, const Level& level) {
  Bytes out;
  for (const std::uint64_t word : words) append(out, level.index_big ? __builtin_bswap64(word) : word);
  if (level.index_checked) append(out, crc32c(out));
  return out;
}

std::vector<std::uint64_t> ChunkCode::decode_index(std::span<const std::byte> stored, const Level& level) {
  if (level.index_checked && !take_checksum(stored)) return {};
  std::vector<std::uint64_t> words(stored.size() / 8);
  std::memcpy(words.data(), stored.data(), 8 * words.size());
  if (level.index_big) {
    for (std::uint64_t& word : words) word = __builtin_bswap64(word);
  }
  return words;
}

}  // namespace headrace::stress
