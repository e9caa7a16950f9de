// Feeds arbitrary input to one codec of the table. codec_fuzz_name.cc names the codec, so that this file is compiled
// once for all.
//
// Bytes -> bytes codecs decode a CodecSeed twice, flush right and flush left against unmapped pages, over different old
// contents. Verdict and bytes must agree, so nothing depends on memory that the decoder did not write. The decoded
// bytes are encoded and decoded again. Array codecs, and codecs that decode nothing, take the input as their
// configuration. String codecs decode it.
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "codec/encoder.h"
#include "codec/representation.h"
#include "codec/variable_codec.h"
#include "tests/fuzz/codec_fuzz_name.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/support/codec_seed.h"
#include "tests/support/guard_buffer.h"

namespace {

using namespace headrace;
using test::CodecSeed;
using test::Flush;
using test::GuardArena;

const std::string kName = headrace_fuzzed_codec();
constexpr std::size_t kMaxStream = 1 << 17;

const codec::CodecRow& row() {
  for (const codec::CodecRow& candidate : codec::codecs()) {
    if (candidate.name == kName) return candidate;
  }
  std::abort();
}

struct Outcome {
  Code code = Code::kOk;
  std::size_t bytes = 0;
  const std::byte* data = nullptr;
};

// prefix: number of decoded bytes wanted; 0: all of them.
Outcome decode(const codec::StreamCoder& codec, const CodecSeed& seed, codec::Scratch* scratch, GuardArena& in,
               GuardArena& out, Flush flush, unsigned char fill, std::size_t prefix = 0) {
  const std::size_t room = prefix != 0 ? prefix : seed.capacity;
  std::byte* src = in.take(seed.stream.size(), flush, 0);
  std::copy(seed.stream.begin(), seed.stream.end(), src);
  codec::EncodedStream stream{.src = src,
                              .src_bytes = seed.stream.size(),
                              .dst = out.take(room, flush, fill),
                              .dst_capacity = room,
                              .dst_bytes = 0,
                              .exact = seed.exact,
                              .prefix_of = prefix != 0 ? seed.capacity : 0};
  const Status status = codec.decode(stream, scratch);
  FUZZ_CHECK(in.intact());
  FUZZ_CHECK(out.intact());
  FUZZ_CHECK(std::equal(seed.stream.begin(), seed.stream.end(), src));
  if (!status.ok()) {
    FUZZ_CHECK(status.code() == Code::kCorrupt || status.code() == Code::kUnsupported);
    FUZZ_CHECK(!status.message().empty());
    FUZZ_CHECK(stream.dst_bytes == 0);
    return {.code = status.code()};
  }
  FUZZ_CHECK((!seed.exact && prefix == 0) || stream.dst_bytes == room);
  FUZZ_CHECK(stream.dst_bytes <= room);
  return {.bytes = stream.dst_bytes, .data = stream.dst};
}

void fuzz_round_trip(const codec::StreamCoder& codec, std::span<const std::byte> plain, codec::Scratch* scratch) {
  const auto encoder = codec.make_encoder();
  if (!encoder.ok()) {  // codec_encode_test checks which codecs have one
    FUZZ_CHECK(encoder.status().code() == Code::kUnsupported);
    return;
  }
  const test::GuardBuffer room((*encoder)->bound_bytes(plain.size()), Flush::kRight);
  const auto bytes = (*encoder)->encode(plain, room.span());
  FUZZ_CHECK(bytes.ok());
  FUZZ_CHECK(room.intact());
  FUZZ_CHECK(*bytes <= codec.encoded_size(plain.size()).most);
  std::vector<std::byte> again(plain.size());
  codec::EncodedStream stream{
      .src = room.data(), .src_bytes = *bytes, .dst = again.data(), .dst_capacity = again.size()};
  const Status status = codec.decode(stream, scratch);
  FUZZ_CHECK(status.ok());
  FUZZ_CHECK(std::equal(plain.begin(), plain.end(), again.begin()));
}

// Whether an LZ4 block, after a size word, has a match with offset 0. liblz4 accepts such a match, and the result
// depends on how many bytes are wanted.
bool has_offset_zero(std::span<const std::byte> stream) {
  std::size_t at = 4;
  const auto next = [&] { return at < stream.size() ? std::to_integer<unsigned>(stream[at++]) : 0u; };
  while (at < stream.size()) {
    const unsigned token = next();
    std::size_t literals = token >> 4;
    for (unsigned more = 255; literals >= 15 && more == 255; literals += more) more = next();
    at += literals;
    if (at >= stream.size()) return false;
    const unsigned offset = next();
    if (offset + next() == 0) return true;
    for (unsigned more = (token & 15) == 15 ? 255 : 0; more == 255;) more = next();
  }
  return false;
}

// Decoding only the beginning of a stream yields the same bytes as decoding it whole, and the same twice. The beginning
// of a damaged stream may be valid.
void fuzz_prefix(const codec::StreamCoder& codec, const CodecSeed& seed, codec::Scratch* scratch, GuardArena& in,
                 GuardArena& out, const Outcome& whole, GuardArena& other) {
  if (seed.capacity == 0 || codec.prefix(seed.capacity) != codec::Prefix::kEndsEarly) return;
  const std::size_t sum =
      std::accumulate(seed.stream.begin(), seed.stream.end(), seed.stream.size(),
                      [](std::size_t a, std::byte b) { return a * 31 + std::to_integer<unsigned>(b); });
  const std::vector<std::byte> expected(whole.data, whole.data + whole.bytes);
  const std::size_t prefix = 1 + sum % seed.capacity;
  const Outcome right = decode(codec, seed, scratch, in, out, Flush::kRight, 0x00, prefix);
  const Outcome left = decode(codec, seed, scratch, in, other, Flush::kLeft, 0xFF, prefix);
  FUZZ_CHECK(right.code == left.code && right.bytes == left.bytes);
  FUZZ_CHECK(std::equal(right.data, right.data + right.bytes, left.data));
  if (whole.code != Code::kOk) return;
  FUZZ_CHECK((right.code == Code::kOk) == (whole.bytes >= prefix));
  const bool disputed = kName == "lz4" && has_offset_zero(seed.stream);
  FUZZ_CHECK(disputed || std::equal(right.data, right.data + right.bytes, expected.begin()));
}

void fuzz_streams(std::span<const std::byte> input) {
  CodecSeed seed;
  if (!parse_codec_seed(input, seed) || seed.stream.size() > kMaxStream) return;
  codec::CodecArgs context;
  context.zarr_format = 2;
  const auto made = row().make(test::codec_seed_config(kName, seed.choice), context);
  FUZZ_CHECK(made.ok());
  const codec::StreamCoder& codec = *made->coder();
  // Reused for all inputs, as a decoding thread reuses it.
  static const std::unique_ptr<codec::Scratch> scratch = codec.make_scratch();
  static GuardArena in(kMaxStream), out_right(CodecSeed::kMaxCapacity), out_left(CodecSeed::kMaxCapacity);
  const Outcome right = decode(codec, seed, scratch.get(), in, out_right, Flush::kRight, 0x00);
  const Outcome left = decode(codec, seed, scratch.get(), in, out_left, Flush::kLeft, 0xFF);
  FUZZ_CHECK(right.code == left.code);
  FUZZ_CHECK(right.bytes == left.bytes);
  FUZZ_CHECK(std::equal(right.data, right.data + right.bytes, left.data));
  if (right.bytes > 0) fuzz_round_trip(codec, {right.data, right.bytes}, scratch.get());
  fuzz_prefix(codec, seed, scratch.get(), in, out_left, right, out_right);
}

// Runs a codec that changes values, with the text of its configuration as elements.
void fuzz_values(const codec::Codec& made, std::span<const std::byte> input, unsigned choice, std::size_t item_bytes) {
  const codec::ArrayToArray* const array = made.array_to_array();
  const auto big_endian = choice >= 128 && array != nullptr ? array->make_big_endian_coder() : nullptr;
  const codec::StreamCoder& codec = big_endian != nullptr ? *big_endian : *made.coder();
  static const test::GuardBuffer in(1 << 16, Flush::kRight), out(1 << 16, Flush::kRight);
  const std::size_t count = std::min<std::size_t>(input.size() / 8, 1000);
  const codec::EncodedSize size = codec.encoded_size(count * item_bytes);
  FUZZ_CHECK(size.exact || array == nullptr);
  const std::uint64_t encoded = size.exact ? size.most : std::min<std::uint64_t>(size.most, input.size());
  if (encoded > input.size()) return;
  std::byte* const src = in.data() + in.size() - encoded;
  std::copy_n(input.begin(), encoded, src);
  codec::EncodedStream stream{.src = src,
                              .src_bytes = encoded,
                              .dst = out.data() + out.size() - count * item_bytes,
                              .dst_capacity = count * item_bytes};
  const Status status = codec.decode(stream, nullptr);
  FUZZ_CHECK(status.ok() ? stream.dst_bytes == count * item_bytes : status.code() == Code::kCorrupt);
}

void fuzz_configuration(std::span<const std::byte> input) {
  if (input.empty()) return;
  const unsigned choice = std::to_integer<unsigned>(input[0]);
  const std::string_view text(reinterpret_cast<const char*>(input.data()) + 1, input.size() - 1);
  const auto json = base::parse_json(text);
  if (!json.ok()) return;
  codec::CodecArgs context;
  context.name = kName;
  const DataType type = numeric_type((choice / 6) % 2 == 0 ? "uint8" : "float32");
  context.dtype = &type;
  const auto made = row().make(*json, context);
  if (!made.ok()) {
    FUZZ_CHECK(made.status().code() == Code::kCorrupt || made.status().code() == Code::kUnsupported);
    return;
  }
  std::vector<std::uint64_t> before;
  for (unsigned i = 0; i < choice % 6; ++i) before.push_back(10 + i);
  codec::Representation elements(type, before, {});
  if (!elements.enter(*made).ok()) return;
  const std::vector<std::uint64_t>& shape = elements.shape();
  const std::vector<std::uint8_t>& order = elements.layout().axis_order;
  FUZZ_CHECK(order.size() == before.size());
  if (kName == "reshape") {
    const auto count = [](const std::vector<std::uint64_t>& of) {
      return std::accumulate(of.begin(), of.end(), std::uint64_t{1}, std::multiplies<>());
    };
    FUZZ_CHECK(count(shape) == count(before));
    FUZZ_CHECK(std::is_sorted(order.begin(), order.end()));
    return;
  }
  FUZZ_CHECK(shape.size() == before.size());
  std::vector<bool> seen(before.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    FUZZ_CHECK(order[i] < before.size() && !seen[order[i]]);
    seen[order[i]] = true;
    FUZZ_CHECK(shape[i] == before[order[i]]);
  }
  if (made->coder() != nullptr) fuzz_values(*made, input, choice, type.item_bytes);
}

// Codecs with elements of variable length; the capacity counts slots. Elements must lie in allowed memory, and for
// vlen-utf8 and vlen-bytes, encoding them again must give the stream.
void fuzz_elements(const codec::StreamCoder& codec, std::span<const std::byte> input) {
  CodecSeed seed;
  if (!parse_codec_seed(input, seed) || seed.stream.size() > kMaxStream) return;
  static const std::unique_ptr<codec::Scratch> scratch = codec.make_scratch();
  static GuardArena in(kMaxStream), out(CodecSeed::kMaxCapacity + codec::kVariableSlotBytes);
  const std::size_t count = seed.capacity / codec::kVariableSlotBytes;
  for (const Flush flush : {Flush::kRight, Flush::kLeft}) {
    std::byte* const src = in.take(seed.stream.size(), flush, 0);
    std::copy(seed.stream.begin(), seed.stream.end(), src);
    codec::EncodedStream stream{.src = src,
                                .src_bytes = seed.stream.size(),
                                .dst = out.take(count * codec::kVariableSlotBytes, flush, 0xFF),
                                .dst_capacity = count * codec::kVariableSlotBytes};
    const Status status = codec.decode(stream, scratch.get());
    FUZZ_CHECK(in.intact());
    FUZZ_CHECK(out.intact());
    if (!status.ok()) {
      FUZZ_CHECK(status.code() == Code::kCorrupt || status.code() == Code::kUnsupported);
      FUZZ_CHECK(!status.message().empty() && stream.dst_bytes == 0);
      continue;
    }
    std::vector<std::byte> again;
    const auto append = [&](std::uint64_t number) {
      for (int i = 0; i < 4; ++i) again.push_back(static_cast<std::byte>(number >> (8 * i) & 0xFF));
    };
    append(count);
    for (std::size_t i = 0; i < count; ++i) {
      codec::VariableSlot slot;
      std::memcpy(&slot, stream.dst + i * sizeof(slot), sizeof(slot));
      if (slot.bytes == codec::VariableSlot::kNotText) continue;
      FUZZ_CHECK(slot.bytes <= seed.stream.size());
      append(slot.bytes);
      again.insert(again.end(), slot.data, slot.data + slot.bytes);
    }
    const bool is_json = kName == "json2";
    FUZZ_CHECK(is_json || std::equal(again.begin(), again.end(), seed.stream.begin(), seed.stream.end()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  static const Result<codec::Codec> example = [] {
    codec::CodecArgs context;
    context.zarr_format = 2;
    return row().make(test::codec_seed_config(kName, 0), context);
  }();
  static const codec::ArrayToBytes* const array = example.ok() ? example->array_to_bytes() : nullptr;
  if (array != nullptr && array->variable_length()) {
    fuzz_elements(*array->coder(), input);
    return 0;
  }
  static const bool decodes_streams = *row().v2_ids != '\0' && example.ok() && example->coder() != nullptr;
  if (!decodes_streams) {
    fuzz_configuration(input);
  } else {
    fuzz_streams(input);
  }
  return 0;
}
