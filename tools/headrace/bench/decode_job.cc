// A job without I/O: decodes the chunks of an array repeatedly, from device memory to device memory.
#include <headrace/array.h>
#include <headrace_bench/decode_batch.h>

#include <algorithm>
#include <utility>

#include "bench_job.h"

namespace headrace::bench {
namespace {

class DecodeJob : public BenchJob {
 public:
  DecodeJob(const JobOptions& options, Array array, Selection selection, Device device)
      : options_(options),
        array_(std::move(array)),
        selection_(std::move(selection)),
        device_(std::move(device)),
        clock_(options) {}

  Status set_up() override {
    HEADRACE_TRY_ASSIGN(DecodeBatch batch, DecodeBatch::load(array_, selection_, device_));
    batch_.emplace(std::move(batch));
    return {};
  }
  void run(JobResult& result, JobMonitor& monitor) override;
  std::vector<CacheRange> cache_ranges() const override { return {}; }

 private:
  Status pass(JobResult& result);

  const JobOptions options_;
  Array array_;
  Selection selection_;
  Device device_;
  JobClock clock_;
  std::optional<DecodeBatch> batch_;
};

Status DecodeJob::pass(JobResult& result) {
  HEADRACE_TRY_ASSIGN(const DecodeBatch::Times times, batch_->run());
  if (result.passes.size() < 64) result.passes.push_back({batch_->encoded_bytes(), times.seconds});
  if (!clock_.counting()) return {};
  DirectionResult& read = result.read;
  ++read.requests;
  ++read.ios;
  read.bytes += batch_->encoded_bytes();
  const auto nanoseconds = [](double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); };
  read.submit.add(nanoseconds(times.host_seconds));
  read.complete.add(nanoseconds(std::max(0.0, times.seconds - times.host_seconds)));
  read.total.add(nanoseconds(times.seconds));
  DecodeResult& decode = *result.decode;
  decode.chunks += batch_->chunk_count();
  decode.encoded_bytes += batch_->encoded_bytes();
  decode.decoded_bytes += batch_->decoded_bytes();
  decode.times += times;
  return {};
}

void DecodeJob::run(JobResult& result, JobMonitor& monitor) {
  result.decode.emplace();
  result.decode->scratch_bytes = batch_->scratch_bytes();
  result.decode->undone = batch_->undone();
  // A warm-up run, because kernels are loaded at their first launch.
  result.status = batch_->run().status();
  clock_.start();
  for (std::uint64_t done = 0; result.status.ok(); ++done) {
    const std::uint64_t now = now_ns();
    clock_.counting_begins(now);
    if (clock_.expired(now) || (!options_.time_based && done == options_.loops)) break;
    if (monitor.stopped()) break;
    result.status = pass(result);
    monitor.bytes.store(result.read.bytes, std::memory_order_relaxed);
    monitor.ios.store(result.read.ios, std::memory_order_relaxed);
  }
  clock_.finish(result);
}

}  // namespace

Result<std::unique_ptr<BenchJob>> make_decode_job(const JobOptions& options, const Context& context,
                                                  const Device& device) {
  HEADRACE_TRY_ASSIGN(const Store store, Store::open(context, options.decode));
  HEADRACE_TRY_ASSIGN(Array array, Array::open(store));
  HEADRACE_TRY_ASSIGN(Selection selection, parse_selection(options.select));
  return std::unique_ptr<BenchJob>(new DecodeJob(options, std::move(array), std::move(selection), device));
}

}  // namespace headrace::bench
