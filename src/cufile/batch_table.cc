#include "cufile/batch_table.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "cufile/batch_run.h"
#include "cufile/driver.h"

namespace headrace::cufile {
namespace {

// As with files, a handle is not an address.
constexpr std::uintptr_t kFirstHandle = std::uintptr_t{7} << 43, kHandleStep = 16;

// Callers are known to pass the address of a smaller object, so no value is rejected and no wait exceeds an hour.
std::chrono::nanoseconds read_timeout(const struct timespec* timeout) noexcept {
  struct timespec copy;
  std::memcpy(&copy, timeout, sizeof copy);
  const auto seconds = std::clamp<std::int64_t>(copy.tv_sec, 0, 3600);
  const auto nanoseconds = std::clamp<std::int64_t>(copy.tv_nsec, 0, 999'999'999);
  return std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanoseconds);
}

}  // namespace

BatchTable::BatchTable() : next_(kFirstHandle) {}

BatchTable::~BatchTable() { end_all(); }

std::shared_ptr<BatchRun> BatchTable::find(CUfileBatchHandle_t handle) {
  std::lock_guard lock(mutex_);
  const auto found = batches_.find(reinterpret_cast<std::uintptr_t>(handle));
  return found == batches_.end() ? nullptr : found->second;
}

CUfileOpError BatchTable::set_up(Driver& driver, CUfileBatchHandle_t* handle, unsigned capacity) {
  if (handle == nullptr || capacity == 0) return CU_FILE_INVALID_VALUE;
  std::size_t most = 0;
  const CUfileOpError code = driver.with_config([&](const Config& config, StagedConfig*) {
    most = config.sizes[CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE];
    return CU_FILE_SUCCESS;
  });
  if (code != CU_FILE_SUCCESS) return code;
  if (capacity > most) return CU_FILE_INVALID_VALUE;
  auto batch = std::make_shared<BatchRun>(capacity);
  std::lock_guard lock(mutex_);
  batches_.emplace(next_, std::move(batch));
  *handle = reinterpret_cast<CUfileBatchHandle_t>(next_);
  next_ += kHandleStep;
  return CU_FILE_SUCCESS;
}

CUfileOpError BatchTable::submit(Driver& driver, CUfileBatchHandle_t handle, unsigned count,
                                 const CUfileIOParams_t* entries) {
  const std::shared_ptr<BatchRun> batch = find(handle);
  if (batch == nullptr || count == 0 || entries == nullptr) return CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR;
  if (!batch->take_room(count)) return CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR;
  const auto refuse = [&] {
    batch->give_up_room(count);
    return CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR;
  };
  BatchJob job;
  try {
    job.batch = batch;
    job.driver = &driver;
    job.submitted_ns = base::now_ns();
    job.entries.resize(count);
    // Nothing runs unless all entries can be submitted; bad memory or opcodes fail when they run.
    for (unsigned i = 0; i < count; ++i) {
      const CUfileIOParams_t& asked = entries[i];
      BatchEntry& entry = job.entries[i];
      if (asked.mode != CUFILE_BATCH) return refuse();
      if (driver.files.acquire(asked.fh, entry.file) != CU_FILE_SUCCESS) return refuse();
      entry.cookie = asked.cookie;
      entry.size = asked.u.batch.size;
      entry.file_offset = asked.u.batch.file_offset;
      entry.write = asked.opcode == CUFILE_WRITE;
      if (asked.opcode != CUFILE_READ && asked.opcode != CUFILE_WRITE) entry.refused = EINVAL;
      for (const Outcome& out :
           {resolve(driver, asked.u.batch.devPtr_base, entry.size, asked.u.batch.devPtr_offset, entry.target),
            check_file(*entry.file, entry.size, entry.file_offset, entry.write)}) {
        if (!out.ok() && entry.refused == 0) entry.refused = out.error;
      }
    }
    const auto session = job.entries[0].file->session;
    start_threads(static_cast<unsigned>(session->config().sizes[CUFILE_PARAM_EXECUTION_MAX_IO_THREADS]));
    std::lock_guard lock(mutex_);
    if (threads_.empty()) return refuse();
    jobs_.push_back(std::move(job));
  } catch (...) {
    (void)refuse();
    throw;
  }
  work_.notify_one();
  return CU_FILE_SUCCESS;
}

CUfileOpError BatchTable::get_status(CUfileBatchHandle_t handle, unsigned least, unsigned* count,
                                     CUfileIOEvents_t* events, const struct timespec* timeout) {
  const std::shared_ptr<BatchRun> batch = find(handle);
  if (batch == nullptr) return CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR;
  if (count == nullptr || least > *count || (events == nullptr && *count != 0)) return CU_FILE_INVALID_VALUE;
  std::chrono::steady_clock::time_point deadline;
  if (timeout != nullptr) deadline = std::chrono::steady_clock::now() + read_timeout(timeout);
  *count = batch->reap(least, *count, events, timeout != nullptr ? &deadline : nullptr);
  return CU_FILE_SUCCESS;
}

CUfileOpError BatchTable::cancel(CUfileBatchHandle_t handle) {
  if (handle == nullptr) return CU_FILE_SUCCESS;
  const std::shared_ptr<BatchRun> batch = find(handle);
  if (batch == nullptr) return CU_FILE_INTERNAL_BATCH_CANCEL_ERROR;
  batch->cancel();
  return CU_FILE_SUCCESS;
}

bool BatchTable::destroy(CUfileBatchHandle_t handle) {
  std::shared_ptr<BatchRun> batch;
  {
    std::lock_guard lock(mutex_);
    const auto found = batches_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == batches_.end()) return false;
    batch = std::move(found->second);
    batches_.erase(found);
  }
  batch->cancel();
  batch->wait_until_idle();  // after this, nothing touches the program's memory
  return true;
}

void BatchTable::end_all() noexcept {
  std::unordered_map<std::uintptr_t, std::shared_ptr<BatchRun>> all;
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    all.swap(batches_);
    threads.swap(threads_);
    stopping_ = true;
  }
  for (const auto& [handle, batch] : all) batch->cancel();
  work_.notify_all();
  for (std::thread& thread : threads) thread.join();  // queued jobs are executed or cancelled first
  std::lock_guard lock(mutex_);
  stopping_ = false;
}

// Starts one more thread if a job finds none idle, up to `wanted`.
void BatchTable::start_threads(unsigned wanted) {
  constexpr unsigned kDefaultEntries = 4, kMax = 16;
  wanted = wanted == 0 ? kDefaultEntries : std::min(wanted, kMax);
  std::lock_guard lock(mutex_);
  if (stopping_ || threads_.size() >= wanted || idle_ > jobs_.size()) return;
  try {
    threads_.reserve(wanted);
    threads_.emplace_back([this] { run(); });
  } catch (const std::exception&) {
    if (threads_.empty()) throw;
  }
}

void BatchTable::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    work_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    --idle_;
    if (jobs_.empty()) return;
    BatchJob job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    run_batch(job);
    job = BatchJob();
    lock.lock();
  }
}

}  // namespace headrace::cufile

using namespace headrace::cufile;

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch_idp, unsigned nr) {
  return guarded([&] {
    Driver& driver = Driver::get();
    const CUfileOpError code = driver.batches.set_up(driver, batch_idp, nr);
    driver.statistics.count(Op::kBatchSetUp, code == CU_FILE_SUCCESS);
    return code;
  });
}

CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr, CUfileIOParams_t* iocbp,
                                  unsigned /*flags*/) {
  return guarded([&] {
    Driver& driver = Driver::get();
    const std::uint64_t started = headrace::base::now_ns();
    const CUfileOpError code = driver.batches.submit(driver, batch_idp, nr, iocbp);
    driver.statistics.count(Op::kBatchSubmit, code == CU_FILE_SUCCESS, headrace::base::now_ns() - started);
    return code;
  });
}

CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                     CUfileIOEvents_t* iocbp, struct timespec* timeout) {
  return guarded([&] {
    Driver& driver = Driver::get();
    const CUfileOpError code = driver.batches.get_status(batch_idp, min_nr, nr, iocbp, timeout);
    if (code != CU_FILE_SUCCESS || *nr > 0) driver.statistics.count(Op::kBatchComplete, code == CU_FILE_SUCCESS);
    return code;
  });
}

CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp) {
  return guarded([&] {
    Driver& driver = Driver::get();
    const CUfileOpError code = driver.batches.cancel(batch_idp);
    driver.statistics.count(Op::kBatchCancel, code == CU_FILE_SUCCESS);
    return code;
  });
}

void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp) {
  (void)guarded([&] {
    Driver& driver = Driver::get();
    const bool destroyed = driver.batches.destroy(batch_idp);
    if (batch_idp != nullptr) driver.statistics.count(Op::kBatchDestroy, destroyed);
    return CU_FILE_SUCCESS;
  });
}
