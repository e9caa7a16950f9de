// Helpers shared by codec tests: making a codec from JSON text, decoding between guard pages, and damaging streams.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codec/codec.h"
#include "codec/representation.h"
#include "tests/support/guard_buffer.h"

namespace headrace::test {

using Bytes = std::vector<std::byte>;

// A codec made from JSON, used as its coder; null if it could not be made.
class MadeCodec {
 public:
  MadeCodec() = default;
  explicit MadeCodec(codec::Codec codec) : codec_(std::move(codec)) {}
  const codec::Codec& codec() const { return *codec_; }
  const codec::StreamCoder* get() const { return codec_ ? codec_->coder() : nullptr; }
  const codec::StreamCoder& operator*() const { return *get(); }
  const codec::StreamCoder* operator->() const { return get(); }
  friend bool operator==(const MadeCodec& made, std::nullptr_t) { return made.get() == nullptr; }

 private:
  std::optional<codec::Codec> codec_;
};

Result<codec::Codec> try_make(std::string_view name, std::string_view config, int format = 3);
MadeCodec make(std::string_view name, std::string_view config = "{}", int format = 3);

// Passes elements to the codec; `shape` and `layout` become those of the encoded elements.
Status enter(const codec::Codec& codec, const DataType& dtype, std::vector<std::uint64_t>& shape,
             codec::Layout& layout);

// Expects the configuration to be refused as corrupt, with a message that contains `word`.
void expect_refused(std::string_view name, std::string_view config, std::string_view word, int format = 3);

struct Decoded {
  Status status;
  Bytes bytes;
};

// Decodes between guard pages, flush right and flush left. Both results must agree, and the canaries must be intact.
class Decoder {
 public:
  explicit Decoder(const codec::StreamCoder& coder) : coder_(coder), scratch_(coder.make_scratch()) {}

  Decoded operator()(std::span<const std::byte> encoded, std::size_t capacity, bool exact = true);
  // Decodes the first `bytes` of a stream whose full decoded size is `of`.
  Decoded beginning(std::span<const std::byte> encoded, std::size_t bytes, std::size_t of, bool exact = true);

 private:
  Decoded run_both(std::span<const std::byte> encoded, std::size_t capacity, bool exact, std::size_t prefix_of);
  Decoded run(std::span<const std::byte> encoded, std::size_t capacity, bool exact, std::size_t prefix_of, Flush flush);

  const codec::StreamCoder& coder_;
  std::unique_ptr<codec::Scratch> scratch_;
  std::unique_ptr<GuardArena> in_, out_;
  std::size_t in_bytes_ = 0, out_bytes_ = 0;
};

// Tries every truncation, every flip of a bit in the first 64 bytes, and garbage after the end. Each must return a
// status. `every_change_is_seen`: the format detects all of them, so none may succeed with different bytes. `padding`:
// the format allows that many zeros, or a multiple, after the end.
void damage(const codec::StreamCoder& coder, const Bytes& encoded, std::size_t capacity,
            bool every_change_is_seen = false, std::size_t padding = 0);

Bytes to_bytes(std::string_view text);
// REQUIRES: an even number of hexadecimal digits.
Bytes from_hex(std::string_view digits);

enum class Content { kRandom, kZeros, kSmooth, kText };

// Deterministic test data. kSmooth is a slowly rising sequence of 4-byte numbers, which shuffles well.
Bytes sample(std::size_t bytes, Content content, unsigned seed = 1);

}  // namespace headrace::test
