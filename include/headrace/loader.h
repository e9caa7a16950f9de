// Loader: batches of samples in device memory, read ahead of the consumer.
//
//   const ByDim<std::uint64_t> dims = {{"time", 744}, {"lat", 721}, {"lon", 1440}};
//   const Windows windows = Windows::create(dims, {.input_dims = {{"time", 2}}}).value();
//   LoaderOptions options;
//   options.order = Order::full_shuffle(windows.sample_count()).value();
//   options.split.batch_size = 16;
//   Loader loader = Loader::create(device, {{"t2m", array, windows}}, options).value();
//   while (std::optional<LoaderBatch> batch = loader.next().value()) train(batch->tensor(0));  // [16, 2, 721, 1440]
//
// The chunks of a batch are read and decoded once, however many of its samples need them; with read_together, once for
// several batches. Batches are delivered in the order of positions (order.h, split.h), whatever order reads
// complete in.
//
// Threads: cancel(), release_cache() and batches may be used from any thread; everything else by one thread at a time.
//          A batch outlives its Loader.
// fork():  a child cannot use a Loader or LoaderBatch of its parent; calls give kForked.
// Fails:   functions that allocate throw std::bad_alloc.
#pragma once

#include <headrace/array.h>
#include <headrace/crops.h>
#include <headrace/device.h>
#include <headrace/export.h>
#include <headrace/loader_state.h>
#include <headrace/order.h>
#include <headrace/split.h>
#include <headrace/status.h>
#include <headrace/windows.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace headrace {

// A scale and an offset per index of some dimensions of an array, such as a mean and a deviation per level.
struct ScaleBy {
  std::vector<std::size_t> dims = {};  // of the array, ascending; empty: no scaling
  // value * scale + offset, applied after ReadOptions' scale and offset, in float64 for float64 tensors and otherwise
  // in float32. One finite value per combination of indices of `dims`, in C order. At most 1024 of them per window.
  std::vector<double> scale = {}, offset = {};
};

// One array that contributes to every sample. Sample i of a loader is sample i of each of its arrays.
struct LoaderArray {
  std::string name;  // name of its tensors; unique among the arrays
  Array array;
  // Has the array's dimensions, with the same sizes except where `positions` remaps them.
  std::variant<Windows, Crops> samples;
  // Conversion, placement and verification. Leave stream, progress, errors and cancel unset: the loader controls them.
  ReadOptions read = {};
  // The value of elements beyond the array's end (Boundary::kPad): one element as it appears in the tensor
  // (result_dtype(), little-endian). Empty: zeros.
  std::vector<std::byte> padding = {};
  // Arrays with the same stack name form the channels of one tensor of this name, in the order given. Their samples
  // must have the same shape and their elements the same result_dtype(). ReadOptions::scale and offset normalise each
  // channel. Empty: a tensor of its own.
  std::string stack = {};
  // For arrays aligned with others by a coordinate: for some dimensions (by number), maps each index of `samples` to an
  // index of the array. -1 means none and becomes padding. Each list is as long as the dimension in `samples`.
  std::vector<std::pair<std::size_t, std::vector<std::int64_t>>> positions = {};
  ScaleBy scale_by = {};  // for tensors of float32 and float64
};

// What happens to a read with a damaged chunk (kCorrupt or kShort). next() reports any other failure.
enum class OnDamage : std::uint8_t {
  kFail,  // next() returns the failure
  kSkip,  // the batches of the read are skipped and counted
};

// The form in which a loader caches chunks in device memory.
enum class CacheForm : std::uint8_t {
  kDecoded,  // reading them is a copy into place
  kEncoded,  // as stored: more chunks fit, and each read decodes what it needs
};

struct LoaderOptions {
  std::optional<Order> order = {};  // over as many samples as the arrays have; none: sequential
  SplitOptions split = {};          // rank, world, batch size, tail
  std::uint64_t seed = 0;
  std::uint64_t epochs = 1;  // 0: endless
  // Number of batches that are read together, decoding shared chunks once. 0: the batches of one buffer of a block
  // shuffle, as far as memory_bytes allows; with other orders, one.
  std::uint32_t read_together = 0;
  // Number of reads started before one of their batches is requested, at least 1. Fewer if memory_bytes is too small.
  std::uint32_t read_ahead = 2;
  // Maximum device memory for batches. A loader allocates what its reads need, and more while the caller holds batches.
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;
  // Maximum device memory for a cache of chunks, which are then not read again. The cache fills during the first epoch
  // and evicts nothing. It holds chunks of files, and of stores that report versions (which are not asked again). The
  // device decodes cached chunks whenever it can, even where the CPU is faster. Each array gets a share in proportion
  // to its size. 0: no cache. If a read runs out of device memory, the cache is released as by release_cache() and the
  // read is retried once.
  std::uint64_t cache_bytes = 0;
  CacheForm cache_form = CacheForm::kDecoded;
  // Device memory that the cache leaves free for others, such as a model: the cache grows only while this much stays
  // free. If less than half of it is free when a read starts, the cache is released as by release_cache(). 0: the cache
  // may use all of cache_bytes.
  std::uint64_t leave_free_bytes = 0;
  // Maximum host memory for a cache of stored chunks, for stores that are not files and report versions (which are not
  // asked again). It fills during the first epoch and evicts nothing, and serves any device. Each such array gets a
  // share in proportion to its size. 0: no cache.
  std::uint64_t host_cache_bytes = 0;
  bool channels_last = false;  // the channels of a stack are the last dimension of the tensor
  OnDamage on_damage = OnDamage::kFail;
  std::optional<LoaderState> state = {};  // resumes where the loader that produced this state was
};

// Description of tensor i of every batch.
struct LoaderTensor {
  std::string array, output;  // names: of the LoaderArray or its stack; of the WindowOutput ("" for a whole window)
  DataType dtype;
  // Batch size, windows per sample (only if there are several), channels (of a stack), then the array's dimensions;
  // with channels_last the channels come last. C order.
  std::vector<std::uint64_t> shape;
};

// Where the time of a batch went. Batches that are read together share the planning and read figures; only the last two
// times are their own. Times are nanoseconds of std::chrono::steady_clock.
struct LoaderTiming {
  std::uint64_t planned_ns = 0;  // start of planning: which elements are needed, and where they go
  std::uint64_t begun_ns = 0;    // its reads have been started
  std::uint64_t ready_ns = 0;    // the last element is in place
  std::uint64_t asked_ns = 0;    // next() was called
  std::uint64_t given_ns = 0;    // next() returned it
  // Of its reads: thread seconds, summed, and amounts read.
  double read_seconds = 0, decode_seconds = 0, place_seconds = 0;
  std::uint64_t chunks = 0, kept_chunks = 0;  // as in Stats; `chunks` includes absent ones
  std::uint64_t read_bytes = 0, decoded_bytes = 0;
  std::uint64_t batches = 1;  // batches in the same read
};

struct LoaderStats {
  std::uint64_t batches = 0;  // delivered
  std::uint64_t skipped = 0;  // skipped because of a damaged chunk
  double wait_seconds = 0;    // time next() spent waiting for a batch to be ready
  // Device memory of cached chunks when the last read was waited for. 0 once released: chunks are then read again.
  std::uint64_t kept_bytes = 0;
  bool cache_released = false;
  std::uint64_t host_kept_bytes = 0;  // host memory of cached chunks, likewise
  Stats reads;                        // of the delivered batches
};

class HEADRACE_API LoaderBatch {
 public:
  LoaderBatch() noexcept;  // belongs to no loader and has no tensors
  LoaderBatch(LoaderBatch&& other) noexcept;
  LoaderBatch& operator=(LoaderBatch&& other) noexcept;
  ~LoaderBatch();  // release()

  // Described by Loader::tensors(). Memory of this batch, valid until it is released.
  TensorView tensor(std::size_t number) const;
  // Blocking copy of a range of a tensor to ordinary host memory. kInvalidArgument: no such tensor, or a range beyond
  // its end.
  Status copy_to_host(std::size_t number, std::size_t offset_bytes, std::byte* to, std::size_t bytes) const;
  std::span<const std::uint64_t> samples() const noexcept;  // one sample number per place
  std::uint64_t valid() const noexcept;  // number of leading places that count; the others are repetitions (Tail::kPad)
  std::uint64_t epoch() const noexcept;
  std::uint64_t number() const noexcept;  // index among this rank's batches of the epoch, from where its loader started

  LoaderTiming timing() const noexcept;

  // Releases the memory: now, or once the work queued so far on these streams (cudaStream_t; null: the default stream)
  // is done, without blocking the caller. Releasing twice does nothing. kInvalidArgument: streams for a device that has
  // none; the batch is still released.
  void release() noexcept;
  Status release(std::span<void* const> native_streams);

  struct Held;

 private:
  friend struct Access;
  explicit LoaderBatch(std::unique_ptr<Held> held) noexcept;
  std::unique_ptr<Held> held_;
};

class HEADRACE_API Loader {
 public:
  // Starts reading. kInvalidArgument, naming the array or the option: no arrays; duplicate names; an array whose sizes
  // differ from its windows'; different numbers of samples; an order over another number of samples; samples of
  // different shapes (Boundary::kPartial); options that the loader controls; a state with another schema. kUnsupported:
  // variable-length elements. kResourceExhausted: memory_bytes does not hold two reads.
  static Result<Loader> create(const Device& device, std::vector<LoaderArray> arrays, const LoaderOptions& options);
  Loader(Loader&& other) noexcept;
  Loader& operator=(Loader&& other) noexcept;
  ~Loader();  // stops running reads

  // Returns the next batch, blocking until it is ready. Empty at the end of each epoch; the following call returns the
  // first batch of the next epoch, or empty again after the last epoch.
  //
  // If a read failed: its Status, which names the chunk. The batches of that read are skipped, and the next call
  // continues after them. kResourceExhausted: the batches that the caller holds leave no memory for another read.
  Result<std::optional<LoaderBatch>> next();

  // Continues at another position: next() returns the first batch after `state`, which may be of this or another loader
  // with the same schema, or LoaderState{seed, {epoch, 0}, schema()} for the beginning of an epoch. Drops the batches
  // that were read ahead and waits for their reads to stop; keeps cached chunks, memory for batches, and statistics.
  // Also after the last epoch, and after a failure. By the thread that calls next(). Fails and changes nothing:
  // kInvalidArgument for a state with another schema, or past the last epoch; kForked. If the loader's thread cannot be
  // started (kResourceExhausted), next() fails the same way.
  Status restart_at(const LoaderState& state);

  // Blocks until next() would not block, or until `timeout` has passed. Returns whether next() would not block.
  bool wait_for(std::chrono::nanoseconds timeout);
  // Stops running reads and starts no more. next() gives kCancelled once it has delivered the batches that are ready;
  // restart_at() does not change that.
  void cancel() noexcept;
  // Frees the device memory of cached chunks, now or as the reads that use it end, and turns the cache off.
  void release_cache() noexcept;

  const std::vector<LoaderTensor>& tensors() const noexcept;
  std::uint64_t sample_count() const noexcept;
  std::uint64_t batches() const noexcept;       // in a whole epoch
  std::uint64_t batches_left() const noexcept;  // in this epoch, for next()
  // The position after the last batch that next() returned, regardless of what was read ahead.
  LoaderState state() const;
  LoaderSchema schema() const;
  const LoaderStats& stats() const noexcept;

  class Impl;

 private:
  friend struct Access;
  explicit Loader(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace
