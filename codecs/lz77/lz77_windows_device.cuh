// Writes the output of sequences for a medium number of streams: one thread block per stream, window after window.
// Device code without a CUDA header.
#pragma once

#include "lz77_cells_device.cuh"

namespace headrace::codec::gpu::lz77 {

template <std::uint32_t kBytes>
struct WindowSpace {
  using Cell = std::uint16_t;
  static constexpr Cell kDone = 0x8000;  // plus the byte; others are links: positions in the window
  static_assert(kBytes <= kDone && kBytes % 4 == 0);
  alignas(16) Cell cells[kBytes];
  std::uint32_t ticket;
};

// Everything before the window is known: the same thread block wrote it.
struct BeforeWindow {
  static constexpr unsigned kAtOnce = kMadeAtOnceInWindows;
  static constexpr bool kOpen = false;
  static constexpr std::int32_t known_below = 0;
  const Byte* output;
  std::int32_t first;

  __device__ std::uint16_t open(std::int32_t) const { return 0; }
  template <class T>
  __device__ T load(const T* at) const {
    return *at;
  }
};

// For more than `above` and at most `most` streams. kEach: cells that a thread follows at a time.
template <std::uint32_t kEach, std::uint32_t kBytes, class Job>
__device__ inline void windows_body(const Job& job, std::uint32_t above, std::uint32_t most, Progress& progress,
                                    WindowSpace<kBytes>& space) {
  using Space = WindowSpace<kBytes>;
  using Cell = typename Space::Cell;
  const std::uint32_t count = job.stream_count();
  if (count <= above || count > most) return;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) space.ticket = atomicAdd(&progress.ticket, 1u);
    __syncthreads();
    const std::uint32_t i = space.ticket;
    if (i >= count) return;
    const Part part = job.part(i);
    if (part.from == part.to) continue;
    const OutputRun last = job.piece(part.to - 1);
    Byte* const output = job.output(i);
    const std::uint32_t end = last.out + last.bytes;
    std::uint32_t x = part.from;
    for (std::uint32_t begin = job.piece(x).out; begin < end; begin += kBytes) {
      for (; x + 1 < part.to && job.piece(x + 1).out <= begin; ++x) {
      }
      const std::uint32_t bytes = end - begin < kBytes ? end - begin : kBytes;
      Byte* const out = output + begin;
      make_window(space.cells, job, x, begin, bytes, Space::kDone,
                  BeforeWindow{out, -static_cast<std::int32_t>(begin)});
      __syncthreads();
      follow_links<kEach>(space.cells, bytes, Space::kDone,
                          [out](std::uint32_t at, const Cell* value, std::uint32_t n) {
                            HEADRACE_LZ77_UNROLL for (unsigned k = 0; k < kEach; k += 4) {
                              if (n > k) write_four(out + at + k, value + k, n - k < 4 ? n - k : 4);
                            }
                          });
    }
  }
}

}  // namespace headrace::codec::gpu::lz77
