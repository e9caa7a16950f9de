// Loader: batches of samples in device memory, read ahead of whoever takes them.
//
//   const Windows windows = Windows::create({{"time", 744}, {"lat", 721}, {"lon", 1440}}, {.input_dims = {{"time",
//   2}}}).value(); LoaderOptions options; options.order = Order::full_shuffle(windows.sample_count()).value();
//   options.split.batch_size = 16;
//   Loader loader = Loader::create(device, {{"t2m", array, windows}}, options).value();
//   while (std::optional<LoaderBatch> batch = loader.next().value()) train(batch->tensor(0));  // [16, 2, 721, 1440]
//
// A batch's chunks are read and decoded once, however many of its samples they have a part in; with read_together, once
// for several batches. Batches come in the order of positions (order.h, split.h), whatever is read first.
//
// Threads: cancel(), release_cache() and batches from any thread, all else by one thread at a time. A batch outlives
// its Loader. fork(): a child has no use of a Loader or LoaderBatch of its parent's: calls say kForked. Fails:
// functions that allocate throw std::bad_alloc.
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

// A scale and an offset for each index of some of an array's dimensions, such as a mean and a deviation for each level.
struct ScaleBy {
  std::vector<std::size_t> dims = {};  // of the array, ascending; none: nothing is scaled
  // value * scale + offset, behind those of ReadOptions, in float32 or, of float64, float64. One for each combination
  // of indices of `dims` in the array, in C order; finite. A window has at most 1024 of them.
  std::vector<double> scale = {}, offset = {};
};

// One array that every sample has a part of. Sample i of a loader is sample i of each of its arrays.
struct LoaderArray {
  std::string name;  // of its tensors; unlike the other arrays'
  Array array;
  // Of as many dimensions as the array, and of the same sizes but for those that `positions` has.
  std::variant<Windows, Crops> samples;
  // Conversion, placement and verification. Stream, progress, errors and cancelling are the loader's own: not set.
  ReadOptions read = {};
  // One element as it appears in the tensor (result_dtype(), little-endian) where samples reach over the array's end
  // (Boundary::kPad). Empty: zeros.
  std::vector<std::byte> padding = {};
  // Arrays of one stack are the channels of one tensor of this name, in the order given. Their samples and
  // result_dtype() have one shape and type. ReadOptions::scale and offset normalise each channel. Empty: a tensor of
  // its own.
  std::string stack = {};
  // Of some dimensions (their numbers), which of the array's indices each index of `samples` is, for arrays that are
  // aligned with others by a coordinate; -1 is none, and becomes padding. As many as `samples` has there.
  std::vector<std::pair<std::size_t, std::vector<std::int64_t>>> positions = {};
  ScaleBy scale_by = {};  // for tensors of float32 and float64
};

// What becomes of a read in which a chunk is damaged: kCorrupt or kShort. Any other failure is next()'s.
enum class OnDamage : std::uint8_t {
  kFail,  // next() says so
  kSkip,  // its batches are passed over and counted
};

// In which form a loader keeps chunks in device memory.
enum class CacheForm : std::uint8_t {
  kDecoded,  // they are only placed
  kEncoded,  // as they are stored: more fit, and each read decodes what it takes of them
};

struct LoaderOptions {
  std::optional<Order> order = {};  // of as many samples as the arrays have; none: sequential
  SplitOptions split = {};          // rank, world, batch size, tail
  std::uint64_t seed = 0;
  std::uint64_t epochs = 1;  // 0: without end
  // Batches whose chunks are read and decoded once for all of them. 0: those of a buffer of a block shuffle, as far as
  // memory_bytes goes; with other orders each batch by itself.
  std::uint32_t read_together = 0;
  // Reads that are begun before one of their batches is asked for; at least 1. Fewer where memory_bytes is short.
  std::uint32_t read_ahead = 2;
  // Most device memory for batches. A loader has as much as its reads need, and more for batches that are kept.
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;
  // Most device memory for chunks, which are then not read again: it fills in the first epoch and keeps what it has.
  // For chunks of files, and of stores that tell versions, which are not asked again; those that the device can decode
  // it decodes then, whoever is faster. Each array has a share by its size. 0: none are kept. A read that finds no
  // device memory gives it back as release_cache() does, and is made once more.
  std::uint64_t cache_bytes = 0;
  CacheForm cache_form = CacheForm::kDecoded;
  // Device memory that the cache leaves to others, such as a model: it grows as long as so much stays free. Where less
  // than half of it is free as a read begins, release_cache(). 0: the cache takes what it may.
  std::uint64_t leave_free_bytes = 0;
  // Most memory of the host for stored chunks of stores without files that tell versions, which are not asked again: it
  // fills in the first epoch and keeps what it has, for any device. Each such array has a share by its size. 0: none.
  std::uint64_t host_cache_bytes = 0;
  bool channels_last = false;  // the channels of a stack are a tensor's last dimension
  OnDamage on_damage = OnDamage::kFail;
  std::optional<LoaderState> state = {};  // goes on where the loader was that gave this
};

// What tensor i of every batch is.
struct LoaderTensor {
  std::string array, output;  // names: LoaderArray or its stack, WindowOutput ("" for a whole window)
  DataType dtype;
  // batch size, windows of a sample (only where it has several), channels (of a stack), then the array's dimensions;
  // with channels_last, channels behind those. C order.
  std::vector<std::uint64_t> shape;
};

// Where a batch's time went. Batches that are read together share all but the last two: its planning and its read.
// Times are nanoseconds of std::chrono::steady_clock.
struct LoaderTiming {
  std::uint64_t planned_ns = 0;  // planning began: which elements, and where they go
  std::uint64_t begun_ns = 0;    // its reads had been begun
  std::uint64_t ready_ns = 0;    // the last element was there
  std::uint64_t asked_ns = 0;    // next() was called
  std::uint64_t given_ns = 0;    // and had it
  // Of its reads: seconds of threads, summed, and what was read.
  double read_seconds = 0, decode_seconds = 0, place_seconds = 0;
  std::uint64_t chunks = 0, kept_chunks = 0;  // as in Stats; absent ones are among `chunks`
  std::uint64_t read_bytes = 0, decoded_bytes = 0;
  std::uint64_t batches = 1;  // that were read together
};

struct LoaderStats {
  std::uint64_t batches = 0;  // handed out
  std::uint64_t skipped = 0;  // passed over, as a chunk was damaged
  double wait_seconds = 0;    // next() waiting for what was not there yet
  // Device memory of chunks that are kept, as the last read was waited for. Once released: 0, and they are read again.
  std::uint64_t kept_bytes = 0;
  bool cache_released = false;
  std::uint64_t host_kept_bytes = 0;  // of the host, likewise
  Stats reads;                        // of batches that were handed out
};

class HEADRACE_API LoaderBatch {
 public:
  LoaderBatch() noexcept;  // of no loader, without tensors
  LoaderBatch(LoaderBatch&& other) noexcept;
  LoaderBatch& operator=(LoaderBatch&& other) noexcept;
  ~LoaderBatch();  // release()

  // As Loader::tensors() says; memory of this batch, valid until it is released.
  TensorView tensor(std::size_t number) const;
  // Blocking copy of bytes of a tensor to ordinary host memory. kInvalidArgument: no such tensor, or beyond its end.
  Status copy_to_host(std::size_t number, std::size_t offset_bytes, std::byte* to, std::size_t bytes) const;
  std::span<const std::uint64_t> samples() const noexcept;  // one number for each place
  std::uint64_t valid() const noexcept;  // places that count; the others are repetitions (Tail::kPad)
  std::uint64_t epoch() const noexcept;
  std::uint64_t number() const noexcept;  // of this rank's batches in what its loader had left of the epoch

  LoaderTiming timing() const noexcept;

  // Gives the memory back: now, or once what is queued on these streams (cudaStream_t; null: the default stream) by
  // then is done, for which nobody is kept waiting. A second time: nothing.
  // kInvalidArgument for a stream where the device has none; the batch is released then, too.
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
  // Begins to read. kInvalidArgument naming the array or the option: no arrays, names that are not unlike, an array of
  // other sizes than its windows, different numbers of samples, an order of another number, samples of different shapes
  // (Boundary::kPartial), options that are the loader's own, a state of another schema.
  // kUnsupported: elements of variable length. kResourceExhausted: memory_bytes holds no two reads.
  static Result<Loader> create(const Device& device, std::vector<LoaderArray> arrays, const LoaderOptions& options);
  Loader(Loader&& other) noexcept;
  Loader& operator=(Loader&& other) noexcept;
  ~Loader();  // stops what is being read

  // The next batch, once it is there. Empty at the end of each epoch; the call after that gives the next epoch's first
  // batch, or empty again after the last epoch.
  //
  // A read that failed: its Status, naming the chunk. The batches read together with it are passed over, and the next
  // call goes on behind them. kResourceExhausted: more batches are held than leave memory for another read.
  Result<std::optional<LoaderBatch>> next();

  // Blocks until next() would not wait, or until `timeout` has passed: whether it would not.
  bool wait_for(std::chrono::nanoseconds timeout);
  // What is being read stops, and nothing more is read: next() gives kCancelled once no batch is left that is there.
  void cancel() noexcept;
  // Gives the device memory of kept chunks back: now, or as the reads that use it end. None are kept any more.
  void release_cache() noexcept;

  const std::vector<LoaderTensor>& tensors() const noexcept;
  std::uint64_t sample_count() const noexcept;
  std::uint64_t batches() const noexcept;       // of a whole epoch
  std::uint64_t batches_left() const noexcept;  // of this epoch, for next()
  // Behind the last batch that next() gave, whatever has been read ahead.
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
