// Engine: how bytes get from a file descriptor into memory, many requests at a time: the host's, and with
// EngineInfo::reaches_device_memory a device's.
//
// An engine only moves what one system call moves: it reports short counts, EINTR and EAGAIN as they come. Splitting,
// retrying, deadlines and "exactly one completion a request" are the RequestQueue's work (request_queue.h).
//
// Threads: one at a time, and with EngineOptions::one_thread the same for submit, reap and cancel; wake() may be called
//          from any. In a forked child an inherited engine can only be destroyed.
// Owns:    its ring, context or threads. File descriptors and buffers stay the caller's and must live until their
//          request has completed.
// Fails:   submit and reap return kResourceExhausted or kIo only when nothing more can ever be submitted, and no
//          request is then in flight: buffers are the caller's again. A full queue is a short count.
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
  unsigned depth = 128;  // requests in flight at most
  unsigned threads = 0;  // for engines that use threads; 0: the CPUs this process may run on
  // Only the thread that submits first uses the engine; an engine may be faster for that.
  bool one_thread = false;
  // Requests' memory may be a device's, as far as the engine reaches it. `begin_thread` is called on each thread that
  // will touch it: a driver wants to know its device.
  bool to_device = false;
  std::function<void()> begin_thread = nullptr;
  // Of engines that reach devices: refuse where bytes would be copied through host memory all the same.
  bool only_direct = false;
};

// What was found when the engine was made: shown by `headrace doctor` and in reports.
struct EngineInfo {
  std::string name;      // "gds", "io_uring", "aio", "threads"
  std::string features;  // e.g. "single_issuer defer_taskrun"
  unsigned depth = 0;
  // register_buffers() may be called after the first submit, too.
  bool registers_late = false;
  // Reads and writes memory of the device that EngineOptions::to_device is about.
  bool reaches_device_memory = false;
};

class Engine {
 public:
  // Waits for what is in flight: buffers are the caller's then. In a forked child it only frees memory.
  virtual ~Engine() = default;
  // The same for as long as the engine lives: from any thread.
  virtual const EngineInfo& info() const noexcept = 0;

  // Tells the kernel about long-lived buffers, once; purely an optimisation, and an engine that cannot (or may not:
  // RLIMIT_MEMLOCK) returns OK and reads into them as into any other memory. Takes milliseconds for each 10 MiB.
  // Before the first submit, or with EngineInfo::registers_late at any time, as submit() is called: requests in flight,
  // into the same memory or not, go on and are not waited for. Throws std::bad_alloc, and has then done nothing.
  virtual Status register_buffers(std::span<const std::span<std::byte>> buffers) = 0;
  // What became of that: "registered_buffers", or why there are none. Empty before, and where an engine has no use for
  // it. From any thread.
  virtual std::string registration() const { return {}; }

  // Starts as many of `requests` as fit, in order, with one system call where the kernel allows; returns how many.
  virtual Result<std::size_t> submit(std::span<const EngineRequest> requests) = 0;
  // The same where a reap() follows at once: the engine may leave the start to it, and so to one system call for both.
  // What the kernel then does not take comes back as an event, -EAGAIN.
  virtual Result<std::size_t> submit_before_reap(std::span<const EngineRequest> requests) { return submit(requests); }

  // Waits until an event is there, wake() is called or `timeout` has passed; returns how many were stored.
  virtual Result<std::size_t> reap(std::span<EngineResult> events, std::chrono::nanoseconds timeout) = 0;

  // Asks for a request in flight to end early. Its one completion still arrives, with -ECANCELED or its result.
  virtual void cancel(std::uint64_t tag) = 0;

  // Ends a reap() in progress, or the next one, at once.
  virtual void wake() noexcept = 0;

  // Made for I/O so far, by the engine's own threads too; from any thread.
  virtual std::uint64_t system_calls() const noexcept = 0;
};

// One row of the table of engines compiled in, preferred first (generated from backends/).
struct EngineRow {
  const char* name;
  // Probes by trying: kUnsupported or kPermission with the reason where the kernel refuses.
  Result<std::unique_ptr<Engine>> (*make)(const EngineOptions&);
  bool reaches_device_memory = false;  // where it was made for it
};

std::span<const EngineRow> engines();

// `name` "auto" tries each row in order and collects in `why_not`, if given, one line for each that refused. Engines
// that reach devices are only tried with options.to_device, and then have to be direct.
Result<std::unique_ptr<Engine>> make_engine(std::string_view name, const EngineOptions& options,
                                            std::string* why_not = nullptr);

}  // namespace headrace::io
