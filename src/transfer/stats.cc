#include <headrace/stats.h>

namespace headrace {

Stats& Stats::operator+=(const Stats& part) {
  chunks += part.chunks;
  missing_chunks += part.missing_chunks;
  gpu_chunks += part.gpu_chunks;
  cpu_chunks += part.cpu_chunks;
  returned_chunks += part.returned_chunks;
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
  engine_bytes += part.engine_bytes;
  buffered_bytes += part.buffered_bytes;
  memory_bytes += part.memory_bytes;
  mapped_bytes += part.mapped_bytes;
  plan_seconds += part.plan_seconds;
  open_seconds += part.open_seconds;
  read_seconds += part.read_seconds;
  decode_seconds += part.decode_seconds;
  assemble_seconds += part.assemble_seconds;
  copy_seconds += part.copy_seconds;
  wall_seconds += part.wall_seconds;
  if (!part.engine.empty()) engine = part.engine;
  if (!part.device_note.empty()) device_note = part.device_note;
  if (path.empty()) {
    path = part.path;
  } else if (!part.path.empty() && path.find(part.path) == std::string::npos) {
    path += " + " + part.path;
  }
  return *this;
}

}  // namespace headrace
