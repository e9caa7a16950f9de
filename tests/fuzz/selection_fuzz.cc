// Selections: text gives a selection or kInvalidArgument, and a resolved selection stays inside the array.
#include <headrace/selection.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/fuzz_check.h"

namespace {

void check_shape(const headrace::Selection& selection, std::span<const std::uint64_t> shape) {
  using namespace headrace;
  const auto resolved = resolve_selection(selection, shape);
  if (!resolved.ok()) {
    FUZZ_CHECK(resolved.status().code() == Code::kInvalidArgument);
    return;
  }
  FUZZ_CHECK(resolved->dims.size() == shape.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto& dim = resolved->dims[i];
    if (dim.list != nullptr) {
      FUZZ_CHECK(dim.list->size() == dim.count);
      for (const std::uint64_t index : *dim.list) FUZZ_CHECK(index < shape[i]);
    } else {
      FUZZ_CHECK(dim.step > 0 && dim.start <= shape[i]);
    }
    if (dim.list == nullptr && dim.count > 0) {
      // The last element, computed without wrapping.
      const unsigned __int128 last = dim.start + static_cast<unsigned __int128>(dim.count - 1) * dim.step;
      FUZZ_CHECK(last < shape[i]);
    }
    if (dim.dropped) {
      FUZZ_CHECK(resolved->points ? dim.count == resolved->shape.at(0) : dim.count == 1);
      continue;
    }
    FUZZ_CHECK(kept < resolved->shape.size() && resolved->shape[kept] == dim.count);
    ++kept;
  }
  FUZZ_CHECK(resolved->points ? resolved->shape.size() == 1 : kept == resolved->shape.size());
}

void check(const headrace::Result<headrace::Selection>& selection) {
  using namespace headrace;
  if (!selection.ok()) {
    FUZZ_CHECK(selection.status().code() == Code::kInvalidArgument);
    FUZZ_CHECK(selection.status().message().size() < 500);
    return;
  }
  constexpr std::uint64_t kLargest = 0x7fffffffffffffff;
  check_shape(*selection, {});
  check_shape(*selection, std::array<std::uint64_t, 1>{10});
  check_shape(*selection, std::array<std::uint64_t, 2>{0, 1});
  check_shape(*selection, std::array<std::uint64_t, 3>{7, kLargest, 3});
  check_shape(*selection, std::array<std::uint64_t, 1>{kLargest});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(headrace::parse_selection(text));
  check(headrace::parse_points(text));
  check(headrace::parse_blocks(text));
  return 0;
}
