// RequestQueue: reads and writes of any length and number over an Engine. Each request completes exactly once.
//
// The queue splits long requests, continues after short counts, and retries transient failures up to a limit. It
// reports a request as complete only when the engine holds no piece of it. From then on the buffer is not touched, even
// after a failure, a cancel or a missed deadline.
//
// Threads: as its engine. Engine::wake() may be called from any thread and makes wait() return.
// Owns:    nothing of the caller's. The engine, descriptors and buffers must outlive the requests.
// Fails:   completions carry kShort (the file ends before min_bytes), kIo, kPermission, kResourceExhausted,
//          kAgainExhausted, kTimeout, kCancelled or kInvalidArgument, with offset, length and errno.
#pragma once

#include <headrace/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "io/engine.h"

namespace headrace::io {

struct Request {
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};

  Op op = Op::kRead;
  int fd = -1;
  std::uint64_t offset_bytes = 0;
  std::span<std::byte> buffer;  // its whole size is requested
  std::uint64_t tag = 0;        // chosen by the caller, returned with the completion
  // Bytes from the start that must arrive. A direct read is rounded up past the end of its file, where fewer bytes
  // exist than requested. kAll: the whole buffer.
  std::uint64_t min_bytes = kAll;
  // Alignment of offset, buffer and its size if the descriptor requires it (O_DIRECT): after a short count, the request
  // continues at a multiple of this. Power of two.
  std::uint32_t alignment_bytes = 1;
  std::uint64_t deadline_ns = 0;  // in terms of now_ns; 0: none
};

struct RequestResult {
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;  // contiguous bytes from the start, now in the buffer (or file)
  Status status;            // OK: at least min_bytes
};

struct RequestQueueOptions {
  std::uint32_t piece_bytes = std::uint32_t{1} << 20;                // longer requests are split; at most 2^31 - 4096
  unsigned max_retries = 16;                                         // EINTR and EAGAIN per piece without progress
  std::chrono::nanoseconds backoff = std::chrono::microseconds(50);  // before the first retry after EAGAIN; doubles
                                                                     // each time
  std::uint64_t (*now_ns)() = &base::now_ns;
};

struct RequestQueueStats {
  std::uint64_t requests = 0, pieces = 0, bytes = 0;
  std::uint64_t short_counts = 0, retries = 0, cancelled_pieces = 0;
  std::uint64_t spurious_completions = 0;  // completions for nothing in flight: an engine's bug, ignored
};

class RequestQueue {
 public:
  explicit RequestQueue(Engine& engine, const RequestQueueOptions& options = {});
  ~RequestQueue();  // cancels and waits for requests in flight; in a forked child it only frees memory
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Reserves room for `more` requests, so that pushing them allocates nothing. Throws std::bad_alloc.
  void reserve(std::size_t more);
  // Accepts all requests. The first go to the engine at once or, with `wait_follows`, in the wait() that the caller
  // promises to call next: one system call can then do both.
  void push(std::span<const Request> requests, bool wait_follows = false);

  // Stores the completions that are ready. If there are none, waits for one until `timeout` has passed or
  // Engine::wake() is called. May return 0 early. Never fails: if the engine breaks, every request ends with the
  // engine's status.
  std::size_t wait(std::span<RequestResult> out, std::chrono::nanoseconds timeout);

  // Ends the requests with this tag early. Each still completes once: with kCancelled, or as it would have.
  void cancel(std::uint64_t tag);
  void cancel_all();

  std::size_t pending() const noexcept {
    return active_ + ready_.size() - ready_head_;
  }  // without a completion yet taken
  const RequestQueueStats& stats() const noexcept { return stats_; }

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};

  struct Active {  // a request between push() and its completion
    Request request;
    std::uint64_t issued = 0;  // bytes for which pieces were created
    std::uint64_t end = 0;     // known end of the data: the length, or less if the file ends earlier
    std::uint64_t min_bytes = 0;
    std::uint32_t pieces = 0;                            // created and not finished
    Index next = kNone;                                  // in the list of requests with unissued bytes
    bool used = false, queued = false, stopped = false;  // stopped: failed or cancelled
    Status failure;
  };
  struct SubRequest {
    Index request = kNone;
    std::uint32_t generation = 0;  // distinguishes a late or repeated completion from one for the slot's next user
    std::uint64_t start = 0, done = 0, length = 0;  // bytes within the request
    std::uint64_t max_done = 0;  // most bytes ever reached: re-reading an aligned block is not progress
    unsigned retries = 0;
    std::uint64_t not_before_ns = 0;
    bool in_engine = false;
  };

  void pump(bool reap_follows = false);
  bool make_piece();
  void offer(bool reap_follows);
  void finish_piece(Index slot, std::int64_t result);
  void retry(Index slot, int error);
  void end_piece(Index slot);
  void fail(Active& active, Status status);
  void fail_result(SubRequest& piece, int error);
  void stop(Index index, Status status);
  void drop_waiting(Index index);
  void complete_if_done(Index index);
  void unlink(Index index);
  void check_deadlines();
  void fail_all_requests(const Status& status);
  std::uint64_t piece_limit(const Request& request) const;
  std::chrono::nanoseconds bounded(std::chrono::nanoseconds timeout) const;

  Engine& engine_;
  const std::uint64_t generation_;
  RequestQueueOptions options_;
  RequestQueueStats stats_;
  unsigned depth_;
  std::vector<Active> requests_;
  std::vector<Index> free_requests_;
  Index first_ = kNone, last_ = kNone;  // requests with unissued bytes, in order of arrival
  std::vector<SubRequest> pieces_;      // `depth` of them, the maximum that exist at a time
  std::vector<Index> free_pieces_;
  std::vector<Index> waiting_;  // pieces to submit to the engine
  std::vector<EngineRequest> batch_;
  std::vector<Index> batch_slots_;
  std::vector<EngineResult> events_;
  std::vector<RequestResult> ready_;  // from ready_head_ on
  std::size_t ready_head_ = 0;
  std::size_t active_ = 0;
  unsigned in_engine_ = 0, refused_submits_ = 0;
  std::uint64_t next_deadline_ns_ = ~std::uint64_t{0};
  Status broken_;  // the engine's final status once it broke
};

}  // namespace headrace::io
