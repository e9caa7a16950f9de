// The in-order decoder's own device code on the CPU beside liblz4: same verdict, same bytes, nothing touched outside.
// Included by a test and a fuzz target, once in a program.
#pragma once

// clang-format off: gives the device code its keywords
#include "tests/support/cuda_on_cpu.h"
// clang-format on

#include <lz4.h>

#include <algorithm>
#include <span>
#include <vector>

#include "codecs/lz4/lz4_inorder_device.cuh"
#include "tests/support/guard_buffer.h"

namespace headrace::test {

// Whether liblz4 decodes the block to exactly `plain.size()` bytes.
inline bool decode_with_liblz4(std::span<const std::byte> block, std::span<std::byte> plain) {
  std::byte nothing{};
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()),
                                      reinterpret_cast<char*>(plain.empty() ? &nothing : plain.data()),
                                      static_cast<int>(block.size()), static_cast<int>(plain.size()));
  return got >= 0 && static_cast<std::size_t>(got) == plain.size();
}

// A list of streams, one for each outcome.
template <unsigned kLanes>
void decode_in_order(std::span<const codec::gpu::Lz4Stream> streams, std::span<std::uint64_t> outcomes,
                     unsigned blocks = 1, unsigned stage = 0) {
  constexpr unsigned kThreads = 32;
  alignas(128) static unsigned char shared[codec::gpu::kLz4InorderSharedBytes<kLanes, kThreads>];
  testing::gpu::launch(blocks, kThreads, [&] {
    codec::gpu::lz4_inorder_body<kLanes>(streams.data(), static_cast<std::uint32_t>(streams.size()), outcomes.data(),
                                         stage, shared);
  });
}

inline void decode_in_order(unsigned lanes, std::span<const codec::gpu::Lz4Stream> streams,
                            std::span<std::uint64_t> outcomes, unsigned blocks = 1, unsigned stage = 0) {
  switch (lanes) {
    case 4:
      return decode_in_order<4>(streams, outcomes, blocks, stage);
    case 8:
      return decode_in_order<8>(streams, outcomes, blocks, stage);
    case 16:
      return decode_in_order<16>(streams, outcomes, blocks, stage);
    default:
      return decode_in_order<32>(streams, outcomes, blocks, stage);
  }
}

// One block by itself between guard pages. Empty if all is as liblz4 has it, else what is not.
class Lz4Beside {
 public:
  explicit Lz4Beside(std::size_t most_bytes) : in_(most_bytes), out_(most_bytes) {}

  const char* check(std::span<const std::byte> block, std::size_t plain_bytes, unsigned lanes, Flush flush) {
    want_.assign(plain_bytes, std::byte{});
    accepted_ = decode_with_liblz4(block, want_);
    std::byte* const src = in_.take(block.size(), flush, 0);
    std::copy(block.begin(), block.end(), src);
    std::byte* const dst = out_.take(plain_bytes, flush, 0x5A);
    codec::gpu::Lz4Stream stream{reinterpret_cast<unsigned char*>(src),
                                 reinterpret_cast<unsigned char*>(dst),
                                 static_cast<std::uint32_t>(block.size()),
                                 static_cast<std::uint32_t>(plain_bytes),
                                 0,
                                 codec::gpu::Lz4Kind::kBlock};
    outcome_ = device::DecodeOutcome{};
    decode_in_order(lanes, {&stream, 1}, {&outcome_.word, 1}, 1, 3);
    if (!in_.intact() || !out_.intact()) return "wrote outside its output";
    if (!std::equal(block.begin(), block.end(), src)) return "wrote into its input";
    if (outcome_.ok() != accepted_) return accepted_ ? "refused what liblz4 accepts" : "accepted what liblz4 refuses";
    if (accepted_ && !std::equal(want_.begin(), want_.end(), dst)) return "other bytes than liblz4";
    if (!accepted_ && (outcome_.stage() != 3 || outcome_.reason() == device::DecodeReason::kNone ||
                       outcome_.position() > block.size())) {
      return "an outcome that makes no sense";
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
