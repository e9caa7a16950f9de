// Plan: turns a selection into work for a read, a wave at a time.
//
// A plan never holds a list of all chunks: fill() appends the next groups to a wave, and describe() computes the rest
// of a task from its ordinal when a worker needs it. So a selection of 10^9 chunks takes no more memory than one of
// ten.
//
// Threads: next_form() and fill() by one thread at a time; describe() and the rest from any number of threads, also
//          during those.
#pragma once

#include <headrace/stats.h>
#include <headrace/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/chain.h"
#include "device/box.h"
#include "os/descriptors.h"
#include "os/file_handle.h"
#include "store/store.h"
#include "transfer/placement/placement.h"
#include "transfer/plan/group_cost.h"
#include "transfer/plan/index_cache.h"

namespace headrace::transfer {

inline constexpr std::uint64_t kWholeObject = ~std::uint64_t{0};
inline constexpr std::uint32_t kNoSource = ~std::uint32_t{0};

// One chunk to decode and place.
struct Task {
  std::uint64_t ordinal = 0;            // the plan's own numbering
  std::uint64_t offset = 0;             // of its stored bytes in the object
  std::uint64_t length = kWholeObject;  // kWholeObject: the object is the chunk; 0: absent, filled
};

// Neighbouring tasks fetched by one read. The unit that a worker takes.
struct TaskGroup {
  std::uint64_t ordinal = 0;  // the plan's own numbering (shard)
  std::uint64_t offset = 0, length = kWholeObject;
  std::uint32_t first_task = 0, task_count = 0;
  std::uint32_t source = kNoSource;  // index into WaveTasks::sources; kNoSource: open the task's own key
};

// The version of an object that a chunk belongs to: equal versions mean equal bytes.
struct StoredVersion {
  os::FileIdentity file;  // for files
  // For objects of a store: made from the version that it reports; 0: known only with the answer.
  std::uint64_t named = 0;
  bool operator==(const StoredVersion&) const = default;
};

// The version of an object that a plan looked into; the plan's chunk locations hold only for that version.
//
// Threads: every call from any thread.
class SourceVersion {
 public:
  virtual ~SourceVersion() = default;
  // kAgainExhausted if the object has been changed since. Call after everything needed of it has been read: then none
  // of the bytes read belong to a later version. Throws std::bad_alloc.
  virtual Status check() const = 0;
  // If check() costs a round trip: starts one, and the result's check() waits for the answer, so that many checks
  // overlap. Null: check() makes no request, or memory is short. Throws std::bad_alloc.
  virtual std::unique_ptr<const SourceVersion> begin_check() const { return nullptr; }
  // The version, if it reflects every later change; nullopt: a change might not show in it.
  virtual std::optional<StoredVersion> stored() const noexcept { return std::nullopt; }
  // Called when a read has shown that the object has changed: the next user of the object looks into it again.
  virtual void mark_stale() const noexcept {}
};

// An object that several groups of a wave share.
struct Source {
  std::shared_ptr<store::ByteSource> object;  // null: unusable, see `failure`
  std::shared_ptr<const std::string> key;     // made once per object, and shared
  Status failure;
  std::shared_ptr<const SourceVersion> version = nullptr;  // null: nothing can be checked

  std::optional<StoredVersion> stored() const noexcept { return version != nullptr ? version->stored() : std::nullopt; }
  Status check_version() const { return version != nullptr ? version->check() : Status(); }
  // Called with the outcome of reading it.
  void note(const Status& status) const noexcept {
    if (status.code() == Code::kAgainExhausted && version != nullptr) version->mark_stale();
  }
};

// What the chunks of a wave have in common: how they are decoded and converted. Used only while the plan lives, but
// does not keep the plan alive.
struct ChunkForm {
  std::shared_ptr<const codec::Chain> chain;  // its own, or the plan's
  device::ElementOp op;                       // from a decoded chunk into the tensor
  std::vector<std::byte> fill;                // op.result_bytes() long: an element where nothing is stored
  std::vector<std::byte> damaged;             // likewise, where a chunk is damaged; empty: damage ends the read
};

// Filled by the plan, kept and reused by the wave. Vectors keep their capacity.
struct WaveTasks {
  std::shared_ptr<const ChunkForm> form;  // of all tasks
  std::vector<TaskGroup> groups;
  std::vector<Task> tasks;
  std::vector<Source> sources;
  std::size_t max_tasks = 0;   // fill() stops at this many tasks
  std::size_t room_tasks = 0;  // if larger, the first group may have this many instead of being cut
  Stats lookups;               // added to by fill(): what the plan opened and read itself, such as shard indexes
  ~WaveTasks() { release_sources(); }
  // REQUIRES: the wave has been filled.
  const codec::Chain& chain() const noexcept { return *form->chain; }
  const device::ElementOp& op() const noexcept { return form->op; }
  void clear() {
    groups.clear();
    tasks.clear();
    release_sources();
  }
  // Releases the sources, which others may keep open.
  void release_sources() noexcept {
    if (sources.empty()) return;
    sources.clear();
    os::Descriptors::of_process().idle();
  }
};

// Details of one task that a worker needs.
struct TaskDetail {
  std::string key;  // of the object, NUL-terminated; capacity is reused
  device::Box box;  // dst: final; src: null, until the owner of the decoded chunk adds source_offset to it
  std::int64_t source_offset = 0;  // bytes of the decoded chunk before the box's first element
  std::span<std::byte> tensor;     // the memory that contains the box's destination
  bool whole_chunk = false;  // the box takes all bytes of the decoded chunk in order and is contiguous in the tensor
  // The task has further boxes, which Plan::next_box() produces one after another.
  bool several = false;
  // Only if `several`: elements of all boxes together, and the span of decoded bytes that they take.
  std::uint64_t elements = 0, span_begin = 0, span_end = 0;
  // The plan's own: state of next_box().
  struct Walk {
    std::array<std::uint64_t, device::kMaxRank> begin, length, first, count, at;
  } walk;
  // The plan's own, where several selections are read together: the selection whose boxes are being produced.
  struct Merged {
    std::uint64_t entry, end;
    std::size_t level;
    bool several;
  } merged;

  std::uint64_t element_count() const noexcept { return several ? elements : box.element_count(); }
};

// Notified when a lookup that a plan waited for is complete.
class LookupListener {
 public:
  // Called from any thread, perhaps before fill() has returned. Must not lock the plan.
  virtual void lookup_done() noexcept = 0;

 protected:
  ~LookupListener() = default;
};

enum class More : std::uint8_t {
  kYes,
  kNo,            // nothing is left after this call
  kAfterLookups,  // the wave is not full: call fill() for it again after lookup_done()
};

class Plan {
 public:
  virtual ~Plan() = default;

  // A form that is at least as large as all others: memory made for it suffices for each of them.
  virtual const std::shared_ptr<const ChunkForm>& largest_form() const noexcept = 0;
  // Whether all chunks have that form.
  virtual bool one_form() const noexcept { return true; }
  // The form of what the next fill() appends; the same object while it does not change. Chunks of one form are
  // consecutive. Throws std::bad_alloc.
  virtual Result<std::shared_ptr<const ChunkForm>> next_form() { return largest_form(); }
  // Appends groups of that form to `wave`, at least one unless the plan is exhausted or waits. Does not wait for
  // requests to a user's store; `listener` is called once when the answers are there.
  // REQUIRES: next_form() has been called since the last wave became full, unless there is only one form.
  virtual Result<More> fill(WaveTasks& wave, LookupListener& listener) = 0;
  // Whether the next fill() has to open a file before anything else; the plan itself then has none open.
  virtual bool opens_next() const noexcept { return false; }
  // The read has been stopped: cancels pending lookups. From any thread, also while fill() runs.
  virtual void cancel() noexcept {}
  virtual void describe(const TaskGroup& group, const Task& task, TaskDetail& detail) const = 0;
  // Advances to the next box of the task that `detail` describes; false after the last. Boxes of one task do not
  // overlap in the tensor.
  virtual bool next_box(TaskDetail& detail) const {
    (void)detail;
    return false;
  }

  virtual std::uint64_t chunk_count() const noexcept = 0;
  // Whether most chunks are much larger than the wanted part of them, so that reading parts may pay.
  virtual bool wants_parts() const noexcept { return false; }
  virtual store::Store& store() const noexcept = 0;
  virtual std::uint64_t max_group_bytes() const noexcept = 0;  // longest read of a group with several tasks
  // The task's chunk as a key of the decode index cache; array 0: none are kept. The same for every selection.
  virtual IndexKey index_key(const TaskGroup& group, const Task& task) const {
    (void)group, (void)task;
    return {};
  }
  virtual bool keeps_indices() const noexcept { return false; }
  // The policy that has learnt who decodes this array's reads of a kind (placement_kind()) faster; a new one starts
  // from `prior`. Null: nothing is known or kept. Throws std::bad_alloc.
  virtual std::shared_ptr<PlacementPolicy> placement(const std::string& kind,
                                                     const std::shared_ptr<PlacementPrior>& prior) const {
    (void)kind, (void)prior;
    return nullptr;
  }
  // What groups of this array's reads cost a worker. Null: nothing is kept.
  virtual std::shared_ptr<GroupCost> group_cost(bool staged) const {
    (void)staged;
    return nullptr;
  }
};

}  // namespace headrace::transfer
