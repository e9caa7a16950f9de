#include "cufile/driver.h"

#include <pthread.h>

#include "base/fork.h"
#include "cufile/usage_report.h"

namespace headrace::cufile {
namespace {

std::atomic<Driver*> g_driver{nullptr};

CUfileOpError code_of(const Status& status) noexcept {
  switch (status.code()) {
    case Code::kResourceExhausted:
      return CU_FILE_NOMEM_ERROR;
    case Code::kInvalidArgument:
      return CU_FILE_DRIVER_INVALID_PROPS;  // an unknown engine, more threads than allowed
    case Code::kPermission:
      return CU_FILE_PERMISSION_DENIED;
    default:
      return CU_FILE_INTERNAL_ERROR;
  }
}

}  // namespace

Driver& Driver::get() {
  Driver* driver = g_driver.load(std::memory_order_acquire);
  if (driver != nullptr) return *driver;
  static const int registered = [] {
    (void)base::fork_generation();  // register its fork handler first
    return pthread_atfork(nullptr, nullptr, [] { g_driver.store(nullptr, std::memory_order_release); });
  }();
  (void)registered;
  auto made = std::make_unique<Driver>();
  if (g_driver.compare_exchange_strong(driver, made.get(), std::memory_order_acq_rel)) driver = made.release();
  return *driver;
}

CUfileOpError Driver::load() {
  if (loaded_) return CU_FILE_SUCCESS;
  Config config;
  const Status status = load_config(config);
  Config running = config;
  apply(staged_, running);
  log.configure(running.strings[CUFILE_PARAM_LOGGING_LEVEL], running.strings[CUFILE_PARAM_ENV_LOGFILE_PATH],
                running.strings[CUFILE_PARAM_LOG_DIR]);
  if (!status.ok()) {
    log.write(Severity::kError, status.to_string());
    return CU_FILE_DRIVER_INVALID_PROPS;
  }
  if (!running.ignored_file.empty()) log.write(Severity::kWarn, running.ignored_file);
  for (const std::string& line : check_ranges(running)) log.write(Severity::kWarn, line);
  running_ = std::move(running);
  configured_ = std::move(config);
  if (!running_.gpu_slabs.sizes_kb.empty() && gpu_slabs.sizes_kb.empty()) gpu_slabs = running_.gpu_slabs;
  staged_ = StagedConfig();
  loaded_ = true;
  return CU_FILE_SUCCESS;
}

CUfileOpError Driver::open_locked() {
  streams.end_retired();
  if (const CUfileOpError code = load(); code != CU_FILE_SUCCESS) return code;
  auto session = Session::create(running_);
  if (!session.ok()) {
    log.write(Severity::kError, session.status().to_string());
    return code_of(session.status());
  }
  session_ = std::move(session).value();
  if (const std::size_t level = running_.sizes[CUFILE_PARAM_PROFILE_STATS]; level > 0 && level <= 3) {
    (void)statistics.set_level(static_cast<int>(level));
    (void)statistics.start();
  }
  log.write(Severity::kInfo, "the driver is open; " + std::to_string(session_->resources()->threads()) + " threads");
  return CU_FILE_SUCCESS;
}

CUfileOpError Driver::open() {
  std::lock_guard lock(mutex_);
  if (uses() == 0) {
    if (const CUfileOpError code = open_locked(); code != CU_FILE_SUCCESS) return code;
  }
  uses_.fetch_add(1, std::memory_order_relaxed);
  return CU_FILE_SUCCESS;
}

CUfileOpError Driver::ensure_open() {
  if (uses_.load(std::memory_order_acquire) > 0) return CU_FILE_SUCCESS;
  std::lock_guard lock(mutex_);
  if (uses() > 0) return CU_FILE_SUCCESS;
  if (const CUfileOpError code = open_locked(); code != CU_FILE_SUCCESS) return code;
  uses_.store(1, std::memory_order_release);
  return CU_FILE_SUCCESS;
}

CUfileOpError Driver::close() {
  std::shared_ptr<Session> last;
  std::lock_guard lock(mutex_);
  if (uses() == 0) return CU_FILE_DRIVER_NOT_INITIALIZED;
  if (uses_.fetch_sub(1, std::memory_order_relaxed) > 1) return CU_FILE_SUCCESS;
  batches.end_all();
  streams.clear();
  files.close_all();
  buffers.clear();
  p2p_flags.clear();
  queues->end_session(session_->id());
  last = std::move(session_);
  loaded_ = false;
  return CU_FILE_SUCCESS;
}

std::shared_ptr<Session> Driver::session() {
  std::lock_guard lock(mutex_);
  return session_;
}

void Driver::unload() {
  std::lock_guard lock(mutex_);
  if (uses() > 0) return;
  loaded_ = false;
  p2p_flags.clear();
}

}  // namespace headrace::cufile

using headrace::cufile::answer;
using headrace::cufile::Driver;
using headrace::cufile::guarded;

#undef cuFileDriverClose

CUfileError_t cuFileDriverOpen(void) {
  return guarded([] { return Driver::get().open(); });
}

CUfileError_t cuFileDriverClose_v2(void) {
  return guarded([] { return Driver::get().close(); });
}

// The old name, from before closes were counted, for programs that look it up by name.
CUfileError_t cuFileDriverClose(void) { return cuFileDriverClose_v2(); }

long cuFileUseCount(void) { return Driver::get().uses(); }

CUfileError_t cuFileGetVersion(int* version) {
  if (version == nullptr) return answer(CU_FILE_INVALID_VALUE);
  *version = headrace::cufile::kVersion;
  return answer(CU_FILE_SUCCESS);
}
