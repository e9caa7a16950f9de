#include "store/range_store.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/checked.h"
#include "base/guarded_call.h"
#include "cache/cached_ranges.h"
#include "store/range_read.h"

namespace headrace::store {

RangeStore::RangeStore(std::shared_ptr<ByteStore> wrapped, std::shared_ptr<const base::ReadShaper> shaper,
                       bool steady) noexcept
    : wrapped_(std::move(wrapped)),
      local_(dynamic_cast<cache::LocalRanges*>(wrapped_.get())),
      shaper_(std::move(shaper)),
      steady_(steady || local_ != nullptr) {}

std::string RangeStore::url() const {
  std::string url;
  const Status status = base::guarded([&] {
    url = wrapped_->url();
    return Status();
  });
  return status.ok() ? url : "(a store without a URL)";
}

base::ReadShape RangeStore::read_shape() const noexcept {
  base::ReadShape shape;
  if (shaper_ != nullptr) shape = shaper_->read_shape(steady_);
  shape.steady = steady_;
  if (shaper_ != nullptr) return shape;
  constexpr std::uint64_t kMaxGap = 64 << 20, kMaxGroup = 256 << 20, kMaxWindow = std::uint64_t{1} << 40;
  const RangeAdvice advice = wrapped_->advice();
  shape.gap_bytes = std::min(advice.gap_bytes, kMaxGap);
  shape.group_bytes = shape.max_group_bytes = std::min(advice.group_bytes, kMaxGroup);
  shape.window_bytes = std::min(advice.window_bytes, kMaxWindow);
  return shape;
}

Status RangeStore::open(std::string_view key, ByteSource& out) {
  out.close();
  if (!valid_key(key)) return check_key(key);
  out.offer_ranges({wrapped_.get(), key, {}}, ByteSource::kUnknown);
  return {};
}

bool RangeStore::open_local(std::string_view key, std::string_view version, std::uint64_t offset, std::uint64_t length,
                            ByteSource& out) noexcept {
  cache::LocalRange found;
  if (local_ == nullptr || !local_->find_local(key, version, offset, length, found)) return false;
  // If the range crosses or lies past the object's end, the store decides what that means.
  if (offset > found.object_bytes || found.bytes != std::min(length, found.object_bytes - offset)) return false;
  out.close();
  out.offer_held({.fd = found.fd, .begin = found.at - offset, .path = found.path}, found.object_bytes, found.identity,
                 std::move(found.file));
  return true;
}

Result<Bytes> RangeStore::get(std::string_view key, std::uint64_t limit, base::Charge* charge) {
  HEADRACE_TRY(check_key(key));
  try {
    return get_checked(std::string(key), limit, charge);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

// An object that fits the first request, as metadata does, takes one request; others take two if the
// store reports sizes.
Result<Bytes> RangeStore::get_checked(const std::string& key, std::uint64_t limit, base::Charge* charge) {
  constexpr std::uint64_t kFirst = 64 << 10, kTimes = 8;
  const auto above_limit = [&](const std::string& size) {
    return Status(Code::kResourceExhausted, Layer::kStore,
                  "object of " + size + " bytes is above the limit of " + std::to_string(limit))
        .with_key(key);
  };
  // One byte more than allowed: if it is filled, the object is too long.
  const std::uint64_t most = base::checked_add(limit, std::uint64_t{1}).value_or(limit);
  for (std::uint64_t room = std::min(kFirst, most);;) {
    base::Charge reading(charge != nullptr ? charge->budget() : nullptr);
    HEADRACE_TRY(reading.take(room, "an object").with_key(key));
    Bytes bytes(static_cast<std::size_t>(room));
    RangeRead read;
    read.key = key;
    read.out = bytes;
    HEADRACE_TRY(read_range(*wrapped_, read));
    if (!read.found_version.empty()) tells_versions_.store(true, std::memory_order_relaxed);
    const bool told = read.object_bytes != RangeRead::kUnknown;
    if (told && read.object_bytes > limit) return above_limit(std::to_string(read.object_bytes));
    if (read.bytes < room || (told && read.object_bytes == read.bytes)) {
      if (charge != nullptr) HEADRACE_TRY(charge->take(read.bytes, "an object").with_key(key));
      return Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(read.bytes));
    }
    if (room == most) return above_limit("more than " + std::to_string(limit));
    const std::uint64_t next = told ? read.object_bytes + 1 : base::checked_mul(room, kTimes).value_or(most);
    room = std::min(next, most);
  }
}

Result<std::vector<Entry>> RangeStore::list(std::string_view prefix, base::Charge* charge) {
  if (!prefix.empty()) HEADRACE_TRY(check_key(prefix));
  try {
    std::vector<ListedName> names;
    HEADRACE_TRY(base::guarded([&]() -> Status {
                   HEADRACE_TRY_ASSIGN(names, wrapped_->list(prefix));
                   return {};
                 }).with_key(prefix));
    std::vector<Entry> entries;
    for (ListedName& listed : names) {
      // Other entries of a bucket are skipped, since no such name can be opened.
      if (!valid_key(listed.name) || listed.name.find('/') != std::string::npos) continue;
      if (charge != nullptr) HEADRACE_TRY(charge->take(listed_bytes(listed.name), "a listing").with_key(prefix));
      entries.push_back({std::move(listed.name), listed.is_directory});
    }
    sort_listed(entries);
    return entries;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Status RangeStore::put(std::string_view key, std::span<const std::byte> bytes) {
  HEADRACE_TRY(check_key(key));
  return base::guarded([&] { return wrapped_->put(key, bytes); }).with_key(key);
}

Result<std::shared_ptr<Store>> make_remote_store(std::shared_ptr<ByteStore> wrapped, std::string_view identity,
                                                 const StoreOptions& options) {
  HEADRACE_TRY_ASSIGN(const auto cache, cache::find_cache_options(options.storage));
  std::shared_ptr<const base::ReadShaper> shaper(wrapped, dynamic_cast<const base::ReadShaper*>(wrapped.get()));
  if (shaper.get() == nullptr) shaper.reset();
  if (cache) {
    HEADRACE_TRY_ASSIGN(wrapped, cache::make_cached_ranges(std::move(wrapped), identity, *cache, options.memory));
  }
  return std::shared_ptr<Store>(std::make_shared<RangeStore>(std::move(wrapped), std::move(shaper), cache.has_value()));
}

}  // namespace headrace::store
