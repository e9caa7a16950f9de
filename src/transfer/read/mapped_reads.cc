#include "transfer/read/mapped_reads.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/grow.h"
#include "base/part.h"
#include "os/descriptors.h"
#include "os/file_handle.h"
#include "store/file_offers.h"
#include "transfer/read/placing.h"

namespace headrace::transfer {

Status MappedRange::add_pieces(std::uint32_t task, std::uint64_t at, std::uint64_t bytes,
                               std::vector<MappedShare::TaskBytes>& out, std::uint64_t within_task) const {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t from = file_begin + at + done, within = from % window_bytes;
    const auto index = static_cast<std::size_t>(from / window_bytes) - first_window;
    const std::uint64_t piece = std::min(bytes - done, window_bytes - within);
    std::optional<std::span<const std::byte>> src;
    if (index < windows.size()) {
      const MappedWindow& window = *windows[index];
      src = base::part(std::span(window.data, static_cast<std::size_t>(window.bytes)), within, piece);
    }
    if (!src) return Status(Code::kInternal, Layer::kTransfer, "a chunk lies outside of its mapping");
    out.push_back({task, *src, within_task + done});
    done += piece;
  }
  return {};
}

std::optional<MappedRange> MappedReads::find(const TaskGroup& group, std::uint32_t group_index,
                                             const StoredRange& range, Worker& worker) {
  const store::ByteSource& object = *range.source;
  // The CPU has to verify the object's checksum.
  if (object.has_checksum() && range.offset == 0 && range.length == object.size_bytes()) return std::nullopt;
  const std::uint64_t begin = object.file().begin + range.offset, end = begin + range.length;
  std::shared_ptr<MappedFile> file =
      router_.find_windows(object.file().fd, object.identity(), begin, end, worker.windows);
  if (worker.windows.empty()) {
    worker.unmapped = std::move(file);
    return std::nullopt;
  }
  // Reserve everything that the wave needs before changing anything.
  MappedShare& share = worker.mapped;
  base::make_room(share.reads, 1);
  base::make_room(share.windows, worker.windows.size());
  base::make_room(share.pieces, group.task_count * worker.windows.size() + 1);  // one more for the head of a part
  const bool holds = group.source == kNoSource && !object.file().lent;
  if (holds && !os::Descriptors::of_process().hold()) return std::nullopt;
  share.reads.push_back({group_index, end, range.length});
  for (const std::shared_ptr<MappedWindow>& window : worker.windows) {
    if (share.windows.empty() || share.windows.back() != window) share.windows.push_back(window);
  }
  worker.stats.mapped_bytes += range.length;
  worker.stats.read_bytes += range.length;
  return MappedRange{range.offset,
                     range.length,
                     object.file().begin,
                     file->window_bytes,
                     static_cast<std::size_t>(begin / file->window_bytes),
                     worker.windows};
}

void MappedReads::note_unmapped(const WaveTasks& wave, const TaskGroup& group, const StoredRange& range,
                                Worker& worker) {
  const std::shared_ptr<MappedFile> file = std::move(worker.unmapped);
  const char* path = range.source->file().path;
  if (path == nullptr) {
    // The task of an object of its own was described before the object was opened.
    const std::string& key = ReadTasks::key_of(wave, group, worker);
    store::FileOffers* const files = tasks_.plan().store().files();
    if (files == nullptr || !files->local_path(key, worker.path)) return;
    path = worker.path.c_str();
  }
  router_.note_unmapped(file, range.source->file().begin + range.offset, range.length, nullptr, path,
                        MappedCache::Worth::kOften);
}

bool MappedReads::hand_over(Wave& wave, Worker& worker) {
  MappedShare& from = worker.mapped;
  MappedShare& to = wave.fetch.mapped;
  std::lock_guard lock(mutex_);
  bool complete = true;
  try {  // only reserving can fail
    base::make_room(to.reads, from.reads.size());
    base::make_room(to.pieces, from.pieces.size());
    base::make_room(to.windows, from.windows.size());
    to.reads.insert(to.reads.end(), from.reads.begin(), from.reads.end());
    to.pieces.insert(to.pieces.end(), from.pieces.begin(), from.pieces.end());
    to.windows.insert(to.windows.end(), std::move_iterator(from.windows.begin()),
                      std::move_iterator(from.windows.end()));
  } catch (const std::bad_alloc&) {
    // The wave will not be launched.
    for (const MappedShare::Read& read : from.reads) close_object(wave, read.group);
    complete = false;
  }
  from.clear();
  worker.windows.clear();
  return complete;
}

void MappedReads::check(Wave& wave, Worker& worker) {
  worker.described = nullptr;
  for (const MappedShare::Read& read : wave.fetch.mapped.reads) {
    const TaskGroup& group = wave.tasks.groups[read.group];
    const store::ByteSource& object = wave.object_of(read.group);
    os::FileIdentity identity;
    int error = 0;
    if (os::identify(object.file().fd, identity, error) && identity.size_bytes >= read.end) continue;
    const std::uint64_t end = identity.size_bytes;
    for (std::uint32_t i = group.first_task; i < group.first_task + group.task_count; ++i) {
      WaveChunk& chunk = wave.decode.chunks[i];
      if (!chunk.mapped) continue;
      chunk.failed = true;
      Status status(Code::kShort, Layer::kTransfer,
                    "the file ends at byte " + std::to_string(end) + ": it was cut short while being read");
      const std::uint64_t missing = std::min(read.end - end, read.length);
      tasks_.fail(wave.tasks, group, wave.tasks.tasks[i], worker,
                  std::move(status).with_range(read.end - missing - object.file().begin, missing));
    }
  }
}

Status MappedReads::read_again(const Wave& wave, std::uint32_t task_index, Worker& worker,
                               std::span<const std::byte>& stored) const {
  const TaskGroup& group = group_of(wave.tasks, task_index);
  const Task& task = wave.tasks.tasks[task_index];
  const auto group_index = static_cast<std::uint32_t>(&group - wave.tasks.groups.data());
  const WaveChunk& chunk = wave.decode.chunks[task_index];
  const std::span<std::byte> all = worker.memory->encoded.reserve(static_cast<std::size_t>(chunk.bytes));
  if (all.data() == nullptr) return Status::out_of_memory();
  stored = all;
  const auto head = base::part(wave.stage.slot->pinned, chunk.head_at, chunk.head_bytes);
  if (!head || head->size() > all.size()) {
    return Status(Code::kInternal, Layer::kTransfer, "the head of a part lies outside of its slab");
  }
  std::ranges::copy(*head, all.begin());
  const std::span<std::byte> target = all.subspan(head->size());
  const std::uint64_t bytes = target.size();
  HEADRACE_TRY(
      wave.object_of(group_index).read((group.source == kNoSource ? 0 : task.offset) + chunk.stored_at, target));
  // Another worker counted these bytes as mapped. This worker's count is added to that one's, so it may be negative
  // here.
  worker.stats.mapped_bytes -= bytes;
  worker.stats.buffered_bytes += bytes;
  return {};
}

void MappedReads::close_object(Wave& wave, std::uint32_t group_index) noexcept {
  store::ByteSource& own = wave.fetch.objects[group_index];
  if (wave.tasks.groups[group_index].source == kNoSource && !own.file().lent) os::Descriptors::of_process().end_hold();
  own.close();
}

void MappedReads::close(Wave& wave) noexcept {
  for (const MappedShare::Read& read : wave.fetch.mapped.reads) close_object(wave, read.group);
  wave.fetch.mapped.clear();
}

}  // namespace headrace::transfer
