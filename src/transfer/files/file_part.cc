#include "transfer/files/file_part.h"

#include <algorithm>

#include "base/clock.h"
#include "base/trace.h"
#include "os/file_read.h"
#include "os/page_buffer.h"
#include "transfer/pagecache/reuse_tracker.h"

namespace headrace::transfer {
namespace {

// A worker claims enough bytes to stay off the lock for a while, and leaves the rest to others.
constexpr std::uint64_t kClaimBytes = std::uint64_t{256} << 10;
constexpr std::size_t kMaxClaimed = 16;
constexpr std::uint64_t kAwakeNs = 200'000;
constexpr unsigned kCpusToLeaveSome = 8;

Status ends_early(std::uint64_t moved, std::uint64_t offset, std::uint64_t length) {
  return Status(Code::kShort, Layer::kTransfer,
                "the file ends after " + std::to_string(moved) + " of the requested bytes")
      .with_range(offset, length);
}

}  // namespace

FileCrew::FileCrew(WorkerPool& pool, MappedCache* mapped, std::shared_ptr<device::Device> device, std::size_t threads,
                   std::size_t capacity)
    : pool_(pool), mapped_(mapped), device_(std::move(device)), usable_cpus_(os::usable_cpus()), threads_(threads) {
  todo_.reserve(2 * capacity);
  done_.reserve(capacity);
}

void FileCrew::submit(std::span<FilePart* const> parts) {
  if (parts.empty()) return;
  if (!added_) {
    try {
      pool_.add(shared_from_this());
      added_ = true;
    } catch (const std::bad_alloc&) {  // this thread does it alone
      for (FilePart* part : parts) perform(*part);
      outstanding_ += parts.size();
      std::lock_guard lock(mutex_);
      done_.insert(done_.end(), parts.begin(), parts.end());
      return;
    }
  }
  outstanding_ += parts.size();
  waiting_.fetch_add(parts.size());
  {
    std::lock_guard lock(mutex_);
    if (next_ == todo_.size() || todo_.size() + parts.size() > todo_.capacity()) {
      todo_.erase(todo_.begin(), todo_.begin() + static_cast<std::ptrdiff_t>(next_));
      next_ = 0;
    }
    todo_.insert(todo_.end(), parts.begin(), parts.end());
  }
  if (spinning_.load() < parts.size() && working_.load() < std::min(max_working(), threads_)) {
    pool_.notify();
  }
}

// Where there are many CPUs, all of them together get less memory bandwidth than three quarters of them.
std::size_t FileCrew::max_working() const noexcept {
  const unsigned bound = pool_.bound_cpus(), cpus = bound != 0 ? bound : usable_cpus_;
  return cpus >= kCpusToLeaveSome ? std::size_t{cpus} * 3 / 4 : ~std::size_t{0};
}

// Waking a sleeping thread takes tens of microseconds, as long as reading a part, so some threads spin for a moment.
// False: no part arrived.
bool FileCrew::spin() {
  if (quiet.load(std::memory_order_relaxed)) return false;
  const unsigned bound = pool_.bound_cpus(), cpus = bound != 0 ? bound : usable_cpus_;
  const std::size_t most = cpus >= kCpusToLeaveSome ? max_working() : cpus / 2;
  if (spinning_.fetch_add(1, std::memory_order_relaxed) >= most) {
    spinning_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  const std::uint64_t until = base::now_ns() + kAwakeNs;
  bool arrived = false;
  while (!arrived && base::now_ns() < until) {
    for (int i = 0; i < 16 && !arrived; ++i) {
      arrived = waiting_.load(std::memory_order_acquire) != 0;
      base::relax();
    }
  }
  spinning_.fetch_sub(1, std::memory_order_relaxed);
  return arrived;
}

void FileCrew::collect(std::vector<FilePart*>& out, bool wait, std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  if (wait && done_.empty()) some_done_->wait_for(lock, timeout, [&] { return !done_.empty(); });
  outstanding_ -= done_.size();
  out.insert(out.end(), done_.begin(), done_.end());
  done_.clear();
}

bool FileCrew::help() {
  if (waiting_.load(std::memory_order_relaxed) == 0) return false;
  FilePart* part = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (next_ == todo_.size()) return false;
    part = todo_[next_++];
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  perform(*part);
  std::lock_guard lock(mutex_);
  done_.push_back(part);
  return true;
}

void FileCrew::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  if (added_) pool_.notify();
}

Workload::Progress FileCrew::work() {
  FilePart* claimed[kMaxClaimed];
  if (working_.fetch_add(1, std::memory_order_relaxed) >= max_working()) {
    working_.fetch_sub(1, std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    return closed_ ? Progress::kFinished : Progress::kIdle;
  }
  bool closed = false;
  while (!closed) {
    std::size_t count = 0;
    {
      std::lock_guard lock(mutex_);
      closed = closed_;
      for (std::uint64_t bytes = 0; next_ < todo_.size() && count < kMaxClaimed && bytes < kClaimBytes; ++count) {
        claimed[count] = todo_[next_++];
        bytes += claimed[count]->length;
      }
    }
    if (count == 0) {
      if (closed || !spin()) break;
      continue;
    }
    waiting_.fetch_sub(count, std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i) perform(*claimed[i]);
    {
      std::lock_guard lock(mutex_);
      done_.insert(done_.end(), claimed, claimed + count);
      // Under the lock: once the queue has collected these parts, it may be destroyed, and the callback with it.
      if (notify_elsewhere.load(std::memory_order_acquire)) elsewhere();
    }
    some_done_->notify_one();
  }
  working_.fetch_sub(1);
  // Parts may have arrived while this thread was leaving but still counted as working.
  if (!closed && waiting_.load() != 0) pool_.notify();
  return closed ? Progress::kFinished : Progress::kIdle;
}

void FileCrew::perform(FilePart& part) const {
  trace::Span span(part.write ? trace::Stage::kWrite : trace::Stage::kRead, part.length);
  if (part.kind == FilePart::Kind::kPath) return perform_path(part);
  if (part.write) {
    part.status = os::write_exactly(part.handle->fd(), part.offset, part.host, part.length, part.system_calls);
    if (part.status.ok()) part.file_bytes = part.length;
    return;
  }
  if (part.prefetch) {
    ++part.system_calls;
    ReuseTracker::prefetch(part.handle->fd(), part.offset, part.length);
  }
  if (!part.stop_at_missing_page) return read_blocking(part, part.handle->fd());
  std::uint64_t moved = 0;
  int error = 0;
  ++part.system_calls;
  switch (os::read_cached(part.handle->fd(), part.offset, {part.host, static_cast<std::size_t>(part.length)}, moved,
                          error)) {
    case os::CachedRead::kDone:
      part.file_bytes = part.length;
      break;
    case os::CachedRead::kNotCached:
      part.page_was_missing = true;
      break;
    case os::CachedRead::kEndOfFile:
      part.status = ends_early(moved, part.offset, part.length);
      break;
    case os::CachedRead::kFailed:
      part.status =
          Status(Code::kIo, Layer::kTransfer, "cannot read").with_range(part.offset, part.length).with_errno(error);
      break;
  }
}

void FileCrew::read_blocking(FilePart& part, int fd) const {
  ++part.system_calls;
  part.status = os::read_exactly(fd, part.offset, {part.host, static_cast<std::size_t>(part.length)});
  if (part.status.ok()) part.file_bytes = part.length;
}

void FileCrew::perform_path(FilePart& part) const {
  std::shared_ptr<MappedFile> file;
  try {
    os::FileIdentity identity;
    int error = 0;
    if (mapped_ != nullptr) {
      ++part.system_calls;
      if (!os::identify(part.path, identity, error)) {
        part.status = Status(error == ENOENT ? Code::kNotFound : Code::kIo, Layer::kTransfer, "cannot stat the file")
                          .with_key(part.path)
                          .with_errno(error);
        return;
      }
      if (part.length <= identity.size_bytes) {
        file = mapped_->file(device_, identity);
        part.window = mapped_->window(*file, 0, base::now_ns());
        if (part.window != nullptr && part.window->bytes >= part.length) return;
        part.window.reset();
      }
    }
    part.system_calls += 3;  // open, read, close
    part.status = os::read_file_start(part.path, {part.host, static_cast<std::size_t>(part.length)});
    if (!part.status.ok()) {
      part.status = std::move(part.status).with_key(part.path);
      return;
    }
    part.file_bytes = part.length;
    part.unmapped = std::move(file);
  } catch (const std::bad_alloc&) {
    part.status = Status::out_of_memory();
  }
}

}  // namespace headrace::transfer
