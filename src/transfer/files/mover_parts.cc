// Mover: the life of parts and batches, from start to end.
#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "os/file_mapping.h"
#include "transfer/files/mover.h"

namespace headrace::transfer {

// Null while all batches are in flight.
CopyBatch* Mover::filling(CopyLane& lane) {
  bool begins = false;
  CopyBatch* const batch = lane.filling(begins);
  if (begins) router_.begin_round();  // the version of a file decides which of its windows the batch may use
  return batch;
}

void Mover::launch(CopyLane& lane) {
  const std::uint64_t bytes = lane.filling().bytes;
  if (!lane.launch(options_.native_stream)) return;
  resources_->mapped().note_traffic();
  ++stats_.waves;
  if (!skips_.copy) stats_.bus_bytes += bytes;
}

// Starts a part whose host memory is ready to be read into, or holds the bytes to write.
void Mover::start_part(FilePart& part) {
  if (skips_.io) {
    // Sizes named by a path are unchecked, so the batch may have no room for the part.
    part.kind == FilePart::Kind::kPath ? arrived_.push_back(&part) : (void)arrive(part);
  } else if (part.kind == FilePart::Kind::kDirect) {
    start_direct(part);
  } else {
    crew_.add(part);
  }
}

bool Mover::open_direct() noexcept {
  if (direct_.open(resources_->options().engine, options_.depth, staged_ ? device_.get() : nullptr, router_.notes()))
    return true;
  router_.give_up_direct();
  return false;
}

// Whether the engine should read into the device's memory directly.
bool Mover::goes_straight(FileRequest& request) {
  if (!staged_ || skips_.copy || skips_.io || !straight_reads_.possible() || !open_direct() ||
      !direct_.reaches_device())
    return false;
  if (options_.native_stream != nullptr && !request.stream_passed) {
    if (!wait_for_caller_stream().ok()) return false;  // a copy will report why
    request.stream_passed = true;
  }
  return true;
}

// Copies wait for the caller's stream on the device; an engine cannot.
Status Mover::wait_for_caller_stream() {
  if (caller_stream_event_ == nullptr) {
    HEADRACE_TRY_ASSIGN(caller_stream_, device_->create_stream());
    HEADRACE_TRY_ASSIGN(caller_stream_event_, device_->create_event());
  }
  HEADRACE_TRY(device_->wait_native(*caller_stream_, options_.native_stream));
  HEADRACE_TRY(device_->record(*caller_stream_event_, *caller_stream_));
  return device_->synchronize(*caller_stream_event_);
}

void Mover::start_direct(FilePart& part) {
  const bool has_engine = open_direct();
  const os::DirectAlignment& alignment = part.handle->direct_alignment();
  const int fd = has_engine ? part.handle->direct_fd() : -1;
  const auto aligned = [&](const std::byte* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % alignment.memory_bytes == 0;
  };
  if (part.straight) {
    if (fd >= 0) {
      direct_.add(part, fd, os::widen(part.offset, part.length, 1), 1);
      return;
    }
    part.straight = false;
    part.host = part.slot;
  }
  const os::WidenedRange range = os::widen(part.offset, part.length, alignment.offset_bytes);
  bool possible = fd >= 0;
  if (possible && part.slot == nullptr && (range.length_bytes != part.length || !aligned(part.host))) {
    // In place on a host device, but not aligned as the disk requires: use a slot of the slab.
    possible = parts_.lend_slot(part, range.length_bytes);
    if (possible) {
      part.host = part.slot + range.lead_bytes;
      if (part.write) std::memcpy(part.host, part.memory, part.length);
    }
  } else if (possible && part.slot != nullptr) {
    possible = range.length_bytes <= part.slot_bytes;
    if (possible) part.host = part.slot + range.lead_bytes;
  }
  if (!possible) {  // through the page cache instead
    part.kind = FilePart::Kind::kBuffered;
    part.stop_at_missing_page = false;
    crew_.add(part);
    return;
  }
  part.kind = FilePart::Kind::kDirect;
  direct_.add(part, fd, range, alignment.offset_bytes);
}

void Mover::start_engine(bool wait_follows) {
  if (direct_.start(wait_follows, parts_.slab())) crew_.set_quiet(true);
}

// Repeats a failed straight read through its slot.
bool Mover::retry_through_slot(FilePart& part) {
  if (!part.straight || !straight_reads_.repeats(part.status, router_.notes())) return false;
  part.straight = false;
  part.host = part.slot;
  part.status = {};
  part.file_bytes = 0;
  start_direct(part);
  return true;
}

// Whether a part that came back without its bytes was started again on another path.
bool Mover::try_another_way(FilePart& part) {
  if (retry_through_slot(part)) return true;
  if (part.page_was_missing) {
    part.page_was_missing = false;
    const RoutedFile& file = files_[requests_[part.request].file];
    if (router_.was_not_cached(file, part.offset, part.length, part.prefetch) == Way::kPageCache) {
      part.stop_at_missing_page = false;
      crew_.add(part);
    } else {
      part.straight = goes_straight(requests_[part.request]);
      if (part.straight) part.host = part.memory;
      start_direct(part);
    }
    return true;
  }
  if (part.kind != FilePart::Kind::kDirect || part.status.system_error() != EINVAL || !part.handle->has_buffered()) {
    return false;
  }
  router_.refuse_direct(*part.handle);
  part.kind = FilePart::Kind::kBuffered;
  part.stop_at_missing_page = false;
  part.status = {};
  part.file_bytes = 0;
  crew_.add(part);
  return true;
}

// Handles a part that was read, written or has failed. False: it waits for a batch to join.
bool Mover::arrive(FilePart& part) {
  if (try_another_way(part)) return true;
  const bool direct = part.kind == FilePart::Kind::kDirect;
  if (part.write) {
    if (part.status.ok()) {
      (direct ? stats_.written_direct_bytes : stats_.written_buffered_bytes) += part.file_bytes;
    }
    finish_part(part);
    return true;
  }
  if (!part.status.ok()) {
    finish_part(part);
    return true;
  }
  if (part.straight) {
    stats_.direct_bytes += part.file_bytes;
    stats_.straight_bytes += part.file_bytes;
    stats_.bus_bytes += part.file_bytes;
    finish_part(part);
    return true;
  }
  CopyBatch* const batch = staged_ ? filling(in_) : nullptr;
  if (staged_ && batch == nullptr) return false;
  if (direct) {
    stats_.direct_bytes += part.file_bytes;
  } else if (part.window != nullptr) {
    stats_.mapped_bytes += part.length;
  } else {
    stats_.buffered_bytes += part.file_bytes;
    if (part.unmapped != nullptr) {
      (void)resources_->mapped().touch(part.unmapped, 0, part.length, nullptr, part.path, MappedCache::Worth::kNow);
    }
  }
  if (batch == nullptr || skips_.copy) {
    if (batch == nullptr && part.host != part.memory) std::memcpy(part.memory, part.host, part.length);
    finish_part(part);
    return true;
  }
  const std::byte* source = part.host;
  if (part.window != nullptr) {
    source = part.window->data;
    parts_.release_slot(part);
    batch->windows.push_back(std::move(part.window));
  }
  batch->parts.push_back(&part);
  batch->add({source, part.memory, static_cast<std::size_t>(part.length)}, part.length);
  return true;
}

void Mover::finish_part(FilePart& part) {
  const Index request = part.request;
  if (!part.status.ok()) requests_.fail(request, std::move(part.status));
  parts_.give_back(part);
  requests_.step(request, 1);
}

void Mover::finish_batch(CopyLane& lane, CopyBatch& batch) {
  for (const CopyBatch::Share& share : batch.shares) {
    if (!batch.status.ok()) requests_.fail(share.request, batch.status);
  }
  check_shares(batch);
  for (const CopyBatch::Share& share : batch.shares) requests_.step(share.request, share.pieces);
  for (FilePart* const part : batch.parts) {
    part->status = batch.status;
    if (part->write && part->status.ok()) {
      start_part(*part);
    } else {
      finish_part(*part);
    }
  }
  lane.recycle(batch);
}

// A file that is now shorter than the bytes taken from its mapping was truncated meanwhile: its stale bytes are not
// delivered.
void Mover::check_shares(const CopyBatch& batch) {
  const os::FileHandle* asked = nullptr;
  std::uint64_t size = 0;
  for (const CopyBatch::Share& share : batch.shares) {
    const os::FileHandle* const handle = files_[requests_[share.request].file].handle.get();
    if (handle != asked) {
      os::FileIdentity identity;
      int error = 0;
      ++stats_.system_calls;
      if (!os::identify(handle->fd(), identity, error)) continue;
      asked = handle;
      size = identity.size_bytes;
    }
    if (size >= share.end) continue;
    requests_.fail(share.request,
                   Status(Code::kShort, Layer::kTransfer,
                          "the file ends at byte " + std::to_string(size) + ": it was cut short while being read")
                       .with_range(size, share.end - size));
  }
}

}  // namespace headrace::transfer
