// part(): a subspan, or nothing if it is not entirely inside.
//
// All memory is read and written through spans obtained from their owner this way, so no stored length can reach past
// the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace headrace::base {

template <class Byte>
constexpr std::optional<std::span<Byte>> part(std::span<Byte> whole, std::uint64_t offset,
                                              std::uint64_t length) noexcept {
  if (offset > whole.size() || length > whole.size() - offset) return std::nullopt;
  return whole.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
}

}  // namespace headrace::base
