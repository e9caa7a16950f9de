// Store: named objects. Implementations: a directory, memory, a ZIP file, a reference file that maps keys to ranges of
// other files, and the user's own storage.
//
// Keys are relative, '/'-separated and UTF-8. valid_key() says which are accepted; no store opens
// anything for other keys.
//
// Threads: every call from any thread at any time.
// Fails:   kNotFound only if the object certainly does not exist; anything else that hides an object is another error.
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
  virtual std::string url() const = 0;  // without secrets: may be logged

  // Opens `key` into `out`, closing what it held. REQUIRES: key.data()[key.size()] == '\0', so that the hot path passes
  // it to the kernel without a copy. Allocates nothing. A source that offers kRanges refers to `key`, and its object
  // may turn out not to exist.
  virtual Status open(std::string_view key, ByteSource& out) = 0;

  // The same for an object that reads return to, such as a chunk. The store may keep its file open, so that the
  // next call needs a single system call to see that nothing has changed. The file may stay open until the
  // store is destroyed.
  virtual Status open_for_reuse(std::string_view key, ByteSource& out) { return open(key, out); }

  // Maximum scratch for unpacking an object of this size. No compressor expands data by more.
  static constexpr std::uint64_t max_packed_bytes(std::uint64_t size_bytes) noexcept {
    return size_bytes + size_bytes / 8 + (std::uint64_t{64} << 10);
  }
  // Whether it may have packed objects.
  virtual bool packs() const { return false; }
  // Unpacks a packed object into `out` and checks it, using `scratch`. kCorrupt if the bytes are not what the store
  // promised. Allocates only scratch, until it is large enough, and one-time per-thread memory. REQUIRES:
  // object.offers(Offer::kWhole), opened by this store, and out.size() == object.size_bytes().
  virtual Status unpack(const ByteSource& object, std::span<std::byte> out, os::PageBuffer& scratch) {
    (void)object;
    (void)out;
    (void)scratch;
    return Status(Code::kInternal, Layer::kStore, "this store has no packed objects");
  }

  // kAgainExhausted if the store holds its file's directory in memory (a ZIP file) and the file has changed since.
  // Called once per wave after all its reads, which proves that they used the right offsets.
  virtual Status check_unchanged() const { return {}; }

  // The ByteStore behind objects that offer kRanges; null if there is none. Such objects use no descriptor.
  virtual ByteStore* ranges() noexcept { return nullptr; }
  // For an object that offers kRanges: whether bytes [offset, offset + length) are in a local file, verified and of the
  // version that the store has named (and that `version`, unless empty, asks for). If so, opens the object into `out`,
  // closing what it held, as a file that has only that range of it, or as much of it as exists. False: ask the store.
  // `length`: as it would be requested. Waits only for local files; allocates nothing.
  virtual bool open_local(std::string_view key, std::string_view version, std::uint64_t offset, std::uint64_t length,
                          ByteSource& out) noexcept {
    (void)key, (void)version, (void)offset, (void)length, (void)out;
    return false;
  }
  // Whether this range, of an object that has a version, is cached locally or would be once read. Then it is better to
  // request exactly this range than a part of it, which would be cached under its own length.
  virtual bool keeps_range(std::string_view key, std::uint64_t offset, std::uint64_t length) const noexcept {
    (void)key, (void)offset, (void)length;
    return false;
  }
  // Whether the store's answers have included versions.
  virtual bool tells_versions() const noexcept { return false; }

  // How ranges of its objects are best read. May differ at every call, except for max_group_bytes.
  virtual base::ReadShape read_shape() const noexcept { return {}; }

  // Additional operations, if its objects are files; otherwise null.
  virtual FileOffers* files() noexcept { return nullptr; }

  // Reads a whole object; kResourceExhausted above `limit` bytes. Its memory is taken from *charge, if given, before
  // it is allocated.
  virtual Result<Bytes> get(std::string_view key, std::uint64_t limit, base::Charge* charge = nullptr);

  // Direct children of `prefix` ("" = root), sorted by name. kNotFound if the prefix is not a directory.
  // Memory as for get().
  virtual Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge = nullptr) = 0;

  // Creates or replaces an object. kUnsupported for a store opened read-only.
  virtual Status put(std::string_view key, std::span<const std::byte> bytes) = 0;
};

// Components are non-empty and neither "." nor ".."; no NUL, no backslash; at most 4,096 bytes in all and
// 255 per component.
bool valid_key(std::string_view key) noexcept;
Status check_key(std::string_view key);

// Reads bytes [offset, offset + out.size()) of an object that `store` has opened, wherever they are. A packed object is
// unpacked through `scratch`, and data read whole is verified against the store's checksum. REQUIRES: for a packed
// object, the whole of it is requested.
Status read_checked(Store& store, const ByteSource& object, std::uint64_t offset, std::span<std::byte> out,
                    os::PageBuffer& scratch);

// Whether an object of that name can be opened. For an object that offers ranges, asks its store.
bool has_object(Store& store, const std::string& key);

// Sorts a listing. A name that is both an object and a directory is listed as a directory.
void sort_listed(std::vector<Entry>& entries);

// Memory of an Entry in a growing listing.
inline std::uint64_t listed_bytes(std::string_view name) noexcept {
  return 2 * sizeof(Entry) + (name.size() < sizeof(std::string) / 2 ? 0 : name.size() + 17);
}

struct StoreOptions {
  // Budget for what a store keeps because of stored data: directories, references. Null: no limit.
  std::shared_ptr<base::MemoryBudget> memory;
  std::span<const StorageOption> storage = {};  // from the user
  bool opens_archives = true;  // a remote URL whose path runs through an object named *.zip leads into that archive
};

struct StoreRow {
  const char* scheme;  // "file", "memory", "zip", "reference"
  // `location`: what follows "scheme://".
  Result<std::shared_ptr<Store>> (*open)(std::string_view location, const StoreOptions& options);
  bool takes_storage_options = false;  // other stores are opened without options
  bool remote = false;                 // objects of a server, by ranges
};

std::span<const StoreRow> stores();

// For stores that take storage options only with a URL.
Status refuse_storage_options(std::string_view scheme, const StoreOptions& options);
// Whether a location, the text after "scheme://", is itself a URL.
bool is_url(std::string_view location) noexcept;
// For a URL of a remote store: the end of the first component of its path that ends in `ending`, and is longer; npos:
// there is none.
std::size_t end_of_component(std::string_view url, std::string_view ending) noexcept;

// "file:///path", a plain path, or "memory://name" (one per name and process, for tests and embedding). A path that
// runs through a ZIP file continues inside it ("/data/x.zip/group"), also as "zip:///data/x.zip/group".
// "reference:///data/refs.json" is a kerchunk reference file; an appended "?root=/data" allows references to files
// below that directory, instead of below the reference file's own directory. The path of a remote URL may run through a
// ZIP file as well: "s3://bucket/x.zip/group".
Result<std::shared_ptr<Store>> open_store(std::string_view url, const StoreOptions& options = {});

}  // namespace headrace::store
