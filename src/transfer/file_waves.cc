// Waves and progress of a FileQueue: what has arrived in the slab crosses the bus, what has crossed is done.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>

#include "base/checked.h"
#include "base/clock.h"
#include "base/trace.h"
#include "transfer/file_queue.h"

namespace headrace {

using transfer::FilePart;

namespace {

constexpr std::size_t kWavesInFlight = 8;
// A wave that the device could already be working on is held back only while it is small and others keep it busy.
constexpr std::size_t kFullPieces = 128;
constexpr std::uint64_t kFullBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kSpinNs = 100'000;  // before the first nap: waking takes nearly as long
constexpr auto kNap = std::chrono::microseconds(20);
// How often the engine is asked while there is something else to do. What arrives while a wave is under way waits for
// its end in most cases: there one question, and so one system call, is to bring as much as possible.
constexpr std::uint64_t kPollEngineNs = 20'000, kPollBesideWaveNs = 100'000;
constexpr std::uint64_t kLongestNapNs = 800'000;

}  // namespace

void FileQueue::Impl::Wave::clear() {
  in_flight = false;
  number = bytes = 0;
  pieces.clear();
  parts.clear();
  shares.clear();
  windows.clear();
}

Status FileQueue::Impl::make_lane(Lane& lane, bool to_host) {
  lane.to_host = to_host;
  for (auto& stream : lane.streams) {
    HEADRACE_TRY_ASSIGN(stream, device_->create_stream());
  }
  std::vector<Wave> waves(kWavesInFlight);
  for (Wave& wave : waves) {
    HEADRACE_TRY_ASSIGN(wave.event, device_->create_event());
    wave.pieces.reserve(kWavePieces);
    wave.parts.reserve(parts_.size());
    wave.shares.reserve(kWavePieces);
    wave.windows.reserve(kFullPieces);
  }
  lane.waves = std::move(waves);
  return {};
}

// Null while all are under way.
FileQueue::Impl::Wave* FileQueue::Impl::filling(Lane& lane) {
  Wave& wave = lane.waves[lane.filling];
  if (wave.in_flight) return nullptr;
  if (wave.number == 0) {
    wave.number = ++wave_number_;
    router_.begin_round();  // the version of a file decides which of its windows the wave may use
  }
  return &wave;
}

void FileQueue::Impl::launch(Lane& lane) {
  Wave& wave = lane.waves[lane.filling];
  if (wave.in_flight || (wave.parts.empty() && wave.shares.empty())) return;
  device::Stream& stream = *lane.streams[lane.filling % 2];
  Status status;
  if (options_.native_stream != nullptr) status = device_->wait_native(stream, options_.native_stream);
  if (status.ok() && !wave.pieces.empty()) {
    status = lane.to_host ? device_->copy_to_host(wave.pieces, stream) : device_->copy_to_device(wave.pieces, stream);
  }
  if (status.ok()) status = device_->record(*wave.event, stream);
  mapped_->note_traffic();
  ++stats_.waves;
  wave.in_flight = true;
  wave.launched_ns = trace::recording() ? base::now_ns() : 0;
  ++lane.in_flight;
  lane.filling = (lane.filling + 1) % lane.waves.size();
  if (status.ok()) {
    if (!options_.skip_copy) stats_.bus_bytes += wave.bytes;
    return;
  }
  // Part of it may have been queued: nothing is given back before that is over.
  if (device_->record(*wave.event, stream).ok()) (void)device_->synchronize(*wave.event);
  for (FilePart* part : wave.parts) part->status = status;
  for (const Share& share : wave.shares) requests_.fail(share.request, status);
}

bool FileQueue::Impl::poll_waves(Lane& lane) {
  bool any = false;
  while (lane.in_flight > 0) {
    Wave& wave = lane.waves[lane.oldest];
    const Result<bool> passed = device_->query(*wave.event);
    if (passed.ok() && !*passed) break;
    if (!passed.ok()) {
      for (FilePart* part : wave.parts) part->status = passed.status();
      for (const Share& share : wave.shares) requests_.fail(share.request, passed.status());
    }
    lane.oldest = (lane.oldest + 1) % lane.waves.size();
    --lane.in_flight;
    finish_wave(lane, wave);
    any = true;
  }
  return any;
}

void FileQueue::Impl::finish_wave(Lane& lane, Wave& wave) {
  if (wave.launched_ns != 0) {
    trace::record(trace::Stage::kCopy, wave.launched_ns, base::now_ns(), wave.bytes, trace::LaneKind::kDevice);
  }
  check_shares(wave);
  for (const Share& share : wave.shares) requests_.step(share.request, share.pieces);
  for (FilePart* part : wave.parts) {
    if (lane.to_host && part->status.ok()) {
      start_part(*part);
    } else {
      finish_part(*part);
    }
  }
  wave.clear();
}

// A file that is now shorter than what was taken from its mapping was cut meanwhile: its old bytes are not passed on.
void FileQueue::Impl::check_shares(Wave& wave) {
  const base::FileHandle* asked = nullptr;
  std::uint64_t size = 0;
  for (const Share& share : wave.shares) {
    const Request& request = requests_[share.request];
    const base::FileHandle* handle = files_[request.file].handle.get();
    if (handle != asked) {
      base::FileIdentity identity;
      int error = 0;
      ++stats_.system_calls;
      if (!base::identify(handle->fd(), identity, error)) continue;
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

// The part's host memory is ready to be read into, or holds what is to be written.
void FileQueue::Impl::start_part(FilePart& part) {
  if (options_.skip_io) {
    if (part.write) {
      written(part);
    } else if (part.kind == FilePart::Kind::kPath) {
      arrived_.push_back(&part);  // nobody has made sure that a wave has room
    } else {
      read_arrived(part);
    }
  } else if (part.kind == FilePart::Kind::kDirect) {
    start_direct(part);
  } else {
    to_crew_.push_back(&part);
  }
}

void FileQueue::Impl::start_direct(FilePart& part) {
  const bool has_engine = direct_.open(resources_->options().engine, options_.depth, notes_);
  if (!has_engine) router_.give_up_direct();
  const base::DirectAlignment& alignment = part.handle->direct_alignment();
  const int fd = has_engine ? part.handle->direct_fd() : -1;
  const auto aligned = [&](const std::byte* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % alignment.memory_bytes == 0;
  };
  base::WidenedRange range = base::widen(part.offset, part.length, alignment.offset_bytes);
  bool possible = fd >= 0;
  if (possible && part.slot == nullptr && (range.length_bytes != part.length || !aligned(part.host))) {
    // In place on a host device, but not as the disk wants it: through a piece of a slab.
    if (slab_ == nullptr) {
      slab_ = unpinned_slab_.reserve(options_.staging_bytes).data();
      if (slab_ != nullptr) slab_map_.emplace(base::align_down(options_.staging_bytes, transfer::SlabMap::kUnit));
    }
    const std::uint64_t bytes = base::align_up(range.length_bytes, transfer::SlabMap::kUnit);
    std::uint64_t at = 0;
    possible = slab_ != nullptr && slab_map_->allocate(bytes, at);
    if (possible) {
      part.slot = slab_ + at;
      part.slot_bytes = bytes;
      part.host = part.slot + range.lead_bytes;
      if (part.write) std::memcpy(part.host, part.memory, part.length);
    }
  } else if (possible && part.slot != nullptr) {
    possible = range.length_bytes <= part.slot_bytes;
    if (possible) part.host = part.slot + range.lead_bytes;
  }
  if (!possible) {  // through the page cache instead
    part.kind = FilePart::Kind::kBuffered;
    part.may_go_cold = false;
    to_crew_.push_back(&part);
    return;
  }
  part.kind = FilePart::Kind::kDirect;
  direct_.add(part, fd, range, alignment.offset_bytes);
}

void FileQueue::Impl::start_engine(bool wait_follows) {
  if (direct_.start(wait_follows, slab())) crew_->quiet.store(true, std::memory_order_relaxed);
}

// Bytes from the file are in host memory, or the part has failed.
void FileQueue::Impl::read_arrived(FilePart& part) {
  if (!part.status.ok()) return finish_part(part);
  if (part.kind == FilePart::Kind::kDirect) {
    stats_.direct_bytes += part.file_bytes;
  } else if (part.window != nullptr) {
    stats_.mapped_bytes += part.length;
  } else {
    stats_.buffered_bytes += part.file_bytes;
    if (part.unmapped != nullptr) (void)mapped_->touch(part.unmapped, 0, part.length, nullptr, part.path, true);
  }
  if (!staged_) {
    if (part.host != part.memory) std::memcpy(part.memory, part.host, part.length);
    return finish_part(part);
  }
  if (options_.skip_copy) return finish_part(part);
  Wave& wave = *filling(in_);  // the caller has seen that there is one
  const std::byte* source = part.host;
  if (part.window != nullptr) {
    source = part.window->data;
    slab_map_->release(static_cast<std::uint64_t>(part.slot - slab_), part.slot_bytes);
    part.slot = nullptr;
    wave.windows.push_back(std::move(part.window));
  }
  wave.pieces.push_back({source, part.memory, static_cast<std::size_t>(part.length)});
  wave.parts.push_back(&part);
  wave.bytes += part.length;
}

void FileQueue::Impl::written(FilePart& part) {
  if (part.status.ok()) {
    (part.kind == FilePart::Kind::kDirect ? stats_.written_direct_bytes : stats_.written_buffered_bytes) +=
        part.file_bytes;
  }
  finish_part(part);
}

void FileQueue::Impl::finish_part(FilePart& part) {
  const Index request = part.request;
  if (!part.status.ok()) requests_.fail(request, std::move(part.status));
  free_part(part);
  requests_.step(request, 1);
}

// Takes what crew and engine have done.
bool FileQueue::Impl::collect() {
  collected_.clear();
  if (crew_->outstanding() > 0) crew_->collect(collected_, false, {});
  for (FilePart* part : collected_) {
    stats_.system_calls += std::exchange(part->system_calls, 0);
    arrived_.push_back(part);
  }
  bool any = !collected_.empty();
  const std::uint64_t apart = in_.in_flight + out_.in_flight > 0 ? kPollBesideWaveNs : kPollEngineNs;
  if (direct_.in_flight() > 0 && base::now_ns() - direct_.reaped_ns() > apart) any = reap_engine({}) || any;
  return any;
}

bool FileQueue::Impl::reap_engine(std::chrono::nanoseconds timeout) {
  const std::size_t count = direct_.reap(arrived_, timeout);
  if (direct_.in_flight() == 0) crew_->quiet.store(false, std::memory_order_relaxed);
  return count > 0;
}

// One turn of everything that can go on without waiting; false if nothing did.
bool FileQueue::Impl::progress() {
  const std::uint64_t turn = requests_.turn();
  bool any = poll_waves(in_);
  any = poll_waves(out_) || any;
  any = collect() || any;
  std::size_t taken = 0;
  for (; taken < arrived_.size(); ++taken) {
    FilePart& part = *arrived_[taken];
    if (part.went_cold) {
      part.went_cold = false;
      transfer::RoutedFile& file = files_[requests_[part.request].file];
      router_.was_not_cached(file, part.offset);
      if (router_.keep_cached(file, part.offset, part.length, part.bring)) {
        part.may_go_cold = false;
        to_crew_.push_back(&part);
      } else {
        start_direct(part);
      }
    } else if (part.kind == FilePart::Kind::kDirect && part.status.system_error() == EINVAL &&
               part.handle->has_buffered()) {
      part.handle->give_up_direct();
      notes_.add("direct path: the file system opens files for it and refuses to transfer: ", part.handle->path());
      part.kind = FilePart::Kind::kBuffered;
      part.may_go_cold = false;
      part.status = {};
      part.file_bytes = 0;
      to_crew_.push_back(&part);
    } else if (part.write) {
      written(part);
    } else {
      if (staged_ && part.status.ok()) {
        Wave* wave = filling(in_);
        if (wave == nullptr) break;
      }
      read_arrived(part);
    }
  }
  arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(taken));
  issue();
  any = any || taken > 0 || requests_.turn() != turn;
  for (Lane* lane : {&in_, &out_}) {
    if (lane->waves.empty()) continue;
    const Wave& wave = lane->waves[lane->filling];
    const bool others = lane->in_flight > 0 && (direct_.in_flight() > 0 || crew_->outstanding() > 0);
    if (!others || wave.bytes >= kFullBytes || wave.pieces.size() >= kFullPieces) launch(*lane);
  }
  return any;
}

// What a thread that has nothing to do waits for.
trace::Stage FileQueue::Impl::awaited() const noexcept {
  if (direct_.in_flight() == 0 && crew_->outstanding() == 0) return trace::Stage::kCopy;
  return out_.in_flight > 0 ? trace::Stage::kWrite : trace::Stage::kRead;
}

// The shortest way to notice the end of a wave while nothing else is under way.
bool FileQueue::Impl::spin_on_wave() {
  constexpr int kLooks = 16;
  if (in_.in_flight == 0 || out_.in_flight != 0 || direct_.in_flight() != 0 || crew_->outstanding() != 0) return false;
  device::Event& event = *in_.waves[in_.oldest].event;
  for (int i = 0; i < kLooks; ++i) {
    const Result<bool> passed = device_->query(event);
    if (!passed.ok() || *passed) return true;
  }
  return false;
}

void FileQueue::Impl::idle(std::uint64_t deadline_ns, std::uint64_t busy_ns) {
  const std::uint64_t now = base::now_ns();
  const std::chrono::nanoseconds left(deadline_ns > now ? std::min<std::uint64_t>(deadline_ns - now, 500'000'000) : 0);
  const bool waves = in_.in_flight + out_.in_flight > 0;
  if (direct_.in_flight() > 0 && waves && now - busy_ns < kSpinNs) {
    start_engine(false);
    base::relax();  // the device is done soon: no call that waits for the disk would be
  } else if (direct_.in_flight() > 0) {
    crew_->notify_elsewhere.store(true, std::memory_order_release);
    // Beside a wave or the crew the engine is not all there is to wait for; the longer it takes, the less a look helps.
    std::uint64_t most = 500'000'000;
    if (waves) most = std::min(now - busy_ns, kLongestNapNs);
    if (crew_->outstanding() > 0) most = std::min<std::uint64_t>(most, 50'000);
    start_engine(true);
    (void)reap_engine(std::min(left, std::chrono::nanoseconds(most)));
    crew_->notify_elsewhere.store(false, std::memory_order_relaxed);
  } else if (now - busy_ns < kSpinNs) {
    base::relax();
  } else if (crew_->outstanding() > 0) {
    collected_.clear();
    crew_->collect(collected_, true, std::min(left, waves ? std::chrono::nanoseconds(kNap) : left));
    for (FilePart* part : collected_) {
      stats_.system_calls += std::exchange(part->system_calls, 0);
      arrived_.push_back(part);
    }
  } else if (waves) {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kNap));
  }
}

void FileQueue::Impl::flush() {
  if (resources_->check_usable().ok()) (void)progress();
}

// Until so many have ended or the time is up.
void FileQueue::Impl::work(std::size_t at_least, std::chrono::nanoseconds timeout) {
  const std::uint64_t start = base::now_ns();
  const auto span = static_cast<std::uint64_t>(std::max<std::int64_t>(timeout.count(), 0));
  const std::uint64_t deadline = span > ~start ? ~std::uint64_t{0} : start + span;
  std::uint64_t busy_ns = start;
  std::optional<trace::Span> waiting;  // from when nothing could go on until something could
  waiting_ = true;
  for (;;) {
    const bool any = progress();
    if (requests_.ended().size() >= at_least) break;
    const std::uint64_t now = base::now_ns();
    if (any) {
      busy_ns = now;
      waiting.reset();
      continue;
    }
    if (now >= deadline) break;
    if (options_.caller_reads && crew_->outstanding() > 0 && crew_->help()) {
      waiting.reset();
      continue;
    }
    if (!waiting.has_value()) waiting.emplace(trace::WaitFor{awaited()});
    if (now - busy_ns < kSpinNs && spin_on_wave()) continue;
    idle(deadline, busy_ns);
  }
  waiting_ = false;
  start_engine(false);
}

std::size_t FileQueue::Impl::wait(std::span<FileCompletion> out, std::size_t at_least,
                                  std::chrono::nanoseconds timeout) {
  if (const Status usable = resources_->check_usable(); !usable.ok()) {
    requests_.end_all(usable);
  } else {
    work(std::min({at_least, out.size(), pending()}), timeout);
  }
  const std::size_t count = std::min(requests_.ended().size(), out.size());
  for (std::size_t i = 0; i < count; ++i) {
    Request& request = requests_[requests_.ended()[i]];
    const std::uint64_t bytes = request.status.ok() ? request.bytes : 0;
    stats_.ranges += request.count;
    ++stats_.requests;
    if (request.file != Request::kNoFile) {
      if (!request.status.ok()) {
        request.status = std::move(request.status).with_key(files_[request.file].handle->path());
      }
      files_.release(request.file);
    }
    out[i] = {request.tag, bytes, std::move(request.status)};
  }
  requests_.take_ended(count);
  return count;
}

}  // namespace headrace
