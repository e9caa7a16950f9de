// part(): a piece of some memory, or nothing where it is not all inside.
//
// Whatever is written to or read from is a span that came out of its owner's by this, so no length that was stored can
// reach beyond it.
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
