#include "tests/support/codec_testing.h"

#include "base/json.h"

namespace headrace::test {

Result<codec::Codec> try_make(std::string_view name, std::string_view config, int format) {
  auto json = base::parse_json(config);
  if (!json.ok()) return json.status();
  codec::CodecArgs context;
  context.zarr_format = format;
  return codec::make_codec(name, *json, context);
}

MadeCodec make(std::string_view name, std::string_view config, int format) {
  auto made = try_make(name, config, format);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? MadeCodec(std::move(made).value()) : MadeCodec();
}

Status enter(const codec::Codec& codec, const DataType& dtype, std::vector<std::uint64_t>& shape,
             codec::Layout& layout) {
  codec::Representation elements(dtype, shape, layout);
  Status status = elements.enter(codec);
  if (status.ok()) {
    shape = elements.shape();
    layout = elements.layout();
  }
  return status;
}

void expect_refused(std::string_view name, std::string_view config, std::string_view word, int format) {
  auto made = try_make(name, config, format);
  ASSERT_FALSE(made.ok()) << name << " took " << config;
  EXPECT_EQ(made.status().code(), Code::kCorrupt) << made.status().to_string();
  EXPECT_NE(made.status().message().find(word), std::string::npos) << made.status().message();
}

namespace {

GuardArena& enough(std::unique_ptr<GuardArena>& arena, std::size_t& have, std::size_t bytes) {
  if (arena == nullptr || have < bytes) arena = std::make_unique<GuardArena>(have = bytes);
  return *arena;
}

}  // namespace

Decoded Decoder::operator()(std::span<const std::byte> encoded, std::size_t capacity, bool exact) {
  return run_both(encoded, capacity, exact, 0);
}

Decoded Decoder::beginning(std::span<const std::byte> encoded, std::size_t bytes, std::size_t of, bool exact) {
  return run_both(encoded, bytes, exact, of);
}

Decoded Decoder::run_both(std::span<const std::byte> encoded, std::size_t capacity, bool exact, std::size_t prefix_of) {
  Decoded right = run(encoded, capacity, exact, prefix_of, Flush::kRight);
  Decoded left = run(encoded, capacity, exact, prefix_of, Flush::kLeft);
  EXPECT_EQ(right.status.code(), left.status.code());
  EXPECT_EQ(right.bytes, left.bytes);
  return right;
}

Decoded Decoder::run(std::span<const std::byte> encoded, std::size_t capacity, bool exact, std::size_t prefix_of,
                     Flush flush) {
  GuardArena &in = enough(in_, in_bytes_, encoded.size()), &out = enough(out_, out_bytes_, capacity);
  std::byte* const src = in.take(encoded.size(), flush, 0);
  if (!encoded.empty()) std::memcpy(src, encoded.data(), encoded.size());
  // Different old contents, so that bytes that are never written show up as a difference.
  codec::EncodedStream stream{.src = src,
                              .src_bytes = encoded.size(),
                              .dst = out.take(capacity, flush, flush == Flush::kLeft ? 0x00 : 0xFF),
                              .dst_capacity = capacity,
                              .dst_bytes = 12345,
                              .exact = exact,
                              .prefix_of = prefix_of};
  Decoded result;
  result.status = coder_.decode(stream, scratch_.get());
  EXPECT_TRUE(in.intact());
  EXPECT_TRUE(out.intact());
  EXPECT_TRUE(std::equal(encoded.begin(), encoded.end(), src)) << "the encoded bytes were changed";
  if (result.status.ok()) {
    EXPECT_TRUE((!exact && prefix_of == 0) || stream.dst_bytes == capacity);
    EXPECT_LE(stream.dst_bytes, capacity);
    result.bytes.assign(stream.dst, stream.dst + stream.dst_bytes);
  } else {
    EXPECT_EQ(stream.dst_bytes, 0u);
    const Code code = result.status.code();
    EXPECT_TRUE(code == Code::kCorrupt || code == Code::kUnsupported) << result.status.to_string();
    EXPECT_FALSE(result.status.message().empty());
  }
  return result;
}

void damage(const codec::StreamCoder& coder, const Bytes& encoded, std::size_t capacity, bool every_change_is_seen,
            std::size_t padding) {
  Decoder decode(coder);
  const Decoded whole = decode(encoded, capacity);
  ASSERT_TRUE(whole.status.ok()) << whole.status.to_string();
  for (std::size_t length = 0; length < encoded.size(); ++length) {
    EXPECT_FALSE(decode({encoded.data(), length}, capacity).status.ok()) << "cut to " << length;
  }
  for (std::size_t bit = 0; bit < 8 * std::min<std::size_t>(64, encoded.size()); ++bit) {
    Bytes changed = encoded;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    const Decoded result = decode(changed, capacity);
    EXPECT_TRUE(!every_change_is_seen || !result.status.ok() || result.bytes == whole.bytes) << "bit " << bit;
  }
  for (const std::byte extra : {std::byte{0}, std::byte{0xFF}}) {
    for (const std::size_t count : {1, 3, 8, 40}) {
      Bytes longer = encoded;
      longer.insert(longer.end(), count, extra);
      const bool legal = padding != 0 && extra == std::byte{0} && count % padding == 0;
      EXPECT_EQ(decode(longer, capacity).status.ok(), legal) << count << " trailing bytes";
    }
  }
  EXPECT_FALSE(decode(encoded, capacity + 1).status.ok());
  EXPECT_TRUE(capacity == 0 || !decode(encoded, capacity - 1).status.ok());
}

Bytes to_bytes(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

Bytes from_hex(std::string_view digits) {
  Bytes out(digits.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>(std::stoi(std::string(digits.substr(2 * i, 2)), nullptr, 16));
  }
  return out;
}

Bytes sample(std::size_t bytes, Content content, unsigned seed) {
  Bytes out(bytes);
  std::mt19937 random(seed);
  std::uint32_t value = 1000;
  for (std::size_t i = 0; i < bytes; ++i) {
    switch (content) {
      case Content::kRandom:
        out[i] = static_cast<std::byte>(random());
        break;
      case Content::kZeros:
        break;
      case Content::kSmooth:
        if (i % 4 == 0) value += static_cast<std::uint32_t>(random() % 200);
        out[i] = static_cast<std::byte>(value >> (8 * (i % 4)));
        break;
      case Content::kText:
        out[i] = static_cast<std::byte>("the quick brown fox "[(i + (random() % 50 == 0 ? 7 : 0)) % 20]);
        break;
    }
  }
  return out;
}

}  // namespace headrace::test
