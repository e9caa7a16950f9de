// Rig: contexts with every engine, devices with guarded destinations, and reads that are compared with what they mean.
//
// Threads: one. Several may share contexts.
#pragma once

#include <headrace/array.h>

#include <memory>
#include <string>
#include <vector>

#include "picks.h"
#include "place.h"
#include "support/guard_buffer.h"

namespace headrace::stress {

struct RigOptions {
  std::vector<std::string> devices;               // "host", "host-staged", "cuda:0"
  std::string directory;                          // stores are made below it
  std::string disk;                               // and here those that are read from a disk; "": none
  std::size_t most_bytes = std::size_t{1} << 20;  // of a destination
};

// Contexts with every engine, small waves and budgets. Engines that do not work here are left out.
std::vector<Context> make_contexts();

// How one read is done.
struct ReadPlan {
  std::size_t device = 0;
  Placement placement = Placement::kAuto;
  bool collect = false, blocking = false;
  bool whole = false;         // what cannot be read is found out; else a part of it may be right
  std::uint64_t padding = 0;  // elements between rows
  std::size_t shift = 0;      // bytes from the start of a page
  bool flush_right = false;
  bool may_fail = false;   // whatever is read: the store changes meanwhile
  bool cancelled = false;  // at once
};

struct Counts {
  std::uint64_t reads = 0, cancelled = 0, elements = 0, failed = 0, refused_chunks = 0, unsupported = 0,
                opens_refused = 0, device_chunks = 0, mapped_bytes = 0, direct_bytes = 0, buffered_bytes = 0,
                skipped_bytes = 0,
                not_judged = 0;  // in races: the writer was held up

  void add(const Counts& other);
};

class Rig {
 public:
  Rig(const RigOptions& options, std::vector<Context> contexts);

  const RigOptions& options() const { return options_; }
  std::size_t contexts() const { return contexts_.size(); }
  const Context& context(std::size_t i) const { return contexts_[i]; }
  ReadPlan plan(Dice& dice) const;

  // Reads and compares: each element as one of `meanings` has it, or refused where one of them allows that. "" if so,
  // else what is wrong.
  std::string read(const Array& array, const Picked& picked, const std::vector<const Meaning*>& meanings,
                   const ReadPlan& plan);
  // Reads where nobody knows what must be found: an error, or anything; nothing else is written.
  std::string read_any(const Array& array, const Picked& picked, const ReadPlan& plan);

  Counts counts;

 private:
  struct Destination;
  struct Outcome;
  std::string prepare(const Picked& picked, const ReadPlan& plan, std::size_t item_bytes, Destination& to);
  Outcome start_and_wait(const Array& array, const Picked& picked, const ReadPlan& plan, const Destination& to);
  std::string check_elements(const Picked& picked, const std::vector<const Meaning*>& meanings, const ReadPlan& plan,
                             const Destination& to, const Outcome& outcome);
  std::string run(const Array& array, const Picked& picked, const std::vector<const Meaning*>& meanings,
                  const ReadPlan& plan, std::size_t item_bytes);

  RigOptions options_;
  std::vector<Context> contexts_;
  std::vector<Device> devices_;
  std::vector<Buffer> buffers_;  // one a device that the host cannot write to; empty for others
  test::GuardArena arena_;
  Bytes got_;
};

}  // namespace headrace::stress
