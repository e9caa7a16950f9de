// Cuts parts out of Blosc1 containers: the blocks that hold a range of the decoded bytes become a container of their
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/codec.h"

namespace headrace::codec {

// The header and the starts of a thousand blocks.
inline constexpr std::size_t kBloscPartTableBytes = kMaxPartTableBytes;

// See StreamCoder::cut().
bool cut_blosc(std::span<const std::byte> table, std::uint64_t stream_bytes, std::uint64_t begin, std::uint64_t end,
               std::span<std::byte> head, StreamPart& part) noexcept;

}  // namespace headrace::codec
