#include "transfer/read/read_sizes.h"

#include <algorithm>
#include <string>

#include "base/checked.h"

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kMaxTasksPerWave = 4096;
constexpr std::uint64_t kDeviceAlignment = 256;
constexpr std::uint64_t kIoShare = 8;  // the I/O service gets one part in this many of the host budget

// For a device that decodes. docs/lab/transfer.md explains how the numbers were found.
struct WaveAim {
  unsigned waves;
  std::uint64_t times;  // multiple of the bytes asked for
};
constexpr WaveAim kManyWaves{8, 1};  // some are copied while others are decoded
constexpr WaveAim kLargeWaves{4, 2}, kLargestWaves{4, 3};
constexpr WaveAim kWavesOfParts{8, 2};               // parts use only some of their room
constexpr std::uint64_t kLongRead = 15;              // multiple of the bytes asked for
constexpr std::uint64_t kMinLargeChunk = 256 << 10;  // decoded; smaller chunks keep a device busy with fewer bytes
constexpr std::uint64_t kMinChunks = 8;              // per wave of a long read

// Two chunks per thread; otherwise some threads would wait for a slab while the slowest of its chunks is decoded.
std::uint64_t tasks_for_threads(std::uint64_t threads, std::uint64_t waves) {
  return base::ceil_div(2 * threads, waves);
}

std::uint64_t aligned(std::uint64_t bytes) { return base::align_up(bytes, kDeviceAlignment); }

WaveAreas areas_of(const SizeRequest& request, std::uint64_t stride, std::uint64_t tasks) {
  WaveAreas areas;
  areas.pinned_bytes = areas.device_bytes = tasks * stride;
  if (request.decoder == nullptr) return areas;
  const std::uint64_t most = request.source_bytes + (request.arrives ? 1 : 0);
  areas.encoded_bytes = tasks * base::align_up(most, kSlabAlignment);
  areas.outcomes_at = aligned(areas.encoded_bytes + stride);
  areas.pinned_bytes = std::max(areas.pinned_bytes, areas.outcomes_at + tasks * sizeof(device::DecodeOutcome));
  areas.decoded_at = aligned(areas.encoded_bytes);
  areas.scratch_at = areas.decoded_at + aligned(tasks * stride);
  areas.scratch_bytes =
      request.decoder->scratch_bytes({static_cast<std::uint32_t>(tasks), areas.encoded_bytes, request.source_bytes});
  areas.device_bytes = areas.scratch_at + areas.scratch_bytes;
  if (request.index_stride == 0) return areas;
  const std::uint64_t index_bytes = device::DecodeIndices::bytes(tasks, request.index_stride);
  areas.indices_at = aligned(areas.pinned_bytes);
  areas.pinned_bytes = areas.indices_at + index_bytes;
  areas.indices_on_device_at = aligned(areas.device_bytes);
  areas.device_bytes = areas.indices_on_device_at + index_bytes;
  return areas;
}

std::uint64_t chunks_of(const SizeRequest& request) { return std::max<std::uint64_t>(request.chunks, 1); }

// Task count of a wave that has all the room it wants.
std::uint64_t wanted_tasks(const SizeRequest& request, std::uint64_t stride) {
  const std::uint64_t tasks = std::clamp<std::uint64_t>(request.wave_bytes / stride, 1, kMaxTasksPerWave);
  if (!request.staged) return tasks;
  return std::min(
      {std::max(tasks, tasks_for_threads(request.threads, request.waves)), chunks_of(request), kMaxTasksPerWave});
}

// Binary search for the most tasks that fit, since a decoder's needs are not linear. REQUIRES: fits(1).
template <class Fits>
std::uint64_t find_max_tasks(std::uint64_t wanted, const Fits& fits) {
  std::uint64_t low = 1, high = wanted;
  while (low < high) {
    const std::uint64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Whether slabs of these sizes hold `tasks` tasks. Sizes come from metadata, so overflow is excluded first.
bool fits(const SizeRequest& request, std::uint64_t stride, std::uint64_t tasks, std::uint64_t pinned_bytes,
          std::uint64_t device_bytes) {
  const std::uint64_t most = std::max(request.host_budget_bytes, request.device_budget_bytes);
  if (stride > most / tasks || request.source_bytes > most) return false;
  const WaveAreas areas = areas_of(request, stride, tasks);
  return areas.pinned_bytes <= pinned_bytes && areas.device_bytes <= device_bytes;
}

}  // namespace

Result<ReadSizes> size_read(const SizeRequest& request) {
  ReadSizes sizes;
  sizes.stride = base::align_up(request.decoded_bytes, kSlabAlignment);
  sizes.tasks = wanted_tasks(request, sizes.stride);
  sizes.waves = request.waves;
  sizes.wave_bytes = request.wave_bytes;
  std::uint64_t staging_bytes = 0;
  const std::uint64_t io_bytes = std::max(request.host_budget_bytes / kIoShare, request.io_bytes);
  const std::uint64_t budget = request.host_budget_bytes - std::min(request.host_budget_bytes, io_bytes);
  if (request.staged) {
    const std::uint64_t host_room = budget > request.lane_bytes ? budget - request.lane_bytes : 0;
    const auto fit = [&](std::uint64_t waves, std::uint64_t tasks) {
      return fits(request, sizes.stride, tasks, host_room / waves, request.device_budget_bytes / waves);
    };
    const std::uint64_t chunks = chunks_of(request);
    std::uint64_t waves =
        std::min<std::uint64_t>(request.waves, request.one_form ? base::ceil_div(chunks, sizes.tasks) : chunks);
    while (waves > 0 && !fit(waves, 1)) --waves;
    if (waves == 0) {
      return Status(Code::kResourceExhausted, Layer::kTransfer,
                    "one chunk decodes to " + std::to_string(request.decoded_bytes) + " bytes" +
                        (request.decoder != nullptr ? " on the device, which with its encoded bytes and the decoder's"
                                                      " working memory"
                                                    : ", which") +
                        " does not fit the budgets (host " + std::to_string(request.host_budget_bytes) + ", device " +
                        std::to_string(request.device_budget_bytes) + " bytes); raise them");
    }
    sizes.waves = waves;
    sizes.tasks = find_max_tasks(sizes.tasks, [&](std::uint64_t tasks) { return fit(waves, tasks); });
    sizes.areas = areas_of(request, sizes.stride, sizes.tasks);
    staging_bytes = waves * sizes.areas.pinned_bytes;
  } else if (request.lane_bytes > budget) {
    return Status(Code::kResourceExhausted, Layer::kTransfer,
                  "decoding one chunk takes " + std::to_string(request.lane_bytes) +
                      " bytes of working memory, the host budget is " + std::to_string(request.host_budget_bytes) +
                      "; raise host_budget_bytes");
  }
  sizes.trial_tasks = sizes.tasks;
  sizes.workers = std::clamp<std::uint64_t>((budget - staging_bytes) / std::max<std::uint64_t>(request.lane_bytes, 1),
                                            1, request.threads);
  return sizes;
}

// As many waves as hold the window, or fewer of more chunks where those hold more of it.
Result<ReadSizes> size_windowed_read(SizeRequest request) {
  constexpr std::uint64_t kMaxWaves = 24;
  const std::uint64_t wanted = request.window_bytes / request.wave_bytes;
  request.waves = static_cast<unsigned>(std::clamp<std::uint64_t>(wanted, kManyWaves.waves, kMaxWaves));
  Result<ReadSizes> best = size_read(request);
  while (best.ok() && request.waves > kManyWaves.waves) {
    --request.waves;
    Result<ReadSizes> fewer = size_read(request);
    if (fewer.ok() && fewer->waves * fewer->tasks > best->waves * best->tasks) best = std::move(fewer);
  }
  return best;
}

Result<ReadSizes> size_decoded_read(const SizeRequest& request) {
  // Saturates, whatever metadata and options say.
  const auto times = [](std::uint64_t a, std::uint64_t b) { return base::checked_mul(a, b).value_or(UINT64_MAX); };
  const auto with = [&](const WaveAim& aim) {
    SizeRequest out = request;
    out.waves = aim.waves;
    out.wave_bytes = times(request.wave_bytes, aim.times);
    return out;
  };
  if (request.window_bytes != 0) return size_windowed_read(request);
  const bool small = request.decoded_bytes < kMinLargeChunk;
  const bool gains = request.decoder->wants_large_batches();
  if (request.parts && !gains && !small) return size_read(with(kWavesOfParts));
  const SizeRequest usual = with(gains && !small ? kLargeWaves : kManyWaves);
  if (times(request.chunks, request.decoded_bytes) >= times(request.wave_bytes, kLongRead)) {
    const SizeRequest larger = with(small ? kLargeWaves : kLargestWaves);
    // Fewer or smaller waves than these are slower than the usual ones.
    Result<ReadSizes> sizes = size_read(larger);
    const std::uint64_t chunks = sizes.ok() ? larger.wave_bytes / sizes->stride : 0;
    if (chunks >= kMinChunks && sizes->tasks >= chunks && sizes->waves == larger.waves) {
      sizes->trial_tasks = std::min(
          sizes->tasks, std::max(usual.wave_bytes / sizes->stride, tasks_for_threads(request.threads, larger.waves)));
      return sizes;
    }
  }
  return size_read(usual);
}

std::optional<WaveSizes> size_wave(SizeRequest request, const ReadSizes& read) {
  request.wave_bytes = read.wave_bytes;
  request.waves = static_cast<unsigned>(read.waves);
  WaveSizes sizes;
  sizes.stride = base::align_up(request.decoded_bytes, kSlabAlignment);
  sizes.tasks = wanted_tasks(request, sizes.stride);
  if (request.staged) {
    const auto fit = [&](std::uint64_t tasks) {
      return fits(request, sizes.stride, tasks, read.areas.pinned_bytes, read.areas.device_bytes);
    };
    if (!fit(1)) return std::nullopt;
    sizes.tasks = find_max_tasks(sizes.tasks, fit);
    sizes.areas = areas_of(request, sizes.stride, sizes.tasks);
  }
  sizes.trial_tasks = std::clamp<std::uint64_t>(sizes.tasks * read.trial_tasks / read.tasks, 1, sizes.tasks);
  return sizes;
}

}  // namespace headrace::transfer
