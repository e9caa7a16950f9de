// Scales and offsets by index, applied to batches as a part of their reads: whoever takes a batch finds it scaled, and
// works no longer for a larger one.
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

// Threads: any. Reads that it has given a part to may outlive it.
class BatchScaling {
 public:
  explicit BatchScaling(std::shared_ptr<device::Device> device)
      : streams_(std::make_shared<Streams>(std::move(device))) {}

  // Scales the elements of a read of an array: those of `boxes`, in any order, where they lie. `type`: of the tensor.
  // REQUIRES: `by` lives until the read has ended. Null: there are none.
  std::unique_ptr<transfer::ReadEnd> behind(const ScaleBy& by, device::NumberType type,
                                            std::span<const ScaledBox> boxes) const;

 private:
  class OfRead;
  // One for each read that ends at a time.
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
