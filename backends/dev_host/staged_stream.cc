#include "staged_stream.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "base/fault.h"
#include "host_memory.h"

namespace headrace::device {
namespace {

constexpr std::size_t kQueueSlack = 64, kSpareTasks = 32;
// A list of boxes may take megabytes, and there are as many streams as concurrent waves of all reads.
constexpr std::size_t kSpareBytes = std::size_t{2} << 20;

double environment_number(const char* name) noexcept {
  const char* text = ::secure_getenv(name);
  return text != nullptr ? std::strtod(text, nullptr) : 0.0;
}

// The live host-staged streams, for rejecting any other pointer that a caller passes as one.
struct StagedStreams {
  std::mutex mutex;
  std::set<const Stream*> all;  // guarded by mutex
};
StagedStreams& staged_streams() {
  static base::PerProcess<StagedStreams> streams;
  return streams.get();
}

}  // namespace

BusModel bus_of_environment() noexcept {
  return {environment_number("HEADRACE_STAGED_LATENCY_US"), environment_number("HEADRACE_STAGED_GBPS") * 1e3,
          environment_number("HEADRACE_STAGED_JITTER_US")};
}

std::uint64_t EventState::take_ticket() {
  std::lock_guard lock(mutex);
  return ++recorded;
}

void EventState::pass(std::uint64_t ticket) {
  std::lock_guard lock(mutex);
  if (ticket > done) done = ticket;
  passed_at = std::chrono::steady_clock::now();
  passed->notify_all();
}

void run_pieces(std::span<const Piece> pieces) noexcept {
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0) continue;
    if (is_registered_mapping(piece.src)) {
      copy_from_mapping(piece.dst, piece.src, piece.bytes);
    } else {
      std::memcpy(piece.dst, piece.src, piece.bytes);
    }
  }
}

void run_boxes(std::span<const Box> boxes, const ElementOp& op, const std::byte* fill) noexcept {
  for (const Box& box : boxes) copy_box(box, op, fill);
}

struct ThreadStream::State {
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<StreamTask> queue;  // guarded by mutex; used from `head` on, so that it stops allocating
  std::size_t head = 0;           // guarded by mutex
  std::vector<StreamTask> spare;  // guarded by mutex
  std::size_t spare_bytes = 0;    // guarded by mutex: capacity of their lists
  bool stop = false;              // guarded by mutex
  bool at_work = false;           // guarded by mutex
  bool awaited = false;           // guarded by mutex: rest() is waiting
  std::condition_variable rested;
  BusModel model;
  std::uint64_t jitter_state = 1;
  std::thread thread;

  explicit State(const BusModel& bus) : model(bus) {
    queue.reserve(kQueueSlack);
    spare.reserve(kSpareTasks);
    thread = std::thread([this] { loop(); });
  }
  ~State() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_one();
    thread.join();
  }

  // Waits until everything queued has run, then restores the initial state for the next stream.
  void rest() noexcept {
    std::unique_lock lock(mutex);
    awaited = true;
    rested.wait(lock, [&] { return head == queue.size() && !at_work; });
    awaited = false;
    spare.clear();
    spare_bytes = 0;
    jitter_state = 1;
  }

  void delay(const StreamTask& task) {
    double us = model.latency_us;
    if (model.jitter_us > 0) {
      jitter_state = jitter_state * 6364136223846793005u + 1442695040888963407u;
      us += model.jitter_us * static_cast<double>(jitter_state >> 33) / 2147483648.0;
    }
    if (model.bytes_per_us > 0) {
      for (const Piece& piece : task.pieces) us += static_cast<double>(piece.bytes) / model.bytes_per_us;
    }
    if (us > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
  }

  void loop() noexcept {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return stop || head < queue.size(); });
      if (head == queue.size()) return;
      StreamTask task = std::move(queue[head++]);
      at_work = true;
      if (head == queue.size() || head >= kQueueSlack) {
        queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(head));
        head = 0;
      }
      lock.unlock();
      if (!task.pieces.empty() || !task.boxes.empty() || !task.items.empty()) delay(task);
      if (!task.pieces.empty()) HEADRACE_DELAY("dev_host.copy");
      run_pieces(task.pieces);
      if (task.function != nullptr) task.function(task.data);
      run_pieces(task.late);
      if (task.stages != nullptr) task.stages->run(task.items, task.scratch, task.outcomes, task.indices);
      run_boxes(task.boxes, task.op, task.fill.data());
      if (task.event) task.event->pass(task.ticket);
      task.pieces.clear();
      task.boxes.clear();
      task.fill.clear();
      task.stages.reset();
      task.indices = {};
      task.function = nullptr;
      task.late = {};
      task.items.clear();
      task.event.reset();
      const std::size_t bytes = task.capacity_bytes();
      lock.lock();
      if (spare.size() < spare.capacity() && bytes <= kSpareBytes - std::min(kSpareBytes, spare_bytes)) {
        spare.push_back(std::move(task));
        spare_bytes += bytes;
      }
      at_work = false;
      if (awaited) rested.notify_one();
    }
  }
};

// Keeps threads for reuse: each read has its own stream, and starting and joining a thread takes longer than a small
// read's work.
class ThreadStream::Idle {
 public:
  Idle() { threads_->states.reserve(kMax); }
  // Null: none is idle.
  std::unique_ptr<State> take() {
    std::lock_guard lock(threads_->mutex);
    if (threads_->states.empty()) return nullptr;
    std::unique_ptr<State> state = std::move(threads_->states.back());
    threads_->states.pop_back();
    return state;
  }
  // Joins the thread if enough are kept.
  void keep(std::unique_ptr<State> state) noexcept {
    std::lock_guard lock(threads_->mutex);
    if (threads_->states.size() < kMax) threads_->states.push_back(std::move(state));
  }

 private:
  static constexpr std::size_t kMax = 8;
  struct Threads {
    std::mutex mutex;
    std::vector<std::unique_ptr<State>> states;  // guarded by mutex
  };
  base::ProcessOwn<Threads> threads_;
};

std::shared_ptr<ThreadStream::Idle> ThreadStream::make_idle() { return std::make_shared<Idle>(); }

ThreadStream::ThreadStream(const BusModel& model, std::shared_ptr<Idle> idle)
    : generation_(base::fork_generation()), idle_(std::move(idle)) {
  StagedStreams& streams = staged_streams();
  std::lock_guard lock(streams.mutex);
  const auto listed = streams.all.insert(this).first;
  try {
    state_ = idle_->take();
    if (state_ == nullptr) state_ = std::make_unique<State>(model);
  } catch (...) {
    streams.all.erase(listed);
    throw;
  }
}

ThreadStream::~ThreadStream() {
  if (generation_ != base::fork_generation()) {
    static_cast<void>(state_.release());  // the thread does not exist in this process and cannot be joined
    return;
  }
  {
    StagedStreams& streams = staged_streams();
    std::lock_guard lock(streams.mutex);
    streams.all.erase(this);
  }
  state_->rest();  // what is queued still runs, as on a GPU
  idle_->keep(std::move(state_));
}

bool ThreadStream::is_one(const void* native_stream) {
  StagedStreams& streams = staged_streams();
  std::lock_guard lock(streams.mutex);
  return streams.all.contains(static_cast<const Stream*>(native_stream));
}

StreamTask ThreadStream::fresh() {
  std::lock_guard lock(state_->mutex);
  if (state_->spare.empty()) return {};
  StreamTask task = std::move(state_->spare.back());
  state_->spare.pop_back();
  state_->spare_bytes -= task.capacity_bytes();
  return task;
}

void ThreadStream::push(StreamTask task) {
  {
    std::lock_guard lock(state_->mutex);
    state_->queue.push_back(std::move(task));
  }
  state_->wake.notify_one();
}

}  // namespace headrace::device
