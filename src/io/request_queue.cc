#include "io/request_queue.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <thread>

#include "base/checked.h"
#include "base/fork.h"

namespace headrace::io {
namespace {

constexpr std::uint32_t kKernelLimit = (std::uint32_t{1} << 31) - 4096;  // MAX_RW_COUNT of read(2)
constexpr std::uint64_t kMaxOffset = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr auto kMaxBackoff = std::chrono::milliseconds(10);
constexpr std::chrono::nanoseconds kBrokenPause = std::chrono::milliseconds(1);

Status refuse(const Request& request, const char* what) {
  return Status(Code::kInvalidArgument, Layer::kIo, what).with_range(request.offset_bytes, request.buffer.size());
}

Status check(const Request& request) {
  if (request.buffer.data() == nullptr && !request.buffer.empty()) return refuse(request, "the buffer is null");
  if (request.offset_bytes > kMaxOffset || request.buffer.size() > kMaxOffset - request.offset_bytes) {
    return refuse(request, "offset and length exceed the largest file");
  }
  if (request.min_bytes != Request::kAll && request.min_bytes > request.buffer.size()) {
    return refuse(request, "min_bytes exceeds the buffer");
  }
  const std::uint64_t mask = std::uint64_t{request.alignment_bytes} - 1;
  if (request.alignment_bytes == 0 || (request.alignment_bytes & mask) != 0) {
    return refuse(request, "the alignment is not a power of two");
  }
  if (((request.offset_bytes | request.buffer.size()) & mask) != 0) {
    return refuse(request, "offset or length is not a multiple of the alignment");
  }
  return {};
}

}  // namespace

RequestQueue::RequestQueue(Engine& engine, const RequestQueueOptions& options)
    : engine_(engine),
      generation_(base::fork_generation()),
      options_(options),
      depth_(std::max(1u, engine.info().depth)) {
  options_.piece_bytes = std::clamp(options_.piece_bytes, std::uint32_t{4096}, kKernelLimit);
  pieces_.resize(depth_);
  free_pieces_.reserve(depth_);
  waiting_.reserve(depth_);
  batch_.reserve(depth_);
  batch_slots_.reserve(depth_);
  events_.resize(depth_);
  for (Index i = depth_; i-- > 0;) free_pieces_.push_back(i);
}

RequestQueue::~RequestQueue() {
  if (generation_ != base::fork_generation()) return;  // requests in flight are the parent's
  cancel_all();
  // The kernel may still write into the buffers, so waiting is the only option. A broken engine holds no requests.
  while (in_engine_ > 0 && broken_.ok()) {
    ready_.clear();
    ready_head_ = 0;
    wait({}, std::chrono::seconds(1));
  }
}

void RequestQueue::reserve(std::size_t more) {
  const std::size_t needed = active_ + more;
  if (requests_.capacity() < needed) requests_.reserve(std::max(needed, 2 * requests_.capacity()));
  free_requests_.reserve(requests_.capacity());
  ready_.reserve(2 * requests_.capacity());  // taken results stay in it until they make up half
}

void RequestQueue::push(std::span<const Request> requests, bool wait_follows) {
  for (const Request& request : requests) {
    Index index;
    if (free_requests_.empty()) {
      index = static_cast<Index>(requests_.size());
      requests_.emplace_back();
      free_requests_.reserve(requests_.capacity());
      ready_.reserve(requests_.capacity());
    } else {
      index = free_requests_.back();
      free_requests_.pop_back();
    }
    Active& active = requests_[index];
    active = {};
    active.request = request;
    active.used = true;
    active.end = request.buffer.size();
    active.min_bytes = request.min_bytes == Request::kAll ? request.buffer.size() : request.min_bytes;
    ++active_;
    ++stats_.requests;
    Status status = broken_.ok() ? check(request) : broken_;
    if (!status.ok() || request.buffer.empty()) {
      if (!status.ok()) fail(active, std::move(status));
      active.issued = request.buffer.size();
      complete_if_done(index);
      continue;
    }
    if (request.deadline_ns != 0) next_deadline_ns_ = std::min(next_deadline_ns_, request.deadline_ns);
    active.queued = true;
    if (last_ == kNone) {
      first_ = index;
    } else {
      requests_[last_].next = index;
    }
    last_ = index;
  }
  if (!wait_follows) pump();
}

std::size_t RequestQueue::wait(std::span<RequestResult> out, std::chrono::nanoseconds timeout) {
  check_deadlines();
  const bool reap_follows = ready_.size() == ready_head_;
  pump(reap_follows);
  const std::size_t at_hand = ready_.size() - ready_head_;
  // If completions are ready, this only collects more of them without waiting. An idle queue still sleeps in the
  // engine, where a wake() arrives.
  if (reap_follows || (at_hand < out.size() && in_engine_ > 0)) {
    const auto bound = at_hand > 0 ? std::chrono::nanoseconds(0) : bounded(timeout);
    if (broken_.ok()) {
      auto reaped = engine_.reap(events_, bound);
      if (!reaped.ok()) {
        fail_all_requests(reaped.status());
      } else {
        for (std::size_t i = 0; i < *reaped; ++i) {
          const EngineResult& event = events_[i];
          const auto slot = static_cast<Index>(event.tag & 0xffffffffu);
          const auto generation = static_cast<std::uint32_t>(event.tag >> 32);
          if (slot >= depth_ || pieces_[slot].generation != generation || !pieces_[slot].in_engine) {
            ++stats_.spurious_completions;
            continue;
          }
          finish_piece(slot, event.result);
        }
      }
      check_deadlines();
      pump();
    } else if (at_hand == 0) {
      // A broken engine neither sleeps nor wakes: keep a caller that waits in a loop from spinning.
      std::this_thread::sleep_for(std::min(bound, kBrokenPause));
    }
  }
  std::size_t stored = 0;
  while (stored < out.size() && ready_head_ < ready_.size()) out[stored++] = std::move(ready_[ready_head_++]);
  if (ready_head_ * 2 >= ready_.size()) {  // also empties a drained list; amortised
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(ready_head_));
    ready_head_ = 0;
  }
  return stored;
}

void RequestQueue::cancel(std::uint64_t tag) {
  for (Index i = 0; i < requests_.size(); ++i) {
    if (requests_[i].used && requests_[i].request.tag == tag) {
      stop(i, Status(Code::kCancelled, Layer::kIo, "the request was cancelled"));
    }
  }
}

void RequestQueue::cancel_all() {
  for (Index i = 0; i < requests_.size(); ++i) {
    if (requests_[i].used) stop(i, Status(Code::kCancelled, Layer::kIo, "the request was cancelled"));
  }
}

// Creates pieces while slots are free, and submits as many as the engine takes.
void RequestQueue::pump(bool reap_follows) {
  if (!broken_.ok()) return;
  while (!free_pieces_.empty() && make_piece()) {
  }
  if (!waiting_.empty()) offer(reap_follows);
}

bool RequestQueue::make_piece() {
  if (first_ == kNone) return false;
  const Index index = first_;
  Active& active = requests_[index];
  const Index slot = free_pieces_.back();
  free_pieces_.pop_back();
  SubRequest& piece = pieces_[slot];
  piece = {.request = index, .generation = piece.generation + 1, .start = active.issued};
  piece.length = std::min(piece_limit(active.request), active.request.buffer.size() - active.issued);
  active.issued += piece.length;
  ++active.pieces;
  ++stats_.pieces;
  waiting_.push_back(slot);
  if (active.issued == active.request.buffer.size()) unlink(index);
  return true;
}

std::uint64_t RequestQueue::piece_limit(const Request& request) const {
  const std::uint64_t unit = std::max<std::uint64_t>(4096, request.alignment_bytes);
  return std::max(unit, base::align_down<std::uint64_t>(options_.piece_bytes, unit));
}

void RequestQueue::offer(bool reap_follows) {
  batch_.clear();
  batch_slots_.clear();
  std::uint64_t now = 0;
  for (const Index slot : waiting_) {
    SubRequest& piece = pieces_[slot];
    if (piece.not_before_ns != 0) {
      if (now == 0) now = options_.now_ns();
      if (piece.not_before_ns > now) continue;
    }
    const Request& request = requests_[piece.request].request;
    const std::uint64_t at = piece.start + piece.done;
    batch_.push_back({.op = request.op,
                      .fd = request.fd,
                      .offset_bytes = request.offset_bytes + at,
                      .buffer = request.buffer.data() + at,
                      .length_bytes = static_cast<std::uint32_t>(piece.length - piece.done),
                      .tag = std::uint64_t{piece.generation} << 32 | slot});
    batch_slots_.push_back(slot);
  }
  if (batch_.empty()) return;
  auto taken = reap_follows ? engine_.submit_before_reap(batch_) : engine_.submit(batch_);
  if (!taken.ok()) {
    fail_all_requests(taken.status());
    return;
  }
  for (std::size_t i = 0; i < *taken; ++i) pieces_[batch_slots_[i]].in_engine = true;
  in_engine_ += static_cast<unsigned>(*taken);
  std::erase_if(waiting_, [this](Index slot) { return pieces_[slot].in_engine; });
  if (*taken > 0) {
    refused_submits_ = 0;
  } else if (in_engine_ == 0) {
    // The engine holds nothing and accepts nothing: it lacks a resource, temporarily or permanently.
    ++stats_.retries;
    if (++refused_submits_ <= options_.max_retries) {
      const auto delay =
          std::min<std::chrono::nanoseconds>(options_.backoff * (1u << std::min(refused_submits_, 16u)), kMaxBackoff);
      const std::uint64_t until = options_.now_ns() + static_cast<std::uint64_t>(delay.count());
      for (const Index slot : batch_slots_) pieces_[slot].not_before_ns = until;
      return;
    }
    refused_submits_ = 0;
    for (const Index slot : batch_slots_) {
      if (pieces_[slot].request == kNone) continue;  // dropped together with an earlier piece of its request
      std::erase(waiting_, slot);
      fail_result(pieces_[slot], EAGAIN);
      end_piece(slot);
    }
  }
}

void RequestQueue::finish_piece(Index slot, std::int64_t result) {
  SubRequest& piece = pieces_[slot];
  Active& active = requests_[piece.request];
  piece.in_engine = false;
  --in_engine_;
  const std::uint64_t asked = piece.length - piece.done;
  if (result < 0) {
    const int error = static_cast<int>(-result);
    if (active.stopped) {
      if (error == ECANCELED) ++stats_.cancelled_pieces;
      active.end = std::min(active.end, piece.start + piece.done);
      end_piece(slot);
    } else if (error == EINTR || error == EAGAIN || error == ECANCELED) {
      retry(slot, error);  // ECANCELED: the submitting thread has ended, and the kernel's workers with it
    } else {
      fail_result(piece, error);
      end_piece(slot);
    }
    return;
  }
  const std::uint64_t moved = std::min(static_cast<std::uint64_t>(result), asked);
  const std::uint64_t reached = piece.done + moved;
  if (reached == piece.length || active.stopped) {
    // For a failed request the data is irrelevant, but if it was only cancelled, whole pieces still count.
    if (reached < piece.length) active.end = std::min(active.end, piece.start + reached);
    end_piece(slot);
    return;
  }
  ++stats_.short_counts;
  if (active.request.op == Op::kWrite) {
    const auto resume = base::align_down<std::uint64_t>(reached, active.request.alignment_bytes);
    if (resume == piece.done) return retry(slot, EAGAIN);  // a write has no end of file, so 0 means "not now"
    piece.retries = 0;
    piece.done = resume;
    waiting_.push_back(slot);
    return;
  }
  const std::uint64_t needed = active.min_bytes > piece.start ? active.min_bytes - piece.start : 0;
  const bool file_ends = moved == 0 || reached <= piece.max_done;
  if (file_ends || reached >= std::min(needed, piece.length)) {
    active.end = std::min(active.end, piece.start + std::max(reached, piece.max_done));
    end_piece(slot);
    return;
  }
  piece.max_done = reached;
  piece.retries = 0;
  // Under O_DIRECT a partly read block is read again whole. If that brings no new bytes, the file ends there.
  piece.done = base::align_down<std::uint64_t>(reached, active.request.alignment_bytes);
  waiting_.push_back(slot);
}

void RequestQueue::retry(Index slot, int error) {
  SubRequest& piece = pieces_[slot];
  ++stats_.retries;
  if (++piece.retries > options_.max_retries) {
    fail_result(piece, error);
    end_piece(slot);
    return;
  }
  if (error == EAGAIN) {
    const auto delay =
        std::min<std::chrono::nanoseconds>(options_.backoff * (1u << std::min(piece.retries - 1, 16u)), kMaxBackoff);
    piece.not_before_ns = options_.now_ns() + static_cast<std::uint64_t>(delay.count());
  }
  waiting_.push_back(slot);
}

void RequestQueue::fail_result(SubRequest& piece, int error) {
  Active& active = requests_[piece.request];
  const bool read = active.request.op == Op::kRead;
  const std::uint64_t at = piece.start + piece.done;
  active.end = std::min(active.end, at);
  if (active.stopped) return;
  Code code = Code::kIo;
  const char* what = read ? "read failed" : "write failed";
  if (error == EAGAIN || error == EINTR || error == ECANCELED) {
    code = Code::kAgainExhausted;
    what = read ? "read was retried too often" : "write was retried too often";
  } else if (error == EPERM || error == EACCES) {
    code = Code::kPermission;
  } else if (error == ENOMEM) {
    code = Code::kResourceExhausted;
  }
  stop(piece.request, Status(code, Layer::kIo, what)
                          .with_range(active.request.offset_bytes + at, piece.length - piece.done)
                          .with_errno(error));
}

// Frees the slot. The request completes with its last piece.
void RequestQueue::end_piece(Index slot) {
  const Index index = pieces_[slot].request;
  if (index == kNone) return;
  pieces_[slot].request = kNone;
  free_pieces_.push_back(slot);
  --requests_[index].pieces;
  complete_if_done(index);
}

void RequestQueue::fail(Active& active, Status status) {
  active.stopped = true;
  if (active.failure.ok()) active.failure = std::move(status);
}

// Ends a request early: no more pieces are issued, and those in the engine are cancelled.
void RequestQueue::stop(Index index, Status status) {
  Active& active = requests_[index];
  if (active.stopped) return;
  fail(active, std::move(status).with_range(active.request.offset_bytes, active.request.buffer.size()));
  if (active.queued) unlink(index);
  // The request stays alive while its waiting pieces are dropped. fail_result() itself ends the piece
  // it was called for.
  for (Index slot = 0; slot < depth_; ++slot) {
    if (pieces_[slot].request == index && pieces_[slot].in_engine) {
      engine_.cancel(std::uint64_t{pieces_[slot].generation} << 32 | slot);
    }
  }
  drop_waiting(index);
}

void RequestQueue::drop_waiting(Index index) {
  Active& active = requests_[index];
  std::erase_if(waiting_, [&](Index slot) {
    SubRequest& piece = pieces_[slot];
    if (piece.request != index) return false;
    active.end = std::min(active.end, piece.start + piece.done);
    piece.request = kNone;
    free_pieces_.push_back(slot);
    --active.pieces;
    return true;
  });
  complete_if_done(index);
}

void RequestQueue::complete_if_done(Index index) {
  Active& active = requests_[index];
  if (!active.used || active.pieces > 0 || active.queued) return;
  RequestResult completion;
  completion.tag = active.request.tag;
  completion.bytes = std::min(active.end, active.issued);
  const bool whole = active.issued == active.request.buffer.size() && completion.bytes >= active.min_bytes;
  if (!active.failure.ok()) {
    // A cancel or deadline after the last byte has no effect.
    const Code code = active.failure.code();
    const bool late = (code == Code::kCancelled || code == Code::kTimeout) && whole;
    if (!late) completion.status = std::move(active.failure);
  } else if (!whole) {
    completion.status = Status(Code::kShort, Layer::kIo,
                               "the file ends after " + std::to_string(completion.bytes) + " of " +
                                   std::to_string(active.min_bytes) + " bytes")
                            .with_range(active.request.offset_bytes, active.request.buffer.size());
  }
  stats_.bytes += completion.bytes;
  ready_.push_back(std::move(completion));
  active.used = false;
  active.failure = {};
  --active_;
  free_requests_.push_back(index);
}

void RequestQueue::unlink(Index index) {
  Index previous = kNone;
  for (Index i = first_; i != index; i = requests_[i].next) previous = i;
  const Index next = requests_[index].next;
  (previous == kNone ? first_ : requests_[previous].next) = next;
  if (last_ == index) last_ = previous;
  requests_[index].next = kNone;
  requests_[index].queued = false;
}

void RequestQueue::check_deadlines() {
  if (next_deadline_ns_ == kNever) return;
  const std::uint64_t now = options_.now_ns();
  if (now < next_deadline_ns_) return;
  next_deadline_ns_ = kNever;
  for (Index i = 0; i < requests_.size(); ++i) {
    const Active& active = requests_[i];
    if (!active.used || active.stopped || active.request.deadline_ns == 0) continue;
    if (active.request.deadline_ns <= now) {
      stop(i, Status(Code::kTimeout, Layer::kIo, "the deadline passed"));
    } else {
      next_deadline_ns_ = std::min(next_deadline_ns_, active.request.deadline_ns);
    }
  }
}

// The engine delivers no more completions, so every request ends with its status.
void RequestQueue::fail_all_requests(const Status& status) {
  broken_ = status;
  waiting_.clear();
  for (Index i = 0; i < requests_.size(); ++i) {
    Active& active = requests_[i];
    if (!active.used) continue;
    if (active.queued) unlink(i);
    fail(active, Status(broken_).with_range(active.request.offset_bytes, active.request.buffer.size()));
    active.end = 0;
    active.pieces = 0;
    complete_if_done(i);
  }
  for (SubRequest& piece : pieces_) piece.request = kNone;
}

std::chrono::nanoseconds RequestQueue::bounded(std::chrono::nanoseconds timeout) const {
  if (waiting_.empty() && next_deadline_ns_ == kNever) return timeout;
  std::uint64_t until = next_deadline_ns_;
  for (const Index slot : waiting_) until = std::min(until, pieces_[slot].not_before_ns);
  const std::uint64_t now = options_.now_ns();
  if (until <= now) {
    // Pieces that the engine had no room for wait for one of its completions.
    return in_engine_ > 0 ? timeout : std::chrono::nanoseconds(0);
  }
  const std::uint64_t left = std::min<std::uint64_t>(until - now, std::numeric_limits<std::int64_t>::max());
  return std::min(timeout, std::chrono::nanoseconds(static_cast<std::int64_t>(left)));
}

}  // namespace headrace::io
