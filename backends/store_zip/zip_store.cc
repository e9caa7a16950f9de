// ZipStore: a ZIP file as a read-only store.
//
// A stored entry is a range of the archive: it is read by whatever path the transfer takes, nothing is unpacked. A
// deflated one is unpacked whole by unpack(). The directory is read once; each entry's local header when first opened.
#include <fcntl.h>
#include <libdeflate.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <string>

#include "base/fault.h"
#include "base/file_handle.h"
#include "base/file_read.h"
#include "store/open_file.h"
#include "zip_directory.h"

namespace headrace::store {
namespace {

struct Inflater {
  Inflater() : state(libdeflate_alloc_decompressor()) {}
  ~Inflater() { libdeflate_free_decompressor(state); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  libdeflate_decompressor* const state;
};

class ZipStore final : public Store {
 public:
  ZipStore(std::string path, std::string folder) : path_(std::move(path)), folder_(std::move(folder)) {}

  Status read_directory() {
    HEADRACE_TRY(base::FileHandle::open(path_, {}, file_));
    std::uint64_t bytes = 0;
    HEADRACE_TRY(file_.size(bytes));
    HEADRACE_TRY(read_zip_directory(file_.fd(), bytes, folder_, directory_).with_key(path_));
    if (!directory_.folder_exists) {
      const bool is_file = directory_.folder_is_file;
      return Status(is_file ? Code::kInvalidArgument : Code::kNotFound, Layer::kStore,
                    is_file ? "a store must be a folder of the archive, not one of its objects"
                            : "no such folder in the archive " + path_)
          .with_key(folder_);
    }
    data_at_ = std::make_unique<std::atomic<std::uint64_t>[]>(directory_.names.size());
    return {};
  }

  std::string url() const override { return "zip://" + path_ + (folder_.empty() ? "" : "/") + folder_; }

  bool local_path(std::string_view, std::string& out) const override {
    out = path_;
    return true;
  }

  Status open(std::string_view key, Object& out) override {
    out.close();
    if (!valid_key(key)) return check_key(key);
    const std::uint32_t number = directory_.names.find(key);
    if (number == NameIndex::kNone) return not_found_;
    const ZipEntry& entry = directory_.entries[number];
    HEADRACE_TRY(check_zip_method(entry).with_key(key));
    // Of several threads that find it unknown all look, and find the same.
    std::uint64_t data_at = data_at_[number].load(std::memory_order_relaxed);
    if (data_at == 0) {
      HEADRACE_TRY(check_zip_header(file_.fd(), directory_, entry, folder_, key, data_at).with_key(key));
      data_at_[number].store(data_at, std::memory_order_relaxed);
    }
    out.size_bytes = entry.size_bytes;
    if (entry.method == ZipEntry::kDeflated) {
      // So much more than it unpacks to is no compressor's work, and would be read for nothing.
      if (entry.packed_bytes / 2 > entry.size_bytes + (std::uint64_t{64} << 10)) {
        out.close();
        return Status(Code::kUnsupported, Layer::kStore, "ZIP: the entry is deflated to more than twice its size")
            .with_key(key);
      }
      out.packed = number;
      return {};
    }
    out.fd = file_.fd();
    out.fd_is_stores = true;
    out.base = data_at;
    out.crc32 = entry.crc32;
    return {};
  }

  bool packs() const override { return directory_.packs; }

  Status unpack(const Object& object, std::span<std::byte> out, base::PageBuffer& scratch) override {
    const ZipEntry& entry = directory_.entries[static_cast<std::size_t>(object.packed)];
    const auto packed_bytes = static_cast<std::size_t>(entry.packed_bytes);
    static thread_local Inflater inflater;
    std::byte* const packed = scratch.reserve(packed_bytes);
    if (packed == nullptr || inflater.state == nullptr) return Status::out_of_memory();
    HEADRACE_TRY(
        base::read_exactly(file_.fd(), data_at_[static_cast<std::size_t>(object.packed)], {packed, packed_bytes}));
    std::size_t in = 0, made = 0;
    std::byte nothing{};  // libdeflate wants an address even for no bytes
    const libdeflate_result result = libdeflate_deflate_decompress_ex(
        inflater.state, packed, packed_bytes, out.empty() ? &nothing : out.data(), out.size(), &in, &made);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
      return damaged("unpacks to more than its " + std::to_string(out.size()) + " bytes");
    }
    if (result != LIBDEFLATE_SUCCESS) return damaged("is no deflate stream");
    if (made != out.size()) {
      return damaged("unpacks to " + std::to_string(made) + " instead of " + std::to_string(out.size()) + " bytes");
    }
    if (in != packed_bytes) return damaged("has bytes behind its deflate stream");
    if (libdeflate_crc32(0, out.data(), out.size()) != entry.crc32) return damaged("has another CRC-32 than it says");
    return {};
  }

  Result<int> open_direct(std::string_view key, const Object& object) override {
    if (object.fd < 0) return Status(Code::kUnsupported, Layer::kStore, "a deflated entry cannot be read directly");
    const int direct = file_.direct_fd();
    if (direct < 0) return no_direct_;
    std::int64_t fd = HEADRACE_FAULT("store_zip.dup", 0);
    if (fd == 0) {
      fd = ::fcntl(direct, F_DUPFD_CLOEXEC, 0);
      if (fd < 0) fd = -errno;
    }
    if (fd < 0) return system_failure(static_cast<int>(-fd), key, "cannot open object for direct I/O");
    return static_cast<int>(fd);
  }

  Result<Bytes> get(std::string_view key, std::uint64_t limit) override { return get_opened(*this, key, limit); }

  Result<std::vector<Entry>> list(std::string_view prefix) override {
    if (!prefix.empty()) HEADRACE_TRY(check_key(prefix));
    return directory_.names.list(prefix);
  }

  Status put(std::string_view key, std::span<const std::byte>) override {
    HEADRACE_TRY(check_key(key));
    return Status(Code::kUnsupported, Layer::kStore, "ZIP stores are read-only").with_key(key);
  }

 private:
  static Status damaged(const std::string& what) {
    return Status(Code::kCorrupt, Layer::kStore, "ZIP: the deflated entry " + what);
  }

  const std::string path_, folder_;
  base::FileHandle file_;
  ZipDirectory directory_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> data_at_;  // by number; 0: the local header has not been looked at
  Status not_found_{Code::kNotFound, Layer::kStore, "no such object"};
  Status no_direct_{Code::kUnsupported, Layer::kStore, "the file system refuses O_DIRECT"};
};

}  // namespace

// `location`: the archive, and behind it a folder inside.
Result<std::shared_ptr<Store>> open_zip_store(std::string_view location) {
  try {
    std::string path, folder;
    HEADRACE_TRY(split_at_file(location, "ZIP file", path, folder));
    auto store = std::make_shared<ZipStore>(std::move(path), std::move(folder));
    HEADRACE_TRY(store->read_directory());
    return std::shared_ptr<Store>(std::move(store));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
