// CopyLane: batches of copies between host and device in one direction, on two alternating streams. A batch is one copy
// call and one event; take_passed() returns it when the event has passed.
//
// Nothing allocates once batches have been as large as the workload needs.
//
// Threads: one at a time.
// Owns:    streams and events. What batches point to belongs to their users, and lives until the batch has been taken.
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
  struct Share {  // pieces of one request from a mapping
    std::uint32_t request = 0;
    std::uint64_t pieces = 0;
    std::uint64_t end = 0;  // the end of the pieces in the file
  };
  std::uint64_t number = 0;  // number among its lane's batches, from 1; 0: nothing was added
  std::uint64_t bytes = 0;
  std::vector<device::Piece> pieces;
  std::vector<FilePart*> parts;
  std::vector<Share> shares;
  std::vector<std::shared_ptr<MappedWindow>> windows;
  Status status;  // of the launch
  // Used by the lane only
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
  // Worth launching even while other batches keep the device busy.
  bool worth_a_copy() const noexcept;
};

class CopyLane {
 public:
  enum class Direction : std::uint8_t { kToDevice, kToHost };
  explicit CopyLane(Direction direction) noexcept : direction_(direction) {}

  // `parts`: upper bound for a batch. Throws std::bad_alloc.
  Status open(std::shared_ptr<device::Device> device, std::size_t parts);
  bool is_open() const noexcept { return !batches_.empty(); }
  // REQUIRES: nothing in flight.
  void close() noexcept;

  // The batch to fill; null while all are in flight. `begins`: it is a new one.
  CopyBatch* filling(bool& begins) noexcept;
  // REQUIRES: is_open().
  const CopyBatch& filling() const noexcept { return batches_[filling_]; }
  // Launches the batch being filled, after the work queued on `native_stream` if that is not null. False: it is empty,
  // or all batches are in flight.
  bool launch(void* native_stream);
  // The oldest batch in flight if the device has finished it: the caller handles its contents and calls recycle().
  CopyBatch* take_passed();
  void recycle(CopyBatch& batch) noexcept;
  std::size_t in_flight() const noexcept { return in_flight_; }
  // Queries the oldest batch's event a few times. REQUIRES: in_flight() > 0.
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
