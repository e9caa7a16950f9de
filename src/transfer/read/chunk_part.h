// Parts of chunks: where a selection takes some of a chunk's elements and its codec can decode some of its bytes, that
// is all that is decoded. Of what can be cut out of the stored bytes, no more is fetched and carried either, where that
// pays (cold_part.h has what is not cached); other chunks are decoded from their beginning to the last element that is
// wanted.
//
// A checksum inside a stream is not compared where decoding ends before it; one of the stored bytes is.
//
// Threads: any, each with a Worker of its own.
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

// Chunks that decode to less are read whole: a second look at the file would take longer. Tests set it.
inline std::atomic<std::uint64_t> least_part_chunk_bytes{std::uint64_t{32} << 10};

// The decoded bytes that the described task's boxes lie between, if decoding them alone may pay; none: all of the
// chunk.
RawSpan wanted_part(const WaveTasks& wave, const TaskDetail& detail) noexcept;
// The decoded bytes up to the last that the described task's boxes take, where decoding may end there and that may pay;
// 0: all.
std::uint64_t wanted_prefix(const WaveTasks& wave, const TaskDetail& detail) noexcept;
// What is enough of a stream, of which `table` are the first bytes; false: not much less than all.
bool cut(const codec::Chain& chain, std::span<const std::byte> table, std::uint64_t stored_bytes, const RawSpan& wanted,
         std::span<std::byte> head, codec::StreamPart& part) noexcept;
// An array's chunks are much alike: where several had no parts (Worker::uncut), few others are looked at.
bool passes_over(Worker& worker) noexcept;
// The parts of a chunk behind its first, while its sink takes them.
using PartRoom = std::array<StoredPart, WantedRuns::kMost - 1>;
// Makes of a described task's stored bytes those of its parts, in the worker's memory. False: nothing would be gained.
bool cut_out(const ReadTasks& tasks, const Wave& wave, const TaskGroup& group, const Task& task, Worker& worker,
             PartRoom& room, StoredChunk& stored);
// target: of stored.part_bytes; of several parts, all of the chunk, in which each has its place.
Status decode_parts(const codec::Chain& chain, const StoredChunk& stored, std::span<std::byte> target,
                    codec::Chain::Workspace& workspace);

// The only part of a chunk, with the head of a stream of its own.
struct OnePart {
  codec::StreamPart part;
  std::array<std::byte, codec::kMostPartTableBytes> head;
};
// Of a described task, of which `table` are the first stored bytes. Its boxes may be spent. False: there is no such
// part, or it does not pay.
bool cut_one_part(const ReadTasks& tasks, const Wave& wave, const TaskGroup& group, const Task& task,
                  std::span<const std::byte> table, std::uint64_t stored_bytes, Worker& worker, OnePart& out);

enum class PartRead : std::uint8_t {
  kNone,    // it is to be read whole, as far as is known, and the sink has been told nothing
  kDone,    // the sink has it, or the group has failed
  kMapped,  // the sink has where it is mapped: the object stays open
};
// Who reads parts of chunks, for one read.
struct PartReader {
  const ReadTasks& tasks;
  const Fetcher& fetcher;
  Router& router;
  MappedReads& mapped;
};
// Reads out of the page cache, or finds mapped, what is enough of a group's only task, `whole`, and gives it to the
// sink. `cold` is how an engine reads it, where its beginning is known not to be cached: nothing has to be asked again.
PartRead read_part(const PartReader& reader, Wave& wave, std::uint32_t group_index, const StoredRange& whole,
                   std::optional<Way>& cold, Worker& worker);

}  // namespace headrace::transfer
