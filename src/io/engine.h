// Engine: moves bytes between file descriptors and memory, with many requests in flight. The memory is the host's or,
// with EngineInfo::reaches_device_memory, a device's.
//
// An engine does one system call's worth per request: it reports short counts, EINTR and EAGAIN as they occur.
// RequestQueue (request_queue.h) adds splitting, retries, deadlines and "exactly one completion per request".
//
// Threads: one at a time; with EngineOptions::one_thread, always the same thread for submit, reap and cancel. wake()
//          may be called from any thread. In a forked child an inherited engine can only be destroyed.
// Owns:    its ring, context or threads. The caller owns descriptors and buffers, and must keep them valid until their
//          request has completed.
// Fails:   submit and reap return kResourceExhausted or kIo only if nothing more can ever be submitted. Then no request
//          is in flight, so buffers may be freed. A full queue is a short count, not an error.
#pragma once

#include <headrace/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace headrace::io {

enum class Op : std::uint8_t { kRead, kWrite };

struct EngineRequest {
  Op op = Op::kRead;
  int fd = -1;
  std::uint64_t offset_bytes = 0;
  std::byte* buffer = nullptr;
  std::uint32_t length_bytes = 0;
  std::uint64_t tag = 0;  // returned with the completion; unique among requests in flight
};

struct EngineResult {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes moved, or -errno
};

struct EngineOptions {
  unsigned depth = 128;  // maximum requests in flight
  unsigned threads = 0;  // for engines that use threads; 0: one per CPU this process may run on
  // Promises that only the thread that submits first uses the engine, which makes some engines faster.
  bool one_thread = false;
  // Requests may use device memory, if the engine can reach it. `begin_thread` is called on each thread that accesses
  // it, since a driver needs to know the thread's device.
  bool to_device = false;
  std::function<void()> begin_thread = nullptr;
  // For engines that reach devices: fail if bytes would be copied through host memory anyway.
  bool only_direct = false;
  // For make_engine(): only an engine that reaches the device's memory will do.
  bool must_reach_device = false;
};

// Facts established when the engine was created, for `headrace doctor` and reports.
struct EngineInfo {
  std::string name;      // "gds", "io_uring", "aio", "threads"
  std::string features;  // such as "single_issuer defer_taskrun"
  unsigned depth = 0;
  // register_buffers() may also be called after the first submit.
  bool registers_late = false;
  // Can read into and write from memory of the device that EngineOptions::to_device refers to.
  bool reaches_device_memory = false;
};

class Engine {
 public:
  // Waits for requests in flight; buffers may then be freed. In a forked child it only frees memory.
  virtual ~Engine() = default;
  // Constant for the engine's lifetime. May be called from any thread.
  virtual const EngineInfo& info() const noexcept = 0;

  // Registers long-lived buffers with the kernel, at most once. Only an optimisation: an engine that cannot register
  // them (or may not: RLIMIT_MEMLOCK) returns OK and treats them as ordinary memory. Takes milliseconds per 10 MiB.
  // Call it before the first submit or, with EngineInfo::registers_late, at any time under submit()'s threading rules;
  // requests in flight continue and are not waited for. Throws std::bad_alloc, without effect.
  virtual Status register_buffers(std::span<const std::span<std::byte>> buffers) = 0;
  // Result of the registration: "registered_buffers", or why there are none. Empty before it, and for engines without
  // registration. May be called from any thread.
  virtual std::string registration() const { return {}; }

  // Starts as many of `requests` as fit, in order, with a single system call if the kernel allows;
  // returns their number.
  virtual Result<std::size_t> submit(std::span<const EngineRequest> requests) = 0;
  // As submit(), for callers that call reap() next: the engine may defer the start to reap(), so that one system call
  // does both. Requests that the kernel then rejects complete with -EAGAIN.
  virtual Result<std::size_t> submit_before_reap(std::span<const EngineRequest> requests) { return submit(requests); }

  // Waits until there is an event, wake() is called or `timeout` has passed; returns the number of events stored.
  virtual Result<std::size_t> reap(std::span<EngineResult> events, std::chrono::nanoseconds timeout) = 0;

  // Requests early termination of a request in flight. It still completes once, with -ECANCELED or its result.
  virtual void cancel(std::uint64_t tag) = 0;

  // Makes a running reap(), or the next one, return at once.
  virtual void wake() noexcept = 0;

  // I/O system calls so far, including those of the engine's own threads. May be called from any thread.
  virtual std::uint64_t system_calls() const noexcept = 0;
};

// A row of the table of compiled-in engines, preferred first (generated from backends/).
struct EngineRow {
  const char* name;
  // Probes by trying: kUnsupported or kPermission with the reason if the kernel refuses.
  Result<std::unique_ptr<Engine>> (*make)(const EngineOptions&);
  bool reaches_device_memory = false;  // if created with to_device
};

std::span<const EngineRow> engines();

// `name` "auto" tries each row in order, and appends one line per engine that failed to `why_not`, if given. Engines
// that reach devices are tried only with options.to_device, and must then be direct. kUnsupported: none is usable, or
// none reaches the device's memory although options.must_reach_device demands it.
Result<std::unique_ptr<Engine>> make_engine(std::string_view name, const EngineOptions& options,
                                            std::string* why_not = nullptr);

}  // namespace headrace::io
