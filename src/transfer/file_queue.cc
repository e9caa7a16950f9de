// Requests: taking them, choosing a way for each range, cutting it into parts.
#include "transfer/file_queue.h"

#include <algorithm>
#include <new>

#include "base/checked.h"
#include "base/clock.h"
#include "base/file_mapping.h"
#include "base/file_read.h"
#include "base/grow.h"

namespace headrace {

using transfer::FilePart;
using transfer::Way;

namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;  // parts begin and end at multiples of it
constexpr std::uint64_t kInlineBytes = std::uint64_t{64}
                                       << 10;  // a lone cached read up to this is not worth a hand-over
// So much is read from the page cache by the queue's thread in the time that a hand-over of many parts takes.
constexpr std::uint64_t kSmallBytes = std::uint64_t{8} << 10, kMostHereBytes = std::uint64_t{128} << 10;
constexpr std::size_t kMostParts = 4096;
constexpr std::size_t kLongList = 4096;
constexpr std::uint64_t kWaveBytes = std::uint64_t{16} << 20;
// Copy engines are busy with less, and a caller with few requests in flight gets some of them back sooner.
constexpr std::uint64_t kLargePieceBytes = std::uint64_t{64} << 10, kLargeWaveBytes = std::uint64_t{4} << 20;

transfer::RoutePolicy policy(const FileQueueOptions& queue, const ContextOptions& context, bool staged) {
  return {.path = queue.path,
          .staged = staged,
          .skip_io = queue.skip_io,
          .allow_mapped = context.allow_mapped,
          .allow_direct = context.allow_direct,
          .network_direct = queue.network_direct,
          .cache_reread = context.cache_reread};
}

Status invalid(std::string message) { return Status(Code::kInvalidArgument, Layer::kTransfer, std::move(message)); }

}  // namespace

FileQueue::Impl::Impl(std::shared_ptr<transfer::Resources> resources, std::shared_ptr<device::Device> device,
                      const FileQueueOptions& options)
    : resources_(std::move(resources)),
      device_(std::move(device)),
      options_(options),
      staged_(!device_->info().host_addressable),
      router_(policy(options_, resources_->options(), staged_), device_, resources_->reuse(), notes_),
      files_(*resources_) {}

Status FileQueue::Impl::prepare() {
  if (options_.depth < 1 || options_.depth > 4096) return invalid("depth must be 1 to 4096");
  if (options_.staging_bytes < 4 * kBlockBytes) return invalid("staging_bytes must be at least 4 MiB");
  HEADRACE_TRY(resources_->check_usable());
  mapped_ = &resources_->mapped();
  router_.use(*mapped_);
  // Two extra pages a part: direct reads are widened to whole blocks.
  const std::size_t most = std::min<std::size_t>(kMostParts, options_.staging_bytes / kPageUnit);
  parts_.resize(most);
  free_parts_.reserve(most);
  for (FilePart& part : parts_) free_parts_.push_back(&part);
  to_crew_.reserve(most);
  arrived_.reserve(most);
  collected_.reserve(most);
  direct_.reserve(most);
  const bool may_map =
      staged_ && resources_->options().allow_mapped && (options_.path == Path::kAuto || options_.path == Path::kMapped);
  crew_ = std::make_shared<transfer::FileCrew>(resources_->pool(), may_map ? mapped_ : nullptr, device_,
                                               resources_->threads(), most);
  crew_->elsewhere = [this] { direct_.wake(); };
  if (staged_) {
    HEADRACE_TRY(make_lane(in_, false));
    HEADRACE_TRY_ASSIGN(slab_, device_->allocate_pinned(options_.staging_bytes));
  }
  near_use_ = resources_->near().use(staged_ ? device_->info().numa_node : transfer::NearThreads::kAllCpus);
  slab_map_.emplace(staged_ ? base::align_down(options_.staging_bytes, kPageUnit) : 0);
  files_.begin();
  return {};
}

FileQueue::Impl::~Impl() {
  if (!resources_->check_usable().ok()) return;  // a forked child: threads, engine and device are the parent's
  if (crew_ != nullptr) {                        // else nothing was added
    for (const Index index : requests_.waiting()) {
      requests_.fail(index, Status(Code::kCancelled, Layer::kTransfer, "the queue was destroyed"));
    }
    FileCompletion gone;
    while (pending() > 0) (void)wait({&gone, 1}, 1, std::chrono::seconds(1));
    crew_->close();
  }
  direct_.close();
  in_.waves.clear();
  out_.waves.clear();
  for (Lane* lane : {&in_, &out_}) {
    for (auto& stream : lane->streams) stream.reset();
  }
  if (staged_ && slab_ != nullptr) device_->deallocate_pinned(slab_, options_.staging_bytes);
}

void FileQueue::Impl::leave_thread() {
  direct_.close();
  files_.drop_idle();
}

FileStats FileQueue::Impl::stats() const {
  FileStats out = stats_;
  out.engine = direct_.name();
  out.system_calls += direct_.system_calls();
  out.notes = notes_.text();
  out.system_calls += router_.system_calls();
  if (!resources_->check_usable().ok()) return out;  // the locks behind the rest may be held by a thread of the parent
  if (const std::string mapped = mapped_->note(); !mapped.empty()) out.notes += mapped + "\n";
  if (const std::string near = resources_->near().note(); !near.empty()) out.notes += near + "\n";
  return out;
}

Status FileQueue::Impl::add(const std::shared_ptr<base::FileHandle>& file, std::span<const FileRange> ranges,
                            bool write, std::uint64_t tag) {
  if (write && !file->writable()) {
    return invalid("the file is open for reading only").with_key(file->path());
  }
  std::uint64_t bytes = 0;
  for (const FileRange& range : ranges) {
    if (range.memory == nullptr && range.bytes != 0) return invalid("a range without memory").with_key(file->path());
    if (range.offset_bytes > INT64_MAX || range.bytes > INT64_MAX - range.offset_bytes) {
      return invalid("a range ends beyond the largest file").with_range(range.offset_bytes, range.bytes);
    }
    bytes += range.bytes;
  }
  HEADRACE_TRY(resources_->check_usable());
  const Index index = requests_.next();
  router_.begin_round();  // what was found out before this request came says nothing of the file now
  Request& request = requests_[index];
  if (write && staged_ && out_.waves.empty()) HEADRACE_TRY(make_lane(out_, true));
  const bool first = requests_.waiting().empty() && ranges.size() > kLongList;
  if (first) {
    request.list = ranges;
  } else {
    request.ranges.assign(ranges.begin(), ranges.end());
    request.list = request.ranges;
  }
  request.file = files_.acquire(file);  // nothing fails from here on
  request.count = ranges.size();
  request.write = write;
  request.tag = tag;
  request.bytes = bytes;
  requests_.begin(index);
  if (!first) return {};
  // A long list is begun from the caller's memory; what is left is copied while the device is at work.
  (void)progress();
  const auto left = requests_[index].list.subspan(std::min(requests_[index].next, ranges.size()));
  try {
    requests_[index].ranges.assign(left.begin(), left.end());
  } catch (const std::bad_alloc&) {
    requests_.fail(index, Status::out_of_memory());
    requests_[index].ranges.clear();
  }
  requests_[index].list = requests_[index].ranges;
  requests_[index].next = 0;
  return {};
}

Status FileQueue::Impl::add_paths(std::span<const PathRange> ranges, std::uint64_t tag) {
  std::uint64_t bytes = 0;
  for (const PathRange& range : ranges) {
    if (range.path == nullptr || (range.memory == nullptr && range.bytes != 0)) {
      return invalid("a range without a path or memory");
    }
    // One piece of the slab each.
    if (staged_ && range.bytes > options_.staging_bytes / 2) {
      return invalid("larger than half of staging_bytes: open it as a File").with_key(range.path);
    }
    bytes += range.bytes;
  }
  HEADRACE_TRY(resources_->check_usable());
  const Index index = requests_.next();
  Request& request = requests_[index];
  request.paths.assign(ranges.begin(), ranges.end());
  request.count = ranges.size();
  request.write = false;
  request.tag = tag;
  request.bytes = bytes;
  requests_.begin(index);
  return {};
}

void FileQueue::Impl::issue() {
  if (!staged_) router_.begin_round();  // no waves here
  while (!requests_.waiting().empty()) {
    const Index index = requests_.waiting().front();
    const Request& request = requests_[index];
    bool all = true;
    try {
      if (!request.stopped) {
        all = !request.paths.empty() ? issue_paths(index) : request.write ? issue_write(index) : issue_request(index);
      }
    } catch (const std::bad_alloc&) {
      requests_.fail(index, Status::out_of_memory());
    }
    if (!all && !request.stopped) break;
    requests_.first_is_issued();
  }
  if (!to_crew_.empty()) {
    // One small read with nothing else to do is done here: waking a thread takes longer.
    const std::uint64_t most = options_.caller_reads && waiting_ ? kBlockBytes : kInlineBytes;
    const bool lone =
        to_crew_.size() == 1 && crew_->outstanding() == 0 && to_crew_[0]->length <= most && !to_crew_[0]->bring;
    if (lone) {
      crew_->perform(*to_crew_[0]);
      arrived_.push_back(to_crew_[0]);
    } else {
      take_small();
      crew_->submit(to_crew_);
    }
    to_crew_.clear();
  }
  if (!waiting_) start_engine(false);
}

// Carries out what takes no longer than handing it over: small parts that the page cache has, and those that read-ahead
// brings there.
void FileQueue::Impl::take_small() {
  std::uint64_t bytes = 0;
  std::erase_if(to_crew_, [&](FilePart* part) {
    const bool cached = part->may_go_cold && part->length <= kSmallBytes;
    if (!(part->small || cached) || bytes > kMostHereBytes) return false;
    crew_->perform(*part);
    bytes += part->length;
    arrived_.push_back(part);
    return true;
  });
}

bool FileQueue::Impl::full(const Wave& wave) {
  if (wave.pieces.size() >= kWavePieces || wave.bytes >= kWaveBytes) return true;
  return wave.bytes >= kLargeWaveBytes && wave.bytes >= wave.pieces.size() * kLargePieceBytes;
}

// True once all of it is under way.
bool FileQueue::Impl::issue_request(Index index) {
  Request& request = requests_[index];
  transfer::RoutedFile& file = files_[request.file];
  for (; request.next < request.list.size(); ++request.next, request.next_byte = 0) {
    const FileRange& range = request.list[request.next];
    while (request.next_byte < range.bytes) {
      Wave* wave = nullptr;
      if (staged_) {
        wave = filling(in_);
        if (wave == nullptr) return false;
      }
      const std::uint64_t offset = range.offset_bytes + request.next_byte;
      const std::size_t beside = pending() - 1 + request.outstanding + request.list.size() - request.next;
      const transfer::FileRouter::WaveWindows windows{wave != nullptr ? wave->number : 0,
                                                      wave != nullptr ? &wave->windows : nullptr};
      const transfer::Route next =
          router_.choose(file, offset, range.bytes - request.next_byte, beside, wave != nullptr ? &windows : nullptr);
      std::byte* const memory = range.memory + request.next_byte;
      if (wave != nullptr && next.way == Way::kMapped) {  // windows are a wave's
        if (!options_.skip_copy) wave->pieces.push_back({next.mapped, memory, static_cast<std::size_t>(next.bytes)});
        if (wave->shares.empty() || wave->shares.back().request != index) wave->shares.push_back({index, 0, 0});
        Share& share = wave->shares.back();
        ++share.pieces;
        share.end = std::max(share.end, offset + next.bytes);
        wave->bytes += next.bytes;
        ++request.outstanding;
        stats_.mapped_bytes += next.bytes;
        request.next_byte += next.bytes;
        file.sequential_end = offset + next.bytes;
        if (full(*wave)) launch(in_);
        continue;
      }
      const std::uint64_t length = std::min(next.bytes, base::align_up(offset + 1, kBlockBytes) - offset);
      bool direct = next.way == Way::kDirect;
      std::uint64_t slot_bytes = 0;
      if (staged_) {
        // A read that may have to go past the page cache needs room for whole blocks around it.
        const std::uint64_t slack = direct || !next.sure ? 2 * kPageUnit : 0;
        slot_bytes = base::align_up(length + slack, kPageUnit);
      }
      FilePart* part = take_part(index, slot_bytes);
      if (part == nullptr) return false;
      if (direct)
        direct = !router_.keep_cached(file, offset, length, part->bring);  // asked once, now that it has a slot
      part->kind = direct ? FilePart::Kind::kDirect : FilePart::Kind::kBuffered;
      part->handle = file.handle.get();
      part->offset = offset;
      part->length = length;
      part->memory = memory;
      part->host = staged_ ? part->slot : memory;
      part->may_go_cold = !direct && !next.sure;
      part->small = next.small;
      request.next_byte += length;
      file.sequential_end = offset + length;
      if (!direct) router_.count_unmapped(file, offset, length);
      start_part(*part);
    }
  }
  return true;
}

bool FileQueue::Impl::issue_paths(Index index) {
  Request& request = requests_[index];
  for (; request.next < request.paths.size(); ++request.next) {
    const PathRange& range = request.paths[request.next];
    if (range.bytes == 0) continue;
    FilePart* part = take_part(index, staged_ ? base::align_up(std::uint64_t{range.bytes}, kPageUnit) : 0);
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

// Whole pages in the middle go past the page cache if that is asked for; the ends go through it. They share no page:
// a page written both ways would carry old bytes of one over new ones of the other.
bool FileQueue::Impl::issue_write(Index index) {
  Request& request = requests_[index];
  transfer::RoutedFile& file = files_[request.file];
  const bool direct =
      (options_.path == Path::kDirect || !file.handle->has_buffered()) && router_.direct_allowed(*file.handle);
  const std::uint64_t unit =
      direct ? std::max<std::uint64_t>(file.handle->direct_alignment().offset_bytes, kPageUnit) : 1;
  for (; request.next < request.list.size(); ++request.next, request.next_byte = 0) {
    const FileRange& range = request.list[request.next];
    const std::uint64_t end = range.offset_bytes + range.bytes;
    const std::uint64_t middle = std::min(base::align_up(range.offset_bytes, unit), end);
    const std::uint64_t middle_end = std::max(base::align_down(end, unit), middle);
    while (request.next_byte < range.bytes) {
      Wave* wave = nullptr;
      if (staged_) {
        wave = filling(out_);
        if (wave == nullptr) return false;
      }
      const std::uint64_t offset = range.offset_bytes + request.next_byte;
      const bool in_middle = direct && offset >= middle && offset < middle_end;
      const std::uint64_t stop = offset < middle ? middle : offset < middle_end ? middle_end : end;
      const std::uint64_t length = std::min(stop, base::align_up(offset + 1, kBlockBytes)) - offset;
      FilePart* part = take_part(index, staged_ ? base::align_up(length, kPageUnit) : 0);
      if (part == nullptr) return false;
      part->write = true;
      part->kind = in_middle ? FilePart::Kind::kDirect : FilePart::Kind::kBuffered;
      part->handle = file.handle.get();
      part->offset = offset;
      part->length = length;
      part->memory = range.memory + request.next_byte;
      part->host = staged_ ? part->slot : part->memory;
      request.next_byte += length;
      if (!staged_ || options_.skip_copy) {
        start_part(*part);
        continue;
      }
      wave->pieces.push_back({part->memory, part->host, static_cast<std::size_t>(length)});
      wave->parts.push_back(part);
      wave->bytes += length;
      if (full(*wave)) launch(out_);
    }
  }
  return true;
}

FilePart* FileQueue::Impl::take_part(Index request, std::uint64_t slot_bytes) {
  if (free_parts_.empty()) return nullptr;
  std::uint64_t at = 0;
  if (slot_bytes != 0 && !slab_map_->allocate(slot_bytes, at)) return nullptr;
  FilePart* part = free_parts_.back();
  free_parts_.pop_back();
  *part = FilePart();
  part->request = request;
  part->slot = slot_bytes != 0 ? slab_ + at : nullptr;
  part->slot_bytes = slot_bytes;
  ++requests_[request].outstanding;
  return part;
}

void FileQueue::Impl::free_part(FilePart& part) {
  if (part.slot != nullptr) slab_map_->release(static_cast<std::uint64_t>(part.slot - slab_), part.slot_bytes);
  part.slot = nullptr;
  part.window.reset();
  part.unmapped.reset();
  part.status = {};
  free_parts_.push_back(&part);
}

}  // namespace headrace
