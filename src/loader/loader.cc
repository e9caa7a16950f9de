// A planner thread starts each read as soon as its batches have memory. next() waits for the oldest read.
#include <headrace/loader.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/access.h"
#include "base/checked.h"
#include "base/fork.h"
#include "base/trace.h"
#include "device/device.h"
#include "loader/array_schema.h"
#include "loader/batch_layout.h"
#include "loader/batch_ring.h"
#include "loader/batch_scaling.h"
#include "loader/loader_caches.h"
#include "loader/sampling/sampling_parts.h"
#include "zarr/kept_read.h"

namespace headrace {
class Loader::Impl {
 public:
  Impl(const Device& device, std::vector<LoaderArray> arrays, const LoaderOptions& options, Order order)
      : device_(device), arrays_(std::move(arrays)), options_(options), order_(std::move(order)) {}
  ~Impl() {
    if (thread_.inherited() || !thread_->joinable()) return;
    cancel();
    thread_->join();
    for (const Reading& reading : readings_) {
      for (const Completion& read : reading.reads) static_cast<void>(read.wait());
    }
  }

  Status start();
  Status restart_at(const LoaderState& state);
  Result<std::optional<LoaderBatch>> next();
  bool wait_for(std::chrono::nanoseconds timeout);
  void cancel() noexcept;
  void release_cache() noexcept { caches_.release(); }

  const std::vector<LoaderTensor>& tensors() const noexcept { return ring_->layout.tensors(); }
  std::uint64_t sample_count() const noexcept { return ring_->layout.sample_count(); }
  std::uint64_t batches() const noexcept { return batches_; }
  std::uint64_t batches_left() const noexcept { return ended_ ? 0 : split_->batches() - delivered_; }
  LoaderState state() const { return {options_.seed, split_->after(delivered_, epoch_), schema_}; }
  const LoaderSchema& schema() const noexcept { return schema_; }
  const LoaderStats& stats() const noexcept { return stats_; }

 private:
  using Slot = loader::Ring::Slot;
  struct Planned {  // a batch
    Slot* slot = nullptr;
    std::vector<std::uint64_t> samples;
    std::uint64_t valid = 0, number = 0;
  };
  // Batches that are read together, or the end of an epoch.
  struct Reading {
    std::vector<Planned> batches;
    std::vector<Completion> reads;  // at most one per array
    LoaderTiming timing;
    Status start_status;        // why some read could not start
    std::size_t delivered = 0;  // batches handed out
    bool waited = false, ends_epoch = false;
    bool beside_cache = false;  // a cache held device memory at its start, so a retry may succeed after release()
  };

  // Sets the position to that of `state`, or to the beginning. Changes nothing if it fails.
  Status move_to(const std::optional<LoaderState>& state);
  Status start_thread();
  void stop_reads() noexcept;
  Result<std::optional<LoaderBatch>> next_read();
  Status finish(Reading& reading);
  Status read_again(Reading& reading);
  std::uint64_t batches_from(const Split& split, std::uint64_t batch) const noexcept;
  void plan() noexcept;
  // `reading` has slots for the batches from `first` on. A failure is kept in reading.start_status. `reads`: see
  // begin_all().
  void begin(const EpochOrder& order, const Split& split, std::uint64_t epoch, std::uint64_t first, Reading& reading,
             loader::BatchReads& reads) noexcept;
  // `reads` is scratch memory that is reused by the next call.
  Status begin_all(std::uint64_t epoch, Reading& reading, loader::BatchReads& reads);
  Status grow(std::size_t count);
  Status fill(const loader::BatchReads& reads) const;
  // Whether next() need not wait for the planner: a read exists, none will follow, or none can start for lack of slots.
  bool has_next_locked() const noexcept {
    return !readings_.empty() || planned_all_ ||
           (needed_ > 0 && ring_->count_locked(Slot::Use::kOut) + needed_ > ring_->slots.size() &&
            ring_->to_grow_locked(needed_) == 0);
  }

  const Device device_;
  const std::vector<LoaderArray> arrays_;
  LoaderOptions options_;
  const Order order_;
  LoaderSchema schema_;
  std::uint64_t batches_ = 0;
  std::uint64_t together_ = 1;  // most batches per read
  std::shared_ptr<loader::Ring> ring_;
  std::optional<loader::BatchScaling> scaling_;
  base::ProcessOwn<std::thread> thread_;

  // Used by next() only.
  std::optional<Split> split_;
  std::uint64_t epoch_ = 0, delivered_ = 0;  // batches of split_ handed out
  bool ended_ = false;                       // all epochs are over
  LoaderStats stats_;

  loader::Caches caches_;
  // Guarded by the ring's mutex.
  std::list<Reading> readings_;
  std::list<Reading> handed_out_;  // handed out; the planner frees them, which would take half of next()'s time
  std::size_t in_flight_ = 0;      // readings_ that were not waited for, without ends of epochs
  std::size_t needed_ = 0;         // free slots that the planner waits for; 0: it does something else
  Status failed_;                  // the planner's own failure
  bool planned_all_ = false, stop_ = false;
  bool cancelled_ = false;  // stop_ for good
};

namespace {

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace

Status Loader::Impl::start() {
  HEADRACE_TRY_ASSIGN(loader::BatchLayout layout,
                      loader::BatchLayout::create(arrays_, options_.split.batch_size, options_.channels_last));
  if (order_.samples() != layout.sample_count()) {
    return loader::refuse("the order has " + std::to_string(order_.samples()) + " samples, but the arrays have " +
                          std::to_string(layout.sample_count()));
  }
  schema_ = loader::schema_of(order_, arrays_);
  HEADRACE_TRY_ASSIGN(const Split whole, Split::create(options_.split, order_.positions()));
  batches_ = whole.batches();
  HEADRACE_TRY(move_to(options_.state));
  if (options_.read_ahead == 0) return loader::refuse("read_ahead is 0");

  // One read's batches are handed out while the others are in flight.
  const std::uint64_t room = options_.memory_bytes / std::max<std::uint64_t>(layout.batch_bytes(), 1);
  together_ = options_.read_together;
  if (together_ == 0) {
    const std::uint64_t buffer = base::ceil_div(order_.buffer_positions(), split_->global_batch_size());
    together_ = std::clamp<std::uint64_t>(room / (std::uint64_t{options_.read_ahead} + 1), 1, buffer);
  }
  const std::uint64_t fit = room / together_;
  if (fit < 2) {
    return Status(Code::kResourceExhausted, Layer::kApi,
                  "memory_bytes = " + std::to_string(options_.memory_bytes) + " is too small for two reads of " +
                      std::to_string(together_) + " batches of " + std::to_string(layout.batch_bytes()) + " bytes");
  }
  const std::uint64_t reads = std::min<std::uint64_t>(fit, std::uint64_t{options_.read_ahead} + 1);
  const std::uint64_t bytes = layout.batch_bytes();
  ring_ = std::make_shared<loader::Ring>(std::move(layout));
  ring_->device = Access::impl(device_);
  HEADRACE_TRY_ASSIGN(ring_->gate, ring_->device->create_stream());
  scaling_.emplace(ring_->device);
  HEADRACE_TRY(caches_.make(ring_->device, arrays_, options_));
  ring_->max_slots = options_.memory_bytes / std::max<std::uint64_t>(bytes, 1);
  HEADRACE_TRY(grow(reads * together_));
  return start_thread();
}

Status Loader::Impl::move_to(const std::optional<LoaderState>& state) {
  if (state) HEADRACE_TRY(state->check(schema_, order_.positions()));
  const LoaderPosition at = state ? state->at : LoaderPosition();
  if (options_.epochs != 0 && at.epoch >= options_.epochs) {
    return loader::refuse("the state is past epoch " + std::to_string(options_.epochs) + ", the last one");
  }
  HEADRACE_TRY_ASSIGN(split_, Split::create(options_.split, order_.positions(), at.consumed));
  if (state) options_.seed = state->seed;
  epoch_ = at.epoch;
  delivered_ = 0;
  ended_ = false;
  return {};
}

Status Loader::Impl::start_thread() {
  try {
    *thread_ = std::thread([this] { plan(); });
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted, Layer::kApi, "cannot start the loader's thread").with_cause(error.what());
  }
  return {};
}

Status Loader::Impl::restart_at(const LoaderState& state) {
  if (ring_->mutex.inherited()) return loader::forked();
  HEADRACE_TRY(state.check(schema_, order_.positions()));  // before the reads are stopped, as is what move_to() checks
  if (options_.epochs != 0 && state.at.epoch >= options_.epochs) return move_to(state);
  stop_reads();
  if (thread_->joinable()) thread_->join();
  for (const Reading& reading : readings_) {
    for (const Completion& read : reading.reads) static_cast<void>(read.wait());
  }
  {
    std::lock_guard lock(*ring_->mutex);
    // Also those of a read that the planner had no memory to note.
    for (Slot& slot : ring_->slots) {
      if (slot.use == Slot::Use::kReading) slot.use = Slot::Use::kFree;
    }
    readings_.clear();
    handed_out_.clear();
    in_flight_ = needed_ = ring_->wanted = 0;
    planned_all_ = false;
    failed_ = {};
    stop_ = cancelled_;
  }
  Status status;
  try {
    status = move_to(state);
    if (status.ok()) status = start_thread();
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  if (status.ok()) return status;
  std::lock_guard lock(*ring_->mutex);
  failed_ = status;
  planned_all_ = true;
  return status;
}

Status Loader::Impl::grow(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    HEADRACE_TRY_ASSIGN(Buffer memory, Buffer::allocate(device_, ring_->layout.batch_bytes()));
    std::lock_guard lock(*ring_->mutex);
    ring_->slots.push_back({.memory = std::move(memory)});
  }
  return {};
}

// How many of a rank's batches, from this one on, are read together.
std::uint64_t Loader::Impl::batches_from(const Split& split, std::uint64_t batch) const noexcept {
  const std::uint64_t most = std::min(together_, split.batches() - batch);
  if (options_.read_together != 0) return most;
  // To the end of the buffer in which the batch begins, so that a loader that resumes inside a buffer does not read two
  // buffers by halves.
  const std::uint64_t buffer = order_.buffer_positions();
  const std::uint64_t left = buffer - split.batch(batch).position(0) % buffer;
  return std::min(most, base::ceil_div(left, split.global_batch_size()));
}

// Works on its own copies of split_ and epoch_, since next() lags behind.
void Loader::Impl::plan() noexcept {
  std::unique_lock lock(*ring_->mutex);
  try {
    Split split = *split_;
    std::uint64_t epoch = epoch_;
    loader::BatchReads reads;
    for (; options_.epochs == 0 || epoch < options_.epochs; ++epoch) {
      const EpochOrder order = order_.epoch(options_.seed, epoch);
      for (std::uint64_t batch = 0; batch < split.batches();) {
        const std::uint64_t count = batches_from(split, batch);
        needed_ = count;
        ring_->changed->notify_all();
        const auto free = [&] { return ring_->count_locked(Slot::Use::kFree); };
        ring_->changed->wait(lock, [&] {
          ring_->wanted = in_flight_ < options_.read_ahead ? count : 0;
          return stop_ || ring_->has_wanted_locked();
        });
        needed_ = ring_->wanted = 0;
        if (stop_) {
          failed_ = Status(Code::kCancelled, Layer::kApi, "the loader was cancelled");
          planned_all_ = true;
          ring_->changed->notify_all();
          return;
        }
        std::list<Reading> through;
        through.swap(handed_out_);
        if (free() < count) {
          // If the consumer keeps batches, more are allocated, up to memory_bytes.
          const std::size_t more = ring_->to_grow_locked(count);
          lock.unlock();
          const Status grown = grow(more);
          lock.lock();
          if (!grown.ok()) ring_->max_slots = ring_->slots.size();
          continue;
        }
        Reading reading;
        reading.batches.resize(count);
        std::size_t taken = 0;
        for (Slot& slot : ring_->slots) {
          if (slot.use != Slot::Use::kFree || taken == count) continue;
          slot.use = Slot::Use::kReading;
          reading.batches[taken++].slot = &slot;
        }
        lock.unlock();
        through.clear();
        begin(order, split, epoch, batch, reading, reads);
        lock.lock();
        if (stop_) {
          for (const Completion& read : reading.reads) read.cancel();
        }
        try {
          readings_.push_back(std::move(reading));
        } catch (const std::bad_alloc&) {
          for (const Completion& read : reading.reads) static_cast<void>(read.wait());
          throw;
        }
        ++in_flight_;
        ring_->changed->notify_all();
        batch += count;
      }
      readings_.emplace_back();
      readings_.back().ends_epoch = true;
      ring_->changed->notify_all();
      split = Split::create(options_.split, order_.positions()).value();  // a whole epoch; cannot fail, as in start()
    }
  } catch (const std::bad_alloc&) {
    if (!lock.owns_lock()) lock.lock();
    failed_ = Status::out_of_memory();
  }
  planned_all_ = true;
  ring_->changed->notify_all();
}

void Loader::Impl::begin(const EpochOrder& order, const Split& split, std::uint64_t epoch, std::uint64_t first,
                         Reading& reading, loader::BatchReads& reads) noexcept {
  reading.timing.planned_ns = now_ns();
  reading.timing.batches = reading.batches.size();
  try {
    for (std::size_t i = 0; i < reading.batches.size(); ++i) {
      Planned& planned = reading.batches[i];
      const RankBatch batch = split.batch(first + i);
      planned.valid = batch.valid;
      planned.number = first + i;
      planned.samples.reserve(batch.size);
      for (std::uint64_t place = 0; place < batch.size; ++place) {
        planned.samples.push_back(order.sample(batch.position(place)));
      }
    }
    reading.start_status = begin_all(epoch, reading, reads);
  } catch (const std::bad_alloc&) {
    reading.start_status = Status::out_of_memory();
  }
  reading.timing.begun_ns = now_ns();
}

Status Loader::Impl::begin_all(std::uint64_t epoch, Reading& reading, loader::BatchReads& reads) {
  reading.reads.reserve(arrays_.size());  // reserved first, since every started read must be waited for
  if (options_.leave_free_bytes != 0) {
    const std::optional<std::uint64_t> free = ring_->device->free_bytes();
    if (free && *free < options_.leave_free_bytes / 2) caches_.release();
  }
  reading.beside_cache = caches_.has_device_memory();
  reads.begin(arrays_.size());
  for (const Planned& planned : reading.batches) {
    for (std::size_t place = 0; place < planned.samples.size(); ++place) {
      HEADRACE_TRY(ring_->layout.add(arrays_, options_.seed, epoch, planned.samples[place], place,
                                     planned.slot->bytes(), reads));
    }
  }
  HEADRACE_TRY(fill(reads));
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const std::span<const ReadPart> parts = reads.parts[i].parts();
    if (parts.empty()) continue;  // everything is padding
    ReadOptions options = arrays_[i].read;
    options.native_stream = ring_->device->native_handle(*ring_->gate);
    const device::NumberType type = loader::number_type_of(ring_->layout.dtype_of(i));
    auto scaling = scaling_->make_read_end(arrays_[i].scale_by, type, reads.scaled[i]);
    HEADRACE_TRY_ASSIGN(Completion read, zarr::read_many_kept(arrays_[i].array, parts, device_, options, caches_.of(i),
                                                              std::move(scaling)));
    reading.reads.push_back(std::move(read));
  }
  return {};
}

// Queues the padding on the gate, for which reads into the same batch wait. Arrays without a read are waited for here.
Status Loader::Impl::fill(const loader::BatchReads& reads) const {
  std::unique_ptr<device::Event> filled;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (reads.padding[i].empty()) continue;
    const std::size_t bytes = ring_->layout.dtype_of(i).item_bytes;
    std::vector<std::byte> element = arrays_[i].padding;
    element.resize(bytes);
    std::lock_guard lock(*ring_->mutex);
    HEADRACE_TRY(ring_->device->assemble(reads.padding[i], {.element_bytes = static_cast<std::uint32_t>(bytes)},
                                         element.data(), *ring_->gate));
    if (!reads.parts[i].parts().empty()) continue;
    HEADRACE_TRY_ASSIGN(filled, ring_->device->create_event());
    HEADRACE_TRY(ring_->device->record(*filled, *ring_->gate));
  }
  return filled ? ring_->device->synchronize(*filled) : Status();
}

bool Loader::Impl::wait_for(std::chrono::nanoseconds timeout) {
  if (ring_->mutex.inherited()) return true;
  const trace::Span waiting(trace::WaitFor{trace::Stage::kWait});
  const auto end = std::chrono::steady_clock::now() + timeout;
  const Reading* reading = nullptr;
  {
    std::unique_lock lock(*ring_->mutex);
    if (!ring_->changed->wait_until(lock, end, [&] { return has_next_locked(); })) return false;
    if (!readings_.empty()) reading = &readings_.front();  // stays in place until next() takes it
  }
  if (reading == nullptr || reading->waited) return true;
  for (const Completion& read : reading->reads) {
    const auto left = std::max(std::chrono::nanoseconds(0), end - std::chrono::steady_clock::now());
    if (!read.wait_for(left)) return false;
  }
  return true;
}

void Loader::Impl::cancel() noexcept {
  if (ring_->mutex.inherited()) return;
  {
    std::lock_guard lock(*ring_->mutex);
    cancelled_ = true;
  }
  stop_reads();
}

void Loader::Impl::stop_reads() noexcept {
  {
    std::lock_guard lock(*ring_->mutex);
    stop_ = true;
    for (const Reading& reading : readings_) {
      for (const Completion& read : reading.reads) read.cancel();
    }
  }
  ring_->changed->notify_all();
}

namespace {
bool is_damage(const Status& status) noexcept {
  return status.code() == Code::kCorrupt || status.code() == Code::kShort;
}
}  // namespace

Result<std::optional<LoaderBatch>> Loader::Impl::next() {
  for (;;) {
    auto batch = next_read();
    if (options_.on_damage == OnDamage::kFail || batch.ok() || !is_damage(batch.status())) return batch;
  }
}

// Waits for the reads. Returns the first failure and adds up their times.
Status Loader::Impl::finish(Reading& reading) {
  Status status = reading.start_status;
  LoaderTiming& timing = reading.timing;
  for (const Completion& read : reading.reads) {
    const Status done = read.wait();
    if (status.ok()) status = done;
    const Stats& stats = read.stats();
    stats_.reads += stats;
    // An estimate: each read started between planned_ns and begun_ns.
    timing.ready_ns =
        std::max(timing.ready_ns, timing.planned_ns + static_cast<std::uint64_t>(stats.wall_seconds * 1e9));
    timing.read_seconds += stats.open_seconds + stats.read_seconds;
    timing.decode_seconds += stats.decode_seconds;
    timing.place_seconds += stats.assemble_seconds + stats.copy_seconds;
    timing.chunks += stats.chunks + stats.missing_chunks;
    timing.kept_chunks += stats.kept_chunks;
    timing.read_bytes += stats.read_bytes;
    timing.decoded_bytes += stats.decoded_bytes;
  }
  timing.ready_ns = std::min(std::max(timing.ready_ns, timing.begun_ns), now_ns());
  return status;
}

// Reads again with the device memory of the released caches. First waits for all other reads, which may still use it.
Status Loader::Impl::read_again(Reading& reading) {
  std::vector<const Completion*> others;
  {
    std::lock_guard lock(*ring_->mutex);
    for (const Reading& other : readings_) {
      for (const Completion& read : other.reads) others.push_back(&read);  // stays in place: only next() takes reads
    }
  }
  for (const Completion* const read : others) static_cast<void>(read->wait());
  reading.reads.clear();
  loader::BatchReads reads;
  reading.start_status = begin_all(epoch_, reading, reads);
  return finish(reading);
}

Result<std::optional<LoaderBatch>> Loader::Impl::next_read() {
  if (ring_->mutex.inherited()) return loader::forked();
  const auto begin = std::chrono::steady_clock::now();
  std::optional<trace::Span> waiting(std::in_place, trace::WaitFor{trace::Stage::kWait});
  std::unique_lock lock(*ring_->mutex);
  ring_->changed->wait(lock, [&] { return has_next_locked(); });
  if (readings_.empty()) {
    if (!planned_all_) {
      return Status(Code::kResourceExhausted, Layer::kApi,
                    std::to_string(ring_->count_locked(Slot::Use::kOut)) + " of " +
                        std::to_string(ring_->slots.size()) +
                        " batches are held; no memory is left to read the next batch: release some, or raise "
                        "memory_bytes");
    }
    ended_ = true;
    if (!failed_.ok()) return failed_;
    return std::optional<LoaderBatch>();
  }
  // Only this thread removes from the front, and adding at the back moves nothing.
  Reading& reading = readings_.front();
  if (reading.ends_epoch) {
    readings_.pop_front();
    ++epoch_;
    delivered_ = 0;
    ended_ = options_.epochs != 0 && epoch_ >= options_.epochs;
    lock.unlock();
    split_ = Split::create(options_.split, order_.positions()).value();
    return std::optional<LoaderBatch>();
  }
  Status status;
  if (!reading.waited) {
    lock.unlock();
    status = finish(reading);
    if (status.code() == Code::kResourceExhausted && reading.beside_cache) {
      caches_.release();
      status = read_again(reading);
    }
    stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    caches_.note(stats_);
    lock.lock();
    reading.waited = true;
    --in_flight_;
    ring_->wanted = needed_;
  }
  waiting.reset();
  if (!status.ok()) {
    delivered_ += reading.batches.size() - reading.delivered;
    if (is_damage(status)) stats_.skipped += reading.batches.size();
    for (std::size_t i = reading.delivered; i < reading.batches.size(); ++i) {
      reading.batches[i].slot->use = Slot::Use::kFree;
    }
    readings_.pop_front();
    lock.unlock();
    ring_->changed->notify_all();
    return status;
  }
  auto held = std::make_unique<LoaderBatch::Held>();
  Planned& planned = reading.batches[reading.delivered];
  held->ring = ring_;
  held->slot = planned.slot;
  held->samples = std::move(planned.samples);
  held->valid = planned.valid;
  held->number = planned.number;
  held->epoch = epoch_;
  held->timing = reading.timing;
  held->timing.asked_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(begin.time_since_epoch()).count());
  held->timing.given_ns = now_ns();
  planned.slot->use = Slot::Use::kOut;
  ++delivered_;
  ++stats_.batches;
  if (++reading.delivered == reading.batches.size())
    handed_out_.splice(handed_out_.end(), readings_, readings_.begin());
  const bool wakes = ring_->has_wanted_locked();
  lock.unlock();
  if (wakes) ring_->changed->notify_all();
  return std::optional<LoaderBatch>(Access::make<LoaderBatch>(std::move(held)));
}

Result<Loader> Loader::create(const Device& device, std::vector<LoaderArray> arrays, const LoaderOptions& options) {
  if (arrays.empty()) return loader::refuse("a loader needs an array");
  std::optional<Order> order = options.order;
  if (!order) {
    const std::uint64_t samples =
        std::visit([](const auto& some) { return some.sample_count(); }, arrays.front().samples);
    HEADRACE_TRY_ASSIGN(order, Order::sequential(samples));
  }
  auto impl = std::make_unique<Impl>(device, std::move(arrays), options, *order);
  HEADRACE_TRY(impl->start());
  return Loader(std::move(impl));
}

Loader::Loader(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Loader::Loader(Loader&& other) noexcept = default;
Loader& Loader::operator=(Loader&& other) noexcept = default;
Loader::~Loader() = default;
Result<std::optional<LoaderBatch>> Loader::next() { return impl_->next(); }
Status Loader::restart_at(const LoaderState& state) { return impl_->restart_at(state); }
bool Loader::wait_for(std::chrono::nanoseconds timeout) { return impl_->wait_for(timeout); }
void Loader::cancel() noexcept { impl_->cancel(); }
void Loader::release_cache() noexcept { impl_->release_cache(); }
const std::vector<LoaderTensor>& Loader::tensors() const noexcept { return impl_->tensors(); }
std::uint64_t Loader::sample_count() const noexcept { return impl_->sample_count(); }
std::uint64_t Loader::batches() const noexcept { return impl_->batches(); }
std::uint64_t Loader::batches_left() const noexcept { return impl_->batches_left(); }
LoaderState Loader::state() const { return impl_->state(); }
LoaderSchema Loader::schema() const { return impl_->schema(); }
const LoaderStats& Loader::stats() const noexcept { return impl_->stats(); }

}  // namespace headrace
