// Stats: every byte accounted for, by path and by kind, and the time of each stage.
//
// Bytes are always named: stored (encoded bytes taken from the store), bus (bytes copied host -> device), decoded
// (bytes of elements delivered). Seconds are summed over threads and requests, so a stage may exceed the wall time.
#pragma once

#include <headrace/export.h>

#include <cstdint>
#include <string>

namespace headrace {

struct Stats {
  // Work
  std::uint64_t chunks = 0;          // chunks read and decoded
  std::uint64_t missing_chunks = 0;  // absent: filled
  std::uint64_t damaged_chunks = 0;  // became NaN (ReadOptions::damage_as_nan); in no other count
  std::uint64_t kept_chunks = 0;     // not of `chunks`: decoded by an earlier read of the same Loader, and kept
  // Of `chunks`, those with something to decode, by who decoded them. What has to be decoded by a device and by CPU
  // threads in turn counts for the device, which ends it.
  std::uint64_t gpu_chunks = 0, cpu_chunks = 0;
  std::uint64_t kept_encoded_chunks = 0;  // of gpu_chunks: an earlier read of the same Loader kept their stored bytes
  std::uint64_t skipped_bytes = 0;        // decoded bytes of chunks that were decoded in part: those that were not
  std::uint64_t returned_chunks = 0;      // of cpu_chunks: handed back by the device
  // Of gpu_chunks: decoded with an index from an earlier decode (ContextOptions::index_budget_bytes); and those whose
  // index turned out to be of other bytes, which are decoded without.
  std::uint64_t indexed_chunks = 0, bad_indices = 0;
  std::uint64_t waves = 0;
  std::uint64_t requests = 0;  // read requests to the store, after coalescing
  std::uint64_t objects_opened = 0;
  // Bytes by kind
  std::uint64_t stored_bytes = 0;  // encoded bytes used
  // Bytes read: stored_bytes plus gaps between coalesced ranges and alignment; of packed objects what their file has.
  std::uint64_t read_bytes = 0;
  std::uint64_t bus_bytes = 0;
  std::uint64_t decoded_bytes = 0;                             // delivered into the tensor
  std::uint64_t gpu_decoded_bytes = 0, cpu_decoded_bytes = 0;  // of decoded_bytes, by who decoded them
  // read_bytes by path
  std::uint64_t direct_bytes = 0;    // O_DIRECT through the engine
  std::uint64_t engine_bytes = 0;    // buffered through the engine (cold, no O_DIRECT)
  std::uint64_t buffered_bytes = 0;  // page cache, read by the workers themselves
  std::uint64_t memory_bytes = 0;    // taken from memory without a copy
  std::uint64_t mapped_bytes = 0;    // taken by the device out of the page cache
  std::uint64_t store_bytes = 0;     // ranges read by a ByteStore: of the user's, or of a remote store
  std::uint64_t cache_bytes = 0;     // what a cache on disk read itself; what it lets be read as a file counts as that
  // Members of a ZIP file that it has deflated, as they are there. A shard is unpacked once, when it is opened; its
  // chunks are then taken from memory.
  std::uint64_t packed_bytes = 0;
  // Ranges that a remote store's cache on disk was asked for: those it had, and the others. Absent chunks are in
  // neither.
  std::uint64_t cache_hits = 0, cache_misses = 0;
  // Seconds by stage
  double plan_seconds = 0;  // selection to tasks
  double open_seconds = 0;  // opening objects
  double read_seconds = 0;  // workers reading, plus requests in flight in the engine, each by itself
  double decode_seconds = 0;
  double assemble_seconds = 0;  // host: strided copies; device: queueing the launch
  double copy_seconds = 0;      // waiting for the device
  double wall_seconds = 0;      // from the call to the last element: planning and getting memory as well
  std::string engine;           // "io_uring", ...
  std::string path;  // one phrase: "io_uring direct", "buffered (page cache)", "memory", mixed paths joined by " + "
  std::string device_note;  // Device::note(): why "auto" gave no GPU, or that its code is compiled at first use

  // Adds another read's: counts and seconds are summed, `path` names the paths of both, `engine` one that was used.
  HEADRACE_API Stats& operator+=(const Stats& part);
};

}  // namespace headrace
