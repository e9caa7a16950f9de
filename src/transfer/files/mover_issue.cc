// Mover: chooses a path for each range of a request, and splits the range into parts and pieces.
#include <algorithm>
#include <new>

#include "base/checked.h"
#include "transfer/files/mover.h"

namespace headrace::transfer {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;  // parts begin and end at multiples of it
// A single read up to this size is not worth a hand-over.
constexpr std::uint64_t kInlineBytes = std::uint64_t{64} << 10;

// Whole pages in the middle of a written range may bypass the page cache; the ends go through it. They share no page:
// if a page were written both ways, old bytes of one write could overwrite new bytes of the other.
struct WriteSpan {
  std::uint64_t middle, middle_end, end;

  WriteSpan(const FileRange& range, std::uint64_t unit)
      : middle(std::min(base::align_up(range.offset_bytes, unit), range.offset_bytes + range.bytes)),
        middle_end(std::max(base::align_down(range.offset_bytes + range.bytes, unit), middle)),
        end(range.offset_bytes + range.bytes) {}
  bool in_middle(std::uint64_t offset) const noexcept { return offset >= middle && offset < middle_end; }
  std::uint64_t stop(std::uint64_t offset) const noexcept {
    return offset < middle ? middle : offset < middle_end ? middle_end : end;
  }
};

}  // namespace

void Mover::issue() {
  if (!staged_) router_.begin_round();  // no batches here
  while (!requests_.waiting().empty()) {
    const Index index = requests_.waiting().front();
    const FileRequest& request = requests_[index];
    bool all = true;
    try {
      if (!request.stopped) {
        all = !request.paths.empty() ? issue_paths(index) : request.write ? issue_write(index) : issue_ranges(index);
      }
    } catch (const std::bad_alloc&) {
      requests_.fail(index, Status::out_of_memory());
    }
    if (!all && !request.stopped) break;
    requests_.first_is_issued();
  }
  // A single small read with nothing else to do is done on this thread, since waking another takes longer.
  crew_.start(options_.caller_reads && waiting_ ? kBlockBytes : kInlineBytes, arrived_);
  if (!waiting_) start_engine(false);
}

// True once all of the request is in flight.
bool Mover::issue_ranges(Index index) {
  FileRequest& request = requests_[index];
  RoutedFile& file = files_[request.file];
  for (; request.next < request.list.size(); ++request.next, request.next_byte = 0) {
    const FileRange& range = request.list[request.next];
    while (request.next_byte < range.bytes) {
      CopyBatch* batch = nullptr;
      if (staged_) {
        batch = filling(in_);
        if (batch == nullptr) return false;
      }
      const std::uint64_t offset = range.offset_bytes + request.next_byte;
      const std::size_t beside = pending() - 1 + request.outstanding + request.list.size() - request.next;
      const Router::WaveWindows windows{batch != nullptr ? batch->number : 0,
                                        batch != nullptr ? &batch->windows : nullptr};
      const Route next =
          router_.choose(file, offset, range.bytes - request.next_byte, beside, batch != nullptr ? &windows : nullptr);
      std::byte* const memory = range.memory + request.next_byte;
      if (batch != nullptr && next.way == Way::kMapped) {  // windows belong to a batch
        if (!skips_.copy) batch->pieces.push_back({next.mapped, memory, static_cast<std::size_t>(next.bytes)});
        if (batch->shares.empty() || batch->shares.back().request != index) batch->shares.push_back({index, 0, 0});
        CopyBatch::Share& share = batch->shares.back();
        ++share.pieces;
        share.end = std::max(share.end, offset + next.bytes);
        batch->bytes += next.bytes;
        ++request.outstanding;
        stats_.mapped_bytes += next.bytes;
        request.next_byte += next.bytes;
        file.sequential_end = offset + next.bytes;
        if (batch->full()) launch(in_);
        continue;
      }
      const std::uint64_t length = std::min(next.bytes, base::align_up(offset + 1, kBlockBytes) - offset);
      bool direct = next.way == Way::kDirect;
      // A read that may have to bypass the page cache needs room for whole blocks around it.
      const std::uint64_t slack = direct || !next.pages_resident ? 2 * PartPool::kUnit : 0;
      FilePart* const part = take_part(index, staged_ ? base::align_up(length + slack, PartPool::kUnit) : 0);
      if (part == nullptr) return false;
      // Asked only once, now that the part has a slot.
      if (direct) direct = !router_.keep_cached(file, offset, length, part->prefetch);
      part->kind = direct ? FilePart::Kind::kDirect : FilePart::Kind::kBuffered;
      part->handle = file.handle.get();
      part->offset = offset;
      part->length = length;
      part->memory = memory;
      part->straight = direct && goes_straight(request);
      part->host = staged_ && !part->straight ? part->slot : memory;
      part->stop_at_missing_page = !direct && !next.pages_resident;
      part->small = next.small;
      request.next_byte += length;
      file.sequential_end = offset + length;
      if (!direct) router_.count_unmapped(file, offset, length, range.bytes * beside);
      start_part(*part);
    }
  }
  return true;
}

bool Mover::issue_paths(Index index) {
  FileRequest& request = requests_[index];
  for (; request.next < request.paths.size(); ++request.next) {
    const PathRange& range = request.paths[request.next];
    if (range.bytes == 0) continue;
    FilePart* const part = take_part(index, staged_ ? base::align_up(std::uint64_t{range.bytes}, PartPool::kUnit) : 0);
    if (part == nullptr) return false;
    part->kind = FilePart::Kind::kPath;
    part->path = range.path;
    part->length = range.bytes;
    part->memory = range.memory;
    part->host = staged_ ? part->slot : range.memory;
    start_part(*part);
  }
  return true;
}

bool Mover::issue_write(Index index) {
  FileRequest& request = requests_[index];
  const RoutedFile& file = files_[request.file];
  const bool direct =
      (options_.path == Path::kDirect || !file.handle->has_buffered()) && router_.direct_allowed(*file.handle);
  const std::uint64_t unit =
      direct ? std::max<std::uint64_t>(file.handle->direct_alignment().offset_bytes, PartPool::kUnit) : 1;
  for (; request.next < request.list.size(); ++request.next, request.next_byte = 0) {
    const FileRange& range = request.list[request.next];
    const WriteSpan span(range, unit);
    while (request.next_byte < range.bytes) {
      CopyBatch* batch = nullptr;
      if (staged_) {
        batch = filling(out_);
        if (batch == nullptr) return false;
      }
      const std::uint64_t offset = range.offset_bytes + request.next_byte;
      const std::uint64_t length = std::min(span.stop(offset), base::align_up(offset + 1, kBlockBytes)) - offset;
      FilePart* const part = take_part(index, staged_ ? base::align_up(length, PartPool::kUnit) : 0);
      if (part == nullptr) return false;
      part->write = true;
      part->kind = direct && span.in_middle(offset) ? FilePart::Kind::kDirect : FilePart::Kind::kBuffered;
      part->handle = file.handle.get();
      part->offset = offset;
      part->length = length;
      part->memory = range.memory + request.next_byte;
      part->host = staged_ ? part->slot : part->memory;
      request.next_byte += length;
      if (!staged_ || skips_.copy) {
        start_part(*part);
        continue;
      }
      batch->parts.push_back(part);
      batch->add({part->memory, part->host, static_cast<std::size_t>(length)}, length);
      if (batch->full()) launch(out_);
    }
  }
  return true;
}

FilePart* Mover::take_part(Index request, std::uint64_t slot_bytes) {
  FilePart* const part = parts_.take(request, slot_bytes);
  if (part != nullptr) ++requests_[request].outstanding;
  return part;
}

}  // namespace headrace::transfer
