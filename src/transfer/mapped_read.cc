// ReadOperation, what the device takes out of the page cache itself: ranges whose windows are registered become pieces
// of a wave's copy, and no CPU touches their bytes. Other ranges are read as ever, and counted, so that their windows
// are registered when they come round again.
#include <algorithm>
#include <iterator>
#include <new>

#include "base/checked.h"
#include "base/clock.h"
#include "base/file_handle.h"
#include "base/file_read.h"
#include "base/grow.h"
#include "base/part.h"
#include "store/file_offers.h"
#include "transfer/operation.h"
#include "transfer/placing.h"

namespace headrace::transfer {

// True: all of the group is on its way by its mapping, and its object stays open until the wave is through.
bool ReadOperation::map_group(Wave& wave, std::uint32_t group_index, const store::ByteSource& object,
                              std::uint64_t offset, std::uint64_t length, Lane& lane) {
  if (!plan_->chain().raw() && !on_device(wave)) return false;
  if (object.has_checksum() && offset == 0 && length == object.size_bytes()) return false;  // the CPU is to check it
  const Group& group = wave.tasks.groups[group_index];
  base::FileIdentity identity;
  int error = 0;
  if (!base::identify(object.file().fd, identity, error)) return false;
  // This version of the file, whatever was mapped before.
  MappedCache& cache = resources_.mapped();
  std::shared_ptr<MappedFile> file = cache.file(device_, identity);
  const std::uint64_t window_bytes = file->window_bytes, begin = object.file().begin + offset, end = begin + length;
  const auto first = static_cast<std::size_t>(begin / window_bytes);
  const auto last = static_cast<std::size_t>((end - 1) / window_bytes);
  const std::uint64_t now = base::now_ns();
  const bool holds = group.source == kNoSource && !object.file().lent;
  lane.windows.clear();
  for (std::size_t index = first; index <= last && end <= identity.size_bytes; ++index) {
    std::shared_ptr<MappedWindow> window = cache.window(*file, index, now);
    if (window == nullptr || window->bytes < std::min(end - index * window_bytes, window_bytes)) break;
    lane.windows.push_back(std::move(window));
  }
  if (lane.windows.size() != last - first + 1) {
    lane.unmapped = std::move(file);
    return false;
  }
  // What the wave needs is there before anything is changed.
  MappedShare& share = lane.mapped;
  base::make_room(share.reads, 1);
  base::make_room(share.windows, lane.windows.size());
  base::make_room(share.pieces, group.task_count * lane.windows.size());
  if (holds && !base::Descriptors::of_process().hold()) return false;
  share.reads.push_back({group_index, end});
  Status status;
  const bool together = place_together(wave, group, offset, length);
  for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
    const Task& task = wave.tasks.tasks[i];
    if (task.length == 0) {
      fill_task(wave, group, i, lane);
      continue;
    }
    const std::uint64_t at = task.length == kWholeObject ? offset : task.offset;
    const std::uint64_t bytes = task.length == kWholeObject ? length : task.length;
    if (map_task(wave, group, i, at, bytes, lane) && !together && status.ok()) {
      status = add_pieces(i, object.file().begin + at, bytes, first, lane);
    }
  }
  if (together) status = add_pieces(group.first_task, object.file().begin + offset, length, first, lane);
  if (!status.ok()) report_.stop(std::move(status));
  for (std::shared_ptr<MappedWindow>& window : lane.windows) {
    if (share.windows.empty() || share.windows.back() != window) share.windows.push_back(std::move(window));
  }
  lane.stats.mapped_bytes += length;
  lane.stats.read_bytes += length;
  return true;
}

// Room for what is stored of a group as it lies in the object, so that one copy takes all of it there: for many small
// pieces a kernel has to, and that waits for the decoders of the waves before. False: each task gets a place by itself.
bool ReadOperation::place_together(Wave& wave, const Group& group, std::uint64_t offset, std::uint64_t length) {
  const Task* const tasks = &wave.tasks.tasks[group.first_task];
  if (!on_device(wave) || group.task_count < 2 || tasks->length == 0 || tasks->offset != offset) return false;
  // What the tasks may take together: gaps between them must not make it more.
  const std::uint64_t most = base::align_up(plan_->chain().capacity_before(device_stage_), kSlabAlignment);
  const auto live = std::count_if(tasks, tasks + group.task_count, [](const Task& task) { return task.length != 0; });
  const std::uint64_t room = base::align_up(length, kSlabAlignment);
  if (room > static_cast<std::uint64_t>(live) * most) return false;
  const std::uint64_t before = wave.decode.mapped_used.fetch_add(room, std::memory_order_relaxed);
  const bool fits = before <= areas_.encoded_bytes && room <= areas_.encoded_bytes - before;
  for (std::uint32_t i = 0; fits && i < group.task_count; ++i) {
    if (tasks[i].length == 0) continue;
    EncodedChunk& chunk = wave.decode.chunks[group.first_task + i];
    chunk.at = areas_.encoded_bytes - before - room + (tasks[i].offset - offset);
    chunk.room = tasks[i].length;
  }
  return fits;
}

// The file's bytes [offset, offset + length), where the task's encoded bytes begin. lane.windows begin with window
// `first`; all but a file's last have one size.
Status ReadOperation::add_pieces(std::uint32_t task_index, std::uint64_t offset, std::uint64_t length,
                                 std::size_t first, Lane& lane) {
  const std::uint64_t window_bytes = resources_.mapped().window_bytes();
  for (std::uint64_t done = 0; done < length;) {
    const std::uint64_t at = offset + done, within = at % window_bytes;
    const auto index = static_cast<std::size_t>(at / window_bytes) - first;
    const std::uint64_t bytes = std::min(length - done, window_bytes - within);
    std::optional<std::span<const std::byte>> src;
    if (index < lane.windows.size()) {
      const MappedWindow& window = *lane.windows[index];
      src = base::part(std::span(window.data, static_cast<std::size_t>(window.bytes)), within, bytes);
    }
    if (!src) return Status(Code::kInternal, Layer::kTransfer, "a chunk lies outside of its mapping");
    lane.mapped.pieces.push_back({task_index, *src, done});
    done += bytes;
  }
  return {};
}

// The object's bytes [offset, offset + length) are the task's. False: it has failed.
bool ReadOperation::map_task(Wave& wave, const Group& group, std::uint32_t task_index, std::uint64_t offset,
                             std::uint64_t length, Lane& lane) {
  const codec::Chain& chain = plan_->chain();
  const Task& task = wave.tasks.tasks[task_index];
  EncodedChunk& chunk = wave.decode.chunks[task_index];
  describe(group, task, lane);
  const bool whole_object = task.length == kWholeObject;
  // Of a raw chunk that is an object of its own, only a part may be read: its size has been checked.
  if (!(chain.raw() && whole_object)) {
    if (Status status = chain.check_encoded_size(length); !status.ok()) {
      fail_task(wave, group, task, lane, std::move(status));
      return false;
    }
  }
  lane.stats.stored_bytes += length;
  chunk.mapped = true;
  Status status;
  if (chain.raw()) {
    chunk.delivered = lane.detail.element_count() * plan_->element_op().element_bytes;
    const auto place = base::part(staged_target(wave, task_index), 0, length);
    status = place ? stage_boxes(wave, task_index, *place, whole_object ? offset : 0, lane.detail)
                   : Status(Code::kInternal, Layer::kTransfer, "a wave's slab is too small for a chunk");
    lane.described = nullptr;
  } else if (reserve_encoded(wave, task_index, length)) {
    status = place_encoded(wave, task_index, length, lane);
  } else {
    status = Status(Code::kInternal, Layer::kTransfer, "a wave's slab is too small for its encoded bytes");
  }
  if (status.ok()) return true;
  fail_task(wave, group, task, lane, std::move(status));
  return false;
}

// The range of the file was read out of the page cache by the CPU.
void ReadOperation::note_unmapped(const Wave& wave, const Group& group, std::uint64_t offset, std::uint64_t length,
                                  Lane& lane) {
  const bool own = group.source == kNoSource;
  const std::shared_ptr<MappedFile> file = std::move(lane.unmapped);
  // An object's own task was described before it was opened.
  const std::string& key = own ? lane.detail.key : *wave.tasks.sources[group.source].key;
  store::FileOffers* const files = plan_->store().files();
  if (files == nullptr || !files->local_path(key, lane.path)) return;
  MappedCache& cache = resources_.mapped();
  const std::uint64_t window_bytes = file->window_bytes, end = offset + length;
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t stop = std::min(end, (at / window_bytes + 1) * window_bytes);
    cache.note_read(file, static_cast<std::size_t>(at / window_bytes), stop - at, nullptr, lane.path.c_str());
    at = stop;
  }
}

// A claim's share becomes the wave's. False: there was no memory, and the read has to stop.
bool ReadOperation::hand_over_mapped(Wave& wave, Lane& lane) {
  MappedShare& from = lane.mapped;
  MappedShare& to = wave.fetch.mapped;
  std::lock_guard lock(mutex_);
  bool complete = true;
  try {  // only the making of room can fail
    base::make_room(to.reads, from.reads.size());
    base::make_room(to.pieces, from.pieces.size());
    base::make_room(to.windows, from.windows.size());
    to.reads.insert(to.reads.end(), from.reads.begin(), from.reads.end());
    to.pieces.insert(to.pieces.end(), from.pieces.begin(), from.pieces.end());
    to.windows.insert(to.windows.end(), std::move_iterator(from.windows.begin()),
                      std::move_iterator(from.windows.end()));
  } catch (const std::bad_alloc&) {
    // The wave is not launched any more.
    for (const MappedShare::Read& read : from.reads) {
      if (wave.tasks.groups[read.group].source != kNoSource) continue;
      if (!wave.fetch.objects[read.group].file().lent) base::Descriptors::of_process().end_hold();
      wave.fetch.objects[read.group].close();
    }
    complete = false;
  }
  from.clear();
  return complete;
}

// Pieces from the mappings to where the slab would have been copied to: the device slab, or straight to the tensor.
Status ReadOperation::add_mapped_pieces(Wave& wave, bool scattered) {
  if (wave.fetch.mapped.pieces.empty()) return {};
  const std::uint32_t element_bytes = plan_->element_op().element_bytes;
  for (const MappedShare::Piece& piece : wave.fetch.mapped.pieces) {
    if (on_device(wave) || scattered) {
      // Encoded bytes of several tasks may come as one piece: what bounds it is the area of all.
      const auto dst =
          on_device(wave) ? base::part(wave.stage.slot->on_device.first(static_cast<std::size_t>(areas_.encoded_bytes)),
                                       wave.decode.chunks[piece.task].at + piece.within, piece.src.size())
                          : base::part(place_on_device(wave, piece.task), piece.within, piece.src.size());
      if (!dst) return Status(Code::kInternal, Layer::kTransfer, "a mapped piece is longer than its place");
      wave.stage.pieces.push_back({piece.src.data(), dst->data(), dst->size()});
    } else {
      // The chunk is one run of the tensor; of its bytes those that are in the box.
      const device::Box& box = wave.stage.boxes[piece.task];
      const auto begin = static_cast<std::uint64_t>(box.src - staged_target(wave, piece.task).data());
      const std::uint64_t end = begin + box.element_count() * element_bytes;
      const std::uint64_t from = std::max(begin, piece.within), to = std::min(end, piece.within + piece.src.size());
      if (from >= to) continue;
      wave.stage.pieces.push_back(
          {piece.src.data() + (from - piece.within), box.dst + (from - begin), static_cast<std::size_t>(to - from)});
    }
  }
  resources_.mapped().note_traffic();
  return {};
}

// The wave is through. A file that is now shorter than what was taken from its mapping was cut meanwhile: its old
// bytes, or the zeros behind its new end, are not passed on.
void ReadOperation::settle_mapped(Wave& wave, Lane& lane) {
  lane.described = nullptr;
  for (const MappedShare::Read& read : wave.fetch.mapped.reads) {
    const Group& group = wave.tasks.groups[read.group];
    const store::ByteSource& object = object_of(wave, read.group);
    base::FileIdentity identity;
    int error = 0;
    const bool whole = base::identify(object.file().fd, identity, error) && identity.size_bytes >= read.end;
    for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
      EncodedChunk& chunk = wave.decode.chunks[i];
      if (!chunk.mapped) continue;
      if (!whole) {
        chunk.failed = true;
        const std::uint64_t end = identity.size_bytes;
        Status status(Code::kShort, Layer::kTransfer,
                      "the file ends at byte " + std::to_string(end) + ": it was cut short while being read");
        const std::uint64_t begin = std::max(end, object.file().begin);  // of what is missing of the object
        fail_task(wave, group, wave.tasks.tasks[i], lane,
                  std::move(status).with_range(begin - object.file().begin, read.end - begin));
      } else if (plan_->chain().raw()) {
        ++lane.stats.chunks;
        lane.stats.decoded_bytes += chunk.delivered;
        report_.add_done(1);
      }
    }
  }
}

// For the CPU, which must not look at a mapping: the encoded bytes of a mapped task, read from its file.
Status ReadOperation::read_mapped_again(Wave& wave, std::uint32_t task_index, Lane& lane,
                                        std::span<const std::byte>& encoded) {
  const Group& group = group_of(wave.tasks, task_index);
  const Task& task = wave.tasks.tasks[task_index];
  const bool own = group.source == kNoSource;
  const auto group_index = static_cast<std::size_t>(&group - wave.tasks.groups.data());
  const store::ByteSource& object = object_of(wave, static_cast<std::uint32_t>(group_index));
  const auto bytes = static_cast<std::size_t>(wave.decode.chunks[task_index].bytes);
  const std::span<std::byte> target = lane.memory->encoded.reserve(bytes);
  if (target.data() == nullptr) return Status::out_of_memory();
  encoded = target;
  lane.stats.read_bytes += bytes;
  lane.stats.buffered_bytes += bytes;
  return object.read(own ? 0 : task.offset, target);
}

void ReadOperation::close_mapped(Wave& wave) noexcept {
  for (const MappedShare::Read& read : wave.fetch.mapped.reads) {
    if (wave.tasks.groups[read.group].source != kNoSource) continue;
    if (!wave.fetch.objects[read.group].file().lent) base::Descriptors::of_process().end_hold();
    wave.fetch.objects[read.group].close();
  }
  wave.fetch.mapped.clear();
}

}  // namespace headrace::transfer
