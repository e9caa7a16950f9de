// ByteSource: an opened object, how its bytes can be obtained, and what is known about it.
//
// Threads: const calls from any thread.
// Owns:    its descriptor, unless the store lends it or keeps it open. Memory and lent descriptors live as long as the
//          store, which outlives sources that use a kept file. For ranges, key and version belong to whoever opened the
//          source. Allocates nothing.
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

// How an object's bytes can be obtained.
enum class Offer : unsigned char {
  kNone = 0,
  kFile = 1,    // a range of a file, by descriptor: for the page cache, engines and mapping
  kMemory = 2,  // entirely in memory
  kWhole = 4,   // only whole, by Store::unpack()
  kRanges = 8,  // ranges from a ByteStore; size and existence may be unknown until one of them has ended
};

class ByteSource {
 public:
  struct File {
    int fd = -1;        // buffered descriptor of a regular file
    bool lent = false;  // owned by the store: not closed with the source
    // Offset in the file where the object begins, of any alignment. If the file has only a part of the object, it may
    // be negative: modulo 2^64.
    std::uint64_t begin = 0;
    const char* path = nullptr;  // of a file that the store's own names do not lead to
  };

  // The object `key` (NUL-terminated) of a user's store, in the content named by `version` if that is not empty.
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

  // For stores, on a closed source. A descriptor that is not lent becomes the source's, and counts among
  // os::Descriptors until the source is closed.
  void offer_file(const File& file, std::uint64_t size_bytes) noexcept;
  void offer_memory(std::span<const std::byte> whole) noexcept;
  // `packed_bytes`: bytes that the store reads to unpack it.
  void offer_whole(std::uint64_t entry, std::uint64_t size_bytes, std::uint64_t packed_bytes) noexcept;
  void offer_ranges(const Ranges& ranges, std::uint64_t size_bytes) noexcept;  // kUnknown: not known yet
  void set_checksum(std::uint32_t crc32_of_whole) noexcept { crc32_ = crc32_of_whole; }
  // The store takes the descriptor, which is lent from then on. REQUIRES: offers(kFile).
  void lend() noexcept { file_.lent = true; }
  // A kept file, in use until the source is closed. `file` is unchanged since its identity was taken.
  void offer_kept(KeptFiles& keeper, KeptFiles::File& file) noexcept;
  // A part of an object inside a file owned elsewhere: `holder` keeps its descriptor and path valid while the source is
  // open. `identity`: the file's, taken just now.
  void offer_held(const File& file, std::uint64_t size_bytes, const os::FileIdentity& identity,
                  std::shared_ptr<const void> holder) noexcept;
  // The identity of a file that was just opened by name for this source.
  void set_identity(const os::FileIdentity& identity) noexcept { identity_ = identity; }
  // Replaces the descriptor, if there is one, by another descriptor of the same file, which the source then owns.
  void replace_descriptor(int other) noexcept;

  bool is_open() const noexcept { return offer_ != Offer::kNone; }
  bool offers(Offer offer) const noexcept { return offer_ == offer; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }      // may be kUnknown for ranges
  const File& file() const noexcept { return file_; }                    // fd -1 unless offers(kFile)
  const std::byte* memory() const noexcept { return memory_; }           // not null if and only if offers(kMemory)
  std::uint64_t entry() const noexcept { return entry_; }                // chosen by the store, for kWhole
  std::uint64_t packed_bytes() const noexcept { return packed_bytes_; }  // likewise
  const Ranges& ranges() const noexcept { return ranges_; }              // store null unless offers(kRanges)
  // The file's identity when the store opened or checked it for this source; null if the store does not provide it.
  const os::FileIdentity* identity() const noexcept { return identity_ ? &*identity_ : nullptr; }
  bool has_checksum() const noexcept { return crc32_.has_value(); }  // for the whole object

  // OK if the object has all of [offset, offset + length); kShort says where it ends.
  Status check_range(std::uint64_t offset, std::uint64_t length) const;
  // Reads bytes [offset, offset + out.size()) of the object. kShort if the file ends first, kIo; both name the place in
  // the object. For ranges it waits for the store, and an object that has vanished is kAgainExhausted. `cache` receives
  // how a cache handled the range. REQUIRES: not offers(kWhole).
  Status read(std::uint64_t offset, std::span<std::byte> out, RangeCache* cache = nullptr) const;
  // Reads as much of a range as the object has; kNotFound if there is no object. REQUIRES: offers(kRanges).
  Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> out) const;
  // Queries a size that is not known yet; kNotFound if there is no object. REQUIRES: offers(kRanges).
  Status measure();
  // As read(), without a copy, for an object in memory. REQUIRES: offers(kMemory).
  Result<std::span<const std::byte>> view(std::uint64_t offset, std::uint64_t length) const;
  // kCorrupt if a checksum is known and does not match `whole`, the object's complete bytes.
  Status check_whole(std::span<const std::byte> whole) const;
  // The same for bytes read from `offset`, if they are the whole object; OK for a part.
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
  KeptFiles* keeper_ = nullptr;  // owner of the descriptor, which it lends while the source uses kept_
  KeptFiles::File* kept_ = nullptr;
  std::optional<os::FileIdentity> identity_;
  std::shared_ptr<const void> holder_;  // of a lent descriptor
};

}  // namespace headrace::store
