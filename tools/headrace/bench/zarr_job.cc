// A job on a Zarr array: reads one selection repeatedly, with `iodepth` reads in flight.
#include <headrace/array.h>
#include <headrace/selection.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "bench_job.h"

namespace headrace::bench {
namespace {

class ZarrJob : public BenchJob {
 public:
  ZarrJob(const JobOptions& options, Array array, Selection selection, TensorView tensor, std::uint64_t bytes,
          Device device)
      : options_(options),
        array_(std::move(array)),
        selection_(std::move(selection)),
        tensor_(std::move(tensor)),
        bytes_(static_cast<std::size_t>(bytes)),
        device_(std::move(device)),
        clock_(options) {
    read_options_.placement = options.placement;
  }

  Status set_up() override {
    HEADRACE_TRY(check_memory(device_, bytes_, options_.depth).status());
    for (unsigned i = 0; i < options_.depth; ++i) {
      HEADRACE_TRY_ASSIGN(Buffer buffer, Buffer::allocate(device_, bytes_));
      slots_.push_back({std::move(buffer), 0, 0, std::nullopt});
    }
    return {};
  }
  void run(JobResult& result, JobMonitor& monitor) override;
  std::vector<CacheRange> cache_ranges() const override;

 private:
  struct Slot {
    Buffer buffer;
    std::uint64_t begun = 0, submitted = 0;  // nanoseconds
    std::optional<Completion> reading;
  };

  Status begin(Slot& slot);
  Status finish(Slot& slot, JobResult& result);

  const JobOptions options_;
  Array array_;
  Selection selection_;
  TensorView tensor_;
  std::size_t bytes_;
  Device device_;
  JobClock clock_;
  ReadOptions read_options_;
  std::vector<Slot> slots_;
  std::uint64_t started_ = 0, pass_end_ = 0;
};

Status ZarrJob::begin(Slot& slot) {
  tensor_.memory = {slot.buffer.data(), slot.buffer.size_bytes()};
  slot.begun = now_ns();
  HEADRACE_TRY_ASSIGN(slot.reading, array_.read_async(selection_, tensor_, device_, read_options_));
  slot.submitted = now_ns();
  ++started_;
  return {};
}

Status ZarrJob::finish(Slot& slot, JobResult& result) {
  const Completion reading = *std::exchange(slot.reading, std::nullopt);
  HEADRACE_TRY(reading.wait());
  const std::uint64_t now = now_ns();
  const Stats& stats = reading.stats();
  if (result.passes.size() < 64) {
    result.passes.push_back({stats.read_bytes, static_cast<double>(now - pass_end_) * 1e-9});
  }
  pass_end_ = now;
  if (!clock_.counting()) return {};
  ++result.read.requests;
  ++result.read.ios;
  result.read.bytes += stats.read_bytes;
  result.read.submit.add(slot.submitted - slot.begun);
  result.read.complete.add(now - slot.submitted);
  result.read.total.add(now - slot.begun);
  *result.array += stats;
  return {};
}

void ZarrJob::run(JobResult& result, JobMonitor& monitor) {
  result.array.emplace();
  clock_.start();
  pass_end_ = now_ns();
  // Slots are used in turn, so the next slot to start holds the oldest read.
  for (std::size_t turn = 0;; turn = (turn + 1) % slots_.size()) {
    const std::uint64_t now = now_ns();
    clock_.counting_begins(now);
    Slot& slot = slots_[turn];
    if (slot.reading && result.status.ok()) {
      result.status = finish(slot, result);
      monitor.bytes.store(result.read.bytes, std::memory_order_relaxed);
      monitor.ios.store(result.read.ios, std::memory_order_relaxed);
    }
    const bool more = result.status.ok() && !monitor.stopped() && !clock_.expired(now_ns()) &&
                      (options_.time_based || started_ < options_.loops);
    if (more) {
      result.status = begin(slot);
    } else if (std::none_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.reading.has_value(); }) ||
               !result.status.ok()) {
      break;
    }
  }
  clock_.finish(result);
  // After a failure, reads in flight still write to their buffers, so wait for them.
  for (Slot& slot : slots_) {
    if (slot.reading && !slot.reading->wait().ok() && result.status.ok()) break;
  }
}

std::vector<CacheRange> ZarrJob::cache_ranges() const {
  namespace fs = std::filesystem;
  constexpr std::string_view kFile = "file://";
  const std::string root = options_.zarr.rfind(kFile, 0) == 0 ? options_.zarr.substr(kFile.size()) : options_.zarr;
  std::vector<CacheRange> ranges;
  std::error_code error;
  fs::recursive_directory_iterator walk(root, error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    std::error_code ignored;
    if (!walk->is_regular_file(ignored)) continue;
    ranges.push_back({walk->path().string(), 0, static_cast<std::uint64_t>(walk->file_size(ignored))});
  }
  return ranges;
}

}  // namespace

Result<std::unique_ptr<BenchJob>> make_zarr_job(const JobOptions& options, const Context& context,
                                                const Device& device) {
  HEADRACE_TRY_ASSIGN(const Store store, Store::open(context, options.zarr));
  HEADRACE_TRY_ASSIGN(Array array, Array::open(store));
  HEADRACE_TRY_ASSIGN(Selection selection, parse_selection(options.select));
  HEADRACE_TRY_ASSIGN(const ResolvedSelection resolved, resolve_selection(selection, array.info().shape));
  std::uint64_t bytes = array.info().dtype.item_bytes;
  for (const std::uint64_t count : resolved.shape) {
    if (__builtin_mul_overflow(bytes, count, &bytes)) {
      return Status(Code::kResourceExhausted, Layer::kApi, "the selection decodes to more than 2^64 bytes");
    }
  }
  TensorView tensor;  // of the buffer that is free
  tensor.dtype = array.info().dtype;
  tensor.shape = resolved.shape;
  return std::unique_ptr<BenchJob>(
      new ZarrJob(options, std::move(array), std::move(selection), std::move(tensor), bytes, device));
}

}  // namespace headrace::bench
