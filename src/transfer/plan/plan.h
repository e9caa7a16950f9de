// Plan: what a read has to fetch, handed out a wave at a time.
//
// A plan never holds a list of all chunks: fill() appends the next groups to a wave, and describe() works out the rest
// of a task from its ordinal when a worker gets to it. So a selection of 10^9 chunks costs no more memory than one of
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

// Which content of its object a chunk is of: equal ones mean equal bytes.
struct StoredVersion {
  os::FileIdentity file;    // of a file
  std::uint64_t named = 0;  // of an object of a store: from the version that it tells; 0: known only with the answer
  bool operator==(const StoredVersion&) const = default;
};

// An object as it was when a plan looked into it: where its chunks lie is only true of that.
//
// Threads: every call from any thread.
class SourceVersion {
 public:
  virtual ~SourceVersion() = default;
  // kAgainExhausted if the object has been changed since. Asked once all that is wanted of it has been read: then
  // nothing that was read is from a later version. Throws std::bad_alloc.
  virtual Status check() const = 0;
  // Where check() costs a round trip: begins one, whose check() waits for the answer, so that many are under way
  // together. Null: check() asks nobody, or there is no memory for more. Throws std::bad_alloc.
  virtual std::unique_ptr<const SourceVersion> begin_check() const { return nullptr; }
  // In which every change since shows; nothing: one might not.
  virtual std::optional<StoredVersion> stored() const noexcept { return std::nullopt; }
  // It has been changed, as reading it showed: whoever wants the object next looks into it anew.
  virtual void refute() const noexcept {}
};

// An object that several groups of a wave share.
struct Source {
  std::shared_ptr<store::ByteSource> object;  // null: unusable, `failure` says why
  std::shared_ptr<const std::string> key;     // shares its owner with others: made once for an object
  Status failure;
  std::shared_ptr<const SourceVersion> version = nullptr;  // null: there is nothing to ask

  std::optional<StoredVersion> stored() const noexcept { return version != nullptr ? version->stored() : std::nullopt; }
  Status check_version() const { return version != nullptr ? version->check() : Status(); }
  // What came of reading it.
  void note(const Status& status) const noexcept {
    if (status.code() == Code::kAgainExhausted && version != nullptr) version->refute();
  }
};

// What the chunks of a wave have in common: how they are decoded, and what becomes of their elements. Used only while
// the plan lives, and keeps nothing of it.
struct ChunkForm {
  std::shared_ptr<const codec::Chain> chain;  // its own, or the plan's
  device::ElementOp op;                       // from a decoded chunk into the tensor
  std::vector<std::byte> fill;                // op.result_bytes(): an element where nothing is stored
  std::vector<std::byte> damaged;             // likewise, where a chunk is damaged; empty: that ends the read
};

// Filled by the plan, kept and reused by the wave. Vectors keep their capacity.
struct WaveTasks {
  std::shared_ptr<const ChunkForm> form;  // of all tasks
  std::vector<TaskGroup> groups;
  std::vector<Task> tasks;
  std::vector<Source> sources;
  std::size_t max_tasks = 0;   // fill() stops at this many tasks
  std::size_t room_tasks = 0;  // but the first group may have as many, rather than be cut, if these are more
  Stats lookups;               // added to by fill(): what it opened and read itself, such as indexes of shards
  ~WaveTasks() { let_go(); }
  // REQUIRES: the wave has been filled.
  const codec::Chain& chain() const noexcept { return *form->chain; }
  const device::ElementOp& op() const noexcept { return form->op; }
  void clear() {
    groups.clear();
    tasks.clear();
    let_go();
  }
  // Of the sources, which may be kept open for others.
  void let_go() noexcept {
    if (sources.empty()) return;
    sources.clear();
    os::Descriptors::of_process().idle();
  }
};

// What a worker needs to know of one task.
struct TaskDetail {
  std::string key;  // of the object, NUL-terminated; capacity is reused
  device::Box box;  // dst: final; src: null, until whoever has the decoded chunk adds source_offset to it
  std::int64_t source_offset = 0;  // bytes of the decoded chunk before the box's first element
  std::span<std::byte> tensor;     // the memory that the box's destination is part of
  bool whole_chunk = false;  // the box takes all bytes of the decoded chunk in order and is contiguous in the tensor
  // The task has more boxes than this one: Plan::next_box() gives them, one after the other.
  bool several = false;
  // With several only: elements of all boxes together, and the bytes of the decoded chunk from the first to behind the
  // last of them.
  std::uint64_t elements = 0, span_begin = 0, span_end = 0;
  // The plan's own: how far next_box() has come.
  struct Walk {
    std::array<std::uint64_t, device::kMaxRank> begin, length, first, count, at;
  } walk;
  // Likewise, where several selections are read together: the one whose boxes are being given.
  struct Merged {
    std::uint64_t entry, end;
    std::size_t level;
    bool several;
  } merged;

  std::uint64_t element_count() const noexcept { return several ? elements : box.element_count(); }
};

// Whom a plan tells that what it waited for has come.
class LookupListener {
 public:
  // From any thread, perhaps before fill() has returned. Takes no lock of the plan's.
  virtual void lookup_came() noexcept = 0;

 protected:
  ~LookupListener() = default;
};

enum class More : std::uint8_t {
  kYes,
  kNo,            // nothing is left after this call
  kAfterLookups,  // the wave is not full: the call is to be made again for it, once lookup_came() has been called
};

class Plan {
 public:
  virtual ~Plan() = default;

  // A form that none of the others exceeds in size: what is made for it has room for all.
  virtual const std::shared_ptr<const ChunkForm>& largest_form() const noexcept = 0;
  // Whether all chunks are of that one.
  virtual bool one_form() const noexcept { return true; }
  // The form of what the next fill() gives; the same object as before while it does not change. Chunks of one form
  // follow each other. Throws std::bad_alloc.
  virtual Result<std::shared_ptr<const ChunkForm>> next_form() { return largest_form(); }
  // Appends groups of that form to `wave`, at least one unless the plan is exhausted or waits. Where a user's store has
  // to be asked first, nobody waits here for its answer, of which `listener` is told once.
  // REQUIRES: next_form() has been asked since the last wave was full unless there is one form only.
  virtual Result<More> fill(WaveTasks& wave, LookupListener& listener) = 0;
  // Whether the next fill() has to open a file before anything else; the plan then has none open itself.
  virtual bool opens_next() const noexcept { return false; }
  // The read has been stopped: what was asked for is not wanted. From any thread, also while fill() runs.
  virtual void give_up() noexcept {}
  virtual void describe(const TaskGroup& group, const Task& task, TaskDetail& detail) const = 0;
  // Goes on to the next box of the task that `detail` describes; false behind the last. Boxes of one task have no
  // element of the tensor in common.
  virtual bool next_box(TaskDetail& detail) const {
    (void)detail;
    return false;
  }

  virtual std::uint64_t chunk_count() const noexcept = 0;
  // Whether most chunks have much more than what is wanted of them, so that a part may be enough.
  virtual bool wants_parts() const noexcept { return false; }
  virtual store::Store& store() const noexcept = 0;
  virtual std::uint64_t max_group_bytes() const noexcept = 0;  // longest read of a group with several tasks
  // The chunk of a task, as the cache of decode indices knows it; array 0: none are kept. The same for every selection.
  virtual IndexKey index_key(const TaskGroup& group, const Task& task) const {
    (void)group, (void)task;
    return {};
  }
  virtual bool keeps_indices() const noexcept { return false; }
  // What is known of who is faster in this array's reads of a kind (placement_kind()), which begins with `prior`; null:
  // nothing, and nothing is kept. Throws std::bad_alloc.
  virtual std::shared_ptr<PlacementPolicy> placement(const std::string& kind,
                                                     const std::shared_ptr<PlacementPrior>& prior) const {
    (void)kind, (void)prior;
    return nullptr;
  }
};

}  // namespace headrace::transfer
