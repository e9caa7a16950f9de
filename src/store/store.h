// Store: named objects. A directory, a block of memory, a ZIP file, ranges of other files named by a reference file,
// storage of the user's own.
//
// Keys are relative, '/'-separated, UTF-8; valid_key() says which are accepted, and no store opens anything for
// another.
//
// Threads: every call may be made from any thread at any time.
// Fails:   kNotFound only when the object certainly does not exist; anything else that hides an object is an error.
#pragma once

#include <headrace/open_options.h>
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
#include "base/read_shape.h"
#include "os/page_buffer.h"
#include "store/byte_source.h"

namespace headrace::store {

using Bytes = std::vector<std::byte>;

struct Entry {
  std::string name;  // last component
  bool is_directory = false;
  bool is_link = false;  // as far as the store knows
};

class FileOffers;

class Store {
 public:
  virtual ~Store() = default;
  virtual std::string url() const = 0;  // redacted: may be logged

  // Opens `key` into `out` (closing what it held). REQUIRES: key.data()[key.size()] == '\0', so that the hot path
  // hands it to the kernel without copying. Allocates nothing. What offers kRanges may turn out not to be there, and
  // refers to `key`.
  virtual Status open(std::string_view key, ByteSource& out) = 0;

  // The same, of an object that reads come back to, such as a chunk: the store may keep its file open for the next
  // call, which then finds out with one question that nothing has changed. The file may stay open until the store ends.
  virtual Status open_again(std::string_view key, ByteSource& out) { return open(key, out); }

  // Most bytes of scratch that unpacking an object of that size takes: more than it unpacks to is no compressor's work.
  static constexpr std::uint64_t most_packed_bytes(std::uint64_t size_bytes) noexcept {
    return size_bytes + size_bytes / 8 + (std::uint64_t{64} << 10);
  }
  // Whether it may give packed objects.
  virtual bool packs() const { return false; }
  // The bytes of a packed object into `out`, checked; `scratch` is used on the way. kCorrupt where they are not what
  // the store promised. Allocates nothing but scratch, once it is large enough, and what a thread needs once.
  // REQUIRES: object.offers(Offer::kWhole), opened by this store, and out.size() == object.size_bytes().
  virtual Status unpack(const ByteSource& object, std::span<std::byte> out, os::PageBuffer& scratch) {
    (void)object;
    (void)out;
    (void)scratch;
    return Status(Code::kInternal, Layer::kStore, "this store packs nothing");
  }

  // kAgainExhausted where the store keeps in memory what its file says (a ZIP file's directory) and the file has been
  // changed since. Asked once a wave, when all of it has been read: then nothing that was read is misplaced.
  virtual Status check_unchanged() const { return {}; }

  // Whose ranges its objects offer, where they offer kRanges; null where they do not. Such objects use no descriptor.
  virtual ByteStore* ranges() noexcept { return nullptr; }
  // Where bytes [offset, offset + length) of an object that offers kRanges lie in a file of this machine, checked and
  // of the version that the store has named (and `version` is empty or that): the object into `out` (closing what it
  // held), as a file which has no more of it than that range, or than there is of it. False: the store is to be asked.
  // `length`: as it would be asked for. Waits for nothing but local files; allocates nothing.
  virtual bool open_local(std::string_view key, std::string_view version, std::uint64_t offset, std::uint64_t length,
                          ByteSource& out) noexcept {
    (void)key, (void)version, (void)offset, (void)length, (void)out;
    return false;
  }
  // Whether such a range, of an object that has a version, lies there or would when it has been read: then it is better
  // asked for than a part of it, which stays under its own length.
  virtual bool keeps_range(std::string_view key, std::uint64_t offset, std::uint64_t length) const noexcept {
    (void)key, (void)offset, (void)length;
    return false;
  }
  // Whether the answers of such a store have told versions of what they gave.
  virtual bool tells_versions() const noexcept { return false; }

  // How ranges of its objects are best asked for. May be another one at every call, but for most_group_bytes.
  virtual base::ReadShape read_shape() const noexcept { return {}; }

  // What it can do besides, where its objects are files; null where they are not.
  virtual FileOffers* files() noexcept { return nullptr; }

  // Whole object, refused with kResourceExhausted above `limit` bytes. Its memory is taken from *charge, if given,
  // before it is allocated.
  virtual Result<Bytes> get(std::string_view key, std::uint64_t limit, base::Charge* charge = nullptr);

  // Direct children of `prefix` ("" = root), sorted by name. kNotFound where the prefix is no directory.
  // Memory as for get().
  virtual Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge = nullptr) = 0;

  // Creates or replaces. kUnsupported for a store opened read-only.
  virtual Status put(std::string_view key, std::span<const std::byte> bytes) = 0;
};

// Components are non-empty, none is "." or "..", no NUL, no backslash, at most 4,096 bytes in all, 255 a component.
bool valid_key(std::string_view key) noexcept;
Status check_key(std::string_view key);

// Bytes [offset, offset + out.size()) of an object that `store` has opened, wherever they lie: a packed one is unpacked
// by way of `scratch`, and what is read whole is compared with the checksum that the store knows.
// REQUIRES: of a packed object all of it is wanted.
Status read_checked(Store& store, const ByteSource& object, std::uint64_t offset, std::span<std::byte> out,
                    os::PageBuffer& scratch);

// Whether an object of that name can be opened. Of one that offers ranges its store is asked.
bool has_object(Store& store, const std::string& key);

// Puts a listing in order. Where a name is both an object and a directory, the directory is listed.
void sort_listed(std::vector<Entry>& entries);

// What an Entry takes in a listing, while the listing grows.
inline std::uint64_t listed_bytes(std::string_view name) noexcept {
  return 2 * sizeof(Entry) + (name.size() < sizeof(std::string) / 2 ? 0 : name.size() + 17);
}

struct StoreOptions {
  // Of what a store keeps because of what is stored: directories, references. Null: no limit.
  std::shared_ptr<base::MemoryBudget> memory;
  std::span<const StorageOption> storage = {};  // of the user's
};

struct StoreRow {
  const char* scheme;  // "file", "memory", "zip", "reference"
  // `location`: what follows "scheme://".
  Result<std::shared_ptr<Store>> (*open)(std::string_view location, const StoreOptions& options);
  bool takes_storage_options = false;  // others are not opened with any
};

std::span<const StoreRow> stores();

// "file:///path", a plain path, or "memory://name" (one per name and process, for tests and embedding). A path that
// runs through a ZIP file goes on inside it ("/data/x.zip/group"), also as "zip:///data/x.zip/group".
// "reference:///data/refs.json" is a kerchunk reference file; "?root=/data" behind it allows references to files below
// that directory, which is otherwise the one that holds the reference file.
Result<std::shared_ptr<Store>> open_store(std::string_view url, const StoreOptions& options = {});

}  // namespace headrace::store
