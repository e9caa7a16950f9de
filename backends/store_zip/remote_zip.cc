#include "remote_zip.h"

#include <headrace/byte_store.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "http/remote_service.h"
#include "http/url.h"
#include "store/part_store.h"
#include "store/range_read.h"
#include "store/range_store.h"
#include "zip_directory.h"
#include "zip_unpack.h"

namespace headrace::store {
namespace {

constexpr std::uint64_t kUsualExtraBytes = 64;  // of a local header: time stamps, ZIP64 sizes

// An archive whose directory has been read.
struct Archive {
  std::shared_ptr<Store> home;  // the store that has the archive as an object
  std::string key, version;
  std::uint64_t bytes = 0;
  std::string folder, url;
  ZipDirectory directory;
  std::unique_ptr<std::atomic<std::uint64_t>[]> data_at;  // by number; 0: the local header has not been read

  std::uint32_t head_bytes(std::uint32_t number) const noexcept {
    return static_cast<std::uint32_t>(zip_header_bytes(folder, directory.names.name(number)) + kUsualExtraBytes);
  }
  // `head`: the first bytes of the entry's local header. kShort: `needed` of them are needed.
  Status check_head(std::uint32_t number, std::span<const std::byte> head, std::uint64_t& begin,
                    std::uint64_t& needed) const {
    const ZipEntry& entry = directory.entries[number];
    const std::string_view name = directory.names.name(number);
    const ZipBytes bytes_there(entry.header_at, head);
    Status status = check_zip_header(bytes_there, directory, entry, folder, name, begin);
    if (status.ok()) data_at[number].store(begin, std::memory_order_relaxed);
    if (status.code() == Code::kShort && head.size() >= zip_header_bytes(folder, name)) {
      needed = zip_header_length(head);
    }
    return status;
  }
  // Reads bytes of this version, and waits for them.
  Status read(std::uint64_t at, std::span<std::byte> out) const {
    RangeRead read;
    read.key = key;
    read.offset = at;
    read.out = out;
    read.version = version;
    (void)read_range(*home->ranges(), read);  // check_part() evaluates the result
    return check_part(read);
  }
};

// The archive while its directory is read: its end is in memory.
class ArchiveInput final : public ZipInput {
 public:
  ArchiveInput(const Archive& archive, std::span<const std::byte> tail) : archive_(archive), tail_(tail) {}
  Status read(std::uint64_t at, std::span<std::byte> out) const override {
    const std::uint64_t tail_at = archive_.bytes - tail_.size();
    const auto before = at >= tail_at ? 0 : static_cast<std::size_t>(std::min<std::uint64_t>(tail_at - at, out.size()));
    if (before != 0) HEADRACE_TRY(archive_.read(at, out.first(before)));
    return ZipBytes(tail_at, tail_).read(at + before, out.subspan(before));
  }
  // One request for nearly every archive: requests take turns here.
  std::uint64_t window_bytes() const noexcept override { return std::uint64_t{16} << 20; }

 private:
  const Archive& archive_;
  std::span<const std::byte> tail_;
};

// The home store's shape; answers always have the length of the entry.
class ArchiveShape final : public base::ReadShaper {
 public:
  explicit ArchiveShape(std::shared_ptr<Store> home) : home_(std::move(home)) {}
  base::ReadShape read_shape(bool) const noexcept override {
    base::ReadShape shape = home_->read_shape();
    shape.tells_lengths = true;
    return shape;
  }

 private:
  const std::shared_ptr<Store> home_;
};

// Entries of an archive that has only stored ones.
class ZipObjects final : public PartStore {
 public:
  ZipObjects(std::unique_ptr<const Archive> archive, std::shared_ptr<base::MemoryBudget> memory)
      : PartStore(std::move(memory), archive->home->read_shape().steady), archive_(std::move(archive)) {}

  std::string url() const override { return archive_->url; }
  Result<std::vector<ListedName>> list(std::string_view prefix) override {
    HEADRACE_TRY_ASSIGN(std::vector<Entry> entries, archive_->directory.names.list(prefix));
    std::vector<ListedName> names;
    names.reserve(entries.size());
    for (Entry& entry : entries) names.push_back({std::move(entry.name), entry.is_directory});
    return names;
  }

 private:
  Status locate(std::string_view key, Part& out) const noexcept override {
    const std::uint32_t number = archive_->directory.names.find(key);
    if (number == NameIndex::kNone) return not_found_;
    const ZipEntry& entry = archive_->directory.entries[number];
    try {
      HEADRACE_TRY(check_zip_method(entry));
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
    out.store = archive_->home->ranges();
    out.key = archive_->key;
    out.version = archive_->version;
    out.object_bytes = archive_->bytes;
    out.bytes = entry.size_bytes;
    out.number = number;
    out.has_head = true;
    out.begin = archive_->data_at[number].load(std::memory_order_relaxed);
    out.head_known = out.begin != 0;
    out.head_at = entry.header_at;
    out.end = archive_->directory.begin;
    out.head_bytes = archive_->head_bytes(number);
    return {};
  }
  Status check_head(const Part& part, std::span<const std::byte> head, std::uint64_t& begin,
                    std::uint64_t& needed) noexcept override {
    try {
      return archive_->check_head(part.number, head, begin, needed);
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  }
  Status check_whole(const Part& part, std::span<const std::byte> whole) const noexcept override {
    try {
      return check_zip_sum(archive_->directory.entries[part.number], whole);
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  }
  Status missing(const Part&) const noexcept override { return removed_; }

  const std::unique_ptr<const Archive> archive_;
  const Status not_found_{Code::kNotFound, Layer::kStore, "no such object"};
  const Status removed_{Code::kAgainExhausted, Layer::kStore, "the ZIP file was removed; open it again"};
};

// An archive with deflated entries: each entry is fetched whole, by the worker that unpacks it.
class PackedZip final : public Store {
 public:
  explicit PackedZip(std::unique_ptr<const Archive> archive) : archive_(std::move(archive)) {}

  std::string url() const override { return archive_->url; }
  Status open(std::string_view key, ByteSource& out) override {
    out.close();
    if (!valid_key(key)) return check_key(key);
    const std::uint32_t number = archive_->directory.names.find(key);
    if (number == NameIndex::kNone) return not_found_;
    const ZipEntry& entry = archive_->directory.entries[number];
    HEADRACE_TRY(check_zip_method(entry).with_key(key));
    if (entry.packed_bytes + archive_->head_bytes(number) > max_packed_bytes(entry.size_bytes)) {
      return Status(Code::kUnsupported, Layer::kStore, "ZIP: the entry is deflated to much more than its size")
          .with_key(key);
    }
    out.offer_whole(number, entry.size_bytes, entry.packed_bytes);
    return {};
  }
  bool packs() const override { return true; }
  Status unpack(const ByteSource& object, std::span<std::byte> out, os::PageBuffer& scratch) override {
    const auto number = static_cast<std::uint32_t>(object.entry());
    const ZipEntry& entry = archive_->directory.entries[number];
    const auto packed_bytes = static_cast<std::size_t>(entry.packed_bytes);
    std::uint64_t data_at = archive_->data_at[number].load(std::memory_order_relaxed);
    const std::uint64_t head_bytes = data_at == 0 ? archive_->head_bytes(number) : 0;
    std::uint64_t at = data_at == 0 ? entry.header_at : data_at;
    const std::span<std::byte> room =
        scratch.reserve(static_cast<std::size_t>(std::min(head_bytes + packed_bytes, archive_->directory.begin - at)));
    if (room.data() == nullptr) return Status::out_of_memory();
    if (!room.empty()) HEADRACE_TRY(archive_->read(at, room));
    if (data_at == 0) HEADRACE_TRY(find_data(number, room, data_at));
    std::span<const std::byte> packed;
    if (data_at - at <= room.size() && packed_bytes <= room.size() - (data_at - at)) {
      packed = room.subspan(static_cast<std::size_t>(data_at - at), packed_bytes);
    } else {
      if (packed_bytes != 0) HEADRACE_TRY(archive_->read(data_at, room.first(packed_bytes)));
      packed = room.first(packed_bytes);
    }
    return unpack_zip_entry(entry, packed, out);
  }
  Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge) override {
    if (!prefix.empty()) HEADRACE_TRY(check_key(prefix));
    return archive_->directory.names.list(prefix, charge);
  }
  Status put(std::string_view key, std::span<const std::byte>) override {
    HEADRACE_TRY(check_key(key));
    return Status(Code::kUnsupported, Layer::kStore, "ZIP stores are read-only").with_key(key);
  }

 private:
  Status find_data(std::uint32_t number, std::span<const std::byte> head, std::uint64_t& data_at) const {
    std::uint64_t needed = 0;
    Status status = archive_->check_head(number, head, data_at, needed);
    if (status.code() != Code::kShort || needed == 0) return status;
    const std::uint64_t at = archive_->directory.entries[number].header_at;
    std::vector<std::byte> longer(static_cast<std::size_t>(std::min(needed, archive_->directory.begin - at)));
    HEADRACE_TRY(archive_->read(at, longer));
    return archive_->check_head(number, longer, data_at, needed);
  }

  const std::unique_ptr<const Archive> archive_;
  const Status not_found_{Code::kNotFound, Layer::kStore, "no such object"};
};

struct Address {
  ObjectPlace place;   // of the archive
  std::string folder;  // in it
};

// Throws std::bad_alloc.
Result<Address> split_address(std::string_view url) {
  const std::size_t end = end_of_component(url, ".zip");
  const std::size_t path_end = std::min(url.find_first_of("?#"), url.size());
  if (end == std::string_view::npos) {
    return Status(
        Code::kInvalidArgument, Layer::kStore,
        "the URL names no ZIP file; " + http::shown_url(url) + "; its path needs a component that ends in .zip");
  }
  Address out;
  HEADRACE_TRY_ASSIGN(out.place, split_object_url(std::string(url.substr(0, end)) + std::string(url.substr(path_end))));
  std::string_view folder = url.substr(end, path_end - end);
  while (folder.starts_with('/')) folder.remove_prefix(1);
  while (folder.ends_with('/')) folder.remove_suffix(1);
  out.folder = folder;
  if (url.starts_with("http") && !http::unescape_path(folder, out.folder)) {
    return Status(Code::kInvalidArgument, Layer::kStore,
                  "an escape in the URL is malformed; " + http::shown_url(url) + "; write % as %25");
  }
  if (!out.folder.empty()) HEADRACE_TRY(check_key(out.folder));
  return out;
}

// Throws std::bad_alloc.
Result<std::shared_ptr<Store>> open_archive(std::string_view url, const StoreOptions& options) {
  HEADRACE_TRY_ASSIGN(Address address, split_address(url));
  StoreOptions plain = options;
  plain.opens_archives = false;
  auto archive = std::make_unique<Archive>();
  HEADRACE_TRY_ASSIGN(archive->home, open_store(address.place.store_url, plain));
  if (archive->home->ranges() == nullptr) {
    return Status(Code::kUnsupported, Layer::kStore,
                  "no archive of a remote store; " + archive->home->url() + "; open local ones by their path");
  }
  archive->key = std::move(address.place.key);
  archive->folder = std::move(address.folder);
  archive->url = archive->home->url() + "/" + archive->key + (archive->folder.empty() ? "" : "/") + archive->folder;
  HEADRACE_TRY(check_key(archive->key));
  std::vector<std::byte> tail(static_cast<std::size_t>(kZipTailBytes));
  RangeRead end;
  end.key = archive->key;
  end.from_end = true;
  end.out = tail;
  Status status = read_range(*archive->home->ranges(), end);
  // A folder of that name.
  if (status.code() == Code::kNotFound) return open_store(url, plain);
  HEADRACE_TRY(std::move(status));
  const auto lacks = [&](const char* what, const char* remedy) {
    return Status(Code::kUnsupported, Layer::kStore,
                  "the server states no " + std::string(what) + " of the ZIP file; " + archive->url + "; " + remedy);
  };
  if (end.object_bytes == RangeRead::kUnknown) return lacks("size", "use another server, or download the file");
  // Answers about empty objects need not have one.
  if (end.found_version.empty() && end.object_bytes != 0) {
    return lacks("version", "use a server that sends strong ETags, or download the file");
  }
  archive->version = std::move(end.found_version);
  archive->bytes = end.object_bytes;
  archive->directory.memory = base::Charge(options.memory);
  tail.resize(static_cast<std::size_t>(end.bytes));
  HEADRACE_TRY(read_zip_directory(ArchiveInput(*archive, tail), archive->bytes, archive->folder, archive->directory)
                   .with_key(archive->key));
  HEADRACE_TRY(check_zip_folder(archive->directory, archive->folder, archive->home->url() + "/" + archive->key));
  archive->data_at = std::make_unique<std::atomic<std::uint64_t>[]>(archive->directory.names.size());
  if (archive->directory.packs) return std::shared_ptr<Store>(std::make_shared<PackedZip>(std::move(archive)));
  auto shape = std::make_shared<ArchiveShape>(archive->home);
  const bool steady = archive->home->read_shape().steady;
  return std::shared_ptr<Store>(std::make_shared<RangeStore>(
      std::make_shared<ZipObjects>(std::move(archive), options.memory), std::move(shape), steady));
}

}  // namespace

Result<std::shared_ptr<Store>> open_remote_zip(std::string_view url, const StoreOptions& options) {
  try {
    return open_archive(url, options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
