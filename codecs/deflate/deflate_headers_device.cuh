// The first steps of the DEFLATE decoder: begin, share; and scan. Parses headers of zlib streams and gzip members.
// Device code without a CUDA header.
#pragma once

#include "codecs/lz77/lz77_scan_device.cuh"
#include "deflate_stored_device.cuh"

namespace headrace::codec::gpu::deflate {

inline constexpr std::uint32_t kGzipHeaderBytes = 10, kGzipTrailerBytes = 8, kZlibHeaderBytes = 2,
                               kZlibTrailerBytes = 4;
inline constexpr std::uint32_t kMaxHeaderBytes = 1024;  // of a gzip member; longer ones are left to the CPU

struct Header {
  DecodeReason reason = DecodeReason::kNone;
  std::uint32_t end = 0;  // byte after it
};

__device__ inline std::uint32_t trailer_bytes(DeflateKind kind) {
  return kind == DeflateKind::kGzip ? kGzipTrailerBytes : kZlibTrailerBytes;
}

// CRC-32 of a few bytes.
__device__ inline std::uint32_t crc32_of(const Byte* at, std::uint32_t bytes) {
  std::uint32_t crc = kNone;
  for (std::uint32_t i = 0; i < bytes; ++i) {
    crc ^= at[i];
    for (unsigned k = 0; k < 8; ++k) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

// Parses a gzip member's header at byte `at` (RFC 1952, 2.3). Checks that its trailer fits behind it.
__device__ inline Header read_gzip_header(const Byte* src, std::uint32_t bytes, std::uint32_t at) {
  constexpr unsigned kHeaderCrc = 2, kExtra = 4, kName = 8, kComment = 16, kReserved = 0xE0;
  const std::uint32_t begin = at;
  if (bytes - at < kGzipHeaderBytes + kGzipTrailerBytes) return {DecodeReason::kTruncated, at};
  const unsigned flags = src[at + 3];
  if (src[at] != 0x1F || src[at + 1] != 0x8B) {
    return {begin == 0 ? DecodeReason::kHeader : DecodeReason::kTrailing, at};
  }
  if (src[at + 2] != 8 || (flags & kReserved) != 0) return {DecodeReason::kHeader, at};
  at += kGzipHeaderBytes;
  const std::uint32_t end = bytes - kGzipTrailerBytes;
  if ((flags & kExtra) != 0) {
    const std::uint32_t extra = src[at] | static_cast<std::uint32_t>(src[at + 1]) << 8;
    at += 2;
    if (at > end || extra > end - at) return {DecodeReason::kTruncated, begin};
    at += extra;
  }
  for (unsigned flag = kName; flag <= kComment; flag *= 2) {
    if ((flags & flag) == 0) continue;
    while (at < end && src[at] != 0) {
      if (at - begin >= kMaxHeaderBytes) return {DecodeReason::kHostOnly, begin};
      ++at;
    }
    ++at;
    if (at > end) return {DecodeReason::kTruncated, begin};
  }
  if (at - begin > kMaxHeaderBytes) return {DecodeReason::kHostOnly, begin};
  if ((flags & kHeaderCrc) != 0) {
    if (end - at < 2) return {DecodeReason::kTruncated, begin};
    const std::uint32_t crc = src[at] | static_cast<std::uint32_t>(src[at + 1]) << 8;
    if (crc != (crc32_of(src + begin, at - begin) & 0xFFFF)) return {DecodeReason::kChecksum, begin};
    at += 2;
  }
  return {DecodeReason::kNone, at};
}

__device__ inline Header read_zlib_header(const Byte* src, std::uint32_t bytes) {
  if (bytes < kZlibHeaderBytes + kZlibTrailerBytes) return {DecodeReason::kTruncated, 0};
  const unsigned method = src[0], flags = src[1];
  const bool dictionary = (flags & 32) != 0;
  if ((method * 256 + flags) % 31 != 0 || method % 16 != 8 || method / 16 > 7 || dictionary) {
    return {DecodeReason::kHeader, 0};
  }
  return {DecodeReason::kNone, kZlibHeaderBytes};
}

__device__ inline Header read_header(const DeflateStream& stream, std::uint32_t at) {
  const auto bytes = static_cast<std::uint32_t>(stream.src_bytes);
  return stream.kind == DeflateKind::kGzip ? read_gzip_header(stream.src, bytes, at)
                                           : read_zlib_header(stream.src, bytes);
}

// ---- begin ----

__device__ inline StreamState begin_stream(const Job& job, const DeflateStream& stream) {
  StreamState state{};
  if (stream.kind == DeflateKind::kNone || !fine(job, stream.chunk)) return state;
  Header header;
  if (stream.src_bytes > kMaxEncodedBytes || stream.dst_bytes > kMaxDecodedBytes) {
    header.reason = DecodeReason::kHostOnly;
  } else {
    header = read_header(stream, 0);
  }
  if (header.reason != DecodeReason::kNone) {
    give_up(job, stream.chunk, header.end, header.reason);
    return state;
  }
  state.segments = static_cast<std::uint32_t>(stream.src_bytes / kSegmentBytes) + 1;
  state.blocks_each = job.allowance.of_segment(stream.dst_bytes, state.segments);
  state.blocks = state.segments * state.blocks_each;
  state.cells = cells_of(state.segments, state.blocks_each);
  state.start = header.end * 8;
  return state;
}

__device__ inline void begin_body(const Job& job) {
  const std::uint32_t count = job.stream_count();
  if (!job.any_searched()) {
    for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
      job.states[i] = begin_stream(job, job.streams[i]);
    }
    return;
  }
  const unsigned lane = lane_id(), warps = blockDim.x / 32;
  for (std::uint32_t i = blockIdx.x * warps + threadIdx.x / 32; i < count; i += gridDim.x * warps) {
    const DeflateStream& stream = job.streams[i];
    StreamState state{};
    if (lane == 0) state = begin_stream(job, stream);
    const std::uint32_t segments = __shfl_sync(kAllLanes, state.segments, 0);
    if (segments != 0 && stream.src_bytes >= job.min_searched_bytes) {
      const std::uint32_t start = __shfl_sync(kAllLanes, state.start, 0);
      state.search_from = pass_stored(Input(stream.src, stream.src_bytes), start, job.max_pass_turns, lane);
      // The first segment has a known start.
      const std::uint32_t own = start / kSegmentBits + 1, from = state.search_from / kSegmentBits;
      const std::uint32_t skipped = from > own ? from : own;
      state.searched = skipped < segments ? segments - skipped : 0;
    }
    if (lane == 0) job.states[i] = state;
  }
}

// ---- share, scan ----

// REQUIRES: blocks of lz77::kScanTileThreads.
__device__ inline void share_body(const Job& job, lz77::ScanShared<StreamShares>& shared) {
  lz77::scan_by_blocks(
      job.stream_count(), job.share_scan, shared,
      [&job](std::uint32_t i) {
        const StreamState& state = job.states[i];
        return StreamShares{state.segments, state.searched, state.blocks, state.cells};
      },
      [&job](std::uint32_t i, const StreamShares& before) {
        StreamState& state = job.states[i];
        state.first_segment = before.segments;
        state.first_searched = before.searched;
        state.first_block = before.blocks;
        state.first_cell = before.cells;
      },
      [&job](const StreamShares& all) {
        job.totals->segments = all.segments;
        job.totals->searched = all.searched;
      });
}

// REQUIRES: blocks of lz77::kScanTileThreads.
__device__ inline void scan_body(const Job& job, lz77::ScanShared<StreamOutput>& shared) {
  lz77::scan_by_blocks(
      job.stream_count(), job.output_scan, shared,
      [&job](std::uint32_t i) {
        const StreamState& state = job.states[i];
        return StreamOutput{state.units, state.pieces};
      },
      [&job](std::uint32_t i, const StreamOutput& before) {
        StreamState& state = job.states[i];
        state.units_before = before.units;
        state.first_piece = before.pieces;
      },
      [&job](const StreamOutput& all) { job.totals->pieces = all.pieces; });
}

// The stream that contains a searched segment.
__device__ inline std::uint32_t stream_of_searched(const Job& job, std::uint32_t segment) {
  // The last stream that begins at or before it; streams without segments begin where the next one does.
  std::uint32_t low = 0, high = job.stream_count();
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (job.states[middle].first_searched <= segment) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace headrace::codec::gpu::deflate
