// Formats the demo report: numbers with units and names, and the stages of a read.
#pragma once

#include <headrace/array.h>
#include <headrace/stats.h>

#include <cstdint>
#include <span>
#include <string>

namespace demo {

std::string human_bytes(std::uint64_t bytes);                   // "1.74 MB", decimal units
std::string human_seconds(double seconds);                      // "12.3 us"
std::string human_shape(std::span<const std::uint64_t> shape);  // "240 x 37 x 49", "scalar"

// "float32, 240 x 37 x 49, chunks 50 x 20 x 25 in shards 100 x 40 x 50, zstd"
std::string describe(const headrace::ArrayInfo& info);
// "stored 1.2 MB, read 1.3 MB, over the bus 0 B, decoded 1.7 MB"
std::string describe_bytes(const headrace::Stats& stats);
// "plan 10 us | open 31 us | read 92 us, 6.1 GB/s stored | ..."
std::string describe_stages(const headrace::Stats& stats);

}  // namespace demo
