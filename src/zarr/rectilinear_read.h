// Reading an array whose chunks differ in shape (grid "rectilinear").
//
// What decodes a chunk, and the memory for it, depends on the chunk's shape. So the chunks that a selection meets are
// taken by shape (ChunkClasses): for each one Read, exactly as for an array of such chunks, one after the
// other. Arrays with a regular grid are not concerned at all.
//
// Threads: any. The read keeps the array alive until it has ended.
#pragma once

#include <headrace/array.h>
#include <headrace/selection.h>
#include <headrace/status.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/fork.h"
#include "transfer/read.h"
#include "zarr/array_impl.h"
#include "zarr/chunk_classes.h"
#include "zarr/read_conversion.h"

namespace headrace::zarr {

class RectilinearRead : public std::enable_shared_from_this<RectilinearRead> {
 public:
  // `tensor` has been checked against `selection.shape` and has strides.
  static Result<std::shared_ptr<RectilinearRead>> create(std::shared_ptr<const Array::Impl> array,
                                                         const ResolvedSelection& selection, const TensorView& tensor,
                                                         ReadConversion conversion,
                                                         std::shared_ptr<device::Device> device, ReadOptions options);
  ~RectilinearRead();

  Status run();    // on this thread
  Status start();  // on a thread of its own
  Status wait() const;
  bool wait_for(std::chrono::nanoseconds timeout) const;  // done(), then or after `timeout`
  bool done() const;
  void cancel();
  // REQUIRES: done().
  const Stats& stats() const { return stats_; }
  const std::vector<ChunkError>& errors() const { return errors_; }

 private:
  RectilinearRead(std::shared_ptr<const Array::Impl> array, const ResolvedSelection& selection,
                  const TensorView& tensor, ReadConversion conversion, std::shared_ptr<device::Device> device,
                  ReadOptions options);
  Status run_all();
  Status run_class();

  const std::shared_ptr<const Array::Impl> array_;
  const ResolvedSelection selection_;
  const TensorView tensor_;
  const ReadConversion conversion_;
  const std::shared_ptr<device::Device> device_;
  ReadOptions options_;  // less progress
  const std::function<void(std::uint64_t, std::uint64_t)> progress_;
  std::unique_ptr<ChunkClasses> classes_;
  std::uint64_t chunks_before_ = 0;
  const std::uint64_t start_ns_ = base::now_ns();

  mutable std::mutex mutex_;
  mutable base::ProcessOwn<std::condition_variable> ended_;
  std::shared_ptr<transfer::Scheduler> current_;  // guarded by mutex_
  bool cancelled_ = false, done_ = false;         // guarded by mutex_
  Status status_;                                 // set when done
  Stats stats_;
  std::vector<ChunkError> errors_;
};

}  // namespace headrace::zarr
