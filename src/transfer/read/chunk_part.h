// Parts of chunks: where a selection takes some of a chunk's elements and its codec can decode some of its bytes, that
// is all that is fetched, carried and decoded.
//
// A checksum of the whole chunk is not checked then; no codec that has parts has one.
//
// Threads: any, each with a Worker of its own.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "codec/chain.h"
#include "transfer/context/worker.h"
#include "transfer/fetch/fetcher.h"
#include "transfer/pagecache/router.h"
#include "transfer/read/chunk_sink.h"
#include "transfer/read/placing.h"

namespace headrace::transfer {

// Chunks that decode to less are read whole: a second look at the file would take longer. Tests set it.
inline std::atomic<std::uint64_t> least_part_chunk_bytes{std::uint64_t{32} << 10};

// The decoded bytes that the described task's boxes lie between, if decoding them alone may pay; none: all of the
// chunk.
RawSpan wanted_part(const WaveTasks& wave, const TaskDetail& detail) noexcept;
// Makes of a described task's stored bytes those of a part, in the worker's memory. shared: other tasks may have the
// same bytes. False: nothing would be gained.
bool cut_out(const WaveTasks& wave, bool shared, Worker& worker, StoredChunk& stored);
// target.size() == stored.part_bytes.
Status decode_part(const codec::Chain& chain, const StoredChunk& stored, std::span<std::byte> target,
                   codec::Chain::Workspace& workspace);

// Reads out of the page cache what is enough of a group's only task, `whole`, and gives it to the sink. False: it is to
// be read whole, as far as is known; the sink has been told nothing.
bool read_part(const ReadTasks& tasks, const Fetcher& fetcher, ObjectRouter& router, Wave& wave, const TaskGroup& group,
               const StoredRange& whole, Worker& worker);

}  // namespace headrace::transfer
