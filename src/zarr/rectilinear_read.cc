#include "zarr/rectilinear_read.h"

#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/access.h"
#include "base/trace.h"
#include "transfer/context_impl.h"
#include "zarr/planner.h"

namespace headrace::zarr {

RectilinearRead::RectilinearRead(std::shared_ptr<const Array::Impl> array, const ResolvedSelection& selection,
                                 const TensorView& tensor, ReadConversion conversion,
                                 std::shared_ptr<device::Device> device, ReadOptions options)
    : array_(std::move(array)),
      selection_(selection),
      tensor_(tensor),
      conversion_(std::move(conversion)),
      device_(std::move(device)),
      options_(std::move(options)),
      progress_(std::exchange(options_.progress, nullptr)) {}

RectilinearRead::~RectilinearRead() = default;

Result<std::shared_ptr<RectilinearRead>> RectilinearRead::create(std::shared_ptr<const Array::Impl> array,
                                                                 const ResolvedSelection& selection,
                                                                 const TensorView& tensor, ReadConversion conversion,
                                                                 std::shared_ptr<device::Device> device,
                                                                 ReadOptions options) {
  std::shared_ptr<RectilinearRead> read(new RectilinearRead(std::move(array), selection, tensor, std::move(conversion),
                                                            std::move(device), std::move(options)));
  HEADRACE_TRY_ASSIGN(read->classes_, ChunkClasses::make(read->array_->metadata.rectilinear, selection));
  return read;
}

Status RectilinearRead::run_class() {
  transfer::ReadBegun begun{base::now_ns()};
  trace::Timer timer(trace::Stage::kPlan);
  HEADRACE_TRY_ASSIGN(auto plan, make_class_plan(array_, *classes_, selection_, tensor_, conversion_));
  begun.plan_seconds = timer.stop();
  const std::uint64_t chunks = plan->chunk_count();
  ReadOptions options = options_;
  if (progress_) {
    options.progress = [this](std::uint64_t done, std::uint64_t) {
      progress_(chunks_before_ + done, classes_->chunk_count());
    };
  }
  const auto& resources = Access::impl(array_->store.context())->resources;
  HEADRACE_TRY_ASSIGN(auto operation,
                      transfer::Read::create(*resources, std::move(plan), device_, std::move(options), begun));
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return Status(Code::kCancelled, Layer::kTransfer, "the read was cancelled");
    current_ = operation;
  }
  Status status = operation->run();
  stats_ += operation->stats();
  errors_.insert(errors_.end(), operation->errors().begin(), operation->errors().end());
  chunks_before_ += chunks;
  const std::lock_guard lock(mutex_);
  current_ = nullptr;
  return status;
}

Status RectilinearRead::run_all() {
  Status first;
  while (classes_->next()) {
    Status status = run_class();
    // With collect_errors a bad chunk does not keep the others from being read.
    if (!status.ok() && (!options_.collect_errors || errors_.empty() || status.code() == Code::kCancelled))
      return status;
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Status RectilinearRead::run() {
  Status status;
  try {
    status = run_all();
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  stats_.wall_seconds = static_cast<double>(base::now_ns() - start_ns_) * 1e-9;
  {
    const std::lock_guard lock(mutex_);
    status_ = status;
    current_ = nullptr;
    done_ = true;
  }
  ended_->notify_all();
  return status;
}

Status RectilinearRead::start() {
  try {
    std::thread([self = shared_from_this()] { (void)self->run(); }).detach();
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted, Layer::kTransfer, "no thread for the read").with_cause(error.what());
  }
  return {};
}

Status RectilinearRead::wait() const {
  std::unique_lock lock(mutex_);
  ended_->wait(lock, [this] { return done_; });
  return status_;
}

bool RectilinearRead::wait_for(std::chrono::nanoseconds timeout) const {
  std::unique_lock lock(mutex_);
  return ended_->wait_for(lock, timeout, [this] { return done_; });
}

bool RectilinearRead::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void RectilinearRead::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (current_ != nullptr) current_->cancel();
}

}  // namespace headrace::zarr
