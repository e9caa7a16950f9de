#include <headrace/stats.h>

namespace headrace {

Stats& operator+=(Stats& total, const Stats& part) {
  total.chunks += part.chunks;
  total.missing_chunks += part.missing_chunks;
  total.waves += part.waves;
  total.requests += part.requests;
  total.objects_opened += part.objects_opened;
  total.stored_bytes += part.stored_bytes;
  total.read_bytes += part.read_bytes;
  total.bus_bytes += part.bus_bytes;
  total.decoded_bytes += part.decoded_bytes;
  total.direct_bytes += part.direct_bytes;
  total.engine_bytes += part.engine_bytes;
  total.buffered_bytes += part.buffered_bytes;
  total.memory_bytes += part.memory_bytes;
  total.plan_seconds += part.plan_seconds;
  total.open_seconds += part.open_seconds;
  total.read_seconds += part.read_seconds;
  total.decode_seconds += part.decode_seconds;
  total.assemble_seconds += part.assemble_seconds;
  total.copy_seconds += part.copy_seconds;
  total.wall_seconds += part.wall_seconds;
  if (!part.engine.empty()) total.engine = part.engine;
  if (total.path.empty()) {
    total.path = part.path;
  } else if (!part.path.empty() && total.path.find(part.path) == std::string::npos) {
    total.path += " + " + part.path;
  }
  return total;
}

}  // namespace headrace
