// Decodes codecs with variable-length elements, for their tests.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "codec/variable_codec.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {

struct DecodedElements {
  Status status;
  std::vector<std::optional<std::string>> elements;  // nullopt: not a string
};

// Between guard pages, flush right and flush left.
inline DecodedElements decode_elements(const codec::StreamCoder& codec, std::string_view text, std::size_t count) {
  DecodedElements out;
  for (const Flush flush : {Flush::kRight, Flush::kLeft}) {
    const GuardBuffer src(text.size(), flush);
    if (!text.empty()) std::memcpy(src.data(), text.data(), text.size());
    const GuardBuffer dst(count * codec::kVariableSlotBytes, flush);
    const auto scratch = codec.make_scratch();
    codec::EncodedStream stream;
    stream.src = src.data();
    stream.src_bytes = text.size();
    stream.dst = dst.data();
    stream.dst_capacity = count * codec::kVariableSlotBytes;
    const Status status = codec.decode(stream, scratch.get());
    EXPECT_TRUE(src.intact());
    EXPECT_TRUE(dst.intact());
    EXPECT_EQ(stream.dst_bytes, status.ok() ? stream.dst_capacity : 0u);
    std::vector<std::optional<std::string>> elements;
    for (std::size_t i = 0; status.ok() && i < count; ++i) {
      codec::VariableSlot slot;
      std::memcpy(&slot, dst.data() + i * sizeof(slot), sizeof(slot));
      if (slot.bytes == codec::VariableSlot::kNotText) {
        elements.emplace_back();
      } else {
        elements.emplace_back(std::string(reinterpret_cast<const char*>(slot.data), slot.bytes));
      }
    }
    if (flush == Flush::kLeft) {
      EXPECT_EQ(out.status.code(), status.code());
      EXPECT_EQ(out.elements, elements);
    }
    out.status = status;
    out.elements = std::move(elements);
  }
  return out;
}

inline void expect_elements(const codec::StreamCoder& codec, std::string_view text,
                            const std::vector<std::optional<std::string>>& elements) {
  const DecodedElements decoded = decode_elements(codec, text, elements.size());
  EXPECT_TRUE(decoded.status.ok()) << decoded.status.to_string();
  EXPECT_EQ(decoded.elements, elements);
}

inline void expect_bad(const codec::StreamCoder& codec, std::string_view text, std::size_t count, std::string_view word,
                       Code code = Code::kCorrupt) {
  const DecodedElements decoded = decode_elements(codec, text, count);
  EXPECT_EQ(decoded.status.code(), code) << decoded.status.to_string();
  EXPECT_NE(decoded.status.message().find(word), std::string::npos) << decoded.status.message();
}

}  // namespace headrace::test
