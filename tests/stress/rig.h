// Rig: contexts with every engine, devices with guarded destinations, and reads that are compared with their expected
// meaning.
//
// Threads: one. Several rigs may share contexts.
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
  std::vector<std::string> devices;              // "host", "host-staged", "cuda:0"
  std::string directory;                         // stores are made below it
  std::string disk;                              // stores that are read from a disk are made below it; "": none
  std::size_t max_bytes = std::size_t{1} << 20;  // of a destination
};

// Contexts with every engine that works here, small waves and small budgets.
std::vector<Context> make_contexts();

// Parameters of one read.
struct ReadPlan {
  std::size_t device = 0;
  Placement placement = Placement::kAuto;
  bool collect = false, blocking = false;
  bool whole = false;         // verify whole chunks; otherwise a part of a damaged chunk may be right
  std::uint64_t padding = 0;  // in elements, between rows
  std::size_t shift = 0;      // in bytes, from the start of a page
  bool flush_right = false;
  bool may_fail = false;   // any element: the store changes during the read
  bool cancelled = false;  // right after the start
};

struct Counts {
  std::uint64_t reads = 0, cancelled = 0, elements = 0, failed = 0, refused_chunks = 0, unsupported = 0,
                opens_refused = 0, device_chunks = 0, mapped_bytes = 0, direct_bytes = 0, buffered_bytes = 0,
                skipped_bytes = 0,
                not_judged = 0;  // in races: the writer was suspended

  void add(const Counts& other);
};

class Rig {
 public:
  Rig(const RigOptions& options, std::vector<Context> contexts);

  const RigOptions& options() const { return options_; }
  std::size_t contexts() const { return contexts_.size(); }
  const Context& context(std::size_t i) const { return contexts_[i]; }
  ReadPlan plan(Dice& dice) const;

  // Reads and compares: each element must be as in one of `meanings`, or refused if one of them allows that. Returns ""
  // or what is wrong.
  std::string read(const Array& array, const Picked& picked, const std::vector<const Meaning*>& meanings,
                   const ReadPlan& plan);
  // Reads when the right result is unknown: any elements or an error; nothing else is written.
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
  std::vector<Buffer> buffers_;  // one for each device that the host cannot write to; empty for others
  test::GuardArena arena_;
  Bytes got_;
};

}  // namespace headrace::stress
