#include "read_cost.h"

#include <algorithm>

namespace headrace::python {
namespace {

constexpr std::uint64_t kMax = std::uint64_t{1} << 62;
// Finding, opening and reading a chunk costs as much as decoding this many bytes.
constexpr std::uint64_t kChunkBytes = std::uint64_t{16} << 10;

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kMax / b ? kMax : a * b;
}

// Number of chunks that a selection along one axis touches, if all chunks have equal extents.
std::uint64_t touched(const ResolvedSelection::Dim& dim, std::uint64_t extent, std::uint64_t chunk) {
  if (dim.count == 0) return 0;
  if (dim.list != nullptr) return std::min(dim.count, (extent - 1) / chunk + 1);
  const std::uint64_t last = dim.start + (dim.count - 1) * dim.step;
  return std::min(dim.count, last / chunk - dim.start / chunk + 1);
}

}  // namespace

ReadCost cost_of(const Array& array, const Selection& selection) {
  const auto resolved = array.resolve(selection);
  if (!resolved.ok()) return {};
  const ArrayInfo& info = array.info();
  const bool regular = info.chunk_grid == "regular";
  std::uint64_t chunks = resolved->points ? 0 : 1, of_chunk = 1, wanted = 1;
  for (std::size_t axis = 0; axis < resolved->dims.size(); ++axis) {
    const ResolvedSelection::Dim& dim = resolved->dims[axis];
    const std::uint64_t chunk = std::max<std::uint64_t>(info.chunk_shape[axis], 1);
    // Chunks of varying shape may hold a single index each, and each point may lie in another chunk.
    const std::uint64_t along = regular ? touched(dim, info.shape[axis], chunk) : dim.count;
    chunks = resolved->points ? std::max(chunks, dim.count) : times(chunks, along);
    of_chunk = times(of_chunk, chunk);
  }
  for (const std::uint64_t extent : resolved->shape) wanted = times(wanted, extent);
  ReadCost cost;
  cost.chunks = std::min(chunks, info.chunk_count);
  // Uncompressed chunks can be read in parts.
  const bool in_parts =
      std::all_of(info.codecs.begin(), info.codecs.end(), [](const std::string& name) { return name == "bytes"; });
  cost.elements = in_parts ? wanted : std::max(wanted, times(cost.chunks, of_chunk));
  cost.bytes = times(cost.chunks, kChunkBytes) + times(cost.elements, info.dtype.item_bytes);
  return cost;
}

}  // namespace headrace::python
