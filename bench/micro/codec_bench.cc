// codec_bench [MiB]: decoded GB/s of one thread, headrace and the reference library in one run.
//
// Rounds alternate, so that other load on the machine slows both; reports medians. The data is a noisy sine as float32:
// its upper bytes compress and its lower ones do not, like most measured fields.
#include <blosc.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "codec/unshuffle.h"

namespace {

using namespace headrace;
using Bytes = std::vector<std::byte>;

constexpr int kRounds = 41;

Bytes field(std::size_t bytes, bool rounded) {
  std::vector<float> values(bytes / sizeof(float));
  std::mt19937 random(1);
  std::normal_distribution<float> noise(0.0F, 0.05F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float value = 280.0F + 20.0F * std::sin(static_cast<float>(i) * 0.001F) + noise(random);
    if (rounded) value = std::round(value * 64.0F) / 64.0F;
    values[i] = value;
  }
  Bytes out(bytes);
  std::memcpy(out.data(), values.data(), bytes);
  return out;
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void compare(const std::string& what, std::size_t decoded, std::size_t encoded, const std::function<void()>& ours,
             const std::function<void()>& reference) {
  ours();
  reference();
  std::vector<double> a, b;
  for (int round = 0; round < kRounds; ++round) {
    a.push_back(seconds(ours));
    b.push_back(seconds(reference));
  }
  const double bytes = static_cast<double>(decoded);
  std::printf("%-34s ratio %5.2f  ours %7.0f us %6.2f GB/s  reference %7.0f us %6.2f GB/s  %5.2fx\n", what.c_str(),
              bytes / static_cast<double>(encoded), median(a) * 1e6, bytes / median(a) / 1e9, median(b) * 1e6,
              bytes / median(b) / 1e9, median(b) / median(a));
}

void decode_or_die(const codec::StreamCoder& codec, codec::Scratch* scratch, const Bytes& encoded, Bytes& out) {
  codec::EncodedStream stream{.src = encoded.data(),
                              .src_bytes = encoded.size(),
                              .dst = out.data(),
                              .dst_capacity = out.size(),
                              .dst_bytes = 0,
                              .exact = true};
  const Status status = codec.decode(stream, scratch);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    std::exit(1);
  }
}

void bench_blosc(const Bytes& plain, const std::string& data) {
  const auto codec = codec::make_codec("numcodecs.blosc", base::Json::object(), {});
  const auto scratch = codec->coder()->make_scratch();
  Bytes out(plain.size());
  for (const char* inner : {"lz4", "zstd", "zlib", "blosclz", "snappy"}) {
    for (const int shuffle : {BLOSC_NOSHUFFLE, BLOSC_SHUFFLE, BLOSC_BITSHUFFLE}) {
      Bytes encoded(plain.size() + BLOSC_MAX_OVERHEAD);
      const int got =
          blosc_compress_ctx(5, shuffle, 4, plain.size(), plain.data(), encoded.data(), encoded.size(), inner, 0, 1);
      if (got <= 0) continue;
      encoded.resize(static_cast<std::size_t>(got));
      compare(
          "blosc " + std::string(inner) + " " + std::to_string(shuffle) + " " + data, plain.size(), encoded.size(),
          [&] { decode_or_die(*codec->coder(), scratch.get(), encoded, out); },
          [&] { blosc_decompress_ctx(encoded.data(), out.data(), out.size(), 1); });
    }
  }
}

void bench_zstd(const Bytes& plain, const std::string& data) {
  const auto codec = codec::make_codec("zstd", base::Json::object(), {});
  const auto scratch = codec->coder()->make_scratch();
  Bytes out(plain.size()), encoded(ZSTD_compressBound(plain.size()));
  encoded.resize(ZSTD_compress(encoded.data(), encoded.size(), plain.data(), plain.size(), 3));
  compare(
      "zstd " + data, plain.size(), encoded.size(),
      [&] { decode_or_die(*codec->coder(), scratch.get(), encoded, out); },
      [&] { ZSTD_decompress(out.data(), out.size(), encoded.data(), encoded.size()); });
}

// Codecs that only move bytes are compared with memcpy.
void bench_moves(const Bytes& plain) {
  const auto crc = codec::make_codec("crc32c", base::Json::object(), {});
  Bytes out(plain.size()), encoded = plain;
  const auto copy = [&] { std::memcpy(out.data(), plain.data(), plain.size()); };
  for (const std::size_t item : {2, 3, 4, 8, 12, 16, 24}) {
    compare(
        "unshuffle " + std::to_string(item) + " / memcpy", plain.size(), plain.size(),
        [&] { codec::unshuffle(plain.data(), item, plain.size(), out.data()); }, copy);
  }
  Bytes tile(codec::bit_tile_bytes(8));
  for (const std::size_t item : {1, 2, 4, 8}) {
    compare(
        "bit unshuffle " + std::to_string(item) + " / memcpy", plain.size(), plain.size(),
        [&] { codec::bit_unshuffle(plain.data(), item, plain.size(), out.data(), tile.data()); }, copy);
  }
  Bytes small(plain.size() - 4);
  codec::EncodedStream stream{.src = plain.data(),
                              .src_bytes = plain.size(),
                              .dst = small.data(),
                              .dst_capacity = small.size(),
                              .dst_bytes = 0,
                              .exact = true};
  compare(
      "crc32c without its copy / memcpy", plain.size(), plain.size(),
      [&] { (void)crc->coder()->decode(stream, nullptr); }, copy);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = static_cast<std::size_t>(argc > 1 ? std::atoi(argv[1]) : 4) << 20;
  for (const bool rounded : {false, true}) {
    const Bytes plain = field(bytes, rounded);
    const std::string data = rounded ? "rounded" : "noisy";
    bench_blosc(plain, data);
    bench_zstd(plain, data);
    if (!rounded) bench_moves(plain);
  }
  return 0;
}
