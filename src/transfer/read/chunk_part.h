// Parts of chunks: where a selection takes some of a chunk's elements and its codec can decode some of its bytes, only
// those are decoded. If the part can also be cut out of the stored bytes, only the part's stored bytes are fetched and
// moved, where that pays (cold_part.h covers bytes that are not cached). Other chunks are decoded from their beginning
// to the last wanted element.
//
// A checksum inside a stream is not verified where decoding ends before it; a checksum of the stored bytes is.
//
// Threads: any, each with its own Worker.
#pragma once

#include <headrace/status.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "codec/chain.h"
#include "transfer/context/worker.h"
#include "transfer/fetch/fetcher.h"
#include "transfer/pagecache/router.h"
#include "transfer/read/chunk_sink.h"
#include "transfer/read/mapped_reads.h"
#include "transfer/read/placing.h"
#include "transfer/read/wanted_runs.h"

namespace headrace::transfer {

// Chunks that decode to less are read whole: a second read of the file would take longer. Tests set it.
inline std::atomic<std::uint64_t> min_part_chunk_bytes{std::uint64_t{32} << 10};

// The decoded bytes that the described task's boxes span, if decoding them alone may pay; empty: decode the whole
// chunk.
RawSpan wanted_part(const WaveTasks& wave, const TaskDetail& detail) noexcept;
// The decoded bytes up to the last that the described task's boxes take, if decoding can end there and that may pay; 0:
// decode the whole chunk.
std::uint64_t wanted_prefix(const WaveTasks& wave, const TaskDetail& detail) noexcept;
// Computes the part of a stream that yields `wanted`; `table` holds the stream's first bytes. False: the part is not
// much smaller than the stream.
bool cut(const codec::Chain& chain, std::span<const std::byte> table, std::uint64_t stored_bytes, const RawSpan& wanted,
         std::span<std::byte> head, codec::StreamPart& part) noexcept;
// Whether to skip looking for parts. Chunks of an array are alike: after several without parts
// (Worker::chunks_without_parts), only a few of the following are examined.
bool skips_parts(Worker& worker) noexcept;
// Storage for the parts of a chunk after its first, while its sink takes them.
using PartRoom = std::array<StoredPart, WantedRuns::kMax - 1>;
// Reduces a described task's stored bytes to those of its parts, in the worker's memory. False: nothing would be
// gained.
bool cut_out(const ReadTasks& tasks, const Wave& wave, const TaskGroup& group, const Task& task, Worker& worker,
             PartRoom& room, StoredChunk& stored);
// target: stored.part_bytes for one part; for several parts the whole chunk, in which each part has its place.
Status decode_parts(const codec::Chain& chain, const StoredChunk& stored, std::span<std::byte> target,
                    codec::Chain::Workspace& workspace);

// The only part of a chunk; it is a stream with its own head.
struct OnePart {
  codec::StreamPart part;
  std::array<std::byte, codec::kMaxPartTableBytes> head;
};
// Cuts the only part of a described task; `table` holds the task's first stored bytes. May leave the task's boxes
// consumed. False: there is no such part, or it does not pay.
bool cut_one_part(const ReadTasks& tasks, const Wave& wave, const TaskGroup& group, const Task& task,
                  std::span<const std::byte> table, std::uint64_t stored_bytes, Worker& worker, OnePart& out);

enum class PartRead : std::uint8_t {
  kNone,    // read the whole chunk; the sink was given nothing
  kDone,    // the sink has the part, or the group has failed
  kMapped,  // the sink knows where the part is mapped: the object stays open
};
// What reading parts needs, for one read.
struct PartReader {
  const ReadTasks& tasks;
  const Fetcher& fetcher;
  Router& router;
  MappedReads& mapped;
};
// Reads the wanted part of a group's only task, `whole`, from the page cache or finds it mapped, and gives it to the
// sink. Sets `cold`, the way an engine should read it, if the chunk's beginning is known not to be cached; the caller
// need not probe again.
PartRead read_part(const PartReader& reader, Wave& wave, std::uint32_t group_index, const StoredRange& whole,
                   std::optional<Way>& cold, Worker& worker);

}  // namespace headrace::transfer
