// Stats: bytes of a read by path and kind, and the time of each stage.
//
// Kinds of bytes: stored (encoded bytes taken from the store), bus (bytes copied from host to device), decoded (bytes
// of elements delivered). Seconds are summed over threads and requests, so a stage may exceed the wall time.
#pragma once

#include <headrace/export.h>

#include <cstdint>
#include <string>

namespace headrace {

struct Stats {
  // Work.
  std::uint64_t chunks = 0;          // chunks read and decoded
  std::uint64_t missing_chunks = 0;  // absent: filled with the fill value
  std::uint64_t damaged_chunks = 0;  // became NaN (ReadOptions::damage_as_nan); in no other count
  std::uint64_t kept_chunks = 0;     // not in `chunks`: decoded and cached by an earlier read of the same Loader
  // Of `chunks`, those with something to decode, by processor. A chunk that CPU threads and a device decode in turn
  // counts for the device.
  std::uint64_t gpu_chunks = 0, cpu_chunks = 0;
  std::uint64_t kept_encoded_chunks = 0;  // of gpu_chunks: their stored bytes were cached by an earlier read of the
                                          // same Loader
  std::uint64_t skipped_bytes = 0;        // decoded bytes that were skipped in partly decoded chunks
  std::uint64_t returned_chunks = 0;      // of cpu_chunks: those the device handed back to the CPU
  // Of gpu_chunks: decoded with the index of an earlier decode (ContextOptions::index_budget_bytes), and those whose
  // index was for other bytes, which are decoded without one.
  std::uint64_t indexed_chunks = 0, bad_indices = 0;
  std::uint64_t waves = 0;
  std::uint64_t requests = 0;  // read requests to the store, after coalescing
  std::uint64_t objects_opened = 0;
  // Bytes by kind.
  std::uint64_t stored_bytes = 0;  // encoded bytes used
  // Bytes read: stored_bytes plus gaps between coalesced ranges and alignment. For packed objects, their packed size.
  std::uint64_t read_bytes = 0;
  std::uint64_t bus_bytes = 0;                                 // including straight_bytes
  std::uint64_t decoded_bytes = 0;                             // delivered into the tensor
  std::uint64_t gpu_decoded_bytes = 0, cpu_decoded_bytes = 0;  // of decoded_bytes, by processor
  // read_bytes by path.
  std::uint64_t direct_bytes = 0;    // O_DIRECT through the engine
  std::uint64_t straight_bytes = 0;  // of direct_bytes: straight into device memory, no host staging (engine gds)
  std::uint64_t engine_bytes = 0;    // buffered through the engine (cold, no O_DIRECT)
  std::uint64_t buffered_bytes = 0;  // page cache, read by the workers themselves
  std::uint64_t memory_bytes = 0;    // used in memory without a copy
  std::uint64_t mapped_bytes = 0;    // read by the device from the page cache
  std::uint64_t store_bytes = 0;     // ranges read by a ByteStore: the caller's or a remote store
  std::uint64_t cache_bytes = 0;     // read from a disk cache by the cache itself; what it exposes as a file counts as
                                     // that file's path
  // Deflated members of ZIP files, in packed bytes. A shard is unpacked once, when it is opened; its chunks then count
  // as memory.
  std::uint64_t packed_bytes = 0;
  // Ranges that a remote store's disk cache was asked for: found, and not found. Neither counts absent chunks.
  std::uint64_t cache_hits = 0, cache_misses = 0;
  // Seconds by stage.
  double plan_seconds = 0;  // selection to tasks
  double open_seconds = 0;  // opening objects
  double read_seconds = 0;  // workers reading, plus requests in flight in the engine, summed individually
  double decode_seconds = 0;
  double assemble_seconds = 0;  // host: strided copies; device: queueing the launch
  double copy_seconds = 0;      // waiting for the device
  double wall_seconds = 0;      // from the call to the last element, including planning and allocation
  std::string engine;           // "io_uring", ...
  std::string path;  // one phrase: "io_uring direct", "buffered (page cache)", "memory", mixed paths joined by " + "
  std::string device_note;  // Device::note(): why "auto" chose no GPU, or that its code is compiled at first use

  // Adds the figures of another read. Counts and seconds are summed; `path` names the paths of both, `engine` one that
  // was used.
  HEADRACE_API Stats& operator+=(const Stats& part);
};

}  // namespace headrace
