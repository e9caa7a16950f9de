#include "decode_data_bench.h"

#include <blosc.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "base/json.h"
#include "codec/codec.h"
#include "gen/field_source.h"

namespace headrace::bench {

void die(const std::string& what) {
  std::fprintf(stderr, "decode_bench: %s\n", what.c_str());
  std::exit(1);
}

namespace {

constexpr std::size_t kItemBytes = 4, kSizeBytes = 4;

std::uint32_t load32(const std::byte* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}
void store32(std::byte* at, std::uint32_t value) { std::memcpy(at, &value, sizeof value); }

void shuffle_bytes(const std::byte* from, std::byte* to, std::size_t bytes) {
  const std::size_t items = bytes / kItemBytes;
  for (std::size_t plane = 0; plane < kItemBytes; ++plane) {
    for (std::size_t i = 0; i < items; ++i) to[plane * items + i] = from[i * kItemBytes + plane];
  }
}

// Encodes every chunk with `encode`, which returns the encoded length, and concatenates the streams.
EncodedChunks pack(std::size_t count, std::size_t bound,
                   const std::function<std::size_t(std::size_t, std::byte*)>& encode) {
  std::vector<Bytes> streams(count);
  in_parallel(count, [&](std::size_t i) {
    streams[i].resize(bound);
    const std::size_t bytes = encode(i, streams[i].data());
    if (bytes == 0) die("an encoder failed");
    streams[i].resize(bytes);
    streams[i].shrink_to_fit();
  });
  EncodedChunks out;
  std::uint64_t total = 0;
  for (const Bytes& stream : streams) {
    out.offset.push_back(total);
    out.bytes.push_back(stream.size());
    total += stream.size();
  }
  out.encoded.resize(total);
  in_parallel(count, [&](std::size_t i) {
    std::memcpy(out.encoded.data() + out.offset[i], streams[i].data(), streams[i].size());
  });
  return out;
}

// An LZ4 block of literals only: one token, the rest of the length, the bytes.
std::size_t literal_block(const std::byte* data, std::size_t bytes, std::byte* to) {
  std::byte* at = to;
  *at++ = static_cast<std::byte>(std::min<std::size_t>(bytes, 15) << 4);
  if (bytes >= 15) {
    std::size_t left = bytes - 15;
    for (; left >= 255; left -= 255) *at++ = std::byte{255};
    *at++ = static_cast<std::byte>(left);
  }
  std::memcpy(at, data, bytes);
  return static_cast<std::size_t>(at - to) + bytes;
}

}  // namespace

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  const std::size_t wanted = std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), count);
  for (std::size_t t = 0; t < wanted; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Bytes load_fields(const std::string& path, std::size_t bytes, std::string& origin) {
  Bytes out(bytes);
  if (!path.empty()) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (file == nullptr || std::fread(out.data(), 1, bytes, file) != bytes) {
      die("cannot read " + std::to_string(bytes) + " bytes of " + path);
    }
    std::fclose(file);
    origin = "file " + path.substr(path.find_last_of('/') + 1);
    return out;
  }
  // Alternating temperatures and winds, packed to about 16 bits.
  static const cli::FieldModel kModels[] = {{"t", "temperature", "K", 250, 45, false, 12, 0.03f, -9},
                                            {"u", "wind", "m s**-1", 0, 8, true, 8, 0.03f, -10}};
  const cli::Grid grid{721, 1440};
  const std::size_t row_bytes = grid.columns * sizeof(float), rows = (bytes + row_bytes - 1) / row_bytes;
  const cli::FieldSource source(1);
  in_parallel(rows, [&](std::size_t row) {
    std::vector<float> values(grid.columns);
    const std::size_t field = row / grid.rows;
    source.field_row(kModels[field % 2], {field % 2, field / 2, 0}, grid, row % grid.rows, 0, values);
    const std::size_t at = row * row_bytes;
    std::memcpy(out.data() + at, values.data(), std::min(row_bytes, bytes - at));
  });
  origin = "fields of headrace gen, seed 1";
  return out;
}

void round_mantissas(Bytes& values, int keep) {
  const int drop = 23 - keep;
  in_parallel(values.size() >> 20, [&](std::size_t part) {
    for (std::size_t at = part << 20; at < (part + 1) << 20; at += 4) {
      std::uint32_t bits = load32(values.data() + at);
      bits += ((1u << (drop - 1)) - 1) + (bits >> drop & 1);
      store32(values.data() + at, bits & ~((1u << drop) - 1));
    }
  });
}

Bytes random_bytes(std::size_t bytes) {
  Bytes out(bytes);
  in_parallel(bytes >> 20, [&](std::size_t part) {
    std::mt19937_64 random(part);
    for (std::size_t at = part << 20; at < (part + 1) << 20; at += 8) {
      const std::uint64_t value = random();
      std::memcpy(out.data() + at, &value, 8);
    }
  });
  return out;
}

const char* filter_text(Filter filter) {
  return filter == Filter::kShuffle ? "shuffle" : filter == Filter::kBitshuffle ? "bitshuffle" : "none";
}

// Filtered chunks of `values`, contiguous, as the codec receives them.
static Bytes filtered(const Bytes& values, std::size_t chunk_bytes, Filter filter) {
  const std::size_t count = values.size() / chunk_bytes;
  Bytes out(count * chunk_bytes);
  in_parallel(count, [&](std::size_t i) {
    const std::size_t at = i * chunk_bytes;
    if (filter == Filter::kShuffle) {
      shuffle_bytes(values.data() + at, out.data() + at, chunk_bytes);
    } else {
      std::memcpy(out.data() + at, values.data() + at, chunk_bytes);
    }
  });
  return out;
}

EncodedChunks encode_lz4(const Bytes& values, std::size_t chunk_bytes, Filter filter, bool streaming) {
  const std::size_t count = values.size() / chunk_bytes;
  Bytes plain = filtered(values, chunk_bytes, filter);
  const int bound = LZ4_compressBound(static_cast<int>(chunk_bytes));
  EncodedChunks out = pack(count, kSizeBytes + static_cast<std::size_t>(bound), [&](std::size_t i, std::byte* to) {
    store32(to, static_cast<std::uint32_t>(chunk_bytes));
    const auto* from = reinterpret_cast<const char*>(plain.data() + i * chunk_bytes);
    auto* const into = reinterpret_cast<char*>(to + kSizeBytes);
    int bytes = 0;
    if (streaming) {
      LZ4_stream_t* const stream = LZ4_createStream();
      bytes = LZ4_compress_fast_continue(stream, from, into, static_cast<int>(chunk_bytes), bound, 1);
      LZ4_freeStream(stream);
    } else {
      bytes = LZ4_compress_default(from, into, static_cast<int>(chunk_bytes), bound);
    }
    return bytes <= 0 ? std::size_t{0} : kSizeBytes + static_cast<std::size_t>(bytes);
  });
  out.chunk_bytes = chunk_bytes;
  out.plain = std::move(plain);
  out.library = std::string("liblz4 ") + LZ4_versionString() +
                (streaming ? ", LZ4_compress_fast_continue" : ", LZ4_compress_default");
  return out;
}

EncodedChunks encode_zstd(const Bytes& values, std::size_t chunk_bytes, Filter filter) {
  const std::size_t count = values.size() / chunk_bytes, bound = ZSTD_compressBound(chunk_bytes);
  Bytes plain = filtered(values, chunk_bytes, filter);
  EncodedChunks out = pack(count, bound, [&](std::size_t i, std::byte* to) {
    const std::size_t bytes = ZSTD_compress(to, bound, plain.data() + i * chunk_bytes, chunk_bytes, 3);
    return ZSTD_isError(bytes) != 0 ? std::size_t{0} : bytes;
  });
  out.chunk_bytes = chunk_bytes;
  out.plain = std::move(plain);
  out.library = std::string("libzstd ") + ZSTD_versionString() + ", level 3";
  return out;
}

EncodedChunks encode_deflate(const Bytes& values, std::size_t chunk_bytes, Filter filter, bool gzip, bool libdeflate) {
  const std::size_t count = values.size() / chunk_bytes, bound = chunk_bytes + chunk_bytes / 1000 + 1024;
  Bytes plain = filtered(values, chunk_bytes, filter);
  EncodedChunks out = pack(count, bound, [&](std::size_t i, std::byte* to) -> std::size_t {
    std::byte* const from = plain.data() + i * chunk_bytes;
    if (libdeflate) {
      libdeflate_compressor* const compressor = libdeflate_alloc_compressor(6);
      const std::size_t bytes = gzip ? libdeflate_gzip_compress(compressor, from, chunk_bytes, to, bound)
                                     : libdeflate_zlib_compress(compressor, from, chunk_bytes, to, bound);
      libdeflate_free_compressor(compressor);
      return bytes;
    }
    z_stream z{};
    if (deflateInit2(&z, 6, Z_DEFLATED, gzip ? 31 : 15, 8, Z_DEFAULT_STRATEGY) != Z_OK) return 0;
    z.next_in = reinterpret_cast<Bytef*>(from);
    z.avail_in = static_cast<uInt>(chunk_bytes);
    z.next_out = reinterpret_cast<Bytef*>(to);
    z.avail_out = static_cast<uInt>(bound);
    const int status = ::deflate(&z, Z_FINISH);
    const std::size_t bytes = status == Z_STREAM_END ? z.total_out : 0;
    deflateEnd(&z);
    return bytes;
  });
  out.chunk_bytes = chunk_bytes;
  out.plain = std::move(plain);
  out.library = libdeflate ? std::string("libdeflate ") + LIBDEFLATE_VERSION_STRING + ", level 6"
                           : std::string("zlib ") + zlibVersion() + ", level 6";
  return out;
}

EncodedChunks encode_by_codec(const Bytes& values, std::size_t chunk_bytes, Filter filter, const std::string& name) {
  codec::CodecArgs args;
  args.zarr_format = 2;
  auto codec = codec::make_codec(name, base::Json::object(), args);
  if (!codec.ok() || codec->coder() == nullptr) die("there is no codec " + name);
  const std::size_t count = values.size() / chunk_bytes;
  Bytes plain = filtered(values, chunk_bytes, filter);
  EncodedChunks out = pack(count, chunk_bytes + 64, [&](std::size_t i, std::byte* to) {
    auto encoder = codec->coder()->make_encoder();
    if (!encoder.ok() || (*encoder)->bound_bytes(chunk_bytes) > chunk_bytes + 64) return std::size_t{0};
    const auto bytes = (*encoder)->encode({plain.data() + i * chunk_bytes, chunk_bytes}, {to, chunk_bytes + 64});
    return bytes.ok() ? *bytes : std::size_t{0};
  });
  out.chunk_bytes = chunk_bytes;
  out.plain = std::move(plain);
  out.library = "headrace";
  return out;
}

EncodedChunks encode_blosc(const Bytes& values, std::size_t chunk_bytes, Filter filter, const std::string& inner) {
  const std::size_t count = values.size() / chunk_bytes, bound = chunk_bytes + BLOSC_MAX_OVERHEAD;
  const int mode = filter == Filter::kShuffle      ? BLOSC_SHUFFLE
                   : filter == Filter::kBitshuffle ? BLOSC_BITSHUFFLE
                                                   : BLOSC_NOSHUFFLE;
  EncodedChunks out = pack(count, bound, [&](std::size_t i, std::byte* to) {
    const int bytes = blosc_compress_ctx(5, mode, kItemBytes, chunk_bytes, values.data() + i * chunk_bytes, to, bound,
                                         inner.c_str(), 0, 1);
    return bytes <= 0 ? std::size_t{0} : static_cast<std::size_t>(bytes);
  });
  out.chunk_bytes = chunk_bytes;
  out.plain.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count * chunk_bytes));
  out.library = std::string("c-blosc ") + BLOSC_VERSION_STRING + ", " + inner + ", level 5";
  return out;
}

EncodedChunks encode(const std::string& codec, const Bytes& values, std::size_t chunk_bytes, Filter filter,
                     bool streaming, bool libdeflate) {
  if (codec == "lz4") return encode_lz4(values, chunk_bytes, filter, streaming);
  if (codec == "zstd") return encode_zstd(values, chunk_bytes, filter);
  if (codec.starts_with("blosc-")) return encode_blosc(values, chunk_bytes, filter, codec.substr(6));
  if (codec == "gzip" || codec == "zlib")
    return encode_deflate(values, chunk_bytes, filter, codec == "gzip", libdeflate);
  return encode_by_codec(values, chunk_bytes, filter, codec);
}

EncodedChunks bare_streams(const EncodedChunks& containers, const std::string& inner) {
  struct Found {
    const std::byte* data;
    std::size_t bytes, decoded;
  };
  std::vector<Found> found;
  std::map<std::size_t, std::size_t> sizes;  // decoded size: total bytes of streams of that size
  for (std::size_t c = 0; c < containers.count(); ++c) {
    const std::byte* const at = containers.encoded.data() + containers.offset[c];
    const auto flags = std::to_integer<unsigned>(at[2]);
    const std::size_t item = std::to_integer<std::size_t>(at[3]), total = load32(at + 4), block = load32(at + 8);
    if ((flags & 2) != 0) continue;  // stored uncompressed
    for (std::size_t b = 0; b * block < total; ++b) {
      const std::size_t decoded = std::min(block, total - b * block);
      const bool split = (flags & 16) == 0 && item <= 16 && block / item >= 128 && decoded == block;
      const std::size_t streams = split ? item : 1;
      const std::byte* from = at + load32(at + 16 + 4 * b);
      for (std::size_t s = 0; s < streams; ++s) {
        const std::size_t bytes = load32(from);
        found.push_back({from + 4, bytes, decoded / streams});
        sizes[decoded / streams] += decoded / streams;
        from += 4 + bytes;
      }
    }
  }
  EncodedChunks out;
  if (sizes.empty()) return out;
  const auto by_bytes = [](const auto& a, const auto& b) { return a.second < b.second; };
  const std::size_t size = std::max_element(sizes.begin(), sizes.end(), by_bytes)->first;
  std::erase_if(found, [&](const Found& f) { return f.decoded != size; });
  const bool zstd = inner == "zstd";
  const std::size_t bound = std::max(kSizeBytes + size + size / 255 + 32, ZSTD_compressBound(size));
  out = pack(found.size(), bound, [&](std::size_t i, std::byte* to) {
    const Found& f = found[i];
    const bool stored = f.bytes == f.decoded;
    if (zstd && stored) return ZSTD_compress(to, bound, f.data, f.bytes, 1);
    const std::size_t head = zstd ? 0 : kSizeBytes;
    if (!zstd) store32(to, static_cast<std::uint32_t>(size));
    if (stored) return head + literal_block(f.data, f.bytes, to + head);
    std::memcpy(to + head, f.data, f.bytes);
    return head + f.bytes;
  });
  out.chunk_bytes = size;
  out.plain.resize(found.size() * size);
  in_parallel(found.size(), [&](std::size_t i) {
    const std::byte* const from = out.encoded.data() + out.offset[i];
    std::byte* const to = out.plain.data() + i * size;
    const std::size_t got = zstd ? ZSTD_decompress(to, size, from, out.bytes[i])
                                 : static_cast<std::size_t>(LZ4_decompress_safe(
                                       reinterpret_cast<const char*>(from + kSizeBytes), reinterpret_cast<char*>(to),
                                       static_cast<int>(out.bytes[i] - kSizeBytes), static_cast<int>(size)));
    if (got != size) die("a stream of a container does not decode");
  });
  out.library = "streams of " + containers.library;
  return out;
}

}  // namespace headrace::bench
