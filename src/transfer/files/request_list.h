// RequestList: a queue's requests, from when they are added until their completions are taken.
//
// A request waits for its turn, is issued part by part, and has ended when it was wholly issued, or failed, and nothing
// of it is under way. Nothing allocates once there have been as many requests at a time as the workload needs.
//
// Threads: one at a time.
// Owns:    the requests' lists of ranges; memory and paths in them are the caller's.
#pragma once

#include <headrace/file.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headrace::transfer {

struct FileRequest {
  static constexpr std::uint32_t kNoFile = ~std::uint32_t{0};

  std::uint64_t tag = 0;
  bool write = false;
  bool stopped = false;             // has failed: nothing more of it is begun
  std::uint32_t file = kNoFile;     // of a QueueFiles
  std::size_t count = 0;            // of ranges
  std::vector<FileRange> ranges;    // a copy of the caller's
  std::span<const FileRange> list;  // what is issued from: the copy, or at first the caller's own
  std::vector<PathRange> paths;
  std::size_t next = 0;           // first range not wholly issued
  std::uint64_t next_byte = 0;    // within it
  std::uint64_t outstanding = 0;  // parts and pieces under way
  std::uint64_t bytes = 0;
  bool stream_passed = false;  // what was queued on the caller's stream before it was waited for on the host
  Status status;
  // The list's own
  bool under_way = false;  // until it has ended
  bool listed = false;     // waits for its turn
};

class RequestList {
 public:
  using Index = std::uint32_t;

  // A request to fill in; it is the next one again until begin(). Throws std::bad_alloc.
  Index next();
  // It is pending now, and waits for its turn.
  void begin(Index index) noexcept;
  FileRequest& operator[](Index index) noexcept { return requests_[index]; }
  const FileRequest& operator[](Index index) const noexcept { return requests_[index]; }

  // Those that are not wholly issued, oldest first.
  std::span<const Index> waiting() const noexcept { return std::span(waiting_).subspan(waiting_head_); }
  // The oldest of them is wholly issued, or was stopped.
  void first_is_issued() noexcept;
  // `count` parts or pieces of it are through.
  void step(Index index, std::uint64_t count) noexcept;
  // The first failure is the request's.
  void fail(Index index, Status status) noexcept;
  // Each that has not ended: of what is under way the ends are still waited for.
  void fail_all(const Status& status) noexcept;
  // All that are under way have ended, without waiting for anything.
  void end_all(const Status& status) noexcept;

  std::size_t pending() const noexcept { return pending_; }
  // Those that have ended and whose completions were not taken, oldest first.
  std::span<const Index> ended() const noexcept { return std::span(ended_).subspan(ended_head_); }
  // The completions of the first `count` of them were taken.
  void take_ended(std::size_t count) noexcept;
  // Changes when a request is issued or has ended.
  std::uint64_t turn() const noexcept { return turn_; }

 private:
  void end_if_done(Index index) noexcept;
  void end(Index index) noexcept;

  std::vector<FileRequest> requests_;
  std::vector<Index> free_;
  std::vector<Index> waiting_;  // from waiting_head_ on
  std::vector<Index> ended_;    // from ended_head_ on
  std::size_t waiting_head_ = 0, ended_head_ = 0, pending_ = 0;
  std::uint64_t turn_ = 0;
};

}  // namespace headrace::transfer
