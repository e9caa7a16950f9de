#include <headrace/stats.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {
namespace {

constexpr std::string_view kNothing = "nothing read";

// Appends the parts of `text` that are not in `parts` yet.
void add_parts(std::string_view text, std::string_view separator, std::vector<std::string_view>& parts) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view part = text.substr(0, end);
    if (part != kNothing && std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
    text.remove_prefix(std::min(text.size(), end + separator.size()));
  }
}

// "a + b, decoded by x": the paths of both, then who decoded.
std::string joined(const std::string& left, const std::string& right) {
  if (left.empty() || left == right) return right;
  if (right.empty()) return left;
  std::vector<std::string_view> ways, decoders;
  for (const std::string_view path : {std::string_view(left), std::string_view(right)}) {
    const std::size_t end = std::min(path.find(", decoded"), path.size());
    add_parts(path.substr(0, end), " + ", ways);
    if (end < path.size()) add_parts(path.substr(end + 2), "; ", decoders);
  }
  std::string out;
  for (const std::string_view way : ways) out += (out.empty() ? "" : " + ") + std::string(way);
  if (out.empty()) out = kNothing;
  for (std::size_t i = 0; i < decoders.size(); ++i) out += (i == 0 ? ", " : "; ") + std::string(decoders[i]);
  return out;
}

}  // namespace

Stats& Stats::operator+=(const Stats& part) {
  chunks += part.chunks;
  missing_chunks += part.missing_chunks;
  gpu_chunks += part.gpu_chunks;
  cpu_chunks += part.cpu_chunks;
  skipped_bytes += part.skipped_bytes;
  returned_chunks += part.returned_chunks;
  kept_chunks += part.kept_chunks;
  kept_encoded_chunks += part.kept_encoded_chunks;
  damaged_chunks += part.damaged_chunks;
  indexed_chunks += part.indexed_chunks;
  bad_indices += part.bad_indices;
  waves += part.waves;
  requests += part.requests;
  objects_opened += part.objects_opened;
  stored_bytes += part.stored_bytes;
  read_bytes += part.read_bytes;
  bus_bytes += part.bus_bytes;
  decoded_bytes += part.decoded_bytes;
  gpu_decoded_bytes += part.gpu_decoded_bytes;
  cpu_decoded_bytes += part.cpu_decoded_bytes;
  direct_bytes += part.direct_bytes;
  straight_bytes += part.straight_bytes;
  engine_bytes += part.engine_bytes;
  buffered_bytes += part.buffered_bytes;
  memory_bytes += part.memory_bytes;
  mapped_bytes += part.mapped_bytes;
  store_bytes += part.store_bytes;
  cache_bytes += part.cache_bytes;
  cache_hits += part.cache_hits;
  cache_misses += part.cache_misses;
  packed_bytes += part.packed_bytes;
  plan_seconds += part.plan_seconds;
  open_seconds += part.open_seconds;
  read_seconds += part.read_seconds;
  decode_seconds += part.decode_seconds;
  assemble_seconds += part.assemble_seconds;
  copy_seconds += part.copy_seconds;
  wall_seconds += part.wall_seconds;
  if (engine.empty() || (!part.engine.empty() && part.engine != "none")) engine = part.engine;
  if (!part.device_note.empty()) device_note = part.device_note;
  if (!part.path.empty()) path = joined(path, part.path);  // adding counts alone allocates nothing
  return *this;
}

}  // namespace headrace
