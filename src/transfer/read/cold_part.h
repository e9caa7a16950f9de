// Parts of chunks that have to be fetched from a disk or a user's store: a first request for the table that a stream
// begins with, a second one for what is enough of the rest.
//
// The second request costs a round trip, in which a single request could have carried latency x rate bytes. So two
// are made only where they are expected to carry fewer bytes by at least that many: 128 KiB of a file (0.1 ms at
// 1.3 GB/s), 1 MiB of a store (20 ms at 50 MB/s). And only where both answers are known to be of one version of the
// object: of a file by its descriptor, of a store by the version that it tells.
//
// Threads: any, each with a Worker of its own, for different groups.
#pragma once

#include <atomic>
#include <cstdint>

#include "transfer/context/worker.h"
#include "transfer/fetch/fetcher.h"
#include "transfer/read/read_tasks.h"
#include "transfer/read/wave.h"

namespace headrace::transfer {

// Tests set them.
inline std::atomic<std::uint64_t> least_saved_file_bytes{std::uint64_t{128} << 10};
inline std::atomic<std::uint64_t> least_saved_store_bytes{std::uint64_t{1} << 20};

// Of a wave that has been filled: its groups may be read in steps. Throws std::bad_alloc.
void begin_parts(WaveFetch& fetch, std::size_t groups);

// Whether the group, of which nothing is known to be cached, is to be asked for its table first; notes that it is.
// stored_bytes: of what `whole` is expected to have.
bool begins_with_table(const ReadTasks& tasks, Wave& wave, std::uint32_t group_index, const StoredRange& whole,
                       std::uint64_t stored_bytes, Worker& worker);
// What a group's request is for. kAll also of groups that are not read in steps.
ColdPart::Asks asks_of(const WaveFetch& fetch, std::uint32_t group_index) noexcept;
// The table of a stream of `stream_bytes` has come. True: the group's job now says where what is enough lies. False:
// all is to be read; the job is as it was.
bool table_came(const ReadTasks& tasks, Wave& wave, std::uint32_t group_index, std::uint64_t stream_bytes,
                Worker& worker);
// The part has come: it goes to the sink.
void take_cold_part(Wave& wave, std::uint32_t group_index, Worker& worker);

}  // namespace headrace::transfer
