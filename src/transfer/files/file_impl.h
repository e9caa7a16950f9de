// The implementations of headrace::File and headrace::FileQueue.
#pragma once

#include <headrace/file.h>

#include <memory>
#include <utility>

#include "os/file_handle.h"
#include "transfer/files/mover.h"

namespace headrace {

// The program's claim on a file; queues may keep the file open for longer.
class File::Impl {
 public:
  explicit Impl(std::shared_ptr<os::FileHandle> file) noexcept : handle(std::move(file)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (handle.use_count() > 1) handle->end_claim();
  }
  const std::shared_ptr<os::FileHandle> handle;
};

class FileQueue::Impl final : public transfer::Mover {
 public:
  using Mover::Mover;
};

}  // namespace headrace
