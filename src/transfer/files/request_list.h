// RequestList: a queue's requests, from when they are added until their completions are taken.
//
// A request waits for its turn and is issued part by part. It has ended when it was issued completely or has failed,
// and none of it is in flight. Nothing allocates once there have been as many requests at a time as the workload needs.
//
// Threads: one at a time.
// Owns:    the requests' lists of ranges; memory and paths in them belong to the caller.
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
  bool stopped = false;             // has failed: nothing more of it is started
  std::uint32_t file = kNoFile;     // index in a QueueFiles
  std::size_t count = 0;            // of ranges
  std::vector<FileRange> ranges;    // a copy of the caller's
  std::span<const FileRange> list;  // what is issued: the copy, or at first the caller's own list
  std::vector<PathRange> paths;
  std::size_t next = 0;           // first range not completely issued
  std::uint64_t next_byte = 0;    // within it
  std::uint64_t outstanding = 0;  // parts and pieces in flight
  std::uint64_t bytes = 0;
  bool stream_passed = false;  // the host has waited for the work queued on the caller's stream
  Status status;
  // Used by the list only
  bool under_way = false;  // until it has ended
  bool listed = false;     // waits for its turn
};

class RequestList {
 public:
  using Index = std::uint32_t;

  // A request to fill in; the same one is returned again until begin(). Throws std::bad_alloc.
  Index next();
  // Makes the request pending and queues it.
  void begin(Index index) noexcept;
  FileRequest& operator[](Index index) noexcept { return requests_[index]; }
  const FileRequest& operator[](Index index) const noexcept { return requests_[index]; }

  // Requests that are not completely issued, oldest first.
  std::span<const Index> waiting() const noexcept { return std::span(waiting_).subspan(waiting_head_); }
  // The oldest waiting request is completely issued, or was stopped.
  void first_is_issued() noexcept;
  // `count` parts or pieces of the request are finished.
  void step(Index index, std::uint64_t count) noexcept;
  // Only the first failure is recorded.
  void fail(Index index, Status status) noexcept;
  // Fails every request that has not ended; parts in flight still have to finish.
  void fail_all(const Status& status) noexcept;
  // Ends every request in flight at once, without waiting.
  void end_all(const Status& status) noexcept;

  std::size_t pending() const noexcept { return pending_; }
  // Requests that have ended and whose completions were not taken, oldest first.
  std::span<const Index> ended() const noexcept { return std::span(ended_).subspan(ended_head_); }
  // The completions of the first `count` of ended() were taken.
  void take_ended(std::size_t count) noexcept;
  // Changes when a request is issued or ends.
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
