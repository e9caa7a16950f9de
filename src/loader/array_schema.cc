#include "loader/array_schema.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "loader/sampling/sampling_parts.h"

namespace headrace::loader {
namespace {

constexpr std::string_view kSamplesOf = "samples of ";

// Adds nothing without positions, so that states of such loaders stay valid.
void add_positions(const LoaderArray& array, Digest& digest) {
  for (const auto& [dim, positions] : array.positions) {
    digest.add(dim);
    for (const std::int64_t position : positions) digest.add(static_cast<std::uint64_t>(position));
  }
}

std::uint64_t digest_of_samples(const LoaderArray& array) {
  const LoaderSchema samples = std::visit([](const auto& some) { return some.schema(); }, array.samples);
  Digest digest;
  for (const auto& [name, value] : samples.digests()) digest.add(name).add(value);
  add_positions(array, digest);
  return digest.value();
}

// Whether a state has room for a digest of each array under its name.
bool fit_one_by_one(const LoaderSchema& order, std::span<const LoaderArray> arrays) {
  return order.digests().size() + arrays.size() <= kMaxDigests &&
         std::all_of(arrays.begin(), arrays.end(), [](const LoaderArray& array) {
           return kSamplesOf.size() + array.name.size() <= kMaxDigestNameBytes;
         });
}

}  // namespace

LoaderSchema schema_of(const Order& order, std::span<const LoaderArray> arrays) {
  LoaderSchema schema = order.schema();
  if (arrays.size() == 1) {
    schema.add(std::visit([](const auto& some) { return some.schema(); }, arrays[0].samples));
    if (arrays[0].positions.empty()) return schema;
    Digest positions;
    add_positions(arrays[0], positions);
    schema.set("positions", positions.value());
    return schema;
  }
  if (fit_one_by_one(schema, arrays)) {
    for (const LoaderArray& array : arrays) schema.set(std::string(kSamplesOf) + array.name, digest_of_samples(array));
    return schema;
  }
  LoaderSchema each;  // sorted by name, whatever order they are given in
  for (const LoaderArray& array : arrays) each.set(array.name, digest_of_samples(array));
  Digest digest;
  for (const auto& [name, value] : each.digests()) digest.add(name).add(value);
  schema.set("samples of all arrays", digest.value());
  return schema;
}

}  // namespace headrace::loader
