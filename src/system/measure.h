// Short measurements: long enough to be accurate within a few per cent, short enough not to annoy a user.
//
// Threads: one at a time; concurrent measurements lower each other's rates.
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

// Rate in bytes per second at which `threads` threads copy memory, each byte counted once; nothing if memory runs out.
// REQUIRES: buffer_bytes is the size of source and target each, over all threads.
std::optional<double> measure_copy(unsigned threads, std::size_t buffer_bytes);

// A range of an open file.
struct Stretch {
  const os::ProbeFile* file = nullptr;
  std::uint64_t begin = 0, end = 0;
};

// Rate in bytes per second of O_DIRECT reads at depth 16 in pieces of 1 MiB, stretch after stretch, for at most
// `limit`. `engine` receives the name of the engine used.
Result<double> measure_direct_read(std::span<const Stretch> stretches, std::uint32_t alignment_bytes,
                                   std::chrono::milliseconds limit, std::string& engine);

// Rate of reads by one thread in pieces of 1 MiB, stretch after stretch, at most `max_bytes` and for at most `limit`.
struct BufferedRead {
  double bytes_per_second = 0;
  std::uint64_t bytes = 0;  // read so far, from the beginning of the first stretch
};
Result<BufferedRead> measure_buffered_read(std::span<const Stretch> stretches, std::uint64_t max_bytes,
                                           std::chrono::milliseconds limit);

// Rates of copying `bytes` over the bus at once, in bytes per second; the median of five.
struct BusRates {
  double pinned_to_device = 0, device_to_pinned = 0, pageable_to_device = 0;
};
Result<BusRates> measure_bus(device::Device& device, std::size_t bytes);

}  // namespace headrace::system
