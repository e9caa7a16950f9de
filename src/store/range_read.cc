#include "store/range_read.h"

#include <algorithm>
#include <array>
#include <exception>
#include <string>

#include "base/guarded_call.h"

namespace headrace::store {
namespace {

Status wrong_answer(Code code, const std::string& what, const RangeRead& read) {
  return Status(code, Layer::kStore, what).with_key(read.key).with_range(read.offset, read.out.size());
}

}  // namespace

bool start_reads(ByteStore& store, std::span<RangeRead* const> reads, Status& failure) noexcept {
  failure = base::guarded([&] { return store.start(reads); });
  return failure.ok();
}

Status check_answer(const RangeRead& read) {
  if (!read.status.ok()) return Status(read.status).with_key(read.key).with_range(read.offset, read.out.size());
  if (read.bytes > read.out.size()) {
    return wrong_answer(Code::kIo, "the store reported more bytes than were requested", read);
  }
  if (read.object_bytes != RangeRead::kUnknown) {
    const std::uint64_t from = read.from_end ? 0 : std::min(read.offset, read.object_bytes);
    const std::uint64_t there = std::min<std::uint64_t>(read.object_bytes - from, read.out.size());
    if (read.bytes != there) {
      return wrong_answer(Code::kShort,
                          "the store returned " + std::to_string(read.bytes) + " bytes where an object of " +
                              std::to_string(read.object_bytes) + " bytes has " + std::to_string(there),
                          read);
    }
  }
  if (!read.version.empty() && !read.found_version.empty() && read.found_version != read.version) {
    return wrong_answer(Code::kAgainExhausted, "the object was replaced while it was read: read it again", read);
  }
  return {};
}

Status check_part(const RangeRead& read) {
  Status status = check_answer(read);
  if (status.code() == Code::kNotFound) {
    return Status(Code::kAgainExhausted, Layer::kStore, "the object was removed while it was read: read it again")
        .with_key(read.key);
  }
  HEADRACE_TRY(std::move(status));
  if (read.bytes == read.out.size()) return {};
  return Status(Code::kShort, Layer::kStore, "the object ends at byte " + std::to_string(read.offset + read.bytes))
      .with_key(read.key)
      .with_range(read.offset, read.out.size());
}

PendingRange::~PendingRange() {
  if (started_) (void)wait();
}

void PendingRange::start(ByteStore& store) {
  read.listener = this;
  RangeRead* const one[] = {&read};
  Status failure;
  started_ = true;
  if (start_reads(store, one, failure)) return;
  read.status = std::move(failure);
  done(one);
}

Status PendingRange::wait() {
  {
    std::unique_lock lock(mutex_);
    done_signal_.wait(lock, [&] { return done_; });
  }
  return check_answer(read);
}

void PendingRange::done(std::span<RangeRead* const>) noexcept {
  std::lock_guard lock(mutex_);
  done_ = true;
  done_signal_.notify_one();  // under the lock: the waiter frees this object once it wakes
}

Status read_range(ByteStore& store, RangeRead& read) {
  PendingRange pending;
  pending.read = std::move(read);
  pending.start(store);
  Status status = pending.wait();
  read = std::move(pending.read);
  return status;
}

Result<std::uint64_t> measure(ByteStore& store, std::string_view key) {
  std::array<std::byte, 1024> bytes;
  // Whether the object has bytes from `offset` on. Sets `size` if the answer reveals it.
  std::uint64_t size = RangeRead::kUnknown;
  const auto reaches = [&](std::uint64_t offset, std::size_t count) -> Result<bool> {
    RangeRead read;
    read.key = key;
    read.offset = offset;
    read.out = std::span(bytes).first(count);
    HEADRACE_TRY(read_range(store, read));
    size = read.object_bytes;
    if (size == RangeRead::kUnknown && read.bytes > 0 && read.bytes < count) size = offset + read.bytes;
    return read.bytes > 0;
  };
  HEADRACE_TRY_ASSIGN(const bool any, reaches(0, bytes.size()));
  if (size != RangeRead::kUnknown) return size;
  if (!any) return std::uint64_t{0};
  // The object has at least `low` bytes, and fewer than `high` once that is set.
  std::uint64_t low = bytes.size(), high = 0;
  while (high == 0 || high - low > 1) {
    const std::uint64_t end = high == 0 ? low * 2 : low + (high - low) / 2;
    if (end > std::uint64_t{1} << 62) {
      return Status(Code::kIo, Layer::kStore, "the store returns bytes past any possible object size").with_key(key);
    }
    HEADRACE_TRY_ASSIGN(const bool longer, reaches(end - 1, 1));
    if (size != RangeRead::kUnknown) return size;
    (longer ? low : high) = end;
  }
  return low;
}

}  // namespace headrace::store
