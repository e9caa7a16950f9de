// Store: named objects. A directory, a block of memory, a ZIP file, ranges of other files named by a reference file.
//
// Keys are relative, '/'-separated, UTF-8; valid_key() says which are accepted, and no store opens anything for
// another.
//
// Threads: every call may be made from any thread at any time.
// Fails:   kNotFound only when the object certainly does not exist; anything else that hides an object is an error.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_budget.h"
#include "base/page_buffer.h"

namespace headrace::store {

using Bytes = std::vector<std::byte>;

// An object opened for reading: a range of a file (fd), bytes in memory, or bytes that have to be unpacked first
// (packed). Exactly one of the three.
//
// Owns: fd, closed on destruction, unless it is the store's; `memory` and a store's fd live as long as the store.
class Object {
 public:
  Object() noexcept = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  Object(Object&& other) noexcept { swap(other); }
  Object& operator=(Object&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Object() { close(); }
  void close() noexcept;
  bool is_open() const noexcept { return fd >= 0 || memory != nullptr || is_packed(); }
  bool is_packed() const noexcept { return packed != kNotPacked; }

  // Takes over a descriptor, which counts among base::Descriptors until the object is closed.
  void own_descriptor(int descriptor) noexcept;
  // Takes over another descriptor of the same file; what else is known of the object stays.
  void replace_descriptor(int other) noexcept;

  // Bytes [offset, offset + out.size()) of the object: kShort where the file ends first, kIo; both name the place in
  // the object. REQUIRES: not packed.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;
  // The same of an object in memory, where it lies. REQUIRES: memory != nullptr.
  Result<std::span<const std::byte>> view(std::uint64_t offset, std::uint64_t length) const;
  // OK where the object has all of [offset, offset + length); kShort names where it ends.
  Status check_range(std::uint64_t offset, std::uint64_t length) const;
  // kCorrupt if the store knows a checksum of the whole object and `whole`, all of its bytes, has another.
  Status check_whole(std::span<const std::byte> whole) const;

  static constexpr std::uint64_t kNotPacked = ~std::uint64_t{0};

  int fd = -1;                        // buffered descriptor of a regular file
  bool fd_is_stores = false;          // not closed with the object
  const std::byte* memory = nullptr;  // the whole object, already in memory (never null while open, even if empty)
  std::uint64_t size_bytes = 0;
  std::uint64_t base = 0;              // where in the file the object begins, of any alignment
  std::uint64_t packed = kNotPacked;   // which of the store's entries; Store::unpack() gives its bytes
  std::optional<std::uint32_t> crc32;  // of the whole object

 private:
  void close_own() noexcept;
  void swap(Object& other) noexcept {
    std::swap(fd, other.fd);
    std::swap(fd_is_stores, other.fd_is_stores);
    std::swap(memory, other.memory);
    std::swap(size_bytes, other.size_bytes);
    std::swap(base, other.base);
    std::swap(packed, other.packed);
    std::swap(crc32, other.crc32);
  }
};

struct Entry {
  std::string name;  // last component
  bool is_directory = false;
  bool is_link = false;  // as far as the store knows
};

// Two paths of a store lead to one directory if these are equal.
struct DirectoryId {
  std::uint64_t device = 0, inode = 0;
  auto operator<=>(const DirectoryId&) const = default;
};

class Store {
 public:
  virtual ~Store() = default;
  virtual std::string url() const = 0;  // redacted: may be logged

  // Opens `key` into `out` (closing what it held). REQUIRES: key.data()[key.size()] == '\0', so that the hot path
  // hands it to the kernel without copying. Allocates nothing.
  virtual Status open(std::string_view key, Object& out) = 0;

  // Most bytes of scratch that unpacking an object of that size takes: more than it unpacks to is no compressor's work.
  static constexpr std::uint64_t most_packed_bytes(std::uint64_t size_bytes) noexcept {
    return size_bytes + size_bytes / 8 + (std::uint64_t{64} << 10);
  }
  // Whether it may give packed objects.
  virtual bool packs() const { return false; }
  // The bytes of a packed object into `out`, checked; `scratch` is used on the way. kCorrupt where they are not what
  // the store promised. Allocates nothing but scratch, once it is large enough, and what a thread needs once.
  // REQUIRES: object.is_packed(), opened by this store, and out.size() == object.size_bytes.
  virtual Status unpack(const Object& object, std::span<std::byte> out, base::PageBuffer& scratch) {
    (void)object;
    (void)out;
    (void)scratch;
    return Status(Code::kInternal, Layer::kStore, "this store packs nothing");
  }

  // A descriptor of an open object's file that bypasses the page cache, or the reason why there is none
  // (kUnsupported: not a file, or the file system refuses O_DIRECT). The caller closes it.
  virtual Result<int> open_direct(std::string_view key, const Object& object) = 0;

  // kAgainExhausted where the store keeps in memory what its file says (a ZIP file's directory) and the file has been
  // changed since. Asked once a wave, when all of it has been read: then nothing that was read is misplaced.
  virtual Status check_unchanged() const { return {}; }

  // A path by which the kernel may find the object's file, NUL-terminated; false where there is none. What is opened by
  // it is only used once it has proved to be the very file that open() gave. Throws std::bad_alloc.
  virtual bool local_path(std::string_view key, std::string& out) const {
    (void)key;
    (void)out;
    return false;
  }

  // Whether the object is there, has at most `limit` bytes, and can be opened and read now without anybody waiting for
  // a disk or a network, as far as the system tells; false where it does not. Waits for neither itself; allocates
  // nothing. REQUIRES: as for open().
  virtual bool at_hand(std::string_view key, std::uint64_t limit) {
    (void)key;
    (void)limit;
    return false;
  }

  // Whole object, refused with kResourceExhausted above `limit` bytes. Its memory is taken from *charge, if given,
  // before it is allocated.
  virtual Result<Bytes> get(std::string_view key, std::uint64_t limit, base::Charge* charge = nullptr) = 0;

  // Direct children of `prefix` ("" = root), sorted by name. kNotFound where the prefix is no directory.
  // Memory as for get().
  virtual Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge = nullptr) = 0;

  // Which directory `prefix` is. Nothing where no two paths lead to one, or where it cannot be told.
  virtual std::optional<DirectoryId> identify_directory(std::string_view prefix) {
    (void)prefix;
    return std::nullopt;
  }

  // Creates or replaces. kUnsupported for a store opened read-only.
  virtual Status put(std::string_view key, std::span<const std::byte> bytes) = 0;
};

// Components are non-empty, none is "." or "..", no NUL, no backslash, at most 4,096 bytes in all, 255 a component.
bool valid_key(std::string_view key) noexcept;
Status check_key(std::string_view key);

// Bytes [offset, offset + out.size()) of an object that `store` has opened, wherever they lie: a packed one is unpacked
// by way of `scratch`, and what is read whole is compared with the checksum that the store knows.
// REQUIRES: of a packed object all of it is wanted.
Status read_checked(Store& store, const Object& object, std::uint64_t offset, std::span<std::byte> out,
                    base::PageBuffer& scratch);

// get() for stores whose open() gives all that there is to know.
Result<Bytes> get_opened(Store& store, std::string_view key, std::uint64_t limit, base::Charge* charge = nullptr);

// What an Entry takes in a listing, while the listing grows.
inline std::uint64_t listed_bytes(std::string_view name) noexcept {
  return 2 * sizeof(Entry) + (name.size() < sizeof(std::string) / 2 ? 0 : name.size() + 17);
}

struct StoreOptions {
  // Of what a store keeps because of what is stored: directories, references. Null: no limit.
  std::shared_ptr<base::MemoryBudget> memory;
};

struct StoreRow {
  const char* scheme;  // "file", "memory", "zip", "reference"
  // `location`: what follows "scheme://".
  Result<std::shared_ptr<Store>> (*open)(std::string_view location, const StoreOptions& options);
};

std::span<const StoreRow> stores();

// "file:///path", a plain path, or "memory://name" (one per name and process, for tests and embedding). A path that
// runs through a ZIP file goes on inside it ("/data/x.zip/group"), also as "zip:///data/x.zip/group".
// "reference:///data/refs.json" is a kerchunk reference file; "?root=/data" behind it allows references to files below
// that directory, which is otherwise the one that holds the reference file.
Result<std::shared_ptr<Store>> open_store(std::string_view url, const StoreOptions& options = {});

}  // namespace headrace::store
