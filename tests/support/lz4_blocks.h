// LZ4 blocks for tests of LZ4 decoders, written by liblz4 or token by token. liblz4 is the reference.
#pragma once

#include <lz4.h>
#include <lz4hc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/lz4/lz4_device.cuh"
#include "tests/support/codec_testing.h"
#include "tests/support/guard_buffer.h"
#include "tests/support/temp_dir.h"

namespace headrace::test {

inline Bytes compress_lz4(const Bytes& plain, bool high = false) {
  Bytes out(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(plain.size()))));
  const auto* const from = reinterpret_cast<const char*>(plain.data());
  auto* const to = reinterpret_cast<char*>(out.data());
  const int bytes = static_cast<int>(plain.size()), room = static_cast<int>(out.size());
  const int got = high ? LZ4_compress_HC(from, to, bytes, room, 9) : LZ4_compress_fast(from, to, bytes, room, 1);
  out.resize(static_cast<std::size_t>(got));
  return out;
}

// Writes a block token by token, valid or invalid.
class TokenWriter {
 public:
  TokenWriter& sequence(std::size_t literals, std::size_t offset, std::size_t match) {
    token(literals, match - 4);
    add_literals(literals);
    bytes_.push_back(static_cast<std::byte>(offset));
    bytes_.push_back(static_cast<std::byte>(offset >> 8));
    if (match - 4 >= 15) extend(match - 19);
    plain_ += literals + match;
    return *this;
  }
  TokenWriter& last(std::size_t literals) {
    token(literals, 0);
    add_literals(literals);
    plain_ += literals;
    return *this;
  }
  TokenWriter& literal_bytes(int value) {  // for all following literals; -1: varied
    value_ = value;
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }
  std::size_t plain() const { return plain_; }

 private:
  void token(std::size_t literals, std::size_t match) {
    bytes_.push_back(
        static_cast<std::byte>(std::min<std::size_t>(literals, 15) << 4 | std::min<std::size_t>(match, 15)));
    if (literals >= 15) extend(literals - 15);
  }
  void extend(std::size_t length) {
    for (; length >= 255; length -= 255) bytes_.push_back(std::byte{255});
    bytes_.push_back(static_cast<std::byte>(length));
  }
  void add_literals(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      next_ = next_ * 6364136223846793005u + 1442695040888963407u;
      bytes_.push_back(value_ >= 0 ? static_cast<std::byte>(value_) : static_cast<std::byte>(next_ >> 33));
    }
  }
  Bytes bytes_;
  std::size_t plain_ = 0;
  std::uint64_t next_ = 1;
  int value_ = -1;
};

// Whether liblz4 decodes the block to exactly `plain.size()` bytes.
inline bool decode_with_liblz4(std::span<const std::byte> block, std::span<std::byte> plain) {
  std::byte nothing{};
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()),
                                      reinterpret_cast<char*>(plain.empty() ? &nothing : plain.data()),
                                      static_cast<int>(block.size()), static_cast<int>(plain.size()));
  return got >= 0 && static_cast<std::size_t>(got) == plain.size();
}

// Compares a decoder with liblz4, one block at a time between guard pages. Returns null if they agree, else the
// difference.
class Lz4Beside {
 public:
  explicit Lz4Beside(std::size_t most_bytes) : in_(most_bytes), out_(most_bytes) {}

  // decode(streams, outcomes, stage) runs the decoder under test.
  template <class Decode>
  const char* check(std::span<const std::byte> block, std::size_t plain_bytes, Flush flush, const Decode& decode) {
    want_.assign(plain_bytes, std::byte{});
    accepted_ = decode_with_liblz4(block, want_);
    std::byte* const src = in_.take(block.size(), flush, 0);
    std::copy(block.begin(), block.end(), src);
    std::byte* const dst = out_.take(plain_bytes, flush, 0x5A);
    const codec::gpu::Lz4Stream stream{reinterpret_cast<unsigned char*>(src),
                                       reinterpret_cast<unsigned char*>(dst),
                                       static_cast<std::uint32_t>(block.size()),
                                       static_cast<std::uint32_t>(plain_bytes),
                                       0,
                                       codec::gpu::Lz4Kind::kBlock};
    outcome_ = device::DecodeOutcome{};
    decode(std::span(&stream, 1), std::span(&outcome_.word, 1), 3u);
    if (!in_.intact() || !out_.intact()) return "wrote outside its output";
    if (!support::same_bytes(block, {src, block.size()})) return "wrote into its input";
    if (outcome_.ok() != accepted_) return accepted_ ? "refused what liblz4 accepts" : "accepted what liblz4 refuses";
    if (accepted_ && !support::same_bytes(want_, {dst, want_.size()})) return "bytes differ from liblz4's";
    if (!accepted_ && (outcome_.stage() != 3 || outcome_.reason() == device::DecodeReason::kNone ||
                       outcome_.position() > block.size())) {
      return "an invalid outcome";
    }
    return nullptr;
  }
  bool accepted() const { return accepted_; }
  device::DecodeOutcome outcome() const { return outcome_; }

 private:
  GuardArena in_, out_;
  std::vector<std::byte> want_;
  device::DecodeOutcome outcome_;
  bool accepted_ = false;
};

}  // namespace headrace::test
