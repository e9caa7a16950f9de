#include "transfer/read/device_sink.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/fault.h"
#include "base/part.h"
#include "base/trace.h"
#include "transfer/read/chunk_part.h"
#include "transfer/read/placing.h"

namespace headrace::transfer {
namespace {

Status slab_too_small(const char* what) {
  return Status(Code::kInternal, Layer::kTransfer, std::string("a wave's slab is too small for ") + what);
}

}  // namespace

DeviceSink::DeviceSink(const ReadTasks& tasks, std::shared_ptr<device::Device> device, IndexCache& indices,
                       std::shared_ptr<ChunkCache> kept, bool maps)
    : SlabSink(tasks, std::move(device), std::move(kept), true, maps), indices_(indices) {}

// Chunks whose first stages the CPU undoes have to be read by the CPU.
bool DeviceSink::takes_mapped(const Wave& wave) const noexcept { return maps_ && decoding(wave).first_stage == 0; }

// A decode index covers a whole chunk, and a chunk is one item for the decoder.
std::size_t DeviceSink::most_parts(const Wave& wave) const noexcept {
  if (decoding(wave).first_stage != 0 || decoding(wave).index_stride != 0) return 0;
  return !wave.tasks.chain().has_prefix() || decoding(wave).decoder->ends_early() ? 1 : 0;
}

void DeviceSink::begin(Wave& wave) {
  SlabSink::begin(wave);
  WaveDecode& decode = wave.decode;
  const std::size_t count = wave.tasks.tasks.size();
  decode.used.store(0, std::memory_order_relaxed);
  decode.mapped_used.store(0, std::memory_order_relaxed);
  decode.chunks.assign(count, WaveChunk());
  const std::size_t most = wave.tasks.tasks.capacity();  // upper bound for any fill of this wave
  decode.items.reserve(most);
  decode.item_tasks.reserve(most);
  if (decoding(wave).index_stride != 0) decode.index_keys.reserve(most);
}

bool DeviceSink::may_keep(const Wave& wave) const noexcept {
  return !keeps_encoded() || decoding(wave).first_stage == 0;
}

Status DeviceSink::note_kept(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker) {
  return keeps_encoded() ? take_kept_encoded(wave, group, task_index, worker)
                         : SlabSink::note_kept(wave, group, task_index, worker);
}

// Takes stored bytes that are on the device already: a whole chunk is decoded from the cache, a part is put together in
// the encoded area.
Status DeviceSink::take_kept_encoded(Wave& wave, const TaskGroup& group, std::uint32_t task_index, Worker& worker) {
  WaveChunk& chunk = wave.decode.chunks[task_index];
  const Task& task = wave.tasks.tasks[task_index];
  chunk.from_kept = true;
  tasks_.describe(group, task, worker);
  StoredChunk stored{{static_cast<const std::byte*>(nullptr), chunk.kept.size()}};
  if (tasks_.parts() && takes_parts(wave)) {
    stored.part_bytes = wanted_prefix(wave.tasks, worker.detail);
    OnePart one;
    if (stored.part_bytes == 0 &&
        cut_one_part(tasks_, wave, group, task, chunk.kept_head, chunk.kept.size(), worker, one) &&
        has_mapped_room(wave, one.part.head_bytes, one.part.bytes)) {
      worker.described = nullptr;  // its boxes may be consumed
      tasks_.describe(group, task, worker);
      MappedRange range;
      range.offset = one.part.begin;
      range.length = one.part.bytes;
      const MappedPart part{std::span(one.head).first(one.part.head_bytes), range, one.part.decoded_begin,
                            one.part.decoded_bytes};
      return note_mapped_part(wave, task_index, part, one.part.begin, worker).status();
    }
    worker.described = nullptr;
    tasks_.describe(group, task, worker);
  }
  return note_encoded(wave, task_index, stored, worker);
}

// Room for the encoded bytes of one task, the same on every call; nullopt: more than any chunk may have.
std::optional<std::span<std::byte>> DeviceSink::reserve(Wave& wave, std::uint32_t task_index,
                                                        std::uint64_t bytes) const {
  WaveChunk& chunk = wave.decode.chunks[task_index];
  if (chunk.at == WaveChunk::kNowhere) {
    chunk.room = base::align_up(bytes, kSlabAlignment);
    // Mapped and straight chunks have no place in the pinned slab. Their places grow from the end of the area towards
    // the others'; the area is large enough for the longest chunks of all tasks.
    const bool from_end = chunk.mapped || chunk.straight;
    std::atomic<std::uint64_t>& used = from_end ? wave.decode.mapped_used : wave.decode.used;
    const std::uint64_t before = used.fetch_add(chunk.room, std::memory_order_relaxed);
    const bool fits = before <= areas(wave).encoded_bytes && chunk.room <= areas(wave).encoded_bytes - before;
    chunk.at = from_end ? areas(wave).encoded_bytes - before - chunk.room : before;
    if (!fits) chunk.room = 0;
  }
  if (bytes > chunk.room) return std::nullopt;
  return base::part(wave.stage.slot->pinned, chunk.at, bytes);
}

// Reserves room for a group's stored bytes as they lie in the object, so that one copy moves them. Many small pieces
// would need a kernel, which would wait for the decoders of earlier waves. False: each task gets its own place.
bool DeviceSink::reserve_together(Wave& wave, const TaskGroup& group, std::uint64_t offset,
                                  std::uint64_t length) const {
  const Task* const tasks = &wave.tasks.tasks[group.first_task];
  if (group.task_count < 2 || tasks->length == 0 || tasks->offset != offset) return false;
  for (std::uint32_t i = group.first_task; keeps_encoded() && i < group.first_task + group.task_count; ++i) {
    if (!wave.decode.chunks[i].kept.empty() && !wave.decode.chunks[i].keeps) return false;  // it comes from elsewhere
  }
  // Gaps between the tasks must not take more room than the tasks may take together.
  const std::uint64_t most =
      base::align_up(wave.tasks.chain().capacity_before(decoding(wave).first_stage), kSlabAlignment);
  const auto live = std::count_if(tasks, tasks + group.task_count, [](const Task& task) { return task.length != 0; });
  const std::uint64_t room = base::align_up(length, kSlabAlignment);
  if (room > static_cast<std::uint64_t>(live) * most) return false;
  const std::uint64_t before = wave.decode.mapped_used.fetch_add(room, std::memory_order_relaxed);
  const bool fits = before <= areas(wave).encoded_bytes && room <= areas(wave).encoded_bytes - before;
  for (std::uint32_t i = 0; fits && i < group.task_count; ++i) {
    if (tasks[i].length == 0) continue;
    WaveChunk& chunk = wave.decode.chunks[group.first_task + i];
    chunk.at = areas(wave).encoded_bytes - before - room + (tasks[i].offset - offset);
    chunk.room = tasks[i].length;
  }
  return fits;
}

std::span<std::byte> DeviceSink::straight_room(Wave& wave, const TaskGroup& group, std::uint64_t offset,
                                               std::uint64_t length) {
  WaveChunk* const chunks = &wave.decode.chunks[group.first_task];
  const bool alone = group.task_count == 1;
  if (alone ? !wave.tasks.chain().accepts_encoded_size(length) : !reserve_together(wave, group, offset, length))
    return {};
  for (std::uint32_t i = 0; i < group.task_count; ++i) chunks[i].straight = true;
  if (alone && !reserve(wave, group.first_task, length)) return {};
  return base::part(wave.stage.slot->on_device.first(static_cast<std::size_t>(areas(wave).encoded_bytes)), chunks->at,
                    length)
      .value_or(std::span<std::byte>());
}

// The chunks keep their places at the end of the area, and get the same ones in the pinned slab.
void DeviceSink::leave_straight(Wave& wave, const TaskGroup& group) noexcept {
  for (std::uint32_t i = 0; i < group.task_count; ++i) wave.decode.chunks[group.first_task + i].apart = true;
}

Result<std::span<std::byte>> DeviceSink::own_buffer(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                                    Worker& worker) {
  (void)worker;
  if (decoding(wave).first_stage != 0) return std::span<std::byte>();
  HEADRACE_TRY(wave.tasks.chain().check_encoded_size(length));
  return reserve(wave, group.first_task, length).value_or(std::span<std::byte>());
}

// Room in the pinned slab for the longest chunk, because the length is known only after arrival.
std::span<std::byte> DeviceSink::arrival_room(Wave& wave, const TaskGroup& group, std::uint64_t length,
                                              Worker& worker) {
  (void)worker;
  const std::uint64_t share =
      areas(wave).encoded_bytes / std::max<std::uint64_t>(wave.form->sizes.tasks, 1) / kSlabAlignment * kSlabAlignment;
  WaveChunk& chunk = wave.decode.chunks[group.first_task];
  const bool apart = group.task_count == 1 && decoding(wave).first_stage == 0 && length >= kMinArrivingBytes &&
                     length <= share && chunk.at == WaveChunk::kNowhere;
  if (!apart) return {};
  const auto place = reserve(wave, group.first_task, share);
  chunk.apart = place.has_value();
  return place ? place->first(static_cast<std::size_t>(length)) : std::span<std::byte>();
}

// The stored bytes may be in the slab already.
Status DeviceSink::take_task(Wave& wave, const TaskGroup& group, std::uint32_t task_index, const StoredChunk& stored,
                             Worker& worker) {
  (void)group;
  const codec::Chain& chain = wave.tasks.chain();
  std::span<const std::byte> encoded = stored.bytes;
  HEADRACE_TRY(chain.check_encoded_size(encoded.size()));
  if (decoding(wave).first_stage > 0) {
    const std::span<std::byte> target =
        worker.memory->decoded.reserve(static_cast<std::size_t>(chain.capacity_before(decoding(wave).first_stage)));
    if (target.data() == nullptr || !prepare(wave, worker)) return Status::out_of_memory();
    trace::Timer timer(trace::Stage::kDecode);
    HEADRACE_DELAY("transfer.decode");
    std::size_t produced = 0;
    Status status = chain.decode_until(decoding(wave).first_stage, encoded, target, worker.workspace, produced);
    timer.set_bytes(produced);
    worker.stats.decode_seconds += timer.stop();
    if (!status.ok()) return status;
    encoded = target.first(std::min(produced, target.size()));
  }
  const auto place = reserve(wave, task_index, encoded.size());
  if (!place) return slab_too_small("its encoded bytes");
  if (place->data() != encoded.data() && !encoded.empty()) {
    std::memcpy(place->data(), encoded.data(), encoded.size());
  }
  return note_encoded(wave, task_index, {encoded, stored.skipped, stored.part_bytes}, worker);
}

// Notes a task whose bytes have their place in the encoded area; does not read mapped bytes. REQUIRES: worker.detail
// describes the task.
Status DeviceSink::note_encoded(Wave& wave, std::uint32_t task_index, const StoredChunk& stored, Worker& worker) const {
  WaveChunk& chunk = wave.decode.chunks[task_index];
  chunk.bytes = stored.bytes.size();
  const bool prefix = stored.part_bytes != 0 && wave.tasks.chain().has_prefix();
  chunk.part = stored.part_bytes != 0 && !prefix;
  chunk.enough = prefix ? stored.part_bytes : 0;
  chunk.skipped = stored.skipped;
  chunk.delivered = ReadTasks::element_bytes(wave.tasks, worker.detail);
  if (chunk.keeps && stored.part_bytes != 0) withdraw(chunk);
  const std::uint64_t decoded_bytes = chunk.part ? stored.part_bytes : wave.tasks.chain().decoded_bytes();
  // Straight into the tensor, where decoders may write with their widest accesses.
  const bool in_place = !chunk.part && !prefix && (!chunk.keeps || keeps_encoded()) && worker.detail.whole_chunk &&
                        wave.tasks.op().moves_bytes_only() &&
                        reinterpret_cast<std::uintptr_t>(worker.detail.box.dst) % kSlabAlignment == 0;
  worker.described = nullptr;  // the box is consumed
  if (in_place) {
    const auto target = whole_target(worker.detail, decoded_bytes);
    if (!target) return Status(Code::kInternal, Layer::kTransfer, "a chunk reaches beyond the tensor");
    chunk.dst = *target;
    return {};
  }
  const auto place = base::part(device_place(wave, task_index), 0, decoded_bytes);
  if (!place) return slab_too_small("a decoded chunk");
  const auto wanted = base::part(*place, 0, prefix ? chunk.enough : place->size());
  if (!wanted) return slab_too_small("a part of a decoded chunk");
  HEADRACE_TRY(note_boxes(wave, task_index, *wanted, stored.skipped, worker.detail));
  chunk.dst = *place;
  return {};
}

Status DeviceSink::note_mapped(Wave& wave, std::uint32_t task_index, std::uint64_t skipped, std::uint64_t length,
                               Worker& worker) {
  (void)skipped;
  HEADRACE_TRY(wave.tasks.chain().check_encoded_size(length));
  worker.stats.stored_bytes += length;
  WaveChunk& chunk = wave.decode.chunks[task_index];
  chunk.mapped = !chunk.straight;  // which reserve() looks at
  if (!reserve(wave, task_index, length)) return slab_too_small("its encoded bytes");
  const std::uint64_t table_bytes = std::min<std::uint64_t>(wave.tasks.chain().part_table_bytes(), length);
  if (chunk.keeps && keeps_encoded() && has_room_apart(wave, table_bytes, length)) {
    // The CPU must not read a mapping, whose file may shrink: the table is copied back from the device.
    chunk.head_bytes = table_bytes;
    chunk.head_at = wave.decode.used.fetch_add(base::align_up(table_bytes, kSlabAlignment), std::memory_order_relaxed);
  }
  StoredChunk stored{{static_cast<const std::byte*>(nullptr), static_cast<std::size_t>(length)}};
  if (tasks_.parts() && takes_parts(wave) && !keeps(wave, task_index))
    stored.part_bytes = wanted_prefix(wave.tasks, worker.detail);
  return note_encoded(wave, task_index, stored, worker);
}

bool DeviceSink::has_mapped_room(const Wave& wave, std::uint64_t head_bytes, std::uint64_t bytes) const noexcept {
  return takes_mapped(wave) && has_room_apart(wave, head_bytes, bytes);
}

// The head, in the pinned slab, and the bytes, which grow towards it, must both fit the task's share of the area.
bool DeviceSink::has_room_apart(const Wave& wave, std::uint64_t head_bytes, std::uint64_t bytes) const noexcept {
  const std::uint64_t share = areas(wave).encoded_bytes / std::max<std::uint64_t>(wave.form->sizes.tasks, 1);
  return bytes <= share && head_bytes <= share &&
         base::align_up(head_bytes, kSlabAlignment) + base::align_up(head_bytes + bytes, kSlabAlignment) <= share;
}

Result<std::span<const std::byte>> DeviceSink::note_mapped_part(Wave& wave, std::uint32_t task_index,
                                                                const MappedPart& part, std::uint64_t stored_at,
                                                                Worker& worker) {
  WaveChunk& chunk = wave.decode.chunks[task_index];
  chunk.head_bytes = part.head.size();
  chunk.head_at =
      wave.decode.used.fetch_add(base::align_up(chunk.head_bytes, kSlabAlignment), std::memory_order_relaxed);
  chunk.stored_at = stored_at;
  chunk.mapped = true;  // which reserve() looks at
  const auto place = base::part(wave.stage.slot->pinned.first(static_cast<std::size_t>(areas(wave).encoded_bytes)),
                                chunk.head_at, chunk.head_bytes);
  const std::uint64_t bytes = chunk.head_bytes + part.range.length;
  if (!place || !reserve(wave, task_index, bytes)) return slab_too_small("a part's encoded bytes");
  std::ranges::copy(part.head, place->begin());
  const StoredChunk stored{
      {static_cast<const std::byte*>(nullptr), static_cast<std::size_t>(bytes)}, part.skipped, part.decoded_bytes};
  HEADRACE_TRY(note_encoded(wave, task_index, stored, worker));
  return std::span<const std::byte>(*place);
}

// Lists the decoder's items, and the boxes to place after decoding.
Status DeviceSink::gather(Wave& wave, std::size_t& boxes) const {
  WaveDecode& decode = wave.decode;
  const std::span<std::byte> area =
      wave.stage.slot->on_device.first(static_cast<std::size_t>(areas(wave).encoded_bytes));
  decode.items.clear();
  decode.item_tasks.clear();
  begin_several(wave);
  boxes = 0;
  for (std::size_t i = 0; i < wave.tasks.tasks.size(); ++i) {
    WaveChunk& chunk = decode.chunks[i];
    if (!chunk.dst.empty()) {
      const bool in_cache = chunk.from_kept && !chunk.part;
      const auto src = in_cache ? base::part(chunk.kept, 0, chunk.bytes) : base::part(area, chunk.at, chunk.bytes);
      if (!src) return Status(Code::kInternal, Layer::kTransfer, "encoded bytes lie outside of their area");
      decode.items.push_back(
          {src->data(), src->size(), chunk.dst.data(), chunk.part ? chunk.dst.size() : 0, chunk.enough});
      decode.item_tasks.push_back(static_cast<std::uint32_t>(i));
    }
    const device::Box& box = wave.stage.boxes[i];
    if (box.rank == WaveStage::kNoBoxes) continue;
    if (box.rank == WaveStage::kSeveralBoxes) {
      wave.stage.several.push_back({static_cast<std::uint32_t>(i), box.src});
      chunk.several = true;
      continue;
    }
    if (boxes != i) wave.stage.boxes[boxes] = box;
    chunk.box = static_cast<std::uint32_t>(boxes++);
  }
  return {};
}

// Adds each chunk of the pinned slab as a piece of its own.
Status DeviceSink::add_apart(Wave& wave) const {
  const StagingSlot& slot = *wave.stage.slot;
  for (const WaveChunk& chunk : wave.decode.chunks) {
    if (chunk.dst.empty() || !chunk.in_pinned_slab() || chunk.from_kept || chunk.bytes == 0) continue;
    const auto from = base::part(slot.pinned, chunk.at, chunk.bytes),
               to = base::part(slot.on_device, chunk.at, chunk.bytes);
    if (!from || !to) return slab_too_small("its encoded bytes");
    wave.stage.pieces.push_back({from->data(), to->data(), to->size()});
  }
  return {};
}

// Adds the used part of the pinned slab as one piece, and mapped bytes with their places after it.
Status DeviceSink::add_encoded_pieces(Wave& wave) const {
  StagingSlot& slot = *wave.stage.slot;
  wave.stage.pieces.clear();
  const auto used =
      static_cast<std::size_t>(std::min(wave.decode.used.load(std::memory_order_relaxed), areas(wave).encoded_bytes));
  if (std::ranges::any_of(wave.decode.chunks, &WaveChunk::apart)) {
    HEADRACE_TRY(add_apart(wave));
  } else if (used > 0 && !wave.decode.items.empty()) {
    wave.stage.pieces.push_back({slot.pinned.data(), slot.on_device.data(), used});
  }
  const std::span<std::byte> area = slot.on_device.first(static_cast<std::size_t>(areas(wave).encoded_bytes));
  for (const MappedShare::TaskBytes& piece : wave.fetch.mapped.pieces) {
    // One piece may hold bytes of several tasks, so it is bounded by the whole area.
    const auto dst = base::part(area, wave.decode.chunks[piece.task].at + piece.within, piece.src.size());
    if (!dst) return Status(Code::kInternal, Layer::kTransfer, "a mapped piece exceeds its buffer");
    wave.stage.pieces.push_back({piece.src.data(), dst->data(), dst->size()});
  }
  for (const WaveChunk& chunk : wave.decode.chunks) {
    if (!chunk.from_kept || !chunk.part || chunk.dst.empty()) continue;
    const auto head = base::part(slot.pinned, chunk.head_at, chunk.head_bytes),
               dst = base::part(area, chunk.at, chunk.head_bytes);
    if (!head || !dst) return slab_too_small("the head of a part");
    wave.stage.pieces.push_back({head->data(), dst->data(), dst->size()});
  }
  return {};
}

// Moves stored bytes between the ChunkCache and the encoded area in one call, and fetches the tables of chunks that are
// cached and that the pinned slab does not have.
Status DeviceSink::move_kept(Wave& wave) const {
  StagingSlot& slot = *wave.stage.slot;
  const std::span<std::byte> area = slot.on_device.first(static_cast<std::size_t>(areas(wave).encoded_bytes));
  std::vector<device::Box>& moves = wave.decode.kept_moves;
  moves.clear();
  wave.stage.pieces.clear();
  for (WaveChunk& chunk : wave.decode.chunks) {
    if (chunk.dst.empty() || (!chunk.keeps && !(chunk.from_kept && chunk.part))) continue;
    const auto in_area = base::part(area, chunk.at, chunk.bytes);
    const std::uint64_t head_bytes = chunk.keeps ? 0 : chunk.head_bytes;
    const std::uint64_t from = chunk.keeps ? 0 : chunk.stored_at;
    const auto kept = base::part(chunk.kept, from, chunk.bytes - head_bytes);
    if (!in_area || !kept || (chunk.keeps && chunk.bytes != chunk.kept.size())) {
      return Status(Code::kInternal, Layer::kTransfer, "a cached chunk does not have the size of its cache entry");
    }
    device::Box move;
    move.rank = 1;
    move.dim[0] = {.extent = kept->size(), .src_stride_bytes = 1, .dst_stride_bytes = 1};
    move.src = chunk.keeps ? in_area->data() : kept->data();
    move.dst = chunk.keeps ? kept->data() : in_area->data() + head_bytes;
    moves.push_back(move);
    if (!chunk.keeps || chunk.in_pinned_slab() || chunk.head_bytes == 0) continue;
    const auto head = base::part(slot.pinned.first(static_cast<std::size_t>(areas(wave).encoded_bytes)), chunk.head_at,
                                 chunk.head_bytes);
    if (head) wave.stage.pieces.push_back({in_area->data(), head->data(), head->size()});
  }
  if (!moves.empty()) HEADRACE_TRY(device_->assemble(moves, {.element_bytes = 1}, nullptr, *slot.stream));
  if (!wave.stage.pieces.empty()) HEADRACE_TRY(device_->copy_to_host(wave.stage.pieces, *slot.stream));
  return {};
}

// First stored bytes of a chunk that a finished wave has cached.
std::span<const std::byte> DeviceSink::head_of(const Wave& wave, const WaveChunk& chunk) const noexcept {
  const std::uint64_t table_bytes = std::min<std::uint64_t>(wave.tasks.chain().part_table_bytes(), chunk.bytes);
  const bool fetched = !chunk.in_pinned_slab();
  if (!keeps_encoded() || table_bytes == 0 || (fetched && chunk.head_bytes != table_bytes)) return {};
  return base::part(wave.stage.slot->pinned.first(static_cast<std::size_t>(areas(wave).encoded_bytes)),
                    fetched ? chunk.head_at : chunk.at, table_bytes)
      .value_or(std::span<std::byte>());
}

// Fetches stored bytes that are only on the device.
Result<std::span<const std::byte>> DeviceSink::fetch_stored(const Wave& wave, const WaveChunk& chunk,
                                                            Worker& worker) const {
  StagingSlot& slot = *wave.stage.slot;
  const bool in_area = chunk.straight || chunk.part;
  const auto src = in_area ? base::part(slot.on_device, chunk.at, chunk.bytes) : base::part(chunk.kept, 0, chunk.bytes);
  const std::span<std::byte> to = worker.memory->encoded.reserve(static_cast<std::size_t>(chunk.bytes));
  if (!src) return slab_too_small("its encoded bytes");
  if (to.data() == nullptr) return Status::out_of_memory();
  const device::Piece piece{src->data(), to.data(), src->size()};
  HEADRACE_TRY(device_->copy_to_host({&piece, 1}, *slot.stream));
  HEADRACE_TRY(device_->record(*slot.event, *slot.stream));
  HEADRACE_TRY(device_->synchronize(*slot.event));
  return std::span<const std::byte>(to.first(static_cast<std::size_t>(chunk.bytes)));
}

// One copy call, one decode call, at most one assemble call for chunks with one box each.
Status DeviceSink::queue(Wave& wave, Worker& worker) {
  StagingSlot& slot = *wave.stage.slot;
  std::size_t boxes = 0;
  HEADRACE_TRY(gather(wave, boxes));
  HEADRACE_TRY(add_encoded_pieces(wave));
  HEADRACE_TRY(copy_pieces(wave, worker));
  if (keeps_encoded()) HEADRACE_TRY(move_kept(wave));
  if (trace::recording() && device_->record(*slot.copied, *slot.stream).ok()) wave.times.copy_marked = true;
  if (!wave.decode.items.empty()) {
    auto* const first = reinterpret_cast<device::DecodeOutcome*>(slot.pinned.data() + areas(wave).outcomes_at);
    const std::span<std::byte> scratch = slot.on_device.subspan(static_cast<std::size_t>(areas(wave).scratch_at),
                                                                static_cast<std::size_t>(areas(wave).scratch_bytes));
    HEADRACE_TRY(decoding(wave).decoder->decode(wave.decode.items, scratch, {first, wave.decode.items.size()},
                                                *slot.stream, nullptr, give_indices(wave)));
  }
  HEADRACE_TRY(assemble(wave, {wave.stage.boxes.data(), boxes}));
  return assemble_several(wave, wave.stage.several, worker);
}

std::span<const device::DecodeOutcome> DeviceSink::outcomes(const Wave& wave) const noexcept {
  return {reinterpret_cast<const device::DecodeOutcome*>(wave.stage.slot->pinned.data() + areas(wave).outcomes_at),
          wave.decode.items.size()};
}

device::DecodeIndices DeviceSink::indices_of(const Wave& wave) const {
  if (decoding(wave).index_stride == 0) return {};
  return {wave.stage.slot->pinned.data() + areas(wave).indices_at,
          wave.stage.slot->on_device.data() + areas(wave).indices_on_device_at, decoding(wave).index_stride,
          static_cast<std::uint32_t>(wave.decode.items.size())};
}

// Passes the cached decode indices of the wave's chunks; for the other chunks an index is to be collected. Locks the
// cache once.
device::DecodeIndices DeviceSink::give_indices(Wave& wave) const {
  const device::DecodeIndices indices = indices_of(wave);
  const std::uint64_t stride = decoding(wave).index_stride;
  if (stride == 0) return indices;
  WaveDecode& decode = wave.decode;
  decode.index_keys.clear();
  for (const std::uint32_t task : decode.item_tasks) {
    decode.index_keys.push_back(tasks_.plan().index_key(group_of(wave.tasks, task), wave.tasks.tasks[task]));
  }
  IndexCache::Access cache(indices_);
  for (std::size_t i = 0; i < decode.items.size(); ++i) {
    indices.given(i) = cache.find(decode.index_keys[i], decode.items[i].src_bytes, indices.entries(i), stride);
  }
  return indices;
}

// Caches the indices that the wave collected, and remembers chunks for which an index is useless.
void DeviceSink::keep_indices(const Wave& wave, Worker& worker) const {
  const WaveDecode& decode = wave.decode;
  if (decoding(wave).index_stride == 0 || decode.items.empty()) return;
  const device::DecodeIndices indices = indices_of(wave);
  IndexCache::Access cache(indices_);
  for (std::size_t i = 0; i < decode.items.size(); ++i) {
    const std::uint32_t given = indices.given(i), made = indices.made(i);
    const bool was_given = given != device::kIndexNone && given != device::kIndexCollect;
    if (was_given && made == device::kIndexBad) {
      cache.drop(decode.index_keys[i]);
      ++worker.stats.bad_indices;
    }
    if (!outcomes(wave)[i].ok() || decode.chunks[decode.item_tasks[i]].failed) continue;
    const std::uint64_t encoded_bytes = decode.items[i].src_bytes;
    if (was_given && made == device::kIndexNothing) ++worker.stats.indexed_chunks;
    if (made == device::kIndexUseless) cache.mark_useless(decode.index_keys[i], encoded_bytes);
    if (given == device::kIndexCollect && made != device::kIndexNothing && made <= decoding(wave).index_stride) {
      cache.keep(decode.index_keys[i], encoded_bytes, {indices.entries(i), made});
    }
  }
}

void DeviceSink::count_decoded(const Wave& wave, Worker& worker) const {
  std::size_t good = 0;
  std::uint64_t delivered = 0;
  for (std::size_t i = 0; i < wave.decode.items.size(); ++i) {
    const WaveChunk& chunk = wave.decode.chunks[wave.decode.item_tasks[i]];
    if (!outcomes(wave)[i].ok() || chunk.failed) continue;
    ++good;
    worker.stats.kept_encoded_chunks += chunk.from_kept ? 1 : 0;
    delivered += chunk.delivered;
    worker.stats.skipped_bytes += wave.tasks.chain().decoded_bytes() - chunk.wanted_bytes();
  }
  worker.stats.chunks += good;
  worker.stats.gpu_chunks += good;
  worker.stats.decoded_bytes += delivered;
  worker.stats.gpu_decoded_bytes += delivered;
  tasks_.report().add_done(good);
}

bool DeviceSink::returns_tasks(const Wave& wave) const noexcept {
  const auto all = outcomes(wave);
  return !std::all_of(all.begin(), all.end(), [](const device::DecodeOutcome& outcome) { return outcome.ok(); });
}

std::span<const std::uint32_t> DeviceSink::settle(Wave& wave, Worker& worker) {
  WaveDecode& decode = wave.decode;
  keep_indices(wave, worker);
  count_decoded(wave, worker);
  decode.returned.clear();
  for (std::size_t i = 0; i < decode.items.size(); ++i) {
    const std::uint32_t task = decode.item_tasks[i];
    WaveChunk& chunk = decode.chunks[task];
    const bool good = outcomes(wave)[i].ok() && !chunk.failed;
    // A chunk that the CPU had to decode would need it again, so it is not cached.
    if (std::exchange(chunk.keeps, false)) {
      good ? kept_->keep(chunk.entry, head_of(wave, chunk)) : kept_->drop(chunk.entry);
    }
    if (!outcomes(wave)[i].ok() && !chunk.failed) decode.returned.push_back(task);
  }
  decode.returned_bytes = 0;
  wave.stage.pieces.clear();
  decode.returned_boxes.clear();
  wave.stage.several.clear();
  return decode.returned;
}

// Decodes into free space of the wave's pinned slab, which is uploaded whenever it is full.
Status DeviceSink::decode_returned(Wave& wave, std::uint32_t task_index, std::span<const std::byte> data,
                                   Worker& worker) {
  WaveDecode& decode = wave.decode;
  const codec::Chain& chain = wave.tasks.chain();
  const WaveChunk& chunk = decode.chunks[task_index];
  // The space follows the encoded bytes, where the slab has room for one chunk even if the encoded area is full. Both
  // are multiples of kSlabAlignment; a coarser alignment would reach into the outcomes.
  const std::uint64_t first = std::min(decode.used.load(std::memory_order_relaxed), areas(wave).encoded_bytes);
  const std::uint64_t stride = wave.form->sizes.stride;
  if (first + decode.returned_bytes + stride > areas(wave).outcomes_at) HEADRACE_TRY(finish_returned(wave, worker));
  const auto target = base::part(wave.stage.slot->pinned.first(static_cast<std::size_t>(areas(wave).outcomes_at)),
                                 first + decode.returned_bytes, chunk.wanted_bytes());
  // Of a straight chunk the pinned slab has nothing, or bytes that lie in the way of what is decoded here.
  if (chunk.from_kept || chunk.straight) {
    HEADRACE_TRY_ASSIGN(data, fetch_stored(wave, chunk, worker));
  }
  const auto staged = base::part(wave.stage.slot->pinned, chunk.at, chunk.bytes);
  Status status;
  if (!target || (data.empty() && !staged) || chunk.dst.size() < target->size()) {
    status = slab_too_small("a decoded chunk");
  } else if (!prepare(wave, worker)) {
    status = Status::out_of_memory();
  } else {
    trace::Timer timer(trace::Stage::kDecode, target->size());
    HEADRACE_DELAY("transfer.decode");
    const std::span<const std::byte> encoded = data.empty() ? *staged : data;
    status = chunk.part || chunk.enough != 0
                 ? decode_parts(chain, {encoded, chunk.skipped}, *target, worker.workspace)
                 : chain.decode_from(decoding(wave).first_stage, encoded, *target, worker.workspace);
    worker.stats.decode_seconds += timer.stop();
  }
  if (!status.ok()) {
    tasks_.fail(wave.tasks, group_of(wave.tasks, task_index), wave.tasks.tasks[task_index], worker, std::move(status));
    return {};
  }
  wave.stage.pieces.push_back({target->data(), chunk.dst.data(), target->size()});
  if (chunk.box != WaveChunk::kNoBox) decode.returned_boxes.push_back(wave.stage.boxes[chunk.box]);
  if (chunk.several) wave.stage.several.push_back({task_index, chunk.dst.data() - chunk.skipped});
  decode.returned_bytes += stride;
  worker.stats.skipped_bytes += chain.decoded_bytes() - target->size();
  ++worker.stats.returned_chunks;
  count_taken(wave.tasks, chunk.delivered, worker);
  return {};
}

Status DeviceSink::finish_returned(Wave& wave, Worker& worker) {
  if (wave.stage.pieces.empty()) return {};
  StagingSlot& slot = *wave.stage.slot;
  HEADRACE_TRY(copy_pieces(wave, worker));
  HEADRACE_TRY(assemble(wave, wave.decode.returned_boxes));
  HEADRACE_TRY(assemble_several(wave, wave.stage.several, worker));
  HEADRACE_TRY(device_->record(*slot.event, *slot.stream));
  HEADRACE_TRY(device_->synchronize(*slot.event));
  wave.stage.pieces.clear();
  wave.decode.returned_boxes.clear();
  wave.stage.several.clear();
  wave.decode.returned_bytes = 0;
  return {};
}

}  // namespace headrace::transfer
