// ZipStore: a ZIP file as a read-only store.
//
// A stored entry is a range of the archive, which any transfer path can read without unpacking. A deflated entry is
// unpacked whole by unpack(). The directory is read once, each entry's local header when it is first opened.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "base/fault.h"
#include "os/file_handle.h"
#include "os/file_read.h"
#include "remote_zip.h"
#include "store/file_offers.h"
#include "store/open_file.h"
#include "zip_directory.h"
#include "zip_unpack.h"

namespace headrace::store {
namespace {

class ZipFile final : public ZipInput {
 public:
  explicit ZipFile(int fd) noexcept : fd_(fd) {}
  Status read(std::uint64_t at, std::span<std::byte> out) const override { return os::read_exactly(fd_, at, out); }

 private:
  int fd_;
};

class ZipStore final : public Store, public FileOffers {
 public:
  ZipStore(std::string path, std::string folder) : path_(std::move(path)), folder_(std::move(folder)) {}

  Status read_directory(const StoreOptions& options) {
    directory_.memory = base::Charge(options.memory);
    HEADRACE_TRY(os::FileHandle::open(path_, {}, file_));
    HEADRACE_TRY(identify());
    std::uint64_t bytes = 0;
    HEADRACE_TRY(file_.size(bytes));
    HEADRACE_TRY(read_zip_directory(ZipFile(file_.fd()), bytes, folder_, directory_).with_key(path_));
    HEADRACE_TRY(check_zip_folder(directory_, folder_, path_));
    data_at_ = std::make_unique<std::atomic<std::uint64_t>[]>(directory_.names.size());
    return {};
  }

  std::string url() const override { return "zip://" + path_ + (folder_.empty() ? "" : "/") + folder_; }

  FileOffers* files() noexcept override { return this; }
  bool local_path(std::string_view, std::string& out) override {
    out = path_;
    return true;
  }

  Status open(std::string_view key, ByteSource& out) override {
    out.close();
    if (!valid_key(key)) return check_key(key);
    const std::uint32_t number = directory_.names.find(key);
    if (number == NameIndex::kNone) return not_found_;
    const ZipEntry& entry = directory_.entries[number];
    HEADRACE_TRY(check_zip_method(entry).with_key(key));
    // Threads that race here all read the header and get the same result.
    std::uint64_t data_at = data_at_[number].load(std::memory_order_relaxed);
    if (data_at == 0) {
      HEADRACE_TRY(check_zip_header(ZipFile(file_.fd()), directory_, entry, folder_, key, data_at).with_key(key));
      data_at_[number].store(data_at, std::memory_order_relaxed);
    }
    if (entry.method == ZipEntry::kDeflated) {
      // Refuse it before reading far more bytes than the entry can need.
      if (entry.packed_bytes > max_packed_bytes(entry.size_bytes)) {
        return Status(Code::kUnsupported, Layer::kStore, "ZIP: the entry is deflated to much more than its size")
            .with_key(key);
      }
      out.offer_whole(number, entry.size_bytes, entry.packed_bytes);
      return {};
    }
    out.offer_file({.fd = file_.fd(), .lent = true, .begin = data_at}, entry.size_bytes);
    out.set_checksum(entry.crc32);
    return {};
  }

  // An archive that was replaced has lost its name, but its bytes are unchanged.
  Status check_unchanged() const override {
    os::FileIdentity now;
    int error = 0;
    const bool known = os::identify(file_.fd(), now, error);
    if (known && (now == identity_ || now.same_except_changed_ns(identity_))) return {};
    return Status(Code::kAgainExhausted, Layer::kStore, "the ZIP file was changed after it was opened: open it again")
        .with_key(path_)
        .with_errno(error);
  }

  bool packs() const override { return directory_.packs; }

  Status unpack(const ByteSource& object, std::span<std::byte> out, os::PageBuffer& scratch) override {
    const ZipEntry& entry = directory_.entries[static_cast<std::size_t>(object.entry())];
    const auto packed_bytes = static_cast<std::size_t>(entry.packed_bytes);
    const std::span<std::byte> packed = scratch.reserve(packed_bytes);
    if (packed.data() == nullptr) return Status::out_of_memory();
    HEADRACE_TRY(os::read_exactly(file_.fd(), 0, packed, data_at_[static_cast<std::size_t>(object.entry())]));
    return unpack_zip_entry(entry, packed, out);
  }

  Result<int> open_direct(std::string_view key, const ByteSource& object) override {
    if (!object.offers(Offer::kFile))
      return Status(Code::kUnsupported, Layer::kStore, "a deflated entry cannot be read directly");
    const int direct = file_.on_network() ? -1 : file_.direct_fd();
    if (direct < 0) return no_direct_;
    std::int64_t fd = HEADRACE_FAULT("store_zip.dup", 0);
    if (fd == 0) {
      fd = ::fcntl(direct, F_DUPFD_CLOEXEC, 0);
      if (fd < 0) fd = -errno;
    }
    if (fd < 0) return system_failure(static_cast<int>(-fd), key, "cannot open object for direct I/O");
    return static_cast<int>(fd);
  }

  Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge) override {
    if (!prefix.empty()) HEADRACE_TRY(check_key(prefix));
    return directory_.names.list(prefix, charge);
  }

  Status put(std::string_view key, std::span<const std::byte>) override {
    HEADRACE_TRY(check_key(key));
    return Status(Code::kUnsupported, Layer::kStore, "ZIP stores are read-only").with_key(key);
  }

 private:
  // Waits until any later change would show in the identity: a file changed just now needs one tick of the file
  // system's clock.
  Status identify() {
    constexpr std::int64_t kLongestWaitNs = 2'100'000'000;  // for time stamps of whole seconds
    for (std::int64_t waited_ns = 0;;) {
      int error = 0;
      if (!os::identify(file_.fd(), identity_, error)) {
        return Status(Code::kIo, Layer::kStore, "cannot determine the file's version")
            .with_key(path_)
            .with_errno(error);
      }
      const std::int64_t left_ns = os::unsettled_ns(file_.fd(), identity_);
      if (left_ns == 0 || left_ns > kLongestWaitNs) return {};  // a time stamp in the future says nothing
      if (waited_ns > kLongestWaitNs) {
        return Status(Code::kAgainExhausted, Layer::kStore, "the ZIP file keeps changing").with_key(path_);
      }
      std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
      waited_ns += left_ns;
    }
  }

  const std::string path_, folder_;
  os::FileHandle file_;
  os::FileIdentity identity_;  // from before the directory was read
  ZipDirectory directory_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> data_at_;  // by number; 0: the local header has not been read
  Status not_found_{Code::kNotFound, Layer::kStore, "no such object"};
  Status no_direct_{Code::kUnsupported, Layer::kStore,
                    "not read directly: the file system refuses O_DIRECT, or is a network or FUSE one"};
};

}  // namespace

// `location`: the archive, optionally followed by a folder inside it; or the URL of a remote one.
Result<std::shared_ptr<Store>> open_zip_store(std::string_view location, const StoreOptions& options) {
  try {
    if (is_url(location)) return open_remote_zip(location, options);
    HEADRACE_TRY(refuse_storage_options("zip", options));
    std::string path, folder;
    HEADRACE_TRY(split_at_file(location, "ZIP file", path, folder));
    auto store = std::make_shared<ZipStore>(std::move(path), std::move(folder));
    HEADRACE_TRY(store->read_directory(options));
    return std::shared_ptr<Store>(std::move(store));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
