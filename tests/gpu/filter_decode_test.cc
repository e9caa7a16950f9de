// Filters and checksums decoded by the GPU produce the CPU's bytes, alone and in chains. Damaged chunks get the CPU's
// verdict, and their neighbours stay exact.
//
// HEADRACE_FILTER_RATES=1 also prints the decoding rate of each in GB/s, device to device.
#include <chrono>
#include <cstdio>

#include "base/json.h"
#include "codec/chain.h"
#include "codec/device_stages.h"
#include "codec/encoder.h"
#include "support/device_suite.h"
#include "zarr/shard/chain_builder.h"

namespace headrace::device {
namespace {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceSuite);

using Bytes = std::vector<std::byte>;

struct Case {
  const char* dtype;  // v3 name
  const char* codecs;
  int format = 2;  // in v2, codecs are filters followed by the compressor
};

constexpr Case kCases[] = {
    {"int32", R"([{"name":"crc32c","configuration":{}}])"},
    {"int32", R"([{"name":"crc32c","configuration":{"location":"start"}}])"},
    {"int32", R"([{"name":"crc32","configuration":{}}])"},
    {"int32", R"([{"name":"crc32","configuration":{"location":"end"}}])"},
    {"int32", R"([{"name":"adler32","configuration":{}}])"},
    {"uint8", R"([{"name":"fletcher32","configuration":{}}])"},
    {"int32", R"([{"name":"delta","configuration":{"dtype":"<i4"}}])"},
    {"int8", R"([{"name":"delta","configuration":{"dtype":"|i1"}}])"},
    {"int64", R"([{"name":"delta","configuration":{"dtype":">i8","astype":"<i2"}}])"},
    {"float32",
     R"([{"name":"fixedscaleoffset","configuration":{"dtype":"<f4","astype":"<i2","scale":10,"offset":1000}}])"},
    {"float64",
     R"([{"name":"fixedscaleoffset","configuration":{"dtype":">f8","astype":">f4","scale":0.1,"offset":-3}}])"},
    {"float32", R"([{"name":"astype","configuration":{"encode_dtype":"<f2","decode_dtype":"<f4"}}])"},
    {"int32", R"([{"name":"astype","configuration":{"encode_dtype":"<f8","decode_dtype":"<i4"}}])"},
    {"float64", R"([{"name":"quantize","configuration":{"digits":2,"dtype":"<f8","astype":"<f4"}}])"},
    {"bool", R"([{"name":"packbits","configuration":{}}])"},
    {"float32", R"([{"name":"fixedscaleoffset","configuration":{"dtype":"<f4","astype":"<i2","scale":10,"offset":0}},
                    {"name":"delta","configuration":{"dtype":"<i2"}},{"name":"crc32","configuration":{}}])"},
    {"int32", R"([{"name":"delta","configuration":{"dtype":"<i4"}},{"name":"fletcher32","configuration":{}},
                  {"name":"adler32","configuration":{}},{"name":"crc32c","configuration":{}}])"},
    {"float32", R"([{"name":"cast_value","configuration":{"data_type":"int16"}},
                    {"name":"bytes","configuration":{"endian":"big"}},"crc32c"])",
     3},
    {"int16", R"([{"name":"scale_offset","configuration":{"offset":100,"scale":1}},
                  {"name":"numcodecs.delta","configuration":{"dtype":"<i2"}},
                  {"name":"bytes","configuration":{"endian":"big"}}])",
     3},
    {"uint16", R"([{"name":"scale_offset","configuration":{"offset":1000}},
                   {"name":"cast_value","configuration":{"data_type":"uint8"}},"bytes"])",
     3},
};

codec::Chain chain_of(const Case& test, std::size_t count) {
  const DataType dtype = numeric_type(test.dtype);
  auto json = base::parse_json(test.codecs);
  EXPECT_TRUE(json.ok()) << json.status().to_string();
  std::vector<zarr::CodecSpec> specs;
  for (const base::Json& item : *json) {
    auto spec = zarr::parse_extension(item, "codec");
    EXPECT_TRUE(spec.ok()) << spec.status().to_string();
    specs.push_back(std::move(*spec));
  }
  zarr::ChunkCodecs about;
  about.zarr_format = test.format;
  about.dtype = &dtype;
  auto chain = zarr::build_chain(specs, {count}, about);
  EXPECT_TRUE(chain.ok()) << chain.status().to_string();
  return std::move(chain).value();
}

// Encodes random elements with all codecs outside the innermost one without an encoder, whose output they stand for.
Bytes stored_chunk(const codec::Chain& chain, std::mt19937& random) {
  std::vector<const codec::StreamCoder*> outside;
  std::uint64_t bytes = chain.decoded_bytes();
  for (std::size_t i = chain.stage_count(); i-- > 0;) {
    const codec::StreamCoder& coder = chain.coder(i);
    if (coder.make_encoder().ok()) {
      outside.push_back(&coder);
    } else {
      EXPECT_TRUE(coder.encoded_size(bytes).exact);
      bytes = coder.encoded_size(bytes).most;
      outside.clear();
    }
  }
  Bytes out(bytes);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  for (const codec::StreamCoder* codec : outside) {
    auto encoder = codec->make_encoder();
    Bytes next((*encoder)->bound_bytes(out.size()));
    auto length = (*encoder)->encode(out, next);
    EXPECT_TRUE(length.ok()) << length.status().to_string();
    next.resize(*length);
    out = std::move(next);
  }
  return out;
}

class FilterDecode : public DeviceSuite {
 protected:
  void decode_beside_cpu(const Case& test, std::size_t count, unsigned chunks, std::size_t skew) {
    SCOPED_TRACE(std::string(test.codecs) + ", " + std::to_string(count) + " elements");
    std::mt19937 random(static_cast<unsigned>(count + skew));
    const codec::Chain chain = chain_of(test, count);
    ASSERT_EQ(chain.device_stage_begin(), 0u);
    auto decoder = codec::make_decoder(chain, *device_);
    ASSERT_TRUE(decoder.ok()) << decoder.status().to_string();

    const std::size_t decoded = chain.decoded_bytes(), room = decoded + 64 + skew,
                      src_room = chain.max_encoded_bytes() + 65;
    std::vector<Bytes> stored;
    Bytes input(src_room * chunks), blank(room * chunks, std::byte{0x5A});
    for (unsigned i = 0; i < chunks; ++i) {
      stored.push_back(stored_chunk(chain, random));
      Bytes& chunk = stored.back();
      if (i % 5 == 1) chunk[random() % chunk.size()] ^= std::byte{1} << (random() % 8);
      if (i % 5 == 2) chunk.pop_back();
      if (i % 5 == 3) chunk.push_back(std::byte{7});
      std::copy(chunk.begin(), chunk.end(), input.begin() + i * src_room + skew);
    }
    Memory src(*device_, input.size() + skew, false), dst(*device_, blank.size(), false);
    upload(src.data(), input.data(), input.size());
    upload(dst.data(), blank.data(), blank.size());
    std::vector<DecodeItem> items(chunks);
    DecodeLimits limits;
    limits.items = chunks;
    for (unsigned i = 0; i < chunks; ++i) {
      items[i] = {src.data() + i * src_room + skew, stored[i].size(), dst.data() + i * room + skew};
      limits.src_bytes += stored[i].size();
      limits.largest_src_bytes = std::max<std::uint64_t>(limits.largest_src_bytes, stored[i].size());
    }
    Memory scratch(*device_, std::max<std::uint64_t>((*decoder)->scratch_bytes(limits), 256), false);
    Memory outcomes(*device_, chunks * sizeof(DecodeOutcome), true);
    const std::span<DecodeOutcome> words(reinterpret_cast<DecodeOutcome*>(outcomes.data()), chunks);
    expect_ok((*decoder)->decode(items, {scratch.data(), scratch.bytes()}, words, *stream_));
    finish();
    const Bytes got = download(dst.data(), dst.bytes());

    Bytes temporary[2] = {Bytes(chain.temporary_bytes()), Bytes(chain.temporary_bytes())};
    auto workspace = chain.make_workspace();
    for (int i = 0; i < 2; ++i) workspace.temporary[i] = temporary[i];
    unsigned good = 0;
    for (unsigned i = 0; i < chunks; ++i) {
      SCOPED_TRACE("chunk " + std::to_string(i));
      Bytes expected(decoded);
      const Status status = chain.decode(stored[i], expected, workspace);
      ASSERT_EQ(words[i].ok(), status.ok()) << status.to_string() << ", " << decode_reason_text(words[i].reason());
      const std::byte* const at = got.data() + i * room;
      if (status.ok()) {
        ++good;
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), at + skew));
      } else if (status.message().find("checksum mismatch") != std::string::npos) {
        EXPECT_EQ(words[i].reason(), DecodeReason::kChecksum);
      }
      const auto untouched = [](std::byte b) { return b == std::byte{0x5A}; };
      EXPECT_TRUE(std::all_of(at, at + skew, untouched));
      EXPECT_TRUE(std::all_of(at + skew + decoded, at + room, untouched)) << "wrote behind the chunk";
    }
    // scale_offset and cast_value refuse values that do not fit, so random chunks are invalid; the CPU must refuse them
    // as well.
    if (test.format == 2) {
      EXPECT_GE(good, (chunks + 4) / 5);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Gpu, FilterDecode, ::testing::Values(std::string("cuda")),
                         [](const auto&) { return std::string("cuda"); });

TEST_P(FilterDecode, SameAsTheCpu) {
  for (const Case& test : kCases) {
    for (const std::size_t count : {1, 77, 4096, 65536 + 3, 500'001}) {
      if (small_run() && count > 10'000) continue;
      for (const std::size_t skew : {0, 1}) decode_beside_cpu(test, count, count > 10'000 ? 6 : 40, skew);
    }
  }
}

TEST_P(FilterDecode, Rates) {
  if (std::getenv("HEADRACE_FILTER_RATES") == nullptr) GTEST_SKIP() << "HEADRACE_FILTER_RATES is not set";
  std::printf("decoded GB/s, device to device, median of 5\n%12s %12s  chain\n", "64 KiB", "4 MiB");
  for (const Case& test : kCases) {
    double rate[2];
    for (int k = 0; k < 2; ++k) {
      const std::size_t chunk_bytes = k == 0 ? 64 << 10 : 4 << 20, total = std::size_t{256} << 20;
      const std::size_t count = chunk_bytes / numeric_type(test.dtype).item_bytes, chunks = total / chunk_bytes;
      const codec::Chain chain = chain_of(test, count);
      auto decoder = codec::make_decoder(chain, *device_);
      ASSERT_TRUE(decoder.ok());
      std::mt19937 random(1);
      const Bytes chunk = stored_chunk(chain, random);
      Memory dst(*device_, total, false);
      const std::size_t src_room = (chunk.size() + 255) / 256 * 256;
      Memory all(*device_, src_room * chunks, false);
      Bytes host(src_room * chunks);
      for (std::size_t i = 0; i < chunks; ++i) std::copy(chunk.begin(), chunk.end(), host.begin() + i * src_room);
      upload(all.data(), host.data(), host.size());
      std::vector<DecodeItem> items(chunks);
      DecodeLimits limits;
      limits.items = static_cast<std::uint32_t>(chunks);
      limits.src_bytes = chunk.size() * chunks;
      limits.largest_src_bytes = chunk.size();
      for (std::size_t i = 0; i < chunks; ++i) {
        items[i] = {all.data() + i * src_room, chunk.size(), dst.data() + i * chunk_bytes};
      }
      Memory scratch(*device_, std::max<std::uint64_t>((*decoder)->scratch_bytes(limits), 256), false);
      Memory outcomes(*device_, chunks * sizeof(DecodeOutcome), true);
      const std::span<DecodeOutcome> words(reinterpret_cast<DecodeOutcome*>(outcomes.data()), chunks);
      std::vector<double> seconds;
      constexpr int kCalls = 4;  // back to back, so that the host's share is hidden
      for (int round = 0; round < 6; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (int call = 0; call < kCalls; ++call) {
          expect_ok((*decoder)->decode(items, {scratch.data(), scratch.bytes()}, words, *stream_));
        }
        finish();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        if (round > 0) seconds.push_back(took.count() / kCalls);
      }
      std::sort(seconds.begin(), seconds.end());
      rate[k] = static_cast<double>(total) / seconds[2] / 1e9;
    }
    std::printf("%12.0f %12.0f  %s\n", rate[0], rate[1], test.codecs);
  }
}

}  // namespace
}  // namespace headrace::device

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (auto opened = headrace::device::open_device("cuda"); !opened.ok()) {
    std::printf("skipped: %s\n", opened.status().to_string().c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
