// CopyLane: batches of copies between host and device in one direction, used in turn on two streams. A batch is one
// copy call and one event; when the event has passed, take_passed() gives it back.
//
// Nothing allocates once batches have been as large as the workload needs.
//
// Threads: one at a time.
// Owns:    streams and events. What batches point to is their users', and lives until they were taken.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"
#include "transfer/files/file_part.h"
#include "transfer/pagecache/mapped_cache.h"

namespace headrace::transfer {

struct CopyBatch {
  struct Share {  // of a request: pieces from a mapping
    std::uint32_t request = 0;
    std::uint64_t pieces = 0;
    std::uint64_t end = 0;  // of the file, as far as they reach
  };
  std::uint64_t number = 0;  // of those of its lane, from 1; 0: nothing was put into it
  std::uint64_t bytes = 0;
  std::vector<device::Piece> pieces;
  std::vector<FilePart*> parts;
  std::vector<Share> shares;
  std::vector<std::shared_ptr<MappedWindow>> windows;
  Status status;  // of what was launched
  // The lane's own
  bool in_flight = false;
  std::uint64_t launched_ns = 0;  // 0 unless a trace is recorded
  std::unique_ptr<device::Event> event;

  void add(device::Piece piece, std::uint64_t length) {
    pieces.push_back(piece);
    bytes += length;
  }
  bool empty() const noexcept { return parts.empty() && shares.empty(); }
  // Large enough that waiting for more gains nothing.
  bool full() const noexcept;
  // Worth sending off while others keep the device busy.
  bool worth_a_copy() const noexcept;
};

class CopyLane {
 public:
  enum class Direction : std::uint8_t { kToDevice, kToHost };
  explicit CopyLane(Direction direction) noexcept : direction_(direction) {}

  // `parts`: most that a batch can have. Throws std::bad_alloc.
  Status open(std::shared_ptr<device::Device> device, std::size_t parts);
  bool is_open() const noexcept { return !batches_.empty(); }
  // REQUIRES: nothing in flight.
  void close() noexcept;

  // The batch that is being filled; null while all are in flight. `begins`: it is a new one.
  CopyBatch* filling(bool& begins) noexcept;
  // REQUIRES: is_open().
  const CopyBatch& filling() const noexcept { return batches_[filling_]; }
  // Sends it off, behind what is queued on `native_stream` if that is not null. False: it is empty, or all are in
  // flight.
  bool launch(void* native_stream);
  // The oldest in flight if the device is through with it: to be taken apart and given to recycle().
  CopyBatch* take_passed();
  void recycle(CopyBatch& batch) noexcept;
  std::size_t in_flight() const noexcept { return in_flight_; }
  // Asks the device for the oldest a few times. REQUIRES: in_flight() > 0.
  bool passes_soon() const;

 private:
  const Direction direction_;
  std::shared_ptr<device::Device> device_;
  std::vector<CopyBatch> batches_;
  std::size_t filling_ = 0, oldest_ = 0, in_flight_ = 0;
  std::uint64_t number_ = 0;
  std::unique_ptr<device::Stream> streams_[2];
};

}  // namespace headrace::transfer
