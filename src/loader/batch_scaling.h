// Applies scales and offsets by index to batches, as part of their reads. The consumer gets scaled batches, and its own
// work does not grow with their size.
#pragma once

#include <headrace/loader.h>

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/fork.h"
#include "device/device.h"
#include "loader/batch_layout.h"
#include "transfer/read/read_end.h"

namespace headrace::loader {

// Threads: any. Reads with a ReadEnd made here may outlive this object.
class BatchScaling {
 public:
  explicit BatchScaling(std::shared_ptr<device::Device> device)
      : streams_(std::make_shared<Streams>(std::move(device))) {}

  // Makes the end of an array's read that scales the elements of `boxes` in place, in any order. `type`: of the tensor.
  // Null: there are no boxes. REQUIRES: `by` lives until the read has ended.
  std::unique_ptr<transfer::ReadEnd> make_read_end(const ScaleBy& by, device::NumberType type,
                                                   std::span<const ScaledBox> boxes) const;

 private:
  class OfRead;
  // One stream for each read that is being scaled.
  struct Streams {
    explicit Streams(std::shared_ptr<device::Device> of) : device(std::move(of)) {}
    ~Streams() {
      if (!mutex.inherited()) return;
      for (std::unique_ptr<device::Stream>& stream : idle) static_cast<void>(stream.release());  // the parent's
    }
    const std::shared_ptr<device::Device> device;
    base::ProcessOwn<std::mutex> mutex;
    std::vector<std::unique_ptr<device::Stream>> idle;  // guarded by mutex
  };
  const std::shared_ptr<Streams> streams_;
};

}  // namespace headrace::loader
