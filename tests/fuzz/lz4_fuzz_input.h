// The input of the fuzz targets of the GPU's LZ4 decoders: two bytes of output size, one byte of choices, the block.
// Every second input uses the decoded size that liblz4 finds, so that mutations of good blocks stay accepted.
#pragma once

#include <lz4.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tests/support/guard_buffer.h"

namespace headrace::test {

struct Lz4FuzzInput {
  std::span<const std::byte> block;
  std::size_t plain_bytes;
  unsigned choices;  // bit 3: use the size that liblz4 finds

  Flush flush() const { return (choices & 4) != 0 ? Flush::kLeft : Flush::kRight; }
};

// nullopt: too short, or larger than `most_bytes`. `max_plain` limits the size that liblz4 may find.
inline std::optional<Lz4FuzzInput> lz4_fuzz_input(const std::uint8_t* data, std::size_t size, std::size_t most_bytes,
                                                  std::size_t max_plain) {
  constexpr std::size_t kHeader = 3;
  if (size < kHeader || size > most_bytes) return std::nullopt;
  Lz4FuzzInput input{{reinterpret_cast<const std::byte*>(data) + kHeader, size - kHeader},
                     data[0] | static_cast<std::size_t>(data[1]) << 8,
                     data[2]};
  if ((input.choices & 8) != 0) {
    static std::vector<char> room;
    room.resize(max_plain);
    const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(input.block.data()), room.data(),
                                        static_cast<int>(input.block.size()), static_cast<int>(max_plain));
    if (got >= 0) input.plain_bytes = static_cast<std::size_t>(got);
  }
  return input;
}

}  // namespace headrace::test
