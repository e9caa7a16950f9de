#include "transfer/fetch/cold_reads.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/part.h"
#include "base/trace.h"
#include "os/file_read.h"
#include "store/file_offers.h"

namespace headrace::transfer {

ColdReads::ColdReads(Router& router, WorkerPool::Notifier notifier)
    : router_(router), notifier_(std::move(notifier)), completed_count_(0) {
  completed_.reserve(256);
}

void ColdReads::open_direct(ReadJob& job, store::Store& store, std::string_view key, const store::ByteSource& source,
                            store::ByteSource& own) const {
  store::FileOffers* const files = store.files();
  if (!std::exchange(job.direct, false) || files == nullptr || !router_.direct_allowed()) return;
  const Result<int> direct = files->open_direct(key, source);
  if (!direct.ok()) return;
  if (!router_.goes_direct(*direct, job.offset, job.length)) return os::close_descriptor(*direct);
  own.replace_descriptor(*direct);
  job.fd = *direct;
  job.direct = true;
}

void ColdReads::start(IoService& service, std::span<ReadJob* const> jobs) {
  {
    std::lock_guard lock(mutex_);
    const std::size_t most = completed_.size() + in_flight_ + jobs.size();
    if (completed_.capacity() < most) completed_.reserve(2 * most);
    in_flight_ += jobs.size();
  }
  try {
    for (ReadJob* job : jobs) job->sink = this;
    service.submit(jobs);
  } catch (const std::bad_alloc&) {
    std::lock_guard lock(mutex_);
    in_flight_ -= jobs.size();
    throw;
  }
}

void ColdReads::take(std::vector<ReadJob*>& out, std::size_t workers) {
  std::lock_guard lock(mutex_);
  const std::size_t most = std::min(out.capacity(), completed_.size());
  const std::size_t take = std::min(std::max<std::size_t>(completed_.size() / (2 * workers), 1), most);
  out.assign(completed_.end() - static_cast<std::ptrdiff_t>(take), completed_.end());
  completed_.resize(completed_.size() - take);
  completed_count_.store(completed_.size(), std::memory_order_release);
}

std::size_t ColdReads::in_flight() const {
  std::lock_guard lock(mutex_);
  return in_flight_;
}

bool ColdReads::idle() const {
  std::lock_guard lock(mutex_);
  return in_flight_ == 0 && completed_.empty();
}

void ColdReads::read_refused(ReadJob& job) const {
  if (!job.direct || job.straight || job.status.system_error() != EINVAL) return;
  const int flags = ::fcntl(job.fd, F_GETFL);
  if (flags < 0 || ::fcntl(job.fd, F_SETFL, flags & ~O_DIRECT) != 0) return;
  router_.refuse_direct(job.fd);
  const auto to = base::part(job.slot, job.offset - job.aligned_offset, job.length);
  trace::Timer timer(trace::Stage::kRead, job.length);
  job.status = to ? os::read_exactly(job.fd, job.offset, *to)
                  : Status(Code::kInternal, Layer::kTransfer, "a read exceeds its buffer");
  if (job.status.ok()) job.data = *to;
  job.seconds += timer.stop();
  job.direct = false;
  job.read_bytes = job.status.ok() ? job.length : 0;
}

void ColdReads::cancel(IoService& service) noexcept {
  cancelled_ = true;
  service.cancel(*this);
}

void ColdReads::on_io_done(std::span<ReadJob* const> jobs) noexcept {
  // A worker may end the read and free this object as soon as the lock is released.
  const WorkerPool::Notifier notifier = notifier_;
  {
    std::lock_guard lock(mutex_);
    // Cannot allocate: start() reserved the capacity.
    completed_.insert(completed_.end(), jobs.begin(), jobs.end());
    in_flight_ -= jobs.size();
    completed_count_.store(completed_.size(), std::memory_order_release);
  }
  notifier.notify(jobs.size());
}

}  // namespace headrace::transfer
