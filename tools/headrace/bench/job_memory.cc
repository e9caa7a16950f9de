#include "bench_job.h"
#include "cli_common.h"

namespace headrace::bench {

Result<std::size_t> check_memory(const Device& device, std::uint64_t each_bytes, std::uint64_t count) {
  std::uint64_t bytes = 0;
  const bool too_large = __builtin_mul_overflow(each_bytes, count, &bytes);
  if (too_large || bytes > std::uint64_t{1} << 47 || (device.host_addressable() && bytes > cli::host_memory_bytes())) {
    return Status(Code::kResourceExhausted, Layer::kApi,
                  "the requests in flight need " +
                      (too_large ? std::string("more than 2^64 bytes") : cli::human_bytes(bytes)) + " on device " +
                      device.name());
  }
  return static_cast<std::size_t>(bytes);
}

}  // namespace headrace::bench
