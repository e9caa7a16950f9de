#include "store/byte_source.h"

#include <libdeflate.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "os/descriptors.h"
#include "os/file_read.h"
#include "store/range_read.h"

namespace headrace::store {

void ByteSource::close_own() noexcept {
  if (kept_ != nullptr) {
    keeper_->give_back(*kept_);
    kept_ = nullptr;
  } else if (file_.fd >= 0 && !file_.lent) {
    os::close_descriptor(file_.fd);
    os::Descriptors::of_process().closed();
  }
  file_.fd = -1;
  file_.lent = false;
}

void ByteSource::close() noexcept {
  close_own();
  offer_ = Offer::kNone;
  file_.begin = 0;
  file_.path = nullptr;
  holder_.reset();
  memory_ = nullptr;
  ranges_ = {};
  entry_ = size_bytes_ = 0;
  crc32_.reset();
  identity_.reset();
}

void ByteSource::offer_file(const File& file, std::uint64_t size_bytes) noexcept {
  offer_ = Offer::kFile;
  file_ = file;
  size_bytes_ = size_bytes;
  if (!file.lent) os::Descriptors::of_process().opened();
}

void ByteSource::offer_kept(KeptFiles& keeper, KeptFiles::File& file) noexcept {
  offer_ = Offer::kFile;
  file_ = {.fd = file.fd()};
  size_bytes_ = file.identity().size_bytes;
  keeper_ = &keeper;
  kept_ = &file;
  identity_ = file.identity();
}

void ByteSource::offer_held(const File& file, std::uint64_t size_bytes, const os::FileIdentity& identity,
                            std::shared_ptr<const void> holder) noexcept {
  offer_ = Offer::kFile;
  file_ = file;
  file_.lent = true;
  size_bytes_ = size_bytes;
  identity_ = identity;
  holder_ = std::move(holder);
}

void ByteSource::offer_memory(std::span<const std::byte> whole) noexcept {
  static constexpr std::byte kEmpty{};
  offer_ = Offer::kMemory;
  memory_ = whole.data() != nullptr ? whole.data() : &kEmpty;
  size_bytes_ = whole.size();
}

void ByteSource::offer_whole(std::uint64_t entry, std::uint64_t size_bytes, std::uint64_t packed_bytes) noexcept {
  offer_ = Offer::kWhole;
  entry_ = entry;
  packed_bytes_ = packed_bytes;
  size_bytes_ = size_bytes;
}

void ByteSource::offer_ranges(const Ranges& ranges, std::uint64_t size_bytes) noexcept {
  offer_ = Offer::kRanges;
  ranges_ = ranges;
  size_bytes_ = size_bytes;
}

void ByteSource::replace_descriptor(int other) noexcept {
  os::Descriptors::of_process().opened();  // counted first, so that no other thread takes the slot
  close_own();
  offer_ = Offer::kFile;
  file_.fd = other;
}

Status ByteSource::check_range(std::uint64_t offset, std::uint64_t length) const {
  if (offset <= size_bytes_ && length <= size_bytes_ - offset) return {};
  return Status(Code::kShort, Layer::kStore, "the object ends at byte " + std::to_string(size_bytes_))
      .with_range(offset, length);
}

Result<std::span<const std::byte>> ByteSource::view(std::uint64_t offset, std::uint64_t length) const {
  HEADRACE_TRY(check_range(offset, length));
  return std::span<const std::byte>(memory_ + offset, static_cast<std::size_t>(length));
}

namespace {

RangeRead read_of(const ByteSource::Ranges& ranges, std::uint64_t offset, std::span<std::byte> out) {
  RangeRead read;
  read.key = ranges.key;
  read.version = ranges.version;
  read.offset = offset;
  read.out = out;
  return read;
}

}  // namespace

Status ByteSource::read(std::uint64_t offset, std::span<std::byte> out, RangeCache* cache) const {
  HEADRACE_TRY(check_range(offset, out.size()));
  if (offers(Offer::kMemory)) {
    if (!out.empty()) std::memcpy(out.data(), memory_ + offset, out.size());
    return {};
  }
  if (!offers(Offer::kRanges)) return os::read_exactly(file_.fd, offset, out, file_.begin);
  RangeRead read = read_of(ranges_, offset, out);
  (void)read_range(*ranges_.store, read);  // check_part() evaluates the result
  if (cache != nullptr) *cache = read.cache;
  return check_part(read);
}

Result<std::size_t> ByteSource::read_some(std::uint64_t offset, std::span<std::byte> out) const {
  RangeRead read = read_of(ranges_, offset, out);
  HEADRACE_TRY(read_range(*ranges_.store, read));
  return static_cast<std::size_t>(read.bytes);
}

Status ByteSource::measure() {
  if (size_bytes_ != kUnknown) return {};
  HEADRACE_TRY_ASSIGN(size_bytes_, store::measure(*ranges_.store, ranges_.key));
  return {};
}

Status ByteSource::check_whole(std::span<const std::byte> whole) const {
  if (!crc32_) return {};
  const std::uint32_t found = libdeflate_crc32(0, whole.data(), whole.size());
  if (found == *crc32_) return {};
  char text[96];
  std::snprintf(text, sizeof text, "the object's CRC-32 is %08x, but the store lists %08x", found, *crc32_);
  return Status(Code::kCorrupt, Layer::kStore, text).with_range(0, whole.size());
}

}  // namespace headrace::store
