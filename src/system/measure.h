// Short measurements: long enough to be right within some per cent, short enough that nobody waits for them.
//
// Threads: one at a time, or each gets less.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "device/device.h"
#include "os/probe_file.h"

namespace headrace::system {

// Bytes a second at which `threads` threads copy memory, each byte counted once; nothing without memory.
// REQUIRES: buffer_bytes is what source and target have each, all threads together.
std::optional<double> measure_copy(unsigned threads, std::size_t buffer_bytes);

// Part of an open file.
struct Stretch {
  const os::ProbeFile* file = nullptr;
  std::uint64_t begin = 0, end = 0;
};

// Bytes a second of reads at depth 16 in pieces of 1 MiB through O_DIRECT descriptors, of one stretch after the other,
// for at most `limit`. `engine` gets the name of the engine used.
Result<double> measure_direct_read(std::span<const Stretch> stretches, std::uint32_t alignment_bytes,
                                   std::chrono::milliseconds limit, std::string& engine);

// Bytes a second of reads by one thread in pieces of 1 MiB, of one stretch after the other, `most_bytes` of them, for
// at most `limit`.
struct BufferedRead {
  double bytes_per_second = 0;
  std::uint64_t bytes = 0;  // from the first stretch's beginning
};
Result<BufferedRead> measure_buffered_read(std::span<const Stretch> stretches, std::uint64_t most_bytes,
                                           std::chrono::milliseconds limit);

// Rates over the bus of `bytes` at once, the median of five.
struct BusRates {
  double pinned_to_device = 0, device_to_pinned = 0, pageable_to_device = 0;
};
Result<BusRates> measure_bus(device::Device& device, std::size_t bytes);

}  // namespace headrace::system
