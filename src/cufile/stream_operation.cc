#include "cufile/stream_operation.h"

#include <algorithm>
#include <new>

#include "base/checked.h"
#include "base/clock.h"

namespace headrace::cufile {

using Kind = device::MemoryPlace::Kind;
using device::Device;
using device::Piece;

StreamOperation::StreamOperation(Driver& driver, FileTable::Use file, const StreamArguments& arguments, bool write)
    : driver_(driver),
      file_(std::move(file)),
      arguments_(arguments),
      write_(write),
      max_(*arguments.size),
      fixed_file_offset_(*arguments.file_offset),
      fixed_offset_(*arguments.offset),
      place_(device::locate_memory(arguments.base)) {}

StreamOperation::~StreamOperation() {
  if (slab_.memory != nullptr) driver_.streams.give_slab(std::move(slab_));
}

CUfileOpError StreamOperation::queue(std::unique_ptr<StreamOperation> operation, const std::shared_ptr<Device>& device,
                                     void* stream) {
  StreamOperation& self = *operation;
  const auto capturing = device->is_capturing(stream);
  if (!capturing.ok()) return CU_FILE_CUDA_DRIVER_ERROR;
  self.kept_ = *capturing;
  const bool staged = self.place_.kind == Kind::kDevice && self.max_ != 0;
  const std::size_t chunks = staged ? base::ceil_div(self.max_, kChunkBytes) : 1;
  self.steps_.reserve(chunks);
  for (std::size_t i = 0; i < chunks; ++i) self.steps_.push_back({&self, i});
  if (staged) {
    const std::size_t bytes = base::align_up(std::min(self.max_, kChunkBytes), std::size_t{4096});
    const std::size_t pieces = base::ceil_div(bytes, Device::kLatePieceBytes);
    auto slab = self.driver_.streams.take_slab(device, bytes + pieces * sizeof(Piece));
    if (!slab.ok()) {
      self.driver_.log.write(Severity::kError, slab.status().to_string());
      return slab.status().code() == Code::kResourceExhausted ? CU_FILE_NOMEM_ERROR : CU_FILE_CUDA_DRIVER_ERROR;
    }
    self.slab_ = std::move(slab).value();
    self.list_ = {new (self.slab_.memory + bytes) Piece[pieces], pieces};
  }
  if (self.kept_) {
    self.driver_.streams.keep(std::move(operation));
  } else {
    (void)operation.release();
  }
  // If queueing fails half way, queued calls still use the operation, so it must live on.
  const Status status =
      staged ? self.queue_staged(*device, stream) : device->call_host(stream, &on_whole, self.steps_.data());
  if (status.ok()) return CU_FILE_SUCCESS;
  Driver::get().log.write(Severity::kError, status.to_string());
  return status.code() == Code::kUnsupported ? CU_FILE_ASYNC_NOT_SUPPORTED : CU_FILE_CUDA_DRIVER_ERROR;
}

Status StreamOperation::queue_staged(Device& device, void* stream) {
  for (PartCall& step : steps_) {
    if (write_) {
      HEADRACE_TRY(device.call_host(stream, &on_prepare, &step));
      HEADRACE_TRY(device.move_late(list_, stream));
      HEADRACE_TRY(device.call_host(stream, &on_write, &step));
    } else {
      HEADRACE_TRY(device.call_host(stream, &on_read, &step));
      HEADRACE_TRY(device.move_late(list_, stream));
    }
  }
  return device.call_host(stream, &on_finish, steps_.data());
}

// Reads the program's values, as they are at this time.
void StreamOperation::begin() noexcept {
  const auto fixed = [&](unsigned flag) { return (arguments_.fixed & flag) != 0; };
  if (running_.fetch_add(1) != 0) {
    shared_ = true;
    return;
  }
  started_ns_ = base::now_ns();
  done_ = 0;
  paths_ = {};
  size_ = fixed(CU_FILE_STREAM_FIXED_FILE_SIZE) ? max_ : *arguments_.size;
  file_offset_ = fixed(CU_FILE_STREAM_FIXED_FILE_OFFSET) ? fixed_file_offset_ : *arguments_.file_offset;
  const off_t offset = fixed(CU_FILE_STREAM_FIXED_BUF_OFFSET) ? fixed_offset_ : *arguments_.offset;
  outcome_ = failed(CU_FILE_INVALID_VALUE);
  if (size_ <= max_) outcome_ = check_file(*file_, size_, file_offset_, write_);
  if (outcome_.ok()) outcome_ = resolve_at(driver_, place_, arguments_.base, size_, offset, target_);
  // As recorded from cuFile: where blocking calls report a bad range, streams report a bad size.
  if (outcome_.value == -CU_FILE_INVALID_MAPPING_RANGE) outcome_ = failed(CU_FILE_INVALID_MAPPING_SIZE);
  ended_ = !outcome_.ok();
}

std::size_t StreamOperation::chunk_bytes(std::size_t chunk) const noexcept {
  const std::size_t from = chunk * kChunkBytes;
  return ended_ || from >= size_ ? 0 : std::min(size_ - from, kChunkBytes);
}

void StreamOperation::list_pieces(std::size_t chunk, std::size_t bytes) noexcept {
  std::byte* const memory = target_.memory + chunk * kChunkBytes;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    const std::size_t at = i * Device::kLatePieceBytes;
    const std::size_t length = at >= bytes ? 0 : std::min(bytes - at, Device::kLatePieceBytes);
    list_[i] = length == 0 ? Piece{slab_.memory, slab_.memory, 0}
               : write_    ? Piece{memory + at, slab_.memory + at, length}
                           : Piece{slab_.memory + at, memory + at, length};
  }
}

void StreamOperation::move_chunk(std::byte* memory, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  Target host;
  host.memory = memory;
  PathBytes paths;
  try {
    outcome_ = move_bytes(driver_, *file_, host, bytes, file_offset_ + static_cast<off_t>(done_), write_, paths);
  } catch (...) {
    outcome_ = failed(CU_FILE_NOMEM_ERROR);
  }
  paths_ = paths_ - (PathBytes() - paths);
  ended_ = !outcome_.ok() || static_cast<std::size_t>(outcome_.value) < bytes;
  if (outcome_.ok()) done_ += static_cast<std::uint64_t>(outcome_.value);
}

void StreamOperation::finish() noexcept {
  if (shared_) outcome_ = failed(CU_FILE_INTERNAL_ERROR);
  const bool ok = outcome_.ok();
  if (place_.kind == Kind::kDevice) paths_.bus += done_;
  const bool aligned = target_.aligned && page_aligned(size_) && page_aligned(static_cast<std::uint64_t>(file_offset_));
  driver_.statistics.transfer(Op::kAsync, write_, ok, ok ? done_ : 0, base::now_ns() - started_ns_, gpu_of(place_),
                              aligned, paths_);
  if (!ok) driver_.statistics.count(Op::kAsync, false);
  *arguments_.result = static_cast<ssize_t>(ok ? static_cast<std::int64_t>(done_) : outcome_.value);
  if (kept_) {
    if (running_.fetch_sub(1) == 1) shared_ = false;
    return;
  }
  driver_.streams.retire(file_->session);
  delete this;
}

void StreamOperation::on_whole(void* data) {
  StreamOperation& self = *static_cast<PartCall*>(data)->operation;
  self.begin();
  if (!self.ended_ && !self.shared_) self.move_chunk(self.target_.memory, self.size_);
  self.finish();
}

void StreamOperation::on_read(void* data) {
  const PartCall step = *static_cast<PartCall*>(data);
  StreamOperation& self = *step.operation;
  if (step.chunk == 0) self.begin();
  if (self.shared_) return;
  const std::uint64_t before = self.done_;
  self.move_chunk(self.slab_.memory, self.chunk_bytes(step.chunk));
  self.list_pieces(step.chunk, static_cast<std::size_t>(self.done_ - before));
}

void StreamOperation::on_prepare(void* data) {
  const PartCall step = *static_cast<PartCall*>(data);
  if (step.chunk == 0) step.operation->begin();
  if (step.operation->shared_) return;
  step.operation->list_pieces(step.chunk, step.operation->chunk_bytes(step.chunk));
}

void StreamOperation::on_write(void* data) {
  const PartCall step = *static_cast<PartCall*>(data);
  if (step.operation->shared_) return;
  step.operation->move_chunk(step.operation->slab_.memory, step.operation->chunk_bytes(step.chunk));
}

void StreamOperation::on_finish(void* data) { static_cast<PartCall*>(data)->operation->finish(); }

}  // namespace headrace::cufile
