// ByteSource: an opened object. It says what it offers, and what is known of it.
//
// Threads: const calls from any thread.
// Owns:    its descriptor unless that is lent or kept open by the store; memory and lent descriptors live as long as
// the store, which outlives a source that uses a kept one. Of ranges, key and version are whoever's who opened it.
// Allocates nothing.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "store/kept_files.h"

namespace headrace {
class ByteStore;
enum class RangeCache : std::uint8_t;
}  // namespace headrace

namespace headrace::store {

// Where an object's bytes can be had from.
enum class Offer : unsigned char {
  kNone = 0,
  kFile = 1,    // a range of a file, by descriptor: for the page cache, engines and mapping
  kMemory = 2,  // all of them are in memory
  kWhole = 4,   // only by Store::unpack(), all of them at once
  kRanges = 8,  // ranges, from a ByteStore; neither size nor existence need be known before one of them has ended
};

class ByteSource {
 public:
  struct File {
    int fd = -1;        // buffered descriptor of a regular file
    bool lent = false;  // the store's: not closed with the source
    // Where in the file the object begins, of any alignment. Of an object of which the file has no more than a part it
    // may begin before the file: modulo 2^64.
    std::uint64_t begin = 0;
    const char* path = nullptr;  // of a file that the store's own names do not lead to
  };

  // The object `key` (NUL-terminated) of a user's store; where `version` is not empty, that content of it.
  struct Ranges {
    ByteStore* store = nullptr;
    std::string_view key, version;
  };
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  ByteSource() noexcept = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ByteSource(ByteSource&& other) noexcept { swap(other); }
  ByteSource& operator=(ByteSource&& other) noexcept {
    swap(other);
    return *this;
  }
  ~ByteSource() { close(); }
  void close() noexcept;

  // For stores, each on a closed source. A descriptor that is not lent is taken over, and counts among
  // os::Descriptors until the source is closed.
  void offer_file(const File& file, std::uint64_t size_bytes) noexcept;
  void offer_memory(std::span<const std::byte> whole) noexcept;
  // `packed_bytes`: that the store reads for it.
  void offer_whole(std::uint64_t entry, std::uint64_t size_bytes, std::uint64_t packed_bytes) noexcept;
  void offer_ranges(const Ranges& ranges, std::uint64_t size_bytes) noexcept;  // kUnknown: not known yet
  void set_checksum(std::uint32_t crc32_of_whole) noexcept { crc32_ = crc32_of_whole; }
  // The store keeps the descriptor: it is lent from now on. REQUIRES: offers(kFile).
  void lend() noexcept { file_.lent = true; }
  // A file that is kept open: in use until the source is closed. `file` is unchanged since its identity was taken.
  void offer_kept(KeptFiles& keeper, KeptFiles::File& file) noexcept;
  // A part of an object that lies in a file of somebody else's: `holder` keeps its descriptor and path as long as the
  // source is open. `identity`: what the file is, just now.
  void offer_held(const File& file, std::uint64_t size_bytes, const os::FileIdentity& identity,
                  std::shared_ptr<const void> holder) noexcept;
  // Of a file that was opened for this source, by its name and just now.
  void set_identity(const os::FileIdentity& identity) noexcept { identity_ = identity; }
  // Takes over another descriptor of the same file in the place of the one it has, if it has one.
  void replace_descriptor(int other) noexcept;

  bool is_open() const noexcept { return offer_ != Offer::kNone; }
  bool offers(Offer offer) const noexcept { return offer_ == offer; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }      // kUnknown: of ranges only
  const File& file() const noexcept { return file_; }                    // fd -1 unless offers(kFile)
  const std::byte* memory() const noexcept { return memory_; }           // null unless offers(kMemory), then never
  std::uint64_t entry() const noexcept { return entry_; }                // the store's own, for kWhole
  std::uint64_t packed_bytes() const noexcept { return packed_bytes_; }  // likewise
  const Ranges& ranges() const noexcept { return ranges_; }              // store null unless offers(kRanges)
  // What the file was when the store opened it for this source, or looked at it; null where the store does not say.
  const os::FileIdentity* identity() const noexcept { return identity_ ? &*identity_ : nullptr; }
  bool has_checksum() const noexcept { return crc32_.has_value(); }  // of the whole object

  // OK where the object has all of [offset, offset + length); kShort names where it ends.
  Status check_range(std::uint64_t offset, std::uint64_t length) const;
  // Bytes [offset, offset + out.size()) of the object: kShort where the file ends first, kIo; both name the place in
  // the object. Of ranges it waits for the store; one that is gone meanwhile is kAgainExhausted. REQUIRES: not
  // offers(kWhole).
  // `cache`: what became of ranges in a cache.
  Status read(std::uint64_t offset, std::span<std::byte> out, RangeCache* cache = nullptr) const;
  // Of ranges: as many of them as the object has, and kNotFound where there is none. REQUIRES: offers(kRanges).
  Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> out) const;
  // Asks for a size that is not known yet: kNotFound where there is no such object. REQUIRES: offers(kRanges).
  Status measure();
  // The same of an object in memory, where it lies. REQUIRES: offers(kMemory).
  Result<std::span<const std::byte>> view(std::uint64_t offset, std::uint64_t length) const;
  // kCorrupt if a checksum is known and `whole`, all of the object's bytes, has another.
  Status check_whole(std::span<const std::byte> whole) const;
  // The same of what was read from `offset` on, if that is all of the object; OK of a part.
  Status check_read(std::uint64_t offset, std::span<const std::byte> data) const {
    return has_checksum() && offset == 0 && data.size() == size_bytes_ ? check_whole(data) : Status();
  }

 private:
  void close_own() noexcept;
  void swap(ByteSource& other) noexcept {
    std::swap(offer_, other.offer_);
    std::swap(file_, other.file_);
    std::swap(memory_, other.memory_);
    std::swap(entry_, other.entry_);
    std::swap(ranges_, other.ranges_);
    std::swap(packed_bytes_, other.packed_bytes_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(crc32_, other.crc32_);
    std::swap(keeper_, other.keeper_);
    std::swap(kept_, other.kept_);
    std::swap(identity_, other.identity_);
    std::swap(holder_, other.holder_);
  }

  Offer offer_ = Offer::kNone;
  File file_;
  const std::byte* memory_ = nullptr;
  Ranges ranges_;
  std::uint64_t entry_ = 0, packed_bytes_ = 0, size_bytes_ = 0;
  std::optional<std::uint32_t> crc32_;
  KeptFiles* keeper_ = nullptr;  // of the descriptor, which it lends as long as the source uses kept_
  KeptFiles::File* kept_ = nullptr;
  std::optional<os::FileIdentity> identity_;
  std::shared_ptr<const void> holder_;  // of a descriptor that is lent
};

}  // namespace headrace::store
