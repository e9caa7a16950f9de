#include "zarr/shard/open_shard.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/trace.h"
#include "os/page_buffer.h"
#include "store/range_read.h"
#include "transfer/plan/range_count.h"
#include "zarr/shard/shard_cache.h"

namespace headrace::zarr {

namespace {

// Reads the index of the shard in the object's bytes [begin, begin + length). `read`: the index's bytes, if they have
// been read already; `cache`: how a cache served them.
Status read_index(const store::ByteSource& object, const ShardIndexFormat& format, std::uint64_t begin,
                  std::uint64_t length, base::Charge& memory, std::vector<ShardEntry>& entries, Stats& lookups,
                  std::span<const std::byte> read = {}, RangeCache cache = RangeCache::kNone) {
  auto position = format.position(length);
  if (!position.ok()) return std::move(position).status().with_range(begin, length);
  const std::string what = "the index of a shard of " + std::to_string(format.entry_count()) + " chunks";
  HEADRACE_TRY(memory.take(format.entry_count() * sizeof(ShardEntry), what));
  base::Charge parsing(memory.budget());
  HEADRACE_TRY(parsing.take(
      format.parse_bytes() + (object.offers(store::Offer::kMemory) || !read.empty() ? 0 : format.encoded_bytes()),
      what));
  std::vector<std::byte> copy;
  std::span<const std::byte> encoded;
  const std::uint64_t at = begin + *position;
  const auto bytes = static_cast<std::size_t>(format.encoded_bytes());
  if (!read.empty() && read.size() == bytes) {
    encoded = read;
    transfer::count_range(lookups, bytes, cache);
  } else if (object.offers(store::Offer::kMemory)) {
    HEADRACE_TRY_ASSIGN(encoded, object.view(at, bytes));
    lookups.memory_bytes += bytes;
  } else {
    copy.resize(bytes);
    // Index reads are small, and all else in the shard depends on them, so they are made here and now.
    trace::Timer timer(trace::Stage::kRead, bytes);
    Status status = object.read(at, copy, &cache);
    lookups.read_seconds += timer.stop();
    if (!status.ok()) return status;
    if (object.offers(store::Offer::kRanges)) {
      transfer::count_range(lookups, bytes, cache);
    } else {
      lookups.buffered_bytes += bytes;
    }
    encoded = copy;
  }
  ++lookups.requests;
  lookups.read_bytes += bytes;
  if (Status status = format.parse(encoded, length, entries); !status.ok()) {
    return std::move(status).with_range(at, bytes);
  }
  return {};
}

Status changed(const std::string& key) {
  return Status(Code::kAgainExhausted, Layer::kZarr, "the shard changed while it was read; retry the read")
      .with_key(key);
}

}  // namespace

bool OpenShard::is(const store::ByteSource& now) const {
  if (now.offers(store::Offer::kWhole)) return unpacked_bytes != 0;  // packed objects do not change
  // Each answer says whether it is of the version that the index was read from. If the store has no versions, only
  // reading the index again can tell.
  if (now.offers(store::Offer::kRanges)) return &now == object.get() && !version.empty() && !stale;
  if (now.offers(store::Offer::kMemory) || in_memory()) {
    return now.memory() == object->memory() && now.size_bytes() == object->size_bytes();
  }
  os::FileIdentity current;
  int error = 0;
  return was_settled && now.file().begin == object->file().begin && os::identify(now.file().fd, current, error) &&
         current == identity;
}

std::optional<transfer::StoredVersion> OpenShard::stored() const noexcept {
  if (object->offers(store::Offer::kRanges)) {
    if (version.empty()) return std::nullopt;
    return transfer::StoredVersion{{}, std::hash<std::string_view>()(version) | 1};
  }
  if (!was_settled || !object->offers(store::Offer::kFile)) return std::nullopt;
  return transfer::StoredVersion{identity, 0};
}

Status OpenShard::check() const {
  if (in_memory()) return {};
  if (object->offers(store::Offer::kRanges)) {
    if (!version.empty()) return {};  // each answer was compared with it
  } else {
    os::FileIdentity now;
    int error = 0;
    if (!os::identify(object->file().fd, now, error)) {
      return Status(Code::kIo, Layer::kZarr, "cannot check whether the shard has changed")
          .with_key(key)
          .with_errno(error);
    }
    if (was_settled && now == identity) return {};
    if (!now.same_except_changed_ns(identity)) return changed(key);
  }
  // A file that was replaced under its name loses a link but keeps its bytes, so its identity differs without a change.
  // Conversely, a change may not show if the time stamps lie in the future, or if the writer stamped the file just
  // before the index was read and wrote later. In these cases, and for stores without versions, an unchanged index is
  // the best available evidence.
  return check_index({});
}

// `bytes`: the index as it is now; empty: it is read here.
Status OpenShard::check_index(std::span<const std::byte> bytes) const {
  std::vector<ShardEntry> again;
  base::Charge own(memory.budget());
  Stats checking;  // not counted as part of the read
  Status status = read_index(*object, *format, 0, object->size_bytes(), own, again, checking, bytes);
  if (status.code() == Code::kResourceExhausted) return std::move(status).with_key(key);  // not evidence of a change
  return status.ok() && again == entries ? Status() : changed(key);
}

namespace {

// Reads the index of a shard again, to check that it has not changed.
class IndexCheck final : public transfer::SourceVersion {
 public:
  IndexCheck(const OpenShard& shard, std::uint64_t at, base::Charge memory)
      : shard_(shard), memory_(std::move(memory)), bytes_(static_cast<std::size_t>(shard.format->encoded_bytes())) {
    const store::ByteSource::Ranges& ranges = shard.object->ranges();
    reading_.read.key = ranges.key;
    reading_.read.offset = at;
    reading_.read.out = bytes_;
    reading_.start(*ranges.store);
  }
  Status check() const override {
    if (!reading_.wait().ok() || reading_.read.bytes < bytes_.size()) return changed(shard_.key);
    return shard_.check_index(bytes_);
  }

 private:
  const OpenShard& shard_;
  const base::Charge memory_;
  std::vector<std::byte> bytes_;
  mutable store::PendingRange reading_;  // last member: its destructor waits before bytes_ is freed
};

}  // namespace

std::unique_ptr<const transfer::SourceVersion> OpenShard::begin_check() const {
  if (!object->offers(store::Offer::kRanges) || !version.empty()) return nullptr;
  base::Charge reading(memory.budget());
  const Result<std::uint64_t> at = format->position(object->size_bytes());
  if (!at.ok() || !reading.take(format->encoded_bytes(), "the index of a shard").ok()) return nullptr;
  return std::make_unique<IndexCheck>(*this, *at, std::move(reading));
}

namespace {

// Unpacks a packed shard into memory. Limited to 1 GiB, since its expected size is not known yet.
Status unpack_shard(store::Store& store, OpenShard& open, Stats& lookups) {
  constexpr std::uint64_t kMaxUnpackedBytes = std::uint64_t{1} << 30;
  struct Unpacked {
    store::ByteSource object;
    std::vector<std::byte> bytes;
  };
  const store::ByteSource& packed = *open.object;
  if (packed.size_bytes() > kMaxUnpackedBytes) {
    return Status(Code::kResourceExhausted, Layer::kZarr,
                  "a compressed shard of " + std::to_string(packed.size_bytes()) +
                      " bytes must be unpacked whole, which exceeds " + std::to_string(kMaxUnpackedBytes >> 20) +
                      " MiB; store shards uncompressed");
  }
  HEADRACE_TRY(open.memory.take(packed.size_bytes(), "a compressed shard"));
  base::Charge unpacking(open.memory.budget());
  HEADRACE_TRY(unpacking.take(store::Store::max_packed_bytes(packed.size_bytes()), "unpacking a shard"));
  auto unpacked = std::make_shared<Unpacked>();
  unpacked->bytes.resize(static_cast<std::size_t>(packed.size_bytes()));
  os::PageBuffer scratch;
  const std::uint64_t packed_bytes = packed.packed_bytes();
  trace::Timer timer(trace::Stage::kRead, packed_bytes);
  Status status = store.unpack(packed, unpacked->bytes, scratch);
  lookups.read_seconds += timer.stop();
  if (!status.ok()) return status;
  ++lookups.requests;
  lookups.packed_bytes += packed_bytes;
  lookups.read_bytes += packed_bytes;
  unpacked->object.offer_memory(unpacked->bytes);
  open.unpacked_bytes = unpacked->bytes.size();
  open.object = std::shared_ptr<store::ByteSource>(unpacked, &unpacked->object);
  return {};
}

// An object opened at a time from which every change of its file shows in the identity.
struct SettledObject {
  store::ByteSource object;
  os::FileIdentity identity;
  bool was_settled = false;
};

// Opens an object so that all bytes read while the identity stays the same are of one version. If the file has just
// been changed, this waits for a tick of the file system's clock.
Status open_settled(store::Store& store, const std::string& key, SettledObject& open) {
  constexpr std::int64_t kLongestWaitNs = 2'100'000'000;  // for time stamps of whole seconds
  store::ByteSource& object = open.object;
  for (const std::uint64_t start_ns = base::now_ns();;) {
    HEADRACE_TRY(store.open(key, object));
    if (!object.offers(store::Offer::kFile)) return {};
    int error = 0;
    if (!os::identify(object.file().fd, open.identity, error)) {
      return Status(Code::kIo, Layer::kZarr, "cannot determine the shard's version").with_errno(error);
    }
    const std::int64_t left_ns = os::unsettled_ns(object.file().fd, open.identity);
    const bool whole_file = object.file().begin == 0 && !object.file().lent;
    const bool same_size = !whole_file || object.size_bytes() == open.identity.size_bytes;
    open.was_settled = !os::recently_changed(open.identity);
    // Time stamps that far in the future prove nothing; check() and is() handle them.
    if (same_size && (left_ns == 0 || left_ns > kLongestWaitNs)) return {};
    if (base::now_ns() - start_ns > static_cast<std::uint64_t>(2 * kLongestWaitNs)) {
      return Status(Code::kAgainExhausted, Layer::kZarr, "the shard keeps changing");
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::clamp<std::int64_t>(left_ns, 0, kLongestWaitNs)));
  }
}

// Reads the index of a shard whose store offers ranges; the same answer gives the object's version and size. `asked`:
// the finished read; null: the read is made here. kNotFound: no such object.
Status open_ranges(OpenShard& open, RangeRead* asked, std::vector<std::byte>& index, base::Charge& reading,
                   Stats& lookups, RangeCache& cache) {
  const ShardIndexFormat& format = *open.format;
  const store::ByteSource::Ranges ranges = open.object->ranges();
  HEADRACE_TRY(reading.take(format.encoded_bytes(), "the index of a shard"));
  index.resize(static_cast<std::size_t>(format.encoded_bytes()));
  RangeRead read;
  if (asked == nullptr) {
    read.key = open.key;
    read.from_end = format.at_end();
    read.out = index;
    trace::Timer timer(trace::Stage::kRead, index.size());
    Status status = store::read_range(*ranges.store, read);
    lookups.read_seconds += timer.stop();
    HEADRACE_TRY(std::move(status));
    asked = &read;
  } else {
    HEADRACE_TRY(store::check_answer(*asked));
    std::copy_n(asked->out.begin(), static_cast<std::size_t>(asked->bytes), index.begin());
  }
  index.resize(static_cast<std::size_t>(asked->bytes));
  cache = asked->cache;
  open.version = std::move(asked->found_version);
  open.object->offer_ranges({ranges.store, open.key, open.version}, asked->object_bytes);
  return open.object->measure();
}

}  // namespace

bool ShardAccess::reads_index_of(const std::string& key) const {
  const auto found = cache.find(key);
  return found == nullptr || revalidate || !found->is(*found->object);
}

Result<std::shared_ptr<const OpenShard>> ShardAccess::open(const std::string& key, Stats& lookups,
                                                           RangeRead* index_read) const {
  auto found = index_read == nullptr ? cache.find(key) : nullptr;
  if (found != nullptr) {
    store::ByteSource now;
    Status status = revalidate ? store.open(key, now) : Status();
    if (status.code() == Code::kNotFound) return std::shared_ptr<const OpenShard>();
    if (!status.ok()) return status;
    if (found->is(revalidate ? now : *found->object)) return found;
  }
  SettledObject opened;
  Status status = open_settled(store, key, opened);
  // Most shards of a sparse array are absent, so nothing is allocated for one.
  if (status.code() == Code::kNotFound) return std::shared_ptr<const OpenShard>();
  if (!status.ok()) return std::move(status).with_key(key);
  auto open = std::make_shared<OpenShard>();
  open->key = key;
  open->id = cache.new_id();
  open->memory = base::Charge(cache.budget());
  open->object = std::make_shared<store::ByteSource>(std::move(opened.object));
  open->identity = opened.identity;
  open->was_settled = opened.was_settled;
  open->format = &formats.front();
  std::vector<std::byte> index;
  base::Charge reading(cache.budget());
  RangeCache index_cache = RangeCache::kNone;
  if (open->object->offers(store::Offer::kRanges)) {
    status = open_ranges(*open, index_read, index, reading, lookups, index_cache);
    if (status.code() == Code::kNotFound) return std::shared_ptr<const OpenShard>();
    if (status.ok()) status = open->memory.take(open->own_bytes(), "a shard that is kept open");
    if (!status.ok()) return std::move(status).with_key(key);
  }
  if (open->object->offers(store::Offer::kWhole)) {
    if (status = unpack_shard(store, *open, lookups); !status.ok()) return std::move(status).with_key(key);
  }
  ++lookups.objects_opened;
  status = read_index(*open->object, *open->format, 0, open->object->size_bytes(), open->memory, open->entries, lookups,
                      index, index_cache);
  if (!status.ok()) return std::move(status).with_key(key);
  std::shared_ptr<const OpenShard> done = std::move(open);
  cache.insert(done);
  return done;
}

Result<std::shared_ptr<const InnerIndex>> ShardAccess::open_inner(const OpenShard& shard, std::size_t level,
                                                                  const ShardEntry& range, Stats& lookups,
                                                                  const RangeRead* index_read) const {
  if (auto found = cache.find(shard, level, range)) return found;
  struct Index {
    base::Charge memory;
    InnerIndex entries;
  };
  auto index = std::make_shared<Index>(Index{base::Charge(cache.budget()), {}});
  Status status = index_read != nullptr ? store::check_part(*index_read) : Status();
  if (status.ok()) {
    status = read_index(*shard.object, formats[level], range.offset, range.length, index->memory, index->entries,
                        lookups, index_read != nullptr ? index_read->out : std::span<const std::byte>(),
                        index_read != nullptr ? index_read->cache : RangeCache::kNone);
  }
  if (!status.ok()) {
    // Otherwise the next read would trust the shard again and fail the same way.
    if (status.code() == Code::kAgainExhausted) shard.mark_stale();
    return std::move(status).with_key(shard.key);
  }
  for (ShardEntry& entry : index->entries) {
    if (entry.length != 0) entry.offset += range.offset;
  }
  const std::shared_ptr<const InnerIndex> done(index, &index->entries);
  cache.insert(shard, level, range, done);
  return done;
}

}  // namespace headrace::zarr
