// Parts of chunks that have to be fetched from a disk or a user's store: one request for the table at the start of a
// stream, and a second one for the wanted part of the rest.
//
// The second request costs a round trip, in which a single request could have transferred latency x rate bytes. So two
// requests are made only where they are expected to save at least that many bytes: 128 KiB for a file (0.1 ms at 1.3
// GB/s), 1 MiB for a store (20 ms at 50 MB/s). Both answers must also be known to be of one version of the object: the
// descriptor ensures that for a file, the reported version for a store.
//
// Threads: any, each with its own Worker, for different groups.
#pragma once

#include <atomic>
#include <cstdint>

#include "transfer/context/worker.h"
#include "transfer/fetch/fetcher.h"
#include "transfer/read/read_tasks.h"
#include "transfer/read/wave.h"

namespace headrace::transfer {

// Tests set them.
inline std::atomic<std::uint64_t> min_saved_file_bytes{std::uint64_t{128} << 10};
inline std::atomic<std::uint64_t> min_saved_store_bytes{std::uint64_t{1} << 20};

// Call after a wave has been filled: allows its groups to be read in steps. Throws std::bad_alloc.
void begin_parts(WaveFetch& fetch, std::size_t groups);

// Whether the group, none of which is known to be cached, should request its table first; if so, records that.
// stored_bytes: the expected size of `whole`.
bool begins_with_table(const ReadTasks& tasks, Wave& wave, std::uint32_t group_index, const StoredRange& whole,
                       std::uint64_t stored_bytes, Worker& worker);
// What a group's request is for. kAll also for groups that are not read in steps.
ColdPart::PartRequest part_request_of(const WaveFetch& fetch, std::uint32_t group_index) noexcept;
// The table of a stream of `stream_bytes` has arrived. True: the group's job now describes the request for the part.
// False: read the whole chunk; the job is unchanged.
bool prepare_part_request(const ReadTasks& tasks, Wave& wave, std::uint32_t group_index, std::uint64_t stream_bytes,
                          Worker& worker);
// The part has arrived: gives it to the sink.
void take_cold_part(Wave& wave, std::uint32_t group_index, Worker& worker);

}  // namespace headrace::transfer
