#include "loader/array_schema.h"

#include <cstdint>
#include <variant>

#include "loader/sampling/sampling_parts.h"

namespace headrace::loader {
namespace {

// Nothing where there are none, so that states of loaders without them stay what they were.
void add_positions(const LoaderArray& array, Digest& digest) {
  for (const auto& [dim, positions] : array.positions) {
    digest.add(dim);
    for (const std::int64_t position : positions) digest.add(static_cast<std::uint64_t>(position));
  }
}

}  // namespace

LoaderSchema schema_of(const Order& order, std::span<const LoaderArray> arrays) {
  LoaderSchema schema = order.schema();
  for (const LoaderArray& array : arrays) {
    const LoaderSchema samples = std::visit([](const auto& some) { return some.schema(); }, array.samples);
    if (arrays.size() == 1) {
      schema.add(samples);
      if (array.positions.empty()) continue;
      Digest positions;
      add_positions(array, positions);
      schema.set("positions", positions.value());
      continue;
    }
    // A digest for each array: a state has room for so many.
    Digest digest;
    for (const auto& [name, value] : samples.digests()) digest.add(name).add(value);
    add_positions(array, digest);
    schema.set("samples of " + array.name, digest.value());
  }
  return schema;
}

}  // namespace headrace::loader
