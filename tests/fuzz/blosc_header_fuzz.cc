// Blosc containers with a corrected size field, so that mutations get past the first check.
//
// What headrace decodes, c-blosc must decode to the same bytes. c-blosc is only run on such inputs: it is not meant for
// hostile input, and headrace may be stricter.
#include <blosc.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/support/codec_seed.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  constexpr std::size_t kHeader = 16;
  test::CodecSeed seed;
  if (!test::parse_codec_seed({reinterpret_cast<const std::byte*>(data), size}, seed)) return 0;
  if (seed.stream.size() < kHeader) return 0;
  std::vector<std::byte> container(seed.stream.begin(), seed.stream.end());
  const auto container_bytes = static_cast<std::uint32_t>(container.size());
  std::memcpy(&container[12], &container_bytes, 4);
  std::uint32_t decoded_bytes = 0;
  std::memcpy(&decoded_bytes, &container[4], 4);
  decoded_bytes %= test::CodecSeed::kMaxCapacity;
  std::memcpy(&container[4], &decoded_bytes, 4);

  static const auto codec = codec::make_codec("numcodecs.blosc", base::Json::object(), {});
  FUZZ_CHECK(codec.ok());
  static const auto scratch = codec->coder()->make_scratch();
  std::vector<std::byte> ours(decoded_bytes), reference(decoded_bytes);
  codec::EncodedStream stream{.src = container.data(),
                              .src_bytes = container.size(),
                              .dst = ours.data(),
                              .dst_capacity = ours.size(),
                              .dst_bytes = 0,
                              .exact = true};
  const Status status = codec->coder()->decode(stream, scratch.get());
  if (!status.ok()) return 0;
  const int got = blosc_decompress_ctx(container.data(), reference.data(), reference.size(), 1);
  FUZZ_CHECK(got >= 0 && static_cast<std::size_t>(got) == ours.size());
  FUZZ_CHECK(ours == reference);
  return 0;
}
